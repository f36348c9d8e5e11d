"""The JSON form of Protobuf's well-known types. Containers are filled later, by the caller's list of pending work."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from google.protobuf.descriptor import Descriptor
from google.protobuf.unknown_fields import UnknownFieldSet

from sowline.codecs.protobuf.fields import is_wrapper, well_known_name, which_oneof
from sowline.codecs.protobuf.scalars import (
    UnfitValueError,
    read_bytes,
    scalar_reader,
    scalar_writer,
    write_bytes,
)

Pending = list[tuple[Callable[..., int], Any, Any]]
"""A pending conversion: a function, the message to read, and the object or array to fill.

The function returns the number of members or elements.
"""

Reading = Callable[[Any, Pending], Any]

Unwritten = list[tuple[Callable[..., None], Any, Any, str]]
"""A pending conversion: a function, the message to fill, the JSON, and its path."""

Writing = Callable[[Any, Any, str, Unwritten], None]

TIMESTAMP_SECONDS: Final = (-62135596800, 253402300799)
DURATION_SECONDS_MAX: Final = 315576000000

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# fromisoformat() also accepts a date alone, weeks, and other separators.
_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DURATION = re.compile(r"(-?)(\d{1,12})(?:\.(\d{1,9}))?s", re.ASCII)


def well_known_reader(message: Descriptor) -> Reading:
    """Return the function that makes JSON of a well-known type, or raises `UnfitValueError`."""
    read = _wrapper_reader(message) if is_wrapper(message) else _READERS[well_known_name(message)]

    def read_known(value: Any, pending: Pending) -> Any:
        _check_no_unknown(value)
        return read(value, pending)

    return read_known


def well_known_writer(message: Descriptor) -> Writing:
    """Return the function that fills a well-known type from JSON, or raises `UnfitValueError`."""
    return _wrapper_writer(message) if is_wrapper(message) else _WRITERS[well_known_name(message)]


def _check_no_unknown(value: Any) -> None:
    # The JSON form has no member for unknown fields: they would be lost.
    if len(UnknownFieldSet(value)):
        raise UnfitValueError("a well-known type without unknown fields", "some")


def _wrapper_reader(message: Descriptor) -> Reading:
    read = scalar_reader(message.fields[0])

    def read_wrapper(wrapper: Any, pending: Pending) -> Any:
        return wrapper.value if read is None else read(wrapper.value)

    return read_wrapper


def _wrapper_writer(message: Descriptor) -> Writing:
    write = scalar_writer(message.fields[0])

    def write_wrapper(wrapper: Any, value: Any, path: str, unwritten: Unwritten) -> None:
        wrapper.value = write(value)

    return write_wrapper


def _read_timestamp(timestamp: Any, pending: Pending) -> str:
    seconds, nanos = timestamp.seconds, timestamp.nanos
    if not (TIMESTAMP_SECONDS[0] <= seconds <= TIMESTAMP_SECONDS[1] and 0 <= nanos < 10**9):
        raise UnfitValueError("a timestamp of the years 1 to 9999", f"{seconds} s and {nanos} ns")
    return f"{(_EPOCH + timedelta(seconds=seconds)).isoformat()[:19]}{_fraction(nanos)}Z"


def _write_timestamp(timestamp: Any, value: Any, path: str, unwritten: Unwritten) -> None:
    match = _TIMESTAMP.fullmatch(value) if type(value) is str else None
    try:
        if match is None:
            raise ValueError
        moment = datetime.fromisoformat(match[1].upper() + match[3].upper())
        seconds = (moment - _EPOCH) // timedelta(seconds=1)
        # An offset may move the time out of the years 1 to 9999.
        if not TIMESTAMP_SECONDS[0] <= seconds <= TIMESTAMP_SECONDS[1]:
            raise ValueError
    except ValueError:
        raise UnfitValueError("a time like 2026-11-26T12:34:56.789Z", value) from None
    timestamp.seconds, timestamp.nanos = seconds, _nanos(match[2])


def _read_duration(duration: Any, pending: Pending) -> str:
    seconds, nanos = duration.seconds, duration.nanos
    is_mixed = (seconds < 0 < nanos) or (nanos < 0 < seconds)
    if is_mixed or abs(seconds) > DURATION_SECONDS_MAX or abs(nanos) >= 10**9:
        raise UnfitValueError("a duration of at most 10,000 years", f"{seconds} s and {nanos} ns")
    sign = "-" if seconds < 0 or nanos < 0 else ""
    return f"{sign}{abs(seconds)}{_fraction(abs(nanos))}s"


def _write_duration(duration: Any, value: Any, path: str, unwritten: Unwritten) -> None:
    match = _DURATION.fullmatch(value) if type(value) is str else None
    if match is None or int(match[2]) > DURATION_SECONDS_MAX:
        raise UnfitValueError("a duration like 1.500s", value)
    sign = -1 if match[1] else 1
    duration.seconds, duration.nanos = sign * int(match[2]), sign * _nanos(match[3])


def _fraction(nanos: int) -> str:
    """Return a fraction of a second with 0, 3, 6 or 9 digits, as Protobuf's JSON mapping has it."""
    if not nanos:
        return ""
    if nanos % 1000:
        return f".{nanos:09}"
    return f".{nanos // 1000:06}" if nanos % 10**6 else f".{nanos // 10**6:03}"


