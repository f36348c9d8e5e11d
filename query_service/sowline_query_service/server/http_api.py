"""The HTTP API: topics, queries, records and timelines; writes and Kafka details come from `sowline.serving`."""

import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from sowline.config.settings import Settings
from sowline.errors import SowlineError
from sowline.serving.access.rate_limits import Rates
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.backlogs import Backlogs
from sowline.serving.http.address import Address, read_address
from sowline.serving.http.kafka_api import KafkaApi
from sowline.serving.http.native_format import (
    native_fields,
    native_record,
    native_records,
    wants_native,
)
from sowline.serving.http.queries import HttpQueries, Turn
from sowline.serving.http.requests import (
    FRESHNESS,
    NDJSON,
    TIMELINE_PARAMETERS,
    header_text,
    instant_headers,
    number_in,
    parameters_in,
    path_of,
    readable_fields,
    request_of,
    rights_in,
    sow_fields_in,
    with_first,
)
from sowline.serving.http.topics import described_definition
from sowline.serving.refusal import no_sow, refused
from sowline.serving.worker_thread import bytes_to_read, in_worker_thread
from sowline.serving.writes.http_api import WritesApi
from sowline.wire.media_types import NATIVE
from sowline.wire.request import ReadTimeline, Sow
from sowline.wire.server_message import iso_time, one_line
from sowline_query_service.context import ServiceContext
from sowline_query_service.query.field_sample import described_fields
from sowline_query_service.query.freshness import lag_seconds, take_when_fresh, wait_until_fresh
from sowline_query_service.query.grouping import GroupedQuery
from sowline_query_service.query.query import Query
from sowline_query_service.query.read_request import one_topic, read_request_of, topics_of
from sowline_query_service.query.record_reads import read_record
from sowline_query_service.query.timeline_read import timeline_request_of
from sowline_query_service.query.view_stages import reflects_of, with_view_stages
from sowline_query_service.replica.log_end import Lag, OpenTransaction
from sowline_query_service.subscriptions.bookmark_resolver import (
    check_newest,
    wait_for_past,
    wait_for_replica,
)
from sowline_query_service.subscriptions.query_at_bookmark import query_at
from sowline_query_service.topics.state import TopicState

TRUTHS = {"true": True, "false": False}


