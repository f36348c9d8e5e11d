"""The WebSocket of a client. It reconnects whenever it is lost, and logs on again before its token expires."""

import asyncio
import contextlib
import itertools
import logging
import ssl
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from sowline.client.absence import is_absent, no_answer
from sowline.config.credentials import RENEW_AT, RENEW_SECONDS_MIN, Credentials
from sowline.config.proxies import proxy_of
from sowline.errors import SowlineError
from sowline.model.printable import printable
from sowline.wire.client_message import Received, read_frame

CONNECT_SECONDS_MAX = 30.0
CLOSE_SECONDS_MAX = 1.0
"""Seconds to wait for the end of a connection: nothing is lost if the service does not answer."""
BACK_OFF_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
REPEAT_SECONDS = 0.2
"""Seconds to wait before sending a request again that the service could not serve yet."""
REASONS_MAX = 10
"""The reasons that a client logs while it reconnects."""
SILENCE_SECONDS_MAX = 20.0

LOGON = "logon"
"""The id of the command that renews a logon; no stream has this id."""

Request = dict[str, Any]

log = logging.getLogger("sowline")


class Subscriptions(Protocol):
    """The user of a connection: it receives the messages, and provides the requests for a new connection."""

    async def receive(self, received: Received) -> None:
        """Take a message of the service."""

    def resume(self, *, is_void: bool) -> Iterator[Request]:
        """Yield the requests to send first on a new connection.

        If `is_void`, the client has other rights than before, and what subscribers hold is no longer valid.
        """
        ...

    def lost(self) -> None:
        """Note that the connection is lost; another one will be made."""

    def fail(self, error: SowlineError) -> None:
        """End everything: there will be no further connection."""


