"""A replica that the native core loads is the one that Python loads: rows, positions, indexes and phases."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple, cast
from unittest.mock import patch

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from sowline.changes.change import AGAIN, DELETE, Change
from sowline.changes.changes_reader import ChangesReader
from sowline.changes.progress import UNFILLED, Progress
from sowline.changes.wholeness import Wholeness
from sowline.commands.command import Headers, Origin
from sowline.config.topic_definition import define_topic
from sowline.config.topics import Topics
from sowline.kafka.changes_driver import AssignedChanges
from sowline.model.position import Position, before_the_log
from sowline_query_service.index.rows import LoadBefore, Rows
from sowline_query_service.replica.plain_run import MessageColumns, PlainRun, Portion, events_of
from sowline_query_service.topics.followed_partitions import Batches, FollowedPartitions, Replicas
from sowline_query_service.topics.message_reader import MessageReader, is_plain
from sowline_query_service.topics.state import ServedTopics
from tests.panics import panic
from tests.property.world import written

native: Any = pytest.importorskip("sowline_native")

TOPIC_ID = "this"
PARTITIONS = 2
KEYS = [b"%d" % number for number in range(12)] + [b"", b"a b", "é".encode(), b"\0odd"]
CORRELATIONS = ["c1", "two words", 'q"', "é", "", "\x7f", "x" * 300]
EVENTS_A_LIFE = 300


class Message:
    """A message of the changes of `orders`, as Kafka's client returns it."""

    def __init__(
        self, partition: int, offset: int, key: bytes | None, value: bytes | None, headers: Headers | None
    ) -> None:
        self._fields = partition, offset, key, value, headers

    def topic(self) -> str:
        """Return the topic: a new text for each message."""
        return "".join(["orders", ".changes"])  # noqa: FLY002 - a literal would be one text

    def partition(self) -> int:
        """Return the partition."""
        return self._fields[0]

    def offset(self) -> int:
        """Return the offset."""
        return self._fields[1]

    def key(self) -> bytes | None:
        """Return the key."""
        return self._fields[2]

    def value(self) -> bytes | None:
        """Return the value."""
        return self._fields[3]

    def headers(self) -> Headers | None:
        """Return the headers."""
        return self._fields[4]


Sent = tuple[bytes | None, bytes | None, Headers | None]
"""A key, a value, and headers."""


