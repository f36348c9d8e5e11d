"""The values of BSON that JSON lacks, as value objects with the names of MongoDB Extended JSON v2, and back.

https://github.com/mongodb/specifications/blob/master/source/extended-json/extended-json.md
"""

import re
from collections.abc import Callable
from decimal import DecimalException
from typing import Any, Final
from uuid import UUID

from bson.binary import Binary
from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.dbref import DBRef
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

from sowline.codecs.value_objects import (
    NON_FINITE,
    SECONDS_MAX,
    SECONDS_MIN,
    ValueObject,
    base64_text,
    bytes_of,
    instant_of,
    instant_text,
    reserved_names,
)

_DECIMAL_CHARS_MAX: Final = 100
_DIGITS: Final = 3
_FLAGS: Final = {
    "i": re.IGNORECASE,
    "l": re.LOCALE,
    "m": re.MULTILINE,
    "s": re.DOTALL,
    "u": re.UNICODE,
    "x": re.VERBOSE,
}
_OBJECT_ID: Final = re.compile(r"[0-9a-fA-F]{24}")
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_DOUBLE: Final = re.compile(r"-?[0-9]{1,400}(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,4})?")
_SUBTYPE: Final = re.compile(r"[0-9a-fA-F]{1,2}")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_UUID_SUBTYPE: Final = 4


# to JSON


def value_json(value: Any) -> Any:
    """Return the JSON of a value that orjson can't write. The result may contain more such values."""
    return _JSON[type(value)](value)


def _bytes_json(data: bytes, subtype: int) -> dict[str, Any]:
    return {"$binary": ValueObject(base64=base64_text(data), subType=f"{subtype:02x}")}


def _date_json(date: DatetimeMS) -> dict[str, Any]:
    seconds, millis = divmod(int(date), 1000)
    if SECONDS_MIN <= seconds <= SECONDS_MAX:
        return {"$date": instant_text(seconds, millis, _DIGITS)}
    return {"$date": ValueObject({"$numberLong": str(int(date))})}


def _regex_json(regex: Regex[Any]) -> dict[str, Any]:
    options = "".join(letter for letter, flag in _FLAGS.items() if regex.flags & flag)
    return {"$regularExpression": ValueObject(pattern=regex.pattern, options=options)}


def _code_json(code: Code) -> dict[str, Any]:
    text = str(code)
    return {"$code": text} if code.scope is None else {"$code": text, "$scope": code.scope}


def _reference_json(reference: DBRef) -> dict[str, Any]:
    # as_doc() returns a SON, a subclass of dict for which `_JSON` has no form.
    document = reference.as_doc()
    return {name: document[name] for name in document}


_JSON: Final[dict[type, Callable[[Any], Any]]] = {
    ValueObject: dict,
    Int64: int,
    bytes: lambda data: _bytes_json(data, 0),
    Binary: lambda data: _bytes_json(data, data.subtype),
    ObjectId: lambda oid: {"$oid": str(oid)},
    DatetimeMS: _date_json,
    Decimal128: lambda decimal: {"$numberDecimal": str(decimal)},
    Regex: _regex_json,
    Timestamp: lambda stamp: {"$timestamp": ValueObject(t=stamp.time, i=stamp.inc)},
    Code: _code_json,
    DBRef: _reference_json,
    MinKey: lambda key: {"$minKey": 1},
    MaxKey: lambda key: {"$maxKey": 1},
}


# from JSON


def value_of(part: dict[str, Any]) -> Any:
    """Return the value of a value object, whose inner value objects are values; raise ValueError if invalid."""
    if "$scope" in part:
        return _scoped_code(part["$code"], part["$scope"])
    ((name, value),) = part.items()
    return _VALUES[name](value)


def _scoped_code(text: Any, scope: Any) -> Code:
    if type(text) is not str or type(scope) is not dict:
        raise ValueError("code as text, and an object as its scope")
    return Code(text, scope)


def _code(text: Any) -> Code:
    if type(text) is str:
        return Code(text)
    raise ValueError("code as text")


def _matching(value: Any, pattern: re.Pattern[str], expected: str) -> str:
    if type(value) is str and pattern.fullmatch(value):
        return value
    raise ValueError(expected)


