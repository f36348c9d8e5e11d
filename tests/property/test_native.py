"""The native core does what Python does: the same events, stored bytes, due times, checksums and refusals."""

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.changes.progress import Progress
from sowline.codecs.resolutions import Resolution, Resolutions, entry_value, id_key, reader_key
from sowline.codecs.typed_bodies import TypedBodies
from sowline.commands.command import Headers, LogRecord
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.model.log_time import CREATE_TIME, LOG_APPEND_TIME, NO_TIME_TYPE, TIME_MAX
from sowline_materializer.batch_trace import BatchTrace
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.partition import Partition, Prepared
from sowline_materializer.store.cache import RecordCache
from sowline_materializer.store.checksum import Checksum
from sowline_materializer.store.integrity import survey
from sowline_materializer.store.native_overlay import NativeOverlay
from sowline_materializer.store.write_behind import WriteBehindStore
from tests.memory_store import MemoryStore
from tests.panics import panic
from tests.property.test_supplied_model import ById

native: Any = pytest.importorskip("sowline_native")

Sent = tuple[bytes | None, int, Headers | None]
"""A body, the ms since the record before, and headers."""

KEYS: st.SearchStrategy[Any] = st.one_of(
    st.integers(0, 3),
    st.sampled_from(
        ["0", "1", "a", "", "é", 'a"b', "a\\b", "\x7f", "x" * 300, "x" * 1100, True, False, None, 1.5, [], {}]
    ),
    st.sampled_from([-0.0, -1, 10**17, 10**18, 2**63, 2**64, -(10**17)]),
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=5),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.fixed_dictionaries(
    {"id": KEYS},
    optional={
        "a": VALUES,
        "b": VALUES,
        "o": st.dictionaries(st.sampled_from(["a", "b", "é", 'q"', "b\\"]), VALUES, max_size=3),
    },
)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """Draw an object as text, with spaces, escapes and names that come again."""
    fields = list(draw(OBJECTS).items())
    if draw(st.booleans()):
        fields = draw(st.permutations(fields))
    if draw(st.integers(0, 9)) == 0:
        fields += draw(st.lists(st.sampled_from(fields), max_size=2))
    space = draw(st.sampled_from(["", "", "", " ", "\n\t ", "\r"]))
    is_ascii = draw(st.booleans())
    parts = [
        f"{json.dumps(name, ensure_ascii=is_ascii)}{space}:{space}{json.dumps(value, ensure_ascii=is_ascii)}"
        for name, value in fields
    ]
    return (space + "{" + space + f"{space},{space}".join(parts) + space + "}" + space).encode(
        "utf-8", "surrogatepass"
    )


