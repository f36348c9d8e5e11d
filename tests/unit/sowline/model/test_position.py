"""Positions: their text, and their order."""

import pytest

from sowline.errors import SowlineError
from sowline.model.position import Position, before_the_log


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("0", Position(0, 0)),
        ("1187", Position(0, 1187)),
        ("1187.2", Position(0, 1187, 2)),
        ("3/7", Position(3, 7)),
        ("3/7.1", Position(3, 7, 1)),
        ("-1", Position(0, -1)),
        ("2/-1", Position(2, -1)),
    ],
)
def test_text_and_back(text: str, position: Position) -> None:
    """A position reads from its text and writes the same text."""
    assert Position.parse(text) == position
    assert str(position) == text


@pytest.mark.parametrize("text", ["7.0", "0/7"])
def test_zero_parts_may_be_written(text: str) -> None:
    """An index or era of zero may be written out, but is not written."""
    assert str(Position.parse(text)) == "7"


@pytest.mark.parametrize(
    "text", ["", "x", "1.", ".1", "1/", "/1", "-2", "1.-1", " 1", "1 ", "1e3", "٣", "1\n", "9" * 20]
)
def test_anything_else_is_refused(text: str) -> None:
    """What is no position is an invalid bookmark, and the error shows it."""
    with pytest.raises(SowlineError, match="expected a position") as error:
        Position.parse(text)
    assert error.value.reason == "invalid bookmark"


def test_positions_follow_each_other_as_they_compare() -> None:
    """The era counts first, then the offset, then the index."""
    ordered = [
        before_the_log(),
        Position(0, 0),
        Position(0, 0, 1),
        Position(0, 10),
        before_the_log(1),
        Position(1, 0),
    ]
    shuffled = [ordered[at] for at in (3, 0, 5, 1, 4, 2)]
    assert sorted(shuffled) == ordered
