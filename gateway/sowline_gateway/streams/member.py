"""A client's subscription within a shared stream: which messages it gets, and when it has to leave."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from sowline.errors import SowlineError
from sowline.model.bookmark import Positions, PositionsByLog
from sowline.model.position import Position
from sowline.serving.outbox.outbox import Outbox
from sowline_gateway.nodes.node_message import NodeMessage
from sowline_gateway.query.seen import newest

HELD_BYTES_MAX = 1 << 20
"""Bytes of live messages that may wait for the snapshot of one subscription."""

HELD_BYTES_TOTAL_MAX = 256 << 20
"""The same limit for all subscriptions of a gateway together."""


class HeldBytes:
    """The bytes of live messages that wait for snapshots, of all subscriptions together."""

    def __init__(self) -> None:
        self.total = 0


class LiveMessage:
    """A live message of a node; it is decoded once for all members of its streams."""

    __slots__ = ("_head", "_tail", "_texts", "change", "log", "number", "position", "received")

    def __init__(self, received: NodeMessage, log: str, number: int, position: Position) -> None:
        self.received = received
        self.log = log
        self.number = number
        self.position = position
        self.change: Any = None
        """The change that the first sink has made from it, for the others."""
        self._head = b""
        self._tail = b""
        self._texts: dict[bytes, bytes] = {}

    def text_for(self, sids: bytes) -> bytes:
        """Return the message to a client's subscriptions; `sids` is a JSON array of their names."""
        text = self._texts.get(sids)
        if text is None:
            if not self._head:
                raw = self.received.raw
                # The node writes the names before any text of a client, so the first match is the field.
                start = raw.index(_SIDS) + len(_SIDS)
                self._head, self._tail = raw[:start], raw[raw.index(b"]", start) + 1 :]
            text = self._texts[sids] = b"%b%b%b" % (self._head, sids, self._tail)
        return text


_SIDS = b'"sids":'


class Sink(Protocol):
    """Takes the changes of a member whose messages are made at the gateway."""

    @property
    def is_large(self) -> bool:
        """Whether more waits for the client than its outbox may hold."""
        ...

    def flush(self) -> None:
        """Send the changes that wait."""

    def take_now(self, message: LiveMessage) -> None:
        """Take a change."""

    def note(self, positions: PositionsByLog) -> None:
        """Note that nodes have sent everything up to these positions."""


