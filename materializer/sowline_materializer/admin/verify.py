"""Verifies a partition's state: compares the local store and the changes with the log, applied offline.

The state of a view is also compared with a new computation from the records of its source.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from sowline.changes.partials import Partials, read_held, read_partials
from sowline.commands.command import LogRecord
from sowline.config.topic_definition import TopicDefinition
from sowline.config.views import Join
from sowline.errors import SowlineError
from sowline.model.body import write_body
from sowline.model.bookmark import PositionsByLog, parse_bookmark
from sowline.model.position import Position
from sowline_materializer.admin.dump import checkpoint_fields, record_fields
from sowline_materializer.admin.offline_copy import OfflineCopies, OfflineCopy
from sowline_materializer.admin.recomputed import JoinedRecords, SourceRecord, ViewRow, recomputed, rows_of
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import Record, encode_record
from sowline_materializer.core.views import NOWHERE
from sowline_materializer.store.bulk_load import BulkLoad
from sowline_materializer.store.rocksdb import RocksStore

DIFFERENCES_MAX = 10
"""The number of different records that are named; all are counted."""

LOG, STORE, CHANGES, SOURCE = "log", "store", "changes", "source"

SourceCopies = Callable[[str, int], AbstractContextManager[OfflineCopies]]
"""Lends the offline copies of a topic that a view reads, of the partition with a number."""


@dataclass(frozen=True, slots=True)
class StateComparison:
    """Two sources of a partition at one position, and how far their states are equal."""

    left: str
    right: str
    position: str
    records: int
    differ: int
    first: list[dict[str, Any]]
    checkpoint: dict[str, Any] | None

    @property
    def equal(self) -> bool:
        """Whether both lead to the same state."""
        return not self.differ and self.checkpoint is None


@dataclass(frozen=True, slots=True)
class Verification:
    """The result for a partition: its comparisons, and why the log or the local state was left out, if it was."""

    topic: str
    partition: int
    comparisons: list[StateComparison]
    notes: list[str]

    @property
    def equal(self) -> bool:
        """Whether something was compared, and nothing differs."""
        return bool(self.comparisons) and all(one.equal for one in self.comparisons)

    def fields(self) -> dict[str, Any]:
        """Return the result as fields of JSON."""
        return {**asdict(self), "equal": self.equal}


def verify(offline: OfflineCopies, path: Path, source_copies: SourceCopies) -> Verification:
    """Compare the sources of a partition's state; services may keep running.

    The local store at `path` is read before the changes, so the changes contain everything that it holds. For the
    same reason the source of a view is read after the changes of the view.
    """
    notes: list[str] = []
    store = offline.from_store(path)
    extent = offline.extent()
    changes = offline.from_changes(extent)
    _require_definition(offline, changes)
    if (why := _unfit(store, changes)) is not None:
        notes.append(f"the local store in {path} is not compared: {why}")
        store = None
    comparisons: list[StateComparison] = []
    try:
        # A store of which the log is not applied yet is at the last record that its era has ended. The changes may be
        # ahead, and don't have that position (test_a_store_that_has_nothing_of_a_rebuild_is_equal).
        log = offline.from_log(extent, (store or changes).checkpoint)
    except SowlineError as error:
        notes.append(f"can't be verified from the log: {error.message}")
        if store is not None:
            led = offline.lead_on(offline.twin(store), changes.checkpoint.position)
            comparisons.append(compare(offline, (STORE, led), (CHANGES, changes)))
    else:
        if store is not None:
            log = offline.lead_on(log, store.checkpoint.position)
            comparisons.append(compare(offline, (LOG, log), (STORE, store)))
        log = offline.lead_on(log, changes.checkpoint.position)
        comparisons.append(compare(offline, (LOG, log), (CHANGES, changes)))
    if offline.definition.view is not None:
        try:
            comparisons.append(compare_with_source(offline, changes, source_copies))
        except SowlineError as error:
            notes.append(f"is not compared with its source: {error.message}")
    return Verification(offline.definition.name, offline.partition, comparisons, notes)


def _unfit(store: OfflineCopy | None, changes: OfflineCopy) -> str | None:
    """Return why a local store can't be compared; None if it can."""
    if store is None:
        return "there is none"
    if store.checkpoint.position.era != changes.checkpoint.position.era:
        return "it is of an era that has ended"
    return None if store.checkpoint.complete else "it is within the changes of a log record"