class Writer:
    """Writes a partition's events by chance: those of its owner, of stale owners, and of owners that repair."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._held = before_the_log()
        self._time = 1000
        self._offset = chance.choice((0, 0, 0, 3))
        self._has_holes = chance.random() < 0.3

    def messages(self, partition: int, count: int) -> list[Message]:
        """Return about so many messages, and a progress event that proves that nothing is missing."""
        found: list[Message] = []
        writes = [self._plain, self._odd, self._deletes, self._progress, self._stale, self._again, self._era]
        weights = [
            self._chance.choice((1.0, 5.0, 60.0)),
            *(self._chance.choice((0, 1, 3)) for _ in writes[1:]),
        ]
        if self._chance.random() < 0.1:
            writes.append(self._far)
            weights.append(0.2)
        while len(found) < count:
            (write,) = self._chance.choices(writes, weights)
            found += [self._placed(partition, sent) for sent in write()]
        return [*found, self._placed(partition, self._sent(self._report(TOPIC_ID)))]

    def _placed(self, partition: int, sent: Sent) -> Message:
        message = Message(partition, self._offset, *sent)
        self._offset += self._chance.choice((1, 1, 1, 2)) if self._has_holes else 1
        return message

    @staticmethod
    def _sent(event: Change | Progress) -> Sent:
        _, name, body, headers, *_ = written(0, event)
        return name, body, headers

    def _change(self, position: Position, body: bytes | None = b"{}", **given: Any) -> Change:
        chance = self._chance
        after = self._held if chance.random() < 0.97 else self._old_position()
        fields: dict[str, Any] = {"sow_key": chance.choice(KEYS), "op": "publish", "time": self._time} | given
        if chance.random() < 0.1:
            fields |= {"time": self._time + 10 ** chance.randrange(4, 17), "log_time": self._time}
        elif chance.random() < 0.02:
            fields["time"] = 10 ** chance.randrange(14, 18)
        return Change(
            body=body, previous=chance.choice((None, b"{}")), position=position, after=after, **fields
        )

    def _next(self, nth: int = 0) -> Position:
        self._time += self._chance.randrange(-2, 30)
        era, offset, _ = self._held
        return Position(era, offset + self._chance.choice((1, 1, 1, 2)), nth)

    def _old_position(self) -> Position:
        era, offset, _ = self._held
        return Position(
            max(0, era - self._chance.randrange(2)), max(-1, offset + self._chance.randrange(-9, 4)), 0
        )

    def _plain(self) -> Iterator[Sent]:
        chance = self._chance
        for _ in range(chance.choice((1, 3, 30))):
            position = self._next()
            given: dict[str, Any] = {"op": chance.choice(("publish", "publish", "delta_publish"))}
            if chance.random() < 0.2:
                given["correlation"] = chance.choice(CORRELATIONS)
            if chance.random() < 0.2:
                given["numbers"] = {"p": (1, 0, 5)}
            if chance.random() < 0.1:
                given["expires"] = self._time + 5
            body = chance.choice((b"{}", b"", b'{"n":%d}' % position.offset))
            yield self._sent(self._change(position, body, **given))
            self._held = max(self._held, position)

    def _odd(self) -> Iterator[Sent]:
        """Messages that only Python reads, and a few that look like it."""
        chance, position = self._chance, self._next()
        key, body, headers = self._sent(self._change(position))
        about = headers[0] if headers else ("sow", b"")
        odd: list[Sent] = [
            (key, body, [about, ("traceparent", b"x")]),
            (key, body, [about, ("other", None)]),
            (key, body, [("sow", b"?"), about]),
            (key, body, [("sow.previous", None), about]),
            (None, body, [about]),
            (key, body, [(about[0], (about[1] or b"").replace(b"{", b"{ "))]),
            self._sent(self._change(position._replace(nth=2**31 - 1))),
            self._sent(self._change(position, origin=Origin(1, 5), outcome="deleted 1")),
            self._sent(self._change(position, None, op="expire", reason="expired", key_text="é")),
        ]
        yield chance.choice(odd)
        self._held = max(self._held, position)

    def _far(self) -> Iterator[Sent]:
        """The deletion of a record at a position that no column could hold."""
        yield self._sent(self._change(self._held._replace(offset=2**63 + 5), None, op=DELETE))

    def _deletes(self) -> Iterator[Sent]:
        """The changes of one log record, with what a stale owner writes in between."""
        chance, position = self._chance, self._next()
        count = chance.choice((1, 2, 5))
        for nth in range(count):
            position = position._replace(nth=nth)
            yield self._sent(self._change(position, None, op=DELETE, last=nth == count - 1))
            self._held = max(self._held, position)
            if chance.random() < 0.2:
                yield from self._stale()

    def _report(self, changes_id: str) -> Progress:
        position = self._held if self._chance.random() < 0.5 else self._next()
        after, self._held = self._held, max(self._held, position)
        return Progress(position, after, 0, {}, "digest", "log", self._time, {}, changes_id=changes_id)

    def _progress(self) -> Iterator[Sent]:
        chance = self._chance
        report = self._report(chance.choice(("", UNFILLED, TOPIC_ID, TOPIC_ID, "another")))
        yield self._sent(report._replace(is_catching_up=chance.random() < 0.2))

    def _stale(self) -> Iterator[Sent]:
        """Changes of an owner that does not know that it is none any more."""
        for _ in range(self._chance.choice((1, 1, 12))):
            body = self._chance.choice((b"{}", b'{"stale":1}', None))
            op = DELETE if body is None else "publish"
            yield self._sent(self._change(self._old_position(), body, op=op))

    def _again(self) -> Iterator[Sent]:
        """An event of a record, written again."""
        chance, position = self._chance, self._old_position()
        emitted_in = chance.choice((None, self._held.era, self._held.era + 1))
        if emitted_in is not None and emitted_in <= position.era:
            emitted_in = None
        yield self._sent(
            self._change(position, chance.choice((b"{}", None)), op=AGAIN, emitted_in=emitted_in)
        )

    def _era(self) -> Iterator[Sent]:
        self._held = Position(self._held.era + 1, self._chance.randrange(-1, 9))
        if self._chance.random() < 0.5:
            yield from self._progress()


class End(NamedTuple):
    """The news that a partition of the changes was read to its end."""

    number: int
    at: int

    def error(self) -> KafkaError:
        """Say so."""
        return KafkaError(KafkaError._PARTITION_EOF)

    def topic(self) -> str:
        """Return the topic."""
        return "orders.changes"

    def partition(self) -> int:
        """Return the partition."""
        return self.number

    def offset(self) -> int:
        """Return the end."""
        return self.at


class NoCluster:
    """A cluster whose topics stay the same, and which never answers what it is asked meanwhile."""

    def ask(self, topics: object) -> Any:
        """Return a question that stays open."""
        return SimpleNamespace(is_answered=False)

    def topic_id(self, topic: object) -> str:
        """Return Kafka's id of any topic."""
        return TOPIC_ID