class Member:
    """One subscription of one client in a stream. Until `release`, its messages wait."""

    __slots__ = (
        "_held",
        "_held_bytes",
        "_left",
        "_skipped",
        "_total",
        "begun",
        "error",
        "is_in",
        "is_too_slow",
        "on_leaving",
        "outbox",
        "sids",
        "sink",
        "stream_positions",
        "sub_id",
        "was_sent",
    )

    def __init__(
        self,
        outbox: Outbox,
        sub_id: str,
        sink: Sink | None,
        stream_positions: PositionsByLog,
        total: HeldBytes,
    ) -> None:
        """Prepare a member; with a `sink`, that takes the changes, otherwise they are passed on."""
        self.outbox = outbox
        self.sub_id = sub_id
        self.sids = msgspec.json.encode([sub_id])
        self.sink = sink
        self.stream_positions = stream_positions
        self.begun: PositionsByLog = {}
        self.was_sent = False
        self.is_in = True
        self.is_too_slow = False
        self.error: SowlineError | None = None
        self.on_leaving: Callable[[], None] | None = None
        self._held: list[LiveMessage] | None = []
        self._held_bytes = 0
        self._total = total
        self._skipped: dict[tuple[str, int], Position] = {}
        """By log and partition, the position up to which the client has everything from elsewhere."""
        self._left: asyncio.Future[None] | None = None

    @property
    def is_released(self) -> bool:
        """Whether the stream sends it messages."""
        return self.is_in and self._held is None

    @property
    def sent(self) -> PositionsByLog:
        """The positions up to which the client, or the sink, has everything."""
        if self._held is not None:
            return self.begun
        skipped: dict[str, Positions] = {}
        for (log, number), position in self._skipped.items():
            skipped.setdefault(log, {})[number] = position
        return newest(self.stream_positions, skipped)

    def release(self, begun: PositionsByLog) -> None:
        """Send the messages that have waited, from these positions on, and then each message as it arrives."""
        self.begun = {log: dict(of) for log, of in begun.items()}
        if not self.is_in:
            return  # the messages that waited were dropped
        # Until everything that waited is sent, `begun` is where the client is: it may have to leave in between
        # (test_what_waited_does_not_fit).
        for message in self._held or ():
            mine = self.begun.setdefault(message.log, {})
            if message.number in mine and message.position <= mine[message.number]:
                continue
            self._send(message)
            if not self.is_in:
                return
            mine[message.number] = message.position
        self._held = None
        self._drop_held()
        at = self.stream_positions
        self._skipped = {
            (log, number): position
            for log, of in self.begun.items()
            for number, position in of.items()
            if (held_at := at.get(log, {}).get(number)) is None or held_at < position
        }

    def _send(self, message: LiveMessage) -> None:
        if self.sink is None:
            put_to_client(message, [self])
        else:
            self.take(message)

    def wants(self, message: LiveMessage) -> bool:
        """Whether a message must be sent now; hold it back if the snapshot is not sent yet."""
        if self._held is not None:
            self._hold(message)
            return False
        if not self._skipped:
            return True
        # From its snapshot or its own subscriptions, the client may already have changes that the stream sends now.
        until = self._skipped.get((message.log, message.number))
        return until is None or message.position > until

    def note_sent(self, message: LiveMessage) -> None:
        """Note that the client was sent a message: no later one of this partition is skipped."""
        self.was_sent = True
        if self._skipped:
            self._skipped.pop((message.log, message.number), None)

    def _hold(self, message: LiveMessage) -> None:
        size = len(message.received.raw)
        # Waiting messages must not fill the gateway: the subscription catches up from the nodes instead
        # (test_messages_that_wait_for_a_snapshot_are_bounded).
        if self._held_bytes + size > HELD_BYTES_MAX or self._total.total + size > HELD_BYTES_TOTAL_MAX:
            self.fall_behind()
            return
        assert self._held is not None
        self._held.append(message)
        self._held_bytes += size
        self._total.total += size

    def _drop_held(self) -> None:
        self._total.total -= self._held_bytes
        self._held_bytes = 0

    def take(self, message: LiveMessage) -> None:
        """Let the sink take a change, or leave if too much waits for the client already."""
        assert self.sink is not None
        if self.sink.is_large:
            if self.outbox.full:
                self.fall_behind()
                return
            self.sink.flush()
        self.sink.take_now(message)
        self.note_sent(message)

    def note(self, positions: PositionsByLog) -> None:
        """Note that an idle node has sent everything up to these positions."""
        if self.sink is not None and self.is_released:
            skipped = self._skipped
            self.sink.note(
                {
                    log: {number: at for number, at in of.items() if not at < skipped.get((log, number), at)}
                    for log, of in positions.items()
                }
            )

    def fall_behind(self) -> None:
        """Leave: the client is too slow."""
        self.is_too_slow = True
        self.leave()

    def leave(self, error: SowlineError | None = None) -> None:
        """Take no more messages; `error` is the one that ended the stream."""
        if not self.is_in:
            return
        self.is_in = False
        # From here on, `sent` must stay at the client's position while the stream advances.
        self.begun, self._held = self.sent, []
        self._drop_held()
        self.error = error
        if self.on_leaving is not None:
            self.on_leaving()
        if self._left is not None and not self._left.done():
            self._left.set_result(None)

    async def wait_left(self) -> None:
        """Wait until it has left; raise the error that ended the stream."""
        if self.is_in:
            self._left = asyncio.get_running_loop().create_future()
            await self._left
        if self.error is not None:
            raise self.error


def put_to_client(message: LiveMessage, members: Sequence[Member]) -> None:
    """Pass a message on to subscriptions of one client; they leave if too much waits for the client already."""
    outbox = members[0].outbox
    if outbox.full:
        for member in members:
            member.fall_behind()
        return
    for member in members:
        member.note_sent(message)
    names = [member.sub_id for member in members]
    # One member is by far the most frequent case, and its name is encoded already.
    sids = members[0].sids if len(members) == 1 else msgspec.json.encode(names)
    outbox.put_behind(message.text_for(sids), names)
