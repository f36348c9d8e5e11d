"""How text sorts, and the keys of objects: by UTF-16 code units, whatever Python's own order is."""

import re

_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


def utf16(text: str) -> str:
    """A text that compares with its like as the given one does by UTF-16 code units."""
    return text if text.isascii() else _ASTRAL.sub(_surrogates, text)


def key_order(key: str) -> tuple[bool, str]:
    """How an object's key sorts in canonical text: those that begin with `~` come first."""
    return not key.startswith("~"), utf16(key)


def _surrogates(match: re.Match[str]) -> str:
    offset = ord(match[0]) - 0x10000
    return chr(0xD800 + (offset >> 10)) + chr(0xDC00 + (offset & 0x3FF))
