"""The messages of one group: its begin, its records in batches, its end; and the acknowledgements around it."""

from collections.abc import AsyncIterator, Sequence
from typing import Literal, Protocol

from query_service.outbox import Outbox
from query_service.query import Result
from query_service.timeline_answer import Told
from sowline.wire import Request, ack, iso_time, message, sow_batch, timeline_batch


class Answer(Protocol):
    """What a query has to offer: its instant, its records by topic, and what it counts on the way."""

    result: Result

    @property
    def bookmark(self) -> str:
        """The instant."""

    def records(self) -> AsyncIterator[tuple[str, list[bytes]]]:
        """Yield records of one topic at a time."""


Mark = Literal["reset", "replace"] | None
"""What a group is to a client that holds records already: all there is, or what it lacks. None: it holds none."""


async def send_group(outbox: Outbox, request: Request, query: Answer, mark: Mark = None) -> None:
    """Send what a query finds as one group, at the pace at which the client takes it."""
    _begin(outbox, request, query.bookmark, mark)
    async for topic, records in query.records():
        _put_batches(outbox, request, topic, records)
        await outbox.wait_drained()
    _end(outbox, request, query.bookmark, query.result)


async def send_timeline(outbox: Outbox, request: Request, told: Told) -> None:
    """Send a timeline as one group, at the pace at which the client takes it."""
    query_id, topic = request.id_of_query, request.topic
    _begin(outbox, request, told.bookmark, None)
    for start in range(0, len(told.writes), request.batch_size):
        writes = told.writes[start : start + request.batch_size]
        outbox.put(timeline_batch(query_id, topic, told.wanted.sow_key, request.key, writes))
        await outbox.wait_drained()
    since, count = iso_time(told.since), len(told.writes)
    about = {"query_id": query_id, "topic": topic, "bookmark": told.bookmark}
    outbox.put(message("group_end", **about, since=since, records=count))


def put_group(
    outbox: Outbox, request: Request, bookmark: str, records: Sequence[bytes], result: Result, mark: Mark
) -> None:
    """Send one group at once."""
    _begin(outbox, request, bookmark, mark)
    _put_batches(outbox, request, request.topic, records)
    _end(outbox, request, bookmark, result)


def acknowledge_processed(outbox: Outbox, request: Request, **fields: str) -> None:
    """Say that a command is taken, where that was asked for."""
    if "processed" in request.acks:
        outbox.put(ack("processed", request.command_id, **fields))


def acknowledge_completed(outbox: Outbox, request: Request, bookmark: str) -> None:
    """Say that a query is completed, where that was asked for."""
    if "completed" in request.acks:
        outbox.put(ack("completed", request.command_id, bookmark=bookmark))


def acknowledge(
    outbox: Outbox, request: Request, bookmark: str, result: Result, *, is_completed: bool = True
) -> None:
    """Say that a query is completed, and what it counted, where that was asked for.

    Unless `is_completed` more is to come before the command is.
    """
    if is_completed:
        acknowledge_completed(outbox, request, bookmark)
    if "stats" in request.acks:
        outbox.put(ack("stats", request.command_id, **result.stats))


def _begin(outbox: Outbox, request: Request, bookmark: str, mark: Mark) -> None:
    about = {"query_id": request.id_of_query, "topic": request.topic, "bookmark": bookmark}
    outbox.put(message("group_begin", **about, **{mark: True} if mark else {}))


def _put_batches(outbox: Outbox, request: Request, topic: str, records: Sequence[bytes]) -> None:
    for start in range(0, len(records), request.batch_size):
        outbox.put(sow_batch(request.id_of_query, topic, records[start : start + request.batch_size]))


def _end(outbox: Outbox, request: Request, bookmark: str, result: Result) -> None:
    about = {"query_id": request.id_of_query, "topic": request.topic, "bookmark": bookmark}
    outbox.put(message("group_end", **about, records=result.returned, hash=f"{result.hash:016x}"))
