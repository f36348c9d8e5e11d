"""Catching up: from where a subscription stands to where its topic stands."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from confluent_kafka import KafkaError, KafkaException

from sowline.language.filter import ALL
from sowline.model.position import Position
from sowline.serving.outbox.outbox import Outbox
from sowline.subscriptions.engine.subscription import Subscription
from sowline_query_service.live.subscription import LiveSubscription
from sowline_query_service.query.selection import Selection
from sowline_query_service.replica.partition_replica import CHANGE_BYTES, Ring
from sowline_query_service.subscriptions.catch_up import BookmarkExpired, CatchUp, deliver_one
from tests.unit.query_service.sessions import Server, settled
from tests.waiting import loop_turns, until


@pytest.fixture
def server() -> Iterator[Server]:
    """A server whose ring holds little."""
    server = Server(ring=3).loaded()
    with server.patched():
        for number in range(10):
            server.put({"id": number % 4, "n": number})
        yield server


def subscription_status(server: Server, offset: int, bytes_max: int = 10**6) -> LiveSubscription:
    """Return a subscription that stands at an offset."""
    active = LiveSubscription(Outbox(bytes_max), "s", server.topic, Subscription(ALL), Selection())
    active.positions = {0: Position(0, offset)}
    return active


def sent(active: LiveSubscription) -> list[int]:
    """Take what waits to be sent; return the numbers of its changes."""
    return [json.loads(message)["data"]["n"] for message in active.outbox.take_now()]


@pytest.mark.parametrize("offset", range(-1, 10))
async def test_everything_after_the_position_comes_once(server: Server, offset: int) -> None:
    """From the ring or the changes topic, in order; then the subscription is live."""
    active = subscription_status(server, offset)
    await CatchUp({}, active).check()
    await CatchUp({}, active).run(server.dispatcher)
    assert sent(active) == list(range(offset + 1, 10))
    assert (active.positions, server.dispatcher.live) == ({0: Position(0, 9)}, 1)


@pytest.fixture
def server_with_a_large_change() -> Iterator[Server]:
    """A server whose change 5 is larger than its whole ring."""
    server = Server().loaded()
    server.topic.partitions[0].ring = Ring(changes_max=1000, bytes_max=10 * CHANGE_BYTES)
    with server.patched():
        for number in range(10):
            server.put({"id": number, "n": number, "text": "x" * (11 * CHANGE_BYTES * (number == 5))})
        yield server


@pytest.mark.parametrize("offset", range(-1, 10))
async def test_what_was_too_large_for_the_ring_comes_from_the_changes_topic(
    server_with_a_large_change: Server, offset: int
) -> None:
    """Whole, and in its place; and only who comes from before it has to read that topic."""
    server = server_with_a_large_change
    read = server.read
    active = subscription_status(server, offset)
    await CatchUp({}, active).check()
    await CatchUp({}, active).run(server.dispatcher)
    assert sent(active) == list(range(offset + 1, 10))
    assert (server.read > read) == (offset < 5)
    server.put({"id": 0, "n": 10})
    assert sent(active)[-1] == 10


async def test_what_happens_meanwhile_comes_too(server: Server) -> None:
    """Changes that are applied while a subscription catches up are neither missed nor sent twice."""
    active = subscription_status(server, -1)
    running = asyncio.create_task(CatchUp({}, active).run(server.dispatcher))
    for number in range(10, 30):
        await loop_turns()
        server.put({"id": 1, "n": number})
    await running
    server.put({"id": 1, "n": 30})
    assert sent(active) == list(range(31))


@pytest.mark.parametrize("first", [3, 5])
async def test_a_gap_is_an_expired_bookmark(server: Server, first: int) -> None:
    """Where the next change is gone, nothing is delivered, neither at the check nor in the run."""
    server.written[0] = server.written[0][first:]
    for step in (
        CatchUp({}, active := subscription_status(server, 1)).check(),
        CatchUp({}, active).run(server.dispatcher),
    ):
        with pytest.raises(BookmarkExpired) as error:
            await step
        assert error.value.reason == "bookmark_expired"
        assert "the changes after orders:0@1 are" in error.value.message
    assert (sent(active), server.dispatcher.live) == ([], 0)


async def test_a_client_without_room_is_waited_for(server: Server) -> None:
    """Nothing is put into a full outbox, and nobody is live who could not take a message."""
    active = subscription_status(server, 5, bytes_max=150)
    running = asyncio.create_task(CatchUp({}, active).run(server.dispatcher))
    await settled()
    assert not running.done()
    assert (server.dispatcher.live, sent(active)) == (0, [6, 7])
    await settled()
    assert (server.dispatcher.live, sent(active)) == (0, [8, 9])
    await running
    assert server.dispatcher.live == 1


async def test_clients_that_drain_together_take_turns() -> None:
    """One of them goes on in each turn of the loop, however many have room at one time."""
    server = Server(partitions=1, ring=100, backlog=20_000).loaded()
    served: list[set[int]] = [set()]

    def noted(live: LiveSubscription, *given: Any) -> None:
        served[-1].add(id(live))
        deliver_one(live, *given)

    with server.patched(), patch("sowline_query_service.subscriptions.catch_up.deliver_one", noted):
        for number in range(1000):
            server.put({"id": number % 50, "n": number, "text": "x" * 100})
        clients = [server.connect() for _ in range(20)]
        for client in clients:
            client.ask("subscribe", sub_id="s", bookmark="epoch")
        await until(lambda: all(client.outbox.is_blocked for client in clients))
        await settled()
        before = len(served)
        for client in clients:
            while client.outbox.is_blocked:
                client.outbox.take_now()
        for _ in range(100):
            served.append(set())
            await loop_turns()
        assert len(set[int]().union(*served[before:])) == 20
        assert max(map(len, served[before:])) == 1
        for client in clients:
            client.ask("unsubscribe", sub_id="s")
        await settled()


@pytest.mark.parametrize("kept", [0, 3, 9])
async def test_changes_that_are_gone_behind_what_is_kept(server: Server, kept: int) -> None:
    """What the replica has applied and the changes topic does not end with is a gap, too."""
    del server.written[0][kept:]
    with pytest.raises(BookmarkExpired):
        await CatchUp({}, subscription_status(server, -1)).run(server.dispatcher)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError._AUTO_OFFSET_RESET, BookmarkExpired),
        (KafkaError.OFFSET_OUT_OF_RANGE, BookmarkExpired),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaException),
    ],
)
async def test_offsets_that_are_gone(server: Server, code: int, expected: type[Exception]) -> None:
    """Changes that Kafka has deleted from the beginning are gone as well; any other error is one."""

    def refused(*given: object) -> Iterator[list[object]]:
        raise KafkaException(KafkaError(code))
        yield []

    with patch("sowline_query_service.subscriptions.catch_up.read_range", refused), pytest.raises(expected):
        await CatchUp({}, subscription_status(server, -1)).check()
