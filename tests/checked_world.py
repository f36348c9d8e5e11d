"""A small perfect system, which writes the history that a checker of it would: what its judge must find sound."""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Literal

from msgspec import structs

from sowline.check.history import (
    CheckedTopic,
    DeltaParts,
    Event,
    HistoryBegin,
    MessageRead,
    ReadEnded,
    ReadOpened,
    TotalsOf,
    WriteAnswered,
    WriteSent,
)

Body = dict[str, Any]
Command = Literal["sow", "subscribe", "sow_and_subscribe", "delta_subscribe", "sow_and_delta_subscribe"]

TOPIC, VIEW, PARTITIONS = "orders", "totals", 2
TOTALS = TotalsOf(TOPIC, "status", "records", "qty", "qty")
FILTERS: Mapping[str, Callable[[Body], bool]] = {
    "": lambda body: True,
    "/status = 'open'": lambda body: body["status"] == "open",
    "/qty > 50": lambda body: body["qty"] > 50,
    "/status = 'late' AND /qty <= 60": lambda body: body["status"] == "late" and body["qty"] <= 60,
}


@dataclass(frozen=True)
class WorldChange:
    """A record's step; `write` is empty for an expiry."""

    partition: int
    position: str
    key: str
    before: Body | None
    after: Body | None
    write: str
    time: float

    @property
    def bookmark(self) -> str:
        """The bookmark of a message about it."""
        return f"{TOPIC}:{self.partition}@{self.position}"

    @property
    def order(self) -> tuple[int, int]:
        """Where it comes in its partition."""
        offset, _, index = self.position.partition(".")
        return int(offset), int(index or 0)


@dataclass
class WorldReader:
    """A subscription, and the conflated changes that it has not received yet."""

    opened: ReadOpened
    waiting: dict[str, WorldChange] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    result: dict[str, Body] = field(default_factory=dict)
    """What a reader of groups or of a live page holds."""


