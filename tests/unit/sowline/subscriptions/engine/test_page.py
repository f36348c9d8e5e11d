"""Pages: what a change means to a page on a sorted set, and the messages that say so."""

from collections.abc import Sequence
from typing import NamedTuple

import orjson
import pytest

from sowline.changes.change import Change
from sowline.language.expressions.order import Order, parse_order
from sowline.model.path import value_bytes
from sowline.model.position import Position
from sowline.subscriptions.engine.page import Entered, Event, Left, Page, SortedSet, Updated, deliveries
from sowline.subscriptions.engine.subscription import Delivery

BY_ID = parse_order("/id")


class Kept(NamedTuple):
    """What the tests keep of a record."""

    body: bytes
    known: None = None


def record(number: int, **fields: object) -> Kept:
    """Return the record of that id."""
    return Kept(orjson.dumps({"id": number, **fields}))


def key(number: int) -> bytes:
    """Return the SOW key of that id's record."""
    return b"k%d" % number


class ShownPage:
    """A set of records by id, one page on it, and its subscriber's place in it."""

    def __init__(self, ids: Sequence[int], skip: int, top: int, order: Order = BY_ID) -> None:
        self.order = order
        self.set = SortedSet(self._placed(number, record(number)) for number in ids)
        self.page = Page(skip, top)
        self.shown = [orjson.loads(kept.body)["id"] for _, kept in self.set.open(self.page)]

    def _placed(self, number: int, kept: Kept) -> tuple[tuple[object, ...], Kept]:
        return self.order.key(orjson.loads(kept.body), key(number)), kept

    def put(self, number: int, kept: Kept) -> list[Event[Kept]]:
        """Put a record and return what it means to the page."""
        return self.set.put(*self._placed(number, kept)).get(self.page, [])

    def publish(self, number: int, kept: Kept, previous: Kept | None = None) -> list[tuple[bytes, Delivery]]:
        """Publish a record and return the messages to a subscriber with `oof`."""
        return deliveries(self.put(number, kept), change(number, kept, previous), oof=True)

    def delete(self, number: int, reason: str = "deleted") -> list[tuple[bytes, Delivery]]:
        """Delete a record and return the messages to a subscriber with `oof`."""
        events = self.set.remove(key(number)).get(self.page, [])
        return deliveries(events, change(number, None, record(number), reason), oof=True)


def change(number: int, kept: Kept | None, previous: Kept | None, reason: str | None = None) -> Change:
    """Return the change of a record from one body to the next."""
    bodies = [None if each is None else each.body for each in (kept, previous)]
    return Change(key(number), bodies[0], bodies[1], Position(0, 1), Position(0, 0), "x", 0, True, reason)


def published(number: int, **fields: object) -> tuple[bytes, Delivery]:
    """Return the message that a record is in the page."""
    return key(number), Delivery("publish", record(number, **fields).body)


def out(number: int, reason: str = "match", **fields: object) -> tuple[bytes, Delivery]:
    """Return the message that a record, held without further fields, is in the page no longer."""
    return key(number), Delivery("oof", record(number, **fields).body, reason, record(number).body)


def test_the_chapters_example() -> None:
    """Two records behind the first, by id: 2 and 5; then 4 comes, and 5 is out of focus."""
    shown = ShownPage([5, 1, 9, 2, 7], skip=1, top=2)
    assert shown.shown == [2, 5]
    assert shown.publish(4, record(4)) == [out(5), published(4)]


def test_what_comes_before_the_window_pushes_it_down() -> None:
    """The page's last record leaves, and the one that stood before it enters."""
    shown = ShownPage([10, 20, 30, 40], skip=1, top=2)
    assert shown.publish(5, record(5)) == [out(30), published(10)]


def test_what_goes_before_the_window_draws_it_up() -> None:
    """The page's first record leaves, and the one behind it enters; the deleted one was never seen."""
    shown = ShownPage([10, 20, 30, 40], skip=1, top=2)
    assert shown.delete(10) == [out(20), published(40)]


def test_what_is_deleted_makes_room() -> None:
    """It goes with its last body and the reason; the next one slides in."""
    shown = ShownPage([10, 20, 30, 40], skip=1, top=2)
    assert shown.delete(20, "expired") == [out(20, "expired"), published(40)]
    assert shown.delete(40) == [out(40, "deleted")]


def test_what_stays_is_updated_wherever_in_the_window() -> None:
    """A record that changes its place within the page pushes nobody out."""
    shown = ShownPage([1, 2, 3, 4], skip=1, top=3, order=parse_order("/rank, /id"))
    assert shown.shown == [2, 3, 4]
    assert shown.publish(3, record(3, rank=9)) == [published(3, rank=9)]
    assert shown.publish(3, record(3, rank=9, note="again")) == [published(3, rank=9, note="again")]
    assert shown.publish(2, record(2, rank=10)) == [published(2, rank=10)]


def test_what_moves_out_is_out_with_its_new_body() -> None:
    """It still matches, and stands elsewhere."""
    shown = ShownPage([1, 2, 3, 4], skip=1, top=2, order=parse_order("/rank, /id"))
    assert shown.publish(3, record(3, rank=9), record(3)) == [out(3, rank=9), published(4)]
    assert shown.publish(2, record(2, rank=10), record(2)) == [out(2, rank=10), published(3, rank=9)]


