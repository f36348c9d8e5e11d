"""The native core does what Python does: the same events, stored bytes, due times, checksums and refusals."""

import json
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.commands.command import LogRecord
from sowline.config.topic_definition import define_topic
from sowline.model.log_time import CREATE_TIME, TIME_MAX
from sowline_materializer.batch_trace import BatchTrace
from sowline_materializer.store.cache import RecordCache
from sowline_materializer.store.checksum import Checksum
from sowline_materializer.store.native_overlay import NativeOverlay
from tests.memory_store import MemoryStore
from tests.panics import panic
from tests.property.log_inputs import (
    KAFKA_KEY,
    KAFKA_KEYS,
    LIMITS,
    OBJECTS,
    ODD,
    PRODUCERS_TIMES,
    RECORDS,
    Sent,
)
from tests.property.test_supplied_model import ById
from tests.property.two_cores import (
    apply_alike,
    check,
    fields_of,
    log_records,
    native,
    output_of,
    partition_of,
)

AT_ONCE: dict[str, Any] = {
    "cuts": [],
    "discarded": False,
    "run_max": 1,
    "producers": {},
    "kafka_keys": [None],
}
"""An example in one batch, without Kafka keys and with the broker's times."""


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
