"""Subscriptions of every kind, by clients that lag, leave and change their minds, against a model of what they hold.

The model works out afresh, from the records as they were at the client's bookmark, what the client should hold;
the client does with messages what docs/api.md says.
"""

import copy
import json
from collections import defaultdict, deque
from collections.abc import Coroutine
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from sowline.changes.change import Change
from sowline.changes.progress import Progress
from sowline.model.bookmark import Positions, format_bookmark, parse_bookmark
from sowline.model.position import Position, before_the_log
from sowline.serving.result import QueryLimits
from sowline.wire.server_message import iso_time
from sowline_query_service.replica.plain_run import EventAtOffset
from tests.examples import examples
from tests.property.asks import (
    FILTERS,
    GROUPINGS,
    ID_OF,
    IDS,
    KEY_OF,
    MINE,
    Ask,
    Key,
    Record,
    Records,
    View,
    asks,
    bodies,
    selected,
    writes,
)
from tests.property.clock import ClockLoop
from tests.property.world import written
from tests.unit.query_service.sessions import Json, Server

ROOMY, NARROW = 1 << 20, 500
"""Bytes of an outbox: one that never fills here, and one that holds a few messages."""


# what happens


class Service(Server):
    """The service, and what its records were at each position."""

    def __init__(
        self, loop: ClockLoop, partitions: int, ring: int, backlog: int, limits: QueryLimits
    ) -> None:
        super().__init__(partitions, ring, backlog, limits)
        self.loop = loop
        self.past: list[list[tuple[Position, Records]]] = [
            [(before_the_log(), {})] for _ in range(partitions)
        ]
        self.after = list(self.last)
        """By partition: the position of its last change."""
        self.changed: list[dict[Position, tuple[int, Change, float]]] = [{} for _ in range(partitions)]
        """By partition and position: the id of the record, its change, and when it was applied."""

    @property
    def now(self) -> Positions:
        """Where the service stands."""
        return {number: past[-1][0] for number, past in enumerate(self.past)}

    def at(self, positions: Positions) -> Records:
        """The records as they were at some positions."""
        found: Records = {}
        for number, past in enumerate(self.past):
            found |= next(records for position, records in reversed(past) if position <= positions[number])
        return found

    def changes_between(self, before: Positions, now: Positions) -> list[tuple[int, Change, float]]:
        """The changes after some positions, up to others."""
        return [
            entry
            for number, changed in enumerate(self.changed)
            for position, entry in changed.items()
            if before[number] < position <= now[number]
        ]

    def write(self, log_records: list[list[tuple[int, Json | None]]]) -> None:
        """Let log records arrive in one batch; each makes changes in the partition of its first."""
        batches: dict[tuple[str, int], list[EventAtOffset]] = {}
        for made in log_records:
            partition = made[0][0] % len(self.past)
            due = self._due([(number, body) for number, body in made if number % len(self.past) == partition])
            for nth, (number, text) in enumerate(due):
                event = self._change(partition, number, text, nth, last=nth == len(due) - 1)
                batches.setdefault(("orders.changes", partition), []).append(self._placed(partition, event))
        if batches:
            self.state.take(batches)

    def _due(self, writes: list[tuple[int, Json | None]]) -> list[tuple[int, bytes | None]]:
        """What a log record does: no deletion of what is not there, and each record once."""
        texts = {
            number: None
            if body is None
            else json.dumps({"id": number, **body}, separators=(",", ":")).encode()
            for number, body in writes
        }
        return [
            (number, text)
            for number, text in texts.items()
            if text is not None or KEY_OF[number].encode() in self.bodies
        ]

    def _change(self, partition: int, number: int, text: bytes | None, nth: int, *, last: bool) -> Change:
        key, held, after = KEY_OF[number].encode(), self.last[partition], self.after[partition]
        position = Position(0, held.offset + 1) if nth == 0 else Position(0, held.offset, nth)
        self.after[partition] = position
        previous = self.bodies.pop(key, None)
        op, reason = ("delete", "deleted") if text is None else ("publish", None)
        time = 1000 + int(self.loop.time() * 1000)
        change = Change(key, text, previous, position, after, op, time, last, reason)
        records = dict(self.past[partition][-1][1])
        if text is None:
            del records[number]
        else:
            self.bodies[key] = text
            records[number] = Record(json.loads(text), time, partition, position)
        self.past[partition].append((position, records))
        self.changed[partition][position] = number, change, self.loop.time()
        return change

    def progress(self, partition: int) -> None:
        """Let a partition move on without a change."""
        position = Position(0, self.last[partition].offset + 1)
        event = Progress(position, self.after[partition], 0, {}, "", "", 1000, {})
        self.past[partition].append((position, self.past[partition][-1][1]))
        self.state.take({("orders.changes", partition): [self._placed(partition, event)]})

    def _placed(self, partition: int, event: Change | Progress) -> EventAtOffset:
        self.last[partition] = event.position
        held = self.written[partition]
        held.append(written(len(held), event))
        return EventAtOffset(len(held) - 1, event)


