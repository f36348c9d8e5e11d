"""Connections with several subscriptions, whose messages may be for all of them."""

import json
from collections import defaultdict, deque
from typing import Any

from tests.property.asks import MINE, Ask, selected
from tests.property.recorded_service import Service
from tests.property.subscribers import Subscriber
from tests.unit.query_service.sessions import Json


class Connection:
    """A client with its subscriptions."""

    def __init__(self, service: Service, whose: str) -> None:
        self.service = service
        self.whose = whose
        self.client = service.connect(MINE[whose].rights)
        self.subscribers: dict[str, Subscriber] = {}
        self.requests: dict[str, tuple[Subscriber, Ask | None, str]] = {}
        """By command id: who asked for what, and whether fresh, replace, back, halt, end, or to be refused why."""
        self.sent: dict[bytes, deque[float]] = defaultdict(deque)
        """By message: when the service had it ready."""
        self.group = ""
        """The query whose group has begun and not ended."""
        self.is_calm = True
        """Whether no subscription ever had to catch up: then messages are shared."""
        self.shared: set[tuple[str, str, str]] = set()
        self.reasons: list[str] = []
        """Why records left."""
        for name in ("put", "put_behind", "put_in_group"):
            self._note_times(name)
        self._note_times_of_all()

    def _note_times(self, name: str) -> None:
        """Note when the service puts a message, which may have to wait for the end of a group."""
        put = getattr(self.client.outbox, name)

        def noted(message: bytes, *of: Any) -> None:
            self.sent[message].append(self.service.loop.time())
            put(message, *of)

        setattr(self.client.outbox, name, noted)

    def _note_times_of_all(self) -> None:
        outbox = self.client.outbox
        put_all = outbox.put_all_behind

        def noted(messages: list[bytes], of: Any) -> None:
            for message in messages:
                self.sent[message].append(self.service.loop.time())
            put_all(messages, of)

        outbox.put_all_behind = noted  # type: ignore[method-assign]

    def ask(self, subscriber: Subscriber, ask: Ask | None, kind: str, fields: Json) -> None:
        """Send a command."""
        command_id = f"c{len(self.requests)}"
        self.requests[command_id] = subscriber, ask, kind
        self.client.ask(
            **{"command_id": command_id, "ack_type": "processed", "sub_id": subscriber.sid, **fields}
        )

    async def read(self) -> None:
        """Take everything that comes by itself."""
        await self.service.loop.rest()
        while self._take_some():
            await self.service.loop.rest()

    async def sip(self) -> None:
        """Take one frame, if there is one."""
        self._take_some()

    def _take_some(self) -> bool:
        """Take one frame; return whether there is one."""
        taken = self.client.outbox.take_now()
        for message in taken:
            self.take(json.loads(message), self.sent[message].popleft())
        return bool(taken)

    def take(self, message: Json, sent: float) -> None:
        """Take one message, and when it was put."""
        command = message["command"]
        self._check_group(message)
        for part in (message, *message.get("records", ())) if command != "group_end" else ():
            data = part.get("data", {})
            assert data == selected(data, MINE[self.whose].paths), "tells what may not be seen"
        if command == "ack":
            self._acknowledged(message)
        elif command in ("publish", "oof"):
            self._check_shared(message)
            self.reasons += [message["reason"]] if command == "oof" else []
            for sid in message["sids"]:
                self.subscribers[sid].take(message, sent)
        else:
            subscriber, _, _ = self.requests[message["query_id"]]
            if command == "sow":
                subscriber.records(message)
            else:
                getattr(subscriber, command)(message)

    def _check_group(self, message: Json) -> None:
        """Between the begin and the end of a group nothing comes but its records, and acknowledgements."""
        command = message["command"]
        if command in ("sow", "group_end"):
            assert self.group == message["query_id"], "a part of another group"
            self.group = "" if command == "group_end" else self.group
        elif command != "ack":
            assert not self.group or self._is_broken_off(self.group), "a message within a group"
            self.group = message["query_id"] if command == "group_begin" else ""

    def _is_broken_off(self, query: str) -> bool:
        """Whether its subscription was ended or replaced since."""
        owner = self.requests[query][0]
        later = list(self.requests)[list(self.requests).index(query) + 1 :]
        since = [self.requests[id] for id in later]
        return any(subscriber is owner and kind in ("end", "replace") for subscriber, _, kind in since)

    def _acknowledged(self, message: Json) -> None:
        subscriber, ask, kind = self.requests[message["command_id"]]
        if message["status"] == "failure":
            if message["reason"] == "replaced":
                assert "sub_id" not in message
            elif kind == "back" and message["reason"] == "bookmark_expired":
                subscriber.is_dead = True
                del self.subscribers[subscriber.sid]
            else:
                assert message["reason"] == kind, message
        elif kind == "end":
            del self.subscribers[subscriber.sid]
        elif kind != "halt":
            assert ask is not None
            assert message["sub_id"] == subscriber.sid
            subscriber.acknowledged(ask, message, kind)

    def _check_shared(self, message: Json) -> None:
        asks = [self.subscribers[sid].holding.ask for sid in message["sids"]]
        assert len(set(message["sids"])) == len(asks)
        if asks[0].is_window or asks[0].conflation:
            assert len(asks) == 1
        elif self.is_calm and all(self.subscribers[sid].turned_from is None for sid in message["sids"]):
            identity = message["command"], message.get("sow_key", ""), message["bookmark"]
            assert identity not in self.shared, "the same message twice"
            self.shared.add(identity)