class NoConsumer:
    """A consumer that only has news of ends."""

    ends: Sequence[End] = ()

    def poll(self, seconds: float) -> Any:
        """Return the news."""
        return self.ends[0]

    def consume(self, count: int, seconds: float) -> list[Any]:
        """Return nothing."""
        return []

    def get_watermark_offsets(self, *_: object, **__: object) -> tuple[int, int]:
        """Return that they are not known."""
        return -1, -1


class Loaded:
    """A follower of `orders`, which reads with a core, and the state that it fills."""

    def __init__(self, core: Any, targets: Sequence[int], has_indexes: bool) -> None:
        definition = define_topic(name="orders", key="/id", partitions=PARTITIONS)
        self.state = ServedTopics(Topics(topics=(definition.declared,)), ring_changes_max=50)
        self.topic = self.state.topics["orders"]
        if has_indexes:
            self.topic.rows.changed = set()
        self.runs = 0
        stop, cluster = threading.Event(), cast("Any", NoCluster())
        self._driver = AssignedChanges(cluster, [definition], stop)
        self._driver.consumer = self._consumer = cast("Any", NoConsumer())
        replicas = Replicas(self._take, self._loaded)
        self._follower = FollowedPartitions(
            [definition],
            cluster,
            self._driver,
            replicas,
            lambda function, *given: function(*given),
            stop,
            native=core,
        )
        for number, target in enumerate(targets):
            reader = ChangesReader(TOPIC_ID, 1000)
            reader.aim(target, time.monotonic())
            for readers in (self._driver.readers, self._driver.loading):
                readers[definition.changes, number] = reader

    def _take(self, batches: Batches) -> None:
        self.runs += sum(
            len(portion)
            for portions in batches.values()
            for portion in portions
            if isinstance(portion, PlainRun)
        )
        self.state.take(batches)

    def _loaded(self, partitions: Any) -> None:
        for _, number in partitions:
            self.topic.partitions[number].loaded()

    def read(self, messages: list[Message], end: tuple[int, int] | None) -> None:
        """Read messages; `end` is a partition whose end was reached, and that end."""
        self._follower.turn(messages)  # type: ignore[arg-type]
        if end is not None:
            self._consumer.ends = [End(*end)]
            self._follower.turn(self._driver.poll(1, 0))

    def seen(self) -> Any:
        """Return all that can be observed."""
        rows, follower = self.topic.rows, self._follower
        not_observed = ("_rows", "ring", "native_has_failed")
        captured = rows.capture(rows.all())
        columns = ("partitions", "eras", "offsets", "nths", "times", "read_at", "digests", "rows")
        loads = {
            number: (vars(load) | {"wholeness": vars(load.wholeness), "_aimed_at": None})
            for (_, number), load in self._driver.loading.items()
        }
        return {
            "broken": self.state.broken,
            "rows": (rows.numbers, rows.keys, rows.bodies, rows.rare, rows.changed, rows._free),
            "columns": {name: getattr(captured, name).tolist() for name in columns},
            "captured": (captured.keys, captured.bodies, captured.rare),
            "partitions": [
                vars(partition) | {"_newest": vars(partition._newest)} | dict.fromkeys(not_observed)
                for partition in self.topic.partitions.values()
            ],
            "rings": [list(partition.ring._changes) for partition in self.topic.partitions.values()],
            "loads": loads,
            "waiting": follower.waiting(),
        }