def _nanos(digits: str | None) -> int:
    return int(digits.ljust(9, "0")) if digits else 0


def _read_mask(mask: Any, pending: Pending) -> str:
    paths = list(mask.paths)
    if any(not path or "," in path for path in paths):
        raise UnfitValueError("paths of a field mask without commas", paths)
    return ",".join(paths)


def _write_mask(mask: Any, value: Any, path: str, unwritten: Unwritten) -> None:
    paths = value.split(",") if type(value) is str and value else []
    if type(value) is not str or "" in paths:
        raise UnfitValueError("paths with commas between them", value)
    mask.paths.extend(paths)


def _read_any(message: Any, pending: Pending) -> dict[str, str]:
    # The message inside stays as bytes: nothing here knows its schema.
    return {"@type": message.type_url, "value": read_bytes(message.value)}


def _write_any(message: Any, value: Any, path: str, unwritten: Unwritten) -> None:
    if type(value) is not dict or value.keys() != {"@type", "value"} or type(value["@type"]) is not str:
        raise UnfitValueError("an object with @type and value, both texts", value)
    message.type_url, message.value = value["@type"], write_bytes(value["value"])


def read_elements(messages: Any, read: Reading, pending: Pending) -> list[Any]:
    """Return an array that is filled with messages, one after the other.

    The library slows down when very many of its messages are in use at once.
    """
    elements: list[Any] = []
    rest = iter(messages)

    def fill_next(source: Any, target: list[Any], unread: Pending) -> int:
        for one in source:
            unread.append((fill_next, source, target))
            target.append(read(one, unread))
            return 1
        return 0

    pending.append((fill_next, rest, elements))
    return elements


def read_entries(
    values: Any, key_text: Callable[[Any], str], read: Reading, pending: Pending
) -> dict[str, Any]:
    """Return an object that is filled with the messages of a map, one after the other."""
    members: dict[str, Any] = {}
    rest = iter(sorted((key_text(key), key) for key in values))

    def fill_next(source: Any, target: dict[str, Any], unread: Pending) -> int:
        for name, key in source:
            unread.append((fill_next, source, target))
            target[name] = read(values[key], unread)
            return 1
        return 0

    pending.append((fill_next, rest, members))
    return members


def _read_struct(struct: Any, pending: Pending) -> dict[str, Any]:
    _check_no_unknown(struct)
    return read_entries(struct.fields, str, _read_value, pending)


def _read_list(values: Any, pending: Pending) -> list[Any]:
    _check_no_unknown(values)
    return read_elements(values.values, _read_value, pending)


def _read_value(value: Any, pending: Pending) -> Any:
    _check_no_unknown(value)
    kind = which_oneof(value, "kind")
    if kind == "struct_value":
        return _read_struct(value.struct_value, pending)
    if kind == "list_value":
        return _read_list(value.list_value, pending)
    # NullValue is an open enum, so it may hold other numbers.
    if kind == "null_value" and not value.null_value:
        return None
    if kind == "number_value" and value.number_value - value.number_value == 0:
        return value.number_value
    if kind in ("string_value", "bool_value"):
        return getattr(value, kind)
    raise UnfitValueError("a JSON value", f"{kind or 'none'}")


def _write_struct(struct: Any, value: Any, path: str, unwritten: Unwritten) -> None:
    if type(value) is not dict:
        raise UnfitValueError("an object", value)
    unwritten.extend((_write_value, struct.fields[name], part, path) for name, part in value.items())


def _write_list(values: Any, value: Any, path: str, unwritten: Unwritten) -> None:
    if type(value) is not list:
        raise UnfitValueError("an array", value)
    unwritten.extend((_write_value, values.values.add(), part, path) for part in value)


def _write_value(message: Any, value: Any, path: str, unwritten: Unwritten) -> None:
    if value is None:
        message.null_value = 0
    elif type(value) is bool:
        message.bool_value = value
    elif type(value) is str:
        message.string_value = value
    elif type(value) is dict:
        # An empty object sets no field, but must be there: without it, the value would have no kind.
        message.struct_value.SetInParent()
        _write_struct(message.struct_value, value, path, unwritten)
    elif type(value) is list:
        message.list_value.SetInParent()
        _write_list(message.list_value, value, path, unwritten)
    else:
        message.number_value = value


_READERS: Final[dict[str, Reading]] = {
    "Any": _read_any,
    "Duration": _read_duration,
    "FieldMask": _read_mask,
    "ListValue": _read_list,
    "Struct": _read_struct,
    "Timestamp": _read_timestamp,
    "Value": _read_value,
}

_WRITERS: Final[dict[str, Writing]] = {
    "Any": _write_any,
    "Duration": _write_duration,
    "FieldMask": _write_mask,
    "ListValue": _write_list,
    "Struct": _write_struct,
    "Timestamp": _write_timestamp,
    "Value": _write_value,
}