def test_what_jumps_over_the_window_shifts_it() -> None:
    """The record that jumps is not seen; what it passes moves by one."""
    shown = ShownPage([1, 2, 3, 4], skip=1, top=2, order=parse_order("/rank, /id"))
    assert shown.publish(1, record(1, rank=9)) == [out(2), published(4)]
    assert shown.publish(1, record(1)) == [out(4), published(2)]


def test_what_stops_to_match_is_out_with_its_new_body() -> None:
    """It leaves the set, but it is not gone."""
    shown = ShownPage([1, 2, 3], skip=0, top=2)
    events = shown.set.remove(key(2))[shown.page]
    assert events == [Left(key(2), record(2)), Entered(key(3), record(3))]
    new = record(2, closed=True)
    assert deliveries(events, change(2, new, record(2)), oof=True) == [out(2, closed=True), published(3)]
    assert deliveries(events, change(2, new, record(2)), oof=False) == [published(3)]


@pytest.mark.parametrize("number", [0, 3, 4])
def test_what_happens_outside_is_not_sent(number: int) -> None:
    """Changes of records behind the page, and of content before it, mean nothing to it."""
    shown = ShownPage([0, 1, 2, 3, 4], skip=1, top=2)
    assert shown.publish(number, record(number, note="x"), record(number)) == []
    assert shown.delete(9) == []
    assert shown.publish(9, record(9)) == []


def test_a_page_of_nothing_stays_empty() -> None:
    """With a `top` of 0 there is nothing to see, whatever happens."""
    shown = ShownPage([1, 2, 3], skip=1, top=0)
    assert shown.shown == []
    assert [shown.publish(0, record(0)), shown.delete(1), shown.publish(2, record(2, x=1))] == [[], [], []]


def test_a_page_that_is_not_full() -> None:
    """It takes what comes, and what is behind its end when the set is too small shows nothing."""
    shown = ShownPage([1], skip=1, top=2)
    assert shown.shown == []
    assert shown.publish(2, record(2)) == [published(2)]
    assert shown.publish(0, record(0)) == [published(1)]
    assert shown.delete(0) == [out(1)]
    assert shown.delete(1) == [out(2)]
    assert shown.delete(2) == []
    assert len(shown.set) == 0


def test_each_page_is_sent_what_it_sees() -> None:
    """One change means different things to different pages of a set, and nothing to some."""
    shown = ShownPage([1, 2, 3, 4], skip=0, top=1)
    second, rest, far = Page(1, 1), Page(1, 9), Page(9, 9)
    for page in (second, rest, far):
        shown.set.open(page)
    received = shown.set.put(BY_ID.key({"id": 0}, b"k0"), record(0))
    assert received == {
        shown.page: [Left(b"k1", record(1)), Entered(b"k0", record(0))],
        second: [Left(b"k2", record(2)), Entered(b"k1", record(1))],
        rest: [Entered(b"k1", record(1))],
    }
    assert shown.set.put(BY_ID.key({"id": 1}, b"k1"), record(1, x=1)) == {
        second: [Updated(b"k1", record(1, x=1))],
        rest: [Updated(b"k1", record(1, x=1))],
    }


def test_a_page_is_closed_by_the_last_of_its_subscribers() -> None:
    """A page gets events until every subscriber that opened it has closed it."""
    shown = ShownPage([1, 2], skip=0, top=1)
    shown.set.open(shown.page)
    shown.set.close(shown.page)
    assert shown.set.pages == {shown.page}
    assert shown.put(1, record(1, x=1)) == [Updated(key(1), record(1, x=1))]
    shown.set.close(shown.page)
    assert shown.set.pages == frozenset()
    assert shown.set.put(BY_ID.key({"id": 0}, b"k0"), record(0)) == {}


@pytest.mark.parametrize("page", [Page(-1, 1), Page(1, -1)])
def test_a_page_has_no_negative_size(page: Page) -> None:
    """The caller has checked it."""
    with pytest.raises(AssertionError):
        ShownPage([1], skip=page.skip, top=page.top)


def test_a_page_beyond_all_records() -> None:
    """However much is skipped, or asked for."""
    assert ShownPage([1, 2], skip=10**30, top=1).shown == []
    shown = ShownPage([1, 2, 3], skip=1, top=10**30)
    assert shown.shown == [2, 3]
    assert shown.publish(4, record(4)) == [published(4)]


def test_the_memory_of_a_set_is_a_sum() -> None:
    """It is that of a new set with the same records, whatever came and went; to ask for it reads no record."""
    order = parse_order("/name, /id DESC")
    names = ["a", "é" * 50, None, "x" * 100_000, 1.5, "z"]
    documents = [{"id": number, "name": names[number % 6]} for number in range(300)]
    keys = [order.key(document, b"%d" % number) for number, document in enumerate(documents)]
    changing: SortedSet[Kept] = SortedSet()
    for sort_key in keys:
        changing.put(sort_key, record(0))
    for number in range(0, 300, 2):
        changing.put(order.key({"id": number, "name": "é"}, b"%d" % number), record(0))
    orjson.dumps(documents)  # Python now keeps these texts as UTF-8, too
    for number in range(200):
        changing.remove(b"%d" % number)
    left = [sort_key for sort_key, _ in changing._records.values()]
    assert changing.nbytes == SortedSet((sort_key, record(0)) for sort_key in left).nbytes > 16 * 100_000
    del changing._keys
    assert changing.nbytes > 0


def test_the_memory_of_a_value_stays_the_same() -> None:
    """However the value was used since."""
    text = "".join(["é", "ß"] * 500)
    before = value_bytes([text, 1])
    orjson.dumps(text)
    assert value_bytes([text, 1]) == before > 2000
