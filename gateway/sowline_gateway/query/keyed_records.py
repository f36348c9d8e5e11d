"""Records of nodes, read from messages or looked up by SOW key."""

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from sowline.errors import SowlineError
from sowline.model.bookmark import Positions, PositionsByLog
from sowline.serving.authorization.entitlements import EVERYTHING, Rights
from sowline.serving.query_slots import QueryTurn
from sowline.serving.result import QueryLimits
from sowline.subscriptions.engine.subscription import Delivery
from sowline.subscriptions.live.request_checks import GONE
from sowline.wire.node_queries import difference_of, held_by
from sowline.wire.options import Options
from sowline.wire.request import Sow
from sowline.wire.request_fields import SowKeys
from sowline_gateway.nodes.node_set import NodeSet
from sowline_gateway.query.sharded_query import ShardedQuery


class NodeRecord(msgspec.Struct):
    """A record, or a group or its state, in a message of a node."""

    sow_key: str
    data: msgspec.Raw
    relayed: msgspec.Raw = msgspec.Raw(b"")
    updated_at: str = ""
    timestamp: str = ""


read_record = msgspec.json.Decoder(NodeRecord).decode


async def records_of(
    nodes: NodeSet,
    topic: str,
    keys: Sequence[str],
    limits: QueryLimits,
    floor: Mapping[str, Positions],
    turn: QueryTurn | None = None,
) -> dict[bytes, bytes]:
    """Return the bodies of the existing records with these SOW keys, with all rights.

    While it waits for nodes, others may use its turn, if it has one. Raise `shard unavailable`.
    """
    request = Sow(topic=topic, sow_keys=SowKeys(keys))
    query = ShardedQuery(nodes, request, [topic], EVERYTHING, limits, floor)
    try:
        # Within the block: when one node fails, others may have begun, and only `close` returns their connections.
        await query.begin(turn)
        found = [read_record(record) async for portion in query.records() for record in portion.records]
    finally:
        await query.close()
    return {one.sow_key.encode(): bytes(one.data) for one in found}


async def ends_of(
    nodes: NodeSet,
    topic: str,
    keys: Sequence[str],
    held_at: PositionsByLog,
    rights: Rights,
    limits: QueryLimits,
    floor: Mapping[str, Positions],
    turn: QueryTurn | None = None,
) -> dict[bytes, Delivery]:
    """Return the `oof` of records that a user held at a bookmark and that ended since, as the user may see it.

    Records whose end is no longer known are left out. Raise `shard unavailable`.
    """
    request = Sow(topic=topic, sow_keys=SowKeys(keys), options=Options(oof=True))
    difference = partial(difference_of, held=held_by(request, held_at))
    query = ShardedQuery(nodes, request, [topic], rights, limits, floor, difference, has_group=False)
    try:
        await query.begin(turn)
        found = [received async for received in query.leaving()]
    except SowlineError as error:
        if error.reason not in GONE:
            raise
        return {}
    finally:
        await query.close()
    return {
        one.sow_key.encode(): Delivery(one.command, bytes(one.data), one.reason, bytes(one.data))
        for one in found
    }
