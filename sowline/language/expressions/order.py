"""`order_by`: parses the order of records, and makes the keys by which they are sorted.

The order is total, so each record has exactly one rank: NULL comes first, then numbers by their exact value (TRUE is
1, FALSE is 0), then strings by code point. Values are not converted. A filter's comparisons do convert: `'10'` equals
10 and `'10' < '9'`, though `10 > 9`. Such circular comparisons can't be sorted by.

With `TEXT`, values are compared as texts. `DESC` is the exact reverse of a term. An array counts as its first
element. Records that are equal in all terms are in ascending order of their SOW keys.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from sys import getsizeof
from typing import Any

from sowline.errors import SowlineError
from sowline.language.filter.errors import FilterError
from sowline.language.filter.evaluate import first, to_text
from sowline.language.filter.parse import parse_order_terms
from sowline.model.path import Document, Path, Scalar, Value, reader, value_bytes

TERMS_MAX = 16
ORDER_CHARS_MAX = 4096

SortKey = tuple[Any, ...]
"""Comparable only with keys of the same order."""

_Part = Callable[[Document], tuple[int, Any]]
"""Makes one term of a key: the rank of the value's type, then a value that compares within the type."""

_NULL, _NUMBER, _NOT_A_NUMBER, _STRING = range(4)


@dataclass(frozen=True, slots=True)
class Term:
    """One field to sort by. `text` is whether to compare values as texts."""

    path: Path
    descending: bool = False
    text: bool = False

    def __str__(self) -> str:
        return f"{self.path}{' DESC' if self.descending else ''}{' TEXT' if self.text else ''}"


class Order:
    """The order of a sorted read. Immutable; orders with the same terms are equal. `text` is the canonical text.

    Without terms, records are in the order of their SOW keys.
    """

    __slots__ = ("_keys", "_parts", "_readers", "paths", "terms", "text")

    terms: tuple[Term, ...]
    paths: frozenset[Path]
    text: str

    def __init__(self, terms: tuple[Term, ...] = ()) -> None:
        self.terms = terms
        self.paths = frozenset(term.path for term in terms)
        self.text = ", ".join(str(term) for term in terms)
        self._readers = tuple(_scalar_reader(term) for term in terms)
        self._keys = tuple(_falling if term.descending else _rising for term in terms)
        self._parts = tuple(map(_part, self._readers, self._keys))

    def key(self, document: Document, sow_key: bytes) -> SortKey:
        """Return the sort key of a record: the record with the lower key comes first."""
        if len(self._parts) == 1:
            return (*self._parts[0](document), sow_key)
        key: list[Any] = []
        for part in self._parts:
            key += part(document)
        key.append(sow_key)
        return tuple(key)

    def values(self, document: Document) -> list[Scalar]:
        """Return the values that a record is sorted by, one for each term; `key_of` makes the sort key from them."""
        return [read(document) for read in self._readers]

    def key_of(self, values: Sequence[Scalar], sow_key: bytes) -> SortKey:
        """Return the sort key of a record with these values."""
        key: list[Any] = []
        for part, value in zip(self._keys, values, strict=True):
            key += part(value)
        key.append(sow_key)
        return tuple(key)

    def __repr__(self) -> str:
        return f"Order({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Order) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


class _Falling:
    """A string that sorts in descending order."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __lt__(self, other: "_Falling") -> bool:
        return other.text < self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Falling) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def sort_key_bytes(sort_key: SortKey) -> int:
    """Return the estimated memory of the values in a sort key, in bytes; the SOW key does not count."""
    return sum(map(_part_bytes, sort_key[:-1]))


def _part_bytes(part: Any) -> int:
    return getsizeof(part) + value_bytes(part.text) if isinstance(part, _Falling) else value_bytes(part)


def _scalar_reader(term: Term) -> Callable[[Document], Scalar]:
    read = reader(term.path)
    scalar: Callable[[Value], Scalar] = _first_text if term.text else first
    return lambda document: scalar(read(document))


def _part(read: Callable[[Document], Scalar], key_of: Callable[[Scalar], tuple[int, Any]]) -> _Part:
    return lambda document: key_of(read(document))


def _first_text(value: Value) -> str | None:
    return to_text(first(value))


def _rising(value: Scalar) -> tuple[int, Any]:
    if isinstance(value, str):
        return _STRING, value
    if value is None:
        return _NULL, 0
    # Only NaN differs from itself. It needs a rank, because it compares with nothing (test_nan_is_ordered).
    return (_NUMBER, value) if value == value else (_NOT_A_NUMBER, 0)


def _falling(value: Scalar) -> tuple[int, Any]:
    if isinstance(value, str):
        return -_STRING, _Falling(value)
    if value is None:
        return -_NULL, 0
    return (-_NUMBER, -value) if value == value else (-_NOT_A_NUMBER, 0)


@lru_cache(256)
def parse_order(text: str) -> Order:
    """Return the order in a text such as `/a, /b/c DESC, [/d e] ASC TEXT`; raise `invalid order by`.

    Keywords are in any case. A blank text has no terms.
    """
    if len(text) > ORDER_CHARS_MAX:
        raise _invalid(f"expected at most {ORDER_CHARS_MAX} characters, got {len(text)}")
    if not text.strip():
        return Order()
    try:
        terms = tuple(Term(*term) for term in parse_order_terms(text))
    except FilterError as error:
        raise _invalid(error.message) from None
    if len(terms) > TERMS_MAX:
        raise _invalid(f"expected at most {TERMS_MAX} fields to sort by, got {len(terms)}")
    return Order(terms)


def _invalid(message: str) -> SowlineError:
    return SowlineError("invalid order by", message)
