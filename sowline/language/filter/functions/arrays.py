"""Functions of whole arrays. A scalar is an array of one element; a missing array has no elements."""

from collections.abc import Callable
from functools import partial, reduce
from math import nan

from sowline.language.filter.arithmetic import OPERATIONS
from sowline.language.filter.evaluate import to_number, to_text
from sowline.language.filter.functions.registry import Function, array, comparable, text
from sowline.language.filter.functions.strings import joined
from sowline.language.filter.numbers import Number
from sowline.model.path import Scalar


def count(elements: list[Scalar]) -> int:
    """Return the number of elements that are not NULL."""
    return len(elements) - elements.count(None)


def extreme(pick: Callable[[list[Number]], Number], elements: list[Scalar]) -> Number | None:
    """Return the greatest (or least) element that is a number; NaN if no element is one, NULL without elements."""
    numbers = [found for found in map(comparable, elements) if found is not None]
    if numbers:
        return pick(numbers)
    return nan if count(elements) else None


def total(elements: list[Scalar]) -> Scalar:
    """Return the sum of the elements that are not NULL; NaN if one of them is not a number."""
    numbers = [to_number(element) for element in elements if element is not None]
    return reduce(_add, numbers) if numbers else None


def _add(one: Number | None, other: Number | None) -> Number | None:
    return OPERATIONS["+"](one, other)


def to_string(elements: list[Scalar], delimiter: str | None = None, null: str | None = None) -> str | None:
    """Return the texts of the elements with a delimiter between them; replace NULLs by `null`, or leave them out."""
    texts = [to_text(element) or null for element in elements]
    return joined([found for found in texts if found is not None], delimiter or "")


FUNCTIONS = (
    Function("ARRAY_COUNT", (array,), count),
    Function("ARRAY_MAX", (array,), partial(extreme, max)),
    Function("ARRAY_MIN", (array,), partial(extreme, min)),
    Function("ARRAY_SUM", (array,), total),
    Function("ARRAY_TO_STRING", (array, text, text), to_string, optional=1, takes_null=True),
)
