"""Ten thousand WebSocket clients of one gateway, each with its own filter, compared to a bare server's.

The gateway is the service that clients use, in its own process. Its only node makes the changes. Clients are raw
connections of this process. The bare server is one of `websockets` that sends frames of the same size to the same
number of connections. Everything is on this machine, over loopback, without TLS.

First some clients connect, and get changes all the time. Then all others connect at once: a storm. Then changes
arrive at a steady rate, and finally as fast as they can be made.
"""

import asyncio
import random
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import orjson
from websockets.asyncio.server import ServerConnection, serve

from bench.frames import Ask, Reader
from bench.servers import PARTITION, TOPICS, BenchQueryService, BenchService, Push, opened
from bench.table import table
from bench.usage import resident_bytes, usage
from sowline.changes.change import Change
from sowline.config.settings import Settings
from sowline.config.topics import parse_topics
from sowline.model.key import sow_key
from sowline.model.position import Position
from sowline.runtime.ports import HOST, free_port
from sowline.runtime.process import spare_the_collector
from sowline_gateway.service import GatewayService
from sowline_query_service.replica.plain_run import EventAtOffset

CLIENTS = 10_000
EARLY = 500
"""Clients that are connected before the storm."""

EARLY_RATE = 200
"""Changes a second while the others connect."""

RATE = 3_000
STEADY_SECONDS = 5.0
STORM_SECONDS = 30.0
FULL_CHANGES = 5
"""Changes for each client that are made as fast as possible."""

CONNECTING_MAX = 500
"""Handshakes at once."""

RECORD_BYTES = 250
TICK_SECONDS = 0.005
SETTLED_SECONDS = 1.0
SECONDS_MAX = 120.0


MEASURED = (
    f"connections/s while {CLIENTS:,} connect, {CONNECTING_MAX} at a time",
    "KB of memory per client",
    f"p99 latency of the first {EARLY} clients during this time, ms",
    f"median at {RATE:,} messages/s, ms",
    f"p99 at {RATE:,} messages/s, ms",
    f"µs of CPU per message at {RATE:,} messages/s",
    "messages/s at full rate",
    "µs of CPU per message at full rate",
)
"""The meaning of each of the `Figures`."""


class Traffic(NamedTuple):
    """Changes of the records of the first clients, at a rate a second; as fast as possible if that is 0."""

    clients: int
    changes: int
    rate: int
    start: int


def body_of(number: int, change: int) -> bytes:
    """Return a record with the time at which it was made."""
    record = {"order": number, "sent": time.monotonic(), "change": change, "notes": ""}
    size = len(orjson.dumps(record))
    return orjson.dumps(record | {"notes": "n" * (RECORD_BYTES - size)})


async def paced(traffic: Traffic, send: Any) -> None:
    """Call `send` with a client's number, and how many changes there were, for each change that is due."""
    chance, began, done = random.Random(traffic.start), time.monotonic(), 0
    while done < traffic.changes:
        await asyncio.sleep(TICK_SECONDS if traffic.rate else 0)
        due = int((time.monotonic() - began) * traffic.rate) if traffic.rate else done + 100
        while done < min(due, traffic.changes):
            # In turn if it is fast, so that each client gets the same number.
            number = chance.randrange(traffic.clients) if traffic.rate else done % traffic.clients
            send(number, traffic.start + done)
            done += 1


class NodeOfBench(BenchQueryService):
    """A node that makes changes with the time at which they are made."""

    async def prepared(self, load: Any) -> Push:
        """Wait for the subscribers of some traffic."""
        while self._dispatcher.live < load.clients:
            await asyncio.sleep(0.01)
        return lambda: paced(load, self._change)

    def _change(self, number: int, change: int) -> None:
        key = sow_key(b"orders\0", str(number))
        position, after = Position(0, change), Position(0, change - 1)
        body = body_of(number, change)
        event = Change(key, body, self._bodies.get(number), position, after, "publish", 1000 + change)
        self._bodies[number] = body
        self._state.take({PARTITION: [EventAtOffset(change, event)]})

    def __init__(self) -> None:
        super().__init__()
        self._bodies: dict[int, bytes] = {}


