"""Tables over HTTP: rows a second of ten columns, next to lines of JSON that orjson parses, in the same run.

The query service holds the records in memory, in a process of its own. Nothing of Kafka is in it.
"""

import asyncio
import gc
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import NamedTuple

import httpx2
import orjson
import uvicorn

from bench.servers import Ready
from bench.usage import usage
from sowline.client.async_client import AsyncClient
from sowline.config.settings import Settings
from sowline.config.topics import parse_topics
from sowline.model.body import trimmed_json
from sowline.model.key import key_text, sow_key
from sowline.model.position import Position
from sowline.runtime.http_server import HttpProtocol
from sowline.runtime.ports import free_port
from sowline.runtime.websocket_handshake import Handshake
from sowline_query_service.context import ServiceContext
from sowline_query_service.live.dispatcher import Dispatcher
from sowline_query_service.server.server import server_of
from sowline_query_service.topics.state import ServedTopics

ROWS_MAX = 500_000
TYPES = {
    "/id": "int64",
    "/symbol": "text",
    "/side": "text",
    "/price": "double",
    "/qty": "int64",
    "/open": "bool",
    "/account": "text",
    "/venue": "text",
    "/filled": "int64",
    "/limit": "double",
}
NDJSON = "lines of JSON, parsed by orjson"


class Taken(NamedTuple):
    """The seconds that a read took, the CPU seconds of the service in it, and its peak memory so far."""

    seconds: float
    cpu_seconds: float
    rss_bytes_max: int


def run(records: int, runs: int) -> None:
    """Measure each kind of read in turn; print medians."""
    rows = min(records, ROWS_MAX)
    port, context = free_port(), get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=_serve, args=(port, rows, there), daemon=True)
    server.start()
    here.recv()
    assert server.pid is not None
    try:
        asyncio.run(_measure(port, server.pid, rows, runs))
    finally:
        server.kill()
        server.join()


def bodies_of(rows: int) -> list[bytes]:
    """The records, the same every time."""
    chance = random.Random(7)
    return [
        trimmed_json(
            {
                "id": number,
                "symbol": f"T{chance.randrange(200):03d}",
                "side": chance.choice(("buy", "sell")),
                "price": round(chance.random() * 100, 4),
                "qty": chance.randint(1, 1000),
                "open": chance.random() < 0.5,
                "account": f"account-{chance.randrange(1000):04d}",
                "venue": chance.choice(("XNYS", "XLON", "XTKS")),
                "filled": chance.randint(0, 1000),
                "limit": round(chance.random() * 100, 2),
            }
        )
        for number in range(rows)
    ]


def _serve(port: int, rows: int, ready: Connection) -> None:
    state = ServedTopics(parse_topics("topics: [{name: orders, key: [/id]}]"), ring_changes_max=1000)
    topic = state.topics["orders"]
    domain = topic.definition.declared.domain_prefix
    for number, body in enumerate(bodies_of(rows)):
        text = key_text(orjson.loads(body), topic.definition.key_paths)
        topic.rows.put(sow_key(domain, text), body, 0, Position(0, number), 1000)
    for partition in topic.partitions.values():
        partition.loaded()
    gc.freeze()
    app = server_of(Settings(), ServiceContext(state, Dispatcher(), {}), Ready()).app
    config = uvicorn.Config(app, port=port, http=HttpProtocol, ws=Handshake, log_level="error")
    # The client does not try again when it is refused.
    listening = config.bind_socket()
    listening.listen()
    ready.send(True)
    uvicorn.Server(config).run([listening])


async def _measure(port: int, pid: int, rows: int, runs: int) -> None:
    url = f"http://127.0.0.1:{port}"
    taken: dict[str, list[Taken]] = defaultdict(list)
    async with AsyncClient(url) as client, httpx2.AsyncClient(base_url=url, timeout=600) as http:

        async def parsed() -> int:
            answer = await http.post("/v1/topics/orders/sow", json={})
            return sum("data" in orjson.loads(line) for line in answer.content.splitlines())

        async def typed() -> int:
            return int((await client.table("orders", columns=TYPES)).num_rows)

        async def surveyed() -> int:
            return int((await client.table("orders")).num_rows)

        reads: dict[str, Callable[[], Awaitable[int]]] = {
            NDJSON: parsed,
            "table, with types": typed,
            "table, types found in a first pass": surveyed,
        }
        for number in range(runs + 1):
            for name, read in reads.items():
                cpu_before, began = usage([pid]).cpu_seconds, time.perf_counter()
                assert await read() == rows
                seconds, after = time.perf_counter() - began, usage([pid])
                # The first one of each imports, and fills caches.
                if number:
                    taken[name].append(Taken(seconds, after.cpu_seconds - cpu_before, after.rss_bytes_max))
    print(f"{rows:,} rows of {len(TYPES)} columns, medians of {runs}")
    for name, some in taken.items():
        of = Taken(*map(statistics.median, zip(*some, strict=True)))
        print(
            f"  {name:36} {rows / of.seconds:10,.0f} rows/s   {rows / of.cpu_seconds:10,.0f} rows a CPU-second of the"
            f" service, whose peak was {of.rss_bytes_max / 2**20:,.0f} MiB",
            flush=True,
        )
