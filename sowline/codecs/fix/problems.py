"""The errors of messages and options of FIX and NVFIX."""

from typing import Final

from sowline.errors import SowlineError

_SHOWN_CHARS_MAX: Final = 40


def bad_message(message: str) -> SowlineError:
    """Return the error about a message, or about JSON that can't be written as one."""
    return SowlineError("bad message", message)


def bad_schema(message: str) -> SowlineError:
    """Return the error about options or a data dictionary."""
    return SowlineError("bad schema", message)


def shown(text: str | bytes) -> str:
    """Return a quoted excerpt of a text, or of bytes that need not be UTF-8."""
    part = text[: _SHOWN_CHARS_MAX + 1]
    if isinstance(part, bytes):
        part = part.decode(errors="backslashreplace")
    return repr(part) if len(part) <= _SHOWN_CHARS_MAX else repr(part[:_SHOWN_CHARS_MAX] + "…")
