"""Numbers as the filter language has them: exact integers of 64 bits (signed or unsigned), else doubles."""

import re

Number = int | float

INT64_MIN = -(2**63)
UINT64_MAX = 2**64 - 1

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"[+-]?[0-9]+")


def parse_number(text: str) -> Number | None:
    """The number that the whole text spells, or `None`. Blanks, `nan`, `inf`, `0x1f` spell none."""
    if _NUMBER.fullmatch(text) is None:
        return None
    digits = text.lstrip("+-0")
    # Python refuses to read very long integers; anything over 20 digits is beyond 64 bits anyway.
    if len(digits) > 20 or _INTEGER.fullmatch(text) is None:
        return float(text)
    magnitude = int(digits or "0")
    return narrow(-magnitude if text[0] == "-" else magnitude)


def narrow(number: int) -> Number:
    """The integer itself where 64 bits hold it, else the nearest double (infinite if need be)."""
    if INT64_MIN <= number <= UINT64_MAX:
        return number
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
