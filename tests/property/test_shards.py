"""A gateway over shards answers as one query service does: queries, reads and subscriptions, whatever is written."""

import json
from collections import defaultdict
from collections.abc import Collection, Coroutine, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from sowline.client.records import RecordSet
from sowline.commands.command import Headers, joined_keys
from sowline.model.bookmark import Positions, parse_bookmark
from sowline.model.key import partition_of
from sowline.subscriptions.position_tracker import PositionTracker
from sowline.wire.client_message import Message, Received
from tests.examples import examples
from tests.property.answers import Answer, answer_of, is_sorted
from tests.property.asks import (
    FILTERS,
    GROUPINGS,
    MINE,
    ORDERS,
    SELECTS,
    VALUES,
    Ask,
    Grouping,
    asks_for_records,
    asks_for_views,
    bodies,
)
from tests.property.clock import ClockLoop
from tests.property.document_model import CONDITIONS
from tests.property.keys import kafka_keys
from tests.property.shards import Reader, Shards
from tests.unit.query_service.sessions import Json
from tests.waiting import loop_turns

pytestmark = pytest.mark.slow

IDS = range(10)
SID = "s"

# what is written

values = st.fixed_dictionaries({}, optional={"v": st.sampled_from(VALUES)})
records = st.builds(lambda body, more: body | more, bodies, values)
deltas = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(0, 3),
        "g": st.sampled_from("ab"),
        "v": st.sampled_from(VALUES),
        "o": st.sampled_from([{"x": 1}, {"y": 2}, {"x": None}]),
    },
)
DOCUMENT_DELTAS = (
    '{..,"n":1}',
    '{..,"n":3,"g":"b"}',
    '{..,"v":0.1}',
    '{..,"o":{..,"x":2}}',
    '{..,"o":~}?',
    '{..,"t":(..,"x")}',
    'if {..,"n":2} then {..,"g":"a"} else {..,"n":2} end',
    "~",
    "..",
    "[1]",
)
ids = st.sampled_from(IDS)
writes = (
    st.tuples(st.just("publish"), ids, records)
    | st.tuples(st.just("publish"), ids, records)
    | st.tuples(st.just("delta_publish"), ids, deltas)
    | st.tuples(st.just("change"), ids, st.sampled_from(DOCUMENT_DELTAS))
    | st.tuples(st.just("tombstone"), ids, st.none())
    | st.tuples(st.just("delete_keys"), ids, st.lists(ids, max_size=3))
    | st.tuples(
        st.just("delete_filter"), ids, st.sampled_from(["/n = 1", "/g = 'b' AND /n > 1", "/id > 7", "1=1"])
    )
)
"""A command, the id of its record, and what goes with it."""

# what is asked

MORE_FILTERS = [
    *FILTERS,
    "/v > 0",
    "/v IS NULL",
    "/nosuch = 1",
    "/ox = 1",
    "/n IN (0, 3)",
    "NOT /g = 'a'",
    "/id >= 3 AND /id < 9",
    "/v LIKE 'a'",
    "/o/y + /n > 2",
    "/t = 1",
]
MORE_ORDERS = [*ORDERS, "/v", "/v DESC, /n", "/v TEXT", "/o/x DESC, /g", "/g", "/nosuch"]


def _unmodeled(*given: Any) -> Any:
    raise AssertionError("no model knows these groups")


def _grouping(field: str, projection: str, order: str, *, tells_latest: bool = False) -> Grouping:
    return Grouping(field, projection, _unmodeled, order, _unmodeled, tells_latest)


MORE_GROUPINGS = [
    *GROUPINGS,
    _grouping("g", "/g,SUM(/v) AS /s,AVG(/n) AS /a,MIN(/v) AS /low,MAX(/v) AS /high", "/a DESC,/s"),
    _grouping("v", "/v,COUNT(1) AS /c,AVG(/n) AS /a,STDDEV_SAMP(/n) AS /d", "/c DESC,/d"),
    _grouping("o/x", "/o/x,COUNT_DISTINCT(/v) AS /d,COUNT(/t) AS /t", "/d"),
    _grouping("nosuch", "COUNT(1) AS /c,SUM(/n) / COUNT(1) AS /mean,MAX(/id) - MIN(/id) AS /spread", "/c"),
    _grouping("g,/n", "/n,/g,/v AS /latest,COUNT(1) AS /c", "/c,/latest", tells_latest=True),
]
views = asks_for_views(MORE_FILTERS, MORE_ORDERS, MORE_GROUPINGS)
# Only without conflation every single message is compared.
asks = (
    asks_for_records(MORE_FILTERS, MORE_ORDERS) | views | views.map(lambda ask: replace(ask, conflation=""))
)

whose = st.sampled_from(["everything", "everything", "some records", "some fields"])