def _require_definition(offline: OfflineCopies, copy: OfflineCopy) -> None:
    if copy.checkpoint.under(offline.definition) is None:
        raise SowlineError(
            "definition changed",
            f"expected topic {offline.definition.name} as it was defined when the state of {offline.name} was made,"
            " got another definition. Restore topics.yaml, or run sowline rebuild",
        )


def compare(
    offline: OfflineCopies, left: tuple[str, OfflineCopy], right: tuple[str, OfflineCopy]
) -> StateComparison:
    """Compare two copies by everything that a dump shows."""
    checkpoints = [
        checkpoint_fields(offline.definition, offline.partition, copy.checkpoint) for _, copy in (left, right)
    ]
    records, differ, first = 0, 0, []
    for key, one, other in merged(left[1], right[1]):
        records += 1
        if one != other:
            differ += 1
            if differ <= DIFFERENCES_MAX:
                first.append({"sow_key": key.decode(), left[0]: _side(key, one), right[0]: _side(key, other)})
    names = [name for name in checkpoints[0] if checkpoints[0][name] != checkpoints[1][name]]
    checkpoint = {
        name: {left[0]: checkpoints[0][name], right[0]: checkpoints[1][name]} for name in names
    } or None
    return StateComparison(
        left[0], right[0], str(right[1].checkpoint.position), records, differ, first, checkpoint
    )


def compare_with_source(
    offline: OfflineCopies, changes: OfflineCopy, source_copies: SourceCopies
) -> StateComparison:
    """Compare the bodies of a view's records with those that its source has at the positions that they reflect.

    Raise `SowlineError` if that can't be done.
    """
    _require_positions(offline, changes)
    store = RocksStore(offline.new_path(), create=True)
    entries = BulkLoad(store)
    rows = _rows(offline.definition, changes.checkpoint, source_copies)
    for sow_key, body in recomputed(offline.definition, offline.partition, rows):
        # A merged record that is too large is a dead letter, and no record of the view.
        if len(body) <= changes.checkpoint.limits.record_bytes_max:
            record = Record(body=body, key_text="", position=changes.checkpoint.position, time=0)
            entries.put(sow_key, None, encode_record(record))
    entries.finish()
    store.commit({}, store.checksum(), changes.checkpoint.encode())
    records, differ, first = 0, 0, []
    for key, made, held in merged(OfflineCopy(store, changes.checkpoint), changes):
        bodies = [None if one is None else one.body for one in (made, held)]
        records += bodies != [None, None]
        if not _is_same(*bodies):
            differ += 1
            if differ <= DIFFERENCES_MAX:
                shown = None if bodies[0] is None else {"data": bodies[0].decode(errors="replace")}
                first.append({"sow_key": key.decode(), SOURCE: shown, CHANGES: _side(key, held)})
    return StateComparison(SOURCE, CHANGES, str(changes.checkpoint.position), records, differ, first, None)


def _require_positions(offline: OfflineCopies, changes: OfflineCopy) -> None:
    """Raise `not supported` unless the view has positions of its source, the same ones in all of its records."""
    view = offline.definition.view
    assert view is not None
    if view.source in [join.topic for join in view.joins]:
        raise SowlineError("not supported", "it joins its source to itself, and names one position of two")
    reflected = changes.checkpoint.reflected
    for _, record in changes.records():
        for source, held in read_held(record.states).items():
            if Position.parse(held.position) > reflected.get(source, NOWHERE):
                raise _open_step(view.source, source)
    if view.joins:
        # A part of a step may only have ended groups, which leaves nothing in the records.
        extent = offline.extent()
        until = changes.checkpoint.next_offset
        for records in offline.log(extent.log_start, until, f"looking for open steps in {offline.name}"):
            for message in _partials(records):
                is_open = Position.parse(message.up_to) > reflected.get(message.partition, NOWHERE)
                if message.definition == offline.definition.digest and is_open:
                    raise _open_step(view.source, message.partition)


