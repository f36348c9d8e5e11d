"""The queries of one session: `sow`, `explain` and `timeline`."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from sowline.errors import SowlineError
from sowline.model.bookmark import format_bookmark
from sowline.serving.outbox.group import (
    acknowledge,
    acknowledge_completed,
    acknowledge_processed,
    send_group,
    send_timeline,
)
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.query_slots import QuerySlot
from sowline.serving.sessions.command_runner import CommandRunner
from sowline.serving.sessions.running_queries import RunningQueries
from sowline.subscriptions.engine.delivery import Form
from sowline.wire.request import Explain, Fetch, Read, ReadTimeline, Sow
from sowline.wire.server_message import message
from sowline_query_service.context import ServiceContext
from sowline_query_service.query.freshness import take_when_fresh
from sowline_query_service.query.grouping import GroupedQuery
from sowline_query_service.query.query import Query
from sowline_query_service.query.read_request import ReadRequest
from sowline_query_service.query.timeline_read import TimelineRequest, timeline_request_of
from sowline_query_service.query.view_stages import with_view_stages
from sowline_query_service.subscriptions.bookmark_resolver import (
    check_newest,
    wait_for_past,
    wait_for_replica,
)
from sowline_query_service.subscriptions.query_at_bookmark import query_at
from sowline_query_service.subscriptions.replacement import ReplacementQuery, held_records


class LeavingRecords(NamedTuple):
    """How a gateway gets the records that its client should drop."""

    outbox: Outbox
    sub_id: str
    form: Form


class QueryCommands:
    """The queries of one session."""

    def __init__(self, context: ServiceContext, runner: CommandRunner, running: RunningQueries) -> None:
        self._runner = runner
        self._context = context
        self._outbox = runner.outbox
        self._running = running
        self._fetches: dict[str, asyncio.Future[tuple[int, int]]] = {}
        """The ranges of records that queries wait for, by query id."""

    def sow(self, request: Sow, checked: ReadRequest) -> None:
        """Start a query; without a bookmark it is of the current records."""
        self._running.check_limit()
        slot = self._runner.new_slot()
        of_gateway = request.of_gateway
        if of_gateway.replaces is not None:
            run = partial(self._run_difference, request, of_gateway.replaces, checked, slot)
            self._running.start(request, run, slot)
            return
        query = query_at(self._context, request, checked)
        if of_gateway.sample_n and isinstance(query, Query):
            query.range_of = partial(self._wait_for_range, request)
        if not request.bookmark:
            slot.begin_now(query.begin_now)
        outbox = self._runner.outbox_for(checked.selection.options)
        self._running.start(request, partial(self._run_sow, request, checked, query, outbox, slot), slot)

    async def _take(
        self, slot: QuerySlot, request: Read, checked: ReadRequest, query: Query | GroupedQuery
    ) -> None:
        """Wait until the replica has the records of a query, and then for its turn."""
        await wait_for_past(self._context, request, self._runner.rights)
        await query.wait_for_replica()
        # Last, because the replica may be behind a bookmark of another one for long: other queries run meanwhile
        # (test_a_query_that_waits_for_the_replica_holds_no_turn).
        await take_when_fresh(slot, self._context.state, checked.topics, request)

    async def _run_sow(
        self,
        request: Sow,
        checked: ReadRequest,
        query: Query | GroupedQuery,
        outbox: Outbox,
        slot: QuerySlot,
    ) -> None:
        await self._take(slot, request, checked, query)
        await query.begin()
        begun = {"topic_matches": query.result.topic_matches} if request.of_gateway.merges else {}
        acknowledge_processed(outbox, request, bookmark=query.bookmark, **begun)
        await send_group(outbox, request, query)
        acknowledge(outbox, request, query.bookmark, query.result)

    async def _wait_for_range(self, request: Sow, samples: Sequence[Sequence[Any]]) -> tuple[int, int]:
        """Send the samples of a query; return the range of records that the gateway then fetches.

        The wait ends with the connection, as all queries of a session do.
        """
        query_id = request.id_of_query
        fetched: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        self._fetches[query_id] = fetched
        try:
            self._outbox.put_in_group(message("samples", query_id=query_id, ordering=samples))
            return await fetched
        finally:
            del self._fetches[query_id]

    def fetch(self, request: Fetch) -> None:
        """Let a query that has sent its samples send a range of its records."""
        fetched = self._fetches.get(request.id_of_query)
        if fetched is None or fetched.done() or request.top_n is None:
            raise SowlineError(
                "bad request",
                f"expected a fetch with a top_n, and the query_id of a query that waits for it, got"
                f" {request.id_of_query!r}",
            )
        skip = request.skip_n or 0
        fetched.set_result((skip, skip + request.top_n))

    async def _run_difference(
        self, request: Sow, replaced: Sow, checked: ReadRequest, slot: QuerySlot
    ) -> None:
        """Answer with the difference from the records that a gateway's client holds: first those that leave."""
        topics, selection = checked
        held = await held_records(self._context.state, replaced, self._runner.rights)
        query = ReplacementQuery(self._context, held, topics, selection)
        await query.wait_for_replica()
        await take_when_fresh(slot, self._context.state, topics, request)
        await query.begin()
        bookmark = format_bookmark(query.compared)
        matches = query.result.topic_matches
        acknowledge_processed(self._outbox, request, bookmark=bookmark, topic_matches=matches)
        if selection.options.oof:
            to = LeavingRecords(self._outbox, request.id_of_query, Form.of(selection.options))
            await query.send_leaving(to, has_group=True)
        await send_group(self._outbox, request, query)
        acknowledge(self._outbox, request, query.bookmark, query.result)

    def explain(self, request: Explain, checked: ReadRequest) -> None:
        """Start to determine the access path of a query."""
        self._running.check_limit()
        query, slot = query_at(self._context, request, checked), self._runner.new_slot()
        self._running.start(request, partial(self._run_explain, request, checked, query, slot), slot)

    async def _run_explain(
        self, request: Explain, checked: ReadRequest, query: Query | GroupedQuery, slot: QuerySlot
    ) -> None:
        await self._take(slot, request, checked, query)
        acknowledge_processed(self._outbox, request)
        access_paths = with_view_stages(await query.explain(), self._context.state, self._runner.rights)
        explained = message(
            "explain", command_id=request.command_id, bookmark=query.bookmark, access_paths=access_paths
        )
        self._outbox.put_behind(explained, (request.id_of_query,))
        acknowledge_completed(self._outbox, request, query.bookmark)

    def timeline(self, request: ReadTimeline) -> None:
        """Start to read the timeline of a document."""
        self._running.check_limit()
        wanted = timeline_request_of(self._context.state, request, self._runner.rights)
        slot = self._runner.new_slot()
        self._running.start(request, partial(self._run_timeline, request, wanted, slot), slot)

    async def _run_timeline(self, request: ReadTimeline, wanted: TimelineRequest, slot: QuerySlot) -> None:
        await check_newest(self._context, wanted.topic, wanted.awaited)
        await wait_for_replica(self._context.state, wanted.topic, wanted.awaited)
        await take_when_fresh(slot, self._context.state, [wanted.topic], request)
        timeline = await self._context.timelines.read(wanted)
        acknowledge_processed(self._outbox, request, bookmark=timeline.bookmark)
        await send_timeline(self._outbox, request, timeline)
        acknowledge_completed(self._outbox, request, timeline.bookmark)
