"""Whole queries of a query service's state, and a whole `sow` over loopback, as ratios to parsing the same bodies.

The records are those of `bench.orders`, held as a query service holds them. Nothing of Kafka is in it.
"""

import asyncio
import gc
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import orjson
import uvicorn

from bench.orders import CONDITION, bodies_of
from bench.servers import Ready
from bench.usage import resident_bytes
from sowline.changes.change import Change
from sowline.client.async_client import AsyncClient
from sowline.config.settings import Settings
from sowline.config.topics import parse_topics
from sowline.language.expressions.order import parse_order
from sowline.language.filter import compile_filter
from sowline.model.key import key_text, sow_key
from sowline.model.position import Position
from sowline.runtime.http_server import HttpProtocol
from sowline.runtime.ports import free_port
from sowline.runtime.websocket_handshake import Handshake
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.query_slots import Asker
from sowline.serving.result import QueryLimits
from sowline.serving.window_memory import WindowHolder, WindowMemory
from sowline.subscriptions.engine.subscription import ChangeView
from sowline_query_service.context import ServiceContext
from sowline_query_service.live.away import AwayViewers
from sowline_query_service.live.dispatcher import Dispatcher
from sowline_query_service.live.pages import PageWindow
from sowline_query_service.live.viewer import Viewer
from sowline_query_service.query.query import Query
from sowline_query_service.query.selection import Selection
from sowline_query_service.server.server import server_of
from sowline_query_service.subscriptions.open_windows import PageRefills
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState

TOPICS = "topics: [{name: orders, key: [/order, /side], hash_indexes: [[/order]]}]"
RETURNED = 50_000
LOOKUPS = 200
CHANGES = 5_000
SIZES = (10_000, 100_000, 1_000_000)

Timed = dict[str, list[float]]


def run(records: int, runs: int) -> None:
    """Measure in process, then over loopback, and print medians and ratios."""
    bodies = bodies_of(records)
    _over_loopback(bodies[: 2 * RETURNED], runs)
    size = sum(map(len, bodies)) / len(bodies)
    before = resident_bytes(os.getpid())
    state = filled(bodies)
    gc.freeze()
    print(f"{records:,} records of {size:.0f} bytes; {CONDITION}")
    print(
        f"  beside its bytes, a record takes {(resident_bytes(os.getpid()) - before) / records:.0f} bytes",
        flush=True,
    )
    asyncio.run(_in_process(state, bodies, runs))
    asyncio.run(_look_ups(bodies))
    asyncio.run(_pages(bodies))


def filled(bodies: list[bytes]) -> ServedTopics:
    """Return the state of a query service that has loaded these records."""
    state = ServedTopics(parse_topics(TOPICS), ring_changes_max=1000)
    topic = state.topics["orders"]
    domain = topic.definition.declared.domain_prefix
    for number, body in enumerate(bodies):
        text = key_text(orjson.loads(body), topic.definition.key_paths)
        topic.rows.put(sow_key(domain, text), body, 0, Position(0, number), 1000)
    for partition in topic.partitions.values():
        partition.loaded()
    return state


async def asked(state: ServedTopics, filter: str, order: str = "", top_n: int | None = 0) -> Query:
    """Run a query and take its records; by default it only counts."""
    selection = Selection(compile_filter(filter), order=parse_order(order), top_n=top_n)
    query = Query([state.topics["orders"]], selection, QueryLimits())
    await query.begin()
    async for _ in query.records():
        pass
    return query


async def _in_process(state: ServedTopics, bodies: list[bytes], runs: int) -> None:
    taken: Timed = {}

    async def parse() -> None:
        for body in bodies:
            orjson.loads(body)

    async def scan() -> None:
        matches = compile_filter(CONDITION).matches
        sum(matches(orjson.loads(body)) for body in bodies)

    prices = np.array([orjson.loads(body)["price"] for body in bodies])

    async def partition() -> None:
        np.argpartition(prices, len(prices) - 50)

    async def measure(name: str, step: Callable[[], Awaitable[Any]]) -> None:
        began = time.perf_counter()
        await step()
        taken.setdefault(name, []).append(time.perf_counter() - began)

    for _ in range(runs):
        await measure("orjson.loads of each", parse)
        await measure("closure over each parsed", scan)
        for path in list(state.topics["orders"].indexes.paths):
            state.topics["orders"].indexes.drop(path)
        await measure("count, cold: no index yet", lambda: asked(state, CONDITION))
        for _ in range(5):
            await measure("count, warm", lambda: asked(state, CONDITION))
            await measure("np.argpartition of the prices", partition)
            await measure("top 50 of all by /price DESC", lambda: asked(state, "", "/price DESC", 50))
            await measure("top 50 of those", lambda: asked(state, CONDITION, "/price DESC", 50))
    parsing = statistics.median(taken["orjson.loads of each"])
    for name, seconds in taken.items():
        median = statistics.median(seconds)
        print(f"  {name:32} {median * 1e3:10.2f} ms   {median / parsing:8.4f} of parsing", flush=True)


