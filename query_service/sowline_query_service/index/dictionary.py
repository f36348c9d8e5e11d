"""The distinct strings of a column, numbered from 1 in the order in which they were added. Code 0 is no string."""

import sys
from bisect import bisect
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

BYTES_PER_ENTRY = 100
"""Bytes of an entry in addition to the string: in the hash table and in the list."""

FEW = 64

_NONE = np.empty(0, np.uint32)


class _Codes(dict[Any, int]):
    """String to code; a look-up gives a new string the next code."""

    __slots__ = ("bytes_of_texts", "texts")

    def __init__(self, missing: Iterable[object]) -> None:
        super().__init__(dict.fromkeys(missing, 0))
        self.texts: list[str] = [""]
        self.bytes_of_texts = 0

    def __missing__(self, text: str) -> int:
        code = self[text] = len(self.texts)
        self.texts.append(text)
        self.bytes_of_texts += sys.getsizeof(text)
        return code


class Dictionary:
    """Strings and their codes. Looking up `codes[text]` adds a new string; `rebuild` removes unused ones."""

    __slots__ = ("_missing", "_ranks", "_sorted", "codes", "generation")

    def __init__(self, missing: Iterable[object]) -> None:
        """Make an empty dictionary; in batches of values, `missing` counts as no string."""
        self._missing = ("", *missing)
        self.codes = _Codes(self._missing)
        self.generation = 0
        """Changes when codes change their meaning."""
        self._sorted: NDArray[np.uint32] = _NONE
        self._ranks = np.zeros(1)

    def __len__(self) -> int:
        """Return the codes in use, 0 included."""
        return len(self.codes.texts)

    @property
    def texts(self) -> list[str]:
        """The strings by code; `''` stands for code 0."""
        return self.codes.texts

    def code_of(self, text: str) -> int:
        """Return the code of a string, 0 if it is not here; add nothing."""
        # Not `codes[text]`: each string of a filter would be added, and stay until the next rebuild
        # (test_codes_are_given_as_they_are_asked_for).
        return self.codes.get(text, 0)

    def rebuild(self, texts: Iterable[str]) -> None:
        """Replace the content with these distinct strings, coded 1, 2, … in this order."""
        self.codes = _Codes(self._missing)
        for count, text in enumerate(texts, 1):
            self.codes[text]
            assert len(self) == count + 1, "a string is there once"
        # Cached verdicts are by code, and each code now stands for another string
        # (test_rebuilt_codes_mean_something_else).
        self.generation += 1
        self._sorted, self._ranks = _NONE, np.zeros(1)

    def ranks(self) -> NDArray[np.float64]:
        """Return the rank of each code's string in the order of code points: 1, 2, …, and 0 for no string."""
        known = len(self._sorted) + 1
        if known < len(self):
            self._sort_in(range(known, len(self)))
            self._ranks = np.zeros(len(self))
            assert len(self._sorted) == len(self) - 1, "each string has a rank"
            self._ranks[self._sorted] = np.arange(1, len(self))
        return self._ranks

    def _sort_in(self, codes: range) -> None:
        """Put new codes where their strings belong. A few go one by one: sorting would look at every string."""
        assert codes.start == len(self._sorted) + 1, "new codes follow those that are sorted"
        text_of = self.texts.__getitem__
        if len(codes) > FEW:
            self._sorted = np.array(sorted([*self._sorted.tolist(), *codes], key=text_of), np.uint32)
            return
        for code in codes:
            index = bisect(self._sorted, text_of(code), key=text_of)
            self._sorted = np.insert(self._sorted, index, code)

    @property
    def nbytes(self) -> int:
        """The estimated memory in bytes."""
        return (
            self.codes.bytes_of_texts + BYTES_PER_ENTRY * len(self) + self._ranks.nbytes + self._sorted.nbytes
        )
