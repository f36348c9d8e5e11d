"""A query service without Kafka: a state that tests move by hand, and clients that read their outbox."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from query_service.access.identity import ANYBODY
from query_service.access.visit import Visit
from query_service.backend import Backend
from query_service.hub import Hub
from query_service.outbox import Outbox
from query_service.query import Limits
from query_service.replica import Placed
from query_service.rights import EVERYTHING, Rights
from query_service.session import Session
from query_service.state import State, TopicState
from sowline.change import Change, Event
from sowline.key import sow_key
from sowline.position import Position, before_the_log
from sowline.topics import parse_topics
from tests.property.world import Written, written

DOMAIN = b"orders\0"
Json = dict[str, Any]


class Server:
    """One topic `orders` of some partitions, and its changes topic, in memory."""

    def __init__(
        self,
        partitions: int = 1,
        ring: int = 1000,
        backlog: int = 1 << 20,
        limits: Limits = Limits(),  # noqa: B008
        more: str = "",
        definition: str = "",
    ) -> None:
        usual = f"{{name: orders, key: /id, partitions: {partitions}{more}}}"
        self.topics = parse_topics(f"topics: [{definition or usual}]")
        self.state = State(self.topics, ring)
        self.hub = Hub()
        self.state.on_changes = self.hub.on_changes
        self.written: list[list[Written]] = [[] for _ in range(partitions)]
        self.last = [before_the_log()] * partitions
        self.bodies: dict[bytes, bytes] = {}
        self.limits = limits
        self._backlog = backlog
        self.read = 0

    @property
    def topic(self) -> TopicState:
        """The state of `orders`."""
        return self.state.topics["orders"]

    def loaded(self) -> "Server":
        """Say that all partitions are loaded."""
        self.state.loaded([("orders.changes", number) for number in range(len(self.written))])
        return self

    def connect(self, rights: Rights = EVERYTHING) -> "Client":
        """Return a new client."""
        outbox, visit = Outbox(self._backlog), Visit(replace(ANYBODY, rights=rights))
        return Client(self, Session(Backend(self.state, self.hub, {}, self.limits), outbox, visit), outbox)

    def put(self, body: Json | None, key: object = None, partition: int = 0, step: int = 1) -> Position:
        """Apply one change: a record's new body, or the end of the record named `key`."""
        sow = sow_key(DOMAIN, str(key if body is None else body["id"]))
        text = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        place = Position(0, self.last[partition].offset + step)
        op, reason = ("delete", "deleted") if text is None else ("publish", None)
        change = Change(
            sow,
            text,
            self.bodies.get(sow),
            place,
            self.last[partition],
            op,
            1000 + place.offset,
            True,
            reason,
        )
        if text is None:
            del self.bodies[sow]
        else:
            self.bodies[sow] = text
        self.take(change, partition)
        return place

    def take(self, event: Event, partition: int = 0) -> None:
        """Let an event arrive."""
        self.last[partition] = event.position
        held = self.written[partition]
        held.append(written(len(held), event))
        self.state.take({("orders.changes", partition): [Placed(len(held) - 1, event)]})

    def read_range(
        self, kafka: Any, topic: str, partition: int, start: int, end: int, batch_max: int
    ) -> Iterator[list[Written]]:
        """Stand in for the changes topic."""
        self.read += 1
        inside = [message for message in self.written[partition] if start <= message.at < end]
        for at in range(0, len(inside), 2):
            yield inside[at : at + 2]

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Let whoever catches up read this server's changes topic, in the event loop."""
        reader = "query_service.catch_up.read_range"
        with patch(reader, self.read_range), patch("query_service.catch_up._in_thread", one_by_one):
            yield


class Client:
    """One connection: what it asks, and what it has been sent."""

    def __init__(self, server: Server, session: Session, outbox: Outbox) -> None:
        self._server = server
        self.session = session
        self.outbox = outbox
        self.received: list[Json] = []
        self._aside: list[asyncio.Future[None]] = []
        """Requests that take long to understand."""

    def ask(self, command: str, **fields: Any) -> None:
        """Send a command about `orders`."""
        request = {"command": command, "command_id": "1", "topic": "orders"} | fields
        text = json.dumps({k: v for k, v in request.items() if v is not None}).encode()
        if (aside := self.session.receive_one(text)) is not None:
            self._aside.append(asyncio.ensure_future(aside))

    async def read(self) -> list[Json]:
        """Return what is sent until nothing more comes by itself."""
        await asyncio.gather(*self._aside)
        self._aside.clear()
        await settled()
        messages = []
        while self.outbox._messages:
            messages += [json.loads(message) for message in await self.outbox.take()]
            await settled()
        self.received += messages
        return messages


async def one_by_one(batches: Iterator[list[Written]]) -> AsyncIterator[list[Written]]:
    """Yield batches, and let others run in between."""
    for batch in batches:
        yield batch
        await asyncio.sleep(0)


async def settled(rounds: int = 100) -> None:
    """Let everything run that can run without new input."""
    for _ in range(rounds):
        await asyncio.sleep(0)


def view_of(messages: list[Json], view: dict[str, Json] | None = None) -> dict[str, Json]:
    """Return the records that a subscriber holds after these messages."""
    records = dict(view or {})
    for message in messages:
        if message["command"] == "group_begin":
            records = {}
        for record in message["records"] if message["command"] == "sow" else ():
            records[record["sow_key"]] = record["data"]
        if message["command"] == "publish":
            records[message["sow_key"]] = message["data"]
        if message["command"] == "oof":
            del records[message["sow_key"]]
    return records