class HttpApi:
    """Answers HTTP requests independently of each other: there is no session."""

    def __init__(self, settings: Settings, context: ServiceContext, rates: Rates, backlogs: Backlogs) -> None:
        self._settings = settings
        self._context = context
        self._state = context.state
        self._rates = rates
        self._queries = HttpQueries(context.slots, backlogs)
        self._definitions = {name: topic.definition for name, topic in context.state.topics.items()}

    @property
    def routes(self) -> list[Route]:
        """The routes of this API."""
        of_topic, limited = "/v1/topics/{topic:path}", self._queries.limited
        return [
            Route("/v1/topics", self.topics),
            Route(f"{of_topic}/fields", self.fields),
            *KafkaApi(self._context.kafka, self._definitions).routes,
            Route(f"{of_topic}/sow", limited(self.sow), methods=["POST"]),
            Route(f"{of_topic}/explain", limited(self.explain), methods=["POST"]),
            *WritesApi(self._settings, self._context.writes, self._rates).routes,
            Route(f"{of_topic}/records/{{key:path}}", limited(self.record)),
        ]

    async def topics(self, request: HttpRequest) -> Response:
        """List the topics that the user may read or write."""
        rights = rights_in(request)
        kafka = self._settings.kafka_advertised or self._settings.kafka
        return JSONResponse(
            {
                "kafka": kafka,
                "shard": str(self._settings.shard),
                "topics": [
                    self._describe(topic, rights)
                    | {"select": readable_fields(rights.read, name)}
                    | ({"indexes": topic.indexes.statistics()} if rights.is_admin else {})
                    for name, topic in self._state.topics.items()
                    if rights.is_gateway or name in rights.read or name in rights.write
                ],
            }
        )

    def _describe(self, topic: TopicState, rights: Rights) -> dict[str, Any]:
        return {
            **described_definition(topic.definition, rights),
            "records": topic.size,
            "bookmark": topic.bookmark(topic.positions),
            "reflects": reflects_of(self._state, topic),
            "loading": topic.loading,
            "changes": topic.changes_applied,
            **_lag_fields(topic),
            "changes_behind": self._state.changes_behind(topic),
            "newest_seconds": _seconds_since(topic.changed_time),
            "subscriptions": self._context.dispatcher.live_in(topic.definition.name),
        }

    async def fields(self, request: HttpRequest) -> Response:
        """Describe the fields of a topic, from a sample of the records that the user may see."""
        try:
            rights = rights_in(request)
            topic = one_topic(self._state, request.path_params["topic"], rights.read)
            if not topic.definition.has_sow:
                raise no_sow(topic.definition.name)
            found = described_fields(topic, rights.read.of(topic.definition.name))
        except SowlineError as error:
            return refused(error)
        return JSONResponse(found)

    async def sow(self, request: HttpRequest, turn: Turn) -> Response:
        """Stream the records that match, as NDJSON or as the client asks for.

        The header Sowline-Bookmark has the bookmark of the instant.
        """
        is_native = wants_native(request)
        try:
            query = await self._query(request, native_fields(request, await self._fields_in(request)), turn)
            await query.begin()
            lines = native_records(query.records(), self._definitions) if is_native else _lines(query)
            first = await anext(lines, b"")
        except SowlineError as error:
            return refused(error)
        headers = instant_headers(query.bookmark, query.result.lag_seconds)
        if query.result.warnings:
            headers["Sowline-Warning"] = header_text("; ".join(query.result.warnings))
        body = with_first(first, lines)
        return StreamingResponse(body, media_type=NATIVE if is_native else NDJSON, headers=headers)

    async def explain(self, request: HttpRequest, turn: Turn) -> Response:
        """Report the access path that a query would take in each topic, and how many records it would examine."""
        try:
            query = await self._query(request, await self._fields_in(request), turn)
            access_paths = with_view_stages(await query.explained(), self._state, rights_in(request))
        except SowlineError as error:
            return refused(error)
        warnings = {"warnings": query.result.warnings} if query.result.warnings else {}
        return JSONResponse({"bookmark": query.bookmark, "access_paths": access_paths, **warnings})

    async def record(self, request: HttpRequest, turn: Turn) -> Response:
        """Answer with one record by its key, at once, or with its timeline in its turn."""
        try:
            path = path_of(request)
            address = read_address(path, self._state.topics)
            if address.what == "timeline":
                return await self._timeline(address, request, turn)
            if address.what:
                raise HTTPException(404)
            return await self._read_record(address, request)
        except SowlineError as error:
            return refused(error)

    async def _read_record(self, address: Address, request: HttpRequest) -> Response:
        """Answer with the record; the header Sowline-Bookmark has the bookmark of the instant."""
        demanded = parameters_in(request, FRESHNESS)
        rights = rights_in(request)
        topic = one_topic(self._state, address.topic, rights.read)
        topic.require(address.key)
        if demanded:
            asked = await request_of(Sow, {"topic": address.topic, **demanded})
            await wait_until_fresh(self._state, [topic], asked)
        headers = instant_headers(topic.bookmark(topic.positions), lag_seconds([topic]))
        record = read_record(topic, address.key, rights.read.of(address.topic))
        if wants_native(request):
            record = native_record(topic.definition, record, rights.read)
            return Response(record, media_type=NATIVE, headers=headers)
        return Response(record, media_type="application/json", headers=headers)

    async def _timeline(self, address: Address, request: HttpRequest, turn: Turn) -> Response:
        """Answer with the timeline of a document."""
        asked, rights = await _timeline_request(address, request), rights_in(request)
        if asked.demands_fresh:
            await wait_until_fresh(self._state, topics_of(self._state, asked.topic, rights.read), asked)
        wanted = timeline_request_of(self._state, asked, rights)
        await check_newest(self._context, wanted.topic, wanted.awaited)
        await wait_for_replica(self._state, wanted.topic, wanted.awaited)
        await take_when_fresh(turn, self._state, [wanted.topic], asked)
        answer = (await self._context.timelines.read(wanted)).answer
        turn.backlogs.require(len(answer))
        return Response(answer, media_type="application/json")

    async def _fields_in(self, request: HttpRequest) -> dict[str, Any]:
        return await sow_fields_in(request, self._settings.frame_bytes_max)

    async def _query(self, request: HttpRequest, fields: dict[str, Any], turn: Turn) -> Query | GroupedQuery:
        """Return the query that a request asks for, in its turn."""
        sow = await request_of(Sow, {"topic": request.path_params["topic"]} | fields)
        rights = rights_in(request)
        if sow.demands_fresh:
            await wait_until_fresh(self._state, topics_of(self._state, sow.topic, rights.read), sow)
        size = bytes_to_read(sow.filter, sow.condition, sow_keys=sow.sow_keys)
        checked = await in_worker_thread(size, read_request_of, self._state, sow, rights)
        query = query_at(self._context, sow, checked)
        await wait_for_past(self._context, sow, rights)
        await query.reach()
        await take_when_fresh(turn, self._state, checked.topics, sow)
        return query


def _transaction_fields(found: OpenTransaction | None) -> dict[str, Any]:
    if found is None:
        return {}
    written = None if found.written is None else iso_time(found.written)
    return {"transaction": {"offset": found.offset, "written": written}}


def _lag_fields(topic: TopicState) -> dict[str, Any]:
    """Return how far the topic is behind its log, and each of its partitions, as JSON has it."""
    lags, positions, transactions = topic.lags(), topic.positions, topic.transactions()
    of_all = Lag.of(lags.values())
    return {
        "lag": of_all.records,
        "lag_seconds": _rounded(of_all.seconds),
        "lags": [
            {
                "partition": number,
                "position": str(positions[number]),
                "lag": lag.records,
                "lag_seconds": _rounded(lag.seconds),
                **_transaction_fields(transactions.get(number)),
            }
            for number, lag in lags.items()
        ],
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _seconds_since(moment: int) -> float | None:
    """Return the seconds since a time, given in ms since 1970; None for 0, which means never."""
    return max(0.0, time.time() - moment / 1000) if moment else None


async def _timeline_request(address: Address, request: HttpRequest) -> ReadTimeline:
    """Return the timeline request of a GET; raise `bad request` for unknown parameters."""
    given: dict[str, Any] = dict(parameters_in(request, TIMELINE_PARAMETERS))
    if "limit" in given:
        given["limit"] = number_in(given["limit"])
    if given.get("reversed") in TRUTHS:
        given["reversed"] = TRUTHS[given["reversed"]]
    return await request_of(ReadTimeline, {"topic": address.topic, "key": address.key, **given})


async def _lines(query: Query | GroupedQuery) -> AsyncIterator[bytes]:
    async for portion in query.records():
        yield b"".join([one_line(record) for record in portion.records])
