"""The numbers of the filter language: exact integers of 64 bits (signed or unsigned), and doubles."""

import re

Number = int | float

INT64_MIN = -(2**63)
UINT64_MAX = 2**64 - 1

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"[+-]?[0-9]+")


def parse_number(text: str) -> Number | None:
    """Return the number that a text represents as a whole, else None, also for blanks, `nan`, `inf` and `0x1f`."""
    # `float` alone would read `1_0`, ` 1`, `nan` and the digits of other scripts (test_strings_that_spell_numbers).
    if _NUMBER.fullmatch(text) is None:
        return None
    digits = text.lstrip("+-0")
    # Python refuses to read very long integers. More than 20 digits exceed 64 bits in any case.
    if len(digits) > 20 or _INTEGER.fullmatch(text) is None:
        return float(text)
    magnitude = int(digits or "0")
    return narrow(-magnitude if text[0] == "-" else magnitude)


def narrow(number: int) -> Number:
    """Return an integer unchanged if it fits 64 bits, else the nearest double (possibly infinite)."""
    if INT64_MIN <= number <= UINT64_MAX:
        return number
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
