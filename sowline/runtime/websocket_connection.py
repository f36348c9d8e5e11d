"""A WebSocket after its handshake: reads frames, sends frames, and closes.

It has no task, and a timer only while it closes. A service has thousands of them, and most have nothing to do most of
the time.
"""

import asyncio
from collections.abc import MutableSet
from typing import Any

from websockets.frames import CloseCode, Opcode

from sowline.runtime.connections import Connection
from sowline.runtime.websocket_frames import (
    PING,
    BrokenFrame,
    FrameReader,
    binary_frame,
    close_frame,
    reply_to,
    text_frame,
)

LINGER_SECONDS = 10.0
"""Seconds from the start of closing until a connection that is still there is aborted."""


class WebSocketConnection(asyncio.Protocol):
    """One WebSocket that does nothing but end as the protocol demands. A subclass sends and takes messages."""

    __slots__ = (
        "_aborting",
        "_connections",
        "_counted",
        "_is_lost",
        "_reader",
        "can_write",
        "is_ended",
        "transport",
    )

    transport: asyncio.Transport

    def begin(
        self,
        transport: asyncio.Transport,
        bytes_max: int,
        connections: MutableSet[Any],
        counted: Connection | None,
    ) -> None:
        """Start on a connection whose handshake is complete.

        It takes messages of at most `bytes_max`. While it is open, it is one of `connections`; at its end it is no
        longer `counted`.
        """
        self.transport = transport
        self._reader = FrameReader(bytes_max)
        self._connections = connections
        self._counted = counted
        self._is_lost = False
        self.is_ended = False
        """Whether `ended` was called: either side has begun to close the connection, or it is lost."""
        self._aborting: asyncio.TimerHandle | None = None
        self.can_write = True
        """Whether the transport has room for more; a subclass sends nothing while it has none."""
        connections.add(self)

    # what a subclass does

    def received(self, message: bytes) -> None:
        """Take a message."""

    def resumed(self) -> None:
        """Send what has waited: the client reads again."""

    def ended(self) -> None:
        """Stop: the connection ends. Called once."""

    # sending

    def send(self, text: bytes) -> None:
        """Send a text message."""
        self.transport.write(text_frame(text))

    def send_binary(self, data: bytes) -> None:
        """Send a binary message."""
        self.transport.write(binary_frame(data))

    def ping(self) -> None:
        """Show the client, and proxies on the way, that the connection lives."""
        # For a client that does not read, one ping after the other would be kept in memory.
        if self.can_write and not self.is_ended:
            self.transport.write(PING)

    def close(self, code: int = CloseCode.NORMAL_CLOSURE, reason: str = "") -> None:
        """Close the connection, after what was sent; abort it if the client does not read that for long."""
        if not self.is_ended:
            self._end()
            self.transport.write(close_frame(code, reason))
            self.transport.resume_reading()  # the client's reply may follow messages that were not read yet

    def shutdown(self) -> None:
        """Close the connection because the server stops."""
        self.close(CloseCode.SERVICE_RESTART)
        self.transport.close()

    def _end(self) -> None:
        self.is_ended = True
        if not self._is_lost:
            loop = asyncio.get_running_loop()
            self._aborting = loop.call_later(LINGER_SECONDS, self.transport.abort)
        self.ended()

    # from the event loop

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client."""
        # The loop may still deliver bytes that it had received. After a broken frame, the reader can't read them.
        if self.transport.is_closing():
            return
        try:
            for frame in self._reader.receive(data):
                if frame.opcode is Opcode.PING:
                    self.transport.write(reply_to(frame))
                elif frame.opcode is Opcode.CLOSE:
                    # After a close frame of this side, the client's is the answer, which gets no answer.
                    if not self.is_ended:
                        self._end()
                        self.transport.write(reply_to(frame))
                    self.transport.close()
                    return
                elif frame.opcode is not Opcode.PONG and not self.is_ended:
                    self.received(bytes(frame.data))
        except BrokenFrame as broken:
            self.close(broken.code, broken.reason)
            self.transport.close()

    def pause_writing(self) -> None:
        """Send nothing more for now: the client reads slowly."""
        self.can_write = False

    def resume_writing(self) -> None:
        """Send again."""
        self.can_write = True
        if not self.is_ended:
            self.resumed()

    def connection_lost(self, error: Exception | None) -> None:
        """End, if that is still to be done."""
        self._is_lost = True
        if self._aborting is not None:
            self._aborting.cancel()
            self._aborting = None
        self._connections.discard(self)
        if self._counted is not None:
            self._counted.closed()
        if not self.is_ended:
            self._end()
