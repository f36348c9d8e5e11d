"""Two servers, each in its own process: a query service fed by hand, and a bare one that sends ready-made frames.

Both take orders over a pipe: to send a load to all connected clients, and then, when those have it, to report the
cost. The service is the one that clients use, over loopback and with its usual settings; its state is handed changes
at the pace at which the thread that follows Kafka hands them over.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol

import orjson
import uvicorn
from websockets.asyncio.server import ServerConnection, serve

from bench.orders import NOTES_CHARS, bodies_of
from sowline.changes.change import Change
from sowline.config.settings import Settings
from sowline.config.topics import parse_topics
from sowline.model.key import sow_key
from sowline.model.position import Position
from sowline.runtime.connections import Connections
from sowline.runtime.health import ServiceHealth
from sowline.runtime.http_server import HttpProtocol
from sowline.runtime.native import native_core
from sowline.runtime.ports import HOST, free_port
from sowline.runtime.process import spare_the_collector
from sowline.runtime.websocket_handshake import Handshake
from sowline.serving.cooperative import StepSize
from sowline_query_service.context import ServiceContext
from sowline_query_service.live.dispatcher import Dispatcher
from sowline_query_service.live.subscription import LiveSubscription
from sowline_query_service.replica.plain_run import EventAtOffset
from sowline_query_service.server.server import server_of
from sowline_query_service.topics.state import ServedTopics

TOPICS = "topics: [{name: orders, key: /order}]"
PARTITION = ("orders.changes", 0)

TICK_SECONDS = 0.005
"""The time between two batches of changes that are made at a rate."""

Push = Callable[[], Awaitable[None]]


class Load(NamedTuple):
    """Changes of one field each, to this many records in turn; with a `rate` a second, to random records.

    Change number n has position n, from `start` on. They begin when this many subscriptions are live.
    """

    subscribers: int
    start: int
    changes: int
    records: int
    rate: int = 0
    notes_chars: int = NOTES_CHARS


class Cost(NamedTuple):
    """When sending began, on the clock of all processes, its processor time, and how often a client fell behind."""

    began: float
    cpu_seconds: float
    fallen: int


class BenchService:
    """A server, from the side of the measurement."""

    def __init__(self, port: int, pid: int, orders: Connection) -> None:
        self.port = port
        self.pid = pid
        self._orders = orders

    def push(self, load: object) -> None:
        """Let it send: the changes of a load, or ready-made frames."""
        self._orders.send(load)

    def cost(self) -> Cost:
        """The cost of that until now."""
        self._orders.send(None)
        cost: Cost = self._orders.recv()
        return cost


class _Pusher(Protocol):
    """A server in its process."""

    fallen: int

    def listening(self, port: int) -> AbstractAsyncContextManager[None]:
        """Accept connections."""

    async def prepared(self, load: Any) -> Push:
        """Do the work that is not measured."""


@contextmanager
def opened(kind: "type[_Pusher]") -> Iterator[BenchService]:
    """A server of that kind, until the end of the block."""
    port = free_port()
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_run, args=(kind, port, there), daemon=True)
    process.start()
    here.recv()
    try:
        assert process.pid is not None
        yield BenchService(port, process.pid, here)
    finally:
        process.kill()
        process.join()


def _run(kind: "type[_Pusher]", port: int, orders: Connection) -> None:
    asyncio.run(_carry_out(kind(), port, orders))


async def _carry_out(pusher: _Pusher, port: int, orders: Connection) -> None:
    async with pusher.listening(port):
        spare_the_collector()
        orders.send("listening")
        while True:
            push = await pusher.prepared(await asyncio.to_thread(orders.recv))
            began, cpu, fallen = time.monotonic(), time.process_time(), pusher.fallen
            await push()
            await asyncio.to_thread(orders.recv)
            orders.send(Cost(began, time.process_time() - cpu, pusher.fallen - fallen))


# the query service


class BenchQueryService:
    """A query service whose changes are made here."""

    def __init__(self) -> None:
        self.fallen = 0
        settings = Settings()
        self._state = ServedTopics(
            parse_topics(TOPICS), settings.ring_changes_max, native=native_core(settings.core)
        )
        self._dispatcher = _CountingDispatcher(self)
        self._state.listen(self._dispatcher.on_changes)
        self._state.loaded([PARTITION])

    @asynccontextmanager
    async def listening(self, port: int) -> Any:
        """Accept connections."""
        settings = Settings()
        connections = Connections()
        context = ServiceContext(self._state, self._dispatcher, {})
        config = uvicorn.Config(
            server_of(settings, context, Ready(), connections=connections).app,
            host=HOST,
            port=port,
            http=partial(HttpProtocol, connections=connections),  # type: ignore[arg-type]
            ws=Handshake,
            ws_max_size=settings.frame_bytes_max,
            log_level="error",
            access_log=False,
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        yield
        serving.cancel()

    async def prepared(self, load: Load) -> Push:
        """Make the changes, and wait for the subscribers."""
        events = list(_events(load))
        while self._dispatcher.live != load.subscribers:
            await asyncio.sleep(0.01)

        async def push() -> None:
            batches = _paced(self._take, events) if not load.rate else _timed(self._take, events, load.rate)
            await batches

        return push

    def _take(self, events: list[EventAtOffset]) -> None:
        self._state.take({PARTITION: events})


class _CountingDispatcher(Dispatcher):
    """A hub that counts how often a client falls behind."""

    def __init__(self, connection: BenchQueryService) -> None:
        super().__init__()
        self._service = connection

    def remove(self, active: LiveSubscription) -> None:
        """Remove a subscription: if its connection has not ended, because it is too slow."""
        self._service.fallen += active.is_too_slow
        super().remove(active)


class Ready(ServiceHealth):
    """A service that has nothing to say of its health."""

    def not_started(self) -> str | None:
        """It has started."""
        return None

    not_ready = not_alive = not_started

    def metrics(self) -> list[Any]:
        """It measures nothing."""
        return []


async def _paced(take: Callable[[list[EventAtOffset]], None], events: list[EventAtOffset]) -> None:
    """Hand over one batch after another, with turns for others in between."""
    pace, rest = StepSize(), iter(events)
    while batch := list(islice(rest, pace.records)):
        began = time.monotonic()
        take(batch)
        pace.note(time.monotonic() - began)
        await asyncio.sleep(0)


async def _timed(take: Callable[[list[EventAtOffset]], None], events: list[EventAtOffset], rate: int) -> None:
    """Hand over what is due by the clock."""
    began, done = time.monotonic(), 0
    while done < len(events):
        await asyncio.sleep(TICK_SECONDS)
        due = int((time.monotonic() - began) * rate)
        if due > done:
            take(events[done:due])
            done = due


def _events(load: Load) -> Iterator[EventAtOffset]:
    """The changes of a load: each gives an order another quantity."""
    chance = random.Random(load.start)
    orders = [orjson.loads(body) for body in bodies_of(load.records, load.notes_chars)]
    keys = [sow_key(b"orders\0", str(order["order"])) for order in orders]
    bodies = [orjson.dumps(order) for order in orders]
    for number in range(load.start, load.start + load.changes):
        row = chance.randrange(load.records) if load.rate else number % load.records
        previous, orders[row]["qty"] = bodies[row], orders[row]["qty"] % 1000 + 1
        body = bodies[row] = orjson.dumps(orders[row])
        after = Position(0, number - 1)
        yield EventAtOffset(
            number, Change(keys[row], body, previous, Position(0, number), after, "publish", 1000 + number)
        )


# the bare server


class BareService:
    """A server that answers once, and sends the same frames to every connection."""

    def __init__(self) -> None:
        self.fallen = 0
        self._frames: list[bytes] = []
        self._begin = asyncio.Event()

    @asynccontextmanager
    async def listening(self, port: int) -> Any:
        """Accept connections."""
        async with serve(self._serve_one, HOST, port, compression=None, ping_interval=None):
            yield

    async def _serve_one(self, connection: ServerConnection) -> None:
        begin = self._begin
        await connection.recv()
        await connection.send("ready")
        await begin.wait()
        for frame in self._frames:
            await connection.send(frame, text=True)
        await connection.wait_closed()

    async def prepared(self, load: list[bytes]) -> Push:
        """Take the frames."""
        self._frames = load

        async def push() -> None:
            self._begin.set()
            self._begin = asyncio.Event()

        return push
