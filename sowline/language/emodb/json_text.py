"""The canonical text of a JSON value: the same for equal values, whatever the order of their keys.

It has no blanks, and its keys are sorted. A double has a point or an exponent, so that it is read as a double again.
"""

import re
from decimal import Decimal
from typing import Any

from sowline.language.emodb.text_order import key_order

_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_NAMED = {'"': r"\"", "\\": r"\\", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t"}


def json_text(value: Any) -> str:
    """Return the canonical text of a value, at any nesting depth."""
    if type(value) not in (list, dict):
        return _scalar_text(value)
    pieces: list[str] = []
    # A stack of what remains, instead of recursion: text, or a container that is not written yet.
    rest: list[str | list[Any] | dict[str, Any]] = [value]
    while rest:
        part = rest.pop()
        if isinstance(part, str):
            pieces.append(part)
        else:
            rest.extend(reversed(_array(part) if isinstance(part, list) else _object(part)))
    return "".join(pieces)


def quoted(text: str) -> str:
    """Return a text as a JSON string with the fewest escapes."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _array(elements: list[Any]) -> list[Any]:
    parts: list[Any] = ["["]
    for element in elements:
        parts += (_part(element), ",")
    return _closed(parts, "]")


def _object(members: dict[str, Any]) -> list[Any]:
    parts: list[Any] = ["{"]
    for key in sorted(members, key=key_order):
        parts += (quoted(key) + ":", _part(members[key]), ",")
    return _closed(parts, "}")


def _closed(parts: list[Any], bracket: str) -> list[Any]:
    """Return the parts with the closing bracket instead of their last comma."""
    if len(parts) > 1:
        parts.pop()
    parts.append(bracket)
    return parts


def _part(value: Any) -> Any:
    return value if type(value) in (list, dict) else _scalar_text(value)


def _scalar_text(value: Any) -> str:
    if type(value) is str:
        return quoted(value)
    if value is None:
        return "null"
    if type(value) is bool:
        return "true" if value else "false"
    return _double_text(value) if type(value) is float else str(value)


def _double_text(number: float) -> str:
    """Return the shortest digits that read back as the number: plain between 0.001 and 10,000,000, else `d.dE±n`."""
    # These are Java's limits for plain digits, so that EmoDB writes the same text (test_a_number_keeps_its_kind).
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    assert isinstance(exponent, int)
    mantissa = "".join(map(str, digits)).rstrip("0")
    power = len(digits) + exponent - 1
    return f"{'-' if sign else ''}{mantissa[0]}.{mantissa[1:] or '0'}E{power}"


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return _NAMED.get(character) or f"\\u{ord(character):04X}"
