"""Records of nodes, read from messages or looked up by SOW key."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from sowline.errors import SowlineError
from sowline.model.bookmark import PositionsByLog
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.query_slots import QueryTurn
from sowline.serving.result import QueryLimits
from sowline.subscriptions.engine.subscription import OOF, Delivery
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


class RecordsAsked(NamedTuple):
    """The topic whose records are looked up, and for whom."""

    nodes: NodeSet
    topic: str
    rights: Rights
    limits: QueryLimits


async def records_of(
    asked: RecordsAsked, keys: Sequence[str], floor: PositionsByLog, turn: QueryTurn | None = None
) -> dict[bytes, bytes]:
    """Return the bodies of the existing records with these SOW keys, as far as the user may see them.

    While it waits for nodes, others may use its turn, if it has one. Raise `shard unavailable`.
    """
    query = ShardedQuery(asked.nodes, _sow(asked, keys), [asked.topic], asked.rights, asked.limits, floor)
    try:
        # Within the block: when one node fails, others may have begun, and only `close` returns their connections.
        await query.begin(turn)
        found = [read_record(record) async for portion in query.records() for record in portion.records]
    finally:
        await query.close()
    return {one.sow_key.encode(): bytes(one.data) for one in found}


async def left_since(
    asked: RecordsAsked,
    keys: Sequence[str],
    held_at: PositionsByLog,
    floor: PositionsByLog,
    turn: QueryTurn | None = None,
) -> dict[bytes, Delivery]:
    """Return the `oof` of the records with these SOW keys that the user could see at `held_at`, and can't see now.

    Return none if that is no longer known. Raise `shard unavailable`.
    """
    request = _sow(asked, keys)
    difference = partial(difference_of, held=held_by(request, held_at))
    query = ShardedQuery(
        asked.nodes, request, [asked.topic], asked.rights, asked.limits, floor, difference, has_group=False
    )
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
        one.sow_key.encode(): Delivery(OOF, bytes(one.data), one.reason, bytes(one.data)) for one in found
    }


def _sow(asked: RecordsAsked, keys: Sequence[str]) -> Sow:
    return Sow(topic=asked.topic, sow_keys=SowKeys(keys), options=Options(oof=True))
