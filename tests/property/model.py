"""The perfect model: what a partition's log means, with a dict per record and nothing clever.

Written from the contract, not from the core: bodies are parsed with the standard library, filters are Python
functions, every step copies what it needs.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from sowline.commands.command import LogRecord
from sowline.model.key import partition_of, sow_key

Body = dict[str, Any]
RecordPosition = tuple[int, int]

FILTERS: dict[str, Callable[[Body], bool]] = {
    "1=1": lambda body: True,
    "/q > 5": lambda body: body.get("q", 0) > 5,
    "/q IN (1,2,3)": lambda body: body.get("q") in (1, 2, 3),
    "/more/a = 1 OR /q = 9": lambda body: body.get("more", {}).get("a") == 1 or body.get("q") == 9,
    "/r = 'n' AND NOT /q < 4": lambda body: body.get("r") == "n" and "q" in body and not body["q"] < 4,
}
"""Every filter that is used, and what it means."""

COMMANDS = {"publish", "delta_publish", "delta", "sow_delete", "expire", "define"}
HEADERS = {"command", "publisher", "sequence", "filter", "keys", "origin", "expiration", "guard"}
HEADERS |= {"tags", "change_id", "origin_time"}
PUBLISHERS_MAX = 8
TAG_CHARACTERS_MAX = 100


@dataclass
class Kept:
    """What is kept of a record: its body, None once it is deleted, and each publisher's (sequence, time).

    `position` is its last update's, and `due` the time that this update set.
    """

    body: Body | None
    numbers: dict[str, tuple[RecordPosition, int]]
    position: RecordPosition = (-1, 0)
    due: int | None = None


class Account(NamedTuple):
    """What is known of a document's writes up to one of them; the last four are of that one."""

    version: int
    signature: str
    first: int
    last: int
    mutated: int
    tags: tuple[str, ...]
    change_id: str
    redundant: bool
    hidden: Any
    """The fields of its own that a document does not read with."""


@dataclass
class Effect:
    """What one log record did to one record; of a document also what is known of its writes, and the outcome."""

    position: RecordPosition
    key: str
    before: Body | None
    now: Body | None
    account_before: Account | None = None
    account: Account | None = None
    outcome: str | None = None
    is_write: bool = True
    """Whether a command for records made it, and not another template of documents."""


class Refused(Exception):
    """The log record can't be applied; the text is the reason's code."""


