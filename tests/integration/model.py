"""A plain model of a topic: what its log means, recomputed slowly, by code that has nothing to do with the core."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

from confluent_kafka import Message

from sowline.config.topic_definition import TopicDefinition
from sowline.model.key import partition_of
from tests.integration.services import headers_of

Body = dict[str, Any]
Position = tuple[int, int]
Test = Callable[[Body], bool]

FILTERS: Mapping[str, Test] = {
    "": lambda body: True,
    "1=1": lambda body: True,
    "/region = 'north'": lambda body: body.get("region") == "north",
    "/qty > 50": lambda body: body.get("qty", 0) > 50,
    "/region IN ('north','east') AND /qty <= 70": lambda body: (
        body.get("region") in ("north", "east") and body.get("qty", 101) <= 70
    ),
    "/more/level = 2 OR /qty < 10": lambda body: (
        body.get("more", {}).get("level") == 2 or body.get("qty", 10) < 10
    ),
    "/qty = 13": lambda body: body.get("qty") == 13,
}
"""Every filter that a test uses, and what it means."""


def first_position(origin: bytes) -> str:
    """Return where a forwarded record was first written, `<partition>@<offset>`: what follows the log's id."""
    return origin.decode().rpartition(":")[2]


class Step(NamedTuple):
    """What one change did to one record."""

    partition: int
    position: Position
    sow_key: str
    before: Body | None
    now: Body | None


class Sent(NamedTuple):
    """A live message, as a subscriber should get it."""

    position: Position
    command: str
    sow_key: str
    body: Body
    reason: str | None


@dataclass
class Model:
    """The changes that a log makes, and the forwards that it still lacks."""

    definition: TopicDefinition
    steps: list[Step] = field(default_factory=list)
    missing: set[tuple[int, str]] = field(default_factory=set)
    """(partition, origin) of each record that should have been forwarded and is not on the log."""

    @classmethod
    def of(cls, definition: TopicDefinition, log: list[Message]) -> "Model":
        """Replay a log, partition by partition."""
        model = cls(definition)
        present = {
            (m.partition(), first_position(headers_of(m)["sow.origin"]))
            for m in log
            if "sow.origin" in headers_of(m)
        }
        for partition in range(definition.partitions):
            model._replay(partition, [message for message in log if message.partition() == partition])
        model.missing -= present
        return model

    def _replay(self, partition: int, log: list[Message]) -> None:
        held = _Partition()
        for message in log:
            headers = headers_of(message)
            if "sow.origin" in headers:
                source, offset = map(int, first_position(headers["sow.origin"]).split("@"))
                if offset <= held.origins.get(source, -1):
                    continue
                held.origins[source] = offset
            self._apply(partition, message, headers, held)

    def _apply(self, partition: int, message: Message, headers: dict[str, bytes], held: "_Partition") -> None:
        offset = message.offset() or 0
        forwarded = "sow.origin" in headers
        if "sow.filter" in headers or "sow.keys" in headers:
            if not forwarded:
                others = set(range(self.definition.partitions)) - {partition}
                self.missing |= {(other, f"{partition}@{offset}") for other in others}
            keys = [key for key in held.selected(headers) if not held.is_repeat(key, headers)]
            for nth, key in enumerate(keys):
                self._step(partition, (offset, nth), key, headers, held, None)
            return
        body = json.loads(message.value() or b"null")
        text = str(body[self.definition.key_paths[0][0]])
        owner = partition_of(text, self.definition.partitions)
        if owner != partition:
            assert not forwarded, "a forwarded record is where it belongs"
            self.missing.add((owner, f"{partition}@{offset}"))
            return
        key = self.sow_key(text)
        if not held.is_repeat(key, headers):
            self._apply_to(partition, (offset, 0), key, headers, held, body)

    def _apply_to(
        self,
        partition: int,
        position: Position,
        key: str,
        headers: dict[str, bytes],
        held: "_Partition",
        body: Body,
    ) -> None:
        command = headers.get("sow.command", b"publish")
        if command == b"sow_delete":
            if key in held.records:
                self._step(partition, position, key, headers, held, None)
            return
        old = held.records.get(key) if command == b"delta_publish" else None
        self._step(partition, position, key, headers, held, body if old is None else _merged(old, body))

    def _step(
        self,
        partition: int,
        position: Position,
        key: str,
        headers: dict[str, bytes],
        held: "_Partition",
        now: Body | None,
    ) -> None:
        self.steps.append(Step(partition, position, key, held.records.get(key), now))
        if now is None:
            del held.records[key]
        else:
            held.records[key] = now
        if "sow.publisher" in headers:
            held.numbers[key, headers["sow.publisher"]] = _number(headers)

    def sow_key(self, text: str) -> str:
        """Return the SOW key of a key text."""
        digest = blake2b(f"{self.definition.declared.key_domain}\0{text}".encode(), digest_size=8).digest()
        return str(int.from_bytes(digest, "big"))

    def sow(self, filter: str = "", at: Mapping[int, Position] | None = None) -> dict[str, Body]:
        """Return the records that match, by SOW key, as they were at a bookmark, or as they are in the end."""
        records: dict[str, Body | None] = {}
        for step in self.steps:
            if at is None or step.position <= at.get(step.partition, (-1, 0)):
                records[step.sow_key] = step.now
        return {key: body for key, body in records.items() if body is not None and FILTERS[filter](body)}

    def messages(
        self, filter: str, oof: bool, after: Mapping[int, Position], to: Mapping[int, Position]
    ) -> dict[int, list[Sent]]:
        """Return what a subscriber must get between two bookmarks, by partition."""
        found: dict[int, list[Sent]] = {partition: [] for partition in range(self.definition.partitions)}
        for step in self.steps:
            if after.get(step.partition, (-1, 0)) < step.position <= to.get(step.partition, (-1, 0)):
                sent = _sent(step, FILTERS[filter], oof)
                found[step.partition] += [sent] if sent else []
        return found


