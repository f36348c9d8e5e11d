"""Explains a query: the access path that each node takes."""

import asyncio
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec import structs

from sowline.model.bookmark import Positions, PositionsByLog, format_bookmark, lay_over, parse_bookmark
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.query_slots import QueryTurn, lent
from sowline.wire.node_queries import NodeQuery, read_of
from sowline.wire.request import Explain, Read
from sowline_gateway.nodes.failover import replaceable, with_failover
from sowline_gateway.nodes.node_set import NodeSet
from sowline_gateway.nodes.routing import Route
from sowline_gateway.query.key_routing import partitions_of_keys
from sowline_gateway.query.sharded_query import floor_of


class Explained(NamedTuple):
    """The access paths of a query, each with the shard of its node, and the bookmark of the instants."""

    bookmark: str
    access_paths: list[dict[str, Any]]


async def explain(
    nodes: NodeSet,
    request: Read,
    topics: Sequence[str],
    rights: Rights,
    floor: PositionsByLog,
    turn: QueryTurn,
) -> Explained:
    """Return the access paths of the nodes that are asked. While it waits for nodes, others may use its turn.

    Raise `shard unavailable`, or the error of the request.
    """
    floor = await floor_of(nodes, topics, floor, turn)
    asked = read_of(request, Explain.command, floor, "processed,completed")
    asked = structs.replace(asked, top_n=request.top_n, skip_n=request.skip_n)
    needed = partitions_of_keys(nodes.topics, request, topics)

    async def attempt(avoid: Collection[str]) -> list[Explained]:
        wanted = nodes.candidates(topics, {}, avoid, needed).routes()
        return await asyncio.gather(*(_explain(nodes, route, rights, asked) for route in wanted))

    answers = await with_failover(nodes, attempt, partial(lent, turn))
    positions: dict[str, Positions] = {}
    for answer in answers:
        positions = lay_over(positions, parse_bookmark(answer.bookmark))
    return Explained(format_bookmark(positions), [path for answer in answers for path in answer.access_paths])


async def _explain(nodes: NodeSet, route: Route, rights: Rights, asked: NodeQuery) -> Explained:
    node, found = route.node, Explained("", [])
    async with (
        replaceable(nodes, node.url, route.share),
        nodes.connections.lease(node.url, rights) as connection,
    ):
        async for message in connection.ask(asked, "completed"):
            if message.command == "explain":
                paths = [{"shard": node.shard, **path} for path in message.access_paths]
                found = Explained(message.bookmark, paths)
    return found
