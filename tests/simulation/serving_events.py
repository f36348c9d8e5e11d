"""The events of query services, gateways and clients as lines: the models of what clients are sent replay them."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from sowline.changes.change import AGAIN, Change
from sowline.changes.event import read_event
from sowline.model.bookmark import PositionsByLog, parse_bookmark
from sowline.model.position import Position
from tests.property.model import Effect
from tests.simulation.broker import Written
from tests.simulation.subscriber import Wish
from tests.simulation.truth import Truth

Line = dict[str, Any]


OF_SERVICES = frozenset({"apply", "loaded", "start", "look", "stop", "follow", "pass", "end"})
"""The events that are about no client."""


class SentMessage(Protocol):
    """A message, as a client or a gateway has it."""

    command: str

    @property
    def sow_key(self) -> str | None:
        """The key of its record."""

    @property
    def bookmark(self) -> str | None:
        """The bookmark after it."""


class ServingLines:
    """Turns events into lines. Clients other than those with these wishes are left out."""

    def __init__(self, truth: Truth, wishes: Mapping[str, Wish]) -> None:
        self._wishes = wishes
        self._log, self._changes = truth.definition.log, truth.definition.changes
        numbers = range(truth.definition.partitions)
        self._effects: dict[tuple[int, int, int], Effect] = {}
        self._partitions: dict[str, int] = {}
        for number in numbers:
            for effect in truth.model(number).effects:
                self._effects[number, *effect.position] = effect
                self._partitions[truth.key(effect.key).hex()] = number
        self._newest = dict.fromkeys(numbers, Position(0, -1))
        self._connected: dict[int, str] = {}
        """The client of each outbox that has a connection: a gateway may end later what it had for an earlier one."""
        self._streams: dict[int, int] = {}

    def line(self, event: Line) -> Line | None:
        """Return the line of an event; None if the models do not have it."""
        kind = event["event"]
        if kind == "written":
            return self._written(event["written"])
        if kind == "subscribe":
            return self._subscribed(event)
        by = self._connected.get(id(event["outbox"]), "") if "outbox" in event else event.get("by", "")
        if kind not in OF_SERVICES and by not in self._wishes:
            return None
        if kind == "disconnect":
            self._connected = {outbox: by for outbox, by in self._connected.items() if by != event["by"]}
        line = {name: self._translated(name, of) for name, of in event.items() if name != "outbox"}
        return line | {"by": by} if by else line

    def _written(self, written: Written) -> Line | None:
        """Return the line of a change, which may be in the topic more than once."""
        topic, number = written.partition_id
        if topic != self._changes:
            return None
        event = read_event(written.name or b"", written.body, written.about)
        if not isinstance(event, Change) or event.op == AGAIN or event.position <= self._newest[number]:
            return None
        self._newest[number] = event.position
        effect = self._effects[number, event.position.offset, event.position.nth]
        wishes = self._wishes.items()
        return {
            "event": "change",
            "partition": number,
            "position": list(event.position),
            "key": event.sow_key.hex(),
            "body": _text(effect.now),
            "matches": [name for name, wish in wishes if wish.matches(effect.now, effect.account)],
            "due": [name for name, wish in wishes if wish.is_sent(effect) is not None],
        }

    def _subscribed(self, event: Line) -> Line | None:
        by, ask = event["by"], event["ask"]
        if by not in self._wishes:
            return None
        self._connected[id(event["outbox"])] = by
        bookmark = self._positions(ask.bookmark) if ask.has_no_group else None
        return {"event": "subscribe", "by": by, "to": event["to"], "bookmark": bookmark}

    def _translated(self, name: str, value: Any) -> Any:
        """Return a field as a line has it."""
        match name:
            case "position":
                return list(value)
            case "bookmark":
                return self._positions(value)
            case "message":
                return self._message(value)
            case "stream":
                return self._streams.setdefault(id(value), len(self._streams))
            case "to":
                return node_of(value)
            case "parts":
                return [(node_of(url), self._positions(positions)) for url, positions in value]
            case _:
                return value

    def _message(self, message: SentMessage) -> Line:
        key = (message.sow_key or "").encode().hex()
        match message.command:
            case "sow":
                body = _text(message.data)  # type: ignore[attr-defined]
                return {"command": "sow", "partition": self._partitions[key], "key": key, "body": body}
            case "publish" | "oof":
                ((number, position),) = self._positions(message.bookmark or "")
                return {"command": message.command, "partition": number, "position": position, "key": key}
            case "group_begin":
                return {"command": "group_begin"}
            case "group_end":
                return {"command": "group_end", "bookmark": self._positions(message.bookmark or "")}
            case _:
                return {"command": "progress", "bookmark": self._positions(message.bookmark or "")}

    def _positions(self, bookmark: str | PositionsByLog) -> list[tuple[int, list[int]]]:
        if isinstance(bookmark, str):
            bookmark = {} if bookmark == "epoch" else parse_bookmark(bookmark)
        return [(number, list(position)) for number, position in bookmark.get(self._log, {}).items()]


def node_of(url: str) -> str:
    """Return the name of the query service with a URL."""
    return url.removeprefix("http://").removesuffix(":8080")


def wishes_of(subscribers: Iterable[Any], kind: type[Any], *, has_oof: bool) -> dict[str, Wish]:
    """Return the wishes of clients that are sent each change; with `has_oof`, also what leaves."""
    return {
        one.name: one.wish
        for one in subscribers
        if type(one) is kind
        and not one.wish.conflation
        and (not has_oof or (one.wish.oof and not one.wish.no_redundant))
    }


def _text(body: Any) -> str:
    return json.dumps(body, sort_keys=True)
