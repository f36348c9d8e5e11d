"""One query service that holds all partitions, and a gateway over nodes that hold shards, with the same changes.

Both serve clients within one event loop. The nodes are reached over the network of the simulation, without delays.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from unittest.mock import patch

import httpx2

from sowline.changes.change import Change
from sowline.changes.event import Event
from sowline.config.settings import Settings
from sowline.config.shard import Shard
from sowline.kafka.read_back import NewestMessages
from sowline.serving.access.login_session import LoginSession
from sowline.serving.app import Server as WebServer
from sowline.serving.authorization.delegation import headers_of
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.authorization.identity import ANYBODY
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.sessions.session import Session
from sowline_gateway.server.commands import GatewayCommands
from sowline_gateway.server.http_api import GatewayHttpApi
from sowline_query_service.server.server import server_of
from sowline_query_service.subscriptions.bookmark_resolver import LogOffsets
from sowline_query_service.topics.topic_state import TopicState
from tests.property.clock import ClockLoop, at_once
from tests.property.world import World, Written
from tests.sessions import session_of
from tests.simulation.gateways import PlayedGateway
from tests.simulation.network import Network, PlayedSocket, url_of
from tests.simulation.trace import Trace
from tests.unit.query_service.sessions import Json, Server

BEGIN_MS = 1_700_000_000_000
"""The log time at the beginning."""


class ShardNode(Server):
    """A query service that holds a shard, as the network of the simulation wants it."""

    def __init__(self, shard: Shard, **given: Any) -> None:
        super().__init__(shard=shard, **given)
        self.name = f"node-{shard.number}"
        self.held_shard = shard
        self.is_dead = self.is_stalled = False
        self.sockets: dict[PlayedSocket, None] = {}

    def new_session(self, outbox: Outbox, login: LoginSession) -> Session:
        """Return the session of a gateway that has connected."""
        return session_of(self.context, outbox, login)

    def end_session(self, session: Session) -> None:
        """End the session of a gateway that has gone."""
        session.close()


class Reader:
    """A client of one service."""

    def __init__(self, loop: ClockLoop, session: Session) -> None:
        self._loop = loop
        self._session = session
        self._outbox = session.outbox

    def ask(self, request: Json) -> None:
        """Send a command."""
        if (waiting := self._session.receive_one(json.dumps(request).encode())) is not None:
            self._loop.create_task(waiting)

    async def read(self) -> list[bytes]:
        """Return what comes by itself."""
        await self._loop.rest()
        messages: list[bytes] = []
        while taken := self._outbox.take_now():
            messages += taken
            await self._loop.rest()
        return messages

    def close(self) -> None:
        """Leave."""
        self._session.close()


class HttpAnswer(NamedTuple):
    """An answer over HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes


class Shards:
    """The query service `whole`, and the gateway over as many shards; they get the changes that `world` makes."""

    def __init__(
        self, loop: ClockLoop, definition: str, partitions: int, shards: int, seed: int, ring: int
    ) -> None:
        self.loop = loop
        whole = f"{{name: orders, partitions: {partitions}, {definition}}}"
        given: Json = {"partitions": partitions, "definition": whole, "ring": ring}
        self.whole = Server(**given)
        self.nodes = [ShardNode(Shard(number, shards), **given) for number in range(shards)]
        self.topic = self.whole.topic.definition
        self.world = World(self.topic)
        self.world.time = BEGIN_MS
        self.times: list[dict[str, int]] = [{} for _ in range(self.topic.partitions)]
        """By partition and position: the log time of a change."""
        trace = Trace(lambda: (0, 0))
        network = Network(lambda name: Random(f"{seed} {name}"), trace, cast("Any", self.nodes))
        network.is_calm = True
        self._gateway = PlayedGateway("gateway", Random(seed), trace, self.whole.topics, network, frozenset())
        self._fed = [0] * self.topic.partitions
        self._stack = ExitStack()
        self._http: list[httpx2.AsyncClient] = []
        self._readers: list[Reader] = []

    @property
    def _servers(self) -> list[Server]:
        return [self.whole, *self.nodes]

    async def start(self) -> None:
        """Begin to serve, with nothing on the log."""
        for entered in [*self.world.patched(), *self._kafka()]:
            self._stack.enter_context(entered)
        for server in self._servers:
            server.loaded()
        self._gateway.start()
        await self.loop.rest()
        context, health = self._gateway.context, cast("Any", SimpleNamespace())
        settings = Settings(host="0.0.0.0")  # the names of the nodes are no names of this machine
        apps = {
            url_of(cast("Any", node)): server_of(settings, node.context, health).app for node in self.nodes
        }
        transports = {url: httpx2.ASGITransport(app) for url, app in apps.items()}
        context.http._client = httpx2.AsyncClient(mounts=transports)
        gateway = WebServer(
            settings,
            partial(GatewayCommands, context),
            lambda rates, backlogs: GatewayHttpApi(settings, context, rates, backlogs).routes,
            health,
        )
        whole = server_of(settings, self.whole.context, health)
        self._http = [
            httpx2.AsyncClient(transport=httpx2.ASGITransport(server.app), base_url="http://localhost")
            for server in (whole, gateway)
        ]

    async def stop(self) -> None:
        """End everything, and leave nothing behind."""
        for reader in self._readers:
            reader.close()
        self._gateway.stop()
        await self._gateway.context.http.close()
        for http in self._http:
            await http.aclose()
        await self.loop.end()
        self._stack.close()

    # Kafka

    def _kafka(self) -> Iterator[Any]:
        """Yield the stand-ins for what the services ask Kafka, and for the clocks."""
        resolver = "sowline_query_service.subscriptions.bookmark_resolver"
        yield patch("sowline_query_service.subscriptions.catch_up.read_range", self.whole.read_range)
        yield patch(f"{resolver}.log_offsets_at", self._log_offsets_at)
        yield patch("sowline_query_service.subscriptions.end.log_offsets_at", self._log_offsets_at)
        yield patch(f"{resolver}.first_offsets", lambda kafka, topic: dict.fromkeys(topic.partitions, 0))
        yield patch(f"{resolver}.last_offsets", self._last_offsets)
        yield patch("sowline_query_service.query.timeline_read.read_at", self._read_at)
        yield patch("sowline_query_service.query.timeline_read.read_newest", self._read_newest)
        yield patch("asyncio.to_thread", at_once)
        yield patch("time.time", lambda: self.world.time / 1000 + 1)
        yield patch("time.monotonic", lambda: 1000 + self.loop.time())

    def _log_offsets_at(self, kafka: Any, topic: TopicState, first_ms: int) -> dict[int, LogOffsets]:
        found = {}
        for number in topic.partitions:
            log = self.world.logs[number]
            offset = next((record.offset for record in log if record.time >= first_ms), len(log))
            found[number] = LogOffsets(offset, 0)
        return found

    def _last_offsets(self, kafka: Any, topic: TopicState) -> dict[int, int]:
        return {number: len(self.whole.written[number]) for number in topic.partitions}

    def _read_at(
        self, kafka: Any, topic: str, partition: int, offsets: Sequence[int], seconds_max: float
    ) -> Iterator[Written]:
        return iter([self.whole.written[partition][offset] for offset in offsets])

    def _read_newest(
        self,
        kafka: Any,
        topic: str,
        partition: int,
        limit: int,
        wants: Callable[[Any], bool],
        *,
        end: int,
    ) -> NewestMessages:
        found = NewestMessages(0, end, is_complete=True)
        for message in reversed(self.whole.written[partition][:end]):
            if len(found.messages) < limit and wants(message):
                found.messages.append(cast("Any", message))
        return found

    # changes

    def new_changes(self) -> list[tuple[int, list[Event]]]:
        """Apply the logs; return the events that were made, those of one log record together, with the partition."""
        self.world.drain()
        found: list[tuple[int, list[Event]]] = []
        for number, changes in enumerate(self.world.changes):
            by_record: dict[int, list[Event]] = defaultdict(list)
            for message in changes.history[self._fed[number] :]:
                event = message.event
                by_record[event.position.offset].append(event)
                if isinstance(event, Change):
                    self.times[number][str(event.position)] = event.time
            self._fed[number] = len(changes.history)
            found += [(number, events) for events in by_record.values()]
        return found

    def feed(self, number: int, events: Sequence[Event]) -> None:
        """Let events of a partition arrive at the query service, and at the node that holds it."""
        for server in self._servers:
            if number in server.topic.partitions:
                server.take_all(events, number)

    def time_of(self, bookmark: str) -> int:
        """Return the log time of the change at the one position that a bookmark names."""
        _, _, position = bookmark.partition(":")
        number, _, at = position.partition("@")
        return self.times[int(number)][at]

    # clients

    def connect(self, rights: Rights) -> tuple[Reader, Reader]:
        """Return a new client of the query service, and one of the gateway."""
        login = LoginSession(ANYBODY.acting_with(rights))
        new_sessions = (partial(session_of, self.whole.context), self._gateway.new_session)
        found = [Reader(self.loop, new_session(Outbox(1 << 20), login)) for new_session in new_sessions]
        self._readers += found
        return found[0], found[1]

    async def request(
        self, method: str, path: str, rights: Rights, body: Json | None = None
    ) -> list[HttpAnswer]:
        """Return how the query service answers an HTTP request, and how the gateway does."""
        answers = []
        for http in self._http:
            answer = await http.request(method, path, json=body, headers=headers_of(rights))
            headers = {name: text for name, text in answer.headers.items() if name != "content-length"}
            answers.append(HttpAnswer(answer.status_code, headers, answer.content))
        return answers