# what clients hold


@dataclass
class Holding:
    """What a subscriber holds, and where; `positions` is None before it holds anything that can be told."""

    ask: Ask
    positions: Positions | None = None
    held: View = field(default_factory=dict)
    partial: set[Key] = field(default_factory=set)
    """What it holds only some fields of: it came as a delta to one that never had the whole."""
    extra: set[Key] = field(default_factory=set)
    """What it may hold though it is not shown: nobody told."""
    missing: set[Key] = field(default_factory=set)
    """What it need not hold though it is shown: it was there before."""
    complete: bool = False
    """Whether it was sent everything that there is."""
    has_come_back: bool = False
    """Whether it has come back: then it is taken to have been."""


class Subscriber:
    """One subscription as its client sees it."""

    def __init__(self, service: Service, sid: str, ask: Ask) -> None:
        self.service = service
        self.sid = sid
        self.asked = ask
        """What it asked for last; it holds what it asked for before, until that is acknowledged."""
        self.holding = Holding(ask)
        self.saved: Holding | None = None
        """What it held before the step that has begun."""
        self.group: list[Json] | None = None
        self.mark: str | None = None
        self.turned_from: Holding | None = None
        """What it held when it was replaced, until the group of the new one is there."""
        self.owed: set[Key] = set()
        """What it has to be told of that it leaves."""
        self.step: list[Json] = []
        self.step_sent: float | None = None
        self.is_back = False
        self.is_dead = False
        self.replaced_at: set[float] = set()
        self.group_keys: dict[str, Key] = {}

    # beginnings

    def acknowledged(self, ask: Ask, message: Json, kind: str) -> None:
        """Begin; `kind` is fresh, replace or back."""
        positions = self.placed(message["bookmark"])
        before = self.committed()
        if not ask.is_window and (
            self.group is not None or (self.turned_from and self.holding.ask.has_snapshot)
        ):
            before.complete = before.has_come_back = False
        self.holding, self.saved, self.step, self.step_sent = before, None, [], None
        self.group, self.turned_from, self.owed = None, None, set()
        self.is_back = kind == "back"
        if kind == "back":
            assert before.positions == positions, "comes back where it left"
            before.has_come_back = True
            return
        self.saved = copy.deepcopy(before) if ask.has_snapshot else None
        if kind == "fresh":
            self.holding = Holding(ask)
        else:
            self.turned_from = copy.deepcopy(before)
            self.holding.ask = ask
        if not ask.has_snapshot:
            self._go_on_without_group(positions, self.turned_from)

    def _go_on_without_group(self, positions: Positions, before: Holding | None) -> None:
        """A plain subscription holds what it held, whatever has become of that, and lacks the rest."""
        now, view = self.holding, self.holding.ask.view(self.service.at(positions))
        if before is not None and before.positions is not None:
            self._may_not_go_back(positions)
            certain = before.complete and before.ask.oof and now.ask.oof and not before.extra
            self.owed = set(now.held) - set(view) if certain else set()
        now.positions, now.complete, now.has_come_back = positions, False, False
        now.extra, now.missing = set(now.held) - set(view), set(view) - set(now.held)
        wrong = {key for key in view if key in now.held and not self._is_right(key, view[key])}
        now.partial |= wrong

    def group_begin(self, message: Json) -> None:
        """A group replaces what is held, or with `replace` adds to it."""
        self.mark = next((mark for mark in ("replace", "reset") if mark in message), None)
        before = self.turned_from
        if before is None:
            assert self.mark != "replace"
        else:
            assert self.mark == ("replace" if self._is_certain(before) else "reset"), (self.mark, before)
        self.group = []
        if self.saved is None:
            self.saved = copy.deepcopy(self.holding)
        if self.mark != "replace":
            self.holding = Holding(self.holding.ask)

    def _is_certain(self, before: Holding) -> bool:
        """Whether it can be told what was held when the subscription was replaced."""
        if before.positions is None:
            return False
        if self.holding.ask.is_window:
            is_alike = (before.ask.grouping is None) is (self.holding.ask.grouping is None)
            return is_alike and not before.ask.is_limited
        return (before.complete or before.has_come_back) and before.ask.top_n is None

    def records(self, message: Json) -> None:
        """Take records of a group."""
        assert self.group is not None
        assert 1 <= len(message["records"]) <= self.holding.ask.batch_size
        self.group += message["records"]

    def group_end(self, message: Json) -> None:
        """Check what came, and hold it."""
        ask, positions = self.holding.ask, self.placed(message["bookmark"])
        assert self.group is not None
        assert message["records"] == len(self.group)
        if self.saved is not None and self.saved.positions is not None:
            assert all(positions[p] >= self.saved.positions[p] for p in positions), "goes back"
        records = self.service.at(positions)
        keys = [self._key(record) for record in self.group]
        assert len(set(keys)) == len(keys)
        for record, key in zip(self.group, keys, strict=True):
            self._check_record(record, key, records)
            self.holding.held[key] = record["data"]
            self.holding.partial.discard(key)
        shown = ask.view(records)
        if self.mark == "replace":
            self._check_replacing_group(set(keys), records)
        else:
            self._check_group(keys, ask.first(ask.all(records)))
        self.holding.complete, self.holding.has_come_back = not ask.is_limited, False
        if ask.is_limited:
            self.holding.missing = set(shown) - set(self.holding.held)
        self.holding.positions, self.saved, self.group = positions, None, None
        self.turned_from, self.owed, self.step = None, set(), []
        self.check_holding(shown)

    def _check_group(self, keys: list[Key], shown: View) -> None:
        ask = self.holding.ask
        is_ordered = ask.order_by or (ask.top_n is not None and ask.grouping is None)
        assert set(keys) == set(shown)
        assert not is_ordered or keys == list(shown)

    def _check_replacing_group(self, keys: set[Key], records: Records) -> None:
        """What came is lacked, and what is left is not shown any more; nobody else tells of what leaves."""
        before, ask = self.turned_from, self.holding.ask
        assert before is not None
        assert before.positions is not None
        shown = ask.view(records)
        assert keys <= set(shown)
        if before.ask.select == ask.select and ask.grouping is None and before.ask.grouping is None:
            then = before.ask.view(self.service.at(before.positions))
            changed = {
                ("id", n) for n, *_ in self.service.changes_between(before.positions, self.service.now)
            }
            assert keys <= (set(shown) - set(then)) | changed, "sent though it is held"
        gone = set(self.holding.held) - set(shown)
        self.holding.extra = gone if not (before.ask.oof and ask.oof) else before.extra
        if ask.is_limited:
            self.holding.missing = set(shown)

    def _check_record(self, record: Json, key: Key, records: Records) -> None:
        ask = self.holding.ask
        if ask.grouping is not None:
            assert "updated_at" not in record
            return
        found = records[key[1]]
        assert record["updated_at"] == f"orders:{found.partition}@{found.position}"
        assert record.get("timestamp") == (iso_time(found.time) if "timestamp" in ask.words else None)

    # live

    def take(self, message: Json, sent: float) -> None:
        """Apply a publish or an oof."""
        ask, holding = self.holding.ask, self.holding
        assert self.group is None, "a message within a group"
        assert holding.positions is not None or self.turned_from is not None
        key = self._key(message, ask)
        if not self.step:
            self._begin_step(message, key)
        self.step.append(message)
        if ask.conflation or ask.is_window:
            others = [self._key(other, ask) for other in self.step[:-1]]
            assert key not in others, "told twice in a step"
        if message["command"] == "oof":
            self._leave(key, message)
        elif "delta" in message:
            self._merge(key, message)
        else:
            holding.held[key] = copy.deepcopy(message["data"])
            holding.partial.discard(key)
        if "more" not in message:
            self._end_step(message, sent)

    def _begin_step(self, message: Json, key: Key) -> None:
        """The bookmark that is named before the end is one at which what is held is true."""
        if self.turned_from is not None and self._is_turning(message, key):
            return
        assert not self.owed, "not told of what leaves"
        self.turned_from = None
        assert self.holding.positions is not None
        self.saved = copy.deepcopy(self.holding)
        if "more" in message:
            positions = self._laid_over(message)
            assert all(positions[p] >= self.holding.positions[p] for p in positions)
            self.check_holding(self.holding.ask.view(self.service.at(positions)), keep=False)

    def _is_turning(self, message: Json, key: Key) -> bool:
        """Whether a message tells what leaves because another subscription has taken its place."""
        ask, positions = self.holding.ask, self.holding.positions
        if ask.has_snapshot or positions is None:
            return True
        given = parse_bookmark(message["bookmark"])["orders"]
        is_old = all(given[p] <= positions[p] for p in given)
        return message["command"] == "oof" and is_old and key not in ask.view(self.service.at(positions))

    def _end_step(self, message: Json, sent: float) -> None:
        ask, holding, service = self.holding.ask, self.holding, self.service
        before, step = self.saved, self.step
        if self.turned_from is not None:
            assert not ask.has_snapshot
            assert holding.positions == self._laid_over(message)
            assert not self.owed, "not told of what leaves"
            holding.extra &= set(holding.held)
            self.turned_from, self.step = None, []
            return
        assert before is not None
        assert before.positions is not None
        positions = self._laid_over(message)
        assert positions != before.positions
        assert all(positions[p] >= before.positions[p] for p in positions), "goes back"
        holding.positions, self.saved, self.step = positions, None, []
        self.check_holding(ask.view(service.at(positions)))
        for other in step:
            self._check_message(other, before, positions)
        is_hurried = self.is_back or (ask.is_window and sent in self.replaced_at)
        if ask.interval is not None and not is_hurried:
            self._check_interval(before.positions, positions, sent)
        self.step_sent, self.is_back = sent, False

    def _check_interval(self, before: Positions, positions: Positions, sent: float) -> None:
        """An interval begins with a change, and not before the last one ended."""
        interval = (self.holding.ask.interval or 0) / 1000 - 1e-6
        assert self.step_sent is None or sent - self.step_sent >= interval, "too soon after the last step"
        applied = [at for _, _, at in self.service.changes_between(before, positions)]
        assert sent - min(applied) >= interval, "before the interval ended"

    def _leave(self, key: Key, message: Json) -> None:
        holding = self.holding
        assert holding.ask.oof
        assert message["reason"] in ("match", "deleted", "entitlement")
        before = self.turned_from or holding
        if before.complete:
            assert key in holding.held, "leaves what it never was in"
        holding.held.pop(key, None)
        holding.partial.discard(key)
        self.owed.discard(key)

    def _merge(self, key: Key, message: Json) -> None:
        holding, ask = self.holding, self.holding.ask
        assert ask.delta
        if key not in holding.held:
            assert not holding.complete or key in holding.missing, "a delta of what is not held"
            holding.partial.add(key)
            holding.held[key] = {}
        record = holding.held[key]
        merge(record, copy.deepcopy(message["data"]))
        for path in message.get("removed", ()):
            remove(
                record,
                path,
                strict=key not in holding.partial and len(message["sids"]) == 1 and not ask.conflation,
            )

    def _check_message(self, message: Json, before: Holding, positions: Positions) -> None:
        """What a message of a step says next to the outcome."""
        ask, key = self.holding.ask, self._key(message)
        data = message["data"]
        name = "id" if ask.grouping is None else ask.grouping.field
        if ask.sent({name: 1}):
            assert name in data, "without its key"
        if "delta" in message and "no_empties" in ask.words:
            changed = [ask.sent(data).keys() - {name}, message.get("removed", ())]
            assert any(changed), "tells nothing"
        if message["command"] == "oof" and key not in before.partial:
            self._check_leaving(message, key, before, positions)
        if not ask.is_window and not ask.conflation:
            self._check_single(message, key)

    def _check_single(self, message: Json, key: Key) -> None:
        """A message is of one change."""
        ((partition, position),) = parse_bookmark(message["bookmark"])["orders"].items()
        number, change, _ = self.service.changed[partition][position]
        assert key == ("id", number)
        if message["command"] == "publish":
            assert self.holding.ask.mine.sees(json.loads(change.body or b""))
        if "timestamp" in self.holding.ask.words:
            assert message["timestamp"] == iso_time(change.time)

    def _check_leaving(self, message: Json, key: Key, before: Holding, positions: Positions) -> None:
        """The body of what leaves."""
        ask, data = self.holding.ask, self.holding.ask.sent(message["data"])
        held = before.held.get(key)
        if self.is_back and ask.grouping is not None and ask.grouping.tells_latest:
            self._check_leaving_unseen(data, key, before)
            return
        if ask.conflation:
            assert held is None or data == ask.sent(held), "not what was told last"
            return
        records = self.service.at(positions)
        if ask.grouping is None:
            there = {("id", number): record.body for number, record in records.items()}
        else:
            there = ask.all(records)
        if message["reason"] == "match":
            assert ask.grouping is not None or ask.mine.sees(there[key])
            assert data == ask.sent(there[key])
        elif message["reason"] == "entitlement":
            assert not ask.mine.sees(there[key])
            assert held is None or data == ask.sent(held)
        else:
            assert key not in there
            assert held is None or data == ask.sent(held)

    def _check_leaving_unseen(self, data: Json, key: Key, before: Holding) -> None:
        """A group that went while its client was away is told as one of its records would have it."""
        ask = before.ask
        assert ask.grouping is not None
        assert before.positions is not None
        field, made = ask.grouping.field, ask.grouping.made
        members = ask.matching(self.service.at(before.positions)).values()
        assert data in [ask.sent(made(field, [one])) for one in members if one.body[field] == key[1]]

    # what is true

    def check_holding(self, shown: View, *, keep: bool = True) -> None:
        """It holds what is shown, and nothing else where it is told what leaves."""
        holding = self.holding
        for key, body in shown.items():
            if key in holding.held:
                assert self._is_right(key, body), (key, holding.held[key], body)
            else:
                assert key in holding.missing, f"lacks {key}"
        extra = set(holding.held) - set(shown)
        assert not holding.ask.oof or extra <= holding.extra, f"holds {extra}"
        if keep:
            holding.extra = extra
            holding.missing &= set(shown) - set(holding.held)
            holding.partial &= set(holding.held)

    def check_now(self) -> None:
        """Once everything is told, it holds what is shown now."""
        assert not self.owed, "not told of what leaves"
        assert not self.step
        assert self.group is None
        assert self.holding.positions is not None
        self.check_holding(self.holding.ask.view(self.service.at(self.service.now)), keep=False)

    def _is_right(self, key: Key, body: Json) -> bool:
        sent = self.holding.ask.sent
        return key in self.holding.partial or sent(self.holding.held[key]) == sent(body)

    def committed(self) -> Holding:
        """What it holds at its bookmark: of a step that has not ended nothing."""
        return self.holding if self.saved is None else self.saved

    # reading

    def placed(self, bookmark: str) -> Positions:
        """A whole bookmark."""
        positions = parse_bookmark(bookmark)
        assert set(positions) == {"orders"}
        assert set(positions["orders"]) == set(range(len(self.service.past)))
        return positions["orders"]

    def _laid_over(self, message: Json) -> Positions:
        assert self.holding.positions is not None
        ask, given = self.holding.ask, parse_bookmark(message["bookmark"])["orders"]
        assert len(given) == (len(self.service.past) if ask.is_window or ask.conflation else 1) or (
            self.turned_from is not None
        )
        return self.holding.positions | given

    def _may_not_go_back(self, positions: Positions) -> None:
        held = self.holding.positions
        assert held is None or all(positions[p] >= held[p] for p in positions), "goes back"

    def _key(self, message: Json, ask: Ask | None = None) -> Key:
        """What a message or a record is about."""
        sow = message.get("sow_key")
        if sow is None:
            return "id", message["data"]["id"]
        if sow in ID_OF:
            return "id", ID_OF[sow]
        if sow not in self.group_keys:
            grouping = self.holding.ask.grouping
            assert grouping is not None
            self.group_keys[sow] = grouping.field, message["data"][grouping.field]
        return self.group_keys[sow]


