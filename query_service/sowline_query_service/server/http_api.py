"""The HTTP API of a query service: the parts that `sowline.serving.topics_api` leaves to it."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response

from sowline.config.settings import Settings
from sowline.serving.access.rate_limits import Rates
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.backlogs import Backlogs
from sowline.serving.http.address import Address
from sowline.serving.http.queries import Turn
from sowline.serving.http.requests import (
    FRESHNESS,
    TIMELINE_PARAMETERS,
    instant_headers,
    number_in,
    parameters_in,
    request_of,
    rights_in,
)
from sowline.serving.http.topics import described_definition
from sowline.serving.http.typed_format import (
    typed_record,
    wants_typed,
)
from sowline.serving.refusal import no_sow
from sowline.serving.topics_api import TopicsApi
from sowline.serving.worker_thread import in_worker_thread
from sowline.wire.media_types import NATIVE
from sowline.wire.request import ReadTimeline, Sow
from sowline.wire.server_message import iso_time
from sowline_query_service.context import ServiceContext
from sowline_query_service.query.field_sample import described_fields
from sowline_query_service.query.freshness import take_when_fresh, wait_until_fresh
from sowline_query_service.query.grouping import GroupedQuery
from sowline_query_service.query.query import Query
from sowline_query_service.query.read_request import bytes_to_check, one_topic, read_request_of, topics_of
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
from sowline_query_service.topics.topic_state import TopicState, lag_seconds

TRUTHS = {"true": True, "false": False}


class HttpApi(TopicsApi[Query | GroupedQuery]):
    """Answers from the records in memory."""

    def __init__(self, settings: Settings, context: ServiceContext, rates: Rates, backlogs: Backlogs) -> None:
        super().__init__(settings, context.kafka, context.state.definitions, context, rates, backlogs)
        self._context = context
        self._state = context.state

    @property
    def _shard(self) -> str:
        return str(self._settings.shard)

    def _is_listed(self, topic: str, rights: Rights) -> bool:
        return rights.is_gateway or super()._is_listed(topic, rights)

    def _described(self, topics: Sequence[str], rights: Rights) -> list[dict[str, Any]]:
        return [self._describe(name, rights) for name in topics]

    def _describe(self, topic: str, rights: Rights) -> dict[str, Any]:
        held = self._state.topics[topic]
        return {
            **described_definition(held.definition, rights),
            "records": held.record_count,
            "bookmark": held.bookmark(held.positions),
            "reflects": reflects_of(self._state, held),
            "loading": held.loading,
            "changes": held.changes_applied,
            # Of the last sample. Gateways ask for this list twice a second, and a sample for each request would ask
            # Kafka for the ends of all logs (test_a_list_of_topics_causes_no_samples_of_their_logs).
            **_lag_fields(held),
            "changes_behind": self._state.changes_behind(held),
            "newest_seconds": _seconds_since(held.changed_time),
            "subscriptions": self._context.dispatcher.live_in(topic),
            **({"indexes": _described_indexes(held)} if rights.is_admin else {}),
        }

    async def _fields(self, request: HttpRequest, rights: Rights) -> Response:
        topic = one_topic(self._state, request.path_params["topic"], rights.read)
        if not topic.definition.has_sow:
            raise no_sow(topic.definition.name)
        return JSONResponse(
            described_fields(topic.definition, topic.rows, rights.read.of(topic.definition.name))
        )

    async def _begin_query(self, asked: Sow, rights: Rights, turn: Turn) -> Query | GroupedQuery:
        query = await self._query(asked, rights, turn)
        await query.begin()
        return query

    async def _query(self, sow: Sow, rights: Rights, turn: Turn) -> Query | GroupedQuery:
        """Return the query that a request asks for, in its turn."""
        if sow.demands_fresh:
            await wait_until_fresh(self._state, topics_of(self._state, sow.topic, rights.read), sow)
        checked = await in_worker_thread(bytes_to_check(sow), read_request_of, self._state, sow, rights)
        query = query_at(self._context, sow, checked)
        await wait_for_past(self._context, sow, rights)
        await query.wait_for_replica()
        await take_when_fresh(turn, self._state, checked.topics, sow)
        return query

    async def _explain(self, fields: dict[str, Any], rights: Rights, turn: Turn) -> dict[str, Any]:
        query = await self._query(await request_of(Sow, fields), rights, turn)
        access_paths = with_view_stages(await query.explain(), self._state, rights)
        warnings = {"warnings": query.result.warnings} if query.result.warnings else {}
        return {"bookmark": query.bookmark, "access_paths": access_paths, **warnings}

    async def _record(self, address: Address, request: HttpRequest, turn: Turn) -> Response:
        read = self._timeline if address.what else self._read_record
        return await read(address, request, turn)

    async def _read_record(self, address: Address, request: HttpRequest, turn: Turn) -> Response:
        """Answer with the record, at once; the header Sowline-Bookmark has the bookmark of the instant."""
        demanded = parameters_in(request, FRESHNESS)
        rights = rights_in(request)
        topic = one_topic(self._state, address.topic, rights.read)
        topic.require(address.key)
        if demanded:
            asked = await request_of(Sow, {"topic": address.topic, **demanded})
            await wait_until_fresh(self._state, [topic], asked)
        # Nothing is awaited from here until the record is read: a change in between would make the header name an
        # instant before that of the record.
        headers = instant_headers(topic.bookmark(topic.positions), lag_seconds([topic]))
        record = read_record(topic, address.key, rights.read.of(address.topic))
        if wants_typed(request):
            record = typed_record(topic.definition, record, rights.read)
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


def _transaction_fields(found: OpenTransaction | None) -> dict[str, Any]:
    if found is None:
        return {}
    written = None if found.written is None else iso_time(found.written)
    return {"transaction": {"offset": found.offset, "written": written}}


def _described_indexes(topic: TopicState) -> list[dict[str, Any]]:
    # Else all indexes of a topic that was not queried since it was empty have the same few bytes.
    topic.indexes.keep_up(0)
    return [asdict(one) for one in topic.indexes.statistics()]


def _lag_fields(topic: TopicState) -> dict[str, Any]:
    """Return how far the topic is behind its log, and each of its partitions, as JSON."""
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
