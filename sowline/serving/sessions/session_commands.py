"""What the commands of a client have in common at every service: queries, subscriptions, and heartbeats."""

from collections.abc import Iterator

from sowline.serving.access.login_session import LoginSession
from sowline.serving.outbox.group import acknowledge_done
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.query_slots import QuerySlots
from sowline.serving.sessions.command_runner import CommandRunner
from sowline.serving.sessions.open_subscriptions import OpenSubscriptions
from sowline.serving.sessions.running_queries import RunningQueries
from sowline.serving.sessions.status import SubscriptionStatus
from sowline.serving.typed_records.messages import TypedMessages
from sowline.wire.request import Heartbeat, OfTopic
from sowline.wire.server_message import message


class SessionCommands:
    """The running queries and the open subscriptions of one client."""

    def __init__(
        self, outbox: Outbox, login: LoginSession, typed_messages: TypedMessages, slots: QuerySlots
    ) -> None:
        self._outbox = outbox
        self._runner = CommandRunner(outbox, login, typed_messages, slots)
        self._running = RunningQueries(self._runner)
        self._subscriptions = OpenSubscriptions(self._runner, self._running)

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

    def heartbeat(self, request: Heartbeat) -> None:
        """Answer a heartbeat, or start to compute the checksum of the subscription that it names."""
        if request.sub_id:
            self._subscriptions.heartbeat(request)
            return
        self._outbox.put(message("heartbeat", command_id=request.command_id))
        acknowledge_done(self._outbox, request)

    def close(self) -> None:
        """End all subscriptions and queries."""
        self._subscriptions.close()
        self._running.close()
