"""The messages of one group: its begin, its records in batches, its end; and the acknowledgements around it."""

from collections.abc import AsyncIterator, Sequence
from typing import Literal, Protocol

from query_service.outbox import Outbox
from query_service.query import Result
from sowline.wire import Request, ack, message, sow_batch


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


def acknowledge(
    outbox: Outbox, request: Request, bookmark: str, result: Result, *, is_completed: bool = True
) -> None:
    """Say that a query is completed, and what it counted, where that was asked for.

    Unless `is_completed` more is to come before the command is.
    """
    if is_completed and "completed" in request.acks:
        outbox.put(ack("completed", request.command_id, bookmark=bookmark))
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
