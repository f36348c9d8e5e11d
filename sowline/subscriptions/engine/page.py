"""A page on a sorted set of records, kept live. Pure.

A paginated subscription sees `top` records after the first `skip` of all that match, in an order. One
`SortedSet` serves every subscription of the same topic, filter and order. Each `Page` on it derives the effect of a
change from the record's previous and current index, at the cost of one or two look-ups.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, Generic, Protocol, TypeVar

from sortedcontainers import SortedList

from sowline.changes.change import DELETED, Change
from sowline.language.emodb.writes import DocumentMetadata
from sowline.language.expressions.order import SortKey, sort_key_bytes
from sowline.subscriptions.engine.subscription import MATCH, OOF, PUBLISH, Delivery

Held = TypeVar("Held")
"""The caller's data about a record, which a set keeps besides its index."""

ENTRY_BYTES: Final = 400
"""The memory of a record in a set, with what is kept of it, but without its body and the values it is sorted by."""

OUTSIDE: Final = inf
"""The index of a record that is not in the set: after all others."""


@dataclass(frozen=True, slots=True)
class Page:
    """The `top` records that follow the first `skip` records of a set; both are 0 or more."""

    skip: int
    top: int

    @property
    def end(self) -> int:
        """The number of records up to the end of the page; 0 for a page that shows none."""
        return self.skip + self.top if self.top else 0


@dataclass(frozen=True, slots=True)
class Left(Generic[Held]):
    """A record left the page. `held` is the entry that the set keeps, or kept for a record that left it."""

    sow_key: bytes
    held: Held


@dataclass(frozen=True, slots=True)
class Entered(Generic[Held]):
    """A record entered the page."""

    sow_key: bytes
    held: Held


@dataclass(frozen=True, slots=True)
class Updated(Generic[Held]):
    """A record changed, and was in the page before and after the change."""

    sow_key: bytes
    held: Held


Event = Left[Held] | Entered[Held] | Updated[Held]


@dataclass(frozen=True, slots=True)
class _Move(Generic[Held]):
    """A record's move from one index to another; either may be `OUTSIDE`."""

    sow_key: bytes
    held: Held
    before: float
    now: float


