"""Texts from users, made safe for a line that Sowline writes."""

import re
from typing import Final

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def printable(text: str) -> str:
    """Return a text with its control characters and line breaks escaped as in Python.

    The result stays on one line, can't control a terminal, and is valid in an HTTP header.
    """
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)
