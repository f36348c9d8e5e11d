"""Sends groups: `group_begin`, records in batches, `group_end`, and the acknowledgements of the command."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from sowline.serving.outbox.outbox import Outbox
from sowline.serving.result import Result
from sowline.serving.typed_records.messages import RECORDS_AT_ONCE
from sowline.wire.request import QueryRequest, ReadTimeline, Request
from sowline.wire.server_message import ack, iso_time, message, sow_batch, timeline_batch


class RecordPortion(NamedTuple):
    """Some records of one topic, in the form that is sent.

    `ordering` is for a gateway, which merges the answers of several query services: for each record its SOW key, then
    the values that it is sorted by.
    """

    topic: str
    records: Sequence[bytes]
    ordering: Sequence[Sequence[Any]] | None = None


class QueryAnswer(Protocol):
    """The result of a query: its instant, its records by topic, and its counts."""

    result: Result

    @property
    def bookmark(self) -> str:
        """The bookmark of its instant."""

    def records(self) -> AsyncIterator[RecordPortion]:
        """Yield records of one topic at a time."""


class TimelineGroup(Protocol):
    """The answer to a request for a timeline."""

    @property
    def bookmark(self) -> str:
        """The bookmark of its instant."""

    @property
    def since(self) -> int:
        """A time in ms since 1970; earlier writes may be missing."""

    @property
    def writes(self) -> Sequence[bytes]:
        """The writes, encoded."""

    @property
    def sow_key(self) -> bytes:
        """The SOW key of the document."""


Mark = Literal["reset", "replace"] | None
"""The kind of a group: for a client that holds records, `reset` has all records, `replace` those that it lacks.
None is for a client that holds none."""


async def send_group(outbox: Outbox, request: QueryRequest, query: QueryAnswer, mark: Mark = None) -> None:
    """Send the records of a query as one group, after the groups before it, as fast as the client reads."""
    async with outbox.group():
        _begin(outbox, request, query.bookmark, mark, query.result)
        async for portion in query.records():
            if outbox.is_typed:
                await _put_typed_batches(outbox, request, portion)
            else:
                _put_batches(outbox, request, portion)
            await outbox.wait_drained()
        _end(outbox, request, query.bookmark, query.result)


async def send_timeline(outbox: Outbox, request: ReadTimeline, timeline: TimelineGroup) -> None:
    """Send a timeline as one group, after the groups before it, as fast as the client reads."""
    query_id, topic = request.id_of_query, request.topic
    async with outbox.group():
        _begin(outbox, request, timeline.bookmark, None, Result())
        for start in range(0, len(timeline.writes), request.batch_size):
            writes = timeline.writes[start : start + request.batch_size]
            outbox.put_in_group(timeline_batch(query_id, topic, timeline.sow_key, request.key, writes))
            await outbox.wait_drained()
        since, count = iso_time(timeline.since), len(timeline.writes)
        fields = {"query_id": query_id, "topic": topic, "bookmark": timeline.bookmark}
        outbox.put_in_group(message("group_end", **fields, since=since, records=count))


def put_group(
    outbox: Outbox, request: QueryRequest, bookmark: str, records: Sequence[bytes], result: Result, mark: Mark
) -> None:
    """Send one group at once; call it within `outbox.group()`."""
    _begin(outbox, request, bookmark, mark, result)
    _put_batches(outbox, request, RecordPortion(request.topic, records))
    _end(outbox, request, bookmark, result)


def acknowledge_processed(outbox: Outbox, request: Request, **fields: object) -> None:
    """Acknowledge a command, if requested."""
    if "processed" in request.acks:
        outbox.put(ack("processed", request.command_id, **fields), _names_of(request))


def acknowledge_done(outbox: Outbox, request: Request, of: Iterable[str] = ()) -> None:
    """Send `processed` and `completed`, if requested, for a command that is complete at once.

    `of` are the subscriptions that it was about.
    """
    for kind in ("processed", "completed"):
        if kind in request.acks:
            outbox.put(ack(kind, request.command_id), of)


def acknowledge_completed(outbox: Outbox, request: Request, bookmark: str) -> None:
    """Acknowledge that a query is complete, if requested."""
    if "completed" in request.acks:
        outbox.put(ack("completed", request.command_id, bookmark=bookmark), _names_of(request))


def acknowledge(
    outbox: Outbox, request: Request, bookmark: str, result: Result | None, *, is_completed: bool = True
) -> None:
    """Acknowledge that a query is complete, with its counts, if requested.

    If not `is_completed`, leave out the `completed` acknowledgement; without a `result`, leave out `stats`.
    """
    if is_completed:
        acknowledge_completed(outbox, request, bookmark)
    if result is not None:
        acknowledge_counts(outbox, request, result)


def acknowledge_counts(outbox: Outbox, request: Request, result: Result) -> None:
    """Acknowledge the counts of a query, if requested."""
    if "stats" in request.acks:
        outbox.put(ack("stats", request.command_id, **result.counts_and_lag), _names_of(request))


def _names_of(request: Request) -> tuple[str, str]:
    """Return the subscription and query ids of a request: its acknowledgements must not overtake their messages."""
    return request.id_of_subscription, request.id_of_query


def _begin(outbox: Outbox, request: QueryRequest, bookmark: str, mark: Mark, result: Result) -> None:
    fields: dict[str, Any] = {"query_id": request.id_of_query, "topic": request.topic, "bookmark": bookmark}
    if result.warnings:
        fields["warnings"] = result.warnings
    if result.missing:
        fields["missing"] = result.missing
    outbox.put_in_group(message("group_begin", **fields, **{mark: True} if mark else {}))


def _put_batches(outbox: Outbox, request: QueryRequest, portion: RecordPortion) -> None:
    for batch in _batches(request, portion, request.batch_size):
        outbox.put_in_group(batch)


async def _put_typed_batches(outbox: Outbox, request: QueryRequest, portion: RecordPortion) -> None:
    for batch in _batches(request, portion, min(request.batch_size, RECORDS_AT_ONCE)):
        outbox.put_in_group(batch)
        # Records in a message type are encoded here, one by one: other clients must not wait for a whole portion.
        await asyncio.sleep(0)


def _batches(request: QueryRequest, portion: RecordPortion, records_max: int) -> Iterator[bytes]:
    topic, records, ordering = portion
    for start in range(0, len(records), records_max):
        batch = slice(start, start + records_max)
        yield sow_batch(
            request.id_of_query, topic, records[batch], None if ordering is None else ordering[batch]
        )


def _end(outbox: Outbox, request: QueryRequest, bookmark: str, result: Result) -> None:
    fields = {"query_id": request.id_of_query, "topic": request.topic, "bookmark": bookmark}
    outbox.put_in_group(message("group_end", **fields, records=result.returned, hash=f"{result.hash:016x}"))