def _object_id(value: Any) -> ObjectId:
    return ObjectId(_matching(value, _OBJECT_ID, "an ObjectId of 24 hexadecimal digits"))


def _integer_of(bits: int) -> Callable[[Any], int]:
    expected = f"an integer of {bits} bits as text"

    def parse(value: Any) -> int:
        number = int(_matching(value, _INTEGER, expected))
        if -(1 << bits - 1) <= number < 1 << bits - 1:
            return number
        raise ValueError(expected)

    return parse


_int32: Final = _integer_of(32)
_int64: Final = _integer_of(64)


def _double(value: Any) -> float:
    if type(value) is str and value in NON_FINITE:
        return NON_FINITE[value]
    return float(_matching(value, _DOUBLE, "a double as text, or NaN, Infinity or -Infinity"))


def _date(value: Any) -> DatetimeMS:
    # `{"$date": {"$numberLong": …}}`, the form of dates outside of the years 1 to 9999, has become this already.
    if type(value) is Int64:
        return DatetimeMS(int(value))
    seconds, millis = instant_of(value, _DIGITS)
    return DatetimeMS(seconds * 1000 + millis)


def _decimal(value: Any) -> Decimal128:
    try:
        # The time to parse a decimal grows with its length, and 34 digits need no more.
        if type(value) is str and len(value) <= _DECIMAL_CHARS_MAX:
            return Decimal128(value)
    except DecimalException:
        pass
    raise ValueError("a decimal of at most 34 digits as text")


def _binary(value: Any) -> bytes:
    expected = 'an object like {"base64": "AAE=", "subType": "00"}'
    if type(value) is not dict or value.keys() != {"base64", "subType"}:
        raise ValueError(expected)
    data, subtype = bytes_of(value["base64"]), int(_matching(value["subType"], _SUBTYPE, expected), 16)
    return Binary(data, subtype) if subtype else data


def _uuid(value: Any) -> Binary:
    return Binary(UUID(_matching(value, _UUID, "a UUID as text")).bytes, _UUID_SUBTYPE)


def _regex(value: Any) -> Regex[str]:
    if type(value) is dict and value.keys() == {"pattern", "options"}:
        pattern, options = value["pattern"], value["options"]
        if (
            type(pattern) is str
            and type(options) is str
            # BSON ends a pattern at its first zero byte.
            and "\0" not in pattern
            and set(options) <= _FLAGS.keys()
        ):
            return Regex(pattern, options)
    raise ValueError(f'an object like {{"pattern": "^a", "options": "i"}} with options of {"".join(_FLAGS)}')


def _timestamp(value: Any) -> Timestamp:
    if type(value) is dict and value.keys() == {"t", "i"}:
        numbers = [value["t"], value["i"]]
        if all(type(number) is int and 0 <= number < 1 << 32 for number in numbers):
            return Timestamp(*numbers)
    raise ValueError('an object like {"t": 1, "i": 2} with integers from 0 to 4294967295')


def _end_key(kind: type) -> Callable[[Any], Any]:
    def parse(value: Any) -> Any:
        # In Python, true and 1.0 equal 1.
        if type(value) is int and value == 1:
            return kind()
        raise ValueError("the number 1")

    return parse


def _deprecated(value: Any) -> Any:
    raise ValueError(
        "no symbol, undefined or DBPointer, which BSON deprecates: write a text, null or a DBRef"
    )


_VALUES: Final[dict[str, Callable[[Any], Any]]] = {
    "$oid": _object_id,
    "$date": _date,
    "$numberInt": _int32,
    "$numberLong": lambda value: Int64(_int64(value)),
    "$numberDouble": _double,
    "$numberDecimal": _decimal,
    "$binary": _binary,
    "$uuid": _uuid,
    "$regularExpression": _regex,
    "$timestamp": _timestamp,
    "$code": _code,
    "$minKey": _end_key(MinKey),
    "$maxKey": _end_key(MaxKey),
    "$symbol": _deprecated,
    "$undefined": _deprecated,
    "$dbPointer": _deprecated,
}

RESERVED: Final = reserved_names([*_VALUES, "$code $scope"])
"""The names of BSON's value objects."""
