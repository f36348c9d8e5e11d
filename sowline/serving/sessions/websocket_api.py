"""The WebSocket API: one endpoint, `/v1`."""

import asyncio
import contextlib
import time

from starlette.websockets import WebSocket, WebSocketDisconnect

from sowline.errors import SowlineError
from sowline.protocol.server_message import join_frame
from sowline.runtime.health import nothing
from sowline.serving.access.login_session import LoginSession
from sowline.serving.access.middleware import close_reason, refuse_handshake
from sowline.serving.access.rate_limits import Rates
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.sessions.open_sessions import OpenSessions, login_headers
from sowline.serving.sessions.session import Session

POLICY = 1008

GOODBYE_SECONDS_MAX = 1.0


class WebSocketApi:
    """Serves one session on each WebSocket."""

    def __init__(self, sessions: OpenSessions, rates: Rates) -> None:
        self._sessions = sessions
        self._rates = rates

    async def endpoint(self, socket: WebSocket) -> None:
        """Serve a client until it leaves or must disconnect."""
        if self._sessions.is_full:
            await refuse_handshake(socket, self._sessions.refusal(), 503)
            return
        if (connection := getattr(socket.state, "connection", None)) is not None:
            connection.become_session()
        self._sessions.add(socket)
        try:
            with contextlib.ExitStack() as stack:
                entering = self._sessions.logins.enter(socket.state.identity, socket.state.credentials)
                try:
                    login = stack.enter_context(entering)
                except SowlineError as error:
                    await refuse_handshake(socket, error)
                    return
                headers = [(name.encode(), text.encode()) for name, text in login_headers(login).items()]
                await socket.accept(headers=headers)
                await self._serve(socket, login)
        finally:
            self._sessions.discard(socket)
            getattr(socket.state, "cut", nothing)()

    async def _serve(self, socket: WebSocket, login: LoginSession) -> None:
        session = self._sessions.new_session(login)
        writer = asyncio.get_running_loop().create_task(_write(socket, session.outbox))
        try:
            with self._sessions.served(socket, session, socket):
                why = await self._read_until_the_end(socket, session, login)
        finally:
            session.close()
            writer.cancel()
        if why is not None:
            await _send_away(socket, why)

    async def _read_until_the_end(
        self, socket: WebSocket, session: Session, login: LoginSession
    ) -> SowlineError | None:
        """Read commands until the client leaves; return the reason if it must disconnect."""
        if self._sessions.authenticator.is_open:
            await self._read(socket, session)
            return None
        reading = asyncio.create_task(self._read(socket, session))
        ending = asyncio.create_task(self._sessions.login_ended(login))
        try:
            await asyncio.wait((reading, ending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            reading.cancel()
            ending.cancel()
        if reading.done():
            reading.result()
            return None
        return ending.result()

    async def _read(self, socket: WebSocket, session: Session) -> None:
        """Read commands, no faster than the rate limit allows and the client reads its messages."""
        without_user = f"\0{id(session)}"
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                received = await socket.receive()
                if received["type"] == "websocket.disconnect":
                    return
                frame = received.get("bytes") or (received.get("text") or "").encode()
                commands = await session.receive(frame)
                owed = self._rates.take(session.user or without_user, commands, time.monotonic())
                if owed:
                    await asyncio.sleep(owed)
                await session.outbox.wait_room()


async def _write(socket: WebSocket, outbox: Outbox) -> None:
    """Send the messages of the outbox, many in a frame, as fast as the client reads."""
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        while True:
            await socket.send_text(join_frame(await outbox.take()).decode())


async def _send_away(socket: WebSocket, why: SowlineError) -> None:
    """Close a connection with a reason; do not wait for a client that does not read."""
    with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
        async with asyncio.timeout(GOODBYE_SECONDS_MAX):
            await socket.close(POLICY, close_reason(why))
