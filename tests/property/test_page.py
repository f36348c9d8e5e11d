"""Pages against a model that sorts all records: a client that applies each message always holds its page."""

from typing import NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from sowline.changes.change import Change
from sowline.language.expressions.order import Order, SortKey, parse_order
from sowline.model.position import Position
from sowline.subscriptions.engine.page import Entered, Event, Left, Page, SortedSet, Updated, deliveries


class Kept(NamedTuple):
    """A record as the set keeps it; no two bodies are the same."""

    body: bytes
    known: None = None


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
        if now is not None and kind == "put":
            self.records[sow_key] = now
            events_of = self.set.put(*now)
        else:
            events_of = self.set.remove(sow_key)
        bodies = [None if record is None else record[1].body for record in (now, previous)]
        change = Change(sow_key, bodies[0], bodies[1], Position(0, 1), Position(0, 0), "x", 0)
        for page, events in events_of.items():
            self.clients[page].apply(events)
            self.clients[page].receive(events, change)

    def check(self) -> None:
        """Every client holds the model's page, by the events and by the messages alike."""
        in_order = sorted(self.records.values(), key=lambda record: record[0])
        assert len(self.set) == len(in_order)
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
