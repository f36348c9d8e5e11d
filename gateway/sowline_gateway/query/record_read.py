"""Reads one record, or its timeline, from a node that holds the partition of its key."""

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial

from sowline.model.key import partition_of
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.query_slots import QueryTurn, lent
from sowline_gateway.nodes.failover import replaceable, with_failover
from sowline_gateway.nodes.http import NodeAnswer, NodeHttp
from sowline_gateway.nodes.node_set import RETRY_REASONS, NodeSet

TRY_ANOTHER = 500
"""Statuses from this one on, and 421, are of a node that is not ready, behind, or of another shard now."""


async def read_from_holder(
    nodes: NodeSet,
    http: NodeHttp,
    topic: str,
    key: str,
    path: str,
    query: str,
    rights: Rights,
    turn: QueryTurn | None = None,
) -> NodeAnswer:
    """Return the answer of a node that holds the key's partition to a GET; raise `shard unavailable`.

    While it waits for nodes, others may have the turn that was taken for it, if any.
    """
    number = partition_of(key, nodes.topics[topic].partitions)
    waiting = partial(lent, turn)
    return await read_from_holder_of(nodes, http, topic, number, path, query, rights, waiting)


async def read_from_holder_of(
    nodes: NodeSet,
    http: NodeHttp,
    topic: str,
    number: int,
    path: str,
    query: str,
    rights: Rights,
    waiting: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
) -> NodeAnswer:
    """Return the answer of a node that holds a partition to a GET; raise `shard unavailable`."""
    share = frozenset({(topic, number)})

    async def attempt(avoid: Collection[str]) -> NodeAnswer:
        node = nodes.holder(topic, number, avoid)
        async with replaceable(nodes, node.url, share):
            answer = await http.get(node.url, path, query, rights)
            may_be_its_own = answer.status >= TRY_ANOTHER or answer.status == 421
            if may_be_its_own and answer.error.reason in RETRY_REASONS:
                raise answer.error
        return answer

    return await with_failover(nodes, attempt, waiting)