def _open_step(source: str, partition: int) -> SowlineError:
    """Return the error for a step of several messages whose last one has not been applied."""
    return SowlineError(
        "not supported",
        f"the views service is writing many states of {source} [{partition}], and has not ended. Wait, and verify"
        " again",
    )


def _partials(records: Iterable[LogRecord]) -> Iterator[Partials]:
    for record in records:
        with suppress(SowlineError):  # a dead letter
            yield read_partials(record.value)


def _rows(
    definition: TopicDefinition, checkpoint: Checkpoint, source_copies: SourceCopies
) -> Iterator[ViewRow]:
    """Yield the rows of a view from what it reads, at the positions that it reflects."""
    view = definition.view
    assert view is not None
    for number, position in sorted(checkpoint.reflected.items()):
        at, joined = position, list[JoinedRecords]()
        if view.joins:
            taken = parse_bookmark(checkpoint.taken[number])
            joined = [_joined_records(join, taken, source_copies) for join in view.joins]
        with source_copies(view.source, number) as copies:
            if view.joins:
                at = taken[copies.definition.log][number]
            records = copies.at(at).records()
            yield from rows_of((SourceRecord(number, *one) for one in records), joined)


def _joined_records(join: Join, taken: PositionsByLog, source_copies: SourceCopies) -> JoinedRecords:
    """Return the records of a joined topic at the positions that an owner of the source has taken."""
    with source_copies(join.topic, 0) as copies:
        topic = copies.definition

    def records() -> Iterator[tuple[bytes, Record]]:
        for number, position in taken[topic.log].items():
            with source_copies(join.topic, number) as copies:
                yield from copies.at(position).records()

    return JoinedRecords(join, topic, records())


def _is_same(one: bytes | None, other: bytes | None) -> bool:
    """Return whether two bodies are equal as JSON: the text of a number and the order of fields may differ."""
    if one is None or other is None or one == other:
        return one == other
    texts = [write_body(orjson.loads(body), option=orjson.OPT_SORT_KEYS) for body in (one, other)]
    return texts[0] == texts[1]


def _side(key: bytes, record: Record | None) -> dict[str, Any] | None:
    """Return a record for the report of a difference: the body as text, because a single byte may differ."""
    if record is None:
        return None
    fields = record_fields(key, record)
    fields.pop("data", None)
    return fields | ({} if record.body is None else {"data": record.body.decode(errors="replace")})


def merged(left: OfflineCopy, right: OfflineCopy) -> Iterator[tuple[bytes, Record | None, Record | None]]:
    """Yield the SOW keys of two copies, in order, with the record of each."""
    lefts, rights = left.records(), right.records()
    one, other = next(lefts, None), next(rights, None)
    while one is not None or other is not None:
        key = min(entry[0] for entry in (one, other) if entry is not None)
        here = one[1] if one is not None and one[0] == key else None
        there = other[1] if other is not None and other[0] == key else None
        yield key, here, there
        one = next(lefts, None) if here is not None else one
        other = next(rights, None) if there is not None else other


def sentences(verdict: Verification) -> Iterator[str]:
    """Yield the result as lines for a person."""
    name = f"{verdict.topic} [{verdict.partition}]"
    for note in verdict.notes:
        yield f"{name}: {note}"
    for one in verdict.comparisons:
        what = f"{name}: {one.left} and {one.right} at {one.position}"
        if one.equal:
            yield f"{what} are equal: {one.records:,} records"
            continue
        yield f"{what} differ: {one.differ:,} of {one.records:,} records"
        for field, sides in (one.checkpoint or {}).items():
            yield f"  {field}: {one.left} has {sides[one.left]}, {one.right} has {sides[one.right]}"
        for record in one.first:
            yield f"  SOW key {record['sow_key']}:"
            yield from (f"    {side}: {record[side]}" for side in (one.left, one.right))
    if not verdict.comparisons:
        yield f"{name}: nothing could be compared"
