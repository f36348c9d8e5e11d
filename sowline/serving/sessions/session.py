"""One client's session: reads its commands, and passes each to the service that it is connected to."""

import time
from collections.abc import Callable, Collection, Coroutine, Iterator
from typing import Any, Protocol

from sowline.errors import SowlineError
from sowline.serving.access.login_session import LoginSession
from sowline.serving.cooperative import TURN_SECONDS
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.sessions.status import SubscriptionStatus
from sowline.serving.worker_thread import Waiting, bytes_to_read, with_result
from sowline.version import __version__
from sowline.wire.request import Logon, OfTopic, Request
from sowline.wire.request_fields import RequestFields, command_id_of, read_fields, split_frame
from sowline.wire.request_parser import acks_of, parse
from sowline.wire.server_message import ack, failure


class Commands(Protocol):
    """The commands of one client, as a service carries them out."""

    @property
    def subscriptions_count(self) -> int:
        """The number of subscriptions."""

    def subscription_statuses(self) -> Iterator[SubscriptionStatus]:
        """Yield the status of each subscription, the oldest first."""

    @property
    def queries_count(self) -> int:
        """The number of running queries."""

    def queries(self) -> Iterator[OfTopic]:
        """Yield the requests of the running queries, the oldest first."""

    def check_fields(self, fields: RequestFields) -> None:
        """Raise `bad request` if the client may not send some of these fields."""

    def check_first(self, fields: RequestFields) -> None:
        """Raise the error of a topic, which takes precedence over all other errors of a command."""

    def begin(self, request: Request) -> Waiting:
        """Start a command, other than a logon; raise if it is refused, at once or in the remaining work."""

    async def take_turn(self) -> None:
        """Let other clients run: this one has used its share of time."""

    def send_progress(self, seconds: float) -> None:
        """Send the bookmarks of idle subscriptions; called at intervals of `seconds`."""

    def end_subscriptions_to(self, topics: Collection[str], error: SowlineError) -> None:
        """End the subscriptions that read one of these topics, with an error."""

    def close(self) -> None:
        """End all subscriptions and queries."""


NewCommands = Callable[[Outbox, LoginSession], Commands]
"""Returns the commands of a new client, whose messages go into the outbox."""


class Session:
    """Takes frames of requests, and puts the answers into an outbox."""

    def __init__(self, commands: Commands, outbox: Outbox, login: LoginSession) -> None:
        self.commands = commands
        self._login = login
        self.outbox = outbox

    @property
    def user(self) -> str | None:
        """The name of the user, empty if no logon is needed; None until a user has logged on."""
        return self._login.user

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
                await self.commands.take_turn()
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
        fields: RequestFields | None = None
        try:
            fields = read_fields(text)
            return self._begin(fields)
        except SowlineError as error:
            # A command that can't be read may still have its id, and its sender waits for the answer to it
            # (test_what_can_not_be_done_is_refused).
            command_id = command_id_of(text) if fields is None else fields.command_id
            self.outbox.put(failure(command_id, error))
            return None

    def _begin(self, fields: RequestFields) -> Waiting:
        acks = acks_of(fields)
        if "received" in acks:
            self.outbox.put(ack("received", fields.command_id))
        if fields.command == Logon.command:
            waiting: Waiting = self._log_on(
                Logon(command_id=fields.command_id, acks=acks, token=fields.token)
            )
        else:
            self._login.ask()
            self.commands.check_fields(fields)
            # A large command is parsed in the worker thread, while requests of other clients are handled.
            size = bytes_to_read(fields.options)
            waiting = with_result(size, self.commands.begin, self._parsed, fields, acks)
        return None if waiting is None else self._finish(fields.command_id, waiting)

    def _parsed(self, fields: RequestFields, acks: frozenset[str]) -> Request:
        """Return the command; raise why it is invalid, or an error of its topic, which takes precedence."""
        try:
            return parse(fields, acks)
        except SowlineError:
            self.commands.check_first(fields)
            raise

    async def _finish(self, command_id: str, waiting: Coroutine[Any, Any, None]) -> None:
        """Do the rest of a command; report why it is refused, if it is."""
        try:
            await waiting
        except SowlineError as error:
            self.outbox.put(failure(command_id, error))

    async def begin(self, request: Request) -> None:
        """Handle a command that was parsed, with the work that must be done before the next one."""
        try:
            self._login.ask()
            if (waiting := self.commands.begin(request)) is not None:
                await waiting
        except SowlineError as error:
            self.outbox.put(failure(request.command_id, error))

    async def _log_on(self, request: Logon) -> None:
        """Log on, and report as whom, even if no acknowledgement was requested."""
        identity = await self._login.log_on(request.token)
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

    def close(self) -> None:
        """End all subscriptions and queries of the client."""
        self.commands.close()
