"""Deep pages at a gateway: nodes send samples of the records before the page, then only what it may need."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.language.expressions.order import parse_order
from sowline.language.filter import compile_filter
from sowline.model.select import parse_select
from sowline.serving.authorization.entitlements import EVERYTHING, Entitlement, Rights, to_read
from sowline.serving.result import QueryLimits
from sowline.wire.request import Sow
from sowline_gateway.nodes.node_set import NodeSet
from sowline_gateway.nodes.routing import Announcement, Route
from sowline_gateway.query import sharded_query
from sowline_gateway.query.merge import Key, surely_before
from sowline_gateway.query.part import Batch, Part
from sowline_gateway.query.sharded_query import ShardedQuery
from tests.unit.gateway.query.test_sharded_query import SHARDS, check_same, fill
from tests.unit.gateway.rig import Json, rig
from tests.waiting import until

ORDERS = ("", "/v", "/v DESC, /w TEXT", "/w DESC TEXT", "/g, /id DESC", "/nosuch")


@pytest.fixture(autouse=True)
def deep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page with a `skip_n` of 4 or more is deep."""
    monkeypatch.setattr(sharded_query, "DEEP", 4)


def page(chance: random.Random) -> Json:
    """Return a request for some page."""
    groups = "grouping=[/v],projection=[/v,COUNT(1) AS /n]"
    options = ("", "no_sowkey", "timestamp", "select=[-/,+/id]", "partial", groups)
    request = {
        "filter": chance.choice(["", "/g = 1", "/v > 0 OR /w IS NULL", "/id = 3"]),
        "order_by": chance.choice(ORDERS),
        "options": chance.choice(options),
        "skip_n": chance.choice([chance.randrange(60), chance.randrange(400), 10_000]),
        "top_n": chance.choice([0, 1, chance.randrange(50), 1000]),
    }
    return {name: value for name, value in request.items() if value != ""}


@pytest.mark.parametrize("shards", SHARDS, ids=len)
async def test_pages_are_those_of_one_query_service(shards: list[str]) -> None:
    """Records, counts, hashes and warnings, wherever the page is."""
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    async with rig(shards) as made:
        fill(made, chance, 400)
        gateway, whole = made.client(), made.whole_client()
        for _ in range(60):
            await check_same(whole, gateway, page(chance), seed)


@pytest.mark.parametrize(
    "rights",
    [
        Rights(to_read(Entitlement("orders", compile_filter("/g = 1")))),
        Rights(to_read(Entitlement("orders", compile_filter(""), parse_select("[-/,+/id,+/g,+/v]")))),
    ],
    ids=["filter", "fields"],
)
async def test_a_user_sees_what_one_query_service_shows(rights: Rights) -> None:
    """Samples do not count what is hidden, and no order by a hidden field is answered."""
    chance = random.Random(2)
    async with rig(["0/2", "1/2"]) as made:
        fill(made, chance, 200)
        gateway, whole = made.client(rights), made.whole_client(rights)
        for _ in range(40):
            await check_same(whole, gateway, page(chance), 2)


async def test_a_deep_page_of_the_past() -> None:
    """Each node takes the page from the records at the bookmark."""
    async with rig(["0/3", "1/3", "2/3"]) as made:
        for number in range(100):
            made.put({"id": number, "v": number % 7})
        whole, gateway = made.whole_client(), made.client()
        bookmark = (await whole.ask("sow", top_n=0))[0]["bookmark"]
        for number in range(0, 100, 3):
            made.put(None if number % 2 else {"id": number, "v": 9}, number)
        with made.whole.patched(), made.patched():
            request = {"bookmark": bookmark, "order_by": "/v", "skip_n": 60, "top_n": 30}
            await check_same(whole, gateway, request, 0)


