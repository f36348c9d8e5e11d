"""Replaces a subscription to records: the records that its client holds, and those that leave."""

from collections.abc import Sequence
from typing import NamedTuple

from sowline.model.bookmark import PositionsByLog, format_bookmark
from sowline.serving.outbox.outbox import Outbox
from sowline.subscriptions.engine.subscription import OOF
from sowline.wire.request import Subscribe
from sowline.wire.server_message import change_prefix, change_suffix
from sowline_gateway.nodes.node_message import NodeMessage
from sowline_gateway.query.sharded_query import ShardedQuery


class ClientRecords(NamedTuple):
    """The records that the client of a subscription holds: those that match its request at some positions."""

    request: Subscribe
    topics: Sequence[str]
    positions: PositionsByLog

    @property
    def bookmark(self) -> str:
        """The bookmark of the positions."""
        return format_bookmark(self.positions)


async def send_leaving(outbox: Outbox, sub_id: str, query: ShardedQuery, before: str, now: str) -> None:
    """Send which records the client should drop, with the bookmark `before` the step.

    If no group follows, the last message ends the step, and has the bookmark `now`; else that is empty.
    """
    # One message is kept back, because only the last one ends the step, and none says that it is the last.
    waiting: NodeMessage | None = None
    async for received in query.leaving():
        if waiting is not None:
            await _put(outbox, sub_id, waiting, before, more=True)
        waiting = received
    if waiting is not None:
        await _put(outbox, sub_id, waiting, now or before, more=not now)


async def _put(outbox: Outbox, sub_id: str, received: NodeMessage, bookmark: str, *, more: bool) -> None:
    await outbox.wait_turn()
    sids = (sub_id,)
    head = change_prefix(OOF, sids, received.reason, more=more)
    sow_key = received.sow_key.encode() or None
    body, intrinsics = bytes(received.data), bytes(received.intrinsics) or None
    outbox.put_behind(head + change_suffix(received.topic, sow_key, bookmark, body, None, intrinsics), sids)
