"""The HTTP API of writes: one command or many in a request, with their bookmark or their outcomes as the answer."""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sowline.commands.command import DELTA, DELTA_PUBLISH, PUBLISH, SOW_DELETE
from sowline.commands.traceparent import TRACEPARENT, read_traceparent
from sowline.config.settings import Settings
from sowline.errors import SowlineError
from sowline.model.bookmark import format_bookmark
from sowline.runtime.tracing import begin
from sowline.serving.access.middleware import payer_of
from sowline.serving.access.rate_limits import Rates
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.error_response import refused
from sowline.serving.http.requests import NDJSON, body_in, lines_of, media_type_of, parameters_in, rights_in
from sowline.serving.worker_thread import FILTER_CHAR_BYTES, in_worker_thread
from sowline.serving.writes.delta_requests import KEY, posted_deltas, posted_lines
from sowline.serving.writes.pending_commands import WriteService
from sowline.serving.writes.requests import (
    FIELDS,
    PARAMETERS,
    SELECTORS,
    Definitions,
    RequestedCommand,
    posted_writes,
)
from sowline.wire.media_types import NATIVE

WRITES = (PUBLISH, DELTA_PUBLISH, DELTA, SOW_DELETE)


class WritesApi:
    """Answers POSTs that write commands."""

    def __init__(self, settings: Settings, service: WriteService, rates: Rates) -> None:
        self._settings = settings
        self._service = service
        self._topics = service.destination.topics
        self._rates = rates

    @property
    def routes(self) -> list[Route]:
        """The routes of this API."""
        of_topic = "/v1/topics/{topic:path}"
        return [Route(f"{of_topic}/{name}", partial(self.write, name), methods=["POST"]) for name in WRITES]

    async def write(self, command: str, request: HttpRequest) -> Response:
        """Write commands; if the request is part of a trace, add a span to it."""
        parent = read_traceparent(request.headers.get(TRACEPARENT))
        if parent is None:
            return await self._write(command, request, {})
        topic = request.path_params["topic"]
        span = begin(command, topic, parent)
        # What the server answers if an unforeseen error leaves this function.
        status = 500
        try:
            traceparent = parent if span is None else span.traceparent
            answer = await self._write(command, request, {TRACEPARENT: traceparent})
            status = answer.status_code
        finally:
            if span is not None:
                span.end({"status": status}, None if status == 200 else f"answered with {status}")
        return answer

    async def _write(self, command: str, request: HttpRequest, more: Mapping[str, str]) -> Response:
        """Write commands; answer with their bookmark once Kafka has them, or with their outcomes once applied."""
        try:
            given = {**more} | parameters_in(request, (*PARAMETERS, *OWN_PARAMETERS.get(command, ()), "ack"))
            ack = given.pop("ack", "persisted")
            if ack not in ("persisted", "processed"):
                raise SowlineError("bad request", f"expected ack=persisted or ack=processed, got {ack!r}")
            body = await body_in(request, self._settings.frame_bytes_max)
            topic, rights = request.path_params["topic"], rights_in(request)
            size = len(body) + FILTER_CHAR_BYTES * len(given.get("filter", ""))
            # All commands are read before the first is written: a wrong line refuses the whole request, and the
            # client can send it again (test_lines_that_can_t_be_are_refused).
            writings = await in_worker_thread(
                size, _posted, self._topics, topic, command, given, body, media_type_of(request), rights
            )
            self._service.destination.require_ready({one.write.topic.name for one in writings})
        except SowlineError as error:
            return refused(error)
        # One less: the middleware has counted the request.
        self._rates.take(payer_of(request.scope), len(writings) - 1, time.monotonic())
        try:
            pending = await self._service.begin(writings)
        except SowlineError as error:
            return refused(error)
        try:
            await pending.write_with_turns()
            answer: dict[str, Any] = {"commands": len(writings), "bookmark": await pending.wait_persisted()}
            if ack == "processed":
                summary = await pending.wait_outcomes()
                answer |= {
                    "outcomes": summary.outcomes,
                    "records_deleted": summary.deleted,
                    "effect": format_bookmark(summary.effect),
                }
                if command == DELTA:
                    answer["each"] = summary.each
        except SowlineError as error:
            return refused(error)
        finally:
            pending.end()
        return JSONResponse(answer)


OWN_PARAMETERS = {SOW_DELETE: SELECTORS, DELTA: (KEY,), DELTA_PUBLISH: (FIELDS,)}
"""The parameters that only one command takes, by command."""


def _posted(
    topics: Definitions,
    topic: str,
    command: str,
    given: Mapping[str, str],
    body: bytes,
    media_type: str,
    rights: Rights,
) -> list[RequestedCommand]:
    """Return the commands of a body: one record, or one per line; deltas for one document, or one per line."""
    is_lines = media_type == NDJSON
    if command != DELTA and media_type == NATIVE:
        return posted_writes(topics, topic, command, given, [body] if body else [], rights, is_typed=True)
    if command != DELTA:
        records = lines_of(body) if is_lines else [body] if body.strip() else []
        return posted_writes(topics, topic, command, given, records, rights, are_lines=is_lines)
    if is_lines:
        return posted_lines(topics, topic, given, lines_of(body), rights)
    return posted_deltas(topics, topic, given, body, rights)
