"""What gateways do with shared streams, noted for the models: who follows, joins, leaves and is sent what."""

from collections.abc import Callable
from functools import wraps
from typing import Any
from unittest.mock import patch

from msgspec import structs

from sowline.model.bookmark import format_bookmark
from sowline_gateway.streams import shared_streams
from sowline_gateway.streams.member import Member
from sowline_gateway.streams.stream import SharedStream, deliver
from sowline_gateway.subscriptions.node_flow import NodeFlow
from sowline_gateway.subscriptions.outlets import PassingOutlet
from sowline_gateway.subscriptions.stream_start import StreamStart
from tests.simulation.trace import Trace

Note = Callable[..., None]


def noted(trace: Trace) -> list[Any]:
    """Return the patches that note it.

    Each event is noted after what it leads to: a member that is too slow for a message leaves before the message is
    passed on.
    """
    return [
        _after(SharedStream, "note_begun", _note_followed, trace.note),
        _after(SharedStream, "join", _note_joined, trace.note),
        patch.object(SharedStream, "end", _ending(SharedStream.end, trace.note)),
        patch.object(shared_streams, "deliver", _delivering(deliver, trace.note)),
        _after(StreamStart, "_begin", _note_snapshot, trace.note),
        _after(Member, "release", _note_released, trace.note),
        patch.object(Member, "leave", _leaving(Member.leave, trace.note)),
        patch.object(NodeFlow, "begin", _beginning(NodeFlow.begin, trace.note)),
        patch.object(PassingOutlet, "take", _taking(PassingOutlet.take, trace.note)),
        patch.object(PassingOutlet, "complete", _completing(PassingOutlet.complete, trace.note)),
    ]


def _after(owner: type, name: str, tell: Callable[..., None], note: Note) -> Any:
    """Return the patch that calls `tell` after a method, with its result."""
    real = getattr(owner, name)

    @wraps(real)
    def method(self: Any, *given: Any) -> Any:
        found = real(self, *given)
        tell(note, found, self, *given)
        return found

    return patch.object(owner, name, method)


# streams


def _note_followed(note: Note, is_begun: bool, stream: SharedStream, part: Any, positions: Any) -> None:
    if is_begun:
        note("follow", stream=stream, to=part.url, bookmark=positions)


def _note_joined(note: Note, member: Member, stream: SharedStream, *given: Any) -> None:
    note("join", outbox=member.outbox, stream=stream)


def _ending(real: Callable[..., None], note: Note) -> Any:
    def end(self: SharedStream, error: Any = None) -> None:
        was_over = self.is_over
        real(self, error)
        if not was_over:
            note("end", stream=self)

    return end


def _delivering(real: Callable[..., None], note: Note) -> Any:
    def deliver(message: Any, parts: Any) -> None:
        streams = [part.stream for part in parts if part.has_begun]
        real(message, parts)
        for stream in streams:
            note("pass", stream=stream, message=message)

    return deliver


# members


def _note_snapshot(note: Note, found: None, start: Any, positions: Any) -> None:
    note("snapshot", outbox=start._subscriber.outbox, bookmark=positions)


def _note_released(note: Note, found: None, member: Member, begun: Any) -> None:
    if member.is_in:
        note("release", outbox=member.outbox)


def _leaving(real: Callable[..., None], note: Note) -> Any:
    def leave(self: Member, error: Any = None) -> None:
        was_in = self.is_in
        real(self, error)
        if was_in:
            note("leave", outbox=self.outbox, bookmark={log: dict(of) for log, of in self.begun.items()})

    return leave


# subscriptions of one client


def _beginning(real: Callable[..., Any], note: Note) -> Any:
    async def begin(self: NodeFlow, turn: Any, *, is_paused: bool) -> None:
        await real(self, turn, is_paused=is_paused)
        parts = [
            (part.url, {log: dict(of) for log, of in part.positions_by_log.items()})
            for part in self.query.parts
        ]
        note("alone", outbox=self._subscriber.outbox, parts=parts)

    return begin


def _taking(real: Callable[..., Any], note: Note) -> Any:
    async def take(self: PassingOutlet, part: Any, received: Any) -> None:
        await real(self, part, received)
        message = received
        if received.command == "progress":
            # The client receives a bookmark of all partitions.
            message = structs.replace(received, bookmark=format_bookmark(self.sent))
        note("relay", outbox=self._outbox, message=message)

    return take


def _completing(real: Callable[..., Any], note: Note) -> Any:
    async def complete(self: PassingOutlet, part: Any, received: Any) -> None:
        await real(self, part, received)
        note("note", outbox=self._outbox, bookmark=received.bookmark)

    return complete