@st.composite
def queries(draw: st.DrawFn) -> Json:
    """The fields of a query."""
    grouping = draw(st.none() | st.sampled_from(MORE_GROUPINGS))
    options = draw(st.lists(st.sampled_from(["no_sowkey", "timestamp"]), max_size=2, unique=True))
    options += draw(st.sampled_from([[]] * 7 + [["intrinsics"]]))
    top_n = draw(st.sampled_from([None, 0, 1, 2, 3, 5, 100]))
    fields: Json = {
        "filter": draw(st.sampled_from(MORE_FILTERS)),
        "top_n": top_n,
        "skip_n": None if top_n is None else draw(st.sampled_from([None, 0, 1, 2, 4])),
        "batch_size": draw(st.sampled_from([1, 3, 1000])),
        "topic": draw(st.sampled_from(["orders", "orders", "^ord.*"])),
        "condition": draw(st.sampled_from([""] * 9 + list(CONDITIONS))),
    }
    if grouping is None:
        fields["order_by"] = draw(st.sampled_from(MORE_ORDERS))
        select = draw(st.sampled_from(list(SELECTS)))
        options += [f"select={select}"] if select else []
        fields["sow_keys"] = draw(st.sampled_from([(), (), (0, 1, 3, 9)]))
    else:
        fields["order_by"] = draw(st.sampled_from(["", grouping.order]))
        options += [f"grouping=[/{grouping.field}]", f"projection=[{grouping.projection}]"]
        fields["topic"] = draw(st.sampled_from(["orders", "orders", "orders", "^ord.*"]))
    fields["options"] = ",".join(options)
    return {name: value for name, value in fields.items() if value not in ("", None, ())}


BAD: list[Json] = [
    {"filter": "/n >"},
    {"options": "nosuch"},
    {"options": "select=[/n]"},
    {"options": "grouping=[/g]"},
    {"options": "grouping=[/g],projection=[/x"},
    {"command": "sow", "options": "grouping=[/g],projection=[SUM(/n)]"},
    {"command": "sow_and_subscribe", "options": "grouping=[/g],projection=[SUM(/n)]"},
    {"topic": "nosuch"},
    {"topic": "^nosuch"},
    {"order_by": "n"},
    {"order_by": "/t"},
    {"top_n": -1},
    {"skip_n": 1},
    {"batch_size": 0},
    {"bookmark": "orders:0@5..", "top_n": 1},
    {"bookmark": "orders:9@5"},
    {"bookmark": "other:0@5"},
    {"bookmark": "20200101T000000Z"},
    {"at_least": "other:0@5"},
    {"at_least": "orders:9@5"},
    {"max_staleness": "x"},
    {"sow_keys": ["x", "1"], "filter": "/g ="},
    {"condition": "{..,"},
    {"up_to": "now", "skip_n": 0, "top_n": 2},
    {"up_to": "epoch"},
    {"ack_type": "persisted"},
    {"options": "conflation=1s,conflation_key=[/t],oof"},
    {"options": "rate=5"},
    {"options": "partial"},
    {"options": "replace", "bookmark": "epoch"},
    {"command": "delta_subscribe", "skip_n": 0, "top_n": 1},
    {"command": "subscribe", "options": "grouping=[/g],projection=[/g]"},
    {"command": "sow_and_subscribe", "sow_keys": ["1"], "skip_n": 0, "top_n": 3},
    {"filter": "UNIX_TIMESTAMP() > 5", "options": "oof"},
]
"""Commands that are refused, as a query or as a subscription."""


# what is compared

_read = msgspec.json.Decoder(Received).decode


class Held:
    """What a client of one service holds, and its bookmark."""

    def __init__(self) -> None:
        self.records = RecordSet()
        self.position = PositionTracker()
        self.has_keys = True
        """Whether messages have the SOW keys, without which nothing can be held."""
        self._known: set[str | None] = set()
        """The records of which anything was sent."""

    def take(self, texts: Iterable[bytes]) -> None:
        """Apply messages."""
        for received in map(_read, texts):
            if received.command == "ack" and received.ack_type == "processed" and received.bookmark:
                self.position = PositionTracker(received.bookmark)
            if received.command not in ("group_begin", "sow", "group_end", "publish", "oof"):
                continue
            for message in received.messages():
                self.position.note(message)
                if self.has_keys:
                    self.records.take(self._whole(message))

    def _whole(self, message: Message) -> Message:
        """Return a message; the first one of a record, if that is a delta, as the whole record.

        A client that was not sent all records has them from elsewhere.
        """
        is_first = message.sow_key not in self._known
        self._known.add(message.sow_key)
        return msgspec.structs.replace(message, delta=False) if is_first and message.delta else message

    @property
    def bodies(self) -> dict[str, Json]:
        """The records by SOW key."""
        return {key: json.loads(body) for key, body in self.records.bodies.items()}


NO_FIELDS = ("/nosuch", "/ox")
"""Fields that no record has ever had, the second with a name like that of another one."""


def known(ends: Iterable[Json]) -> list[Json]:
    """Return the ends of groups with the warnings about fields that no record has ever had."""
    # An index may have been made while some record had a field that is gone since. So services may warn or not.
    found = []
    for end in ends:
        warnings = [
            one for one in end.get("warnings", ()) if one.removeprefix("unknown field ").startswith(NO_FIELDS)
        ]
        found.append(
            {name: value for name, value in end.items() if name != "warnings"} | {"warnings": warnings}
        )
    return found


