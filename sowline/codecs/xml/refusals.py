"""Errors of messages that are refused."""

from typing import Final

from sowline.errors import SowlineError

_SHOWN_CHARS_MAX: Final = 60


def bad_message(message: str) -> SowlineError:
    """Return the error of a message that is not XML as expected, or of JSON that XML can't express."""
    return SowlineError("bad message", message)


def excerpt(text: str) -> str:
    """Return the beginning of a text in quotes."""
    return repr(text if len(text) <= _SHOWN_CHARS_MAX else f"{text[: _SHOWN_CHARS_MAX - 3]}...")
