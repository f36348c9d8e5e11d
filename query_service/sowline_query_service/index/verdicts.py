"""Cached results of predicates for the distinct strings of a column: each predicate evaluates a string once."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from sowline.language.filter.predicates import Judge
from sowline_query_service.index.dictionary import Dictionary

BYTES_MAX = 8 << 20

CHARS_PER_TEXT = 100
"""The cost of evaluating a text in addition to its characters."""

_UNKNOWN = -1

Table = NDArray[np.int8]
"""The verdicts by code: 1 is TRUE, 0 is FALSE, -1 is NULL. Code 0 stands for no string, and has -1."""

_NO_TEXT: Table = np.array([_UNKNOWN], np.int8)


class Verdicts:
    """Tables of the most recently used predicates. The newest is always kept, whatever its size."""

    __slots__ = ("_dictionary", "_generation", "_tables")

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._generation = dictionary.generation
        self._tables: OrderedDict[Hashable, Table] = OrderedDict()

    def table(self, predicate: Hashable, judge: Judge) -> Table:
        """Return a predicate's result for each string of the dictionary; evaluate only new strings."""
        return self._extended(predicate, judge, None)

    def judge_some(self, predicate: Hashable, judge: Judge, chars_max: int) -> bool:
        """Judge some of the strings that `table` would judge, at least one; return whether others are left."""
        return len(self._extended(predicate, judge, chars_max)) < len(self._dictionary)

    def _extended(self, predicate: Hashable, judge: Judge, chars_max: int | None) -> Table:
        # After a rebuild, the codes stand for other strings (test_rebuilt_codes_mean_something_else).
        if self._generation != self._dictionary.generation:
            self._tables.clear()
            self._generation = self._dictionary.generation
        # Taken out and put back: so it is the newest, and the table that is dropped was used least recently
        # (test_what_was_used_least_recently_goes_first).
        known = self._tables.pop(predicate, _NO_TEXT)
        assert len(known) <= len(self._dictionary), "verdicts are of strings that are there"
        if len(known) < len(self._dictionary):
            end = None if chars_max is None else _end(self._dictionary.texts, len(known), chars_max)
            texts = self._dictionary.texts[len(known) : end]
            verdicts = (_UNKNOWN if verdict is None else verdict for verdict in map(judge, texts))
            known = np.concatenate((known, np.fromiter(verdicts, np.int8, len(texts))))
        self._tables[predicate] = known
        while self.nbytes > BYTES_MAX and len(self._tables) > 1:
            self._tables.popitem(last=False)
        return known

    @property
    def nbytes(self) -> int:
        """The memory of all tables, in bytes."""
        return sum(table.nbytes for table in self._tables.values())


def _end(texts: Sequence[str], start: int, chars_max: int) -> int:
    """Return the index after the first text at which the texts from `start` on exceed `chars_max`."""
    chars = 0
    for number in range(start, len(texts)):
        chars += len(texts[number]) + CHARS_PER_TEXT
        if chars > chars_max:
            return number + 1
    return len(texts)
