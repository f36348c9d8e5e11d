"""Every reader of a changes topic loads the same records from the same events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sowline.changes.change import AGAIN, Change
from sowline.changes.changes_reader import ChangesReader, Verdict
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.changes.wholeness import is_of
from sowline.config.topic_definition import define_topic
from sowline.language.filter import Metadata, compile_filter
from sowline.model.position import Position
from sowline.subscriptions.engine.subscription import Subscription
from sowline_fanout.load import Load
from sowline_materializer.core.record import decode_record
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_query_service.index.rows import Rows
from sowline_query_service.replica.partition_replica import PartitionReplica
from sowline_query_service.replica.plain_run import EventAtOffset
from tests.memory_store import MemoryStore
from tests.property.histories import TOPIC_ID, History, random_history

DEFINITION = define_topic(name="orders", key="/id")

Held = dict[bytes, tuple[Position, bytes]]
"""Records by SOW key: position and body."""


def materializer(history: History) -> tuple[bool, Held]:
    """Load a history as recovery, standbys and the offline copies do."""
    store = MemoryStore()
    loader = ChangesLoader(store, DEFINITION, TOPIC_ID)
    for offset, event in history:
        loader.load([event], [offset])
        loader.finish()
    records = {key: decode_record(data) for key, data in store.scan()}
    held = {key: (one.position, one.body) for key, one in records.items() if one.body is not None}
    return loader.reader.is_whole, held


def replica(history: History) -> Held:
    """Load a history as a query service does, whose follower drops what is of another topic."""
    rows = Rows()
    partition = PartitionReplica(0, rows, 10)
    partition.load([EventAtOffset(offset, event) for offset, event in history if is_of(event, TOPIC_ID)])
    held: Held = {}
    for key in rows.numbers:
        position, body = rows.position(key), rows.body(key)
        assert position is not None
        assert body is not None
        held[key] = position, body
    return held


def fanout(history: History) -> tuple[bool, Held]:
    """Load a history as a fanout does, of all records."""
    reader, load = ChangesReader(TOPIC_ID, 10), Load()
    for offset, event in history:
        if reader.take(event, offset) is Verdict.LOAD:
            load.take(event)
    subscription = Subscription(compile_filter("1=1"), True, False, False)
    due = load.messages(subscription, Metadata(topic="orders"), {})
    return reader.is_whole, {change.sow_key: (change.position, delivery.body) for change, delivery in due}


@given(seed=st.integers(0, 1_000_000))
def test_every_reader_loads_the_same(seed: int) -> None:
    """Whatever owners have written: the same records, and the same answer to whether they are all."""
    history = random_history(seed)
    is_whole, held = materializer(history)
    assert fanout(history) == (is_whole, held)
    assert replica(history) == held


def at(era: int, offset: int) -> Position:
    """Return a position."""
    return Position(era, offset)


def progress(position: Position, after: Position) -> Progress:
    """Return a progress event."""
    return Progress(position, after, 0, {}, "", "", 0, {})


TRUE = Change(b"a", b'{"id":"a","n":1}', None, at(0, 50), at(0, -1), "publish", 7)
BEGIN: list[Event] = [progress(at(0, 0), at(0, -1)), TRUE, progress(at(1, 9), at(0, 50))]


@pytest.mark.parametrize("is_repaired", [False, True])
@pytest.mark.parametrize(
    "late",
    [(b"a", b'{"id":"a","n":2}'), (b"a", None), (b"b", b'{"id":"b"}')],
    ids=["update", "delete", "insert"],
)
def test_a_stalled_owner_of_an_ended_era(late: tuple[bytes, bytes | None], is_repaired: bool) -> None:
    """What it writes after a later era has begun is in no load, whether the owner has repaired it yet or not."""
    key, body = late
    events = [*BEGIN, replace(TRUE, sow_key=key, body=body, position=at(0, 107), after=at(0, 50))]
    if is_repaired:
        again = replace(TRUE, op=AGAIN, after=TRUE.position, emitted_in=1)
        none = Change(key, None, None, at(1, -1), at(1, -1), AGAIN, 7)
        events += [again if key == b"a" else none, progress(at(1, 9), at(0, 50))]
    history = list(enumerate(events))
    held = {b"a": (TRUE.position, TRUE.body)}
    assert materializer(history) == fanout(history) == (True, held)
    assert replica(history) == held