class BareSender:
    """A bare server that sends frames of the same size, one to each client that a change is about."""

    def __init__(self) -> None:
        self.fallen = 0
        self._connections: list[ServerConnection] = []

    @asynccontextmanager
    async def listening(self, port: int) -> Any:
        """Accept connections."""
        async with serve(self._serve_one, HOST, port, compression=None, ping_interval=None, backlog=2048):
            yield

    async def _serve_one(self, connection: ServerConnection) -> None:
        await connection.recv()
        self._connections.append(connection)
        await connection.send("ready")
        await connection.wait_closed()

    async def prepared(self, load: Traffic) -> Push:
        """Wait for the clients."""
        while len(self._connections) < load.clients:
            await asyncio.sleep(0.01)

        frames: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()

        async def push() -> None:
            making = asyncio.create_task(paced(load, lambda *what: frames.put_nowait(_addressed(*what))))
            for _ in range(load.changes):
                number, frame = await frames.get()
                await self._connections[number].send(frame, text=True)
            await making

        return push


def _addressed(number: int, change: int) -> tuple[int, bytes]:
    """Return a message as a gateway sends it, and the client that gets it."""
    head = b'{"command":"publish","sids":["1"],"topic":"orders","sow_key":"12345678901234567890"'
    return number, b'%s,"bookmark":"orders:0@%d","data":%s}' % (head, change, body_of(number, change))


# the gateway


@contextmanager
def gateway(node: BenchService) -> Iterator[tuple[int, int]]:
    """Lend a gateway: its port and its process."""
    context = get_context("spawn")
    here, there = context.Pipe()
    port = free_port()
    process = context.Process(target=_run_gateway, args=(port, node.port, there), daemon=True)
    process.start()
    here.recv()
    assert process.pid is not None
    try:
        yield port, process.pid
    finally:
        process.kill()
        process.join()


def _run_gateway(port: int, node: int, ready: Connection) -> None:
    spare_the_collector()
    settings = Settings(
        nodes=f"http://{HOST}:{node}", port=port, sessions_max=CLIENTS + 2 * EARLY, kafka=f"{HOST}:1"
    )
    service = GatewayService(settings, parse_topics(TOPICS))
    threading.Thread(target=_report, args=(service, ready), daemon=True).start()
    asyncio.run(service.run(threading.Event()))


def _report(service: GatewayService, ready: Connection) -> None:
    while service.not_started() is not None:
        time.sleep(0.05)
    ready.send(True)


# the clients


class Arrivals:
    """The messages that all clients have received."""

    def __init__(self) -> None:
        self.messages = 0
        self.lost = 0
        self.seconds: list[float] = []
        self.last = 0.0

    def begin(self) -> None:
        """Count from zero."""
        self.messages, self.seconds = 0, []

    async def reached(self, messages: int) -> None:
        """Wait until this many messages have arrived."""
        async with asyncio.timeout(SECONDS_MAX):
            while self.messages < messages:
                await asyncio.sleep(0.005)

    def note(self, frame: bytes) -> None:
        """Count a frame, and how long its last message took."""
        self.last = time.monotonic()
        self.messages += frame.count(b'"sent":')
        start = frame.rfind(b'"sent":') + 7
        self.seconds.append(self.last - float(frame[start : frame.index(b",", start)]))


class CountedClient(Reader):
    """A client whose messages are counted with those of the others."""

    def __init__(self, ask: Ask, arrivals: Arrivals) -> None:
        super().__init__(ask, keep=False)
        self._arrivals = arrivals

    def connection_lost(self, error: Exception | None) -> None:
        """Count it."""
        self._arrivals.lost += 1
        super().connection_lost(error)

    def _take(self, frame: bytes) -> None:
        if not self.answered.done():
            self.answered.set_result(None)
        elif b'"sent":' in frame:
            self._arrivals.note(frame)


async def connected(
    port: int, numbers: range, arrivals: Arrivals, topic: str = "orders"
) -> list[CountedClient]:
    """Connect a client for each number; return once all have their answer."""
    loop = asyncio.get_running_loop()
    slots = asyncio.Semaphore(CONNECTING_MAX)

    async def one(number: int) -> CountedClient:
        request = {
            "command": "subscribe",
            "command_id": "1",
            "topic": topic,
            "filter": f"/order = {number}",
            "ack_type": "processed",
        }
        client = CountedClient(Ask(orjson.dumps(request), b"\0"), arrivals)
        async with slots:
            await loop.create_connection(lambda: client, HOST, port)
            await client.answered
        return client

    return list(await asyncio.gather(*(one(number) for number in numbers)))


