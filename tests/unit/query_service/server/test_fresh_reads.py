"""Reads that demand a fresh state: they wait, and are refused where it does not get fresh enough."""

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import pytest

from sowline.model.position import Position
from sowline.serving.query_slots import Asker, SlotLimits
from sowline_query_service.query import freshness
from sowline_query_service.replica.log_end import Reached
from sowline_query_service.topics.log_ends import LogEndSample
from sowline_query_service.topics.topic_state import lag_seconds
from tests.unit.query_service.sessions import Client, Json, Server, settled
from tests.waiting import until


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for seconds."""
    monkeypatch.setattr(freshness, "AT_LEAST_SECONDS_MAX", 0.2)
    monkeypatch.setattr(freshness, "FRESH_SECONDS_MAX", 0.2)


WINDOWS: dict[str, dict[str, Any]] = {
    "page": {"command": "sow_and_subscribe", "order_by": "/id", "skip_n": 0, "top_n": 1},
    "groups": {"command": "sow_and_subscribe", "options": "grouping=[/id],projection=[/id,COUNT(1) AS /n]"},
}
"""Reads that are filled before they are sent."""


def served() -> tuple[Server, Client]:
    """Return a server that has applied the log up to offset 0, and a client of it."""
    server = Server().loaded()
    server.put({"id": 1})
    server.topic.partitions[0].log_id = "id"
    return server, server.connect()


def sample(server: Server, end: int, seconds_ago: float = 0.0) -> None:
    """Let the log end before this offset."""
    held = server.state.reached(["orders"])
    server.state.take_log_ends(
        LogEndSample(time.monotonic() - seconds_ago, {("orders", 0): end}, {"orders": "id"}, held)
    )


async def test_a_topic_without_a_sow_learns_its_log_from_kafka() -> None:
    """The progress events that name it are deleted by age: the lag would never be known."""
    server = Server(definition="{name: orders, sow: false}").loaded()
    server.put({"id": 1})
    server.topic.partitions[0].log_id = ""
    sample(server, end=1)
    held = server.topic.partitions[0].reached
    assert server.topic.log_ends[0].lag(held, time.monotonic()).records == 0


async def test_a_read_waits_for_the_bookmark_that_it_demands() -> None:
    """It sees the change that the bookmark names, and commands after it wait with it."""
    server, client = served()
    reading = asyncio.create_task(
        client.session.receive(
            b'[{"command":"sow","command_id":"1","topic":"orders","at_least":"orders:0@1"},'
            b'{"command":"heartbeat","command_id":"2"}]'
        )
    )
    await settled()
    assert await client.read() == []
    server.put({"id": 2})
    await reading
    # Once the read has begun, the command after it may be answered within its group.
    messages = await client.read()
    answers = [one for one in messages if one["command"] != "heartbeat"]
    assert [one["command"] for one in answers] == ["group_begin", "sow", "sow", "group_end"]
    assert (len(messages) - len(answers), answers[0]["bookmark"]) == (1, "orders:0@1")


@pytest.mark.parametrize("command", ["sow", "subscribe", "sow_and_subscribe", "explain"])
async def test_a_bookmark_that_does_not_come_in_time(command: str) -> None:
    """The read is refused, says where the replica is, and never begins."""
    _, client = served()
    await client.session.receive(
        b'{"command":"%b","command_id":"1","topic":"orders","at_least":"orders:0@5"}' % command.encode()
    )
    (failure,) = await client.read()
    assert failure["reason"] == "behind"
    assert "this replica is at orders:0@0, before orders:0@5" in failure["message"]


async def test_the_positions_of_other_topics_are_no_demand() -> None:
    """A client that has written to several topics demands all its writes, whatever it reads."""
    _, client = served()
    for floor in ("others:7@1", "orders:0@0;others:7@1"):
        client.ask("sow", at_least=floor)
        found = await client.read()
        assert [one["command"] for one in found] == ["group_begin", "sow", "group_end"]
    client.ask("sow", at_least="others:7@1;orders:0@5")
    (failure,) = await client.read()
    assert failure["reason"] == "behind"


@pytest.mark.parametrize(
    ("bookmark", "message"),
    [
        ("orders:7@1", "expected a partition of orders below "),
        ("20261121T120000Z", "expected"),
        ("now", "expected"),
    ],
)
async def test_at_least_is_a_bookmark_of_positions(bookmark: str, message: str) -> None:
    """A time is no floor, and each partition exists."""
    _, client = served()
    client.ask("sow", at_least=bookmark)
    (failure,) = await client.read()
    assert failure["reason"] == "invalid bookmark"
    assert message in failure["message"]


async def test_a_state_that_is_fresh_enough_is_read_at_once() -> None:
    """And `stats` says how fresh it was."""
    server, client = served()
    sample(server, 1, seconds_ago=0.1)
    await client.session.receive(
        b'{"command":"sow","command_id":"1","topic":"orders","max_staleness":"10s","ack_type":"stats"}'
    )
    stats = (await client.read())[-1]
    assert stats["ack_type"] == "stats"
    assert 0.1 <= stats["lag_seconds"] < 10


@pytest.mark.parametrize("is_late", [True, False], ids=["stalled", "fresh again"])
@pytest.mark.parametrize("command", ["sow", "sow_and_subscribe", "explain", "page", "groups"])
async def test_a_read_is_fresh_when_its_turn_comes(
    monkeypatch: pytest.MonkeyPatch, command: str, is_late: bool
) -> None:
    """It may have waited for its turn for long; while it waits for a fresh state, others have that turn."""
    server, client = served()
    seconds, slots = [0.0], server.context.slots
    monkeypatch.setattr(freshness, "lag_seconds", lambda topics: seconds[0])
    held = [slots.new(Asker(str(number), number)) for number in range(SlotLimits().service)]
    assert all(slot.take_now() for slot in held)
    client.ask(**WINDOWS.get(command, {"command": command}), max_staleness="1s", sub_id="s", query_id="q")
    await settled()
    assert slots.waiting == 1
    seconds[0] = 60.0
    for slot in held:
        slot.free()
    assert (await client.read(), slots.running) == ([], 0)
    seconds[0] = 60.0 if is_late else 0.0
    sample(server, 1)
    messages: list[Json] = []

    async def answered() -> bool:
        messages.extend(await client.read())
        return bool(messages)

    await until(answered)
    assert [m.get("reason") for m in messages if m.get("reason")] == (["stale"] if is_late else [])
    assert slots.running == 0


async def test_a_read_requests_a_newer_sample() -> None:
    """The state may be fresh though the last sample is old."""
    server, client = served()
    sample(server, 1, seconds_ago=60)
    requested: list[str] = []

    def sample_soon(logs: Iterable[str]) -> None:
        requested.extend(logs)
        asyncio.get_running_loop().call_soon(sample, server, 1)

    server.state.sample_soon = sample_soon
    await client.session.receive(b'{"command":"sow","command_id":"1","topic":"orders","max_staleness":"5s"}')
    assert [one["command"] for one in await client.read()] == ["group_begin", "sow", "group_end"]
    assert requested == ["orders"]


@pytest.mark.parametrize(("end", "found"), [(9, "is 60"), (None, "is not known how old")])
async def test_a_state_that_is_too_old_is_refused_with_its_age(end: int | None, found: str) -> None:
    """Unknown is too old, too."""
    server, client = served()
    if end is not None:
        sample(server, 1, seconds_ago=60)
        server.state.topics["orders"].lags()
        sample(server, end)
    await client.session.receive(
        b'{"command":"sow","command_id":"1","topic":"orders","max_staleness":"500ms"}'
    )
    (failure,) = await client.read()
    assert failure["reason"] == "stale"
    assert "at most 0.5 s behind the log" in failure["message"]
    assert found in failure["message"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"command": "sow", "max_staleness": "soon"}, "max_staleness: expected a duration such as 250ms"),
        (
            {"command": "publish", "data": {"id": 1}, "at_least": "orders:0@1"},
            "at_least and max_staleness only on",
        ),
        ({"command": "heartbeat", "max_staleness": "1s"}, "at_least and max_staleness only on"),
    ],
)
async def test_wrong_demands_are_refused(fields: dict[str, object], message: str) -> None:
    """With what is expected."""
    _, client = served()
    command = str(fields.pop("command"))
    client.ask(command, **fields)
    (failure,) = await client.read()
    assert failure["reason"] == "bad request"
    assert message in failure["message"]


def test_a_lag_is_that_of_all_topics() -> None:
    """The topic furthest behind decides; one that is not known makes the whole unknown."""
    server, _ = served()
    assert lag_seconds([server.topic]) is None
    sample(server, 1, seconds_ago=5)
    assert 5 <= (lag_seconds([server.topic]) or 0) < 60
    assert server.topic.lags()[0].records == 0
    assert server.state.unapplied(["orders"]) == {("orders", 0): range(1, 1)}
    assert server.state.reached(["orders"]) == {("orders", 0): Reached(Position(0, 0), "id")}
