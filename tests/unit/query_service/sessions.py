"""A query service without Kafka: a state that tests move by hand, and clients that read their outbox."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any
from unittest.mock import patch

from sowline.changes.change import Change
from sowline.changes.event import Event
from sowline.config.shard import WHOLE, Shard
from sowline.config.topics import parse_topics
from sowline.model.key import sow_key
from sowline.model.position import Position, before_the_log
from sowline.runtime.native import native_core
from sowline.serving.access.login_session import LoginSession
from sowline.serving.authorization.entitlements import EVERYTHING, Rights
from sowline.serving.authorization.identity import ANYBODY
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.result import QueryLimits
from sowline.serving.sessions.session import Session
from sowline_query_service.context import ServiceContext
from sowline_query_service.live.dispatcher import Dispatcher, WindowName
from sowline_query_service.live.window import LiveWindow
from sowline_query_service.replica.plain_run import EventAtOffset
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState
from tests.described import checked_message
from tests.property.clock import at_once
from tests.property.world import Written, written
from tests.sessions import session_of
from tests.waiting import loop_turns

DOMAIN = b"orders\0"
Json = dict[str, Any]


class WatchedOutbox(Outbox):
    """An outbox whose methods a test can replace: that of a service has slots, and no room for others."""


class WatchedDispatcher(Dispatcher):
    """A dispatcher that knows which windows get the changes."""

    def __init__(self) -> None:
        super().__init__()
        self.windows: list[LiveWindow] = []

    def add_window(self, topic: str, name: WindowName, window: LiveWindow) -> None:
        """Note a window."""
        self.windows.append(window)
        super().add_window(topic, name, window)

    def remove_window(self, topic: str, name: WindowName, window: LiveWindow) -> None:
        """Forget a window."""
        self.windows.remove(window)
        super().remove_window(topic, name, window)


class Server:
    """One topic `orders` of some partitions, and its changes topic, in memory."""

    def __init__(
        self,
        partitions: int = 1,
        ring: int = 1000,
        backlog: int = 1 << 20,
        limits: QueryLimits = QueryLimits(),
        more: str = "",
        definition: str = "",
        shard: Shard = WHOLE,
        history_bytes_max: int = 1 << 30,
    ) -> None:
        usual = f"{{name: orders, key: /id, partitions: {partitions}{more}}}"
        self.topics = parse_topics(f"topics: [{definition or usual}]")
        self.state = ServedTopics(
            self.topics, ring, shard=shard, history_bytes_max=history_bytes_max, native=native_core(None)
        )
        self.dispatcher = WatchedDispatcher()
        self.state.listen(self.dispatcher.on_changes)
        self.written: list[list[Written]] = [[] for _ in range(partitions)]
        self.last = [before_the_log()] * partitions
        self.bodies: dict[bytes, bytes] = {}
        self.limits = limits
        self._backlog = backlog
        self.read = 0

    @cached_property
    def context(self) -> ServiceContext:
        """What its clients share."""
        return ServiceContext(self.state, self.dispatcher, {}, self.limits)

    @property
    def topic(self) -> TopicState:
        """The state of `orders`."""
        return self.state.topics["orders"]

    def loaded(self) -> "Server":
        """Say that all partitions are loaded."""
        self.state.loaded([("orders.changes", number) for number in self.topic.partitions])
        return self

    def connect(
        self, rights: Rights = EVERYTHING, delegated: Rights | None = None, backlog: int | None = None
    ) -> "Client":
        """Return a new client; with `delegated`, a gateway that acts with these rights."""
        identity = replace(ANYBODY, own_rights=rights, delegated=delegated)
        outbox, visit = WatchedOutbox(self._backlog if backlog is None else backlog), LoginSession(identity)
        session = session_of(self.context, outbox, visit)
        return Client(self, session, outbox, is_gateway=delegated is not None)

    def put(
        self,
        body: Json | None,
        key: object = None,
        partition: int = 0,
        step: int = 1,
        correlation: str | None = None,
    ) -> Position:
        """Apply one change: a record's new body, or the end of the record named `key`."""
        sow = self.topic.definition.key_rule.sow_key(str(key if body is None else body["id"]))
        text = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        return self._put(sow, text, partition, step, correlation)

    def put_text(self, body: bytes) -> Position:
        """Apply one change: a record's new body, as it was written."""
        return self._put(sow_key(DOMAIN, str(json.loads(body)["id"])), body, 0, 1, None)

    def put_at(self, sow: bytes, body: Json) -> Position:
        """Apply one change: the new body of the record with this SOW key."""
        return self._put(sow, json.dumps(body, separators=(",", ":")).encode(), 0, 1, None)

    def _put(
        self, sow: bytes, text: bytes | None, partition: int, step: int, correlation: str | None
    ) -> Position:
        position = Position(0, self.last[partition].offset + step)
        op, reason = ("delete", "deleted") if text is None else ("publish", None)
        change = Change(
            sow,
            text,
            self.bodies.get(sow),
            position,
            self.last[partition],
            op,
            1000 + position.offset,
            True,
            reason,
            correlation=correlation,
        )
        if text is None:
            del self.bodies[sow]
        else:
            self.bodies[sow] = text
        self.take(change, partition)
        return position

    def take(self, event: Event, partition: int = 0) -> None:
        """Let an event arrive."""
        self.take_all([event], partition)

    def take_all(self, events: Sequence[Event], partition: int) -> None:
        """Let events arrive in one batch."""
        self.last[partition] = events[-1].position
        held = self.written[partition]
        placed = [EventAtOffset(offset, event) for offset, event in enumerate(events, len(held))]
        held += [written(offset, event) for offset, event in placed]
        self.state.take({("orders.changes", partition): placed})

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
        """Let clients that catch up read this server's changes topic, in the event loop."""
        reader = "sowline_query_service.subscriptions.catch_up.read_range"
        with patch(reader, self.read_range), patch("asyncio.to_thread", at_once):
            yield


class Client:
    """One connection: what it asks, and what it has been sent."""

    def __init__(self, server: Server, session: Session, outbox: Outbox, *, is_gateway: bool = False) -> None:
        self._server = server
        self._is_gateway = is_gateway
        self.session = session
        self.outbox = outbox
        self.received: list[Json] = []
        self._in_threads: list[asyncio.Future[None]] = []
        """Requests that take long to understand."""

    def ask(self, command: str, **fields: Any) -> None:
        """Send a command about `orders`."""
        request = {"command": command, "command_id": "1", "topic": "orders"} | fields
        text = json.dumps({k: v for k, v in request.items() if v is not None}).encode()
        if (in_thread := self.session.receive_one(text)) is not None:
            self._in_threads.append(asyncio.ensure_future(in_thread))

    async def read(self) -> list[Json]:
        """Return what is sent until nothing more comes by itself.

        All that a client is sent, other than a gateway, is as the protocol description has it.
        """
        await asyncio.gather(*self._in_threads)
        self._in_threads.clear()
        await settled()
        messages: list[Json] = []
        while taken := self.outbox.take_now():
            messages += map(json.loads, taken)
            await settled()
        self.received += messages if self._is_gateway else map(checked_message, messages)
        return messages


async def settled(turns: int = 100) -> None:
    """Let everything run that can run without new input."""
    await loop_turns(turns)


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
