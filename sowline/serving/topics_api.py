"""The HTTP API of topics in every service that answers queries. Subclasses know where the records are."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from sowline.config.kafka_options import KafkaConfig
from sowline.config.settings import Settings
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.serving.access.rate_limits import Rates
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.backlogs import Backlogs
from sowline.serving.error_response import refused
from sowline.serving.http.address import Address, read_address
from sowline.serving.http.kafka_api import KafkaApi
from sowline.serving.http.queries import HttpQueries, Turn
from sowline.serving.http.requests import (
    NDJSON,
    accepts,
    path_of,
    readable_fields,
    request_of,
    rights_in,
    sow_fields_in,
    with_first,
)
from sowline.serving.http.tables import TABLE_FIELDS, BegunQuery, answer_headers, table_response
from sowline.serving.http.typed_format import typed_fields, typed_records, wants_typed
from sowline.serving.outbox.group import RecordPortion
from sowline.serving.query_slots import QuerySlots
from sowline.serving.writes.http_api import WritesApi
from sowline.serving.writes.pending_commands import WriteService
from sowline.wire.media_types import ARROW, NATIVE
from sowline.wire.request import Sow
from sowline.wire.server_message import one_line


class ServiceParts(Protocol):
    """The parts of a service that the API needs."""

    @property
    def slots(self) -> QuerySlots:
        """The turns of queries."""

    @property
    def writes(self) -> WriteService:
        """The writer of commands."""


Q = TypeVar("Q", bound=BegunQuery)


class TopicsApi(ABC, Generic[Q]):
    """Answers HTTP requests independently of each other: there is no session.

    `HttpQueries` answers with the `SowlineError` that an answer within a turn raises.
    """

    def __init__(
        self,
        settings: Settings,
        kafka: KafkaConfig,
        topics: Mapping[str, TopicDefinition],
        parts: ServiceParts,
        rates: Rates,
        backlogs: Backlogs,
    ) -> None:
        self._settings = settings
        self._kafka = kafka
        self._topics = topics
        self._writes = parts.writes
        self._rates = rates
        self._queries = HttpQueries(parts.slots, backlogs)

    @property
    def routes(self) -> list[Route]:
        """The routes of this API."""
        of_topic, limited = "/v1/topics/{topic:path}", self._queries.limited
        return [
            Route("/v1/topics", self.topics),
            Route(f"{of_topic}/fields", self.fields),
            *KafkaApi(self._kafka, self._topics).routes,
            Route(f"{of_topic}/sow", limited(self.sow), methods=["POST"]),
            Route(f"{of_topic}/explain", limited(self.explain), methods=["POST"]),
            *WritesApi(self._settings, self._writes, self._rates).routes,
            Route(f"{of_topic}/records/{{key:path}}", limited(self.record)),
        ]

    async def topics(self, request: HttpRequest) -> Response:
        """List the topics that the user may read or write."""
        rights = rights_in(request)
        names = [name for name in self._topics if self._is_listed(name, rights)]
        return JSONResponse(
            {
                "kafka": self._settings.kafka_advertised or self._settings.kafka,
                "shard": self._shard,
                "agent_writes": rights.allows_agent_writes,
                "topics": [
                    described | {"select": readable_fields(rights.read, name)}
                    for name, described in zip(names, self._described(names, rights), strict=True)
                ],
            }
        )

    @property
    @abstractmethod
    def _shard(self) -> str: ...

    @abstractmethod
    def _described(self, topics: Sequence[str], rights: Rights) -> list[dict[str, Any]]: ...

    def _is_listed(self, topic: str, rights: Rights) -> bool:
        return topic in rights.read or topic in rights.write

    async def fields(self, request: HttpRequest) -> Response:
        """Describe the fields of a topic, from a sample of the records that the user may see."""
        try:
            return await self._fields(request, rights_in(request))
        except SowlineError as error:
            return refused(error)

    @abstractmethod
    async def _fields(self, request: HttpRequest, rights: Rights) -> Response: ...

    async def sow(self, request: HttpRequest, turn: Turn) -> Response:
        """Stream the records that match, as NDJSON or as the client asks for.

        The header Sowline-Bookmark has the bookmark of the instant.
        """
        if accepts(request, ARROW):
            return await self._table(request, turn)
        is_typed = wants_typed(request)
        fields = typed_fields(request, await self._request_fields(request))
        query = await self._begin_query(await request_of(Sow, fields), rights_in(request), turn)
        records = query.records()
        lines = self._ending(query, typed_records(records, self._topics) if is_typed else _lines(records))
        # Compute the first line before the headers are sent: after them, an error could only cut the answer.
        first = await anext(lines, b"")
        media_type = NATIVE if is_typed else NDJSON
        return StreamingResponse(
            with_first(first, lines), media_type=media_type, headers=answer_headers(query)
        )

    async def _table(self, request: HttpRequest, turn: Turn) -> Response:
        """Stream the records that match as one table."""
        fields, rights = await self._request_fields(request, TABLE_FIELDS), rights_in(request)

        async def begin(given: dict[str, Any]) -> Q:
            return await self._begin_query(await request_of(Sow, given), rights, turn)

        return await table_response(fields, begin, self._close)

    @abstractmethod
    async def _begin_query(self, asked: Sow, rights: Rights, turn: Turn) -> Q:
        """Return the query that a request asks for; it has begun, in its turn."""

    async def _ending(self, query: Q, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the lines of an answer; after them, or if the client leaves, the query ends."""
        try:
            async for portion in lines:
                yield portion
        finally:
            await self._close(query)

    async def _close(self, query: Q) -> None:
        """End a query, whether its records were read or not."""

    async def explain(self, request: HttpRequest, turn: Turn) -> Response:
        """Report the access path that a query would take in each topic, and how many records it would examine."""
        found = await self._explain(await self._request_fields(request), rights_in(request), turn)
        return JSONResponse(found)

    @abstractmethod
    async def _explain(self, fields: dict[str, Any], rights: Rights, turn: Turn) -> dict[str, Any]: ...

    async def record(self, request: HttpRequest, turn: Turn) -> Response:
        """Answer with one record by its key, or with its timeline in its turn."""
        address = read_address(path_of(request), self._topics)
        if address.what not in ("", "timeline"):
            raise HTTPException(404)
        return await self._record(address, request, turn)

    @abstractmethod
    async def _record(self, address: Address, request: HttpRequest, turn: Turn) -> Response: ...

    async def _request_fields(self, request: HttpRequest, own: Sequence[str] = ()) -> dict[str, Any]:
        fields = await sow_fields_in(request, self._settings.frame_bytes_max, own)
        return {"topic": request.path_params["topic"]} | fields


async def _lines(portions: AsyncIterator[RecordPortion]) -> AsyncIterator[bytes]:
    async for portion in portions:
        yield b"".join([one_line(record) for record in portion.records])
