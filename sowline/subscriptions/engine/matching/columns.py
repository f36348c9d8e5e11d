"""The demands of many filters on one field, as columns: one comparison of arrays checks them all."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sowline.language.filter.numbers import parse_number
from sowline.model.path import Value
from sowline.subscriptions.engine.matching.terms import ANY_NUMBER, EXACT_INTEGER_MAX, Range

Mask = NDArray[np.bool_]

FREE = -1
UNKNOWN = -2


class DemandColumn(Protocol):
    """One demand per row; None for a row without a demand."""

    bound: Mask
    """The rows that have a demand."""

    def judge(self, value: Value) -> Mask | None:
        """Return the rows whose demand the value meets; None if only the filters can decide."""


class RangeColumn:
    """Ranges of numbers."""

    def __init__(self, ranges: Sequence[Range | None]) -> None:
        self.bound = np.array([bounds is not None for bounds in ranges], np.bool_)
        self._free = ~self.bound
        self._low = np.array([(bounds or ANY_NUMBER)[0] for bounds in ranges], np.float64)
        self._high = np.array([(bounds or ANY_NUMBER)[1] for bounds in ranges], np.float64)
        self._endless: Mask = np.isposinf(self._high)

    def judge(self, value: Value) -> Mask | None:
        """Compare numbers that doubles hold exactly; leave arrays and larger integers to the filters."""
        if isinstance(value, str):
            spelled = parse_number(value)
            if spelled is None:
                # A text that doesn't spell a number is above all numbers.
                return self._endless
            value = spelled
        # NULL and NaN are in no range: only rows without a demand are met.
        if value is None or value != value:
            return self._free
        if isinstance(value, list) or not (isinstance(value, float) or abs(value) <= EXACT_INTEGER_MAX):
            return None
        return (self._low <= value) & (value <= self._high)


class TextColumn:
    """Texts that the value must equal."""

    def __init__(self, texts: Sequence[str | None]) -> None:
        self.bound = np.array([text is not None for text in texts], np.bool_)
        self._free = ~self.bound
        self._codes: dict[str, int] = {}
        codes = (FREE if text is None else self._codes.setdefault(text, len(self._codes)) for text in texts)
        self._wanted = np.fromiter(codes, np.int32, len(texts))
        self._spells = any(parse_number(text) is not None for text in self._codes)

    def judge(self, value: Value) -> Mask | None:
        """Compare texts; NULL equals none, and a number equals no text that doesn't spell a number."""
        if isinstance(value, str):
            equal: Mask = self._wanted == self._codes.get(value, UNKNOWN)
            return self._free | equal
        if isinstance(value, list):
            return None
        return self._free if value is None or not self._spells else None