class CheckedWorld:
    """A topic, a view of it, and their readers; every method appends to `events`."""

    def __init__(self, seed: int = 0) -> None:
        self.dice = random.Random(seed)
        self.events: list[Event] = []
        self.state: dict[str, Body] = {}
        self.updated: dict[str, str] = {}
        self.due: dict[str, float] = {}
        self.changes: list[WorldChange] = []
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self.reached = dict.fromkeys(range(PARTITIONS), "0")
        self.time = 1_800_000_000.0
        self.readers: dict[str, WorldReader] = {}
        self.view_position = 0
        self._numbers = 0
        self._own_effect = self.bookmark
        self._last_read = self.bookmark
        topics = (CheckedTopic(TOPIC, self.bookmark), CheckedTopic(VIEW, "", "status", TOTALS))
        self.events.append(HistoryBegin(topics, 600.0))

    @property
    def at(self) -> float:
        """The next moment of the history."""
        return float(len(self.events))

    @property
    def bookmark(self) -> str:
        """The end of the topic."""
        return f"{TOPIC}:{','.join(f'{number}@{end}' for number, end in sorted(self.reached.items()))}"

    def number(self) -> int:
        """Return the next number of a write or a read."""
        self._numbers += 1
        return self._numbers

    # writes

    def write(
        self, command: Literal["publish", "delta_publish", "sow_delete"], data: Body, lifetime: float = 0
    ) -> None:
        """Write to one record."""
        id, key = f"w{self.number()}", str(data["id"])
        partition = int(key) % PARTITIONS
        self.events.append(WriteSent(id, TOPIC, command, f"writer{partition}", self.at, data, "", lifetime))
        before = self.state.get(key)
        after = None if command == "sow_delete" else data if command == "publish" else (before or {}) | data
        position = str(self.next_offset(partition))
        if before is not None or after is not None:
            self.change(WorldChange(partition, position, key, before, after, id, self.time))
            self.due.pop(key, None)
            if lifetime and after is not None:
                self.due[key] = self.time + lifetime
        where = f"{TOPIC}:{partition}@{position}"
        self.answer(id, where, int(before is not None) if command == "sow_delete" else None, where)

    def delete(self, filter: str) -> None:
        """Delete all records that match."""
        id = f"w{self.number()}"
        self.events.append(WriteSent(id, TOPIC, "sow_delete", "deleter", self.at, None, filter))
        gone = {key: body for key, body in self.state.items() if FILTERS[filter](body)}
        for partition in range(PARTITIONS):
            offset = self.next_offset(partition)
            keys = [key for key in sorted(gone) if int(key) % PARTITIONS == partition]
            for index, key in enumerate(keys):
                position = f"{offset}.{index}" if index else str(offset)
                self.change(WorldChange(partition, position, key, gone[key], None, id, self.time))
        self.answer(id, "", len(gone), self.bookmark)

    def write_delta(self, key: str, status: str, condition: str = "") -> None:
        """Change a record and a set of it, if it has the status of a condition."""
        id, partition, before = f"w{self.number()}", int(key) % PARTITIONS, self.state.get(key)
        delta = DeltaParts(
            {"id": key, "status": status, "n": self.number()},
            ("note",),
            {"tags": (id[-1],)},
            {"status": condition} if condition else None,
        )
        sent = WriteSent(id, TOPIC, "delta", "changer", self.at, {"id": key}, delta=delta)
        self.events.append(sent)
        position, after, outcome = str(self.next_offset(partition)), before, "condition_false"
        if before is not None and condition in ("", before["status"]):
            after = before | delta.fields
            after.pop("note", None)
            after["tags"] = sorted({*after.get("tags", []), id[-1]})
            outcome = "applied"
        if after is not None:
            self.change(WorldChange(partition, position, key, before, after, id, self.time))
            self.due.pop(key, None)
        where = f"{TOPIC}:{partition}@{position}"
        self.answer(id, where, None, where, outcome)

    def answer(self, id: str, position: str, deleted: int | None, effect: str, outcome: str = "") -> None:
        """Answer a write."""
        self._own_effect = self.bookmark
        self.events.append(
            WriteAnswered(id, "acknowledged", self.at, position, effect, deleted, outcome=outcome)
        )

    def expire(self) -> None:
        """Remove what is due."""
        for key in [key for key, due in self.due.items() if due <= self.time]:
            del self.due[key]
            if key in self.state:
                partition = int(key) % PARTITIONS
                position = str(self.next_offset(partition))
                self.change(WorldChange(partition, position, key, self.state[key], None, "", self.time))

    def next_offset(self, partition: int) -> int:
        """Append to the log of a partition."""
        self.ends[partition] += 1
        self.reached[partition] = str(self.ends[partition])
        return self.ends[partition]

    def change(self, change: WorldChange) -> None:
        """Take a step, and send it to all subscriptions."""
        before = self.bookmark
        self.changes.append(change)
        self.reached[change.partition] = change.position
        if change.after is None:
            del self.state[change.key]
        else:
            self.state[change.key] = change.after
        self.updated[change.key] = change.bookmark
        for reader in self.readers.values():
            if reader.opened.is_computed:
                self.send_step(reader, before)
            elif reader.opened.topic == TOPIC:
                self.send(reader, change)
        self.send_totals(change)

    # reads

    def open(self, command: Command, filter: str = "", *, topic: str = TOPIC, **about: Any) -> str:
        """Open a subscription, or run a query; return its name."""
        read = f"r{self.number()}"
        begins = {} if command.startswith("sow") or "bookmark" in about else {"bookmark": self.bookmark}
        opened = ReadOpened(read, command, topic, self.at, filter, **{**begins, **about})
        self.events.append(opened)
        reader = WorldReader(opened)
        if command.startswith("sow"):
            self.send_group(reader)
        if command == "sow":
            self.events.append(ReadEnded(read, self.at, self.bookmark))
        else:
            self.readers[read] = reader
        return read

    def resume(self, read: str, up_to: str = "") -> None:
        """End a subscription somewhere, and go on from there in another."""
        opened, held = self.readers[read].opened, self.readers[read].result
        reached = self.bookmark
        self.end(read)
        self.churn(3)
        if opened.is_computed:
            again = structs.replace(
                opened, read=f"r{self.number()}", at=self.at, bookmark=reached, resumed=True
            )
            self.events.append(again)
            reader = self.readers[again.read] = WorldReader(again, result=held)
            self.send_step(reader, reached)
            return
        command: Command = "delta_subscribe" if "delta" in opened.command else "subscribe"
        new = self.open(command, opened.filter, oof=opened.oof, bookmark=reached, resumed=True, up_to=up_to)
        skipped = dict(part.split("@") for part in reached.partition(":")[2].split(","))
        for change in self.changes:
            if change.order > (int(skipped[str(change.partition)].partition(".")[0]), 1_000):
                self.send(self.readers[new], change)

    def end(self, read: str) -> None:
        """Leave a subscription; nothing of it is on its way."""
        self.flush(self.readers[read])
        self.events.append(ReadEnded(read, self.at, self.bookmark))
        del self.readers[read]

    def send_group(self, reader: WorldReader) -> None:
        """Send the records that match."""
        opened, read = reader.opened, reader.opened.read
        is_view = opened.topic == VIEW
        bookmark = f"{VIEW}.partials:0@{self.view_position}" if is_view else self.bookmark
        self.events.append(MessageRead(read, "group_begin", self.at, bookmark))
        matching = reader.result = self.totals(self.state.values()) if is_view else self.result(opened)
        for key, body in matching.items():
            updated = self.updated.get(key, "")
            sow_key = self.sow_key(key)
            self.events.append(MessageRead(read, "sow", self.at, "", sow_key, body, updated_at=updated))
        count, hash = len(matching), self.hash(matching)
        self.events.append(MessageRead(read, "group_end", self.at, bookmark, records=count, hash=hash))
        reader.held = set(matching)

    def result(self, opened: ReadOpened) -> dict[str, Body]:
        """Return what a query would find now."""
        matching = {key: body for key, body in self.state.items() if FILTERS[opened.filter](body)}
        if opened.groups is not None:
            return self.totals(matching.values())
        if not opened.order_by:
            return matching
        ordered = sorted(matching, key=lambda key: (-matching[key]["qty"], key))
        last = opened.skip_n + (opened.top_n or len(ordered))
        return {key: matching[key] for key in ordered[opened.skip_n : last]}

    def send_step(self, reader: WorldReader, before: str) -> None:
        """Send what a change makes of groups or of a live page: the last message has the bookmark after it."""
        held, reader.result = reader.result, self.result(reader.opened)
        gone = {key: body for key, body in held.items() if key not in reader.result}
        new = {key: body for key, body in reader.result.items() if held.get(key) != body}
        bodies = [*gone.items(), *new.items()]
        for number, (key, body) in enumerate(bodies, 1):
            more = number < len(bodies)
            command: Literal["publish", "oof"] = "oof" if number <= len(gone) else "publish"
            bookmark, sow_key = before if more else self.bookmark, self.sow_key(key)
            read = reader.opened.read
            self.events.append(MessageRead(read, command, self.at, bookmark, sow_key, body, more=more))

    def send(self, reader: WorldReader, change: WorldChange) -> None:
        """Send a change to a subscription, if it concerns it."""
        if reader.opened.conflated:
            reader.waiting[change.key] = change
            return
        opened, matches = reader.opened, FILTERS[reader.opened.filter]
        was, is_now = (body is not None and matches(body) for body in (change.before, change.after))
        if is_now and was and "delta" in opened.command:
            self.events.append(self.delta(opened.read, change))
        elif is_now:
            self.events.append(self.message(opened.read, "publish", change, change.after))
        elif was and opened.oof:
            body = change.before if change.after is None else change.after
            self.events.append(self.message(opened.read, "oof", change, body))

    def delta(self, read: str, change: WorldChange) -> MessageRead:
        """Return the message with the changed fields."""
        before, after = change.before or {}, change.after or {}
        data = {name: value for name, value in after.items() if name == "id" or before.get(name) != value}
        removed = tuple(f"/{name}" for name in before if name not in after)
        about = self.about(change)
        return MessageRead(
            read, "publish", self.at, change.bookmark, data=data, delta=True, removed=removed, **about
        )

    def message(
        self, read: str, command: Literal["publish", "oof"], change: WorldChange, body: Body | None
    ) -> MessageRead:
        """Return the message with a whole record."""
        reason = ""
        if command == "oof":
            reason = "match" if change.after is not None else "deleted" if change.write else "expired"
        return MessageRead(
            read, command, self.at, change.bookmark, data=body, reason=reason, **self.about(change)
        )

    def about(self, change: WorldChange) -> dict[str, Any]:
        """Return what every message about a change has."""
        return {
            "sow_key": self.sow_key(change.key),
            "correlation_id": change.write,
            "timestamp": datetime.fromtimestamp(change.time, UTC).isoformat(),
        }

    def flush(self, reader: WorldReader) -> None:
        """Send what a conflated subscription waits for."""
        for change in reader.waiting.values():
            read, matches = reader.opened.read, FILTERS[reader.opened.filter]
            if change.after is not None and matches(change.after):
                self.events.append(self.message(read, "publish", change, change.after))
                reader.held.add(change.key)
            elif change.key in reader.held:
                self.events.append(self.message(read, "oof", change, change.after or change.before))
                reader.held.remove(change.key)
        reader.waiting.clear()

    def prove(self, read: str) -> None:
        """Send the checksum of what a subscriber should hold."""
        reader = self.readers[read]
        self.flush(reader)
        is_view = reader.opened.topic == VIEW
        matching = self.totals(self.state.values()) if is_view else self.result(reader.opened)
        bookmark = f"{VIEW}.partials:0@{self.view_position}" if is_view else self.bookmark
        count, hash = len(matching), self.hash(matching)
        self.events.append(MessageRead(read, "progress", self.at, bookmark, records=count, hash=hash))

    # the view

    def totals(self, records: Iterable[Body]) -> dict[str, Body]:
        """Return the records of the view of some records, which are the results of their groups too."""
        found: dict[str, Body] = {}
        for body in records:
            total = found.setdefault(body["status"], {"status": body["status"], "records": 0, "qty": 0})
            total["records"] += 1
            total["qty"] += body["qty"]
        return found

    def send_totals(self, change: WorldChange) -> None:
        """Send the groups that a change concerns to the subscriptions of the view."""
        groups = {body["status"] for body in (change.before, change.after) if body is not None}
        for status in sorted(groups):
            self.view_position += 1
            body = self.totals(self.state.values()).get(status)
            for reader in self.readers.values():
                if reader.opened.topic == VIEW:
                    command: Literal["publish", "oof"] = "oof" if body is None else "publish"
                    bookmark = f"{VIEW}.partials:0@{self.view_position}"
                    data = body or {"status": status}
                    self.events.append(MessageRead(reader.opened.read, command, self.at, bookmark, data=data))

    def sow_key(self, key: str) -> str:
        """Return the SOW key of a key."""
        return str(1_000 + int(key)) if key.isdecimal() else f'["{key}"]'

    def hash(self, keys: Any) -> str:
        """Return the checksum of keys."""
        combined = 0
        for key in keys:
            combined ^= int(blake2b(self.sow_key(key).encode(), digest_size=8).hexdigest(), 16)
        return f"{combined:016x}"

    # a life

    def churn(self, count: int) -> None:
        """Write at random."""
        for _ in range(count):
            kind, self.time = self.dice.random(), self.time + 0.5
            self.expire()
            body: Body = {"id": str(self.dice.randrange(8)), "n": self.number()}
            whole = body | {"status": self.dice.choice(("open", "late")), "qty": self.dice.randrange(100)}
            if self.dice.random() < 0.5:
                whole["note"] = "x"
            if kind < 0.5 or body["id"] not in self.state:
                self.write("publish", whole, self.dice.choice((0, 0, 1, 4)))
            elif kind < 0.6:
                self.write_delta(body["id"], "open", self.dice.choice(("", "open", "late")))
            elif kind < 0.8:
                self.write("delta_publish", body | {"qty": self.dice.randrange(100)})
            elif kind < 0.95:
                self.write("sow_delete", {"id": body["id"]})
            else:
                self.delete("/status = 'late' AND /qty <= 60")

    def query(self) -> None:
        """Run queries with each promise, and one of the view."""
        self.open("sow", "/qty > 50", at_least=self._own_effect, promise="read_your_writes")
        self.open("sow", "", at_least=self._last_read, promise="monotonic_reads")
        self.open("sow", "", order_by="/qty DESC, /id", skip_n=1, top_n=3)
        self.open("sow", "/qty > 50", groups=TOTALS)
        self._last_read = self.bookmark
        self.open("sow", topic=VIEW, reflects=self.bookmark)
        for read, reader in self.readers.items():
            if reader.opened.topic == VIEW:
                self.prove(read)

    def live(self, rounds: int = 6) -> list[Event]:
        """Live a whole life, and return its history."""
        self.open("subscribe", oof=True)
        reads = [
            self.open("sow_and_subscribe", "/status = 'open'", oof=True),
            self.open("sow_and_delta_subscribe", "/qty > 50", oof=True),
            self.open("delta_subscribe", oof=True),
        ]
        self.open("sow_and_subscribe", "/qty > 50", oof=True, conflated=True)
        self.open("sow_and_subscribe", topic=VIEW, oof=True)
        self.open("sow_and_subscribe", "/qty > 50", oof=True, groups=TOTALS)
        reads.append(self.open("sow_and_subscribe", oof=True, order_by="/qty DESC, /id", skip_n=1, top_n=3))
        self.open("delta_subscribe", "/qty > 50", oof=True, fanout="large")
        self.open("subscribe", oof=True, fanout="all")
        for number in range(rounds):
            self.churn(12)
            self.query()
            for read, reader in list(self.readers.items()):
                if reader.opened.topic == TOPIC and not reader.opened.fanout:
                    self.prove(read)
            if number < len(reads):
                self.resume(reads[number])
        for read in list(self.readers):
            self.end(read)
        return self.events
