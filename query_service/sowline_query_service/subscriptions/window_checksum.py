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

    The subscription gets no other messages until then. If it is paused meanwhile, its checksum is made again after
    the pause.
    """
    matching = Selection(selection.filter, sow_keys=selection.sow_keys)
    async with slot:
        while True:
            query = await _begun(Query(live.topics, matching, context.limits), live, slot)
            # In the instant of the query: what was held back goes out, and live delivery ends. The client must have
            # exactly the changes up to the bookmark when it compares (test_a_view_can_be_proved).
            live.flush()
            live.leave(context.dispatcher)
            halts = live.halts
            try:
                found = await window_checksum_of(query)
            finally:
                # After a pause it has gone on by itself. Sent back now, it would drop messages that conflation holds,
                # and the client would compare more than the query has (test_a_pause_within_a_proof_loses_nothing).
                if is_still_here := live.halts == halts:
                    live.fall_behind()
            if is_still_here:
                put_window_checksum(outbox, request, query.bookmark, *found)
                return


async def _begun(query: Query, live: SubscribedTopics, slot: QuerySlot) -> Query:
    """Return the query at an instant at which the subscription is live."""
    while True:
        # It may wait for long, until the client resumes the subscription, or for a new group, which needs a turn.
        slot.free()
        await live.wait_live()
        await slot.take()
        await query.prepare()
        if live.is_live and query.begin_now():
            return query


async def window_checksum_of(query: Query) -> tuple[int, int]:
    """Return the number of records that a started query finds, and their hash; raise `query too long`."""
    records = hash = 0
    async for topic_slice, rows in query.matches():
        records += len(rows)
        hash ^= topic_slice.captured.hash(rows)
    return records, hash
