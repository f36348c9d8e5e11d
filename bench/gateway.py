"""Queries through a gateway over one and over two nodes, as ratios to the same queries at one query service.

All processes are on this machine, and hold the records without Kafka. Clients ask in a closed loop: each sends its
next query when it has the answer to the last one.
"""

import asyncio
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import orjson
import uvicorn
from starlette.types import ASGIApp

from bench.orders import bodies_of
from bench.servers import Ready
from bench.table import table
from bench.usage import usage
from sowline.client.async_client import AsyncClient
from sowline.config.credentials import Credentials
from sowline.config.settings import Settings
from sowline.config.shard import WHOLE, Shard
from sowline.config.topics import parse_topics
from sowline.model.key import key_text, partition_of, sow_key
from sowline.model.position import Position
from sowline.runtime.http_server import HttpProtocol
from sowline.runtime.ports import free_port
from sowline.runtime.websocket_handshake import Handshake
from sowline.serving.app import Server
from sowline.serving.result import QueryLimits
from sowline_gateway.context import GatewayContext
from sowline_gateway.nodes.announcements import Announcements
from sowline_gateway.nodes.connections import ConnectionPool
from sowline_gateway.nodes.http import NodeHttp
from sowline_gateway.nodes.node_set import NodeSet
from sowline_gateway.server.commands import GatewayCommands
from sowline_gateway.server.http_api import GatewayHttpApi
from sowline_query_service.context import ServiceContext
from sowline_query_service.live.dispatcher import Dispatcher
from sowline_query_service.server.server import server_of
from sowline_query_service.topics.state import ServedTopics

PARTITIONS = 8
TOPICS = f"topics: [{{name: orders, key: /order, partitions: {PARTITIONS}, indexes: [/price, /customer]}}]"
SECONDS = 4.0
"""How long each kind of query is asked."""

CLIENTS = 8

QUERIES: dict[str, dict[str, Any]] = {
    "look-up by key": {"filter": "/order = 4711"},
    "filter, 1 of 1,000": {"filter": "/customer = 'customer-0042'"},
    "top 50 by price": {"order_by": "/price DESC", "top_n": 50},
    "groups by side": {
        "filter": "/price < 1",
        "options": "grouping=[/side],projection=[/side,AVG(/qty) AS /qty]",
    },
}


class Figures(NamedTuple):
    """Queries a second; milliseconds of the median and of the 99th percentile; CPU ms a query of all services."""

    rate: float
    median_ms: float
    p99_ms: float
    cpu_ms: float


def run(records: int, runs: int) -> str:
    """Measure one query service, and a gateway over one and over two nodes, in turn; return the table."""
    records = min(records, 200_000)
    found: dict[tuple[str, str], list[Figures]] = {}
    for _ in range(runs):
        for name, shards in (("query service", 0), ("gateway, 1 node", 1), ("gateway, 2 nodes", 2)):
            with _serving(records, shards) as (port, pids):
                for kind, query in QUERIES.items():
                    figures = asyncio.run(_measured(port, query, pids))
                    found.setdefault((kind, name), []).append(figures)
                    print(
                        f"  {kind:<20} {name:<18} {figures.rate:8.0f}/s {figures.p99_ms:7.1f} ms", flush=True
                    )
    rows = [(kind, name, *_cells(found[kind, name], found[kind, "query service"])) for kind, name in found]
    head = (
        "query",
        "sent to",
        "queries/s",
        "relative to a query service",
        "median, ms",
        "p99, ms",
        "CPU ms a query",
    )
    return table(head, sorted(rows, key=lambda row: list(QUERIES).index(row[0])))


def _cells(figures: Sequence[Figures], bare: Sequence[Figures]) -> tuple[str, ...]:
    rate, median, p99, cpu = map(statistics.median, zip(*figures, strict=True))
    of_bare = rate / statistics.median(one.rate for one in bare)
    return f"{rate:,.0f}", f"{of_bare:.2f}", f"{median:.2f}", f"{p99:.1f}", f"{cpu:.2f}"


