"""The commands of one client: checks the topics and the rights of each, and passes it to its handler."""

from collections.abc import Callable
from functools import partial

from sowline.errors import SowlineError
from sowline.serving.access.login_session import LoginSession
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.sessions.session import Waiting
from sowline.serving.sessions.session_commands import SessionCommands
from sowline.serving.worker_thread import THREAD_BYTES_MIN, bytes_to_read, in_worker_thread
from sowline.serving.writes.write_commands import WriteCommands
from sowline.wire.command_fields import require_of_client
from sowline.wire.request import FETCH, OUTCOME, WATCH_OUTCOMES, Request
from sowline.wire.server_message import failure
from sowline_query_service.context import ServiceContext
from sowline_query_service.query.freshness import wait_until_fresh
from sowline_query_service.query.read_request import ReadRequest, read_request_of, topics_of
from sowline_query_service.server.new_subscription import subscription_for
from sowline_query_service.server.outcome_commands import OutcomeCommands
from sowline_query_service.server.query_commands import QueryCommands


class ServiceCommands(SessionCommands):
    """Queries, subscriptions and writes over the state of this query service."""

    def __init__(self, context: ServiceContext, outbox: Outbox, login: LoginSession) -> None:
        super().__init__(outbox, login, context.native, context.slots)
        self._context = context
        queries, subscriptions = QueryCommands(context, self._runner, self._running), self._subscriptions
        self._writes = writes = WriteCommands(context.writes, self._runner)
        outcomes = OutcomeCommands(context, self._runner, self._running)
        self._handlers: dict[str, Callable[[Request], Waiting]] = {
            "heartbeat": self.heartbeat,
            "timeline": queries.timeline,
            FETCH: queries.fetch,
            "unsubscribe": subscriptions.unsubscribe,
            "pause": subscriptions.pause,
            "resume": subscriptions.resume,
            "publish": writes.write,
            "delta_publish": writes.write,
            "delta": writes.write,
            "sow_delete": writes.write,
            "flush": writes.flush,
            WATCH_OUTCOMES: outcomes.watch,
            OUTCOME: outcomes.outcome,
        }
        self._read_handlers: dict[str, Callable[[Request, ReadRequest], None]] = {
            "sow": queries.sow,
            "explain": queries.explain,
            "subscribe": self._subscribe,
            "sow_and_subscribe": self._subscribe,
            "delta_subscribe": self._subscribe,
            "sow_and_delta_subscribe": self._subscribe,
        }

    async def take_turn(self) -> None:
        """Let other clients run: this one has used its share of time."""
        await self._context.dispatcher.turns.wait()

    def begin(self, request: Request) -> Waiting:
        """Start a command, other than a logon; raise if it is refused."""
        if not self._runner.is_of_gateway:
            require_of_client(request)
        return self._when_fresh(request) if request.demands_fresh else self._begin(request)

    async def _when_fresh(self, request: Request) -> None:
        """Start a read once the state is as fresh as it demands; later commands of this client wait meanwhile."""
        try:
            topics = topics_of(self._context.state, request.topic, self._runner.rights.read)
            await wait_until_fresh(self._context.state, topics, request)
            waiting = self._begin(request)
        except SowlineError as error:
            self._outbox.put(failure(request.command_id, error))
            return
        if waiting is not None:
            await waiting

    def _begin(self, request: Request) -> Waiting:
        if request.command in self._read_handlers:
            return self._read(request)
        return self._handlers[request.command](request)

    def _read(self, request: Request) -> Waiting:
        if bytes_to_read(request) >= THREAD_BYTES_MIN:
            return self._read_large(request)
        checked = read_request_of(self._context.state, request, self._runner.rights)
        self._read_handlers[request.command](request, checked)
        return None

    async def _read_large(self, request: Request) -> None:
        """Check a large request in the worker thread, while requests of other clients are handled."""
        try:
            size, state, rights = bytes_to_read(request), self._context.state, self._runner.rights
            checked = await in_worker_thread(size, read_request_of, state, request, rights)
            self._read_handlers[request.command](request, checked)
        except SowlineError as error:
            self._outbox.put(failure(request.command_id, error))

    def _subscribe(self, request: Request, checked: ReadRequest) -> None:
        make = partial(subscription_for, self._context, self._runner, request, checked)
        self._subscriptions.subscribe(request, make)

    def send_progress(self, seconds: float) -> None:
        """Send the bookmarks of idle subscriptions; called at intervals of so many seconds."""
        self._subscriptions.send_progress(seconds)

    def close(self) -> None:
        """End all subscriptions and queries of the client."""
        super().close()
        self._writes.close()