class Figures(NamedTuple):
    """The figures of one server in one run; times are from the making of a change to its arrival."""

    connects_per_second: float
    kb_per_connection: float
    storm_p99_ms: float
    """The p99 of the clients that were connected before."""
    median_ms: float
    p99_ms: float
    steady_us: float
    """CPU of the server's process per message, at a steady rate."""
    full_per_second: float
    full_us: float


class Measured:
    """A server under measurement, and its clients."""

    def __init__(self, port: int, pid: int, source: BenchService) -> None:
        self._port = port
        self._pid = pid
        self._source = source
        self._arrivals = Arrivals()
        self._clients: list[CountedClient] = []
        self._changes = 0

    async def figures(self) -> Figures:
        """Let the clients connect, and send them changes at a rate and as fast as possible."""
        self._clients += await connected(self._port, range(EARLY), self._arrivals)
        connects, kilobytes, storm_p99 = await self._storm()
        total = EARLY + CLIENTS
        cpu, seconds = await self._sent(Traffic(total, int(RATE * STEADY_SECONDS), RATE, self._changes))
        times = sorted(self._arrivals.seconds)
        median, p99, steady = statistics.median(times), times[int(len(times) * 0.99)], cpu
        cpu, seconds = await self._sent(Traffic(total, FULL_CHANGES * total, 0, self._changes))
        for client in self._clients:
            client.close()
        return Figures(
            connects,
            kilobytes,
            storm_p99 * 1e3,
            median * 1e3,
            p99 * 1e3,
            steady * 1e6,
            FULL_CHANGES * total / seconds,
            cpu * 1e6,
        )

    async def _storm(self) -> tuple[float, float, float]:
        """Connect all others while the early ones get changes; return connections a second, KB each, and a p99."""
        sending = asyncio.create_task(
            self._sent(Traffic(EARLY, int(EARLY_RATE * STORM_SECONDS), EARLY_RATE, self._changes))
        )
        await asyncio.sleep(SETTLED_SECONDS)
        before, began = resident_bytes(self._pid), time.monotonic()
        self._clients += await connected(self._port, range(EARLY, EARLY + CLIENTS), self._arrivals)
        connects = CLIENTS / (time.monotonic() - began)
        await sending
        times = sorted(self._arrivals.seconds)
        return connects, (resident_bytes(self._pid) - before) / CLIENTS / 1000, times[int(len(times) * 0.99)]

    async def _sent(self, traffic: Traffic) -> tuple[float, float]:
        """Let changes be sent, and wait for all; return the CPU seconds of each, and the seconds of all."""
        self._changes += traffic.changes
        self._arrivals.begin()
        before = usage([self._pid]).cpu_seconds
        self._source.push(traffic)
        await self._arrivals.reached(traffic.changes)
        began = (await asyncio.to_thread(self._source.cost)).began
        cpu = usage([self._pid]).cpu_seconds - before
        if self._arrivals.lost:
            raise AssertionError(f"{self._arrivals.lost} clients were disconnected")
        return cpu / traffic.changes, self._arrivals.last - began


def run(records: int, runs: int) -> str:
    """Measure the gateway and the bare server in turn; return the table of medians."""
    del records
    spare_the_collector()
    found: dict[str, list[Figures]] = {"gateway": [], "bare server": []}
    for _ in range(runs):
        with opened(NodeOfBench) as node, gateway(node) as (port, pid):
            found["gateway"].append(asyncio.run(Measured(port, pid, node).figures()))
        with opened(BareSender) as bare:
            found["bare server"].append(asyncio.run(Measured(bare.port, bare.pid, bare).figures()))
        for name, figures in found.items():
            print(name, *(f"{one:,.2f}" for one in figures[-1]), flush=True)
    medians = {
        name: [statistics.median(each) for each in zip(*figures, strict=True)]
        for name, figures in found.items()
    }
    rows = zip(MEASURED, *medians.values(), strict=True)
    return table(
        ("", "gateway", "bare server", "ratio"),
        [(name, f"{one:,.1f}", f"{bare:,.1f}", f"{one / bare:.2f}") for name, one, bare in rows],
    )
