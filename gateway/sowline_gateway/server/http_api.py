"""The HTTP API of a gateway: topics, queries, records, timelines and writes, as a query service answers them."""

from collections.abc import AsyncIterator
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from sowline.config.settings import Settings
from sowline.errors import SowlineError
from sowline.serving.access.rate_limits import Rates
from sowline.serving.authorization.entitlements import chosen_topic, chosen_topics
from sowline.serving.backlogs import Backlogs
from sowline.serving.http.address import read_address
from sowline.serving.http.kafka_api import KafkaApi
from sowline.serving.http.native_format import (
    native_fields,
    native_record,
    native_records,
    wants_native,
)
from sowline.serving.http.queries import HttpQueries, Turn
from sowline.serving.http.requests import (
    NDJSON,
    header_text,
    instant_headers,
    path_of,
    readable_fields,
    request_of,
    rights_in,
    sow_fields_in,
    with_first,
)
from sowline.serving.refusal import refused
from sowline.serving.writes.http_api import WritesApi
from sowline.wire.media_types import NATIVE
from sowline.wire.request import Explain, Sow
from sowline.wire.server_message import one_line
from sowline_gateway.context import GatewayContext
from sowline_gateway.query.access_paths import explain
from sowline_gateway.query.record_read import read_from_holder, read_from_holder_of
from sowline_gateway.query.seen import SeenPositions
from sowline_gateway.query.sharded_query import ShardedQuery
from sowline_gateway.server.native_reads import read_in_json
from sowline_gateway.server.topics import described_topic


class GatewayHttpApi:
    """Answers HTTP requests independently of each other: there is no session."""

    def __init__(self, settings: Settings, context: GatewayContext, rates: Rates, backlogs: Backlogs) -> None:
        self._settings = settings
        self._rates = rates
        self._queries = HttpQueries(context.slots, backlogs)
        self._context = context
        self._nodes = context.nodes

    @property
    def routes(self) -> list[Route]:
        """The routes of this API."""
        of_topic, limited = "/v1/topics/{topic:path}", self._queries.limited
        return [
            Route("/v1/topics", self.topics),
            Route(f"{of_topic}/fields", self.fields),
            *KafkaApi(self._settings.kafka_client, self._nodes.topics).routes,
            Route(f"{of_topic}/sow", limited(self.sow), methods=["POST"]),
            Route(f"{of_topic}/explain", limited(self.explain), methods=["POST"]),
            *WritesApi(self._settings, self._context.writes, self._rates).routes,
            Route(f"{of_topic}/records/{{key:path}}", limited(self.record)),
        ]

    async def topics(self, request: HttpRequest) -> Response:
        """List the topics that the user may read or write."""
        rights, live = rights_in(request), self._context.live_subscriptions()
        kafka = self._settings.kafka_advertised or self._settings.kafka
        return JSONResponse(
            {
                "kafka": kafka,
                "shard": "0/1",
                "topics": [
                    described_topic(self._nodes, definition, rights, live[name])
                    | {"select": readable_fields(rights.read, name)}
                    for name, definition in self._nodes.topics.items()
                    if name in rights.read or name in rights.write
                ],
            }
        )

    async def fields(self, request: HttpRequest) -> Response:
        """Describe the fields of a topic, from a sample of the records that one node holds."""
        try:
            rights = rights_in(request)
            topic = chosen_topic(request.path_params["topic"], self._nodes.topics, rights.read)
            path = path_of(request)
            answer = await read_from_holder_of(
                self._nodes, self._context.http, topic, 0, path, request.url.query, rights
            )
        except SowlineError as error:
            return refused(error)
        return Response(answer.body, answer.status, answer.headers)

    async def sow(self, request: HttpRequest, turn: Turn) -> Response:
        """Stream the records that match, as NDJSON or as the client asks for.

        The header Sowline-Bookmark has the bookmark of the instant.
        """
        is_native = wants_native(request)
        try:
            query = await self._query(request)
            await turn.take()
        except SowlineError as error:
            return refused(error)
        lines = _to_end(
            query, native_records(query.records(), self._nodes.topics) if is_native else _lines(query)
        )
        try:
            await query.begin(turn)
            first = await anext(lines, b"")
        except BaseException as error:
            await query.close()
            if not isinstance(error, SowlineError):
                raise
            return refused(error)
        headers = instant_headers(query.bookmark, query.result.lag_seconds)
        if query.result.warnings:
            headers["Sowline-Warning"] = header_text("; ".join(query.result.warnings))
        media_type = NATIVE if is_native else NDJSON
        return StreamingResponse(with_first(first, lines), media_type=media_type, headers=headers)

    async def explain(self, request: HttpRequest, turn: Turn) -> Response:
        """Report the access path that a query would take in each topic of each shard."""
        try:
            given = {"topic": request.path_params["topic"]} | await self._fields_in(request)
            asked = await request_of(Explain, given)
            rights = rights_in(request)
            topics = chosen_topics(asked.topic, self._nodes.topics, rights.read)
            asked = read_in_json(asked, self._nodes.topics, topics, rights)
            await turn.take()
            found = await explain(
                self._nodes, asked, topics, rights, SeenPositions().floor([], asked.at_least), turn
            )
        except SowlineError as error:
            return refused(error)
        return JSONResponse({"bookmark": found.bookmark, "access_paths": found.access_paths})

    async def record(self, request: HttpRequest, turn: Turn) -> Response:
        """Answer with one record by its key, or with its timeline, as a node that holds it answers."""
        try:
            path = path_of(request)
            address = read_address(path, self._nodes.topics)
            if address.what not in ("", "timeline"):
                raise HTTPException(404)
            rights = rights_in(request)
            topic = chosen_topic(address.topic, self._nodes.topics, rights.read)
            if address.what:
                await turn.take()
            answer = await read_from_holder(
                self._nodes, self._context.http, topic, address.key, path, request.url.query, rights, turn
            )
            turn.backlogs.require(len(answer.body))
            if wants_native(request) and not address.what and not answer.is_refusal:
                record = native_record(self._nodes.topics[topic], answer.body, rights.read)
                return Response(record, headers={**answer.headers, "content-type": NATIVE})
        except SowlineError as error:
            return refused(error)
        return Response(answer.body, answer.status, answer.headers)

    async def _query(self, request: HttpRequest) -> ShardedQuery:
        fields, rights = native_fields(request, await self._fields_in(request)), rights_in(request)
        asked = await request_of(Sow, {"topic": request.path_params["topic"]} | fields)
        topics = chosen_topics(asked.topic, self._nodes.topics, rights.read)
        asked = read_in_json(asked, self._nodes.topics, topics, rights)
        floor = SeenPositions().floor([], asked.at_least)
        return ShardedQuery(self._nodes, asked, topics, rights, self._context.limits, floor)

    async def _fields_in(self, request: HttpRequest) -> dict[str, Any]:
        return await sow_fields_in(request, self._settings.frame_bytes_max)


async def _to_end(query: ShardedQuery, portions: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the records; then, or if the client leaves, end the query."""
    try:
        async for portion in portions:
            yield portion
    finally:
        await query.close()


async def _lines(query: ShardedQuery) -> AsyncIterator[bytes]:
    async for portion in query.records():
        yield b"".join([one_line(record) for record in portion.records])