def life(seed: int, count: int = EVENTS_A_LIFE) -> Counter[str]:
    """Load and follow partitions with both cores; raise AssertionError where the replicas differ.

    Return the numbers of messages, and of changes that the native core has read.
    """
    chance = Random(seed)
    streams = [Writer(chance).messages(number, chance.randrange(count + 1)) for number in range(PARTITIONS)]
    targets = [chance.randrange(len(stream) + 5) for stream in streams]
    has_indexes = chance.random() < 0.5
    one, other = (Loaded(core, targets, has_indexes) for core in (native, None))
    counts = Counter[str](messages=sum(map(len, streams)))
    steps = {
        "sowline_query_service.replica.partition_replica.INDEX_STEP": chance.choice((1, 3, 500)),
        "sowline_query_service.replica.partition_replica.RUN_MIN": chance.choice((1, 1, 8)),
        "sowline.native.RUN_MAX": chance.choice((1, 1, 64)),
    }
    with ExitStack() as patches:
        for name, value in steps.items():
            patches.enter_context(patch(name, value))
        patches.enter_context(capture_logs())
        for batch, end in _batches(chance, streams):
            for loaded in (one, other):
                loaded.read(batch, end)
            _compare(one.seen(), other.seen())
    counts["native"] = one.runs
    assert other.runs == 0
    return counts


def _batches(
    chance: Random, streams: list[list[Message]]
) -> Iterator[tuple[list[Message], tuple[int, int] | None]]:
    """Yield the messages of all streams in batches, each stream in its order; and some ends that are reached."""
    left = [list(stream) for stream in streams]
    size = chance.choice((3, 30, 200))
    while any(left):
        batch: list[Message] = []
        for _ in range(chance.randrange(1, 4)):
            number = chance.randrange(len(left))
            cut = chance.randrange(size + 1)
            batch += left[number][:cut]
            del left[number][:cut]
        end = None
        if batch and chance.random() < 0.2:
            end = batch[-1].partition(), batch[-1].offset() + 1
        if batch:
            yield batch, end