async def _look_ups(bodies: list[bytes]) -> None:
    for size in [size for size in SIZES if size <= len(bodies)]:
        state = filled(bodies[:size])
        await state.topics["orders"].indexes.make_declared()
        wanted = orjson.loads(bodies[size // 2])
        by_hash = f"/order = '{wanted['order']}'"
        by_key = f"{by_hash} AND /side = '{wanted['side']}'"
        seconds = [[await _seconds(state, filter) for _ in range(LOOKUPS)] for filter in (by_key, by_hash)]
        key, hashed = (statistics.median(each) * 1e6 for each in seconds)
        print(
            f"  query of one record among {size:>9,}: by key {key:6.1f} us, by hash index {hashed:6.1f} us",
            flush=True,
        )


async def _pages(bodies: list[bytes]) -> None:
    """The cost of a change to a live page, by the number of records that it is a page of."""
    for size in [size for size in SIZES if size <= len(bodies)]:
        state = filled(bodies[:size])
        topic = state.topics["orders"]
        selection = Selection(order=parse_order("/price DESC"), top_n=50, skip_n=100)
        context = ServiceContext(state, Dispatcher(), {})
        refills = PageRefills(context, topic, selection, partial(context.slots.new, Asker("", None)))
        view = PageWindow(topic, selection, WindowMemory(), refills)
        async with refills.begun(150 + refills.margin) as query:
            await view.fill(query)
        viewer = Viewer(
            Outbox(1 << 40),
            "page",
            topic,
            selection,
            WindowMemory(),
            WindowHolder("", None),
            delta=False,
            rank_of=view.rank_of,
            away=AwayViewers(),
        )
        view.add(viewer)
        changes = [_repriced(topic, number * (size // CHANGES)) for number in range(CHANGES)]
        began = time.perf_counter()
        messages = sum(view.apply(0, ChangeView(change)) for change in changes)
        taken = (time.perf_counter() - began) / CHANGES
        print(
            f"  a change of a page of {size:>9,}: {taken * 1e6:6.1f} us, parsing included; {messages} messages",
            flush=True,
        )


def _repriced(topic: TopicState, row: int) -> Change:
    """A change of one record's price."""
    body = topic.rows.bodies[row] or b"{}"
    order = orjson.loads(body)
    now = orjson.dumps(order | {"price": round(100 - order["price"], 4)})
    position = Position(0, len(topic.rows) + row)
    return Change(topic.rows.keys[row] or b"", now, body, position, position, "publish", 2000)


async def _seconds(state: ServedTopics, filter: str) -> float:
    began = time.perf_counter()
    await asked(state, filter, top_n=None)
    return time.perf_counter() - began


# over loopback


def _serve(port: int, bodies: list[bytes], ready: Connection) -> None:
    state = filled(bodies)
    gc.freeze()
    app = server_of(Settings(), ServiceContext(state, Dispatcher(), {}), Ready()).app
    config = uvicorn.Config(
        app,
        port=port,
        http=HttpProtocol,
        ws=Handshake,
        log_level="error",
    )
    # The client does not try again when it is refused.
    listening = config.bind_socket()
    listening.listen()
    ready.send(True)
    uvicorn.Server(config).run([listening])


def _over_loopback(bodies: list[bytes], runs: int) -> None:
    port = free_port()
    context = get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=_serve, args=(port, bodies, there), daemon=True)
    server.start()
    here.recv()
    try:
        asyncio.run(_sow(port, runs))
    finally:
        server.kill()
        server.join()


async def _sow(port: int, runs: int) -> None:
    """Let a client take this many records, and parse the same lines."""
    whole, parsing = [], []
    async with AsyncClient(f"http://127.0.0.1:{port}") as client:
        for number in range(2 * runs + 1):
            began = time.perf_counter()
            taken = [
                message.body
                async for message in client.sow("orders", filter=f"/order < {RETURNED}", batch_size=1000)
                if message.command == "sow"
            ]
            if number:
                whole.append(time.perf_counter() - began)
            assert len(taken) == RETURNED
            began = time.perf_counter()
            for body in taken:
                orjson.loads(body)
            parsing.append(time.perf_counter() - began)
    sow, parse = statistics.median(whole), statistics.median(parsing)
    print(
        f"  sow of {RETURNED:,} records to a client   {sow * 1e3:8.1f} ms, {sow / parse:.2f} of parsing them"
    )
