"""Replays over a real Kafka: from times, bookmarks and in between, on two replicas, while others write."""

import asyncio
import json
import random
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sowline.client.async_client import AsyncClient
from sowline.client.client import Client
from sowline.model.bookmark import format_time
from sowline.subscriptions.ask import Ask
from tests.integration.load import SELECTIONS, Publishers, model_of, new_seed, write_marks
from tests.integration.positions import positions_of
from tests.integration.replay_rig import GRANULARITY_MS, Replicas, Visitor, Watching
from tests.integration.services import http_text, system
from tests.integration.wire import Json, Wire, wire
from tests.waiting import SECONDS_MAX, clock_reaches, pace, until

HISTORY = {"history": {"window": "1h", "granularity": f"{GRANULARITY_MS}ms"}}
WRITING_SECONDS = 8.0
VISITORS = 10


@pytest.fixture(scope="module")
def replicas(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """Topics of two partitions."""
    prefix = f"t{uuid.uuid4().hex[:12]}"
    shape = {"key": ["/id"], "partitions": 2}
    topics: list[dict[str, Any]] = [
        {"name": f"{prefix}-{name}"} | shape | HISTORY for name in ("load", "past", "ends", "quiet")
    ]
    topics.append({"name": f"{prefix}-plain"} | shape)
    topics.append({"name": f"{prefix}-ticks", "sow": False, "partitions": 2})
    directory: Path = tmp_path_factory.mktemp("replay")
    with system(kafka, directory, topics) as made:
        yield Replicas(made, prefix)


@pytest.fixture
def client(replicas: Replicas) -> Iterator[Wire]:
    """A raw connection."""
    with wire(replicas.query.url) as client:
        yield client


def now() -> datetime:
    """Return a time that lies between what was written before and what is written after."""
    clock_reaches(time.time() + 0.12)
    at = datetime.now(UTC)
    clock_reaches(time.time() + 0.12)
    return at


def completed(message: Json) -> bool:
    """Whether this is the acknowledgement at the end of a replay."""
    return message.get("ack_type") == "completed"


def summary(messages: list[Json]) -> list[tuple[str, Any, Any]]:
    """Return the messages about records: their command, the record, and the number in it."""
    found = []
    for message in messages:
        bodies = [record["data"] for record in message["records"]] if message["command"] == "sow" else []
        if message["command"] in ("publish", "oof"):
            bodies = [message["data"]]
        found += [(message["command"], body["id"], body.get("n")) for body in bodies]
    return found


# times, ends and what is told between them


@dataclass
class Past:
    """What was written when, all to one record a partition."""

    topic: str
    first: datetime
    second: datetime


@pytest.fixture(scope="module")
def past(replicas: Replicas) -> Past:
    """Records that change, go, and come, at three times."""
    topic = replicas.topic("past")
    publisher = replicas.system.publisher()
    replicas.write(topic, {"id": "a", "n": 1}, {"id": "b", "n": 1}, {"id": "c", "n": 1})
    first = now()
    publisher.delta_publish(topic, {"id": "a", "n": 2})
    publisher.sow_delete(topic, data={"id": "b"})
    publisher.flush()
    second = now()
    replicas.write(topic, {"id": "a", "n": 3}, {"id": "d", "n": 3})
    return Past(topic, first, second)


def test_a_time_begins_behind_what_was_until_then(client: Wire, past: Past) -> None:
    """Deletions are replayed too, as a subscriber with oof gets them."""
    client.send(
        "subscribe",
        topic=past.topic,
        bookmark=format_time(past.first),
        options="oof",
        ack_type="completed",
    )
    *messages, end = client.receive_until(completed)
    assert sorted(summary(messages)) == [
        ("oof", "b", 1),
        ("publish", "a", 2),
        ("publish", "a", 3),
        ("publish", "d", 3),
    ]
    assert (end["status"], len(positions_of(end["bookmark"]))) == ("success", 2)


@pytest.mark.parametrize("start", ["00010101T000000Z", "19691231T235959.999Z", "19700101T000000Z"])
def test_a_time_before_every_change(client: Wire, past: Past, start: str) -> None:
    """It begins before the first change; times before 1970 are such times, as a begin and as an end."""
    client.send("subscribe", topic=past.topic, bookmark=start, up_to="now", ack_type="completed")
    *messages, end = client.receive_until(completed)
    assert (len(messages), end["status"]) == (6, "success"), messages
    client.send("subscribe", topic=past.topic, bookmark="epoch", up_to=start, ack_type="completed")
    [end] = client.receive_until(completed)
    assert end["status"] == "success"


@pytest.mark.parametrize("start", ["99991231T235959.999999Z", "29990101T000000Z"])
def test_a_time_after_every_change(client: Wire, past: Past, start: str) -> None:
    """Nothing begins at a time that is to come; an end may be one."""
    client.send("subscribe", topic=past.topic, bookmark=start)
    refused = client.receive()
    assert (refused["reason"], "got a future time" in refused["message"]) == ("invalid bookmark", True)
    client.send("subscribe", topic=past.topic, bookmark="now", up_to=start, sub_id="s", ack_type="processed")
    assert client.receive()["status"] == "success"
    client.send("unsubscribe", sub_id="s")


def test_deltas_are_replayed(client: Wire, past: Past) -> None:
    """As what has changed of records that matched before."""
    about: Json = {"topic": past.topic, "filter": "/id = 'a'", "up_to": format_time(past.second)}
    client.send("delta_subscribe", bookmark=format_time(past.first), **about)
    [change, _] = client.receive_until(completed)
    assert (change["delta"], change["data"]) == (True, {"id": "a", "n": 2})


@pytest.mark.parametrize(
    ("form", "wanted"),
    [
        ("[{first}..{second}]", [("publish", "a", 2)]),
        ("({first}..now]", [("publish", "a", 2), ("publish", "a", 3), ("publish", "d", 3)]),
        ("(epoch..{first})", [("publish", "a", 1), ("publish", "b", 1), ("publish", "c", 1)]),
        ("[{second}..now)", [("publish", "a", 3), ("publish", "d", 3)]),
    ],
)
def test_ranges(client: Wire, past: Past, form: str, wanted: list[Any]) -> None:
    """Then the subscription is over."""
    bookmark = form.format(first=format_time(past.first), second=format_time(past.second))
    client.send("subscribe", topic=past.topic, sub_id="s", bookmark=bookmark)
    *messages, end = client.receive_until(completed)
    assert sorted(summary(messages)) == wanted
    assert end["sub_id"] == "s"
    assert client.fail("pause", sub_id="s")["reason"] == "invalid subid"


@pytest.mark.parametrize("command", ["sow_and_subscribe", "sow_and_delta_subscribe"])
@pytest.mark.parametrize("options", ["oof", "oof,conflation=20ms"])
def test_a_snapshot_of_a_time_and_all_that_came_after_it(
    client: Wire, past: Past, command: str, options: str
) -> None:
    """Together they are what there is now; a record that is gone is in it if it was there then."""
    client.send(
        command,
        topic=past.topic,
        sub_id="s",
        batch_size=10,
        bookmark=format_time(past.first),
        options=options,
        up_to="now",
    )
    group = client.group()
    assert sorted(summary(group)) == [("sow", "a", 1), ("sow", "b", 1), ("sow", "c", 1)]
    assert group[-1]["records"] == 3
    messages = client.receive_until(completed)
    received = sorted(summary(messages))
    assert ("oof", "b", 1) in received
    assert received[-2:] == [("publish", "a", 3), ("publish", "d", 3)]


@pytest.mark.parametrize(
    "fields",
    [
        {"skip_n": 0, "top_n": 2, "order_by": "/id"},
        {"options": "grouping=[/n],projection=[/n,COUNT(/id) AS /ids]"},
    ],
)
def test_pages_and_groups_of_a_time(client: Wire, past: Past, fields: Json) -> None:
    """What they showed then, one step to what they show now, and then what happens."""
    about: Json = {"topic": past.topic, "sub_id": "s", "batch_size": 10, **fields}
    about["options"] = ",".join(filter(None, ["oof", fields.get("options", "")]))
    client.send("sow_and_subscribe", bookmark=format_time(past.first), ack_type="completed", **about)
    view: dict[str, Json] = {}
    for message in client.receive_until(completed):
        for record in message["records"] if message["command"] == "sow" else ():
            view[record["sow_key"]] = record["data"]
        if message["command"] == "group_end":
            then = [body.get("id", body["n"]) for body in view.values()]
        if message["command"] == "publish":
            view[message["sow_key"]] = message["data"]
        if message["command"] == "oof":
            del view[message["sow_key"]]
    is_page = "skip_n" in fields
    assert then == (["a", "b"] if is_page else [1])
    client.send("sow", **about | {"query_id": "q", "options": fields.get("options", "")})
    present = [record for message in client.group()[1:-1] for record in message["records"]]
    assert view == {record["sow_key"]: record["data"] for record in present}


def test_a_query_of_a_time(client: Wire, replicas: Replicas, past: Past) -> None:
    """With filters and all; a bookmark that is no time is refused."""
    client.send("sow", topic=past.topic, filter="/n = 1", bookmark=format_time(past.first), batch_size=10)
    assert sorted(summary(client.group())) == [("sow", "a", 1), ("sow", "b", 1), ("sow", "c", 1)]
    assert client.fail("sow", topic=past.topic, bookmark="epoch")["reason"] == "invalid bookmark"
    asked = f"{{}}/v1/topics/{past.topic}/sow?bookmark={format_time(past.first)}&order_by=/id"
    lines = http_text(asked.format(replicas.query.url), b"").splitlines()
    assert [json.loads(line)["data"]["n"] for line in lines] == [1, 1, 1]
    early = "20200101T000000Z"
    assert client.fail("sow", topic=past.topic, bookmark=early)["reason"] == "history expired"


def test_without_a_history(client: Wire, replicas: Replicas) -> None:
    """A snapshot of a time is refused without `current`; changes after a time are sent all the same."""
    topic = replicas.topic("plain")
    before = now()
    replicas.write(topic, {"id": "a", "n": 1})
    about: Json = {"topic": topic, "bookmark": format_time(before)}
    for command in ("sow", "sow_and_subscribe"):
        assert client.fail(command, **about)["reason"] == "no history"
        client.send(command, options="current", **about)
        assert summary(client.group()) == [("sow", "a", 1)]
    client.send("subscribe", sub_id="s", up_to="now", **about)
    assert summary(client.receive_until(completed)) == [("publish", "a", 1)]


def test_an_end_that_is_to_come(client: Wire, replicas: Replicas) -> None:
    """Partitions without changes end too, and later changes are not sent."""
    topic = replicas.topic("ends")
    end = datetime.fromtimestamp(time.time() + 1.2, UTC)
    client.send("subscribe", topic=topic, sub_id="s", up_to=format_time(end), ack_type="processed")
    assert client.receive()["ack_type"] == "processed"
    replicas.system.write(topic, {"id": "a", "n": 1})
    clock_reaches(end.timestamp() + 0.05)
    replicas.system.write(topic, {"id": "a", "n": 2})
    messages = client.receive_until(completed)
    assert summary(messages) == [("publish", "a", 1)]
    assert datetime.now(UTC) > end


# pauses, rates, progress and proofs


def test_a_rate(client: Wire, past: Past) -> None:
    """Changes take their time."""
    began = time.monotonic()
    client.send("subscribe", topic=past.topic, bookmark="epoch", up_to="now", options="rate=20")
    messages = client.receive_until(completed)
    assert len(summary(messages)) == 6
    assert time.monotonic() - began > 5 / 20 - 0.12


def test_a_replay_at_its_original_speed(client: Wire, past: Past) -> None:
    """Twice as fast: the pauses between what was written are halved."""
    began = time.monotonic()
    client.send("subscribe", topic=past.topic, bookmark="epoch", up_to="now", options="rate=2X")
    assert len(summary(client.receive_until(completed))) == 6
    assert time.monotonic() - began > 0.2


def test_quiet_subscriptions_learn_where_they_stand(replicas: Replicas) -> None:
    """The client's bookmark moves on without a message, and proofs are right."""
    topic = replicas.topic("quiet")

    async def look() -> None:
        async with AsyncClient(replicas.query.url) as client:
            stream = await client.open(Ask("subscribe", topic, "/n < 0"))
            view = client.local_view(topic, filter="/n > 2")
            async with view:
                begun = stream.bookmark
                waiting = asyncio.create_task(stream.next_batch())
                await asyncio.to_thread(replicas.write, topic, *({"id": n, "n": n} for n in range(10)))
                async with asyncio.timeout(SECONDS_MAX):
                    await until(lambda: stream.bookmark != begun)
                    assert await view.verify()
                assert (len(view), waiting.done()) == (7, False)
                waiting.cancel()

    asyncio.run(look())


def test_a_client_pauses(replicas: Replicas) -> None:
    """And goes on with every change; where its connection was lost meanwhile, too."""
    topic = replicas.topic("quiet")
    with Client(replicas.query.url) as client:
        messages = client.subscribe(topic)
        messages.pause()
        replicas.write(topic, {"id": 1, "n": 50}, {"id": 1, "n": 51})
        messages.resume()
        assert [next(messages).data["n"] for _ in range(2)] == [50, 51]
        assert messages.bookmark is not None
        replay = client.subscribe(topic, bookmark=messages.bookmark, up_to=datetime.now(UTC))
        assert list(replay) == []


# topics without a SOW


def test_messages_of_a_topic_without_a_sow(client: Wire, replicas: Replicas) -> None:
    """They are sent as they come, and replayed; there is nothing to query."""
    topic = replicas.topic("ticks")
    client.send("sow_and_subscribe", topic=topic, sub_id="s", options="oof", batch_size=10)
    assert [message["command"] for message in client.group()] == ["group_begin", "group_end"]
    with Client(replicas.query.url) as publisher:
        publisher.publish(topic, {"id": 1, "n": 1})
    replicas.write(topic, {"id": 1, "n": 2})
    live = client.heartbeat()
    assert sorted(summary(live)) == [("publish", 1, 1), ("publish", 1, 2)]
    assert not any("sow_key" in message for message in live)
    client.send("delta_subscribe", topic=topic, sub_id="d", bookmark="epoch", up_to="now", filter="/n = 2")
    assert summary(client.receive_until(completed)) == [("publish", 1, 2)]
    assert client.fail("sow", topic=topic)["reason"] == "no sow"


# everything at once


def test_each_client_receives_everything_once_from_any_bookmark(replicas: Replicas) -> None:
    """From random instants, times and bookmarks, on two replicas in turn, while others write: each view is right."""
    seed = new_seed()
    topic = replicas.topic("load")
    visitors = [Visitor(replicas, topic, random.Random(seed + number)) for number in range(VISITORS)]
    watchers = [
        Watching(replicas.queries[number % 2].url, topic, filter)
        for number, filter in enumerate(SELECTIONS[:3])
    ]

    async def visit() -> None:
        stop, marks = asyncio.Event(), asyncio.get_running_loop().create_future()
        async with asyncio.TaskGroup() as tasks:
            for visitor in visitors:
                tasks.create_task(visitor.run(stop, marks))
            for one in watchers:
                tasks.create_task(one.run(stop))
            await pace(WRITING_SECONDS)
            await asyncio.to_thread(publishers.stop)
            stop.set()
            marks.set_result(await asyncio.to_thread(write_marks, replicas.system, replicas.query.url, topic))

    with Publishers(replicas.system, topic, seed) as publishers:
        asyncio.run(visit())
    model, times = model_of(replicas.system, topic), replicas.times(topic)
    visits = [visit for visitor in visitors for visit in visitor.visits]
    assert sum(visit.time_ms is not None and visit.group_end is not None for visit in visits) > VISITORS / 2
    for past in visits:
        if past.begun is not None or past.group_end is not None:
            past.check(model)
            past.check_time(model, times)
    for one in watchers:
        for bookmark, view in one.looks:
            assert view == model.sow(one.filter, positions_of(bookmark))


# the command


def test_the_command_reads_from_one_time_to_another(replicas: Replicas, past: Past) -> None:
    """Then it ends by itself."""

    def read(*arguments: str) -> list[Json]:
        command = [sys.executable, "-m", "sowline", *arguments, "--url", replicas.query.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    first, second = format_time(past.first), format_time(past.second)
    received = read("subscribe", past.topic, "--bookmark", first, "--up-to", second, "--options", "oof")
    [left] = [one["data"] for one in received if one.get("command") == "oof"]
    [changed] = [one for one in received if "command" not in one]
    assert [(body["id"], body["n"]) for body in (changed, left)] == [("a", 2), ("b", 1)]
    records = read("sow", past.topic, "-b", first, "--order-by", "/id")
    assert [(body["id"], body["n"]) for body in records] == [("a", 1), ("b", 1), ("c", 1)]
    both = read("sow-and-subscribe", past.topic, "-b", first, "--up-to", "now")
    assert [body["n"] for body in both] == [1, 1, 1, 2, 3, 3]
    [access_path, *_] = read("explain", past.topic, "-b", first)[0]["access_paths"]
    assert access_path["topic"] == past.topic