@dataclass
class _Partition:
    """One partition during a replay; `numbers` are the highest that each publisher wrote each record with."""

    records: dict[str, Body] = field(default_factory=dict)
    origins: dict[int, int] = field(default_factory=dict)
    numbers: dict[tuple[str, bytes], tuple[int, ...]] = field(default_factory=dict)

    def is_repeat(self, key: str, headers: dict[str, bytes]) -> bool:
        """Tell whether the publisher has written the record with this number or a higher one already."""
        publisher = headers.get("sow.publisher")
        return publisher is not None and self.numbers.get((key, publisher), (0, 0)) >= _number(headers)

    def selected(self, headers: dict[str, bytes]) -> list[str]:
        """Return the SOW keys of the records that a delete selects, in its order."""
        if "sow.keys" in headers:
            asked = set(headers["sow.keys"].decode().split(","))
            return sorted(asked & self.records.keys())
        test = FILTERS[headers["sow.filter"].decode()]
        return sorted(key for key, body in self.records.items() if test(body))


def _number(headers: dict[str, bytes]) -> tuple[int, ...]:
    row, _, part = headers["sow.sequence"].partition(b".")
    return int(row), int(part or 0)


def _sent(step: Step, test: Test, oof: bool) -> Sent | None:
    if step.now is not None and test(step.now):
        return Sent(step.position, "publish", step.sow_key, step.now, None)
    if not oof or step.before is None or not test(step.before):
        return None
    if step.now is not None:
        return Sent(step.position, "oof", step.sow_key, step.now, "match")
    return Sent(step.position, "oof", step.sow_key, step.before, "deleted")


def _merged(old: Body, delta: Body) -> Body:
    merged = dict(old)
    for name, value in delta.items():
        both = isinstance(value, dict) and isinstance(old.get(name), dict)
        merged[name] = _merged(old[name], value) if both else value
    return merged


def group_hash(keys: Mapping[str, object]) -> str:
    """Return the hash that `group_end` has for these SOW keys."""
    total = 0
    for key in keys:
        total ^= int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big")
    return f"{total:016x}"
