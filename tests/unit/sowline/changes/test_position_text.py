"""Positions in events, whose era is in another field."""

import pytest

from sowline.changes.position_text import position_before, position_text, read_position, read_position_before
from sowline.model.position import Position


@pytest.mark.parametrize(
    ("position", "text"),
    [(Position(3, 7), "7"), (Position(3, 7, 2), "7.2"), (Position(3, -1), "-1")],
)
def test_a_position_is_its_offset_and_number(position: Position, text: str) -> None:
    """The number is left out for the first change of a log record."""
    assert position_text(position) == text
    assert read_position(3, text) == position


@pytest.mark.parametrize(
    ("after", "text"),
    [
        (Position(3, 7), "7"),
        (Position(3, 7, 2), "7.2"),
        (Position(1, 5), "1/5"),
        (Position(1, 5, 2), "1/5.2"),
    ],
)
def test_a_previous_position_names_another_era(after: Position, text: str) -> None:
    """Otherwise it would be read in the era of the event."""
    assert position_before(after, 3) == text
    assert read_position_before(3, text) == after
