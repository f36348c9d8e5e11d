"""Queries at a gateway over shards give the same answers as at one query service that holds everything."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest

from sowline.language.expressions.projection import parse_grouping, parse_projection
from sowline.language.filter import compile_filter
from sowline.language.groups import GroupStates
from sowline.model.key import partition_of
from sowline.model.select import parse_select
from sowline.serving.authorization.entitlements import EVERYTHING, Entitlement, Rights, to_read
from sowline.serving.query_slots import QuerySlots, SlotLimits
from sowline.serving.result import QueryLimits
from sowline.wire.options import parse_options
from sowline.wire.request import Sow
from sowline_gateway.nodes import failover
from sowline_gateway.nodes.routing import Announcement, Route
from sowline_gateway.query.part import Batch, Part
from sowline_gateway.query.sharded_query import ShardedQuery
from tests.property.answers import answer_of, is_sorted
from tests.property.asks import VALUES
from tests.unit.gateway.rig import SECONDS_MAX, Json, Rig, RigClient, rig
from tests.waiting import until

SHARDS = (
    ["0/1"],
    ["0/2", "1/2"],
    ["0/3", "1/3", "2/3"],
    ["0/8", "1/8", "2/8", "3/8", "4/8", "5/8", "6/8", "7/8"],
)


def fill(made: Rig, chance: random.Random, count: int = 60) -> None:
    """Write records, change some, and delete some."""
    for _ in range(count):
        number = chance.randrange(count)
        if chance.random() < 0.15 and number in held(made):
            made.put(None, number)
        else:
            made.put({"id": number, "v": chance.choice(VALUES), "w": chance.choice(VALUES), "g": number % 3})


def held(made: Rig) -> set[int]:
    """Return the ids of the records."""
    return {record["id"] for record in map(json.loads, made.whole.bodies.values())}


async def check_same(whole: RigClient, gateway: RigClient, request: Json, seed: int) -> None:
    """Compare the answers to a query."""
    expected, got = [
        answer_of(await client.ask("sow", **request), is_sorted=is_sorted(request))
        for client in (whole, gateway)
    ]
    assert got == expected, f"seed {seed}: {request}"


@pytest.mark.parametrize("order", [{}, {"order_by": "/v"}], ids=["unsorted", "sorted"])
async def test_a_message_has_no_more_records_than_a_batch(order: Json) -> None:
    """It may have fewer, where the records of a node end; all of them come once."""
    async with rig(["0/2", "1/2"]) as made:
        for number in range(50):
            made.put({"id": number, "v": number})
        messages = await made.client().ask("sow", batch_size=7, **order)
        batches = [message["records"] for message in messages if message["command"] == "sow"]
        assert max(map(len, batches)) == 7
        assert sorted(record["data"]["id"] for batch in batches for record in batch) == list(range(50))


REQUESTS: list[Json] = [
    {},
    {"filter": "/v > 0"},
    {"filter": "/g = 1 AND /v IS NOT NULL", "options": "select=[-/,+/id]"},
    {"order_by": "/v"},
    {"order_by": "/v DESC, /w TEXT", "top_n": 10},
    {"order_by": "/w DESC TEXT", "top_n": 7, "skip_n": 5, "options": "no_sowkey"},
    {"top_n": 5},
    {"top_n": 0},
    {"top_n": 5, "skip_n": 1000},
    {"filter": "/nosuch = 1"},
    {"options": "projection=[/g,COUNT(1) AS /n,SUM(/v) AS /s,AVG(/w) AS /a,MAX(/v) AS /m],grouping=[/g]"},
    {
        "options": "projection=[/g,/v AS /latest,COUNT_DISTINCT(/v) AS /d],grouping=[/g]",
        "order_by": "/d",
        "top_n": 2,
    },
    {"options": "projection=[COUNT(1) AS /n]", "filter": "/v = 1"},
    {"options": "timestamp", "filter": "/g = 2", "order_by": "/id"},
    {"topic": "^ord.*", "order_by": "/id", "top_n": 4},
    {"sow_keys": ["1", "2"]},
    # refused
    {"filter": "/v >"},
    {"options": "nosuch"},
    {"topic": "nosuch"},
    {"topic": "^nosuch"},
    {"options": "projection=[/x],grouping=[/g"},
    {"bookmark": "orders:0@5..", "top_n": 1},
    {"bookmark": "20200101T000000Z"},
    {"at_least": "other:0@5"},
    {"at_least": "orders:9@5"},
    {"sow_keys": ["x"] * 3, "filter": "/g ="},
]


@pytest.mark.parametrize("shards", SHARDS, ids=len)
async def test_answers_are_those_of_one_query_service(shards: list[str]) -> None:
    """Records, groups, counts, hashes, bookmarks, warnings and errors."""
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    async with rig(shards) as made:
        fill(made, chance)
        gateway, whole = made.client(), made.whole_client()
        for request in REQUESTS:
            await check_same(whole, gateway, request, seed)


RIGHTS = [
    Rights(to_read(Entitlement("orders", compile_filter("/g = 1")))),
    Rights(to_read(Entitlement("orders", compile_filter(""), parse_select("[-/,+/id,+/g]")))),
    Rights(to_read(Entitlement("other"))),
    Rights(),
]


@pytest.mark.parametrize("rights", RIGHTS, ids=["filter", "fields", "other", "none"])
async def test_a_user_sees_what_one_query_service_shows(rights: Rights) -> None:
    """The nodes apply the rights that the gateway hands down: records, fields, counts, and refusals."""
    async with rig(["0/2", "1/2"]) as made:
        fill(made, random.Random(1))
        gateway, whole = made.client(rights), made.whole_client(rights)
        for request in REQUESTS:
            await check_same(whole, gateway, request, 1)


SUPPLIED = "{name: orders, key: {from: kafka_key}, partitions: 4}"
LOOK_UPS: list[Json] = [
    {"sow_keys": ["1"]},
    {"sow_keys": "1,2,3,nosuch,2"},
    {"sow_keys": ["nosuch"]},
    {"sow_keys": [str(number) for number in range(60)], "order_by": "/v", "top_n": 5, "skip_n": 1},
    {"sow_keys": ["4", "5"], "filter": "/g = 1"},
    {"sow_keys": ["4", "5"], "options": "projection=[COUNT(1) AS /n]"},
    {"sow_keys": ["4", "5"], "options": "partial"},
    {"sow_keys": ["4"], "topic": "^ord.*"},
    {"sow_keys": ["4"], "filter": "/v >"},
    {"sow_keys": ["4"], "at_least": "orders:9@5"},
    {"sow_keys": [f"many {number}" for number in range(2000)] + ["1"]},
]


@pytest.mark.parametrize("rights", [EVERYTHING, RIGHTS[0]], ids=["everything", "some"])
async def test_a_look_up_by_supplied_keys_is_that_of_one_query_service(rights: Rights) -> None:
    """Only nodes that hold the keys are asked: records, counts and bookmarks stay the same."""
    async with rig(["0/4", "1/4", "2/4", "3/4"], definition=SUPPLIED) as made:
        fill(made, random.Random(2))
        gateway, whole = made.client(rights), made.whole_client(rights)
        for request in LOOK_UPS:
            # The gateway knows how far each node is.
            await gateway.ask("sow", top_n=0)
            sorts = is_sorted(request)
            expected = answer_of(await whole.ask("sow", **request), is_sorted=sorts)
            got = answer_of(await gateway.ask("sow", **request), is_sorted=sorts)
            assert got == expected, request


async def test_a_look_up_by_supplied_keys_asks_only_the_nodes_that_hold_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the others, it is answered; a key of a missing one names its partition only."""
    monkeypatch.setattr(failover, "FAILOVER_SECONDS", 0.2)
    async with rig(["0/2", "1/2"], definition=SUPPLIED) as made:
        for number in range(40):
            made.put({"id": number, "v": 1})
        client = made.client()
        before = (await client.ask("sow", top_n=0))[0]["bookmark"]
        gone = made.nodes[1].server.topic.partitions.keys()
        mine = [str(number) for number in range(40) if partition_of(str(number), 4) not in gone]
        lost = next(str(number) for number in range(40) if partition_of(str(number), 4) in gone)
        await made.nodes[1].stop()
        answer = await client.ask("sow", sow_keys=mine)
        assert answer[-1]["topic_matches"] == answer[-1]["matches"] == len(mine)
        # A partition whose node is away has the position that this client has seen.
        assert answer[0]["bookmark"] == before
        answer = await client.ask("explain", command_id="2", sow_keys=mine, ack_type="completed")
        (explained,) = answer[0]["access_paths"]
        assert (explained["shard"], explained["access_path"]) == ("0/2", "sow keys")
        answer = await client.ask("sow", sow_keys=[mine[0], lost], options="partial")
        assert [message["missing"] for message in answer if message["command"] == "group_begin"] == [
            {"orders": [partition_of(lost, 4)]}
        ]
        (refused,) = await client.ask("sow", sow_keys=[mine[0], lost])
        assert f"partitions now: orders {partition_of(lost, 4)}." in refused["message"]
        (refused,) = await client.ask("sow", sow_keys=mine, filter="/v = 1", bookmark=before)
        assert refused["reason"] == "shard unavailable"


