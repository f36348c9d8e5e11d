"""A short history that still breaks the guarantee: the read and the records concerned, and what was written to them.

Pure.
"""

from collections.abc import Collection, Iterator, Sequence

import msgspec

from sowline.check.history import (
    Event,
    HistoryBegin,
    MessageRead,
    ReadEnded,
    ReadOpened,
    WriteAnswered,
    WriteSent,
)
from sowline.check.judge.judging import judge
from sowline.check.judge.records import key_of
from sowline.check.judge.verdict import Violation


def shrunk(events: Sequence[Event], violation: Violation) -> list[Event]:
    """Return the shortest part of a history, of a few, in which the guarantee is still broken."""
    reads = {event.read for event in events if isinstance(event, ReadOpened)}
    own, keys = {violation.read} & reads, set(violation.keys)
    # Fewer records would be other ranks and groups.
    whole = {
        event.read
        for event in events
        if isinstance(event, ReadOpened) and not event.order_by and event.groups is None
    }
    parts = [(own & whole, keys), (reads & whole, keys), (own, set[str]()), (reads, set[str]())]
    candidates = sorted((list(_part(events, some, few)) for some, few in parts if some), key=len)
    for candidate in candidates:
        if violation.guarantee in judge(candidate).broken:
            return candidate
    return list(events)


def _part(events: Sequence[Event], reads: Collection[str], keys: Collection[str]) -> Iterator[Event]:
    """Yield the events about some reads and some records; about every record without keys.

    What counts all records, such as the checksum of a group, is left out where some are.
    """
    fields = {
        topic.name: topic.key for event in events if isinstance(event, HistoryBegin) for topic in event.topics
    }
    topics = {event.read: event.topic for event in events if isinstance(event, ReadOpened)}
    writes: set[str] = set()
    for event in events:
        match event:
            case WriteSent():
                if not keys or event.filter or key_of(event.data, fields[event.topic]) in keys:
                    writes.add(event.id)
                    yield event
            case WriteAnswered():
                if event.id in writes:
                    yield msgspec.structs.replace(event, deleted=None) if keys else event
            case MessageRead():
                key = key_of(event.data, fields[topics[event.read]])
                if event.read in reads and (not keys or key is None or key in keys):
                    yield msgspec.structs.replace(event, records=None, hash="") if keys else event
            case ReadOpened() | ReadEnded():
                if event.read in reads:
                    yield event
            case _:
                yield event
