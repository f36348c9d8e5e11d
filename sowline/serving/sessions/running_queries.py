"""The running queries of one session, by query id."""

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from functools import partial

from sowline.errors import SowlineError
from sowline.serving.query_slots import QuerySlot
from sowline.serving.sessions.command_runner import QUERIES_MAX, CommandRunner, Run, too_many_in_flight
from sowline.wire.request import OfTopic
from sowline.wire.server_message import failure


class RunningQueries:
    """Starts queries as tasks, and ends them."""

    def __init__(self, runner: CommandRunner) -> None:
        self._runner = runner
        self._running: dict[str, tuple[OfTopic, asyncio.Task[None]]] = {}
        self._unnamed = itertools.count()

    def __len__(self) -> int:
        return len(self._running)

    def requests(self) -> Iterator[OfTopic]:
        """Yield the requests of the running queries, the oldest first."""
        return (request for request, _ in self._running.values())

    def check_limit(self) -> None:
        """Raise `busy` if the session has as many queries as it may have."""
        if len(self._running) >= QUERIES_MAX:
            raise too_many_in_flight(f"{QUERIES_MAX} queries")

    def start(self, request: OfTopic, run: Run, slot: QuerySlot | None = None) -> None:
        """Start a query, which takes its slot when it needs it; raise `queryid in use`.

        At its end the slot is free, also if it never ran.
        """
        query_id = request.id_of_query or f"\0{next(self._unnamed)}"
        if query_id in self._running:
            if slot is not None:
                slot.free()
            raise SowlineError(
                "queryid in use",
                f"expected an unused query_id, got {query_id!r}, which is still running",
            )
        task = self._runner.start(request, partial(self._run, query_id, slot, run), "completed")
        self._running[query_id] = request, task
        # A task that is cancelled before it starts never enters `_run`, which would free its slot.
        task.add_done_callback(lambda done: self._ended(query_id, slot, done))

    async def _run(self, query_id: str, slot: QuerySlot | None, run: Run) -> None:
        try:
            async with slot or contextlib.nullcontext():
                await run()
        finally:
            # Before the last acknowledgement: a client that has it may use the query_id again at once
            # (test_a_replica_answers_for_one_that_is_gone).
            self._forget(query_id, asyncio.current_task())

    def _ended(self, query_id: str, slot: QuerySlot | None, task: "asyncio.Task[None]") -> None:
        self._forget(query_id, task)
        if slot is not None:
            slot.free()

    def _forget(self, query_id: str, task: "asyncio.Task[None] | None") -> None:
        _, running = self._running.get(query_id, (None, None))
        # After an abort, the query_id may be that of another query by now.
        if running is task:
            self._running.pop(query_id, None)

    def abort(self, query_id: str, aborted: SowlineError) -> None:
        """End a query if it runs; its client gets `aborted`."""
        request, task = self._running.pop(query_id, (None, None))
        if request is not None and task is not None:
            task.cancel()
            self._runner.outbox.put(failure(request.command_id, aborted, "completed"))

    def close(self) -> None:
        """End all queries."""
        for _, task in list(self._running.values()):
            task.cancel()