async def test_limits_count_after_the_merge() -> None:
    """Each node is within the limits, the whole answer is not; and the other way round for groups."""
    async with rig(["0/2", "1/2"], limits=QueryLimits(records_max=15, groups_max=3)) as made:
        for number in range(20):
            made.put({"id": number, "g": number % 3, "h": number % 4})
        for request in (
            {},
            {"filter": "/id < 10"},
            {"top_n": 16},
            {"top_n": 12},
            {"options": "projection=[/g,COUNT(1) AS /n],grouping=[/g]"},
            {"options": "projection=[/h,COUNT(1) AS /n],grouping=[/h]"},
        ):
            expected, got = (
                await made.whole_client().ask("sow", **request),
                await made.client().ask("sow", **request),
            )
            assert (got[-1]["status"], got[-1].get("reason")) == (
                expected[-1]["status"],
                expected[-1].get("reason"),
            )
            assert got[-1].get("message") == expected[-1].get("message")


async def test_a_bookmark_of_the_past() -> None:
    """Each node finds its partitions' records at the positions that the bookmark has for them."""
    async with rig(["0/3", "1/3", "2/3"]) as made:
        for number in range(30):
            made.put({"id": number, "v": 1})
        whole, gateway = made.whole_client(), made.client()
        bookmark = (await whole.ask("sow", top_n=0))[0]["bookmark"]
        for number in range(0, 30, 2):
            made.put({"id": number, "v": 2})
        for number in range(0, 30, 3):
            made.put(None, number)
        with made.whole.patched():
            expected = await whole.ask("sow", bookmark=bookmark, order_by="/id")
        got = await gateway.ask("sow", bookmark=bookmark, order_by="/id")
        answer = answer_of(got, is_sorted=True)
        assert answer == answer_of(expected, is_sorted=True)
        assert len(answer.records) == 30


