"""The values of documents: JSON values, and UNDEFINED for none. Defines which values are the same, and their order.

Numbers are integers of 64 bits or doubles. As values, `1` and `1.0` differ, and so do `0.0` and `-0.0`.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import cmp_to_key
from typing import Any, Final

from sowline.language.emodb.json_text import json_text
from sowline.language.emodb.text_order import utf16

Json = Any
"""A JSON value: None, bool, int of 64 bits, finite float, str, list, or dict by str."""


class Undefined(Enum):
    """The type of `UNDEFINED`."""

    UNDEFINED = "undefined"

    def __str__(self) -> str:
        return "UNDEFINED"

    __repr__ = __str__


UNDEFINED: Final = Undefined.UNDEFINED
"""No value: the field is missing, or the document is deleted. It is not null, and never part of a value."""

Identity = str | tuple[str]


def identity(value: Json) -> Identity:
    """Return a key that is equal for two values if, and only if, they are the same value, at all levels."""
    # Others are in a tuple: the string `1` and the number 1 have the same text.
    return value if type(value) is str else (json_text(value),)


def same(one: Json, other: Json) -> bool:
    """Whether two values are the same. UNDEFINED is the same as itself only."""
    if one is other:
        return True
    if type(one) is not type(other) or one != other:
        return False
    # In Python, 1, 1.0 and True are equal, and so are 0.0 and -0.0; their texts differ.
    return type(one) in (str, int, bool) or json_text(one) == json_text(other)


def compare_numbers(one: int | float, other: int | float) -> int:
    """Return a negative number, 0 or a positive one. If either is a double, compare doubles: -0.0 is less than 0 and
    0.0.
    """
    if isinstance(one, float) or isinstance(other, float):
        one, other = float(one), float(other)
        if one == other == 0.0:
            return _is_positive(one) - _is_positive(other)
    return (one > other) - (one < other)


def _is_positive(zero: float) -> bool:
    return not str(zero).startswith("-")


def set_key(value: Json) -> tuple[int, Any]:
    """Return the sort key of a value in a set: null, booleans, arrays, objects, numbers, text. 1 and 1.0 tie.

    Arrays and objects sort by their canonical text.
    """
    return _SET_KEYS[type(value)](value)


def as_set(values: Iterable[Json]) -> list[Json]:
    """Return the values sorted as in a set; only the first of values that tie."""
    keyed = sorted(((set_key(value), value) for value in values), key=lambda pair: pair[0])
    return list(_first_of_ties(keyed))


def _first_of_ties(keyed: list[tuple[tuple[int, Any], Json]]) -> Iterator[Json]:
    last: tuple[int, Any] | None = None
    for key, value in keyed:
        if key != last:
            yield value
        last = key


_number_key = cmp_to_key(compare_numbers)

_SET_KEYS: dict[type, Callable[[Any], tuple[int, Any]]] = {
    type(None): lambda null: (0, None),
    bool: lambda flag: (1, flag),
    list: lambda array: (2, utf16(json_text(array))),
    dict: lambda members: (3, utf16(json_text(members))),
    int: lambda number: (4, _number_key(number)),
    float: lambda number: (4, _number_key(number)),
    str: lambda text: (5, utf16(text)),
}
