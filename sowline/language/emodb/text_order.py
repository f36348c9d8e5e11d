"""The order of texts and of object keys: by UTF-16 code units, unlike Python's order."""

import re

_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


def utf16(text: str) -> str:
    """Return a key that sorts like the text by UTF-16 code units."""
    return text if text.isascii() else _ASTRAL.sub(_surrogates, text)


def key_order(key: str) -> tuple[bool, str]:
    """Return the sort key of an object's key in canonical text: keys that begin with `~` come first."""
    return not key.startswith("~"), utf16(key)


def _surrogates(match: re.Match[str]) -> str:
    offset = ord(match[0]) - 0x10000
    return chr(0xD800 + (offset >> 10)) + chr(0xDC00 + (offset & 0x3FF))
