"""The messages of one group: its begin, its records in batches, its end; and the acknowledgements after it."""

from query_service.outbox import Outbox
from query_service.query import Query
from sowline.wire import Request, ack, message, sow_batch


async def send_group(outbox: Outbox, request: Request, query: Query, *, reset: bool = False) -> None:
    """Send what a query finds as one group, at the pace at which the client takes it."""
    query_id, bookmark = request.id_of_query, query.bookmark
    begin = {"query_id": query_id, "topic": request.topic, "bookmark": bookmark}
    outbox.put(message("group_begin", **begin, reset=reset or None))
    async for topic, records in query.records():
        for start in range(0, len(records), request.batch_size):
            outbox.put(sow_batch(query_id, topic, records[start : start + request.batch_size]))
        await outbox.wait_drained()
    result = query.result
    outbox.put(message("group_end", **begin, records=result.returned, hash=f"{result.hash:016x}"))


def acknowledge(outbox: Outbox, request: Request, query: Query) -> None:
    """Say that a query is completed, and what it counted, where that was asked for."""
    if "completed" in request.acks:
        outbox.put(ack("completed", request.command_id, bookmark=query.bookmark))
    if "stats" in request.acks:
        outbox.put(ack("stats", request.command_id, **query.result.stats))
