"""The writes of one session: `publish`, `delta_publish`, `delta`, `sow_delete`, and `flush`, which waits for them."""

import asyncio
from collections.abc import Callable
from functools import partial

from sowline.model.bookmark import PositionsByLog, format_bookmark
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.outbox.group import acknowledge_done
from sowline.serving.sessions.command_runner import CommandRunner, Run, too_many_in_flight
from sowline.serving.worker_thread import Waiting, bytes_to_read, with_result
from sowline.serving.writes.delta_requests import delta_of
from sowline.serving.writes.pending_commands import PendingCommands, WriteService
from sowline.serving.writes.requests import Definitions, RequestedCommand, writes_of
from sowline.wire.request import DeltaRequest, FlushRequest, Request, Write
from sowline.wire.server_message import ack

WRITES_MAX = 10_000
"""The largest number of commands of one client whose outcome is unknown."""


NoteEffect = Callable[[PositionsByLog], None]


class WriteCommands:
    """The writes of one session whose outcome is not known yet."""

    def __init__(
        self, service: WriteService, runner: CommandRunner, note_effect: NoteEffect = lambda effect: None
    ) -> None:
        """Prepare the writes of a client; `note_effect` gets the positions of effects that were reported to it."""
        self._runner = runner
        self._note_effect = note_effect
        self._outbox = runner.outbox
        self._service = service
        self._topics = service.destination.topics
        self._pending: dict[asyncio.Task[None], asyncio.Event] = {}
        """Their tasks, and whether Kafka has taken or refused each."""

    def write(self, request: Write) -> Waiting:
        """Send a command to Kafka; return the work, if any, that must be done before the next command."""
        if len(self._pending) >= WRITES_MAX:
            raise too_many_in_flight(f"{WRITES_MAX} commands")
        # A large command is checked in the worker thread, while requests of other clients are handled.
        size, begin, rights = _bytes_of(request), partial(self._begin, request), self._runner.rights
        return with_result(size, begin, _commands_of, self._topics, request, rights)

    def _begin(self, request: Write, commands: list[RequestedCommand]) -> Waiting:
        """Send a command that was checked; raise `not ready` if its topics can't be written yet."""
        self._service.destination.require_ready({one.write.topic.name for one in commands})
        pending = self._service.begin_now(commands)
        if pending is None:
            return self._send_later(request, commands)
        self._send(request, pending)
        return None

    async def _send_later(self, request: Write, commands: list[RequestedCommand]) -> None:
        """Send a command once it has been checked against the records that it names, and its outcome is watched."""
        self._send(request, await self._service.begin(commands))

    def _send(self, request: Write, pending: PendingCommands) -> None:
        pending.write()
        settled = asyncio.Event()
        task = self._start(request, partial(self._follow_up, request, pending, settled), settled)
        task.add_done_callback(lambda done: pending.end())

    def _start(self, request: Request, run: Run, settled: asyncio.Event) -> asyncio.Task[None]:
        task = self._runner.start(request, run, "processed")
        self._pending[task] = settled
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        # Also if the command was refused or canceled: a flush would wait for it forever.
        self._pending.pop(task).set()

    async def _follow_up(self, request: Write, pending: PendingCommands, settled: asyncio.Event) -> None:
        """Report the outcome of written commands; report a refusal even if no acknowledgement was requested."""
        bookmark = await pending.wait_persisted()
        settled.set()
        if "persisted" in request.acks:
            self._outbox.put(ack("persisted", request.command_id, bookmark=bookmark))
        summary = await pending.wait_outcomes()
        self._note_effect(summary.effect)
        for kind in ("processed", "completed"):
            if kind in request.acks:
                fields = {"outcome": ", ".join(summary.outcomes), "effect": format_bookmark(summary.effect)}
                self._outbox.put(ack(kind, request.command_id, bookmark=bookmark, **fields))
        if "stats" in request.acks:
            self._outbox.put(ack("stats", request.command_id, **summary.counts))

    def flush(self, request: FlushRequest) -> None:
        """Wait for the outcomes of the commands that are pending now."""
        earlier, settled = dict(self._pending), asyncio.Event()
        self._start(request, partial(self._run_flush, request, earlier, settled), settled)

    async def _run_flush(
        self, request: FlushRequest, earlier: dict[asyncio.Task[None], asyncio.Event], settled: asyncio.Event
    ) -> None:
        for persisted in earlier.values():
            await persisted.wait()
        settled.set()
        if "persisted" in request.acks:
            self._outbox.put(ack("persisted", request.command_id))
        await asyncio.gather(*earlier)
        acknowledge_done(self._outbox, request)

    def close(self) -> None:
        """Stop waiting for the outcomes."""
        for task in tuple(self._pending):
            task.cancel()


def _bytes_of(request: Write) -> int:
    return bytes_to_read(request.filter, sow_keys=request.sow_keys, data=request.data)


def _commands_of(topics: Definitions, request: Write, rights: Rights) -> list[RequestedCommand]:
    """Return the checked commands of a request; raise if it is invalid."""
    if isinstance(request, DeltaRequest):
        return delta_of(topics, request, rights)
    return writes_of(topics, request, rights)
