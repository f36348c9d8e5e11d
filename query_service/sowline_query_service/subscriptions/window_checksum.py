"""The checksum of a window: the number of records that a client should hold at a bookmark, and their hash."""

from sowline.serving.outbox.outbox import Outbox
from sowline.serving.query_slots import QuerySlot
from sowline.subscriptions.live.progress import put_window_checksum
from sowline.wire.request import Heartbeat
from sowline_query_service.context import ServiceContext
from sowline_query_service.query.query import Query
from sowline_query_service.query.selection import Selection
from sowline_query_service.subscriptions.subscribed_topics import SubscribedTopics


async def send_records_checksum(
    context: ServiceContext,
    outbox: Outbox,
    request: Heartbeat,
    live: SubscribedTopics,
    selection: Selection,
    slot: QuerySlot,
) -> None:
    """Send the checksum of the records that match, in order with the messages; raise `query too long`.

    The subscription gets no other messages until then.
    """
    query = Query(live.topics, Selection(selection.filter, sow_keys=selection.sow_keys), context.limits)
    async with slot:
        while True:
            # It may wait for long, until the client resumes the subscription, or for a new group, which needs a turn.
            slot.free()
            await live.wait_live()
            await slot.take()
            await query.prepare()
            if live.is_live and query.begin_now():
                break
        # In the instant of the query: what was held back goes out, and live delivery ends. The client must have
        # exactly the changes up to the bookmark when it compares (test_a_view_can_be_proved).
        live.flush()
        live.leave(context.dispatcher)
        try:
            put_window_checksum(outbox, request, query.bookmark, *await window_checksum_of(query))
        finally:
            live.fall_behind()


async def window_checksum_of(query: Query) -> tuple[int, int]:
    """Return the number of records that a started query finds, and their hash; raise `query too long`."""
    records = hash = 0
    async for topic_slice, rows in query.matches():
        records += len(rows)
        hash ^= topic_slice.captured.hash(rows)
    return records, hash