def step_of(messages: Iterable[Json]) -> list[str]:
    """Return the messages of a step: they are to be applied together, and come in any order."""
    # The bookmarks of pages, groups and conflated records are those of the topic. A partition without a change that
    # concerns the subscription may be behind in that of a gateway: no node sends such changes.
    return sorted(
        json.dumps(
            {name: value for name, value in message.items() if name not in ("bookmark", "more")},
            sort_keys=True,
        )
        for message in messages
    )


def steps_of(messages: Iterable[Json]) -> list[list[str]]:
    """Return the steps."""
    steps: list[list[Json]] = [[]]
    for message in messages:
        steps[-1].append(message)
        if not message.get("more"):
            steps.append([])
    assert steps.pop() == [], "a step has not ended"
    return [step_of(step) for step in steps]


def by_partition(messages: Iterable[Json]) -> dict[int, list[Json]]:
    """Return the live messages of each partition, in their order: there is none between partitions."""
    found: dict[int, list[Json]] = defaultdict(list)
    for message in messages:
        ((number, _),) = parse_bookmark(message["bookmark"])["orders"].items()
        found[number].append(message)
    return found


def check_no_repeats(messages: Iterable[Json]) -> None:
    """Check that a client is sent no change twice: in its group and after it, or twice after it."""
    sent: Positions = {}
    for message in messages:
        if message["command"] == "group_end":
            sent = positions_of(message["bookmark"])
        if message["command"] in ("publish", "oof"):
            ((number, position),) = positions_of(message["bookmark"]).items()
            assert position > sent[number], "a change is sent twice"
            sent[number] = position


def refusals(acks: Iterable[Json]) -> list[Json]:
    """Return acknowledgements without what the message of an error may name differently."""
    # A service names one of several expired positions, or the earliest time that it has something of.
    expired = ("bookmark_expired", "history expired")
    return [one | {"message": ""} if one.get("reason") in expired else one for one in acks]


class Subscribed:
    """A client of the query service and one of the gateway that have subscribed to the same."""

    def __init__(self, both: tuple[Reader, Reader], ask: Ask) -> None:
        self.both = both
        self.held = Held(), Held()
        self.is_over = False
        self.is_paused = False
        self.is_exact = True
        """Whether both were sent the same messages, and not only what has the same outcome."""
        self.keeps_more = False
        """Whether one of them may hold what has left, and was never sent to the other."""
        self._note_ask(ask)

    def _note_ask(self, ask: Ask) -> None:
        self.ask = ask
        for held in self.held:
            held.has_keys = held.has_keys and "no_sowkey" not in ask.words

    def send(self, request: Json) -> None:
        """Send a command from both clients."""
        for reader in self.both:
            reader.ask({"sub_id": SID} | request)

    async def _read(self) -> tuple[list[Json], list[Json]]:
        """Take what has come to both."""
        found = []
        for reader, held in zip(self.both, self.held, strict=True):
            texts = await reader.read()
            held.take(texts)
            found.append([json.loads(text) for text in texts])
        return found[0], found[1]

    def _answers(self, messages: tuple[list[Json], list[Json]]) -> tuple[Answer, Answer]:
        whole, gateway = (answer_of(some, is_sorted=is_sorted(self.ask.fields())) for some in messages)
        assert refusals(self._acks(gateway)) == refusals(self._acks(whole))
        return whole, gateway

    async def compare(self, *, is_orderly: bool) -> tuple[Answer, Answer]:
        """Compare what has come to both since, and return it; `is_orderly` if it is from at most one log record."""
        whole, gateway = self._answers(await self._read())
        assert known(gateway.ends) == known(whole.ends)
        assert gateway.records == whole.records
        ask = self.ask
        if ask.is_window and (ask.conflation or not is_orderly):
            self._note_outcome_only()
        self._compare_live(whole.live, gateway.live, is_orderly=is_orderly)
        self.is_over = self.is_over or any(one["status"] == "failure" for one in whole.acks)
        return whole, gateway

    async def catch_up(self) -> None:
        """Take what has come to both, which may have begun at different positions."""
        _, gateway = await self._read()
        if not (self.ask.is_window or self.ask.conflation):
            check_no_repeats(gateway)
        self._note_outcome_only()

    async def compare_return_of_latest(self) -> None:
        """Compare the return to groups with fields of the latest record, of which nobody knows all."""
        whole, gateway = (
            [one["reason"] for one in messages if one.get("status") == "failure"]
            for messages in await self._read()
        )
        # docs/gateway.md, "How gateways differ": a page has expired, too, if the log has moved without a change.
        assert gateway == whole or (
            not whole and gateway == ["bookmark_expired"] and self.ask.skip_n is not None
        )
        self.is_over = bool(gateway)
        # docs/api.md: without a page, such groups may be sent again though they have not changed.
        self._note_outcome_only()

    def _note_outcome_only(self) -> None:
        """Note that the messages may differ. Who is not sent what leaves keeps it."""
        self.is_exact = False
        self.keeps_more = self.keeps_more or not self.ask.oof

    async def replace(self, ask: Ask, request: Json) -> None:
        """Replace the subscription, unless that is refused, and compare what comes of it."""
        before = self.ask
        self._note_ask(ask)
        self.send(request)
        messages = await self._read()
        if any(one.get("status") == "failure" for one in messages[0]):
            self.ask = before
            if before.replaced_by(ask) == "replace":
                self._answers(messages)
            else:
                # Of two mistakes, each service may find another one first.
                assert [[one.get("status") for one in some] for some in messages] == [
                    ["failure"],
                    ["failure"],
                ]
            # A gateway refuses late what only a node finds wrong: it has already ended the other subscription.
            self.is_over = "sub_id" in messages[1][0]
            return
        self.is_paused = False
        if before.conflation and ask.is_window:
            # One query service first sends what conflation has held back, and then less of the difference.
            self._note_outcome_only()
        elif ask.is_window:
            whole, gateway = self._answers(messages)
            assert known(gateway.ends) == known(whole.ends)
            assert gateway.records == whole.records
            assert step_of(gateway.live) == step_of(whole.live)
        else:
            # docs/gateway.md, "How gateways differ": a whole group instead of the difference.
            self.is_exact, self.keeps_more = False, True

    async def prove(self) -> None:
        """Compare the checksums of what both clients should hold."""
        self.send({"command": "heartbeat", "command_id": "9"})
        found = []
        for messages in await self._read():
            proofs = [
                one for one in messages if one["command"] == "progress" or one.get("status") == "failure"
            ]
            (proof,) = ([one.get(name) for name in ("records", "hash", "reason")] for one in proofs)
            found.append(proof)
        assert found[1] == found[0]

    def _acks(self, answer: Answer) -> list[Json]:
        """Return the acknowledgements of a subscription."""
        if self.ask.has_snapshot and not self.ask.conflation:
            return answer.acks
        # One that joins a stream begins where that is. The stream has passed changes since that concern nobody in it.
        # With conflation, a replay may be completed before the interval ends in which it is sent.
        return [{name: value for name, value in ack.items() if name != "bookmark"} for ack in answer.acks]

    def _compare_live(self, whole: list[Json], gateway: list[Json], *, is_orderly: bool) -> None:
        ask = self.ask
        if not (ask.is_window or ask.conflation):
            assert by_partition(gateway) == by_partition(whole)
        elif ask.conflation == "auto" or (ask.is_window and (ask.conflation or not is_orderly)):
            # An interval of `auto` depends on what waits, and changes of several partitions come to a view in any
            # order: only the outcome counts.
            pass
        else:
            assert steps_of(gateway) == steps_of(whole)

    def compare_held(self, shown: Collection[str] | None) -> None:
        """Both clients hold the same; if they are not sent what leaves, of what is shown."""
        expected, found = (
            {key: body for key, body in held.bodies.items() if shown is None or key in shown}
            for held in self.held
        )
        assert found == expected

    def compare_positions(self) -> None:
        """The gateway's client is not ahead: the same changes have been sent to both."""
        whole, gateway = (positions_of(held.position.bookmark) for held in self.held)
        assert whole.keys() == gateway.keys()
        assert all(gateway[number] <= whole[number] for number in whole), (self.ask, gateway, whole)