def _compare(mine: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        assert mine[name] == value, name


@given(seed=st.integers(0, 10**9))
def test_native_replica_is_pythons(seed: int) -> None:
    """Whatever owners have written, in whatever batches; then both follow."""
    life(seed, 120)


def test_most_changes_are_read_by_the_native_core() -> None:
    """Otherwise the test before would compare Python with itself."""
    counts = sum((life(seed) for seed in range(30)), Counter[str]())
    assert counts["native"] > counts["messages"] / 3


def plain(offset: int, key: bytes = b"1", position: Position | None = None, **given: Any) -> Message:
    """Return the message of a plain change."""
    position = position or Position(0, offset)
    after = Position(position.era, position.offset - 1)
    change = Change(key, b"{}", None, position, after, "publish", 1000 + offset, **given)
    _, name, body, headers, *_ = written(offset, change)
    return Message(0, offset, name, body, headers)


def run_of(messages: list[Message]) -> PlainRun:
    """Return messages as a run."""
    ((portions,),) = [
        list(MessageReader(native).read(messages, {("orders.changes", 0)}).values())  # type: ignore[arg-type]
    ]
    (run,) = portions
    assert isinstance(run, PlainRun)
    return run


FAR = 2**63 + 5


@pytest.mark.parametrize(
    "newest", [Position(0, FAR), Position(0, -FAR), Position(FAR, 0), Position(0, 1, FAR)]
)
def test_positions_beyond_64_bits(newest: Position) -> None:
    """They compare as they are, and stay if they are the newest."""
    messages = [plain(offset) for offset in range(3)]
    one, other = Wholeness(), Wholeness()
    far = Change(b"far", b"{}", None, newest, before_the_log(), "publish", 1000)
    for wholeness in (one, other):
        wholeness.saw([far], [0])
    run = run_of(messages)
    one.saw_plain(run.changes)
    events = list(run)
    other.saw([event for _, event in events], [offset for offset, _ in events])
    assert vars(one) == vars(other)


@pytest.mark.parametrize("rank", [(FAR, Position(0, 0)), (0, Position(0, FAR)), (0, Position(0, -FAR))])
def test_ranks_beyond_64_bits(rank: Any) -> None:
    """A deletion at such a position outranks every plain change, and the other way round."""
    messages = [plain(offset) for offset in range(10)]
    one, other = (Loaded(core, [99, 99], False) for core in (native, None))
    for loaded in (one, other):
        partition = loaded.topic.partitions[0]
        partition._newest.ranks[b"1"] = rank
        partition._newest.era, partition.position, partition._index = 0, rank[1], [(rank[1], 0)]
        loaded.read(messages, None)
    assert one.runs == 10
    _compare(one.seen(), other.seen())


def test_only_some_topics_are_plain() -> None:
    """A history, timelines and deltas need all fields of a change; what is never compacted has no rows."""

    def of(**given: Any) -> bool:
        return is_plain(define_topic(**{"name": "orders", "key": "/id", **given}))

    assert of()
    assert not of(history={"window": "1h", "granularity": "1s"})
    assert not of(documents=True)
    assert not of(delta=True)
    assert not is_plain(define_topic(name="orders", sow=False))


class Panicking:
    """Plain changes that fail when they are loaded."""

    def __init__(self, messages: MessageColumns, start: int) -> None:
        self._changes = native.PlainChanges(messages, start)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._changes, name)

    def __len__(self) -> int:
        return len(self._changes)

    load = panic


def test_a_panic_leaves_the_run_to_python() -> None:
    """Whether the native core fails where it reads changes, which ends its use, or where it puts them into rows."""
    messages = [plain(offset, b"%d" % (offset % 4)) for offset in range(20)]
    for core, runs, lines in ((panic, 0, 1), (Panicking, 20, 1)):
        expected = Loaded(None, [99, 99], False)
        mine = Loaded(type("Module", (), {"PlainChanges": core}), [99, 99], False)
        with capture_logs() as logs:
            for batch in (messages[:10], messages[10:]):
                mine.read(batch, None)
                expected.read(batch, None)
        assert (mine.runs, [line["event"] for line in logs]) == (runs, ["native core failed"] * lines)
        _compare(mine.seen(), expected.seen())


def test_rows_find_no_room_missing() -> None:
    """Rows that a run makes, rows that are free, and rows that come one by one share their columns."""
    rows, partition = Rows(), 7
    for key in (b"x", b"1"):
        rows.put(key, b"{}", 1, Position(0, 0), 5)
    rows.remove(b"x")
    run = run_of([plain(offset, b"%d" % (offset % 300), Position(1, offset)) for offset in range(600)])
    rows.load(run.changes, partition, LoadBefore({}, 0, None, 0), 500)
    rows.put(b"y", b"{}", 2, Position(0, 1), 6)
    assert rows.numbers == {b"1": 1, b"0": 0, **{b"%d" % n: n for n in range(2, 300)}, b"y": 300}
    held = rows.capture(rows.all())
    assert held.partitions.tolist() == [7] * 300 + [2]
    assert held.offsets.tolist() == [300, 301, *range(302, 600), 1]
    assert len(held.times) == len(held.read_at) == rows.end


def test_events_of_portions() -> None:
    """All of them, in their order; what has no runs stays as it is."""
    run = run_of([plain(offset) for offset in range(3)])
    events: list[Portion] = list(run)
    assert [offset for offset, _ in events_of([run, *events[:1]])] == [0, 1, 2, 0]
    assert events_of(events) is events