ODD_BODIES = st.sampled_from(
    [
        b"",
        b"{",
        b"{}",
        b"[]",
        b"null",
        b'{"id":1}x',
        b'{"id":01}',
        b'{"id":-0}',
        b'{"id":1,}',
        b'{"id":1,"a":1e400}',
        b'{"id":1,"a":1E5,"b":1.0e-7,"c":-0.0}',
        b'{"id":1,"a":' + b"1" * 400 + b"}",
        b'{"id":1,"a":"\xff"}',
        b'{"id":1,"a":"\xed\xa0\x80"}',
        b'{"id":1,"a":"\\ud800"}',
        b'{"id":1,"a":"\\ud83d\\ude00"}',
        b'{"id":1,"a":"\\u0041\\n\\/"}',
        b'{"id":1,"a":"\x01"}',
        b'{"id":1,"\\u0061":1}',
        b'{"i\\u0064":1}',
        b'{"id":1,"a":NaN}',
        b'{"id":1,"a":' + b"[" * 120 + b"]" * 120 + b"}",
        b'{"id":1,"a":' + b'{"a":' * 99 + b"1" + b"}" * 99 + b"}",
        b'{"id":1,"a":"' + b"x" * 1200 + b'"}',
        b"{" + b",".join(b'"f%d":1' % n for n in range(70)) + b',"id":1}',
        b'\xef\xbb\xbf{"id":1}',
        b'{"id":truth}',
        b'{"id":{"id":1}}',
    ]
)
PLAIN_HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "sow.command": st.sampled_from([b"publish", b"sow_delete", b"delta_publish", b"delta_publish"]),
        "sow.correlation": st.sampled_from([b"c1", b"two words", b'q"', "é".encode(), b"", b"x" * 251]),
        "sow.expiration": st.sampled_from(
            [
                b"1",
                b"0",
                b"0.0",
                b"0.0004",
                b"2.5",
                b"1.0005",
                b"0.0025",
                b"1e3",
                b"-1",
                b"9999999999",
                b"1.",
                b".5",
            ]
        ),
        "other": st.sampled_from([b"x", None]),
    },
)
NUMBERED = st.fixed_dictionaries(
    {
        "sow.publisher": st.sampled_from([b"p", b"q", b"r s", b"]}", b"a,b"]),
        "sow.sequence": st.sampled_from([b"1", b"2", b"3", b"4.1", b"4.2", b"5", b"x", b"00006", b"1" * 19]),
    }
)
MANY_PUBLISHERS = st.fixed_dictionaries(
    {
        "sow.publisher": st.integers(0, 11).map(lambda n: b"p%d" % n),
        "sow.sequence": st.integers(0, 5).map(lambda n: b"%d" % n),
    }
)
RARE_HEADERS = st.sampled_from(
    [
        [("sow.command", b"sow_delete")],
        [("sow.command", b"sow_delete"), ("sow.filter", b"/a IS NOT NULL")],
        [("sow.command", b"sow_delete"), ("sow.filter", b"1=1")],
        [("sow.command", b"define")],
        [("sow.command", b"nonsense")],
        [("sow.publisher", b"p")],
        [("sow.origin", b"log:1@1")],
        [("sow.origin", b"log:1@2")],
        [("sow.origin", b"other:1@2")],
        [("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")],
        [("sow.command", b"publish"), ("sow.command", b"delta_publish")],
        [("sow.command", None)],
        [("sow.command", b"expire")],
        [("sow.guard", b"1")],
        [("sow.command", b"expire"), ("sow.guard", b"-1")],
        [("sow.command", b"expire"), ("sow.guard", b"0/1.0")],
        [("sow.command", b"expire"), ("sow.guard", b"1"), ("sow.correlation", b"c")],
    ]
)
HEADERS = st.one_of(
    st.none(),
    st.just([]),
    PLAIN_HEADERS.map(lambda named: list(named.items())),
    st.tuples(PLAIN_HEADERS, NUMBERED).map(lambda both: list((both[0] | both[1]).items())),
    MANY_PUBLISHERS.map(lambda named: list(named.items())),
    RARE_HEADERS,
)
ENRICHMENTS = [
    ["/a * 2 AS /v"],
    ["/a + 1 AS /v HINT OPTIONAL", "/b AS /o/w HINT OPTIONAL"],
    ["/a AS /a HINT OPTIONAL HINT SET_CURRENT", "CONCAT(/a, '!') AS /text"],
    ["COALESCE(/n OF PREVIOUS, 0) + 1 AS /n", "/a OF PREVIOUS AS /was HINT OPTIONAL"],
    ["CONCAT(SOW_KEY(), ' ', BOOKMARK(), ' ', CORRELATION_ID()) AS /about"],
    ["MESSAGE_SIZE() AS /size", "LAST_UPDATED() AS /before", "UNIX_TIMESTAMP() AS /o/now"],
]
KAFKA_KEY: Any = {"from": "kafka_key"}
LIMITS = st.fixed_dictionaries(
    {
        "key": st.sampled_from(
            ["/id", "/id", "/id", ["/id", "/a"], "/o/a", ["/o/a", "/id", "/o/b/a"], KAFKA_KEY]
        )
    },
    optional={
        "partitions": st.sampled_from([1, 2]),
        "expiration": st.sampled_from(["enabled", "1s", "disabled"]),
        "repeat_window": st.sampled_from(["5ms", "100ms"]),
        "record_bytes_max": st.sampled_from([1024, 100_000]),
        "records_max": st.sampled_from([2, 4]),
        "delta": st.booleans(),
        "enrichment": st.sampled_from(ENRICHMENTS),
    },
)
ODD = st.tuples(st.one_of(texts(), texts(), texts(), ODD_BODIES, st.none()), st.integers(-2, 30), HEADERS)
PLAIN_BODIES = st.fixed_dictionaries(
    {"id": st.integers(0, 3), "a": VALUES}, optional={"o": st.dictionaries(st.sampled_from("ab"), VALUES)}
)
PLAIN = st.tuples(
    st.none()
    | PLAIN_BODIES.map(lambda body: json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")),
    st.integers(-2, 30),
    st.one_of(
        st.none(),
        st.just([("sow.command", b"delta_publish")]),
        st.tuples(st.sampled_from([b"p", b"q"]), st.integers(0, 9)).map(
            lambda pair: (
                [("sow.publisher", pair[0]), ("sow.sequence", b"%d" % pair[1])]
                + [("sow.command", b"sow_delete")] * (pair[1] % 3 == 2)
            )
        ),
        st.integers(0, 9).map(lambda offset: [("sow.origin", b"log:1@%d" % offset)]),
        st.tuples(st.integers(0, 3), st.integers(0, 9)).map(
            lambda pair: [
                ("sow.publisher", b"p"),
                ("sow.sequence", b"%d" % pair[0]),
                ("sow.origin", b"log:2@%d" % pair[1]),
            ]
        ),
        st.just([("sow.correlation", b"c"), ("sow.expiration", b"0.02"), ("sow.command", b"delta_publish")]),
        st.integers(0, 9).map(lambda guard: [("sow.command", b"expire"), ("sow.guard", b"%d" % guard)]),
    ),
)
RECORDS = st.lists(st.one_of(PLAIN, PLAIN, PLAIN, ODD), max_size=25)


AT_ONCE: dict[str, Any] = {
    "cuts": [],
    "discarded": False,
    "run_max": 1,
    "producers": {},
    "kafka_keys": [None],
}
"""An example in one batch, without Kafka keys and with the broker's times."""

CACHES = (0, 300, 2_000, 1 << 20)
"""Bytes for records in memory: none stays after a commit, one or two do, or all."""


def partition_of(
    definition: TopicDefinition,
    module: Any,
    cache: RecordCache | None = None,
    disk: MemoryStore | None = None,
) -> tuple[Partition, MemoryStore]:
    """Return a partition with nothing in it, except for what `disk` has."""
    disk = disk or MemoryStore()
    checkpoint = Checkpoint(definition=definition.digest, limits=definition.limits, log_id="log")
    opened = OpenedPartition(disk, checkpoint, checkpoint.position)
    store = WriteBehindStore(disk, module)
    return Partition(definition, 0, opened, cache, store, module, bodies_of(definition)), disk


def bodies_of(definition: TopicDefinition) -> TypedBodies | None:
    """Return what reads the messages of a topic; None for JSON.

    Schema 1 is the reader schema, and schema 2 does not exist.
    """
    reader, resolutions = definition.reader, Resolutions()
    if reader is None:
        return None
    resolutions.add(reader_key(reader.digest), entry_value(Resolution(reader)))
    resolutions.add(id_key(1), entry_value(Resolution(reader)))
    resolutions.add(id_key(2), entry_value(Resolution(None)))
    return TypedBodies(reader.type, definition.framing, resolutions)


def log_records(records: Sequence[tuple[Any, ...]]) -> Any:
    """Return log records as the native core reads them."""
    return native.LogRecords([native.LogRecord(*record) for record in records])


def output_of(definition: TopicDefinition, prepared: Prepared) -> Any:
    """Return all that a batch writes to Kafka."""
    step, declared, keys = prepared.step, definition.declared, definition.key_fields
    events = [
        (event.key, event.value(), None)
        if isinstance(event, Progress)
        else (event.sow_key, event.value, event.headers(event.delta(keys) if declared.delta else None))
        for event in prepared.events
    ]
    ops = [(change.op, change.position, change.previous) for change in step.changes]
    dead = [(fields_of(letter.record), letter.reason, letter.message) for letter in step.dead]
    forwards = [(one.partition, fields_of(one.record), one.origin) for one in step.forwards]
    return (
        events,
        ops,
        list(step.outcomes.items()),
        dead,
        forwards,
        step.unreported,
        step.tombstones,
        step.commands,
    )


def state_of(disk: MemoryStore) -> Any:
    """Return all that a store holds."""
    return disk.checkpoint(), disk.checksum(), dict(disk.scan()), list(disk.expiries())


def apply_alike(one: Partition, other: Partition, records: list[tuple[Any, ...]], end: int) -> Prepared:
    """Let the native core and Python's apply the same log records and commit them; return what the native core made.

    `end` is the end of the changes before. Raise AssertionError where the cores differ.
    """
    mine = one.prepare(log_records(records), 100)
    expected = other.prepare([LogRecord(*record) for record in records], 100)
    assert output_of(one.definition, mine) == output_of(one.definition, expected), "events"
    for partition, prepared in ((one, mine), (other, expected)):
        partition.commit(prepared, end + len(mine.events))
    assert one.checkpoint == other.checkpoint, "checkpoints"
    return mine


def fields_of(record: LogRecord) -> Any:
    """Return the fields of a log record of either kind."""
    return record.offset, record.time, record.key, record.value, record.headers, record.time_type


KAFKA_KEYS = st.sampled_from(
    [b"1", b"2", b"two words", None, b"", "é".encode(), b"\x7f", b"\x00", b"\xff", b"x" * 255, b"x" * 256]
)
PRODUCERS_TIMES = st.tuples(
    st.sampled_from([NO_TIME_TYPE, CREATE_TIME, LOG_APPEND_TIME]),
    st.sampled_from([-1, 0, 900, 1005, 5000, TIME_MAX, TIME_MAX + 1, 2**63 - 1]),
)
"""Whose time a log record has, and the time."""


@given(
    limits=LIMITS,
    sent=RECORDS,
    cuts=st.lists(st.integers(0, 25), max_size=4),
    discarded=st.booleans(),
    run_max=st.sampled_from([1, 1, 1, 64]),
    producers=st.dictionaries(st.integers(0, 25), PRODUCERS_TIMES, max_size=4),
    kafka_keys=st.lists(KAFKA_KEYS, min_size=1, max_size=4),
)
@example(
    limits={"key": "/id"},
    sent=[
        (b'{"id":1,"a":{"b":1}}', 0, None),
        (b'{"id":1,"a":{"c":2}}', 0, [("sow.command", b"delta_publish")]),
    ],
    **AT_ONCE,
)
@example(
    limits={"key": ["/o/a", "/id"]},
    sent=[
        (b'{"id":1,"o":{"a":"x"}}', 0, None),
        (b'{"id":"1","o":{"a":"y","a":"x"},"b":2}', 0, [("sow.command", b"delta_publish")]),
        (b'{"id":true,"o":{"a":""}}', 0, None),
        (b'{"id":1,"o":{"\\u0061":"x"}}', 0, None),
        (b'{"id":1,"o":"a"}', 0, None),
    ],
    **AT_ONCE,
)
@example(
    limits={"key": "/id"},
    sent=[
        (b'{"id":%d}' % partition, 0, [("sow.origin", b"log:%d@1" % partition)])
        for partition in (3, 1, 4, 2, 5)
    ],
    **AT_ONCE,
)
@example(
    limits={"key": ["/a", "/a/b"], "delta": True, "documents": True},
    sent=[
        (b'{"a":"x","q":1}', 0, [("sow.command", b"delta")]),
        (b'{..,"q":2}', 0, [("sow.command", b"delta")]),
    ],
    cuts=[],
    discarded=False,
    run_max=1,
    producers={},
    kafka_keys=[b'["x","y"]'],
)
@example(
    limits={"key": "/id", "expiration": "1s"},
    sent=[
        (b'{"id":1}', 0, None),
        (b'{"id":2}', 5, [("sow.publisher", b"p"), ("sow.sequence", b"1")]),
        (b'{"id":3}', 0, None),
    ],
    cuts=[],
    discarded=False,
    run_max=1,
    producers={1: (CREATE_TIME, 5000), 2: (CREATE_TIME, TIME_MAX + 1)},
    kafka_keys=[None],
)
def test_native_is_python(
    limits: dict[str, Any],
    sent: list[Sent],
    cuts: list[int],
    discarded: bool,
    run_max: int,
    producers: dict[int, tuple[int, int]],
    kafka_keys: list[bytes | None],
) -> None:
    """Whatever comes, in whatever batches."""
    with patch("sowline.native.RUN_MAX", run_max):
        check(limits, sent, cuts, discarded, producers, kafka_keys)


def check(
    limits: dict[str, Any],
    sent: list[Sent],
    cuts: list[int],
    discarded: bool,
    producers: dict[int, tuple[int, int]] | None = None,
    kafka_keys: Sequence[bytes | None] = (None,),
) -> None:
    """Apply log records with both cores, and compare all that they write.

    `producers` has the times of log records that are not the broker's, by offset. The log records have the Kafka keys
    by turns; a delete without a body has one in any case.
    """
    definition = define_topic(**{"name": "orders", **limits})
    cache = RecordCache(lambda: CACHES[len(sent) % len(CACHES)])
    (one, disk), (other, other_disk) = partition_of(definition, native, cache), partition_of(definition, None)
    assert (one.core, other.core) == ("native", "python")
    time, records = 1000, []
    for offset, (body, later, headers) in enumerate(sent):
        time += later
        time_type, own = (producers or {}).get(offset, (LOG_APPEND_TIME, time))
        key = kafka_keys[offset % len(kafka_keys)] or (b"1" if body is None else None)
        records.append((offset, own, key, body, headers, time_type))
    bounds = [0, *sorted(min(cut, len(records)) for cut in cuts), len(records)]
    end = 0
    for start, stop in pairwise(bounds):
        if discarded:
            one.prepare(log_records(records[start:stop]), 100)
        end += len(apply_alike(one, other, records[start:stop], end).events)
        assert list(one.due(time + 500)) == list(other.due(time + 500))
    assert one.core == "native"
    for partition in (one, other):
        partition.close()
    assert state_of(disk) == state_of(other_disk)
    assert survey(disk).checksum == disk.checksum()


def test_a_panic_leaves_the_batch_to_python() -> None:
    """Nothing of it is kept, and Python applies it and all that follow."""

    class Panicking:
        """A core that fails after the first change."""

        def __init__(self, *given: Any) -> None:
            self._core = native.Core(*given)

        def __getattr__(self, name: str) -> Callable[..., Any]:
            return getattr(self._core, name)  # type: ignore[no-any-return]

        def apply(self, records: list[LogRecord], *given: Any) -> Any:
            self._core.apply(records[:1], *given)
            panic()

    definition = define_topic(name="orders", key="/id")
    (one, _), (other, _) = (
        partition_of(definition, type("Module", (), vars(native) | {"Core": Panicking})),
        partition_of(definition, None),
    )
    batch = [(n, 1, None, b'{"id":%d}' % n, None) for n in range(3)]
    mine = one.prepare(log_records(batch), 3)
    theirs = other.prepare([LogRecord(*record) for record in batch], 3)
    assert output_of(definition, mine) == output_of(definition, theirs)
    assert one.core == "python"


class Reading:
    """A partition of the native core, and what it reads from its store."""

    def __init__(self, cache: RecordCache, disk: MemoryStore) -> None:
        definition = define_topic(name="orders", key="/id")
        self._partition, self._disk = partition_of(definition, native, cache, disk)
        self._reads: list[list[bytes]] = []
        disk.get_many = self._read_many  # type: ignore[assignment, method-assign]

    def _read_many(self, keys: list[bytes]) -> list[bytes | None]:
        self._reads.append(keys)
        return [self._disk.get(key) for key in keys]

    def publish(self, *numbers: int) -> list[int]:
        """Publish records; return how many were read at once, each once."""
        offset = self._partition.checkpoint.next_offset
        batch = [(offset + n, 1, None, b'{"id":%d}' % id, None) for n, id in enumerate(numbers)]
        self._partition.commit(self._partition.prepare(log_records(batch), 0), 0)
        sizes = [len(keys) for keys in self._reads]
        assert len({key for keys in self._reads for key in keys}) == sum(sizes)
        self._reads.clear()
        return sizes


def test_records_of_many_keys_are_read_together() -> None:
    """Each once. While most of them are in memory, few are looked for ahead."""
    disk = MemoryStore()
    disk.commit({b"other": b"is not in memory"}, Checksum.of(1, 7), b"")
    publish = Reading(RecordCache(lambda: 1 << 20), disk).publish
    first = publish(*range(300), *range(300))
    assert (first[:5], sum(first)) == ([2, 3, 5, 9, 17], 300)
    assert publish(*range(300)) == []
    assert sum(publish(*(n if n % 60 else 1000 + n for n in range(300)))) == 5
    for one_new in range(2000, 2010):
        assert publish(one_new, *range(300)) == [1]
    assert publish(*range(3000, 3100))[0] < 8


def test_a_store_whose_records_are_all_in_memory_is_not_read() -> None:
    """Until one of them is no longer in memory."""
    bytes_max = [1 << 20]
    publish = Reading(RecordCache(lambda: bytes_max[0]), MemoryStore()).publish
    assert publish(0) == [1]
    assert publish(*range(300)) == []
    bytes_max[0] = 1 << 12
    assert publish(*range(300, 310)) == []
    assert sum(publish(*range(400, 410))) == 10
    bytes_max[0] = 1 << 20
    # The others wait for the next flush.
    assert sum(publish(*range(410))) == 90
    assert publish(*range(500, 510)) == []


@pytest.mark.parametrize("key", ["/id", ["/id", "/o/a"], "/o/a", KAFKA_KEY])
def test_keys_are_not_left_to_python(key: Any) -> None:
    """One field or several, wherever they are, or the Kafka key."""
    partition, _ = partition_of(define_topic(name="orders", key=key), native)
    batch: list[tuple[Any, ...]]
    batch = [(n, 1, b"%d" % n, b'{"id":%d,"o":{"a":"x%d"}}' % (n, n), None) for n in range(9)]
    batch += [(n + 9, 1, b"%d" % n, batch[n][3], [("sow.command", b"sow_delete")]) for n in range(9)]
    with patch.object(NativeOverlay, "apply", autospec=True, side_effect=NativeOverlay.apply) as apply:
        partition.prepare(log_records(batch), 0)
    (first,) = apply.call_args_list
    assert first.args[2] == 0


@example('{"id":1,"a":1,"o":{"b":2,"c":3}}', '{"id":1,"a":2,"o":{"b":2}}')
@example('{"id":1,"a":[1, 2]}', '{"id":1,"a":[1,2]}')
@example('{"id":1,"a":0}', '{"id":1,"a":-0}')
@example('{"id":1,"q/":0}', '{"id":1}')
@given(OBJECTS.map(json.dumps), OBJECTS.map(json.dumps))
def test_what_a_publish_changes(before: str, now: str) -> None:
    """Two bodies of one record have the delta that Python finds, or are left to it."""
    definition = define_topic(name="orders", key="/o/a", delta=True)
    batch = [
        (n, 1, None, json.dumps({"o": {"a": 1}} | json.loads(body) | {"k": n}).encode(), None)
        for n, body in enumerate([before, now, before])
    ]
    (one, _), (other, _) = partition_of(definition, native), partition_of(definition, None)
    apply_alike(one, other, batch, 0)


def test_forwards_are_not_left_to_python() -> None:
    """What belongs to another partition is forwarded, and what came from there is applied once."""
    partition, _ = partition_of(define_topic(name="orders", key="/id", partitions=2), native)
    batch = [(n, 1, None, b'{"id":%d}' % n, None) for n in range(20)]
    with patch.object(NativeOverlay, "apply", autospec=True, side_effect=NativeOverlay.apply) as apply:
        step = partition.prepare(log_records(batch), 0).step
        forwarded = {forward.record.offset: str(forward.origin) for forward in step.forwards}
        assert len(forwarded) + len(step.changes) == 20
        assert forwarded == {int(offset): f"log:0@{offset}" for offset in step.outcomes}
        own = [change.position.offset for change in step.changes]
        copies = [
            (n, 1, None, batch[offset][3], [("sow.origin", b"log:1@%d" % (100 + n))])
            for n, offset in enumerate(own)
        ]
        assert len(partition.prepare(log_records(copies), 0).step.changes) == len(own)
    assert len(apply.call_args_list) == 2


def test_deltas_of_changes_are_not_left_to_python() -> None:
    """Fields that change, appear, leave and move between objects and other values."""
    bodies = [b'{"id":1,"a":1,"o":{"b":1}}', b'{"id":1,"o":{"b":2,"c":[1]}}', b'{"id":1,"a":"x","o":5}']
    partition, _ = partition_of(define_topic(name="orders", key="/id", delta=True), native)
    batch = [(n, 1, None, body, None) for n, body in enumerate(bodies)]
    first, *updates = partition.prepare(log_records(batch), 0).step.changes
    headers = [dict(update.headers()) for update in updates]
    assert all(isinstance(change, native.Change) for change in (first, *updates))
    assert [header["sow.delta"] for header in headers] == [
        b'{"id":1,"o":{"b":2,"c":[1]}}',
        b'{"id":1,"a":"x","o":5}',
    ]
    assert b'"removed":["/a"]' in (headers[0]["sow"] or b"")


def test_expiries_are_not_left_to_python() -> None:
    """A record that is due is removed, and the owner learns of its command; one that was updated since stays."""
    definition = define_topic(name="orders", key="/id", expiration="1s")
    (one, _), (other, _) = partition_of(definition, native), partition_of(definition, None)
    batch: list[tuple[Any, ...]] = [
        (0, 1000, None, b'{"id":1}', None),
        (1, 1000, None, b'{"id":2}', [("sow.publisher", b"p"), ("sow.sequence", b"1")]),
        (2, 2000, b"1", None, [("sow.command", b"expire"), ("sow.guard", b"0")]),
        (3, 2000, b"2", None, [("sow.command", b"expire"), ("sow.guard", b"1")]),
        (4, 2000, b"1", None, [("sow.command", b"expire"), ("sow.guard", b"0")]),
    ]
    prepared = apply_alike(one, other, batch, 0)
    assert [change.op for change in prepared.step.changes] == ["publish", "publish", "expire", "expire"]
    assert all(isinstance(change, native.Change) for change in prepared.step.changes)
    assert [record.offset for record in prepared.step.others] == [2, 3, 4]


def test_a_trace_context_is_not_left_to_python() -> None:
    """The change goes on with it."""
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
    partition, _ = partition_of(define_topic(name="orders", key="/id"), native)
    headers = [("traceparent", parent.encode())]
    batch = [(0, 1, None, b'{"id":1}', headers), (1, 1, None, b'{"id":2}', None)]
    prepared = partition.prepare(log_records(batch), 0)
    events = BatchTrace().traced(partition, prepared, 0).events
    assert all(isinstance(event, native.Change) for event in events)
    sent: list[list[Any]] = native.messages(events, 0, 2).headers
    assert [header[0] for header in sent[0]] == ["sow", "traceparent"]
    assert sent[0][1] == ("traceparent", parent.encode())
    assert [header[0] for header in sent[1]] == ["sow"]


def test_a_topic_that_is_not_plain_is_pythons() -> None:
    """Keys in headers."""
    definition = define_topic(name="orders", key={"from": "header"})
    assert partition_of(definition, native)[0].core == "python"


OTHERS: list[dict[str, Any]] = [
    {"key": "/id", "documents": True},
    {"key": ["/id", "/a"]},
    {"key": {"from": "kafka_key"}},
    {"key": {"from": "header"}},
    {"key": {"generator": "by-id", "options": {"span": "40"}}},
]


@given(sent=st.lists(ODD, max_size=12), given=st.sampled_from(OTHERS))
def test_python_takes_log_records_of_the_native_core(sent: list[Sent], given: dict[str, Any]) -> None:
    """In topics that the native core does not know, they are as good as Python's."""
    with patch("sowline.commands.key_rule.load_generator", lambda name, options: ById(options)):
        definition = define_topic(**{"name": "orders", "partitions": 3, **given})
        (one, _), (other, _) = partition_of(definition, native), partition_of(definition, None)
        records, time = list[tuple[Any, ...]](), 1000
        for offset, (body, later, headers) in enumerate(sent):
            time += later
            records.append((offset, time, b"1", body, headers))
        mine = one.prepare(log_records(records), 100)
        theirs = other.prepare([LogRecord(*record) for record in records], 100)
        assert output_of(one.definition, mine) == output_of(one.definition, theirs)


def test_messages_become_log_records_by_partition() -> None:
    """In their order; those of a partition that moved away are left out, and partitions without any."""
    headers = [("sow.command", b"delta_publish"), ("other", None)]
    records = [
        (n, 1000 + n, None if n % 2 else b"k", b"{}" if n % 3 else None, headers if n > 3 else None, n % 3)
        for n in range(6)
    ]
    topics, numbers = ["orders"] * len(records), [n % 3 for n in range(len(records))]
    offsets, times, keys, values, all_headers, types = (list(column) for column in zip(*records, strict=True))
    stamps = list(zip(types, times, strict=True))
    owned = {("orders", 0): None, ("orders", 2): None, ("orders", 3): None, ("bids", 1): None}
    found = native.by_partition(topics, numbers, offsets, stamps, keys, values, all_headers, owned)
    assert {partition: [fields_of(one) for one in batch] for partition, batch in found.items()} == {
        ("orders", 0): [records[0], records[3]],
        ("orders", 2): [records[2], records[5]],
    }
