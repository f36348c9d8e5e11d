"""A subscription over HTTP as Server-Sent Events: `GET /v1/topics/{topic}/subscribe`.

Each stream is a session with one subscription, and writes its outbox as events. It has the limits of other clients.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from functools import partial
from typing import Any

import orjson
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Send

from sowline.errors import SowlineError
from sowline.model.bookmark_range import range_text, split_range
from sowline.serving.cooperative import wait_next_turn
from sowline.serving.error_response import refused
from sowline.serving.flag import Flag
from sowline.serving.http.queries import ServedAnswer, wait_disconnected
from sowline.serving.http.requests import number_in
from sowline.serving.http.typed_format import wants_typed
from sowline.serving.sessions.events import END, Events, failure_of
from sowline.serving.sessions.open_sessions import OpenSessions, login_headers
from sowline.serving.sessions.session import Session
from sowline.wire.request import Subscribe
from sowline.wire.request_parser import parse_request

MEDIA_TYPE = "text/event-stream"
RETRY_MS = 2000
"""The delay after which a browser reconnects."""

KEEP_ALIVE_SECONDS = 15.0
"""Seconds without an event after which a comment is sent, to show proxies and clients that the connection lives."""

GOODBYE_SECONDS_MAX = 1.0

COMMANDS = ("subscribe", "sow_and_subscribe", "delta_subscribe", "sow_and_delta_subscribe")
NUMBERS = ("top_n", "skip_n", "batch_size")
PARAMETERS = (
    "command",
    "bookmark",
    "up_to",
    "filter",
    "condition",
    "options",
    "order_by",
    "sow_keys",
    "at_least",
    "max_staleness",
    *NUMBERS,
)
PASSING = ("not ready", "behind", "stale", "busy", "bookmark_expired", "history expired", "shard unavailable")
"""Errors that a client which reconnects gets as an event. After an error status, a browser would give up."""

# By default nginx holds an answer back until its buffer is full: events of a quiet topic would arrive hours later.
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "Connection": "close"}


def is_finished(last_event_id: str) -> bool:
    """Return whether a client reconnects to a stream that has reached its requested end."""
    return last_event_id.endswith(END)


def command_of(topic: str, given: QueryParams, last_event_id: str) -> Subscribe:
    """Return the command that a GET stands for; `last_event_id` is the bookmark of a client that reconnects.

    Raise `bad request`, `invalid options`, or another error of an invalid field.
    """
    if unknown := given.keys() - set(PARAMETERS):
        raise SowlineError(
            "bad request",
            f"expected the parameters {', '.join(PARAMETERS)}, got {', '.join(sorted(unknown))}",
        )
    fields: dict[str, Any] = {
        name: number_in(text) if name in NUMBERS else text for name, text in given.items()
    }
    bookmarks = given.getlist("bookmark")
    if len(bookmarks) > 1:
        fields["bookmark"] = bookmarks
    if last_event_id:
        # The client continues after its last event; the end of its range stays.
        ranged = None if len(bookmarks) != 1 else split_range(bookmarks[0])
        fields["bookmark"] = last_event_id if ranged is None else range_text(last_event_id, ranged)
    command = fields.setdefault("command", COMMANDS[0])
    if command not in COMMANDS:
        raise SowlineError("bad request", f"expected command={'|'.join(COMMANDS)}, got {command[:100]!r}")
    metadata = {"topic": topic, "command_id": "1", "ack_type": "processed,completed"}
    request = parse_request(Subscribe, orjson.dumps(fields | metadata))
    if request.options.pause:
        raise SowlineError("invalid options", "expected no pause: an event stream can't be resumed")
    if request.options.is_typed:
        raise _only_text()
    return request


def _only_text() -> SowlineError:
    return SowlineError(
        "invalid options",
        "expected an event stream without format=native and without its media type: it is text; use a WebSocket",
    )


def events_of(request: Subscribe) -> Events:
    """Return the encoder for the events of a new subscription."""
    bookmark_range = request.bookmark_range
    begins_now = bookmark_range.begins_now and not request.has_snapshot
    return Events(begins_now=begins_now, has_end=bookmark_range.end is not None)


class EventStream:
    """The stream of one client. It ends with its subscription, when its client leaves, or by `close`."""

    def __init__(self, session: Session, command: Subscribe) -> None:
        self._session = session
        self._command = command
        self._events = events_of(command)
        self._first: list[bytes] = []
        self._closing = Flag()
        self._why: SowlineError | None = None

    def close(self, code: int = 0, reason: str = "") -> None:
        """End the stream; its client reconnects to this service or another."""
        self._closing.set()

    def send_away(self, why: SowlineError) -> None:
        """End the stream with an error."""
        self._why = why
        self._closing.set()

    async def begin(self, receive: Receive) -> None:
        """Start the subscription; raise its error if it is refused, or `ClientDisconnect` if its client leaves."""
        await self._session.begin(self._command)
        loop = asyncio.get_running_loop()
        # A snapshot may wait long for its turn. It is useless once its client has left.
        first, leaving = (
            loop.create_task(self._session.outbox.take()),
            loop.create_task(wait_disconnected(receive)),
        )
        try:
            await asyncio.wait((first, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not first.done():
                raise ClientDisconnect
        finally:
            first.cancel()
            leaving.cancel()
        self._first = first.result()
        if (refusal := failure_of(self._first[0])) is not None:
            raise refusal

    async def send(self, receive: Receive, send: Send, headers: Mapping[str, str]) -> None:
        """Send events until the subscription ends, the client leaves, or the stream is closed."""
        await send(_start(headers))
        loop = asyncio.get_running_loop()
        sending = loop.create_task(self._send_all(send))
        leaving = [loop.create_task(wait_disconnected(receive)), loop.create_task(self._closing.wait())]
        try:
            await asyncio.wait((sending, *leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, *leaving):
                task.cancel()
        if sending.done():
            sending.result()
        elif self._closing.is_set():
            await _say(send, b"" if self._why is None else self._events.fail(self._why))

    async def _send_all(self, send: Send) -> None:
        begin = b"retry: %d\n\n" % RETRY_MS
        chunk = begin + b"".join(map(self._event, self._first))
        while not self._events.is_over:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            # Once a client is gone, `send` no longer waits. Without the turn, its stream would make events of all
            # unsent messages, 16 MiB by default, before it notices.
            await wait_next_turn()
            chunk = await self._next()
        await send({"type": "http.response.body", "body": chunk, "more_body": False})

    async def _next(self) -> bytes:
        try:
            async with asyncio.timeout(KEEP_ALIVE_SECONDS):
                messages = await self._session.outbox.take()
        except TimeoutError:
            return b":\n\n"
        return b"".join(map(self._event, messages))

    def _event(self, message: bytes) -> bytes:
        return b"" if self._events.is_over else self._events.take(message)


def one_event(error: SowlineError) -> Response:
    """Return a stream whose only event is an error, for a client that reconnects."""
    body = b"retry: %d\n\n%b" % (RETRY_MS, Events(begins_now=False, has_end=False).fail(error))
    return Response(body, media_type=MEDIA_TYPE, headers=HEADERS)


def _start(headers: Mapping[str, str]) -> dict[str, Any]:
    given = {**HEADERS, **headers, "Content-Type": f"{MEDIA_TYPE}; charset=utf-8"}
    encoded = [(name.lower().encode(), value.encode()) for name, value in given.items()]
    return {"type": "http.response.start", "status": 200, "headers": encoded}


async def _say(send: Send, last: bytes) -> None:
    """Send the last bytes, without waiting for a client that does not read."""
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(GOODBYE_SECONDS_MAX):
            await send({"type": "http.response.body", "body": last, "more_body": False})


class EventStreamApi:
    """The endpoint: each event stream counts as a session."""

    def __init__(self, sessions: OpenSessions) -> None:
        self._sessions = sessions

    async def endpoint(self, request: HttpRequest) -> Response:
        """Answer with a stream of events."""
        return ServedAnswer(partial(self._send_events, request))

    async def _send_events(self, request: HttpRequest, receive: Receive, send: Send) -> None:
        if wants_typed(request):
            await refused(_only_text())(request.scope, receive, send)
            return
        last = request.headers.get("last-event-id", "")
        if is_finished(last):
            # A browser reconnects at the end of an answer; a 204 tells it to stop.
            await Response(status_code=204)(request.scope, receive, send)
            return
        try:
            await self._stream(request, last, receive, send)
        except ClientDisconnect:
            return
        except SowlineError as error:
            status = 503 if error.reason == "busy" else None
            answer = one_event(error) if last and error.reason in PASSING else refused(error, status)
            await answer(request.scope, receive, send)

    async def _stream(self, request: HttpRequest, last: str, receive: Receive, send: Send) -> None:
        """Serve one subscription as events; if it is refused, raise before anything is sent."""
        if self._sessions.is_full:
            raise self._sessions.refuse()
        command = command_of(request.path_params["topic"], request.query_params, last)
        state = request.state
        opened = self._sessions.open(state.identity, state.credentials)
        try:
            stream = EventStream(opened.session, command)
            opened.count(stream)
            await stream.begin(receive)
            # Until here, a refusal is an answer with a status; from here on, the connection is a session.
            if (connection := getattr(state, "connection", None)) is not None:
                connection.become_session()
            opened.list_client(request)
            opened.watch_login(stream.send_away)
            await stream.send(receive, send, login_headers(opened.login))
        finally:
            opened.end()
