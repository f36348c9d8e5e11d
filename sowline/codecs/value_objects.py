"""Values that JSON lacks, as objects whose name begins with `$`, like `{"$binary": "AAE="}`: value objects.

Each message type reserves some names for them. An object that has exactly reserved names is a value: a delta replaces
it as a whole, and a map of a message that looks like one is refused.
"""

import re
from base64 import b64encode
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import orjson

from sowline.codecs.errors import bad_message
from sowline.codecs.schemaless import json_bytes
from sowline.errors import SowlineError
from sowline.model.merge import DEPTH_MAX, merge

Reserved = frozenset[frozenset[str]]
"""The names that the value objects of a message type have."""

SECONDS_MIN: Final = -62_135_596_800
SECONDS_MAX: Final = 253_402_300_799
"""The years 1 to 9999, in seconds since 1970."""

NON_FINITE: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
"""The doubles that JSON can't write as numbers, by their text."""

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - all times here are UTC
_SECOND: Final = timedelta(seconds=1)
_INSTANT: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,9}))?Z")
_SHOWN_CHARS_MAX: Final = 60


class ValueObject(dict[str, Any]):
    """The JSON of a value. Its class tells it from a map of a message that has the same members."""


def reserved_names(names: Iterable[str]) -> Reserved:
    """Return the names of value objects; those of one object have a blank between them."""
    return frozenset(frozenset(several.split()) for several in names)


def is_value_object(part: Any, reserved: Reserved) -> bool:
    """Return whether a part of canonical JSON is a value object."""
    return type(part) is dict and len(part) <= 2 and frozenset(part) in reserved


def containers(document: Any) -> Iterator[Any]:
    """Yield a document and all objects and arrays in it, outer ones first, without recursion.

    The caller may change the values of a yielded container before it takes the next one.
    """
    pending = [document]
    while pending:
        container = pending.pop()
        yield container
        parts = container.values() if isinstance(container, dict) else container
        pending.extend(part for part in parts if isinstance(part, dict | list))


def members(container: Any) -> Iterable[tuple[Any, Any]]:
    """Return the keys and values of an object or an array."""
    return container.items() if isinstance(container, dict) else enumerate(container)


def check_no_look_alike(part: Any, reserved: Reserved) -> None:
    """Raise `bad message` if a map of a message would be a value object in JSON."""
    if is_value_object(part, reserved):
        raise bad_message(
            f"expected no map whose only names are {', '.join(part)}: in JSON that is another value;"
            " rename one, or add another member"
        )


def may_have_names(body: bytes) -> bool:
    """Return whether JSON may have a name that begins with `$`, which can also be written as an escape."""
    return b"$" in body or b"\\u0024" in body


def replace_value_objects(
    document: Any, reserved: Reserved, value_of: Callable[[dict[str, Any]], Any]
) -> None:
    """Replace all value objects in a document by the results of `value_of`, inner ones first.

    `value_of` raises ValueError with the expected form. Raise `bad message` with that and the value.
    """
    found: list[tuple[Any, Any, dict[str, Any]]] = []
    pending = [document]
    for container in pending:
        for key, part in members(container):
            if type(part) is dict:
                pending.append(part)
                if is_value_object(part, reserved):
                    found.append((container, key, part))
            elif type(part) is list:
                pending.append(part)
    # Outer objects were found first: backwards, the inner ones are replaced before the outer ones need their values.
    for container, key, part in reversed(found):
        try:
            container[key] = value_of(part)
        except ValueError as error:
            raise bad_message(f"expected {error}, got {shown(part)}") from None


def merged_values(body: bytes, delta: bytes, reserved: Reserved) -> bytes:
    """Return a record's JSON after a delta; a value object is replaced as a whole, and replaces as a whole.

    Everything else is as in `sowline.model.merge`.
    """
    # A flat delta replaces every member anyway, and without `$` there are no value objects: the plain merge is
    # faster.
    if delta.count(b"{") == 1 or (b"$" not in delta and b"$" not in body):
        return merge(body, delta)
    record = orjson.loads(body)
    rest = [(record, orjson.loads(delta), DEPTH_MAX)]
    while rest:
        before, fields, depth = rest.pop()
        if not depth:
            raise SowlineError(
                "too deep", f"expected at most {DEPTH_MAX} levels of nested objects to merge, got more"
            )
        for name, value in fields.items():
            old = before.get(name)
            if _is_merged(old, reserved) and _is_merged(value, reserved):
                rest.append((old, value, depth - 1))
            else:
                before[name] = value
    return json_bytes(record)


def _is_merged(part: Any, reserved: Reserved) -> bool:
    return type(part) is dict and not is_value_object(part, reserved)


def shown(part: Any) -> str:
    """Return a short excerpt of a value."""
    text = json_bytes(part, str).decode()
    return text if len(text) <= _SHOWN_CHARS_MAX else f"{text[:_SHOWN_CHARS_MAX]}…"


# values


def base64_text(data: bytes) -> str:
    """Return bytes as base64."""
    return b64encode(data).decode()


def bytes_of(text: Any) -> bytes:
    """Return the bytes of base64; raise ValueError."""
    if type(text) is str:
        try:
            # Without the strict mode, characters that are not base64 are skipped.
            return a2b_base64(text, strict_mode=True)
        except ValueError:
            pass
    raise ValueError("bytes as base64 text")


def non_finite_text(number: float) -> str:
    """Return the text of a double that is not finite."""
    return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"


def instant_text(seconds: int, fraction: int, digits: int) -> str:
    """Return a time in the years 1 to 9999; `fraction` counts units of 10 to the minus `digits` seconds."""
    return f"{(_EPOCH + timedelta(seconds=seconds)).isoformat()}.{fraction:0{digits}}Z"


def instant_of(text: Any, digits: int) -> tuple[int, int]:
    """Return the seconds since 1970 and the fraction of a time as text with at most this many digits.

    Raise ValueError if the text is not a time.
    """
    match = _INSTANT.fullmatch(text) if type(text) is str else None
    fraction = (match and match[2]) or ""
    if match is not None and len(fraction) <= digits:
        try:
            seconds = (datetime.fromisoformat(match[1]) - _EPOCH) // _SECOND
        except ValueError:
            pass
        else:
            return seconds, int(fraction.ljust(digits, "0"))
    raise ValueError(f"a time like 2026-11-26T12:34:56.{'789' * (digits // 3)}Z")