class ServiceConnection:
    """Sends requests over a WebSocket, and reads from it for as long as the client is open."""

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        tls: Callable[[], ssl.SSLContext | None],
        carried: Subscriptions,
    ) -> None:
        self._url = url
        self._credentials = credentials
        self._tls = tls
        self._carried = carried
        self._rights: str | None = None
        self._renewal: asyncio.TimerHandle | None = None
        self._failure: SowlineError | None = None
        self._socket: ClientConnection | None = None
        self._connected = asyncio.Event()
        self._is_resuming = False
        self._reader: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()

    # what the client calls

    async def open(self) -> None:
        """Connect, and begin to read; raises `not connected`, or the reason of a refusal."""
        self._socket = await self._connect_within(CONNECT_SECONDS_MAX)
        self._connected.set()
        self._reader = asyncio.create_task(self._read_until_failure())

    async def close(self) -> None:
        """Close the connection, and drop unsent messages. Callers that wait for a connection get `disconnected`."""
        self._failure = self._failure or SowlineError("disconnected", "the client was closed")
        self._connected.set()
        for task in self._sending:
            task.cancel()
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
        if self._renewal is not None:
            self._renewal.cancel()
        if self._socket is not None:
            await self._socket.close()

    async def wait_until_open(self) -> None:
        """Wait for a connection; raise the reason if there will be none."""
        await self._connected.wait()
        if self._failure is not None:
            raise self._failure

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent now. If not, the requests of all subscriptions are sent, also of new ones, by
        what resumes this connection or the next.
        """
        return self._connected.is_set() and not self._is_resuming

    @property
    def rights(self) -> str | None:
        """The name of this client's rights: equal names, equal rights. None if the service does not send one."""
        return self._rights

    async def send(self, request: Request) -> None:
        """Send a request at once. If the connection is lost, a new one resumes the streams."""
        assert self._socket is not None
        # The reader notices the loss as well, and reconnects. An error here would end a stream that will resume.
        with contextlib.suppress(ConnectionClosed):
            await self._socket.send(orjson.dumps(request).decode())

    def start(self, sending: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Send something while the reader continues; the task is cancelled when the client is closed."""
        task = asyncio.create_task(sending)
        # The event loop keeps only a weak reference, so an unreferenced task could be collected before it ends.
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        return task

    async def wait_to_repeat(self) -> None:
        """Wait before a request is sent again that the service could not serve yet."""
        await asyncio.sleep(REPEAT_SECONDS)

    # reading

    async def _read_until_failure(self) -> None:
        try:
            with contextlib.suppress(ConnectionClosed):
                await self._read()
            while True:
                self._connected.clear()
                self._carried.lost()
                await self._read_and_resume(is_void=await self._reconnect())
        except SowlineError as error:
            self._break(error)
        except Exception as error:
            self._break(SowlineError("internal", f"the client could not continue: {error!r}"))

    async def _read_and_resume(self, *, is_void: bool) -> None:
        """Read a new connection until it is lost, and meanwhile send what resumes all streams."""
        # The service reads no commands while its messages are unread. With many or large requests, a client that read
        # nothing until all were sent would wait forever (test_a_client_that_resumes_reads_meanwhile).
        self._is_resuming = True
        self._connected.set()
        try:
            async with asyncio.TaskGroup() as both:
                resuming = both.create_task(self._resume(is_void=is_void))
                with contextlib.suppress(ConnectionClosed):
                    await self._read()
                resuming.cancel()
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _resume(self, *, is_void: bool) -> None:
        for request in self._carried.resume(is_void=is_void):
            await self.send(request)
        self._is_resuming = False

    def _break(self, error: SowlineError) -> None:
        """End everything; each caller that waits for an answer gets the error."""
        self._failure = error
        self._connected.set()
        self._carried.fail(error)

    async def _read(self) -> None:
        assert self._socket is not None
        while True:
            for received in read_frame(await self._receive(self._socket)):
                if received.command_id == LOGON and received.command == "ack":
                    await self._note_renewal(received)
                else:
                    await self._carried.receive(received)

    @staticmethod
    async def _receive(socket: ClientConnection) -> bytes:
        """Return the next frame. If the service is silent, send a ping; the connection ends if no pong arrives.

        Only a reader that waits sends a ping: while a slow caller keeps the client from reading, no pong could
        arrive.
        """
        pong = None
        while True:
            try:
                async with asyncio.timeout(SILENCE_SECONDS_MAX):
                    return await socket.recv(decode=False)
            except TimeoutError:
                if pong is not None and not pong.done():
                    # A close would wait for an answer, which a service that is gone does not give.
                    socket.transport.abort()
                else:
                    pong = asyncio.ensure_future(await socket.ping())

    # connecting

    async def _reconnect(self) -> bool:
        """Connect again, with as many attempts as necessary; return whether what subscribers hold is void."""
        previous_rights = self._rights
        log.warning("lost the connection to the query service at %s; trying again", printable(self._url))
        self._socket = await self._connect_within(None)
        log.warning("connected to the query service again")
        # With other rights, the client may hold records that it may no longer see: everything is sent again
        # (test_other_rights_begin_afresh).
        return previous_rights is not None and self._rights not in (previous_rights, None)

    async def _connect_within(self, seconds: float | None) -> ClientConnection:
        """Connect within this time, or without a limit; raise `not connected`, or the reason of a refusal.

        A first connection does not wait if nothing listens: the command reports that at once. While it waits for a
        service that may be starting, it logs each attempt, so that the user of a command sees why nothing happens.
        A reconnecting client logs each reason once. If a token is refused and there may be a newer one, it tries a
        few more times.
        """
        logged: set[str] = set()
        refusals = itertools.count(
            1 if seconds is None and self._credentials.renews else len(BACK_OFF_SECONDS)
        )
        loop = asyncio.get_running_loop()
        deadline = None if seconds is None else loop.time() + seconds
        for pause in itertools.chain(BACK_OFF_SECONDS, itertools.repeat(BACK_OFF_SECONDS[-1])):
            try:
                return await self._connect()
            except (OSError, InvalidHandshake, TimeoutError) as error:
                refusal = _refusal(error)
                if refusal is not None and next(refusals) >= len(BACK_OFF_SECONDS):
                    raise refusal from None
                failure = refusal or no_answer("a query service", self._url, error)
                # Another attempt mends no certificate, so a reconnecting client ends as well. Any other error of TLS
                # may come from a service that stops during the handshake (test_a_handshake_that_is_cut_short).
                final = ssl.SSLCertVerificationError if deadline is None else ssl.SSLError
                if isinstance(error, final):
                    raise failure from error
                if deadline is not None and (loop.time() >= deadline or is_absent(self._url, error)):
                    raise failure from error
            except SowlineError as error:
                # The function for tokens may fail for a moment, or read a file that is being replaced. A first
                # connection reports that, a later one tries again (test_a_function_that_returns_no_token_once). What
                # can be no token counts as a refusal; a function that fails may wait for the same network.
                if deadline is not None or not self._credentials.renews:
                    raise
                if error.reason == "bad request" and next(refusals) >= len(BACK_OFF_SECONDS):
                    raise
                failure = error
            if deadline is not None or (failure.message not in logged and len(logged) < REASONS_MAX):
                logged.add(failure.message)
                log.warning("%s; trying again in %g s", printable(failure.message), pause)
            await asyncio.sleep(pause)
        raise AssertionError("the pauses never end")

    async def _connect(self) -> ClientConnection:
        """Make a connection, with a fresh token, and note what the service sends about its logon."""
        # The library refuses messages over 1 MiB by default. Its own pings would end the connection of a caller that
        # reads slowly: `_receive` sends them.
        socket = await connect(
            _websocket_url(self._url),
            additional_headers=await self._credentials.headers(fresh=True),
            ssl=self._tls(),
            max_size=None,
            compression=None,
            proxy=proxy_of(self._url),
            ping_interval=None,
            close_timeout=CLOSE_SECONDS_MAX,
        )
        if socket.response is not None:
            headers = socket.response.headers
            expires_in = headers.get("Sowline-Expires-In")
            self._note_logon(headers.get("Sowline-Rights"), None if expires_in is None else float(expires_in))
        return socket

    # the logon

    def _note_logon(self, rights: str | None, expires_seconds: float | None) -> None:
        """Note how long a logon is valid; renew its token before that, if there may be another."""
        self._rights = rights or self._rights
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None
        if expires_seconds is not None and self._credentials.renews:
            loop = asyncio.get_running_loop()
            wait = max(expires_seconds * RENEW_AT, min(expires_seconds, RENEW_SECONDS_MIN))
            self._renewal = loop.call_later(wait, lambda: self.start(self._renew()))

    async def _renew(self) -> None:
        """Log on again over the same connection with a fresh token; a new connection does so by itself."""
        # Without a token the connection ends with the old one, and the next connection asks for one again.
        with contextlib.suppress(SowlineError):
            token = await self._credentials.token(fresh=True)
            if self._connected.is_set():
                await self.send({"command": "logon", "command_id": LOGON, "token": token})

    async def _note_renewal(self, answer: Received) -> None:
        """Continue with the token that was accepted; if it was not, reconnect."""
        if answer.status == "success":
            self._note_logon(answer.rights, answer.expires_in)
        elif self._socket is not None:
            await self._socket.close()


def _refusal(error: Exception) -> SowlineError | None:
    """Return the reason why a handshake was refused, if a retry would be refused as well."""
    # Any other status may pass, such as the 503 of a service that has too many clients: it is tried again.
    if not isinstance(error, InvalidStatus) or error.response.status_code not in (401, 403):
        return None
    try:
        answer = orjson.loads(error.response.body or b"")
        return SowlineError(answer["reason"], answer["message"])
    except (ValueError, LookupError, TypeError):
        return None


def _websocket_url(url: str) -> str:
    scheme, netloc, path, _, _ = urlsplit(url)
    schemes = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
    if scheme not in schemes or not netloc:
        raise SowlineError("bad request", f"expected a URL such as http://127.0.0.1:8080, got {url!r}")
    return urlunsplit((schemes[scheme], netloc, f"{path}/v1", "", ""))
