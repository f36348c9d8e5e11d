"""Texts from users in lines that Sowline writes."""

import pytest

from sowline.model.printable import printable


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a b é 日", "a b é 日"),
        ("a\r\nb", "a\\r\\nb"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\x00\x7f\x9f", "\\x00\\x7f\\x9f"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("a\\n", "a\\n"),
    ],
)
def test_a_text_stays_on_its_line(text: str, line: str) -> None:
    """Control characters and line breaks are escaped; all others stay."""
    assert printable(text) == line
