"""A document's timeline is its story: folded from its first write, it leads to the document."""

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from sowline.changes.change import Change
from sowline.changes.event import Event
from sowline.language.emodb import UNDEFINED, Delta, parse_delta
from sowline.language.emodb.fold import Document, DocumentDelta, fold
from sowline.language.emodb.template import own_content
from sowline.language.emodb.writes import Writes, document_of
from sowline.model.key import sow_key
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.documents import literal
from sowline_query_service.index.rows import Rows
from sowline_query_service.replica.partition_replica import PartitionReplica
from sowline_query_service.replica.plain_run import EventAtOffset
from sowline_query_service.replica.timeline import Timeline
from tests.memory_store import MemoryStore
from tests.property.test_documents import DEFINITION, START, apply, compacted, delete, log_of, write

TTL = 5000


def replica_of(rows: Rows, loaded: list[EventAtOffset], followed: list[EventAtOffset]) -> PartitionReplica:
    """Return a replica of these rows that has read these events, with a timeline."""
    replica = PartitionReplica(0, rows, 100, timeline=Timeline(TTL))
    replica.load(loaded)
    replica.loaded()
    replica.apply(followed)
    return replica


def story(replica: PartitionReplica, key: bytes, events: dict[int, Event]) -> list[Change]:
    """Return the changes that the timeline tells of a document, oldest first."""
    assert replica.timeline is not None
    newest_first = [events[noted.offset] for noted in replica.timeline.newest_first(key)]
    return [event for event in reversed(newest_first) if isinstance(event, Change)]


def document(key: str, body: bytes | None, writes: Writes | None) -> Document:
    """Return the document with this body and this account."""
    return document_of("reviews", key, UNDEFINED if body is None else own(body, writes), writes)


def own(body: bytes, writes: Writes | None) -> Any:
    """Return the content of a document that reads like this."""
    hidden = None if writes is None else writes.hidden
    return own_content(orjson.loads(body), hidden or {}, DEFINITION.declared.template)


def delta_of(change: Change) -> Delta:
    """Return what a write does."""
    if change.text is not None:
        return parse_delta(change.text.decode())
    return parse_delta("~") if change.body is None else literal(own(change.body, change.writes))


@given(st.lists(st.one_of(write, delete), max_size=20), st.integers(0, 20), st.booleans())
def test_folded_from_its_first_write_it_leads_to_the_document(
    writes: list[tuple[str, str | None, str | None]], split: int, is_compacted: bool
) -> None:
    """Content, version and signature, after a load of any part; within the window no write is lacking."""
    _, events = apply(MemoryStore(), Checkpoint(START, START, limits=DEFINITION.limits), log_of(writes))
    split = min(split, len(events))
    left = compacted(events[:split]) if is_compacted else events[:split]
    placed = [EventAtOffset(2 * offset, event) for offset, event in enumerate(events)]
    rows = Rows()
    replica = replica_of(rows, [one for one in placed[:split] if one.event in left], placed[split:])
    by_offset = {one.offset: one.event for one in placed}
    assert replica.timeline is not None
    for text in "abc":
        key = sow_key(DEFINITION.declared.domain_prefix, text)
        changes = story(replica, key, by_offset)
        since = [
            event
            for event in (left + events[split:])
            if isinstance(event, Change) and event.sow_key == key and event.time >= replica.timeline.floor
        ]
        assert changes == since
        if not changes:
            continue
        if not is_compacted:
            folded = document(text, changes[0].previous, changes[0].writes_before)
            for change in changes:
                assert change.writes is not None
                change_id = bytes.fromhex(change.writes.change_id)
                tags = frozenset(change.writes.tags)
                step = DocumentDelta(delta_of(change), change_id, change.time, tags)
                folded = fold(folded, step).document
                assert folded == document(text, change.body, change.writes)
        row = rows.numbers.get(key)
        known = rows.deleted[key] if row is None else rows.rare[row].known
        assert known is not None
        assert (changes[-1].body, changes[-1].writes) == (rows.body(key), known.writes)
