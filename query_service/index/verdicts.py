"""What predicates say of a column's distinct strings, remembered: each string is judged once per predicate."""

from collections import OrderedDict
from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from query_service.index.dictionary import Dictionary
from sowline.filter.predicates import Judge

BYTES_MAX = 8 << 20

_UNKNOWN = -1

Table = NDArray[np.int8]
"""By code: 1 is TRUE, 0 is FALSE, -1 is NULL. Code 0, no string, is -1."""


class Verdicts:
    """Tables of the predicates last asked for. The newest is always kept, whatever its size."""

    __slots__ = ("_dictionary", "_generation", "_tables")

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._generation = dictionary.generation
        self._tables: OrderedDict[Hashable, Table] = OrderedDict()

    def table(self, predicate: Hashable, judge: Judge) -> Table:
        """The predicate's verdict on every string of the dictionary; only those new to it are judged."""
        if self._generation != self._dictionary.generation:
            self._tables.clear()
            self._generation = self._dictionary.generation
        known = self._tables.pop(predicate, None)
        table = self._tables[predicate] = _extended(known, self._dictionary, judge)
        while self.nbytes > BYTES_MAX and len(self._tables) > 1:
            self._tables.popitem(last=False)
        return table

    @property
    def nbytes(self) -> int:
        """The memory of all tables."""
        return sum(table.nbytes for table in self._tables.values())


def _extended(known: Table | None, dictionary: Dictionary, judge: Judge) -> Table:
    if known is None:
        known = np.array([_UNKNOWN], np.int8)
    if len(known) == len(dictionary):
        return known
    verdicts = map(judge, dictionary.texts[len(known) :])
    fresh = np.fromiter((_UNKNOWN if verdict is None else verdict for verdict in verdicts), np.int8)
    return np.concatenate((known, fresh))
