"""Telling a document's timeline: which writes, in which order, and what is said of each."""

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import orjson
import pytest

from sowline.errors import SowlineError
from sowline.kafka.clients import near_runs
from sowline.serving.authorization.entitlements import EVERYTHING
from sowline.wire.request import ReadTimeline
from sowline.wire.request_parser import parse_request
from sowline_query_service.query.timeline_read import (
    TimelineAnswer,
    TimelineReader,
    timeline_request_of,
)
from tests.property.world import Written
from tests.unit.documents import Documents
from tests.unit.query_service.sessions import Client, Json

WRITES: list[tuple[str | None, Json]] = [
    ('{..,"n":1}', {"command": "delta", "tags": "new"}),
    ('{..,"n":1}', {"command": "delta", "tags": "new"}),
    ('{"id":"a","n":2}', {}),
    ('if {..,"n":9} then ~ end', {"command": "delta"}),
    (None, {"command": "sow_delete"}),
    ('{..,"back":true}', {"command": "delta", "change_id": "9e4dd6f0-5a29-11ef-8000-0242ac120002"}),
]


class Stories(Documents):
    """Documents, and the changes topic that tells of them, of which compaction may have taken some."""

    def __init__(self) -> None:
        super().__init__()
        self.compacted: set[int] = set()

    def read_at(
        self, kafka: Any, topic: str, partition: int, offsets: Sequence[int], seconds_max: float
    ) -> Iterator[Written]:
        """Stand in for the changes topic."""
        assert list(offsets) == sorted(offsets)
        self.read += 1
        return iter([self.written[partition][offset] for offset in offsets if offset not in self.compacted])

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let timelines be read from here."""
        with patch("sowline_query_service.query.timeline_read.read_at", self.read_at):
            yield

    async def timeline(self, key: str = "a", **given: Any) -> TimelineAnswer:
        """Return a timeline."""
        fields = {"command": "timeline", "topic": "orders", "key": key, **given}
        asked = parse_request(ReadTimeline, json.dumps(fields).encode())
        wanted = timeline_request_of(self.state, asked, EVERYTHING)
        with self.reading():
            return await TimelineReader({}, self.limits.bytes_max).read(wanted)

    async def versions(self, **given: Any) -> list[int]:
        """Return the versions of the writes in a timeline."""
        return [write["version"] for write in writes_of(await self.timeline(**given))]


def writes_of(timeline: TimelineAnswer) -> list[Json]:
    """Return the writes of a timeline."""
    writes: list[Json] = json_of(timeline.answer)["writes"]
    return writes


def json_of(text: bytes) -> Json:
    """Return a JSON object."""
    found: Json = orjson.loads(text)
    return found


@pytest.fixture
def server() -> Stories:
    """A document `a` with six writes, and others between them."""
    documents = Stories()
    for text, headers in WRITES:
        documents.delta("b", "{..}")
        documents.write(None if text is None else text.encode(), "a", **headers)
    return documents


async def test_a_template_is_not_in_the_timeline(server: Stories) -> None:
    """It is no write; writes after it show how the document reads by then."""
    server.delta("a", '{"n":5}')
    before = await server.versions()
    (change,) = [one for one in server.define('{"n":7}') if one.key_text == "a"]
    assert (change.previous, change.body) == (b'{"n":5}', b'{"n":7}')
    assert await server.versions() == before
    server.delta("a", '{..,"m":1}')
    newest, *others = writes_of(await server.timeline())
    assert (newest["previous"], newest["data"]) == ({"n": 7}, {"n": 7, "m": 1})
    assert [one["version"] for one in others] == before


async def test_each_write_is_sent_with_its_effect(server: Stories) -> None:
    """What was written, what became of it, and the document before and after."""
    timeline = json_of((await server.timeline()).answer)
    assert {name: timeline[name] for name in ("topic", "key", "bookmark")} == {
        "topic": "orders",
        "key": "a",
        "bookmark": "orders:0@11",
    }
    last, deleted, conditional, published, again, first = timeline["writes"]
    assert first == {
        "bookmark": "orders:0@1",
        "timestamp": "1970-01-01T00:00:10.000000Z",
        "command": "delta",
        "version": 1,
        "signature": first["signature"],
        "change_id": first["change_id"],
        "tags": ["new"],
        "outcome": "applied",
        "redundant": False,
        "delta": '{..,"n":1}',
        "previous": None,
        "data": {"n": 1},
    }
    assert (again["outcome"], again["redundant"], again["previous"]) == ("noop", True, {"n": 1})
    assert (published["command"], published["data"], "delta" in published) == (
        "publish",
        {"id": "a", "n": 2},
        False,
    )
    assert (conditional["outcome"], conditional["redundant"]) == ("condition_false", True)
    assert (deleted["command"], deleted["reason"], deleted["data"], deleted["outcome"]) == (
        "sow_delete",
        "deleted",
        None,
        "applied",
    )
    assert (last["previous"], last["data"], last["change_id"]) == (
        None,
        {"back": True},
        "9e4dd6f05a2911ef80000242ac120002",
    )
    assert [write["version"] for write in timeline["writes"]] == [6, 5, 4, 3, 2, 1]
    assert len({write["signature"] for write in timeline["writes"]}) == 6


@pytest.mark.parametrize(
    ("given", "versions"),
    [
        ({"limit": 2}, [6, 5]),
        ({"limit": 2, "reversed": False}, [1, 2]),
        ({"bookmark": "orders:0@5"}, [6, 5, 4]),
        ({"bookmark": "orders:0@5", "reversed": False, "limit": 2}, [4, 5]),
        ({"bookmark": "[orders:0@5..orders:0@9)"}, [4, 3]),
        ({"bookmark": "(epoch..orders:0@5]"}, [3, 2, 1]),
        ({"bookmark": "[epoch..orders:0@5)"}, [2, 1]),
        ({"bookmark": "epoch", "up_to": "19700101T000030Z"}, [2, 1]),
        ({"bookmark": "19700101T000110Z"}, [6, 5]),
        ({"bookmark": "[19700101T000110Z..now]"}, [6, 5, 4]),
        ({"bookmark": "[19700101T000110Z..19700101T000130Z)"}, [4]),
        ({"bookmark": ("orders:0@9", "19700101T000110Z")}, [6, 5]),
        ({"bookmark": "now"}, []),
        ({"key": "nobody"}, []),
    ],
)
async def test_what_is_asked_for_is_sent(server: Stories, given: Json, versions: list[int]) -> None:
    """By places, by times, so many of them, in either order."""
    assert await server.versions(**given) == versions


async def test_positions_that_the_index_distinguishes_are_read_no_further(server: Stories) -> None:
    """Of what is far away nothing is read."""
    for _ in range(600):
        server.delta("b", "{..}")
    server.delta("a", "{..}")
    with patch.object(server, "read_at", wraps=server.read_at) as read:
        assert await server.versions(bookmark="orders:0@600") == [7]
    assert list(read.call_args.args[3]) == [612]
    assert await server.versions(bookmark="(epoch..orders:0@1]") == [1]


async def test_what_compaction_has_taken_is_left_out(server: Stories) -> None:
    """And the next ones are told in its place; so is what another topic has there."""
    server.compacted = {1, 7, 9}
    assert await server.versions(limit=3) == [6, 3, 2]
    server.written[0][11] = server.written[0][10]._replace(at=11)
    assert await server.versions(limit=3) == [3, 2]
    server.compacted = set(range(12))
    assert await server.versions() == []


async def test_what_is_beyond_the_limit_of_bytes_is_refused(server: Stories) -> None:
    """Anyone who wants less of it says so."""
    wanted = timeline_request_of(server.state, ReadTimeline(topic="orders", key="a"), EVERYTHING)
    with server.reading(), pytest.raises(SowlineError, match="limit") as refused:
        await TimelineReader({}, 20).read(wanted)
    assert refused.value.reason == "result too large"
    one = timeline_request_of(server.state, ReadTimeline(topic="orders", key="a", limit=1), EVERYTHING)
    with server.reading():
        assert len((await TimelineReader({}, 1).read(one)).writes) == 1


async def test_without_kafka_it_says_so(server: Stories) -> None:
    """Nobody waits for ever."""
    reader = TimelineReader({}, 1000)
    wanted = timeline_request_of(server.state, ReadTimeline(topic="orders", key="a"), EVERYTHING)
    away = patch("sowline_query_service.query.timeline_read.read_at", side_effect=TimeoutError)
    with away, pytest.raises(SowlineError, match="Kafka") as refused:
        await reader.read(wanted)
    assert refused.value.reason == "not ready"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"key": ""}, "key missing"),
        ({"key": "a", "topic": "^orders"}, "regex topic not supported"),
        ({"key": "a", "topic": "nowhere"}, "invalid topic"),
        ({"key": "a", "limit": 0}, "invalid limit"),
        ({"key": "a", "limit": 1001}, "invalid limit"),
        ({"key": "a", "bookmark": "orders:1@5"}, "invalid bookmark"),
        ({"key": "a", "bookmark": "epoch", "up_to": "others:0@5"}, "invalid bookmark"),
        ({"key": "a", "bookmark": "nonsense"}, "invalid bookmark"),
    ],
)
async def test_what_is_wrong_is_refused(server: Stories, given: Json, reason: str) -> None:
    """With a sentence that says what was expected."""
    client = server.connect()
    client.ask("timeline", **given)
    assert [message["reason"] for message in await client.read()] == [reason]


async def test_a_connection_is_sent_a_group(server: Stories) -> None:
    """Its writes come in batches, between a begin and an end; an unsubscribe ends one that still runs."""
    client = server.connect()
    with server.reading():
        client.ask("timeline", key="a", batch_size=4, ack_type="processed,completed")
        messages = await until_acknowledged(client)
    assert [message["command"] for message in messages] == [
        "ack",
        "group_begin",
        "timeline",
        "timeline",
        "group_end",
        "ack",
    ]
    _, begin, some, others, end, completed = messages
    assert (begin["bookmark"], end["bookmark"], completed["bookmark"]) == ("orders:0@11",) * 3
    assert (len(some["writes"]), len(others["writes"]), end["records"]) == (4, 2, 6)
    assert (some["key"], some["query_id"], some["topic"]) == ("a", "1", "orders")
    assert end["since"] > "1970"


async def until_acknowledged(client: Client) -> list[Json]:
    """Return what is sent until a command is acknowledged as completed."""
    messages: list[Json] = []
    async with asyncio.timeout(10):
        while not messages or messages[-1].get("ack_type") != "completed":
            messages += await client.read()
    return messages


def test_offsets_that_are_near_are_read_together() -> None:
    """Others are sought."""
    assert list(near_runs([1, 2, 90, 191, 1000, 1001])) == [[1, 2, 90], [191], [1000, 1001]]
    assert list(near_runs([])) == []


async def test_a_replica_that_is_behind_a_position_is_waited_for(server: Stories) -> None:
    """Anyone who knows where its write stands reads that write."""
    client = server.connect()
    with server.reading():
        client.ask("timeline", key="a", bookmark="[orders:0@12..now]", ack_type="completed")
        assert await client.read() == []
        server.delta("a", '{..,"n":7}')
        messages = await until_acknowledged(client)
    assert [write["data"] for write in messages[1]["writes"]] == [{"back": True, "n": 7}]


async def test_every_field_of_a_write_is_described(server: Stories) -> None:
    """On the page of documents."""
    page = (Path(__file__).parents[4] / "docs" / "emodb.md").read_text()
    section = page.split("## Timeline")[1].split("\n## ")[0]
    described = re.findall(r"`([^`]+)`", "".join(re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)))
    assert set(described) == {name for write in writes_of(await server.timeline()) for name in write}
