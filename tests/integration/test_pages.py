"""Paginated subscriptions, through a raw WebSocket, against real processes over a real Kafka."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.load import Publishers, model_of, new_seed
from tests.integration.served import Served, serve
from tests.integration.services import System
from tests.integration.watching import Groups, Page, Watcher, visit
from tests.integration.wire import Json, Wire, wire
from tests.waiting import wait_for

ROUNDS = 2
PULSES = 50
"""Of commands, in a round; between them subscribers read, come and go."""
COMMANDS = 30
"""In one pulse."""
BACKLOG_BYTES = 16 * 1024
RING = 40


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One materializer and one query service for all tests here."""
    names = ("example", "slide", "shared", "stay", "random")
    topics = {name: {"key": "/id", "partitions": 3} for name in names}
    limits: dict[str, Any] = {"backlog_bytes_max": BACKLOG_BYTES, "ring_changes_max": RING}
    with serve(kafka, tmp_path_factory.mktemp("pages"), topics, **limits) as served:
        yield served


@pytest.fixture
def client(served: Served) -> Iterator[Wire]:
    """A connection of the test's own."""
    with wire(served.query.url) as client:
        yield client


def summary(messages: list[Json]) -> list[tuple[str, int]]:
    """Return what is said of which record, in order."""
    summaries: list[tuple[str, int]] = []
    for message in messages:
        records = message["records"] if message["command"] == "sow" else [message]
        summaries += [(message["command"], record["data"]["id"]) for record in records if "data" in record]
    return summaries


def test_the_chapters_example(client: Wire, served: Served) -> None:
    """A page of two behind the first by id shows 2 and 5; when 4 is published, 5 goes out of focus."""
    served["example"].write(*({"id": id} for id in (1, 2, 5)))
    about: Json = {"topic": served["example"].name, "order_by": "/id", "top_n": 2, "skip_n": 1}
    client.send("sow_and_subscribe", sub_id="s", options="oof", **about)
    client.send("sow_and_subscribe", sub_id="without", **about)
    assert summary(client.group()) == [("sow", 2), ("sow", 5)]
    assert summary(client.group()) == [("sow", 2), ("sow", 5)]
    served["example"].write({"id": 4})
    messages = client.heartbeat()
    assert summary([m for m in messages if m["sids"] == ["s"]]) == [("oof", 5), ("publish", 4)]
    assert summary([m for m in messages if m["sids"] == ["without"]]) == [("publish", 4)]
    oof, publish = (m for m in messages if m["sids"] == ["s"])
    assert (oof["reason"], oof["more"]) == ("match", True)
    assert "more" not in publish
    client.send("sow", batch_size=2, **about)
    assert summary(client.group()) == [("sow", 2), ("sow", 4)]


def test_deletes_slide_the_window(client: Wire, served: Served) -> None:
    """What follows moves up; a record outside that goes away behind the window is nothing to it."""
    served["slide"].write(*({"id": id} for id in range(1, 8)))
    client.send(
        "sow_and_subscribe", topic=served["slide"].name, order_by="/id", top_n=2, skip_n=1, options="oof"
    )
    assert summary(client.group()) == [("sow", 2), ("sow", 3)]
    for id, expected in (
        (2, [("oof", 2), ("publish", 4)]),
        (1, [("oof", 3), ("publish", 5)]),
        (7, []),
        (4, [("oof", 4), ("publish", 6)]),
        (6, [("oof", 6)]),
        (3, [("oof", 5)]),
        (5, []),
    ):
        served["slide"].delete({"id": id})
        messages = client.heartbeat()
        assert summary(messages) == expected
        reasons = {m["data"]["id"]: m["reason"] for m in messages if m["command"] == "oof"}
        assert reasons == {gone: "deleted" if gone == id else "match" for gone in reasons}


def test_records_move(client: Wire, served: Served) -> None:
    """A record that stays is told as often as it changes; one that moves pushes out what stood at the end."""
    served["stay"].write(*({"id": id, "n": id} for id in range(5)))
    client.send(
        "sow_and_subscribe", topic=served["stay"].name, order_by="/n DESC", top_n=2, skip_n=1, options="oof"
    )
    assert summary(client.group()) == [("sow", 3), ("sow", 2)]
    for id, n, expected in (
        (3, 3.5, [("publish", 3)]),
        (0, 9, [("oof", 2), ("publish", 4)]),
        (1, 1.5, []),
        (4, -1, [("oof", 4), ("publish", 2)]),
    ):
        served["stay"].write({"id": id, "n": n})
        assert summary(client.heartbeat()) == expected


