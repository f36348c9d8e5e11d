"""Records of nodes, read from messages or looked up by SOW key."""

from collections.abc import Mapping, Sequence

import msgspec

from sowline.model.bookmark import Positions
from sowline.serving.authorization.entitlements import EVERYTHING
from sowline.serving.query_slots import QueryTurn
from sowline.serving.result import QueryLimits
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
