"""The commands of one client of a gateway."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import cast

from sowline.errors import SowlineError
from sowline.language.filter import ALL, compile_filter
from sowline.model.bookmark import PositionsByLog, format_bookmark
from sowline.serving.access.login_session import LoginSession
from sowline.serving.authorization.entitlements import (
    Rights,
    check_fields,
    chosen_topic,
    chosen_topics,
    together,
)
from sowline.serving.outbox.group import (
    acknowledge,
    acknowledge_completed,
    acknowledge_processed,
    send_group,
    send_timeline,
)
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.query_slots import QuerySlot
from sowline.serving.session_commands import SessionCommands
from sowline.serving.sessions.open_subscriptions import ServedSubscription
from sowline.serving.worker_thread import Waiting, bytes_to_read, with_result
from sowline.subscriptions.live.request_checks import check_complete, check_pace, check_replaced, check_window
from sowline.wire.command_fields import require_of_client
from sowline.wire.request import (
    SUBSCRIPTIONS,
    Explain,
    Read,
    ReadTimeline,
    Sow,
    Subscribe,
)
from sowline.wire.request_fields import GATEWAY_COMMANDS, RequestFields
from sowline.wire.server_message import failure, message
from sowline_gateway.context import GatewayContext
from sowline_gateway.query.access_paths import explain
from sowline_gateway.query.record_read import read_from_holder
from sowline_gateway.query.seen import SeenPositions
from sowline_gateway.query.sharded_query import ShardedQuery
from sowline_gateway.query.timeline import timeline_of, timeline_path
from sowline_gateway.server.typed_reads import T, read_in_json
from sowline_gateway.streams.catch_up_slot import CLIENT_MAX, CatchUpSlot
from sowline_gateway.subscriptions.paced_records import PacedRecords
from sowline_gateway.subscriptions.record_subscription import RecordsOverNodes
from sowline_gateway.subscriptions.shared_records import SharedRecords
from sowline_gateway.subscriptions.subscriber import RecordSubscriber, is_paced
from sowline_gateway.subscriptions.window_parts import WindowSubscriber
from sowline_gateway.subscriptions.window_request import WindowRequest
from sowline_gateway.subscriptions.window_subscription import WindowOverNodes

UNSHARED_MAX = 200
"""Subscriptions of one client to pages, to groups, or with an end or a rate: each has a connection to every node."""


class GatewayCommands(SessionCommands):
    """Queries and subscriptions over all nodes, and writes, for one client."""

    def __init__(self, context: GatewayContext, outbox: Outbox, login: LoginSession) -> None:
        self._context = context
        self._nodes = context.nodes
        self._seen = SeenPositions()
        self._catch_up_slots = asyncio.Semaphore(CLIENT_MAX)
        typed, slots, writes = context.typed_messages, context.slots, context.writes
        super().__init__(outbox, login, typed, slots, writes, self._seen.note)
        self._handlers = {
            Sow: self._sow,
            Explain: self._explain,
            ReadTimeline: self._timeline,
            **dict.fromkeys(SUBSCRIPTIONS, self._subscribe),
            **self._handlers,
        }

    async def take_turn(self) -> None:
        """Let other clients run."""
        await asyncio.sleep(0)

    def check_fields(self, fields: RequestFields) -> None:
        """Raise `bad request` for fields that only gateways send, and `not supported` for their commands."""
        # The gateway would pass `merges` on as its own, and the client would get parts of an answer
        # (test_a_client_is_no_gateway).
        require_of_client(fields)
        if fields.command in GATEWAY_COMMANDS:
            taken = ", ".join(kind.command for kind in self._handlers)
            raise SowlineError(
                "not supported",
                f"expected {taken} at a gateway, got {fields.command}; use a query service that holds all partitions",
            )

    def check_first(self, fields: RequestFields) -> None:
        """Raise if the client may not read the topics of a query."""
        if fields.command in (Sow.command, Explain.command):
            chosen_topics(fields.topic, self._nodes.topics, self._runner.rights.read)

    # queries

    def _sow(self, request: Sow) -> None:
        topics = chosen_topics(request.topic, self._nodes.topics, self._runner.rights.read)
        outbox, asked = self._runner.outbox_for(request.options), self._in_json(request, topics)
        self._running.check_limit()
        slot = self._runner.new_slot()
        run = partial(self._run_sow, asked, topics, self._runner.rights, outbox, slot)
        self._running.start(request, run, slot)

    def _in_json(self, request: T, topics: Sequence[str]) -> T:
        """Return a read as nodes get it: the gateway itself writes records in the message types of their topics."""
        if not request.options.is_typed:
            return request
        return read_in_json(request, self._nodes.topics, topics, self._runner.rights)

    def _floor(self, request: Read, topics: Sequence[str]) -> PositionsByLog:
        """Return the positions that an answer must have reached."""
        logs = [self._nodes.topics[name].log for name in topics]
        # The past has no newer positions: what the client has seen of the present would never be reached.
        seen = SeenPositions() if request.bookmark else self._seen
        return seen.floor(logs, request.at_least)

    async def _run_sow(
        self, request: Sow, topics: Sequence[str], rights: Rights, outbox: Outbox, slot: QuerySlot
    ) -> None:
        await slot.take()
        try:
            query = await self._begin_query(request, topics, rights, slot)
        except SowlineError as error:
            # A query service checks a request before it starts the query, and refuses it with this type.
            outbox.put(failure(request.command_id, error), (request.id_of_query,))
            return
        try:
            acknowledge_processed(outbox, request, bookmark=query.bookmark)
            await send_group(outbox, request, query)
            acknowledge(outbox, request, query.bookmark, query.result)
        finally:
            await query.close()

    async def _begin_query(
        self, request: Sow, topics: Sequence[str], rights: Rights, slot: QuerySlot
    ) -> ShardedQuery:
        """Return a query that has begun, at positions no older than those that the client has seen."""
        while True:
            floor = self._floor(request, topics)
            query = ShardedQuery(self._nodes, request, topics, rights, self._context.limits, floor)
            try:
                await query.begin(slot)
            except BaseException:
                # When one node fails, others may have begun, and only `close` returns their connections.
                await query.close()
                raise
            if request.bookmark:
                return query
            if not self._seen.is_ahead_of(query.positions):
                self._seen.note(query.positions)
                return query
            # In the meantime, another command of this client was answered at newer positions.
            await query.close()

    def _explain(self, request: Explain) -> None:
        topics = chosen_topics(request.topic, self._nodes.topics, self._runner.rights.read)
        floor, request = self._floor(request, topics), self._in_json(request, topics)
        self._running.check_limit()
        slot = self._runner.new_slot()
        self._running.start(request, partial(self._run_explain, request, topics, floor, slot), slot)

    async def _run_explain(
        self, request: Explain, topics: list[str], floor: PositionsByLog, slot: QuerySlot
    ) -> None:
        await slot.take()
        explained = await explain(self._nodes, request, topics, self._runner.rights, floor, slot)
        acknowledge_processed(self._outbox, request)
        fields = {"bookmark": explained.bookmark, "access_paths": explained.access_paths}
        answer = message("explain", command_id=request.command_id, **fields)
        self._outbox.put_behind(answer, (request.id_of_query,))
        acknowledge_completed(self._outbox, request, explained.bookmark)

    def _timeline(self, request: ReadTimeline) -> None:
        topic = chosen_topic(request.topic, self._nodes.topics, self._runner.rights.read)
        floor = self._seen.floor([self._nodes.topics[topic].log], request.at_least)
        self._running.check_limit()
        slot = self._runner.new_slot()
        self._running.start(request, partial(self._run_timeline, request, topic, floor, slot), slot)

    async def _run_timeline(
        self, request: ReadTimeline, topic: str, floor: PositionsByLog, slot: QuerySlot
    ) -> None:
        await slot.take()
        path, query = timeline_path(request, format_bookmark(floor) if floor else "")
        rights = self._runner.rights
        answer = await read_from_holder(
            self._nodes, self._context.http, topic, request.key, path, query, rights, slot
        )
        if answer.is_refusal:
            raise answer.error
        timeline = timeline_of(answer.body)
        acknowledge_processed(self._outbox, request, bookmark=timeline.bookmark)
        await send_timeline(self._outbox, request, timeline)
        acknowledge_completed(self._outbox, request, timeline.bookmark)

    # subscriptions

    def _subscribe(self, request: Subscribe) -> Waiting:
        begin = partial(self._subscriptions.subscribe, request, partial(self._new_subscription, request))
        if not request.options.replace:
            begin()
            return None
        # A node would refuse a wrong filter only after the replaced subscription has ended.
        size = bytes_to_read(request.filter)
        return with_result(size, lambda filter: begin(), compile_filter, request.filter)

    def _new_subscription(
        self, request: Subscribe, replaced: ServedSubscription | None
    ) -> ServedSubscription:
        options = request.options
        check_complete(options)
        topics = chosen_topics(request.topic, self._nodes.topics, self._runner.rights.read)
        outbox, request = self._runner.outbox_for(options), self._in_json(request, topics)
        if request.is_window:
            check_window(request)
        # A shared subscription that is replaced frees no connection, so it makes no room for one that needs its own.
        frees_one = isinstance(replaced, WindowOverNodes | PacedRecords)
        if not frees_one and _is_unshared(request) and self._unshared_count() >= UNSHARED_MAX:
            raise SowlineError(
                "too many subscriptions",
                f"expected at most {UNSHARED_MAX} subscriptions to pages and groups, or with an end or a rate, on one"
                " connection to a gateway, got one more",
            )
        if request.is_window:
            topic = chosen_topic(request.topic, self._nodes.topics, self._runner.rights.read)
            check_replaced(replaced, WindowOverNodes, request)
            asked = WindowRequest.of(request, self._nodes.topics[topic])
            slot, holder = self._runner.new_slot(), self._runner.holder_for(request)
            viewer = WindowSubscriber(self._context, asked, self._runner.rights, self._seen, slot, holder)
            return WindowOverNodes(viewer, outbox, cast("WindowOverNodes | None", replaced))
        check_pace(request)
        # Nodes can't check fields that they don't get: the gateway itself conflates, and orders only the snapshot.
        readable = together(self._runner.rights.read, topics)
        check_fields(readable, ALL, (*request.order.paths, *options.conflation_key))
        check_replaced(replaced, RecordsOverNodes, request)
        before, slot = cast("RecordsOverNodes | None", replaced), self._runner.new_slot()
        rights = self._runner.rights
        subscriber = RecordSubscriber(self._context, outbox, request, topics, rights, self._seen)
        if is_paced(request):
            return PacedRecords(subscriber, slot, before)
        catch_up_slot = CatchUpSlot(self._catch_up_slots, self._context.catch_up_slots)
        return SharedRecords(subscriber, slot, catch_up_slot, before)

    def _unshared_count(self) -> int:
        return sum(_is_unshared(status.request) for status in self._subscriptions.statuses())


def _is_unshared(request: Subscribe) -> bool:
    """Whether a subscription has its own connections as long as it lives."""
    return request.is_window or is_paced(request)