async def _measured(port: int, query: dict[str, Any], pids: Sequence[int]) -> Figures:
    taken: list[float] = []
    async with AsyncClient(f"http://127.0.0.1:{port}") as client:
        await _ask(client, query, [], time.monotonic() + 0.5)
        began, before = time.monotonic(), usage(pids).cpu_seconds
        await asyncio.gather(*(_ask(client, query, taken, began + SECONDS) for _ in range(CLIENTS)))
        seconds, cpu = time.monotonic() - began, usage(pids).cpu_seconds - before
    taken.sort()
    p99 = taken[int(len(taken) * 0.99)]
    return Figures(len(taken) / seconds, statistics.median(taken) * 1e3, p99 * 1e3, cpu / len(taken) * 1e3)


async def _ask(client: AsyncClient, query: dict[str, Any], taken: list[float], until: float) -> None:
    while (began := time.monotonic()) < until:
        async for _ in client.sow("orders", batch_size=1000, **query):
            pass
        taken.append(time.monotonic() - began)


# the services


@contextmanager
def _serving(records: int, shards: int) -> Iterator[tuple[int, list[int]]]:
    """Lend the port for clients, and the processes that serve it; without shards, those of a query service."""
    context = get_context("spawn")
    with ExitStack() as stack:

        def start(target: Callable[..., None], *given: object) -> tuple[int, int]:
            port = free_port()
            here, there = context.Pipe()
            process = context.Process(target=target, args=(port, *given, there), daemon=True)
            process.start()
            stack.callback(process.join)
            stack.callback(process.kill)
            here.recv()
            assert process.pid is not None
            return port, process.pid

        nodes = [start(_node, records, Shard(n, shards)) for n in range(shards)] or [
            start(_node, records, WHOLE)
        ]
        pids = [pid for _, pid in nodes]
        if not shards:
            yield nodes[0][0], pids
            return
        port, pid = start(_gateway, [f"http://127.0.0.1:{port}" for port, _ in nodes])
        yield port, [*pids, pid]


def _node(port: int, records: int, shard: Shard, ready: Connection) -> None:
    state = ServedTopics(parse_topics(TOPICS), ring_changes_max=1000, shard=shard)
    topic = state.topics["orders"]
    for number, body in enumerate(bodies_of(records)):
        text = key_text(orjson.loads(body), topic.definition.key_paths)
        if (partition := partition_of(text, PARTITIONS)) in topic.partitions:
            key = sow_key(topic.definition.declared.domain_prefix, text)
            topic.rows.put(key, body, partition, Position(0, number), 1000)
    for replica in topic.partitions.values():
        replica.loaded()
    gc.freeze()
    app = server_of(Settings(shard=shard), ServiceContext(state, Dispatcher(), {}), Ready()).app
    asyncio.run(_run(app, port, ready))


def _gateway(port: int, urls: list[str], ready: Connection) -> None:
    asyncio.run(_serve_gateway(port, urls, ready))


async def _serve_gateway(port: int, urls: list[str], ready: Connection) -> None:
    credentials = Credentials()
    http = NodeHttp(credentials)
    announcements = Announcements(urls, http)
    topics = {topic.name: topic for topic in parse_topics(TOPICS).topics}
    nodes = NodeSet(topics, announcements, ConnectionPool(credentials))
    context = GatewayContext.of(nodes, http, QueryLimits(), {})
    following = asyncio.create_task(announcements.follow())
    while len(announcements.nodes) < len(urls):
        await announcements.wait_for_news(1)
    settings = Settings()
    app = Server(
        settings,
        partial(GatewayCommands, context),
        lambda rates, backlogs: GatewayHttpApi(settings, context, rates, backlogs).routes,
        Ready(),
    ).app
    await _run(app, port, ready)
    following.cancel()


async def _run(app: ASGIApp, port: int, ready: Connection) -> None:
    config = uvicorn.Config(
        app,
        port=port,
        http=HttpProtocol,
        ws=Handshake,
        log_level="error",
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    ready.send(True)
    await serving
