"""Texts of users, as part of a line that Sowline writes."""

import re
from typing import Final

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def printable(text: str) -> str:
    """Return a text with its control characters and line breaks escaped as in Python.

    It then stays on its line. A terminal does not obey it, and a header of HTTP may have it.
    """
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)
