"""Pages against a model that sorts all records: a client that applies each message always holds its page."""

from typing import NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from sowline.changes.change import Change
from sowline.language.expressions.order import Order, SortKey, parse_order
from sowline.model.position import Position
from sowline.subscriptions.engine.page import Entered, Event, Left, Page, SortedSet, Updated, deliveries
from sowline.subscriptions.engine.prefix import SortedPrefix


class Kept(NamedTuple):
    """A record as the set keeps it; no two bodies are the same."""

    body: bytes
    known: None = None


Events = dict[Page, list[Event[Kept]]]

numbers = st.integers(0, 7)
ranks = st.integers(0, 3) | st.sampled_from(["", "a", "10"]) | st.none()
changes = st.tuples(numbers, st.sampled_from(["put", "put", "put", "remove", "stop"]), ranks)
pages = st.lists(st.builds(Page, st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=4)
orders = st.sampled_from(["", "/rank", "/rank DESC", "/rank DESC TEXT"]).map(parse_order)


class Client:
    """Holds what one page's subscriber was sent, and refuses a message about what it already has."""

    def __init__(self, shown: list[tuple[bytes, Kept]]) -> None:
        self.held = {sow_key: kept.body for sow_key, kept in shown}
        self.published = dict(self.held)

    def apply(self, events: list[Event[Kept]]) -> None:
        """Apply what the set says."""
        assert events
        assert [event for event in events if isinstance(event, Left)] == events[:-1] or len(events) == 1
        for event in events:
            match event:
                case Left(sow_key):
                    del self.held[sow_key]
                case Entered(sow_key, kept):
                    assert sow_key not in self.held
                    self.held[sow_key] = kept.body
                case Updated(sow_key, kept):
                    assert self.held[sow_key] != kept.body
                    self.held[sow_key] = kept.body

    def receive(self, events: list[Event[Kept]], change: Change) -> None:
        """Apply the messages that a subscriber with `oof` gets, and check them against those without."""
        messages = deliveries(events, change, oof=True)
        assert deliveries(events, change, oof=False) == [each for each in messages if each[1].reason is None]
        for sow_key, message in messages:
            if message.command == "publish":
                assert self.published.get(sow_key) != message.body
                self.published[sow_key] = message.body
                continue
            last = self.published.pop(sow_key)
            if message.reason == "match":
                assert (message.body == last) is (sow_key != change.sow_key)
            else:
                assert (sow_key, message.body, message.reason) == (change.sow_key, last, "deleted")


class World:
    """The records, the set under test, and a client for each of its pages."""

    def __init__(self, order: Order, begin: list[tuple[int, object]], opened: list[Page]) -> None:
        self.order = order
        self.records: dict[bytes, tuple[SortKey, Kept]] = {}
        self.made = 0
        for number, rank in begin:
            self.records[b"%d" % number] = self.made_of(number, rank)
        self.set: SortedSet[Kept] = SortedSet(self.records.values())
        self.clients = {page: Client(self.set.open(page)) for page in opened}

    def made_of(self, number: int, rank: object) -> tuple[SortKey, Kept]:
        """Return a record with a body of its own, and its sort key."""
        self.made += 1
        return self.order.key({"rank": rank}, b"%d" % number), Kept(b"%d" % self.made)

    def step(self, number: int, kind: str, rank: object) -> None:
        """Make one change, and tell the clients."""
        sow_key = b"%d" % number
        previous = self.records.pop(sow_key, None)
        now = self.made_of(number, rank) if kind != "remove" else None
        matches_now = now if kind == "put" else None
        if matches_now is not None:
            self.records[sow_key] = matches_now
        events_of = self.apply(sow_key, matches_now, matched=previous is not None)
        bodies = [None if record is None else record[1].body for record in (now, previous)]
        change = Change(sow_key, bodies[0], bodies[1], Position(0, 1), Position(0, 0), "x", 0)
        for page, events in events_of.items():
            self.clients[page].apply(events)
            self.clients[page].receive(events, change)

    def apply(self, sow_key: bytes, now: tuple[SortKey, Kept] | None, *, matched: bool) -> Events:
        """Apply a change to the set."""
        del matched
        return self.set.remove(sow_key) if now is None else self.set.put(*now)

    @property
    def matches(self) -> int:
        """The number of records that match, as the set counts them."""
        return len(self.set)

    def check(self) -> None:
        """Every client holds the model's page, by the events and by the messages alike."""
        in_order = sorted(self.records.values(), key=lambda record: record[0])
        assert self.matches == len(in_order)
        for page, client in self.clients.items():
            shown = in_order[page.skip : page.skip + page.top]
            assert client.held == {sort_key[-1]: kept.body for sort_key, kept in shown}
            assert client.published == client.held
            assert self.set.open(page) == [(sort_key[-1], kept) for sort_key, kept in shown]


@given(orders, st.lists(st.tuples(numbers, ranks), max_size=8), pages, st.lists(changes, max_size=25))
@example(parse_order("/rank"), [(1, 1), (2, 1), (3, 1)], [Page(1, 1)], [(1, "put", 2), (1, "put", 0)])
@example(parse_order("/rank"), [(1, 1)], [Page(1, 0)], [(0, "put", 0), (0, "remove", None)])
def test_a_client_always_holds_its_window(
    order: Order,
    begin: list[tuple[int, object]],
    opened: list[Page],
    steps: list[tuple[int, str, object]],
) -> None:
    """Records come, change, move, stop to match and go: what is told is enough, and no more than that."""
    world = World(order, begin, opened)
    world.check()
    for step in steps:
        world.step(*step)
        world.check()


class PrefixWorld(World):
    """A world whose set holds only the first records, and finds more when few are left."""

    def __init__(
        self, order: Order, begin: list[tuple[int, object]], opened: list[Page], margin: int
    ) -> None:
        super().__init__(order, begin, opened)
        self.margin = margin
        self.refill()

    def refill(self) -> None:
        """Find the first records again."""
        in_order = sorted(self.records.values(), key=lambda record: record[0])
        self.prefix: SortedPrefix[Kept]
        held = in_order[: max(page.end for page in self.clients) + self.margin]
        self.set = self.prefix = SortedPrefix(held, len(in_order))
        for page in self.clients:
            self.set.open(page)

    def step(self, number: int, kind: str, rank: object) -> None:
        """Make one change, and tell the clients."""
        if not self.prefix.reaches(self.prefix.end + 1):
            self.refill()
        super().step(number, kind, rank)
        if kind == "stop":
            self.prefix.cut(self.prefix.end + 1)

    def apply(self, sow_key: bytes, now: tuple[SortKey, Kept] | None, *, matched: bool) -> Events:
        """Apply a change to the set."""
        return self.prefix.change(sow_key, now, lambda: matched)

    @property
    def matches(self) -> int:
        """The number of records that match, as the set counts them."""
        return self.prefix.matches

    def check(self) -> None:
        """Look at the pages only if they are within reach."""
        if self.prefix.reaches(self.prefix.end):
            super().check()


@given(
    orders,
    st.lists(st.tuples(numbers, ranks), max_size=8),
    pages,
    st.lists(changes, max_size=25),
    st.integers(1, 3),
)
def test_a_prefix_shows_what_all_records_do(
    order: Order,
    begin: list[tuple[int, object]],
    opened: list[Page],
    steps: list[tuple[int, str, object]],
    margin: int,
) -> None:
    """A set of the first records means the same to its pages, and counts all that match."""
    world = PrefixWorld(order, begin, opened, margin)
    world.check()
    for step in steps:
        world.step(*step)
        world.check()


def test_the_last_record_behind_comes_back() -> None:
    """Nothing is behind the bound then, so the record is held wherever it is."""
    order = parse_order("/rank")
    one, two = ((order.key({"rank": rank}, b"%d" % rank), Kept(b"%d" % rank)) for rank in (1, 2))
    prefix = SortedPrefix([one], 2)
    later = order.key({"rank": 9}, b"2"), two[1]
    assert prefix.change(b"2", later, lambda: True) == {}
    assert (len(prefix), prefix.matches, prefix.reaches(5)) == (2, 2, True)


def test_a_prefix_of_texts_that_fall() -> None:
    """A record that comes is compared with the bound."""
    order = parse_order("/rank DESC")
    made = {rank: (order.key({"rank": rank}, rank.encode()), Kept(rank.encode())) for rank in "abcd"}
    prefix = SortedPrefix([made["d"], made["b"]], 4)
    prefix.change(b"c", made["c"], lambda: False)
    prefix.change(b"a", made["a"], lambda: True)
    assert (len(prefix), prefix.matches) == (3, 5)
