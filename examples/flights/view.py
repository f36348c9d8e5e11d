"""A subscriber's view of a topic, and whether it is correct."""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from examples.flights.data import key_text
from sowline import Message

STALL_S = 10.0
"""Where no change came for longer although one had been written, that is a stall."""


class View:
    """The records of a subscriber of everything: the body of every record, by SOW key.

    `latencies_ms` has, for each change, the time from its command's append to the log to its arrival here. `came_s`
    is when the last change arrived, `written_s` when the newest command whose change arrived was written, both in
    seconds since 1970. `stalls` has the times, each with its beginning and its end, in which nothing came for long
    although a command was on its way, as the age of the next change shows: at night, nothing is written.
    """

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.changes = 0
        self.oofs = 0
        self.complete = False
        self.came_s: float | None = None
        self.written_s = 0.0
        self.stalls: list[tuple[float, float]] = []
        self.latencies_ms = array("d")

    def take(self, message: Message, now_s: float) -> None:
        """Apply a message that arrived at a time (seconds since 1970)."""
        key = message.sow_key or ""
        if message.command == "group_begin":  # the whole follows, also after a lost connection
            self.bodies.clear()
        elif message.command == "group_end":
            self.complete = True
        elif message.command == "sow":
            self.bodies[key] = message.body
        else:
            self.changes += 1
            before_s, self.came_s = self.came_s, now_s
            if message.timestamp:
                written_s = datetime.fromisoformat(message.timestamp).timestamp()
                self.written_s = max(self.written_s, written_s)
                self.latencies_ms.append((now_s - written_s) * 1000)
                since_s = max(before_s or written_s, written_s)
                if now_s - since_s > STALL_S:
                    self.stalls.append((since_s, now_s))
            if message.command == "oof":
                self.oofs += 1
                self.bodies.pop(key, None)
            else:
                self.bodies[key] = message.body


class Differences(NamedTuple):
    """How records differ from those expected; each a list of key texts."""

    missing: list[str]
    unexpected: list[str]
    other: list[str]

    def sentence(self, name: str) -> str | None:
        """Return what was lost, or None if nothing was."""
        named = zip(("missing", "there and should not be", "different"), self, strict=True)
        parts = [f"{len(keys):,} {what} (such as {keys[0]})" for what, keys in named if keys]
        return f"{name} differs from a recomputation: {'; '.join(parts)}" if parts else None


def flight_text(record: dict[str, Any]) -> str:
    """Return the key text of a flight's record."""
    return key_text(record["carrier"], record["flight"], record["time_hour"])


def differences(
    expected: Mapping[str, dict[str, Any]],
    bodies: Iterable[bytes],
    text_of: Callable[[dict[str, Any]], str] = flight_text,
) -> Differences:
    """Compare the bodies of records with those expected by key text."""
    unseen = set(expected)
    unexpected, other = [], []
    for body in bodies:
        record = orjson.loads(body)
        key = text_of(record)
        if key not in unseen:
            unexpected.append(key)
        elif record != expected[key]:
            other.append(key)
        unseen.discard(key)
    return Differences(sorted(unseen), unexpected, other)


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the value below which a share (0 to 1) of the values lies, None if there are none."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else None
