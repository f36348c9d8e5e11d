"""Documents from every recovery source: neither compaction after any prefix nor a copy that follows changes them."""

from dataclasses import replace

import orjson
from hypothesis import given
from hypothesis import strategies as st

from sowline.changes.change import Change
from sowline.changes.event import Event, read_event
from sowline.commands.command import Headers, LogRecord
from sowline.config.topic_definition import define_topic
from sowline.language.emodb import same
from sowline.model.limits import define_value
from sowline.model.position import Position
from sowline_materializer.core.applier import Applier
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.documents import Documents
from sowline_materializer.core.record import Record, decode_record
from sowline_materializer.partition.changes_follower import ChangesFollower
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.partition import Partition, progress_of
from sowline_materializer.store.overlay import Overlay
from tests.memory_store import MemoryStore

DEFINITION = define_topic(
    name="reviews", key="/id", documents=True, template={"type": "review"}, repeat_window="1s"
)
START = Position(0, -1)
DELTAS = (
    '{"n":1}',
    '{..,"n":2}',
    '{..,"tags":(..,"x")}',
    "~",
    "..",
    'if intrinsic("~deleted":true) then {"back":1} end',
    'if {..,"n":1} then {..,"n":~}? end',
    "[1]",
)

write = st.tuples(st.sampled_from("abc"), st.sampled_from(DELTAS), st.sampled_from(("", "t", "t,u")))
delete = st.tuples(st.sampled_from("abc"), st.none(), st.none())
TEMPLATES = ('{"type":"review"}', '{"n":1}', '{"n":2,"tags":[]}', None)
define = st.tuples(st.just(""), st.sampled_from(TEMPLATES), st.none())
writes_of = st.lists(st.one_of(write, delete, define), max_size=12)


def log_of(writes: list[tuple[str, str | None, str | None]]) -> list[LogRecord]:
    """Return the records that these writes are on the log, a second from each other; None deletes.

    Without a key, the text is another template, which the owner defines.
    """
    held, records = DEFINITION.limits, list[LogRecord]()
    for offset, (key, text, tags) in enumerate(writes):
        if not key:
            limits = replace(held, template=text)
            defined, held = define_value(held, limits), limits
            records.append(LogRecord(offset, offset * 1000, None, defined, [("sow.command", b"define")]))
            continue
        value = None if text is None else text.encode()
        headers: Headers = [
            ("sow.command", b"sow_delete" if text is None else b"delta"),
            *([("sow.tags", tags.encode())] if tags else []),
            ("sow.publisher", b"P"),
            ("sow.sequence", b"%d" % offset),
        ]
        records.append(LogRecord(offset, offset * 1000, key.encode(), value, headers))
    return records


def apply(
    store: MemoryStore, checkpoint: Checkpoint, records: list[LogRecord]
) -> tuple[Checkpoint, list[Event]]:
    """Apply records to a store, and return what is emitted, as it is read from Kafka."""
    view = Overlay(store)
    step = Applier(DEFINITION, 0, checkpoint, view).apply(records)
    written = view.written(store.checksum())
    store.commit(written.entries, written.checksum, step.checkpoint.encode(), written.expiries)
    events, ends = list[Event](), dict(step.unreported)
    for index, change in enumerate(step.changes):
        if index in ends:
            events.append(progress_of(ends[index], 0, {}))
        events.append(read_event(change.sow_key, change.value, change.headers()))
    return step.checkpoint, [*events, progress_of(step.checkpoint, 0, {})]


def documents(store: MemoryStore) -> dict[bytes, Record]:
    """Return what is kept of each document."""
    return {key: decode_record(data) for key, data in store.scan()}


def compacted(events: list[Event]) -> list[Event]:
    """Return the last event of each key."""
    last = {event.sow_key if isinstance(event, Change) else b"": at for at, event in enumerate(events)}
    return [event for at, event in enumerate(events) if at in last.values()]


@given(writes_of, st.integers(0, 12))
def test_compaction_after_any_prefix_changes_nothing(
    writes: list[tuple[str, str | None, str | None]], prefix: int
) -> None:
    """What was loaded from what compaction leaves goes on as if it had seen every write."""
    records, empty = log_of(writes), Checkpoint(START, START, limits=DEFINITION.limits)
    straight = MemoryStore()
    apply(straight, empty, records)
    _, events = apply(MemoryStore(), empty, records[:prefix])
    loaded = MemoryStore()
    loader = ChangesLoader(loaded, DEFINITION)
    loader.load(compacted(events))
    loader.finish()
    assert loader.is_whole
    apply(loaded, loader.checkpoint(0), records[prefix:])
    assert documents(loaded) == documents(straight)


@given(writes_of, st.integers(1, 5))
def test_a_copy_follows(writes: list[tuple[str, str | None, str | None]], portion: int) -> None:
    """Portion by portion, it is what its owner is."""
    owner, copy = MemoryStore(), MemoryStore()
    empty = Checkpoint(START, START, limits=DEFINITION.limits)
    _, events = apply(owner, empty, log_of(writes))
    follower = ChangesFollower(DEFINITION, copy, empty, [])
    for start in range(0, len(events), portion):
        follower.follow(events[start : start + portion], start)
    assert documents(copy) == documents(owner)


@given(writes_of)
def test_what_is_written_again_tells_everything(writes: list[tuple[str, str | None, str | None]]) -> None:
    """Where a changes topic is filled again, or a backup is restored, nothing of a document is lost."""
    owner, loaded = MemoryStore(), MemoryStore()
    checkpoint, _ = apply(owner, Checkpoint(START, START, limits=DEFINITION.limits), log_of(writes))
    partition = Partition(DEFINITION, 0, OpenedPartition(owner, checkpoint, checkpoint.position))
    events = partition.newest_events(documents(owner))
    changes = [event for event in events if isinstance(event, Change)]
    assert len(changes) == len(events)
    loader = ChangesLoader(loaded, DEFINITION)
    loader.load(
        [*(read_event(c.sow_key, c.value, c.headers()) for c in changes), progress_of(checkpoint, 0, {})]
    )
    loader.finish()
    assert documents(loaded) == documents(owner)
    assert loader.checkpoint(0).records == checkpoint.records


@given(writes_of)
def test_the_content_does_not_depend_on_templates(
    writes: list[tuple[str, str | None, str | None]],
) -> None:
    """Whatever templates came and went, it is what the writes alone made; and it reads with the last one."""
    begin = Checkpoint(START, START, limits=DEFINITION.limits)
    plain = replace(begin, limits=replace(begin.limits, template=None))
    store, alone = MemoryStore(), MemoryStore()
    checkpoint, _ = apply(store, begin, log_of(writes))
    apply(alone, plain, [record for record in log_of(writes) if record.key is not None])
    template = checkpoint.limits.template
    found, expected = Documents(DEFINITION, template), documents(alone)
    assert documents(store).keys() == expected.keys()
    for key, record in documents(store).items():
        assert same(found.content(record), Documents(DEFINITION, None).content(expected[key]))
        assert (record.body is None) == (expected[key].body is None)
        if record.body is not None:
            read = {**orjson.loads(expected[key].body or b""), **orjson.loads(template or "{}")}
            assert same(orjson.loads(record.body), read)
