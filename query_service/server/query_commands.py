"""The queries of one session: `sow`, `explain` and `timeline`."""

import asyncio
import itertools
from collections.abc import Iterator
from functools import partial

from query_service.query.grouping import GroupedQuery
from query_service.query.query import Query
from query_service.query.read_request import ReadRequest
from query_service.query.timeline_read import TimelineRequest, timeline_request_of
from query_service.server.command_runner import QUERIES_MAX, CommandRunner, Run, too_many_in_flight
from query_service.subscriptions.bookmark_resolver import check_newest, wait_for_past, wait_for_replica
from query_service.subscriptions.query_at_bookmark import query_at
from sowline.errors import SowlineError
from sowline.protocol.request import Request
from sowline.protocol.server_message import failure, message
from sowline.serving.outbox.group import (
    acknowledge,
    acknowledge_completed,
    acknowledge_processed,
    send_group,
    send_timeline,
)


class QueryCommands:
    """The running queries of one session."""

    def __init__(self, runner: CommandRunner) -> None:
        self._runner = runner
        self._context = runner.context
        self._outbox = runner.outbox
        self._running: dict[str, tuple[Request, asyncio.Task[None]]] = {}
        self._unnamed = itertools.count()

    def __len__(self) -> int:
        return len(self._running)

    def requests(self) -> Iterator[Request]:
        """Yield the requests of the running queries, the oldest first."""
        return (request for request, _ in self._running.values())

    def sow(self, request: Request, checked: ReadRequest) -> None:
        """Start a query; without a bookmark it is of the current records."""
        self._check_limit()
        query = query_at(self._context, request, checked)
        if not request.bookmark:
            query.begin_now()
        self._start(request, partial(self._run_sow, request, query))

    async def _run_sow(self, request: Request, query: Query | GroupedQuery) -> None:
        await wait_for_past(self._context, request, self._runner.rights)
        await query.begin()
        acknowledge_processed(self._outbox, request, bookmark=query.bookmark)
        await send_group(self._outbox, request, query)
        acknowledge(self._outbox, request, query.bookmark, query.result)

    def explain(self, request: Request, checked: ReadRequest) -> None:
        """Start to determine the access path of a query."""
        self._check_limit()
        query = query_at(self._context, request, checked)
        self._start(request, partial(self._run_explain, request, query))

    async def _run_explain(self, request: Request, query: Query | GroupedQuery) -> None:
        await wait_for_past(self._context, request, self._runner.rights)
        acknowledge_processed(self._outbox, request)
        access_paths = await query.explained()
        explained = message(
            "explain", command_id=request.command_id, bookmark=query.bookmark, access_paths=access_paths
        )
        self._outbox.put_behind(explained, (request.id_of_query,))
        acknowledge_completed(self._outbox, request, query.bookmark)

    def timeline(self, request: Request) -> None:
        """Start to read the timeline of a document."""
        self._check_limit()
        wanted = timeline_request_of(self._context.state, request, self._runner.rights)
        self._start(request, partial(self._run_timeline, request, wanted))

    async def _run_timeline(self, request: Request, wanted: TimelineRequest) -> None:
        await check_newest(self._context, wanted.topic, wanted.awaited)
        await wait_for_replica(self._context.state, wanted.topic, wanted.awaited)
        timeline = await self._context.timelines.read(wanted)
        acknowledge_processed(self._outbox, request, bookmark=timeline.bookmark)
        await send_timeline(self._outbox, request, timeline)
        acknowledge_completed(self._outbox, request, timeline.bookmark)

    def abort(self, query_id: str, aborted: SowlineError) -> None:
        """End a query if it runs; its client gets `aborted`."""
        request, task = self._running.pop(query_id, (None, None))
        if request is not None and task is not None:
            task.cancel()
            self._outbox.put(failure(request.command_id, aborted, "completed"))

    def close(self) -> None:
        """End all queries."""
        for _, task in list(self._running.values()):
            task.cancel()

    def _check_limit(self) -> None:
        if len(self._running) >= QUERIES_MAX:
            raise too_many_in_flight(f"{QUERIES_MAX} queries")

    def _start(self, request: Request, run: Run) -> None:
        query_id = request.id_of_query or f"\0{next(self._unnamed)}"
        if query_id in self._running:
            raise SowlineError(
                "queryid in use", f"query {query_id!r} is still running; give this one another query_id"
            )
        task = self._runner.start(request, run, "completed")
        self._running[query_id] = request, task
        task.add_done_callback(lambda done: self._running.pop(query_id, None))