class SortedSet(Generic[Held]):
    """The records that match a filter, in an order.

    The sort key of a record is its `Order.key`. It ends with the SOW key, so no two sort keys are equal.
    """

    def __init__(self, records: Iterable[tuple[SortKey, Held]] = ()) -> None:
        """Make a set of these records."""
        self._records: dict[bytes, tuple[SortKey, Held]] = {record[0][-1]: record for record in records}
        self._keys = SortedList(sort_key for sort_key, _ in self._records.values())
        self._pages: Counter[Page] = Counter()
        self.end = 0
        """The number of records up to the end of the last open page."""
        self._values_bytes = sum(map(sort_key_bytes, self._keys))
        """The memory of the values in the sort keys; a sum, because it is asked for after each batch of changes."""

    def __len__(self) -> int:
        return len(self._records)

    @property
    def nbytes(self) -> int:
        """The estimated memory in bytes, without that of bodies."""
        return len(self._records) * ENTRY_BYTES + self._values_bytes

    @property
    def pages(self) -> frozenset[Page]:
        """The open pages."""
        return frozenset(self._pages)

    def held(self, sow_key: bytes) -> Held | None:
        """Return the entry of a record; None if it is not in the set."""
        found = self._records.get(sow_key)
        return None if found is None else found[1]

    def rank_of(self, sow_key: bytes) -> int | None:
        """Return the index of a record; None if it is not in the set."""
        found = self._records.get(sow_key)
        return None if found is None else self._keys.index(found[0])

    def open(self, page: Page) -> list[tuple[bytes, Held]]:
        """Open a page, or count one more user of an open one; return its records by SOW key, in order."""
        assert page.skip >= 0 <= page.top, f"a page has no negative numbers: {page}"
        self._pages[page] += 1
        self.end = max(self.end, page.end)
        return self.between(page.skip, page.skip + page.top)

    def between(self, start: int, end: int) -> list[tuple[bytes, Held]]:
        """Return the records from index `start` up to `end`, by SOW key and in order."""
        return [self._at(index) for index in range(start, min(end, len(self)))]

    def close(self, page: Page) -> None:
        """Close a page for one of its users; the last user removes it."""
        assert self._pages[page] > 0, f"only an open page is closed: {page}"
        # Two subscriptions open the page 0..10, one closes it. Without the count the other one would get no more
        # events (test_a_page_is_closed_by_the_last_of_its_subscribers).
        self._pages[page] -= 1
        if not self._pages[page]:
            del self._pages[page]
            self.end = max((other.end for other in self._pages), default=0)

    def put(self, sort_key: SortKey, held: Held) -> dict[Page, list[Event[Held]]]:
        """Insert a record, or move it to where its new sort key belongs.

        Return the events of each open page that the move affects: first the record that leaves it, then the one
        that enters it or is updated. It takes O(log n), and O(log n) for each of these pages.
        """
        sow_key: bytes = sort_key[-1]
        old = self._records.get(sow_key)
        if old is not None and old[0] == sort_key:
            self._records[sow_key] = old[0], held
            index = self._keys.index(sort_key)
            return self._events(_Move(sow_key, held, index, index))
        # Remove the old key before the new index is computed. In [1, 2, 3, 4], record 3 moves after 4: with both
        # keys in the list its index would be 4 instead of 3, outside a page that ends with the fourth record
        # (test_what_stays_is_updated_wherever_in_the_window).
        before = OUTSIDE if old is None else self._take_out(old[0])
        self._records[sow_key] = sort_key, held
        self._keys.add(sort_key)
        self._values_bytes += sort_key_bytes(sort_key)
        assert len(self._keys) == len(self._records), "each record has one sort key"
        return self._events(_Move(sow_key, held, before, self._keys.index(sort_key)))

    def remove(self, sow_key: bytes) -> dict[Page, list[Event[Held]]]:
        """Remove a record, if the set has it; return events as `put` does."""
        old = self._records.pop(sow_key, None)
        if old is None:
            return {}
        sort_key, held = old
        return self._events(_Move(sow_key, held, self._take_out(sort_key), OUTSIDE))

    def _take_out(self, sort_key: SortKey) -> int:
        index = self._keys.index(sort_key)
        del self._keys[index]
        self._values_bytes -= sort_key_bytes(sort_key)
        assert self._values_bytes >= 0, "what was taken out was counted"
        return index

    def _at(self, index: int) -> tuple[bytes, Held]:
        sow_key: bytes = self._keys[index][-1]
        return sow_key, self._records[sow_key][1]

    def _events(self, move: _Move[Held]) -> dict[Page, list[Event[Held]]]:
        """Return the events of each page that a completed move affects."""
        # A move affects every page that it crosses, even if the record is in none before or after. In [1, 2, 3, 4],
        # record 1 moves to the end: the page of the second and third record loses 2 and gains 4
        # (test_what_jumps_over_the_window_shifts_it).
        first, last = min(move.before, move.now), max(move.before, move.now)
        touched = [
            page for page in self._pages if page.top and last >= page.skip and first < page.skip + page.top
        ]
        seen = [(page, self._seen_from(page, move)) for page in touched]
        return {page: events for page, events in seen if events}

    def _seen_from(self, page: Page, move: _Move[Held]) -> list[Event[Held]]:
        """Return the events of one page that a completed move crosses or touches.

        Only the moved record and the records at the two ends of the page can leave or enter it.
        """
        start, end = page.skip, page.skip + page.top
        before, now = move.before, move.now
        was_in, is_in = start <= before < end, start <= now < end
        # A record that moves toward the end shifts those it passes by one toward the start. The page's previous
        # first record is then at `start - 1`, and the record that entered is at `end - 1`. A move toward the start is
        # the reverse: the previous last record is at `end` (test_what_comes_before_the_window_pushes_it_down).
        pushed_out, drawn_in = (start - 1, end - 1) if before < now else (end, start)
        events: list[Event[Held]] = []
        if was_in:
            events += [] if is_in else [Left(move.sow_key, move.held)]
        # If the set ends within the page, no record leaves or enters at its end (test_a_page_that_is_not_full).
        elif pushed_out < len(self):
            events.append(Left(*self._at(pushed_out)))
        if is_in:
            events.append((Updated if was_in else Entered)(move.sow_key, move.held))
        elif drawn_in < len(self):
            events.append(Entered(*self._at(drawn_in)))
        return events


class HasBody(Protocol):
    """The data that a set must keep of each record to build messages."""

    @property
    def body(self) -> bytes:
        """The record's body."""
        ...

    @property
    def known(self) -> DocumentMetadata | None:
        """The document's metadata."""


HeldBody = TypeVar("HeldBody", bound=HasBody)


def deliveries(events: Sequence[Event[HeldBody]], change: Change, oof: bool) -> list[tuple[bytes, Delivery]]:
    """Return the messages for the events of one page, with their SOW keys, in order.

    A record that enters or is updated is published. A record that leaves is sent as `oof`, if requested: a deleted
    record with its last body, any other with its current body and reason `match`.
    """
    return [
        (event.sow_key, _delivery(event, change)) for event in events if oof or not isinstance(event, Left)
    ]


def _delivery(event: Event[HeldBody], change: Change) -> Delivery:
    changed = event.sow_key == change.sow_key
    previous = change.previous if changed else event.held.body
    if changed and change.body is None:
        return Delivery(OOF, event.held.body, change.reason or DELETED, previous, change.known)
    body = change.body if changed and change.body is not None else event.held.body
    known = change.known if changed else event.held.known
    if isinstance(event, Left):
        return Delivery(OOF, body, MATCH, previous, known)
    # A record that enters the page has no `previous`, though it may be old: the subscriber does not hold it. A
    # delta would be merged into nothing, so the whole record is sent (test_pages_have_deltas).
    return Delivery(PUBLISH, body, previous=previous if isinstance(event, Updated) else None, known=known)
