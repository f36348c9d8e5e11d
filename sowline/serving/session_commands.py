"""The commands of a client that every service shares: subscriptions, writes, and heartbeats."""

from collections.abc import Callable, Collection, Iterator
from typing import Any

from sowline.errors import SowlineError
from sowline.serving.access.login_session import LoginSession
from sowline.serving.outbox.group import acknowledge_done
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.query_slots import QuerySlots
from sowline.serving.sessions.command_runner import CommandRunner
from sowline.serving.sessions.open_subscriptions import OpenSubscriptions
from sowline.serving.sessions.running_queries import RunningQueries
from sowline.serving.sessions.status import SubscriptionStatus
from sowline.serving.typed_records.messages import TypedMessages
from sowline.serving.worker_thread import Waiting
from sowline.serving.writes.pending_commands import WriteService
from sowline.serving.writes.write_commands import NoteEffect, WriteCommands
from sowline.wire.request import (
    WRITES,
    FlushRequest,
    Heartbeat,
    OfTopic,
    Pause,
    Request,
    Resume,
    Unsubscribe,
)
from sowline.wire.server_message import message


class SessionCommands:
    """The running queries, the open subscriptions and the writes of one client.

    A service adds its reads to `_handlers`.
    """

    def __init__(
        self,
        outbox: Outbox,
        login: LoginSession,
        typed_messages: TypedMessages,
        slots: QuerySlots,
        writes: WriteService,
        note_effect: NoteEffect = lambda effect: None,
    ) -> None:
        """Prepare the commands of a client; `note_effect` gets the positions of effects that were reported to it."""
        self._outbox = outbox
        self._runner = CommandRunner(outbox, login, typed_messages, slots)
        self._running = RunningQueries(self._runner)
        self._subscriptions = subscriptions = OpenSubscriptions(self._runner, self._running)
        self._writes = WriteCommands(writes, self._runner, note_effect)
        self._handlers: dict[type[Request], Callable[[Any], Waiting]] = {
            Heartbeat: self.heartbeat,
            Unsubscribe: subscriptions.unsubscribe,
            Pause: subscriptions.pause,
            Resume: subscriptions.resume,
            **dict.fromkeys(WRITES, self._writes.write),
            FlushRequest: self._writes.flush,
        }

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
        return len(self._running)

    def queries(self) -> Iterator[OfTopic]:
        """Yield the requests of the running queries, the oldest first."""
        return self._running.requests()

    def begin(self, request: Request) -> Waiting:
        """Start a command, other than a logon; raise if it is refused."""
        return self._handlers[type(request)](request)

    def send_progress(self, seconds: float) -> None:
        """Send the bookmarks of idle subscriptions; called at intervals of `seconds`."""
        self._subscriptions.send_progress(seconds)

    def end_subscriptions_to(self, topics: Collection[str], error: SowlineError) -> None:
        """End the subscriptions that read one of these topics, with an error."""
        self._subscriptions.end_those_to(topics, error)

    def heartbeat(self, request: Heartbeat) -> None:
        """Answer a heartbeat, or start to compute the checksum of the subscription that it names."""
        if request.sub_id:
            self._subscriptions.heartbeat(request)
            return
        self._outbox.put(message("heartbeat", command_id=request.command_id))
        acknowledge_done(self._outbox, request)

    def close(self) -> None:
        """End all subscriptions, queries and waits for outcomes."""
        self._subscriptions.close()
        self._running.close()
        self._writes.close()