def positions_of(bookmark: str) -> Positions:
    """Return the positions of a bookmark."""
    return {} if bookmark == "epoch" else parse_bookmark(bookmark)["orders"]


class ShardsAgainstOne(RuleBasedStateMachine):
    """Writers, and clients who ask both."""

    @initialize(
        kind=st.sampled_from(["fields", "fields", "kafka_key", "documents"]),
        more=st.sampled_from(["", ", history: {window: 1h, granularity: 0s}"]),
        partitions=st.integers(1, 5),
        shards=st.integers(1, 4),
        seed=st.integers(0, 1 << 16),
        ring=st.sampled_from([1000, 2]),
        keys=st.lists(kafka_keys, min_size=len(IDS), max_size=len(IDS), unique=True),
        first=st.lists(records, min_size=len(IDS), max_size=len(IDS)),
        asked=st.lists(asks, min_size=1, max_size=3),
        mine=whose,
        condition=st.sampled_from(list(CONDITIONS)),
    )
    def begin(
        self,
        kind: str,
        more: str,
        partitions: int,
        shards: int,
        seed: int,
        ring: int,
        keys: list[str],
        first: list[Json],
        asked: list[Ask],
        mine: str,
        condition: str,
    ) -> None:
        """Begin with some records and subscriptions; `asked` is what several clients ask for.

        Subscriptions to documents have the condition.
        """
        self.loop = ClockLoop()
        self.kind = kind
        self.key_of = dict(zip(IDS, keys if kind == "kafka_key" else map(str, IDS), strict=True))
        definition = {
            "fields": "key: /id",
            "kafka_key": "key: {from: kafka_key}",
            "documents": "key: /id, documents: true",
        }[kind]
        self.shards = Shards(self.loop, definition + more, partitions, shards, seed, ring)
        self.asked = [replace(ask, whose=mine) for ask in asked]
        self.more = {"condition": condition} if kind == "documents" and condition else {}
        self.subscribed: list[Subscribed] = []
        self.bookmarks: list[str] = []
        self.askers: dict[str, tuple[Reader, Reader]] = {}
        self.run(self._begin(first))

    async def _begin(self, first: list[Json]) -> None:
        await self.shards.start()
        self._write_all([("publish", number, body) for number, body in zip(IDS, first, strict=True)])
        await self.loop.rest()
        for ask in self.asked:
            await self._subscribe(ask)

    def run(self, step: Coroutine[Any, Any, None]) -> None:
        """Run something, and look at no more than that."""
        self.loop.run_until_complete(step)

    # writers

    def _write(self, command: str, number: int, what: Any) -> None:
        """Write a command."""
        self.shards.world.time += number % 2
        key = self.key_of[number]
        headers: Headers = []
        value: bytes | None = None
        match command:
            case "publish" | "delta_publish":
                headers = [("sow.command", command.encode()), ("sow.correlation", b"c%d" % number)]
                value = json.dumps({"id": number, **what}).encode()
            case "change" if self.kind == "documents":
                headers, value = [("sow.command", b"delta"), ("sow.tags", b"t")], what.encode()
            case "delete_filter":
                headers = [("sow.command", b"sow_delete"), ("sow.filter", what.encode())]
            case "delete_keys":
                named = [self._sow_key(one) for one in {number, *what}]
                headers = [("sow.command", b"sow_delete"), ("sow.keys", joined_keys(named).encode())]
        self.shards.world.write(
            partition_of(key, self.shards.topic.partitions),
            value,
            None if command.startswith("delete") else key.encode(),
            headers,
        )

    def _sow_key(self, number: int) -> str:
        return self.shards.topic.key_rule.sow_key(self.key_of[number]).decode()

    @rule(some=st.lists(writes, min_size=1, max_size=6))
    def write(self, some: list[Any]) -> None:
        """Log records arrive one by one."""

        async def step() -> None:
            for command, number, what in some:
                self._write(command, number, what)
                for partition, events in self.shards.new_changes():
                    self.shards.feed(partition, events)
                    await self._compare(is_orderly=True)

        self.run(step())

    @rule(some=st.lists(writes, min_size=2, max_size=12))
    def write_at_once(self, some: list[Any]) -> None:
        """Log records of several partitions arrive at once."""

        async def step() -> None:
            self._write_all(some)
            await self._compare(is_orderly=False)

        self.run(step())

    def _write_all(self, some: list[Any]) -> None:
        for command, number, what in some:
            self._write(command, number, what)
        for partition, events in self.shards.new_changes():
            self.shards.feed(partition, events)

    @rule(ms=st.sampled_from([1, 1000, 60_000]))
    def pass_log_time(self, ms: int) -> None:
        """Later log records are of a later time."""
        self.shards.world.time += ms

    @rule(ms=st.sampled_from([10, 50, 60, 200, 1000]))
    def tick(self, ms: int) -> None:
        """Time passes."""
        self.run(self._tick(ms))

    async def _tick(self, ms: int) -> None:
        await self.loop.tick(ms)
        await self._compare(is_orderly=True)

    async def _compare(self, *, is_orderly: bool, is_settled: bool = False) -> None:
        await self.loop.rest()
        for one in self.subscribed:
            await one.compare(is_orderly=is_orderly)
        self.subscribed = [one for one in self.subscribed if not one.is_over]
        for one in self.subscribed:
            if one.is_exact and one.ask.conflation != "auto":
                one.compare_positions()
            if not one.ask.conflation or is_settled:
                await self._compare_held(one)

    async def _compare_held(self, one: Subscribed) -> None:
        if one.is_paused:
            return
        if not one.is_exact and one.ask.is_limited and one.ask.delta:
            return  # of what its first group was too short for it holds the fields that have changed in some step
        one.compare_held(await self._shown(one.ask) if one.keeps_more else None)

    async def _shown(self, ask: Ask) -> set[str]:
        """Return the SOW keys of what the query service shows now."""
        fields = (
            replace(ask, words=(), conflation="", command="sow").fields() | {"command_id": "1"} | self.more
        )
        if not ask.is_window:
            fields.pop("top_n", None)
        reader = self._asker(ask.whose)[0]
        reader.ask(self._with_keys(fields, ask.sow_keys) | {"ack_type": "completed"})
        found = answer_of(list(map(json.loads, await reader.read())), is_sorted=False)
        assert found.acks[-1]["status"] == "success"
        return {json.loads(record)["sow_key"] for _, record in found.records}

    def _asker(self, whose: str) -> tuple[Reader, Reader]:
        """Return the clients that send queries with some rights."""
        if whose not in self.askers:
            self.askers[whose] = self.shards.connect(MINE[whose].rights)
        return self.askers[whose]

    # subscribers

    def _request(self, ask: Ask, *words: str) -> Json:
        """Return the command of a subscription."""
        acks = "processed,completed,stats" if ask.has_snapshot else "processed,completed"
        fields = ask.fields(*words) | {"command_id": "1", "ack_type": acks} | self.more
        return self._with_keys(fields, ask.sow_keys)

    def _with_keys(self, fields: Json, numbers: Sequence[int]) -> Json:
        """Return the fields of a command with the SOW keys that these records have in this topic."""
        return fields | ({"sow_keys": [self._sow_key(number) for number in numbers]} if numbers else {})

    async def _subscribe(self, ask: Ask, **more: Any) -> Subscribed:
        one = Subscribed(self.shards.connect(MINE[ask.whose].rights), ask)
        one.send(self._request(ask) | more)
        self.subscribed.append(one)
        await self._compare(is_orderly=True)
        return one

    @rule(ask=st.none() | asks, mine=whose, slot=st.integers(0, 2))
    def subscribe(self, ask: Ask | None, mine: str, slot: int) -> None:
        """A new subscription, often to what others have subscribed to."""
        if len(self.subscribed) < 6:
            ask = self.asked[slot % len(self.asked)] if ask is None else replace(ask, whose=mine)
            self.run(self._subscribe_and_forget(ask))

    async def _subscribe_and_forget(self, ask: Ask) -> None:
        await self._subscribe(ask)

    def _slot(self, slot: int) -> Subscribed | None:
        return self.subscribed[slot] if slot < len(self.subscribed) else None

    @rule(slot=st.integers(0, 5), ask=asks)
    def replace(self, slot: int, ask: Ask) -> None:
        """A subscription takes another one's place."""

        async def step(one: Subscribed) -> None:
            now = replace(ask, whose=one.ask.whose)
            await one.replace(now, self._request(now, "replace"))
            if one.is_over:
                self.subscribed.remove(one)
            await self._compare(is_orderly=True)

        if (one := self._slot(slot)) is not None:
            self.run(step(one))

    @rule(slot=st.integers(0, 5), narrower=st.sampled_from(MORE_FILTERS), skip=st.integers(0, 2))
    def replace_some(self, slot: int, narrower: str, skip: int) -> None:
        """Only the filter and the window of a page change."""
        if (one := self._slot(slot)) is not None:
            self.replace(
                slot, replace(one.ask, filter=narrower, skip_n=None if one.ask.skip_n is None else skip)
            )

    @rule(ask=asks, turns=st.integers(0, 40), meanwhile=st.lists(writes, min_size=1, max_size=6))
    def subscribe_meanwhile(self, ask: Ask, turns: int, meanwhile: list[Any]) -> None:
        """Changes come while a subscription begins: it begins with them, or is sent them."""
        if ask.has_snapshot and not ask.is_limited and len(self.subscribed) < 6:
            self.run(self._subscribe_meanwhile(ask, turns, meanwhile))

    async def _subscribe_meanwhile(self, ask: Ask, turns: int, meanwhile: list[Any]) -> None:
        one = Subscribed(self.shards.connect(MINE[ask.whose].rights), ask)
        one.send(self._request(ask))
        await loop_turns(turns)
        self._write_all(meanwhile)
        await self._compare(is_orderly=False)
        await self._tick(6000)
        await one.catch_up()
        self.subscribed.append(one)
        await self._compare(is_orderly=False)

    @rule(slot=st.integers(0, 5))
    def pause_or_resume(self, slot: int) -> None:
        """A client pauses, or goes on."""

        async def step(one: Subscribed) -> None:
            one.is_paused = not one.is_paused
            command = "pause" if one.is_paused else "resume"
            one.send({"command": command, "command_id": "2", "ack_type": "processed"})
            await self._compare(is_orderly=True)

        if (one := self._slot(slot)) is not None:
            self.run(step(one))

    @rule(slot=st.integers(0, 5))
    def prove(self, slot: int) -> None:
        """A client asks what it should hold."""
        if (one := self._slot(slot)) is not None:
            self.run(one.prove())

    @rule(slot=st.integers(0, 5))
    def unsubscribe(self, slot: int) -> None:
        """A subscription ends."""

        async def step(one: Subscribed) -> None:
            one.send({"command": "unsubscribe", "command_id": "3", "ack_type": "processed"})
            await one.compare(is_orderly=True)
            self.subscribed.remove(one)

        if (one := self._slot(slot)) is not None:
            self.run(step(one))

    @rule(slot=st.integers(0, 5), by=st.integers(0, 1), misses=st.lists(writes, max_size=6))
    def come_back(self, slot: int, by: int, misses: list[Any]) -> None:
        """Both clients come back with the bookmark of one of them."""

        async def step(one: Subscribed) -> None:
            for reader in one.both:
                reader.close()
            self.subscribed.remove(one)
            self._write_all(misses)
            await self._compare(is_orderly=False)
            one.both = self.shards.connect(MINE[one.ask.whose].rights)
            one.is_paused = False
            one.send(self._request(one.ask) | {"bookmark": one.held[by].position.bookmark})
            if one.ask.conflation:
                await self._tick(6000)  # a gateway sends the difference after an interval, then `completed`
            if one.ask.grouping is None or not one.ask.grouping.tells_latest:
                await one.compare(is_orderly=True)
            else:
                await one.compare_return_of_latest()
            self.subscribed += [] if one.is_over else [one]
            await self._compare(is_orderly=True)

        if (one := self._slot(slot)) is not None:
            self.run(step(one))

    # queries

    @rule(
        some=st.lists(queries(), min_size=1, max_size=4),
        mine=whose,
        at=st.none() | st.integers(0, 5),
        fresh=st.sampled_from(["", "", "at_least"]),
    )
    def query(self, some: list[Json], mine: str, at: int | None, fresh: str) -> None:
        """Queries of now, or at a bookmark."""
        for query in some:
            acks = {"command": "sow", "command_id": "1", "ack_type": "processed,completed,stats"}
            fields = self._with_keys(acks | query, query.get("sow_keys", ()))
            if at is not None and self.bookmarks:
                fields[fresh or "bookmark"] = self.bookmarks[at % len(self.bookmarks)]
            self.run(self._ask_both(self._asker(mine), fields))

    async def _ask_both(self, both: tuple[Reader, Reader], fields: Json) -> None:
        answers = []
        for reader in both:
            reader.ask(fields)
        for reader in both:
            messages = list(map(json.loads, await reader.read()))
            if not messages:
                await self._tick(12_000)
                messages = list(map(json.loads, await reader.read()))
            answers.append(answer_of(messages, is_sorted=is_sorted(fields)))
        whole, gateway = answers
        assert refusals(gateway.acks) == refusals(whole.acks)
        assert known(gateway.ends) == known(whole.ends)
        assert gateway.records == whole.records
        assert by_partition(gateway.live) == by_partition(whole.live)

    @rule(wrong=st.sampled_from(BAD), command=st.sampled_from(["sow", "subscribe", "sow_and_subscribe"]))
    def ask_wrongly(self, wrong: Json, command: str) -> None:
        """A command that is refused, or is no mistake for this kind of topic."""
        fields = {"topic": "orders", "command": command, "command_id": "1", "ack_type": "processed"} | wrong
        # On a connection of its own: it may begin a subscription.
        both = self.shards.connect(MINE["everything"].rights)
        self.run(self._ask_both(both, fields))
        for reader in both:
            reader.close()

    # replays with an end or a rate

    @rule(
        ask=asks_for_records(MORE_FILTERS, MORE_ORDERS),
        begin=st.sampled_from(["epoch", "bookmark"]),
        end=st.sampled_from(["", "now", "bookmark"]),
        rate=st.sampled_from(["", "rate=1000", "rate=1MB", "rate=1000X"]),
        mine=st.sampled_from(["everything", "some records"]),
        slots=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    )
    def replay(self, ask: Ask, begin: str, end: str, rate: str, mine: str, slots: tuple[int, int]) -> None:
        """A subscription from a bookmark, up to an end or at a rate: in the order of time across partitions."""
        given = self.bookmarks or ["epoch"]
        ask = replace(ask, whose=mine, conflation="")
        fields: Json = {"bookmark": given[slots[0] % len(given)] if begin == "bookmark" else begin}
        if end:
            fields["up_to"] = given[slots[1] % len(given)] if end == "bookmark" else end
        request = self._request(ask, rate) if rate else self._request(ask)
        self.run(self._replay(ask, request | fields, ends=bool(end)))

    async def _replay(self, ask: Ask, request: Json, *, ends: bool) -> None:
        one = Subscribed(self.shards.connect(MINE[ask.whose].rights), ask)
        one.send(request)
        await self._tick(15_000)
        messages = await one.compare(is_orderly=True)
        if ends:
            for some in messages:
                times = [self.shards.time_of(message["bookmark"]) for message in some.live]
                assert times == sorted(times)
        for reader in one.both:
            reader.close()

    # HTTP

    @rule(
        number=ids,
        mine=whose,
        what=st.sampled_from(["", "/timeline", "/timeline?limit=2&reversed=false", "?x=1"]),
    )
    def read_record(self, number: int, mine: str, what: str) -> None:
        """A record, or its timeline."""
        path = f"/v1/topics/orders/records/{quote(self.key_of[number], safe='')}{what}"
        self.run(
            self._read_record(path, partition_of(self.key_of[number], self.shards.topic.partitions), mine)
        )

    async def _read_record(self, path: str, partition: int, mine: str) -> None:
        answers = await self.shards.request("GET", path, MINE[mine].rights)
        bookmarks, rest = [], []
        for status, headers, body in answers:
            found = json.loads(body)
            bookmarks.append(headers.pop("sowline-bookmark", "") or found.pop("bookmark", ""))
            rest.append((status, headers, found))
        assert rest[1] == rest[0]
        if any(bookmarks):
            # docs/gateway.md, "How gateways differ": the bookmark is of the node that has the record.
            whole, gateway = map(positions_of, bookmarks)
            assert gateway.items() <= whole.items()
            assert partition in gateway

    @rule(mine=whose)
    def describe_fields(self, mine: str) -> None:
        """The fields of a topic; a gateway describes a sample of one node's records."""
        if len(self.shards.nodes) == 1:
            self.run(self._same_answer("GET", "/v1/topics/orders/fields", mine))

    async def _same_answer(self, method: str, path: str, mine: str, body: Json | None = None) -> None:
        whole, gateway = await self.shards.request(method, path, MINE[mine].rights, body)
        assert gateway == whole

    @rule(query=queries(), mine=whose, explains=st.booleans())
    def query_over_http(self, query: Json, mine: str, explains: bool) -> None:
        """A query, or how it would find its records."""
        topic = query["topic"]
        fields = {name: value for name, value in query.items() if name not in ("topic", "batch_size")}
        fields = self._with_keys(fields, query.get("sow_keys", ()))
        self.run(self._query_over_http(quote(topic), fields, mine, explains=explains))

    async def _query_over_http(self, topic: str, fields: Json, mine: str, *, explains: bool) -> None:
        path = f"/v1/topics/{topic}/{'explain' if explains else 'sow'}"
        whole, gateway = await self.shards.request("POST", path, MINE[mine].rights, fields)
        if whole.status != 200:
            assert gateway == whole
            return
        assert gateway.status == 200
        if explains:
            # Which access path a service takes depends on the records that it holds.
            expected, found = json.loads(whole.body), json.loads(gateway.body)
            assert found["bookmark"] == expected["bookmark"]
            holders = [str(node.held_shard) for node in self.shards.nodes if node.topic.partitions]
            assert sorted(path["shard"] for path in found["access_paths"]) == holders
            return
        lines = [answer.body.splitlines() for answer in (whole, gateway)]
        expected, found = lines if is_sorted(fields) else map(sorted, lines)
        assert found == expected
        assert gateway.headers["sowline-bookmark"] == whole.headers["sowline-bookmark"]

    @rule()
    def remember(self) -> None:
        """Remember a bookmark."""
        topic = self.shards.whole.topic
        self.bookmarks.append(topic.bookmark(topic.positions))

    @rule()
    def remember_time(self) -> None:
        """Remember the time."""
        moment = datetime.fromtimestamp(self.shards.world.time / 1000, UTC)
        self.bookmarks.append(moment.strftime("%Y%m%dT%H%M%S.%fZ"))

    def teardown(self) -> None:
        """Come to rest, and leave nothing behind."""
        if not hasattr(self, "shards"):
            return
        try:
            self.run(self._come_to_rest())
        finally:
            self.run(self.shards.stop())
            self.loop.close()

    @rule()
    def come_to_rest(self) -> None:
        """All intervals end."""
        self.run(self._come_to_rest())

    async def _come_to_rest(self) -> None:
        for _ in range(2):
            await self.loop.tick(6000)
            await self._compare(is_orderly=True, is_settled=True)


