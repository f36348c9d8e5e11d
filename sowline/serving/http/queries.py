"""Answers queries over HTTP within the limits of the service: each waits for its turn, and for its client to read."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

import structlog
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sowline.errors import SowlineError
from sowline.serving.access.middleware import payer_of
from sowline.serving.backlogs import Backlogs
from sowline.serving.error_response import refused
from sowline.serving.query_slots import Asker, QuerySlot, QuerySlots

log = structlog.get_logger()

PIECE_BYTES = 1 << 16
"""Bytes of an answer to send at once; the next ones wait until the client has read most of these.

It is what the server buffers. A client that reads slowly would take long to read a larger piece, and be cut as one
that reads too little.
"""


class ServedAnswer(Response):
    """A response that a function sends."""

    def __init__(self, serve: Callable[[Receive, Send], Awaitable[None]]) -> None:
        super().__init__()
        self._serve = serve

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        await self._serve(receive, send)


async def wait_disconnected(receive: Receive) -> None:
    """Wait until the client has left; the body of its request must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


class Turn:
    """The turn of one request. Take it once the request has been read and is found to be valid."""

    def __init__(self, slot: QuerySlot, receive: Receive, backlogs: Backlogs) -> None:
        self._slot = slot
        self._receive = receive
        self.backlogs = backlogs

    @property
    def is_taken(self) -> bool:
        """Whether its query runs."""
        return self._slot.is_taken

    async def take(self) -> bool:
        """Wait for the turn, and return whether it had to.

        Raise `busy` if too many wait, or `ClientDisconnect` if the client leaves first.
        """
        if self._slot.take_now():
            return False
        loop = asyncio.get_running_loop()
        # A client may leave while its query waits. It would then run for nobody, and others would wait behind it
        # (test_a_client_that_leaves_waits_no_longer).
        taking = loop.create_task(self._slot.take())
        leaving = loop.create_task(wait_disconnected(self._receive))
        try:
            await asyncio.wait((taking, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not taking.done():
                raise ClientDisconnect
            return taking.result()
        finally:
            taking.cancel()
            leaving.cancel()

    def free(self) -> None:
        """Let another query run, until this one takes its turn again."""
        self._slot.free()


class _Answer:
    """How much of one answer a client has read."""

    def __init__(self, send: Send, backlogs: Backlogs) -> None:
        self._send = send
        self._backlogs = backlogs
        self.has_begun = False
        self.is_blocked = False
        """Whether it waits until the client reads."""
        self.sent_bytes = 0
        """The bytes sent so far."""

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Send a message, a large one in pieces. Each waits until the client has read most of the one before."""
        body = message.get("body", b"")
        self.has_begun = self.is_blocked = True
        # The whole body, not only the piece that waits: all of it is in memory until the client has read the last one
        # (test_what_is_not_read_counts).
        self._backlogs.unsent_bytes += len(body)
        try:
            for start in range(0, len(body) - PIECE_BYTES, PIECE_BYTES):
                piece = body[start : start + PIECE_BYTES]
                await self._send({"type": message["type"], "body": piece, "more_body": True})
                self.sent_bytes += PIECE_BYTES
            if len(body) > PIECE_BYTES:
                message = {**message, "body": body[(len(body) - 1) // PIECE_BYTES * PIECE_BYTES :]}
            await self._send(message)
            self.sent_bytes += len(message.get("body", b""))
        finally:
            self._backlogs.unsent_bytes -= len(body)
            self.is_blocked = False


Answering = Callable[[HttpRequest, Turn], Awaitable[Response]]


class HttpQueries:
    """The queries of HTTP requests, each as a separate connection."""

    def __init__(self, slots: QuerySlots, backlogs: Backlogs) -> None:
        self._slots = slots
        self._backlogs = backlogs

    def limited(self, answer: Answering) -> Callable[[HttpRequest], Awaitable[Response]]:
        """Return the endpoint for a function that answers a request with a query, within its turn."""

        async def endpoint(request: HttpRequest) -> Response:
            return ServedAnswer(partial(self._serve, answer, request))

        return endpoint

    async def _serve(self, answer: Answering, request: HttpRequest, receive: Receive, send: Send) -> None:
        sending = _Answer(send, self._backlogs)
        is_limited = request.state.identity.delegated is None
        slot = self._slots.new(Asker(payer_of(request.scope), sending, sending, is_limited))
        try:
            async with slot:
                response = await answer(request, Turn(slot, receive, self._backlogs))
                await response(request.scope, receive, sending.send)
        except ClientDisconnect:
            return
        except SowlineError as error:
            if not sending.has_begun:
                await refused(error)(request.scope, receive, send)
            elif error.reason == "not read":
                await _cut(request, receive, error)
            else:
                raise


async def _cut(request: HttpRequest, receive: Receive, why: SowlineError) -> None:
    """Cut the connection of a client that does not read: it would never get to the end of an answer."""
    log.warning("answer cut", path=request.url.path, reason=why.reason, message=why.message)
    if (connection := getattr(request.state, "connection", None)) is not None:
        connection.close()
        # If this returned before the server has noticed it, that would log an answer without its end as an error.
        await wait_disconnected(receive)
