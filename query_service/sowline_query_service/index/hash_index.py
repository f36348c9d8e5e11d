"""A hash index: maps the values of some fields to rows, for filters that compare these fields with strings.

A row is found under the values of its fields. A string in a filter equals the same string and the number that it
spells (`'05'` equals 5), so it is looked up as both. Rows in which a field is an array are always candidates. Rows in
which a field is NULL never are, because NULL equals nothing.
"""

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

from sowline.language.filter.numbers import parse_number
from sowline.language.filter.predicates import constant
from sowline.language.filter.tree import And, Comparison, Field, In, Literal, Node
from sowline.model.path import Path, value_of

COMBINATIONS_MAX = 10_000
"""The index does not answer a filter with more combinations of values."""

BYTES_PER_ROW = 16
BYTES_PER_KEY = 130
BYTES_PER_SHARED = 90
"""Estimates: a row's reference to its key; a key with its entry; a row in the set of a key of several."""

_UNPOSTED = None
_ODD = ()

Key = Any
"""The values of a row's fields as a tuple; `_ODD` if one of them is an array; None for no key."""


class HashIndex:
    """Rows by the values of some fields. It finds a superset of the matches, which the filter then checks."""

    __slots__ = ("_keys", "_odd", "_postings", "_shared", "paths")

    def __init__(self, paths: Sequence[Path]) -> None:
        """Make an empty index of these fields: at least one, all different."""
        assert len(set(paths)) == len(paths) > 0, "an index is of some fields, all different"
        self.paths = tuple(paths)
        self._postings: dict[Key, int | set[int]] = {}
        self._odd: set[int] = set()
        self._keys: list[Key] = []
        self._shared = 0

    def put(self, row: int, values: Sequence[Any]) -> None:
        """Post the row under its fields' values, in the order of `paths`, and under no others."""
        key = _key(values)
        if row >= len(self._keys):
            self._keys.extend([_UNPOSTED] * (row + 1 - len(self._keys)))
        known = self._keys[row]
        if known == key and known is not _UNPOSTED:
            return
        self.clear(row)
        if key is _ODD:
            self._odd.add(row)
        elif key is not _UNPOSTED:
            key = self._posted(key, row)
        self._keys[row] = key

    def clear(self, row: int) -> None:
        """Remove a row."""
        key = self._keys[row] if row < len(self._keys) else _UNPOSTED
        if key is _UNPOSTED:
            return
        self._keys[row] = _UNPOSTED
        if key is _ODD:
            self._odd.remove(row)
        else:
            self._withdraw(key, row)

    def lookup(self, tree: Node) -> list[int] | None:
        """Return the rows that may match, each once; None if the filter does not compare all fields with strings.

        It must have a conjunct `field = 'string'` or `field IN ('string', …)` for each field.
        """
        asked = strings_by_path(tree)
        if any(path not in asked for path in self.paths):
            return None
        choices = [spellings(asked[path]) for path in self.paths]
        # Lists for several fields multiply: at some point a scan takes less time
        # (test_too_many_combinations_are_not_answered).
        if prod(map(len, choices)) > COMBINATIONS_MAX:
            return None
        # One of an array's items may equal a string, and arrays are not posted (test_arrays_are_candidates_always).
        found = list(self._odd)
        for key in product(*choices):
            rows = self._postings.get(key, ())
            if isinstance(rows, int):
                found.append(rows)
            else:
                found.extend(rows)
        return found

    @property
    def nbytes(self) -> int:
        """The estimated memory in bytes, without the strings."""
        shared = BYTES_PER_SHARED * (self._shared + len(self._odd))
        return BYTES_PER_ROW * len(self._keys) + BYTES_PER_KEY * len(self._postings) + shared

    def _posted(self, key: Key, row: int) -> Key:
        """Return the tuple that all rows with this key share."""
        # Values that are equal in Python are equal in the filter language, too: 1, 1.0 and TRUE have one key.
        rows = self._postings.get(key)
        if rows is None:
            self._postings[key] = row
            return key
        if isinstance(rows, int):
            assert rows != row, "a row is posted once"
            rows = self._postings[key] = {rows}
            self._shared += 1
        kept = self._keys[next(iter(rows))]
        rows.add(row)
        self._shared += 1
        return kept

    def _withdraw(self, key: Key, row: int) -> None:
        rows = self._postings[key]
        if isinstance(rows, int):
            assert rows == row, "the row that leaves was posted under its key"
            del self._postings[key]
            return
        rows.remove(row)
        self._shared -= 1
        # A set takes many times the memory of one row's number.
        if len(rows) == 1:
            self._postings[key] = rows.pop()
            self._shared -= 1
            assert self._shared >= 0, "only what was shared is counted"


def _key(values: Sequence[Any]) -> Key:
    key = tuple(map(value_of, values))
    if None in key:
        return _UNPOSTED
    return _ODD if any(isinstance(value, list) for value in key) else key


def strings_by_path(tree: Node) -> dict[Path, frozenset[str]]:
    """Return the strings that a conjunct compares each field with; the fewest if several conjuncts do."""
    asked: dict[Path, frozenset[str]] = {}
    for term in tree.terms if isinstance(tree, And) else (tree,):
        one = _strings(term)
        if one is not None:
            path, texts = one
            asked[path] = min(asked.get(path, texts), texts, key=len)
    return asked


def _strings(term: Node) -> tuple[Path, frozenset[str]] | None:
    match term:
        case Comparison("=", Field(path), Literal() as literal) | Comparison(
            "=", Literal() as literal, Field(path)
        ):
            items: Sequence[Node] = (literal,)
        case In(Field(path), items):
            pass
        case _:
            return None
    constants = [constant(item) for item in items if isinstance(item, Literal)]
    texts = [text for text in constants if isinstance(text, str)]
    return (path, frozenset(texts)) if len(texts) == len(items) else None


def spellings(texts: frozenset[str]) -> frozenset[Any]:
    """Return all values that equal one of the strings, except arrays."""
    return texts | {number for number in map(parse_number, texts) if number is not None}
