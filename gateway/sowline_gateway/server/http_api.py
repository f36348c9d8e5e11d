"""The HTTP API of a gateway, which answers as a query service does."""

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from sowline.config.settings import Settings
from sowline.serving.access.rate_limits import Rates
from sowline.serving.authorization.entitlements import Rights, chosen_topic, chosen_topics
from sowline.serving.backlogs import Backlogs
from sowline.serving.http.address import Address
from sowline.serving.http.queries import Turn
from sowline.serving.http.requests import path_of, request_of, rights_in
from sowline.serving.http.typed_format import typed_record, wants_typed
from sowline.serving.topics_api import TopicsApi
from sowline.wire.media_types import NATIVE
from sowline.wire.request import Explain, Sow
from sowline_gateway.context import GatewayContext
from sowline_gateway.query.access_paths import explain
from sowline_gateway.query.record_read import read_from_holder, read_from_holder_of
from sowline_gateway.query.seen import SeenPositions
from sowline_gateway.query.sharded_query import ShardedQuery
from sowline_gateway.server.topics import described_topic
from sowline_gateway.server.typed_reads import read_in_json


class GatewayHttpApi(TopicsApi[ShardedQuery]):
    """Answers from the nodes: fields and single records from one that holds them, queries from all together."""

    _shard = "0/1"

    def __init__(self, settings: Settings, context: GatewayContext, rates: Rates, backlogs: Backlogs) -> None:
        super().__init__(settings, settings.kafka_client, context.nodes.topics, context, rates, backlogs)
        self._context = context
        self._nodes = context.nodes

    def _described(self, topics: Sequence[str], rights: Rights) -> list[dict[str, Any]]:
        live = self._context.live_subscriptions()
        return [described_topic(self._nodes, self._topics[name], rights, live[name]) for name in topics]

    async def _fields(self, request: HttpRequest, rights: Rights) -> Response:
        topic = chosen_topic(request.path_params["topic"], self._topics, rights.read)
        path, query = path_of(request), request.url.query
        answer = await read_from_holder_of(self._nodes, self._context.http, topic, 0, path, query, rights)
        return Response(answer.body, answer.status, answer.headers)

    async def _begin_query(self, asked: Sow, rights: Rights, turn: Turn) -> ShardedQuery:
        topics = chosen_topics(asked.topic, self._topics, rights.read)
        asked = read_in_json(asked, self._topics, topics, rights)
        floor = SeenPositions().floor([], asked.at_least)
        # HTTP requests have no session: only `at_least` sets a floor.
        query = ShardedQuery(self._nodes, asked, topics, rights, self._context.limits, floor)
        await turn.take()
        try:
            # A client that disconnects cancels this. Without `close`, the nodes would keep its parts.
            await query.begin(turn)
        except BaseException:
            await query.close()
            raise
        return query

    async def _close(self, query: ShardedQuery) -> None:
        await query.close()

    async def _explain(self, fields: dict[str, Any], rights: Rights, turn: Turn) -> dict[str, Any]:
        asked = await request_of(Explain, fields)
        topics = chosen_topics(asked.topic, self._topics, rights.read)
        asked = read_in_json(asked, self._topics, topics, rights)
        await turn.take()
        floor = SeenPositions().floor([], asked.at_least)
        found = await explain(self._nodes, asked, topics, rights, floor, turn)
        return {"bookmark": found.bookmark, "access_paths": found.access_paths}

    async def _record(self, address: Address, request: HttpRequest, turn: Turn) -> Response:
        """Answer as a node that holds the record answers."""
        rights = rights_in(request)
        topic = chosen_topic(address.topic, self._topics, rights.read)
        # A timeline may have many writes, so it takes a turn like a query. A single record needs none.
        if address.what:
            await turn.take()
        path, query = path_of(request), request.url.query
        answer = await read_from_holder(
            self._nodes, self._context.http, topic, address.key, path, query, rights, turn
        )
        # A node's answer has any size. Clients that read slowly would otherwise fill the gateway with them.
        turn.backlogs.require(len(answer.body))
        if wants_typed(request) and not address.what and not answer.is_refusal:
            record = typed_record(self._topics[topic], answer.body, rights.read)
            return Response(record, headers={**answer.headers, "content-type": NATIVE})
        return Response(answer.body, answer.status, answer.headers)
