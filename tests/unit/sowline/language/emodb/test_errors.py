"""The error of a text, and how it names a position."""

from sowline.errors import SowlineError
from sowline.language.emodb.errors import BAD_DELTA, EXCERPT_CHARS_MAX, DocumentError, excerpt, location


def test_an_error_has_a_reason_and_a_position() -> None:
    """Clients read the reason, and editors the position."""
    error = DocumentError(BAD_DELTA, "expected a delta", 4)
    assert isinstance(error, SowlineError)
    assert (error.reason, error.message, error.position) == ("bad delta", "expected a delta", 4)


def test_a_position_in_words() -> None:
    """Columns and lines count from 1; a text of one line needs no number of the line."""
    assert location("abc", 2) == "column 3"
    assert location("abc\nde\nf", 0) == "line 1, column 1"
    assert location("abc\nde\nf", 5) == "line 2, column 2"
    assert location("abc\nde\nf", 7) == "line 3, column 1"


def test_an_excerpt_is_short() -> None:
    """A long text ends in dots."""
    assert excerpt("x" * EXCERPT_CHARS_MAX) == "x" * EXCERPT_CHARS_MAX
    assert excerpt("x" * (EXCERPT_CHARS_MAX + 1)) == "x" * (EXCERPT_CHARS_MAX - 3) + "..."