@pytest.mark.one_node
def test_clients_share_a_set(served: Served) -> None:
    """Each sees its own window of it, and goes on when others have left."""
    about: Json = {"topic": served["shared"].name, "order_by": "/id", "options": "oof"}

    def live() -> float:
        return served.query.metric("sowline_subscriptions_live")

    wait_for(lambda: live() == 0, "those of other tests to be gone")
    with wire(served.query.url) as first:
        with wire(served.query.url) as second:
            for client, skip in ((first, 0), (second, 1)):
                client.send("sow_and_subscribe", top_n=1, skip_n=skip, ack_type="stats", **about)
                client.receive_until(lambda message: message.get("ack_type") == "stats")
            assert live() == 2
            served["shared"].write({"id": 2})
            served["shared"].write({"id": 1})
            assert summary(first.heartbeat()) == [("publish", 2), ("oof", 2), ("publish", 1)]
            assert summary(second.heartbeat()) == [("publish", 2)]
        wait_for(lambda: live() == 1, "one to leave")
        served["shared"].write({"id": 0})
        assert summary(first.heartbeat()) == [("oof", 1), ("publish", 0)]
    wait_for(lambda: live() == 0, "both to leave")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"command": "subscribe", "top_n": 1, "skip_n": 0}, "not supported"),
        ({"skip_n": 0}, "invalid skip_n"),
        ({"top_n": 10_001, "skip_n": 0}, "invalid top_n"),
        ({"top_n": 1, "skip_n": 0, "topic": "^.*"}, "regex topic not supported"),
        ({"top_n": 1, "skip_n": 0, "sow_keys": ["1"]}, "not supported"),
        ({"top_n": 1, "skip_n": 0, "filter": "UNIX_TIMESTAMP() > 0"}, "bad filter"),
    ],
    ids=lambda given: str(given)[:40],
)
def test_page_that_can_not_be(client: Wire, served: Served, fields: Json, reason: str) -> None:
    """It is refused with its reason, and its id stays free."""
    given: Json = {"command": "sow_and_subscribe", "topic": served["shared"].name, "sub_id": "s"} | fields
    assert client.fail(**given)["reason"] == reason
    client.send("sow_and_subscribe", topic=served["shared"].name, sub_id="s", top_n=1, skip_n=0)
    assert client.group()[0]["command"] == "group_begin"


# any number of pages and groups, while everything changes

QUICK = (
    Page("", "/qty DESC, /id", 10, 5),
    Page("/region = 'north'", "/more/level, /qty TEXT", 3, 0),
    Groups("", ("region",)),
    Groups("", ("region", "more.level"), "/total DESC, /region, /more/level", 4, 1),
)
COMING_AND_GOING = (
    Page("", "/qty DESC, /id", 15, 0),
    Page("/qty > 50", "", 5, 2),
    Groups("/qty > 50", ("region", "more.level")),
    Groups("/qty > 50", ("id",), "/least, /id DESC", 6, 2),
)
SLOW = (
    Page("", "/region DESC", 40, 0),
    Groups("", ("region", "id")),
    Groups("", ("region", "id"), "/region, /id", 40, 0),
)


class Writer(Publishers):
    """Writes so many commands of every kind when it is told to."""

    def __init__(self, system: System, topic: str, dice: random.Random) -> None:
        super().__init__(system, topic, seed=0, count=0)
        self._dice = dice
        self._publisher = system.publisher()

    def write(self, count: int) -> None:
        """Write commands; they are with Kafka soon."""
        for _ in range(count):
            self._write(self._publisher, self._dice)

    def flush(self) -> None:
        """Wait until they are with Kafka."""
        self._publisher.flush()


class Crowd:
    """Subscribers of every kind to one topic."""

    def __init__(self, served: Served, name: str, dice: random.Random) -> None:
        self._served = served
        self._topic = served[name]
        self._dice = dice
        topic, url = served[name].name, served.query.url
        self.quick = [Watcher(url, topic, asked).come() for asked in QUICK]
        self.coming = [Watcher(url, topic, asked).come() for asked in COMING_AND_GOING]
        self.slow = [Watcher(url, topic, asked).come(receive_bytes=4096) for asked in SLOW]
        for watcher in self.all:
            watcher.read()

    @property
    def all(self) -> list[Watcher]:
        """All of them."""
        return [*self.quick, *self.coming, *self.slow]

    def watch(self) -> None:
        """Let all but the slow ones read, and one or another come and go."""
        for watcher in self.quick:
            watcher.read()
        visit(self._dice.choice(self.coming), self._dice)

    def outrun_the_slow(self) -> None:
        """Write until the slow ones are no longer live."""
        query = self._served.query
        rounds = iter(range(1_000_000))

        def outrun() -> bool:
            number = next(rounds)
            region = f"{number:05}" + "x" * 5000
            records = [{"id": id, "qty": number % 100, "region": region} for id in range(60)]
            self._topic.write(*records)
            for watcher in (*self.quick, *self.coming):
                watcher.read()
            return query.metric("sowline_subscriptions_live") <= len(self.all) - len(self.slow)

        wait_for(outrun, "the slow ones to fall behind")

    def wait_up_to_date(self) -> None:
        """Wait until everybody sees what a query shows now."""
        self._topic.settle()
        for watcher in self.all:
            wait_for(watcher.is_up_to_date, f"{watcher.asked} to be up to date")

    def close(self) -> None:
        """Disconnect all."""
        for watcher in self.all:
            watcher.leave()


def test_views_are_what_a_query_shows(served: Served) -> None:
    """After every step, each page and each group is what the log says at its bookmark; in the end, what is now."""
    seed = new_seed()
    dice = random.Random(seed)
    writer = Writer(served.system, served["random"].name, dice)
    crowd = Crowd(served, "random", dice)
    try:
        for _ in range(ROUNDS):
            crowd.outrun_the_slow()
            for _ in range(PULSES):
                writer.write(COMMANDS)
                crowd.watch()
            writer.flush()
            crowd.wait_up_to_date()
    finally:
        crowd.close()
    model = model_of(served.system, served["random"].name)
    for watcher in crowd.all:
        watcher.check(model)
        assert watcher.groups == 1, "anyone who comes back with a bookmark is told the difference"
    assert all(watcher.returns for watcher in crowd.coming)
    assert all(len(watcher.looks) > 5 for watcher in crowd.quick)
