"""Values of records as the text of a cell."""

from typing import Any

import pytest

from sowline.model.cell import CELL_MAX, cell_text, printed


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a b", "a b"),
        ("", ""),
        (None, "-"),
        (5, "5"),
        (1.5, "1.5"),
        (True, "true"),
        (2**70, str(2**70)),
        ({"a": [1, "x"]}, '{"a":[1,"x"]}'),
        ("a\nb\x1b[31m", "a·b·[31m"),
        ("é", "é"),
    ],
)
def test_a_value_is_text_or_json(value: Any, text: str) -> None:
    """Nothing in it can break the table or control the terminal."""
    assert cell_text(value) == text


def test_a_long_value_is_cut() -> None:
    """The last character shows that there is more."""
    assert cell_text("x" * CELL_MAX) == "x" * CELL_MAX
    assert cell_text("x" * (CELL_MAX + 1)) == "x" * (CELL_MAX - 1) + "…"
    assert len(cell_text(list(range(1000)))) == CELL_MAX


def test_printed_text_keeps_its_length() -> None:
    """Each character that can't be printed becomes one that can."""
    assert printed("a\t\u2028b") == "a··b"
