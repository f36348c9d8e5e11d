"""The running queries of one session, by query id."""

import asyncio
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
        task = self._runner.start(request, run if slot is None else partial(_run_in, slot, run), "completed")
        self._running[query_id] = request, task
        # A task that is cancelled before it starts never enters `_run_in`, which would free its slot.
        task.add_done_callback(lambda done: self._ended(query_id, slot))

    def _ended(self, query_id: str, slot: QuerySlot | None) -> None:
        self._running.pop(query_id, None)
        if slot is not None:
            slot.free()

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


async def _run_in(slot: QuerySlot, run: Run) -> None:
    async with slot:
        await run()
