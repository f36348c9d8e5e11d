"""Values in order, and equal values, for MIN, MAX, ANY, UNIQUE, and the two aggregates of distinct values."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from sortedcontainers import SortedList

from sowline.language.filter.evaluate import to_text
from sowline.language.filter.numbers import Number, parse_number
from sowline.model.path import Scalar

CONCAT_CHARS_MAX: Final = 64 * 1024
CUT: Final = "…"
"""The text that ends a GROUP_CONCAT that was cut."""

VALUE_BYTES: Final = 230
DISTINCT_BYTES: Final = 165
"""The memory of one value that a state keeps, with and without an order, without the characters of a text."""

Rank = tuple[int, Number, int, str]
"""A value's rank in the order of MIN and MAX. The value can be read from it."""

_INTEGER, _DOUBLE, _BOOLEAN, _TEXT = range(4)


class _Values:
    """Values that another state exports, and this one adds."""

    __slots__ = ()

    def add(self, value: Scalar) -> None:
        """Add a value."""
        raise NotImplementedError

    def merge(self, exported: Iterable[Scalar]) -> None:
        """Add the values that another state exported."""
        for value in exported:
            self.add(value)


class OrderedValues(_Values):
    """The values in order, without NaN, which has no rank."""

    __slots__ = ("_counts", "nbytes", "order")

    def __init__(self) -> None:
        self.nbytes = 0
        """The estimated memory of the values."""
        self._counts: dict[Rank, int] = {}
        self.order: SortedList[Rank] = SortedList()
        """The rank of each value, each once."""

    def add(self, value: Scalar) -> None:
        """Add a value."""
        # Only NaN differs from itself. It compares with nothing, and would break the order of the list
        # (test_nan_is_not_ordered).
        if value is not None and value == value:
            ranking = rank(value)
            if _counted(self._counts, ranking):
                self.order.add(ranking)
                self.nbytes += VALUE_BYTES + len(ranking[3])

    def remove(self, value: Scalar) -> None:
        """Remove a value that was added."""
        if value is not None and value == value:
            ranking = rank(value)
            if _discounted(self._counts, ranking):
                self.order.remove(ranking)
                self.nbytes -= VALUE_BYTES + len(ranking[3])

    def exported(self) -> list[Scalar]:
        """Return the first and the last value: no other one can be first or last of more values."""
        return [] if not self.order else [self.smallest(), self.largest()]

    def smallest(self) -> Scalar:
        """Return the first value; NULL without values."""
        return ranked(self.order[0]) if self.order else None

    def largest(self) -> Scalar:
        """Return the last value; NULL without values."""
        return ranked(self.order[-1]) if self.order else None


class Texts(_Values):
    """The values as texts, each once, in order."""

    __slots__ = ("_ranks",)

    def __init__(self) -> None:
        self._ranks = OrderedValues()

    @property
    def nbytes(self) -> int:
        """The estimated memory of the texts."""
        return self._ranks.nbytes

    def add(self, value: Scalar) -> None:
        """Add a value."""
        self._ranks.add(_text(value))

    def remove(self, value: Scalar) -> None:
        """Remove a value that was added."""
        self._ranks.remove(_text(value))

    def exported(self) -> list[Scalar]:
        """Return the texts."""
        return [text for *_, text in self._ranks.order]

    def joined(self, delimiter: str) -> str | None:
        """Return the texts joined by the delimiter, cut at `CONCAT_CHARS_MAX`; NULL without values."""
        texts: list[str] = []
        chars_left = CONCAT_CHARS_MAX + len(delimiter)
        for *_, text in self._ranks.order:
            chars_left -= len(text) + len(delimiter)
            if chars_left < 0:
                texts.append(CUT)
                break
            texts.append(text)
        return delimiter.join(texts) if texts else None


class Distinct(_Values):
    """Return the number of different values.

    In the filter language, 1 equals '1' and '01', but these two differ. So if strings spell a number, each of them
    counts once, and the number itself does not. If no string does, the number counts once, whether it is 1, 1.0 or
    TRUE.
    """

    __slots__ = ("_counts", "_spellings", "count", "nbytes")

    def __init__(self) -> None:
        self.count = 0
        self.nbytes = 0
        """The estimated memory of the values."""
        self._counts: dict[Rank, int] = {}
        self._spellings: dict[Number, int] = {}
        """The count of different strings that spell a number, by the number."""

    def add(self, value: Scalar) -> None:
        """Add a value."""
        if value is not None and value == value:
            ranking = rank(value)
            if ranking in self._counts:
                self._counts[ranking] += 1
            else:
                self._change(ranking, _counted)

    def remove(self, value: Scalar) -> None:
        """Remove a value that was added."""
        if value is not None and value == value:
            ranking = rank(value)
            if self._counts[ranking] > 1:
                self._counts[ranking] -= 1
            else:
                self._change(ranking, _discounted)

    def _change(self, ranking: Rank, change: Callable[[dict[Any, int], Any], bool]) -> None:
        """Count a value that is new, or was the last of its kind."""
        is_other, number, kind, _ = ranking
        # A new spelling may replace the number in the count: `before` is needed to see that
        # (test_distinct_values_are_the_most_that_differ).
        before = 0 if is_other else self._standing_for(number)
        change(self._counts, ranking)
        size = DISTINCT_BYTES + len(ranking[3])
        self.nbytes += size if ranking in self._counts else -size
        if is_other:
            self.count += 1 if ranking in self._counts else -1
            return
        if kind == _TEXT:
            change(self._spellings, number)
        self.count += self._standing_for(number) - before

    def _standing_for(self, number: Number) -> int:
        """Return how many values count for a number and the strings that spell it."""
        return self._spellings.get(number) or any(
            (0, number, kind, "") in self._counts for kind in (_INTEGER, _DOUBLE, _BOOLEAN)
        )

    def exported(self) -> list[Scalar]:
        """Return the values, each once."""
        return [ranked(ranking) for ranking in self._counts]

    def unique(self) -> Scalar:
        """Return the first value in order if all are equal; otherwise, or without values, NULL."""
        return ranked(min(self._counts)) if self.count == 1 else None


def rank(value: Scalar) -> Rank:
    """Return the rank of a value, which is not NULL or NaN.

    Numbers, and strings that spell numbers, come first, by number; then all other strings, by code point. Of equal
    numbers, integers come first, then doubles, booleans and strings.
    """
    if isinstance(value, str):
        number = parse_number(value)
        return (1, 0, _TEXT, value) if number is None else (0, number, _TEXT, value)
    if isinstance(value, float):
        return 0, value + 0.0, _DOUBLE, ""  # -0.0 is 0.0: equal values have one form
    assert value is not None
    return (0, int(value), _BOOLEAN, "") if isinstance(value, bool) else (0, value, _INTEGER, "")


def _text(value: Scalar) -> str | None:
    """Return the value's text; None for NULL and NaN."""
    return None if value is None or value != value else to_text(ranked(rank(value)))


def ranked(ranking: Rank) -> Scalar:
    """Return the value with this rank."""
    _, number, kind, text = ranking
    return text if kind == _TEXT else bool(number) if kind == _BOOLEAN else number


def _counted(counts: dict[Any, int], key: Any) -> bool:
    """Count one more; return whether it is the first."""
    count = counts[key] = counts.get(key, 0) + 1
    return count == 1


def _discounted(counts: dict[Any, int], key: Any) -> bool:
    """Count one less; return whether it was the last."""
    if counts[key] > 1:
        counts[key] -= 1
        return False
    del counts[key]
    return True
