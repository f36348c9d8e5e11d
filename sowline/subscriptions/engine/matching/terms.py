"""Reads the demands of a filter on single fields: the terms of its outermost AND that an index can use."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import inf, isfinite, isnan, nextafter

from sowline.language.filter import Filter
from sowline.language.filter.fold import folded
from sowline.language.filter.numbers import Number, parse_number
from sowline.language.filter.predicates import MIRRORED, constant
from sowline.language.filter.tree import And, Between, Comparison, Field, In, Literal, Node
from sowline.model.path import Path, Scalar, Value

EXACT_INTEGER_MAX = 2**53
"""Up to here a double holds every integer, so that comparing doubles compares the numbers."""

KEYS_MAX = 1000
"""The longest list of literals that is indexed: a longer one would take many times the memory of the filter."""

Key = str | Number | tuple[Number]
"""Where literal and value meet: a text; a number; or `(n,)`, a value's text and a literal number."""

Range = tuple[float, float]
"""The least and the greatest double that match; empty if the first is above the second."""

ANY_NUMBER: Range = (-inf, inf)


@dataclass(frozen=True, slots=True)
class Equality:
    """`field = literal` or `field IN (literals)`: TRUE for exactly the values that have one of the keys."""

    path: Path
    keys: frozenset[Key]
    literals: tuple[str | Number, ...]


@dataclass(frozen=True, slots=True)
class Terms:
    """A filter's terms; if `whole`, it has no others. For plain numbers, `ranges` are exact."""

    equalities: tuple[Equality, ...]
    ranges: dict[Path, Range]
    whole: bool


@lru_cache(maxsize=1024)
def terms_of(filter: Filter) -> Terms:
    """Return the terms of a filter."""
    # Folding computes what does not depend on the document. Metadata of the record is not in the document, but
    # differs from record to record, so a filter that uses it is not folded.
    tree = filter.tree if filter.needs_about else folded(filter.tree)
    equalities: list[Equality] = []
    ranges: dict[Path, Range] = {}
    whole = True
    for term in tree.terms if isinstance(tree, And) else (tree,):
        equality = _equality(term)
        bounds = None if equality else _range(term)
        if equality is not None:
            equalities.append(equality)
        elif bounds is not None:
            path, numbers = bounds
            ranges[path] = common(numbers, ranges.get(path, ANY_NUMBER))
        else:
            whole = False
    return Terms(tuple(equalities), ranges, whole)


def keys_of(value: Value) -> Collection[Key]:
    """Return the keys of literals that equal the value, or one of an array's elements."""
    if isinstance(value, list):
        return dict.fromkeys(key for element in value for key in _scalar_keys(element))
    return _scalar_keys(value)


def common(one: Range, other: Range) -> Range:
    """Return the range of the numbers in both ranges."""
    return max(one[0], other[0]), min(one[1], other[1])


def point(literal: Number) -> Range | None:
    """Return the range of one number; None if doubles can't distinguish it from its neighbors."""
    return (float(literal), float(literal)) if _is_exact(literal) else None


def _scalar_keys(value: Scalar) -> tuple[Key, ...]:
    if isinstance(value, str):
        # The tuple keeps the text `"5"` from the text `"5.0"`: both equal the number 5, but not each other
        # (test_an_equality_finds_nothing_else).
        number = parse_number(value)
        return (value,) if number is None else (value, (number,))
    return () if value is None else (value,)


def _equality(term: Node) -> Equality | None:
    match term:
        case Comparison("=", Field(path), Literal() as literal):
            items: tuple[Node, ...] = (literal,)
        case Comparison("=", Literal() as literal, Field(path)):
            items = (literal,)
        case In(Field(path), items):
            pass
        case _:
            return None
    if not all(isinstance(item, Literal) for item in items):
        return None
    literals = tuple(_useful(constant(item) for item in items if isinstance(item, Literal)))
    keys = frozenset(key for literal in literals for key in _literal_keys(literal))
    return Equality(path, keys, literals) if 0 < len(keys) <= KEYS_MAX else None


def _useful(literals: Iterable[Scalar]) -> Iterator[str | Number]:
    """Return the literals that a value can equal: not NULL, not NaN."""
    for literal in literals:
        if literal is not None and (isinstance(literal, str) or not isnan(literal)):
            yield literal


def _literal_keys(literal: str | Number) -> tuple[Key, ...]:
    """Return the keys of values that equal a literal: a number equals texts that spell it, and vice versa."""
    if isinstance(literal, str):
        number = parse_number(literal)
        return (literal,) if number is None else (literal, number)
    return literal, (literal,)


def _range(term: Node) -> tuple[Path, Range] | None:
    match term:
        case Comparison(operator, Field(path), Literal(int() | float() as number)):
            return _bounded(path, operator, number)
        case Comparison(operator, Literal(int() | float() as number), Field(path)):
            return _bounded(path, MIRRORED[operator], number)
        case Between(Field(path), Literal(int() | float() as low), Literal(int() | float() as high)):
            return (path, (float(low), float(high))) if _is_exact(low) and _is_exact(high) else None
        case _:
            return None


def _bounded(path: Path, operator: str, number: Number) -> tuple[Path, Range] | None:
    if not _is_exact(number):
        return None
    end = float(number)
    # The next double makes an open end a closed one: columns compare with `<=` only (test_ends_of_ranges_are_exact).
    match operator:
        case "<":
            return path, (-inf, nextafter(end, -inf))
        case "<=":
            return path, (-inf, end)
        case ">":
            return path, (nextafter(end, inf), inf)
        case ">=":
            return path, (end, inf)
        case _:
            return None


def _is_exact(number: Number) -> bool:
    return isfinite(number) if isinstance(number, float) else abs(number) <= EXACT_INTEGER_MAX
