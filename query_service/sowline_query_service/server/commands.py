"""The commands of one client: checks the topics and the rights of each, and passes it to its handler."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from sowline.errors import SowlineError
from sowline.serving.access.login_session import LoginSession
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.session_commands import SessionCommands
from sowline.serving.sessions.open_subscriptions import ServedSubscription
from sowline.serving.worker_thread import Waiting, with_result
from sowline.subscriptions.live.request_checks import check_complete, check_pace, check_replaced
from sowline.wire.command_fields import require_of_client
from sowline.wire.request import (
    SUBSCRIPTIONS,
    Explain,
    Fetch,
    Outcome,
    QueryRequest,
    Read,
    ReadTimeline,
    Request,
    Sow,
    Subscribe,
    WatchOutcomes,
)
from sowline.wire.request_fields import READS, RequestFields
from sowline_query_service.context import ServiceContext
from sowline_query_service.query.freshness import wait_until_fresh
from sowline_query_service.query.read_request import (
    ReadRequest,
    asked_filter,
    bookmark_range_of,
    bytes_to_check,
    check_documents,
    check_window_selection,
    only_topic,
    read_request_of,
    topics_of,
)
from sowline_query_service.server.outcome_commands import OutcomeCommands
from sowline_query_service.server.query_commands import QueryCommands
from sowline_query_service.subscriptions.record_subscription import RecordSubscription
from sowline_query_service.subscriptions.window_subscription import WindowSubscription


class ServiceCommands(SessionCommands):
    """Queries, subscriptions and writes over the state of this query service."""

    def __init__(self, context: ServiceContext, outbox: Outbox, login: LoginSession) -> None:
        super().__init__(outbox, login, context.typed_messages, context.slots, context.writes)
        self._context = context
        queries = QueryCommands(context, self._runner, self._running)
        outcomes = OutcomeCommands(context, self._runner, self._running)
        self._handlers = {
            **self._handlers,
            Sow: partial(self._read, queries.sow),
            Explain: partial(self._read, queries.explain),
            **dict.fromkeys(SUBSCRIPTIONS, partial(self._read, self._subscribe)),
            ReadTimeline: queries.timeline,
            Fetch: queries.fetch,
            WatchOutcomes: outcomes.watch,
            Outcome: outcomes.outcome,
        }

    async def take_turn(self) -> None:
        """Let other clients run: this one has used its share of time."""
        await self._context.dispatcher.turns.wait()

    def check_fields(self, fields: RequestFields) -> None:
        """Raise `bad request` if the client has sent fields that only gateways send, and is not one."""
        if self._runner.is_of_gateway:
            return
        require_of_client(fields)
        if fields.command in (WatchOutcomes.command, Outcome.command):
            raise SowlineError(
                "bad request", f"expected {fields.command} only from a gateway, got it from a client"
            )

    def check_first(self, fields: RequestFields) -> None:
        """Raise if the client may not read the topics of a read, or its filter or condition is invalid."""
        if fields.command in READS:
            topics_of(self._context.state, fields.topic, self._runner.rights.read)
            asked_filter(fields.filter, fields.condition)

    def begin(self, request: Request) -> Waiting:
        """Start a command, other than a logon; raise if it is refused."""
        if isinstance(request, QueryRequest) and request.demands_fresh:
            return self._when_fresh(request)
        return super().begin(request)

    async def _when_fresh(self, request: QueryRequest) -> None:
        """Start a read once the state is as fresh as it demands; later commands of this client wait until then."""
        topics = topics_of(self._context.state, request.topic, self._runner.rights.read)
        await wait_until_fresh(self._context.state, topics, request)
        if (waiting := super().begin(request)) is not None:
            await waiting

    def _read(self, begin: Callable[[Any, ReadRequest], None], request: Read) -> Waiting:
        # A large request is checked in the worker thread, while requests of other clients are handled.
        size = bytes_to_check(request)
        state, rights = self._context.state, self._runner.rights
        return with_result(size, partial(begin, request), read_request_of, state, request, rights)

    def _subscribe(self, request: Subscribe, checked: ReadRequest) -> None:
        self._subscriptions.subscribe(request, partial(self._new_subscription, request, checked))

    def _new_subscription(
        self, request: Subscribe, checked: ReadRequest, replaced: ServedSubscription | None
    ) -> ServedSubscription:
        topics, selection = checked
        check_documents(selection.options, topics)
        check_complete(selection.options)
        bookmark_range = bookmark_range_of(request, topics)
        if request.is_window:
            check_window_selection(request, selection)
        check_pace(request)
        check_replaced(replaced, WindowSubscription if request.is_window else RecordSubscription, request)
        if request.is_window:
            topic, view = only_topic(request, topics), cast("WindowSubscription | None", replaced)
            return WindowSubscription(
                self._context, self._runner, request, topic, selection, bookmark_range, view
            )
        records = cast("RecordSubscription | None", replaced)
        made = RecordSubscription(
            self._context, self._runner, request, topics, selection, bookmark_range, records
        )
        made.begin_at_once()
        return made
