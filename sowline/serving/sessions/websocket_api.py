"""The WebSocket API: one endpoint, `/v1`."""

import asyncio
import time
from collections import deque

import structlog
from starlette.websockets import WebSocket
from websockets.frames import CloseCode

from sowline.errors import SowlineError
from sowline.runtime.websocket_connection import WebSocketConnection
from sowline.runtime.websocket_handshake import Handshake
from sowline.serving.access.middleware import close_reason, refuse_handshake
from sowline.serving.access.rate_limits import Rates
from sowline.serving.sessions.open_sessions import OpenSession, OpenSessions, login_headers
from sowline.serving.sessions.rounds import Rounds
from sowline.wire.server_message import join_frame
from sowline.wire.typed_frame import is_binary, join_typed

log = structlog.get_logger()

PING_SECONDS = 20.0
"""Seconds of silence, at least, before a ping, which shows proxies that the connection lives.

No answer is required: a client that reads slowly answers late, and TCP reports a client that is gone.
"""


class WebSocketApi:
    """Serves one session on each WebSocket."""

    def __init__(self, sessions: OpenSessions, rates: Rates) -> None:
        self._sessions = sessions
        self.rates = rates
        self.pings = Rounds(PING_SECONDS, ClientSocket.ping_if_quiet)

    async def endpoint(self, socket: WebSocket) -> None:
        """Accept a client, and hand its socket to a `ClientSocket`."""
        if self._sessions.is_full:
            await refuse_handshake(socket, self._sessions.refuse(), 503)
            return
        state = socket.state
        try:
            opened = self._sessions.open(state.identity, state.credentials)
        except SowlineError as error:
            await refuse_handshake(socket, error)
            return
        if (counted := getattr(state, "connection", None)) is not None:
            counted.become_session()
        handshake: Handshake = state.handshake
        headers = [(name.encode(), text.encode()) for name, text in login_headers(opened.login).items()]
        connection = ClientSocket(self, opened)
        opened.count(connection)
        opened.list_client(socket)
        opened.watch_login(connection.send_away)
        handshake.accept(connection, headers)


class ClientSocket(WebSocketConnection):
    """The WebSocket of one session: passes its messages to the session, and sends those of its outbox.

    While a command runs, the next ones wait. While the client does not read, its messages wait in the outbox.
    """

    __slots__ = ("_api", "_frames", "_is_quiet", "_opened", "_outbox", "_reading")

    def __init__(self, api: WebSocketApi, opened: OpenSession) -> None:
        self._api = api
        self._opened = opened
        self._outbox = opened.session.outbox
        self._frames: deque[bytes] | None = None
        """Messages of the client after the one that is being handled."""
        self._reading: asyncio.Task[None] | None = None
        self._is_quiet = True
        """Whether nothing was sent since the last turn of `ping_if_quiet`."""
        self._outbox.written_by(self.resumed)
        api.pings.add(self)

    def resumed(self) -> None:
        """Send the messages in the outbox, many in a frame, as long as the client reads."""
        outbox = self._outbox
        while self.can_write and (messages := outbox.take_now()):
            # Proxies see these messages, and need no ping (test_a_connection_that_was_sent_something_is_not_pinged).
            self._is_quiet = False
            if outbox.has_binary and any(map(is_binary, messages)):
                self.send_binary(join_typed(messages))
            else:
                self.send(join_frame(messages))

    def ping_if_quiet(self) -> None:
        """Send a ping if nothing else was sent for an interval."""
        if self._is_quiet:
            self.ping()
        self._is_quiet = True

    def received(self, message: bytes) -> None:
        """Handle the commands of a message, after those of the messages before it."""
        if self._reading is None:
            self._start(message)
            return
        if self._frames is None:
            self._frames = deque()
            # The client's further commands wait in the kernel, and TCP slows the client down: here they would take
            # memory without a limit.
            self.transport.pause_reading()
        self._frames.append(message)

    def _start(self, message: bytes) -> None:
        self._reading = asyncio.get_running_loop().create_task(self._read(message))
        self._reading.add_done_callback(self._end_reading)

    async def _read(self, message: bytes) -> None:
        """Handle commands, no faster than the rate limit allows and the client reads its messages."""
        await self._handle(message)
        while self._frames is not None:
            await self._handle(self._next(self._frames))

    def _next(self, frames: deque[bytes]) -> bytes:
        message = frames.popleft()
        if not frames:
            self._frames = None
            self.transport.resume_reading()
        return message

    async def _handle(self, message: bytes) -> None:
        session = self._opened.session
        commands = await session.receive(message)
        payer = session.user or f"\0{id(session)}"
        if owed := self._api.rates.take(payer, commands, time.monotonic()):
            await asyncio.sleep(owed)
        await self._outbox.wait_room()

    def _end_reading(self, task: asyncio.Task[None]) -> None:
        self._reading = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("session failed", exc_info=error)
        if error is None and self._frames is not None and not task.cancelled():
            # It arrived after the task's last look (test_a_message_that_comes_when_a_task_ends).
            self._start(self._next(self._frames))
        elif self.is_ended:
            self._opened.end()
        elif error is not None:
            self.close(CloseCode.INTERNAL_ERROR)

    def send_away(self, why: SowlineError) -> None:
        """Close the connection with a reason; its commands that have not been handled yet are dropped."""
        if self._reading is not None:
            self._reading.cancel()
        self.close(CloseCode.POLICY_VIOLATION, close_reason(why))

    def ended(self) -> None:
        """End the session, once the commands have been handled that the client sent before it left."""
        self._api.pings.discard(self)
        # A command may wait until the outbox has drained (test_commands_before_the_end_are_handled).
        self._outbox.written_by(self._drop)
        self._drop()
        # Otherwise the task ends it, after the last command (test_commands_before_the_end_are_handled).
        if self._reading is None:
            self._opened.end()

    def _drop(self) -> None:
        while self._outbox.take_now():
            pass