async def test_many_queries_at_once() -> None:
    """Connections to nodes are used again, and each query gets its own answer."""
    async with rig(["0/2", "1/2"]) as made:
        for number in range(50):
            made.put({"id": number, "g": number % 10})
        clients = [made.client() for _ in range(40)]
        answers = await asyncio.gather(
            *(client.ask("sow", filter=f"/g = {n % 10}", order_by="/id") for n, client in enumerate(clients))
        )
        for n, answer in enumerate(answers):
            found = [
                record["data"]["id"]
                for message in answer
                if message["command"] == "sow"
                for record in message["records"]
            ]
            assert found == [n % 10 + 10 * m for m in range(5)]


@dataclass(slots=True)
class _PartOfGroups(Part):
    """A part with the states of groups."""

    states: tuple[bytes, ...] = ()

    async def batches(self) -> AsyncIterator[Batch]:
        """Yield the states."""
        yield Batch("orders", list(self.states))


async def test_groups_of_a_node_that_became_another_shard() -> None:
    """Two parts may have the same URL: of a node that has begun, and of what it was started again as."""
    projection = "/v,COUNT(1) AS /n"
    async with rig(["0/1"], partitions=2) as made:
        request = Sow(topic="orders", options=parse_options(f"grouping=[/v],projection=[{projection}]"))
        query = ShardedQuery(made.node_set, request, ["orders"], EVERYTHING, made.limits, {})
        for number in range(2):
            states = GroupStates("orders", parse_grouping("/v"), parse_projection(projection), groups_max=9)
            states.load([(b"%d" % number, {"v": 1}, (number,))])
            route = Route(Announcement("http://node", f"{number}/2"), frozenset({("orders", number)}))
            query._parts.append(_PartOfGroups(route, states=tuple(one for _, one in states.records())))
        records = [record async for portion in query.records() for record in portion.records]
        assert [orjson.loads(record)["data"] for record in records] == [{"v": 1, "n": 2}]


@pytest.mark.parametrize(
    "field", [{"merges": True}, {"relays": True}, {"shares": True}, {"sample_n": 2}, {"replaces": {}}]
)
@pytest.mark.parametrize("command", ["sow", "sow_and_subscribe"])
async def test_a_client_is_no_gateway(command: str, field: Json) -> None:
    """The fields that gateways set in what they ask of query services are refused, as at a query service."""
    async with rig(["0/2", "1/2"]) as made:
        for client in (made.client(), made.whole_client()):
            [refused] = await client.ask(command, **field)
            assert (refused["reason"], "only from a gateway" in refused["message"]) == ("bad request", True)


async def test_a_greedy_client_has_few_queries_at_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes do not limit a gateway's queries: its own turns bound how many records they keep for it."""
    open_parts, most, begin, close = set[int](), [0], Part.begin, Part.close

    async def begun(part: Part, *given: Any) -> None:
        open_parts.add(id(part))
        most[0] = max(most[0], len(open_parts))
        await begin(part, *given)

    async def closed(part: Part) -> None:
        open_parts.discard(id(part))
        await close(part)

    monkeypatch.setattr(Part, "begin", begun)
    monkeypatch.setattr(Part, "close", closed)
    slots = QuerySlots(SlotLimits(connection=2))
    async with rig(["0/2", "1/2"]) as made:
        made.context = replace(made.context, slots=slots)
        for number in range(20):
            made.put({"id": number, "text": "x" * 200_000})
        session = made.client().session
        for number in range(6):
            session.receive_one(b'{"command":"sow","topic":"orders","query_id":"%d"}' % number)
        await until(lambda: slots.waiting >= 4 and len(open_parts) >= 4)
        ended = 0
        async with asyncio.timeout(SECONDS_MAX):
            while ended < 6:
                messages = map(orjson.loads, await session.outbox.take())
                ended += sum(message["command"] == "group_end" for message in messages)
    assert most == [2 * 2]
