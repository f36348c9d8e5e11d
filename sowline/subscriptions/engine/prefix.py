"""The first records of an order, kept live; those that follow them are only counted. Pure.

A page of 5 of a million records needs the first 5. Keeping a few hundred lets the page continue for long, because
about as many records enter the first hundreds as leave them.
"""

from collections.abc import Callable, Iterable

from sowline.language.expressions.order import SortKey, sort_key_bytes
from sowline.subscriptions.engine.page import Event, Held, Page, SortedSet


class SortedPrefix(SortedSet[Held]):
    """A sorted set that holds the first of the records that match, and the number of the others.

    It holds all records up to a certain sort key, its bound. Nothing is known of the records after the bound but how
    many there are.
    """

    def __init__(self, records: Iterable[tuple[SortKey, Held]] = (), matches: int = 0) -> None:
        """Make a set of the first of `matches` records; if there are no others, of all."""
        super().__init__(records)
        self._behind = max(0, matches - len(self))
        """The number of records that match and are not held."""
        self._bound: SortKey = self._keys[-1] if self._keys else ()

    @property
    def matches(self) -> int:
        """The number of records that match."""
        return len(self) + self._behind

    def reaches(self, end: int) -> bool:
        """Whether it holds the first `end` records that match, or all if they are fewer."""
        return not self._behind or len(self) >= end

    def change(
        self, sow_key: bytes, now: tuple[SortKey, Held] | None, matched_before: Callable[[], bool]
    ) -> dict[Page, list[Event[Held]]]:
        """Apply a change of a record, which is None now if it does not match; return events as `put` does.

        Every open page must be within reach, by one record more than it shows. `matched_before` is called only for a
        record that may be behind the bound, because it costs reading the record before the change.
        """
        assert not self.end or self.reaches(self.end + 1), f"{len(self)} records reach behind {self.end}"
        if self._behind and self.held(sow_key) is None and matched_before():
            self._behind -= 1
        if now is None:
            return self.remove(sow_key)
        # With nothing after the bound there is no bound: a record that was the only one after it is held again,
        # wherever it is now (test_the_last_record_behind_comes_back). Sort keys have `<`, and not `<=`
        # (test_a_prefix_of_texts_that_fall).
        if not self._behind or not self._bound < now[0]:
            return self.put(*now)
        events = self.remove(sow_key)
        self._behind += 1
        return events

    def cut(self, records_max: int) -> None:
        """Hold only the first `records_max` records, and count the others; every open page must end before that."""
        assert max(1, self.end) <= records_max, f"{records_max} records reach the end of pages, {self.end}"
        dropped = self._keys[records_max:]
        if not dropped:
            return
        del self._keys[records_max:]
        for sort_key in dropped:
            del self._records[sort_key[-1]]
            self._values_bytes -= sort_key_bytes(sort_key)
        self._behind += len(dropped)
        self._bound = self._keys[-1]
        assert len(self._keys) == len(self._records) == records_max, "the first ones are left"
