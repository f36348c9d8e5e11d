"""Reads one record, or its timeline, from a node that holds the partition of its key."""

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Final
from urllib.parse import parse_qsl, urlencode

from sowline.errors import SowlineError
from sowline.model.bookmark import format_bookmark, parse_bookmark
from sowline.model.key import partition_of
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.query_slots import QueryTurn, lent
from sowline_gateway.nodes.failover import replaceable, with_failover
from sowline_gateway.nodes.http import NodeAnswer, NodeHttp
from sowline_gateway.nodes.node_set import RETRY_REASONS, NodeSet
from sowline_gateway.query.sharded_query import floor_of

AT_LEAST: Final = "at_least"

TRY_ANOTHER = 500
"""A status from this one on, or 421, may mean that a node is not ready, lags, or has become another shard."""


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

    While it waits for nodes, others may use its turn, if it has one.
    """
    number = partition_of(key, nodes.topics[topic].partitions)
    query = await _with_views_between(nodes, topic, query, turn)
    waiting = partial(lent, turn)
    return await read_from_holder_of(nodes, http, topic, number, path, query, rights, waiting)


async def _with_views_between(nodes: NodeSet, topic: str, query: str, turn: QueryTurn | None) -> str:
    """Return the query of a GET whose `at_least` has the positions of the views between, too."""
    if AT_LEAST not in query:
        return query
    # With blank values: a parameter without a value is an error, and the node must see it to refuse it.
    fields = dict(parse_qsl(query, keep_blank_values=True))
    try:
        floor = parse_bookmark(fields.get(AT_LEAST, ""))
    except SowlineError:
        return query  # the node refuses it
    return urlencode({**fields, AT_LEAST: format_bookmark(await floor_of(nodes, [topic], floor, turn))})


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
            # Any other error is the answer for the client: each node would give it.
            may_be_its_own = answer.status >= TRY_ANOTHER or answer.status == 421
            if may_be_its_own and answer.error.reason in RETRY_REASONS:
                raise answer.error
        return answer

    return await with_failover(nodes, attempt, waiting)
