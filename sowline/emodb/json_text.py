"""The canonical text of a JSON value: one text for each value, whatever order its keys were written in.

No blanks; keys sorted; a double has a point or an exponent, so that it reads back as one.
"""

import re
from decimal import Decimal
from typing import Any

from sowline.emodb.text_order import key_order

_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_NAMED = {'"': r"\"", "\\": r"\\", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t"}


def json_text(value: Any) -> str:
    """The canonical text of a value, however deep it nests."""
    if type(value) not in (list, dict):
        return _scalar_text(value)
    pieces: list[str] = []
    # What is yet to come, last first: text, or a container that is still to be spelled. So nothing recurses.
    rest: list[Any] = [value]
    while rest:
        part = rest.pop()
        if type(part) is str:
            pieces.append(part)
        else:
            rest.extend(reversed(_array(part) if type(part) is list else _object(part)))
    return "".join(pieces)


def quoted(text: str) -> str:
    """A text as a JSON string: only what must be escaped is."""
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
    """The parts with the bracket for their last comma."""
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
    """The shortest digits that read back as the number: plain between 0.001 and 10,000,000, else `d.dE±n`."""
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