@dataclass
class PartitionModel:
    """The records of one partition after each of its log records, and all that happened on the way."""

    number: int
    partitions: int
    domain: bytes
    bytes_max: int
    window: int
    expiration: str | int = "disabled"
    records_max: int | None = None
    kept: dict[str, Kept] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    dead: list[tuple[int, str]] = field(default_factory=list)
    forwards: dict[tuple[int, int], LogRecord] = field(default_factory=dict)
    states: dict[int, dict[str, Body]] = field(default_factory=dict)
    time: int = 0
    log_id: str = "log"
    foreign: set[int] = field(default_factory=set)
    seen: set[tuple[int, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        """The state before the log is empty."""
        self.states[-1] = {}

    def replay(self, log: Iterable[LogRecord]) -> None:
        """Apply a whole log."""
        for record in log:
            self.time = max(self.time, record.time)
            try:
                self._apply(record)
            except Refused as refusal:
                self.dead.append((record.offset, str(refusal)))
            self._keep_state(record.offset)

    def _keep_state(self, offset: int) -> None:
        self.states[offset] = self.live

    @property
    def live(self) -> dict[str, Body]:
        """The records that are there, by key text."""
        return {key: kept.body for key, kept in self.kept.items() if kept.body is not None}

    def _apply(self, record: LogRecord) -> None:
        headers = {name: (value or b"").decode() for name, value in record.headers or []}
        command = self._command(headers)
        origin = headers.get("sow.origin")
        if origin is not None:
            log_id, _, first = origin.partition(":")
            if log_id != self.log_id:
                self.foreign.add(record.offset)
                return
            partition, offset = (int(part) for part in first.split("@"))
            if (partition, offset) in self.seen:
                return
            self.seen.add((partition, offset))
        number = None
        if "sow.publisher" in headers:
            row, _, part = headers["sow.sequence"].partition(".")
            number = headers["sow.publisher"], (int(row), int(part or 0))
        if command == "expire":
            self._expire(record, headers["sow.guard"])
        elif command == "define":
            self._define(record)
        elif command == "delta":
            self._delta(record, number)
        elif "sow.filter" in headers or "sow.keys" in headers:
            self._delete_selected(record, headers, number, origin)
        elif command == "sow_delete" or record.value is None:
            self._delete_named(record, number)
        else:
            self._publish(record, command, number)

    headers_known: ClassVar[frozenset[str]] = frozenset(HEADERS)

    def _command(self, headers: dict[str, str]) -> str:
        command = headers.get("sow.command", "publish")
        bad = command not in COMMANDS or any(
            name.startswith("sow.") and name[4:] not in self.headers_known for name in headers
        )
        bad = bad or any(len(tag) > TAG_CHARACTERS_MAX for tag in tags_of(headers))
        if ("sow.publisher" in headers) != ("sow.sequence" in headers):
            raise Refused("bad header")
        if bad or ("sow.filter" in headers and "sow.keys" in headers):
            raise Refused("bad header")
        if ("sow.guard" in headers) != (command == "expire"):
            raise Refused("bad header")
        if command in ("expire", "define") and set(headers) & {
            f"sow.{name}" for name in self.headers_known - {"command", "guard"}
        }:
            raise Refused("bad header")
        return command

    def _expire(self, record: LogRecord, guard: str) -> None:
        if record.value:
            raise Refused("bad header")
        if not record.key:
            raise Refused("key missing")
        key = record.key.decode()
        kept = self.kept.get(key, Kept(None, {}))
        offset, nth = kept.position
        position = f"{offset}.{nth}" if nth else str(offset)
        if kept.body is None or kept.due is None or guard != position or self.expiration == "disabled":
            return
        if self.time >= kept.due:
            self._set(record, 0, key, kept, None, None)

    def _define(self, record: LogRecord) -> None:
        try:
            now = json.loads(record.value or b"")["now"]
        except (ValueError, KeyError, TypeError):
            raise Refused("bad definition") from None
        for kept in self.kept.values():
            kept.numbers = {
                name: seen for name, seen in kept.numbers.items() if self.time - seen[1] <= self.window
            }
        self.expiration, self.records_max = now["expiration"], now["records_max"]
        self.bytes_max, self.window = now["record_bytes_max"], now["repeat_window"]

    def _check_room(self, kept: Kept) -> None:
        if kept.body is None and self.records_max is not None:
            share = -(-self.records_max // self.partitions)
            if len(self.live) >= share:
                raise Refused("too many records")

    def _due(self, record: LogRecord) -> int | None:
        headers = dict(record.headers or [])
        if "sow.expiration" in headers:
            seconds = float(headers["sow.expiration"] or b"")
            return self.time + round(seconds * 1000) if seconds else None
        return self.time + self.expiration if isinstance(self.expiration, int) else None

    def _read(self, record: LogRecord) -> tuple[str, Body]:
        """Return the key text and the body of a message."""
        return self._parse(record.value or b"")

    def _named(self, record: LogRecord) -> str:
        """Return the key text that a command without a body names."""
        return (record.key or b"").decode()

    def sow_key(self, key: str) -> bytes:
        """Return the SOW key of a key text."""
        return sow_key(self.domain, key)

    def _body(self, value: bytes) -> Body:
        if len(value) > self.bytes_max:
            raise Refused("too large")
        try:
            body = json.loads(value)
        except ValueError:
            raise Refused("not json") from None
        if not isinstance(body, dict):
            raise Refused("not an object")
        return body

    def _parse(self, value: bytes) -> tuple[str, Body]:
        body = self._body(value)
        if "id" not in body:
            raise Refused("key missing")
        key = body["id"]
        if key is None:
            raise Refused("key null")
        if key == "":
            raise Refused("key empty")
        if isinstance(key, float | dict | list):
            raise Refused("bad key")
        return ("true" if key else "false") if isinstance(key, bool) else str(key), body

    def _is_mine(self, record: LogRecord, key: str) -> bool:
        """Tell whether the key belongs here; what does not is to be forwarded."""
        owner = partition_of(key, self.partitions)
        if owner != self.number:
            self.forwards[owner, record.offset] = record
        return owner == self.number

    def _is_repeat(self, kept: Kept, number: tuple[str, RecordPosition] | None) -> bool:
        if number is None or number[0] not in kept.numbers:
            return False
        sequence, time = kept.numbers[number[0]]
        return self.time - time <= self.window and number[1] <= sequence

    def _numbers(
        self, kept: Kept, number: tuple[str, RecordPosition] | None
    ) -> dict[str, tuple[RecordPosition, int]]:
        numbers = {name: seen for name, seen in kept.numbers.items() if self.time - seen[1] <= self.window}
        if number is not None:
            numbers[number[0]] = (number[1], self.time)
            while len(numbers) > PUBLISHERS_MAX:
                others = [name for name in numbers if name != number[0]]
                del numbers[min(others, key=lambda name: (numbers[name][1], name))]
        return numbers

    def _publish(self, record: LogRecord, command: str, number: tuple[str, RecordPosition] | None) -> None:
        key, body = self._read(record)
        if not self._is_mine(record, key):
            return
        kept = self.kept.get(key, Kept(None, {}))
        if self._is_repeat(kept, number):
            return
        self._check_room(kept)
        if command == "delta_publish" and kept.body is not None:
            body = merged(kept.body, body)
            if len(json.dumps(body, separators=(",", ":"))) > self.bytes_max:
                raise Refused("too large")
        self._set(record, 0, key, kept, body, number)

    def _delta(self, record: LogRecord, number: tuple[str, RecordPosition] | None) -> None:
        raise Refused("no documents")

    def _delete_named(self, record: LogRecord, number: tuple[str, RecordPosition] | None) -> None:
        key = self._read(record)[0] if record.value else self._named(record)
        if not key:
            raise Refused("key missing")
        if self._is_mine(record, key):
            self._delete(record, [key], number)

    def _delete_selected(
        self,
        record: LogRecord,
        headers: dict[str, str],
        number: tuple[str, RecordPosition] | None,
        origin: str | None,
    ) -> None:
        if record.value:
            raise Refused("bad header")
        if origin is None:
            for other in range(self.partitions):
                if other != self.number:
                    self.forwards[other, record.offset] = record
        if "sow.filter" in headers:
            matches = FILTERS[headers["sow.filter"]]
            keys = [key for key, body in self.live.items() if matches(body)]
        else:
            text = headers["sow.keys"]
            named = json.loads(text) if text.startswith("[") else text.split(",")
            keys = [key for key in self.live if self.sow_key(key).decode() in named]
        self._delete(record, sorted(keys, key=self.sow_key), number)

    def _delete(self, record: LogRecord, keys: list[str], number: tuple[str, RecordPosition] | None) -> None:
        kept = [(key, self.kept[key]) for key in keys if key in self.kept]
        live = [(key, k) for key, k in kept if k.body is not None and not self._is_repeat(k, number)]
        for nth, (key, there) in enumerate(live):
            self._set(record, nth, key, there, None, number)

    def _set(
        self,
        record: LogRecord,
        nth: int,
        key: str,
        kept: Kept,
        body: Body | None,
        number: tuple[str, RecordPosition] | None,
    ) -> None:
        self.effects.append(Effect((record.offset, nth), key, kept.body, body))
        due = None if body is None else self._due(record)
        self.kept[key] = Kept(body, self._numbers(kept, number), (record.offset, nth), due)
        self._note(record, self.effects[-1])

    def _note(self, record: LogRecord, effect: Effect) -> None:
        """Take notice of an effect, for what a kind of topic keeps beside its records."""


def tags_of(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tags that headers give a write, each once, sorted."""
    named = {tag.strip() for tag in headers.get("sow.tags", "").split(",")}
    return tuple(sorted(named - {""}))


def merged(old: Body, delta: Body) -> Body:
    """Return the old body with the delta laid over it."""
    result = dict(old)
    for name, value in delta.items():
        both = isinstance(value, dict) and isinstance(result.get(name), dict)
        result[name] = merged(result[name], value) if both else value
    return result