def merge(record: Json, delta: Json) -> None:
    """Merge objects field by field."""
    for name, value in delta.items():
        if isinstance(value, dict) and isinstance(record.get(name), dict):
            merge(record[name], value)
        else:
            record[name] = value


def remove(record: Json, path: str, *, strict: bool) -> None:
    """Take a field out."""
    *above, name = path.split("/")[1:]
    node: Any = record
    for step in above:
        node = node.get(step) if isinstance(node, dict) else None
    if isinstance(node, dict) and name in node:
        del node[name]
    else:
        assert not strict, f"{path} is not held"


class Connection:
    """A client with its subscriptions."""

    def __init__(self, service: Service, whose: str) -> None:
        self.service = service
        self.whose = whose
        self.client = service.connect(MINE[whose].rights)
        self.subscribers: dict[str, Subscriber] = {}
        self.requests: dict[str, tuple[Subscriber, Ask | None, str]] = {}
        """By command id: who asked for what, and whether fresh, replace, back, end, or to be refused why."""
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
        else:
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


class Subscriptions(RuleBasedStateMachine):
    """Writers, a clock, and clients of all kinds."""

    @initialize(
        partitions=st.integers(1, 3),
        ring=st.sampled_from([1000, 3]),
        backlog=st.sampled_from([ROOMY, NARROW]),
        first=st.lists(bodies, min_size=6, max_size=6),
        asked=st.lists(asks, min_size=1, max_size=3),
        whose=st.sampled_from(list(MINE)),
    )
    def begin(
        self, partitions: int, ring: int, backlog: int, first: list[Json], asked: list[Ask], whose: str
    ) -> None:
        """Begin with some records and subscriptions."""
        self.loop = ClockLoop()
        self.stack = ExitStack()
        self.service = Service(self.loop, partitions, ring, backlog, QueryLimits())
        self.backlog = backlog
        self.stack.enter_context(self.service.patched())
        self.connections: list[Connection] = []
        self.sids = 0
        self.run(self._begin(first, whose))
        for ask in asked:
            self.subscribe(0, ask, settle=True)

    async def _begin(self, first: list[Json], whose: str) -> None:
        self.service.loaded()
        self.service.write([[write] for write in enumerate(first)])
        self.connections = [Connection(self.service, whose), Connection(self.service, "everything")]

    def run(self, step: Coroutine[Any, Any, None]) -> None:
        """Run something, and look at no more than that."""
        self.loop.run_until_complete(step)

    @rule(
        batch=st.lists(st.lists(writes, min_size=1, max_size=3), min_size=1, max_size=8), settle=st.booleans()
    )
    def write(self, batch: list[Any], settle: bool) -> None:
        """Some log records arrive."""

        async def step() -> None:
            self.service.write(batch)
            if settle:
                await self.loop.rest()

        self.run(step())

    @rule(number=st.sampled_from(IDS), times=st.integers(1, 2))
    def write_again(self, number: int, times: int) -> None:
        """An update changes nothing."""

        async def step() -> None:
            text = self.service.bodies.get(KEY_OF[number].encode())
            if text is not None:
                body = json.loads(text)
                del body["id"]
                self.service.write([[(number, body)]] * times)

        self.run(step())

    @rule(number=st.sampled_from(IDS), name=st.sampled_from("onnggt"), body=bodies)
    def write_field(self, number: int, name: str, body: Json) -> None:
        """An update of one field, or without it."""

        async def step() -> None:
            text = self.service.bodies.get(KEY_OF[number].encode())
            if text is not None:
                now = json.loads(text)
                del now["id"]
                now.pop(name, None)
                self.service.write([[(number, now | ({name: body[name]} if name in body else {}))]])

        self.run(step())

    @rule(partition=st.integers(0, 2))
    def move_on(self, partition: int) -> None:
        """A partition moves on without a change."""

        async def step() -> None:
            self.service.progress(partition % len(self.service.past))

        self.run(step())

    @rule(which=st.integers(0, 1), ask=asks, settle=st.booleans())
    def subscribe(self, which: int, ask: Ask, settle: bool) -> None:
        """A new subscription."""
        connection = self.connections[which]
        ask = replace(ask, whose=connection.whose)
        if len(connection.subscribers) < 4:
            self.sids += 1
            subscriber = Subscriber(self.service, f"s{self.sids}", ask)
            connection.subscribers[subscriber.sid] = subscriber
            self.run(self._ask(connection, subscriber, ask, "fresh", ask.fields(), settle))

    async def _ask(
        self, connection: Connection, subscriber: Subscriber, ask: Ask, kind: str, fields: Json, settle: bool
    ) -> None:
        if self.backlog == NARROW or not settle:
            connection.is_calm = False
        connection.ask(subscriber, ask, kind, fields)
        if kind in ("fresh", "replace", "back"):
            subscriber.asked = ask
            subscriber.replaced_at.add(self.loop.time())
        if settle:
            await self.loop.rest()

    @rule(which=st.integers(0, 1), slot=st.integers(0, 3), ask=asks, settle=st.booleans())
    def replace(self, which: int, slot: int, ask: Ask, settle: bool) -> None:
        """A subscription takes another one's place, or is of another kind."""
        subscriber = self._subscriber(which, slot)
        if subscriber is not None:
            ask = replace(ask, whose=self.connections[which].whose)
            kind = subscriber.asked.replaced_by(ask)
            fields = ask.fields("replace")
            self.run(self._ask(self.connections[which], subscriber, ask, kind, fields, settle))

    @rule(which=st.integers(0, 1), slot=st.integers(0, 3), narrower=st.sampled_from(list(FILTERS)))
    def replace_filter(self, which: int, slot: int, narrower: str) -> None:
        """Only the filter changes."""
        subscriber = self._subscriber(which, slot)
        if subscriber is not None:
            ask = Ask(**(vars(subscriber.asked) | {"filter": narrower}))
            fields = ask.fields("replace")
            self.run(self._ask(self.connections[which], subscriber, ask, "replace", fields, settle=True))

    @rule(
        which=st.integers(0, 1),
        slot=st.integers(0, 3),
        wrong=st.sampled_from(
            [
                ({"filter": "/n >"}, "bad filter"),
                ({"topic": "nosuch"}, "invalid topic"),
                ({"order_by": "n"}, "invalid order by"),
                ({"bookmark": "epoch"}, "invalid bookmark"),
                ("conflation=1s,conflation_key=[/n],oof", "invalid options"),
                ("conflation_key=[/t", "invalid options"),
                ("select=[/n]", "invalid options"),
                ("", "subid in use"),
            ]
        ),
    )
    def replace_wrongly(self, which: int, slot: int, wrong: tuple[Json | str, str]) -> None:
        """What is refused leaves the old subscription as it is."""
        subscriber = self._subscriber(which, slot)
        if subscriber is not None:
            fields, (change, reason) = subscriber.asked.fields("replace"), wrong
            if isinstance(change, str):
                words = ("replace", change) if change else ()
                fields = Ask(**(vars(subscriber.asked) | {"conflation": "", "words": ()})).fields(*words)
            else:
                fields |= change
            self.run(
                self._ask(self.connections[which], subscriber, subscriber.asked, reason, fields, settle=True)
            )

    def _subscriber(self, which: int, slot: int) -> Subscriber | None:
        there = list(self.connections[which].subscribers.values())
        return there[slot] if slot < len(there) else None

    @rule(which=st.integers(0, 1), slot=st.integers(0, 3))
    def unsubscribe(self, which: int, slot: int) -> None:
        """A subscription ends; nothing comes behind that."""
        subscriber, connection = self._subscriber(which, slot), self.connections[which]

        async def step(subscriber: Subscriber) -> None:
            connection.ask(subscriber, None, "end", {"command": "unsubscribe"})
            await connection.read()

        if subscriber is not None:
            self.run(step(subscriber))

    @rule(which=st.integers(0, 1))
    def read(self, which: int) -> None:
        """A client reads all that there is."""
        self.run(self.connections[which].read())

    @rule(which=st.integers(0, 1))
    def sip(self, which: int) -> None:
        """A client reads a frame."""
        self.run(self.connections[which].sip())

    @rule(milliseconds=st.sampled_from([1, 10, 49, 50, 60, 150, 200, 1000]))
    def tick(self, milliseconds: int) -> None:
        """Time passes."""
        self.run(self.loop.tick(milliseconds))

    @rule(which=st.integers(0, 1), reads=st.booleans(), misses=st.lists(writes, max_size=4))
    def come_back(self, which: int, reads: bool, misses: list[Any]) -> None:
        """A connection is lost, and all its subscriptions come back on a new one."""
        self.run(self._come_back(which, reads, misses))

    async def _come_back(self, which: int, reads: bool, misses: list[Any]) -> None:
        connection = self.connections[which]
        if reads:
            await connection.read()
        connection.client.session.close()
        self.service.write([[write] for write in misses])
        new = self.connections[which] = Connection(self.service, connection.whose)
        new.is_calm = False
        for subscriber in connection.subscribers.values():
            holding = subscriber.committed()
            bookmark = (
                {}
                if holding.positions is None
                else {"bookmark": format_bookmark({"orders": holding.positions})}
            )
            kind = "back" if bookmark else "fresh"
            new.subscribers[subscriber.sid] = subscriber
            if not bookmark:
                holding.ask = subscriber.asked
            await self._ask(new, subscriber, holding.ask, kind, holding.ask.fields() | bookmark, settle=False)
        await new.read()

    @rule()
    def come_to_rest(self) -> None:
        """Once all is read, and the intervals are over, everybody holds what is shown now."""
        self.run(self._come_to_rest())

    async def _come_to_rest(self) -> None:
        for _ in range(3):
            for connection in self.connections:
                await connection.read()
            await self.loop.tick(6000)
        for connection in self.connections:
            await connection.read()
            for subscriber in connection.subscribers.values():
                subscriber.check_now()

    def teardown(self) -> None:
        """Come to rest, and leave nothing behind."""
        if not hasattr(self, "loop"):
            return
        try:
            self.run(self._come_to_rest())
        finally:
            self.run(self._close())
            self.stack.close()
            self.loop.close()

    async def _close(self) -> None:
        for connection in self.connections:
            connection.client.session.close()
        await self.loop.rest()


TestSubscriptions = Subscriptions.TestCase
TestSubscriptions.settings = examples(60, stateful_step_count=30)


def test_a_group_that_went_meanwhile() -> None:
    """Nobody can tell which of its records was the latest: the one that it shows was in it."""
    a, b = {"n": 0, "g": "a"}, {"n": 0, "g": "b"}
    groups = Ask("sow_and_subscribe", words=("oof",), grouping=GROUPINGS[2])
    machine = Subscriptions()
    machine.begin(1, 1000, ROOMY, [a, a, a, a, a, b], [groups], "everything")
    machine.come_back(which=0, reads=False, misses=[(0, a), (1, None)])
    machine.write(batch=[[(0, None), (3, None), (4, None)]], settle=False)
    machine.come_back(which=0, reads=False, misses=[(2, None)])
    machine.teardown()