async def test_what_nodes_send(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the skipped records, hardly any; limits of a node are for what it sends."""
    fetched: list[int] = []

    async def counted(part: Part, first: int, count: int) -> None:
        await fetch(part, first, count)
        fetched.append(count)

    fetch = Part.fetch
    monkeypatch.setattr(Part, "fetch", counted)
    async with rig(["0/2", "1/2"], limits=QueryLimits(records_max=100)) as made:
        for number in range(1000):
            made.put({"id": number})
        answer = await made.client().ask("sow", order_by="/id", skip_n=900, top_n=10)
        assert ids(answer) == list(range(900, 910))
        assert len(fetched) == 2
        assert max(fetched) <= 10 + 2 * 15


async def test_all_is_of_one_instant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes between the samples and the records are not in the answer."""
    async with rig(["0/2", "1/2"]) as made:

        async def meanwhile(samples: Sequence[Sequence[Key]], step: int, first: int) -> list[int]:
            for number in range(100):
                made.put({"id": number, "v": -number})
            return await surely_before(samples, step, first)

        for number in range(100):
            made.put({"id": number, "v": number})
        request: Json = {"order_by": "/v", "skip_n": 50, "top_n": 10}
        expected = await made.whole_client().ask("sow", **request)
        monkeypatch.setattr(sharded_query, "surely_before", meanwhile)
        got = await made.client().ask("sow", **request)
        assert [one for one in got if one["command"] != "sow"] == [
            one for one in expected if one["command"] != "sow"
        ]
        assert ids(got) == ids(expected) == list(range(50, 60))


async def test_a_node_that_is_lost_before_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """The query ends with an error; a later one is answered."""
    async with rig(["0/2", "1/2"]) as made:

        async def meanwhile(samples: Sequence[Sequence[Key]], step: int, first: int) -> list[int]:
            await made.nodes[0].stop()
            return await surely_before(samples, step, first)

        for number in range(100):
            made.put({"id": number})
        client = made.client()
        with monkeypatch.context() as patching:
            patching.setattr(sharded_query, "surely_before", meanwhile)
            answer = await client.ask("sow", order_by="/id", skip_n=50, top_n=10)
        assert (answer[-1]["status"], answer[-1]["reason"]) == ("failure", "shard unavailable")
        assert "lost while it answered" in answer[-1]["message"]
        await made.nodes[0].start()
        assert ids(await client.ask("sow", order_by="/id", skip_n=50, top_n=10)) == list(range(50, 60))


async def test_a_client_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its nodes do not wait any longer, and hold nothing."""
    waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def never(samples: Sequence[Sequence[Key]], step: int, first: int) -> list[int]:
        waiting.set_result(None)
        await asyncio.get_running_loop().create_future()
        raise AssertionError("the query has not ended")

    monkeypatch.setattr(sharded_query, "surely_before", never)
    async with rig(["0/2", "1/2"]) as made:
        for number in range(100):
            made.put({"id": number})
        client = made.client()
        asked = asyncio.create_task(client.ask("sow", order_by="/id", skip_n=50, top_n=10))
        await waiting
        assert queries() == 3
        client.session.close()
        asked.cancel()
        await until(lambda: not queries())


def queries() -> int:
    """Return how many queries run at the gateway and its nodes, which are all in this process."""
    names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
    return names.count("CommandRunner._run_guarded")


# several topics


@dataclass(slots=True)
class _PartOfTopics(Part):
    """A part with records of several topics, each of which is its sort values."""

    found: list[tuple[Key, str, list[Any]]] = field(default_factory=list)
    step: int = 1
    wanted: tuple[int, int] = (0, 0)

    async def samples(self) -> list[list[Any]]:
        """Return what each sample is sorted by."""
        return [[topic, *ordering] for _, topic, ordering in self.found[self.step - 1 :: self.step]]

    async def fetch(self, first: int, count: int) -> None:
        """Note which records are wanted."""
        self.wanted = first, first + count

    async def batches(self) -> AsyncIterator[Batch]:
        """Yield the wanted records, one in each batch."""
        for _, topic, ordering in self.found[slice(*self.wanted)]:
            yield Batch(topic, [orjson.dumps(ordering)], [ordering])


@given(
    st.lists(st.tuples(st.integers(0, 2), st.none() | st.integers(0, 3)), max_size=80),
    st.integers(4, 60),
    st.integers(0, 20),
)
async def test_a_page_of_several_topics(records: list[tuple[int, int | None]], skip: int, top: int) -> None:
    """Records of all topics are one order, also where even their SOW keys are equal."""
    request = Sow(topic="^t", order=parse_order("/v DESC"), skip_n=skip, top_n=top)
    topics = ["t0", "t1"]
    nodes = SimpleNamespace(topics={name: SimpleNamespace(log=name) for name in topics})
    query = ShardedQuery(cast("NodeSet", nodes), request, topics, EVERYTHING, QueryLimits(), {})
    found: list[list[tuple[Key, str, list[Any]]]] = [[], [], []]
    for number, (holder, value) in enumerate(records):
        sow_key, topic = str(number // 2), number % 2
        key = request.order.key_of([value], sow_key.encode()), topic
        found[holder].append((key, topics[topic], [sow_key, value]))
    expected = sorted(chain(*found))[skip : skip + top]
    route = Route(Announcement("http://node", "0/1"), frozenset())
    for part in found:
        query._parts.append(_PartOfTopics(route, found=sorted(part), step=query._sample_n))
    got = [(portion.topic, record) async for portion in query.records() for record in portion.records]
    assert got == [(topic, orjson.dumps(ordering)) for _, topic, ordering in expected]


def ids(messages: list[Json]) -> list[int]:
    """Return the ids of the records in an answer."""
    batches = [message["records"] for message in messages if message["command"] == "sow"]
    return [record["data"]["id"] for records in batches for record in records]