TestShards = ShardsAgainstOne.TestCase
TestShards.settings = examples(110, stateful_step_count=20)


def begun(*asked: Ask, first: Sequence[Json], shards: int = 2) -> ShardsAgainstOne:
    """Return a machine with these records, in partitions that several nodes hold, and these subscriptions."""
    machine = ShardsAgainstOne()
    machine.begin("fields", "", 4, shards, 0, 1000, [], first, list(asked), "everything", "")
    return machine


SOME = [{"n": number % 3, "g": "ab"[number % 2]} for number in IDS]


def test_a_field_that_no_record_has() -> None:
    """Each node warns; that one of them knows a similar field, or has only groups to send, is no reason not to."""
    first = [{**body, "o": {"x": 1}} if number == 0 else body for number, body in enumerate(SOME)]
    groups = [
        Ask("sow_and_subscribe", filter, grouping=GROUPINGS[0]) for filter in ("/nosuch = 1", "/ox = 1")
    ]
    machine = begun(*groups, first=first)
    options = f"grouping=[/g],projection=[{GROUPINGS[0].projection}]"
    for filter in ("/nosuch = 1", "/ox = 1"):
        machine.query([{"topic": "orders", "filter": filter}], "everything", None, "")
        machine.query([{"topic": "orders", "filter": filter, "options": options}], "everything", None, "")
        machine.replay(Ask("sow_and_subscribe", filter), "now", "", "rate=1000", "everything", (0, 0))
    machine.teardown()


def test_a_page_of_latest_fields_that_came_back() -> None:
    """Nobody can tell which records were the latest: it has expired, unless nothing has changed."""
    page = Ask("sow_and_subscribe", words=("oof",), order="yes", top_n=1, skip_n=0, grouping=GROUPINGS[2])
    machine = begun(page, page, first=SOME)
    machine.come_back(slot=0, by=1, misses=[])
    machine.come_back(slot=0, by=1, misses=[("publish", 0, SOME[0])])
    assert len(machine.subscribed) == 1
    machine.teardown()


def test_a_group_that_is_as_it_was_before_a_pause() -> None:
    """A change of it meanwhile is no difference."""
    machine = begun(Ask("sow_and_subscribe", grouping=GROUPINGS[0]), first=SOME)
    machine.pause_or_resume(slot=0)
    machine.write([("publish", 0, SOME[0])])
    machine.pause_or_resume(slot=0)
    machine.teardown()


def test_a_paused_subscription_has_no_checksum() -> None:
    """Also where the gateway has no subscription at the nodes for it."""
    machine = begun(Ask("sow_and_subscribe"), first=SOME)
    machine.pause_or_resume(slot=0)
    machine.prove(slot=0)
    machine.teardown()
