"""One client's session: reads its commands, and passes each to its handler."""

import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from query_service.access.login_session import LoginSession
from query_service.authorization.identity import Identity
from query_service.context import ServiceContext
from query_service.cooperative import TURN_SECONDS
from query_service.outbox.group import acknowledge_done
from query_service.outbox.outbox import Outbox
from query_service.query.freshness import wait_until_fresh
from query_service.query.read_request import ReadRequest, read_request_of, topics_of
from query_service.server.command_runner import CommandRunner
from query_service.server.query_commands import QueryCommands
from query_service.server.subscription_commands import SubscriptionCommands
from query_service.server.worker_thread import THREAD_BYTES_MIN, bytes_to_read, in_worker_thread
from query_service.server.write_commands import WriteCommands
from query_service.subscriptions.progress import SubscriptionStatus
from sowline.errors import SowlineError
from sowline.protocol.request import Request, command_id_of, read_request, split_frame
from sowline.protocol.server_message import ack, failure, message
from sowline.version import __version__

Waiting = Coroutine[Any, Any, None] | None
"""Work that must be done before the next command is read, if any."""


class Session:
    """Takes frames of requests, and puts the answers into an outbox."""

    def __init__(self, context: ServiceContext, outbox: Outbox, login: LoginSession | None = None) -> None:
        self._context = context
        self._login = login or LoginSession()
        self.outbox = outbox
        runner = CommandRunner(context, outbox, self._login)
        self._queries = queries = QueryCommands(runner)
        self._subscriptions = subscriptions = SubscriptionCommands(runner, queries)
        self._writes = writes = WriteCommands(runner)
        self._handlers: dict[str, Callable[[Request], Waiting]] = {
            "heartbeat": self._heartbeat,
            "timeline": queries.timeline,
            "unsubscribe": subscriptions.unsubscribe,
            "pause": subscriptions.pause,
            "resume": subscriptions.resume,
            "publish": writes.write,
            "delta_publish": writes.write,
            "delta": writes.write,
            "sow_delete": writes.write,
            "flush": writes.flush,
        }
        self._read_handlers: dict[str, Callable[[Request, ReadRequest], None]] = {
            "sow": queries.sow,
            "explain": queries.explain,
            "subscribe": subscriptions.subscribe,
            "sow_and_subscribe": subscriptions.subscribe,
            "delta_subscribe": subscriptions.subscribe,
            "sow_and_delta_subscribe": subscriptions.subscribe,
        }

    # status

    @property
    def identity(self) -> Identity:
        """The user of this session; raises `logon required` until a user has logged on, if required."""
        return self._login.identity

    @property
    def user(self) -> str | None:
        """The name of the user, empty if no logon is needed; None until a user has logged on."""
        return self._login.user

    @property
    def subscriptions_count(self) -> int:
        """The number of subscriptions."""
        return len(self._subscriptions)

    def subscription_statuses(self) -> Iterator[SubscriptionStatus]:
        """Yield the status of each subscription, the oldest first."""
        return self._subscriptions.statuses()

    @property
    def queries_count(self) -> int:
        """The number of running queries."""
        return len(self._queries)

    def queries(self) -> Iterator[Request]:
        """Yield the requests of the running queries, the oldest first."""
        return self._queries.requests()

    # frames

    async def receive(self, frame: bytes) -> int:
        """Handle the requests of one frame, and return their number; an invalid frame gets an error as the answer.

        If the requests take long, other tasks run in between.
        """
        began = time.monotonic()
        requests = self._requests(frame)
        for text in requests:
            if (waiting := self.receive_one(text)) is not None:
                await waiting
            if time.monotonic() - began > TURN_SECONDS:
                await self._context.dispatcher.turns.wait()
                began = time.monotonic()
        return len(requests)

    def _requests(self, frame: bytes) -> list[bytes]:
        try:
            return split_frame(frame)
        except SowlineError as error:
            self.outbox.put(failure("", error))
            return []

    def receive_one(self, text: bytes) -> Waiting:
        """Handle one request; return the work, if any, that must be done before the next one."""
        try:
            request = read_request(text)
        except SowlineError as error:
            self.outbox.put(failure(command_id_of(text), error))
            return None
        try:
            if "received" in request.acks:
                self.outbox.put(ack("received", request.command_id))
            if request.command == "logon":
                return self._log_on(request)
            self._login.ask()
            return self._when_fresh(request) if request.demands_fresh else self._begin_read(request)
        except SowlineError as error:
            self.outbox.put(failure(request.command_id, error))
            return None

    async def _log_on(self, request: Request) -> None:
        """Log on, and report as whom, even if no acknowledgement was requested."""
        try:
            identity = await self._login.log_on(request.token)
        except SowlineError as error:
            self.outbox.put(failure(request.command_id, error))
            return
        self.outbox.put(
            ack(
                "processed",
                request.command_id,
                user=identity.user,
                roles=identity.roles,
                rights=identity.rights.digest,
                expires_in=self._login.expires_in,
                version=__version__,
            )
        )
        if "completed" in request.acks:
            self.outbox.put(ack("completed", request.command_id))

    def _heartbeat(self, request: Request) -> None:
        if request.sub_id:
            self._subscriptions.heartbeat(request)
            return
        self.outbox.put(message("heartbeat", command_id=request.command_id))
        acknowledge_done(self.outbox, request)

    async def _when_fresh(self, request: Request) -> None:
        """Start a read once the state is as fresh as it demands; later commands of this client wait meanwhile."""
        try:
            topics = topics_of(self._context.state, request.topic, self.identity.rights.read)
            await wait_until_fresh(self._context.state, topics, request)
            waiting = self._begin_read(request)
        except SowlineError as error:
            self.outbox.put(failure(request.command_id, error))
            return
        if waiting is not None:
            await waiting

    def _begin_read(self, request: Request) -> Waiting:
        if request.command in self._read_handlers:
            return self._read(request)
        return self._handlers[request.command](request)

    def _read(self, request: Request) -> Waiting:
        if bytes_to_read(request) >= THREAD_BYTES_MIN:
            return self._read_large(request)
        checked = read_request_of(self._context.state, request, self.identity.rights)
        self._read_handlers[request.command](request, checked)
        return None

    async def _read_large(self, request: Request) -> None:
        """Check a large request in the worker thread, while requests of other clients are handled."""
        try:
            size, state, rights = bytes_to_read(request), self._context.state, self.identity.rights
            checked = await in_worker_thread(size, read_request_of, state, request, rights)
            self._read_handlers[request.command](request, checked)
        except SowlineError as error:
            self.outbox.put(failure(request.command_id, error))

    async def send_progress(self) -> None:
        """Send the bookmarks of idle subscriptions; call it at regular intervals."""
        await self._subscriptions.send_progress()

    def close(self) -> None:
        """End all subscriptions and queries of the client."""
        self._subscriptions.close()
        self._queries.close()
        self._writes.close()
