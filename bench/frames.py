"""Readers of raw WebSocket frames: thousands of connections in one thread, at the least price a frame.

A reader unpacks no message: it counts messages by their first field and knows the last one by its bookmark, so that
it measures the server.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import orjson

HANDSHAKE = (
    b"GET /v1 HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
TEXT = 0x81
"""The first byte of a whole text frame."""

MESSAGE_BYTES_MAX = 2048
"""The maximum size of a measured message: the end of a frame of this size holds the whole last message."""

CONNECTING_MAX = 100
"""Handshakes at once."""


def request(command: str, topic: str, **more: object) -> bytes:
    """The request of a client that wants to know that it was taken; `more` are other fields of it."""
    fields = {"command": command, "command_id": "1", "topic": topic, "ack_type": "processed"}
    return orjson.dumps({**fields, **more})


class Ask(NamedTuple):
    """The request of one connection, and the bookmark of the last message to it."""

    request: bytes
    last: bytes


class Reader(asyncio.Protocol):
    """One connection: sends its request, notes the answer, and counts the messages after it."""

    def __init__(self, ask: Ask, keep: bool) -> None:
        loop = asyncio.get_running_loop()
        self._ask = ask
        self._keep = keep
        self._buffer = bytearray()
        self._is_open = False
        self._transport: asyncio.WriteTransport | None = None
        self.answered: asyncio.Future[None] = loop.create_future()
        self.finished: asyncio.Future[float] = loop.create_future()
        """When the last message arrived, on the clock of all processes."""
        self.frames: list[bytes] = []
        self.frame_count = 0
        self.messages = 0
        self.bytes = 0
        """The bytes of the frames' payload."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Request the WebSocket."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        transport.write(HANDSHAKE)

    def data_received(self, data: bytes) -> None:
        """Take all complete frames."""
        self._buffer += data
        if self._is_open or self._opened():
            self._take_frames()

    def connection_lost(self, error: Exception | None) -> None:
        """Fail each task that still waits."""
        for future in (self.answered, self.finished):
            if not future.done():
                future.set_exception(error or ConnectionError("the server closed the connection"))

    def close(self) -> None:
        """Close the connection."""
        assert self._transport is not None
        self.answered.cancel()
        self.finished.cancel()
        self._transport.abort()

    def _opened(self) -> bool:
        checkpoint, end, rest = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return False
        assert checkpoint.startswith(b"HTTP/1.1 101"), bytes(checkpoint)
        assert self._transport is not None
        self._is_open, self._buffer = True, rest
        self._transport.write(frame_of_client(self._ask.request))
        return True

    def _take_frames(self) -> None:
        buffer, at = self._buffer, 0
        while len(buffer) - at >= 2:
            size, checkpoint = buffer[at + 1], 2
            if size == 126:
                size, checkpoint = int.from_bytes(buffer[at + 2 : at + 4], "big"), 4
            elif size == 127:
                size, checkpoint = int.from_bytes(buffer[at + 2 : at + 10], "big"), 10
            end = at + checkpoint + size
            if end > len(buffer):
                break
            if buffer[at] == TEXT:
                self._take(bytes(buffer[at + checkpoint : end]))
            at = end
        del buffer[:at]

    def _take(self, frame: bytes) -> None:
        if not self.answered.done():
            self.answered.set_result(None)
            return
        self.frame_count += 1
        self.messages += frame.count(b'"sids":[')
        self.bytes += len(frame)
        if self._keep:
            self.frames.append(frame)
        if self._ask.last in frame[-MESSAGE_BYTES_MAX:]:
            self.finished.set_result(time.monotonic())


ReaderT = TypeVar("ReaderT", bound=Reader)


def frame_of_client(request: bytes) -> bytes:
    """A text frame as clients send them; masked with zeros, which changes nothing."""
    return b"%c\xfe%b\0\0\0\0%b" % (TEXT, len(request).to_bytes(2, "big"), request)


async def connect(
    port: int,
    asks: Sequence[Ask],
    made: Callable[[Ask, bool], ReaderT],
    at_once: int = CONNECTING_MAX,
) -> list[ReaderT]:
    """Open a connection for each, and wait until all have their answer; the first one keeps its frames."""
    loop = asyncio.get_running_loop()
    readers: list[ReaderT] = []
    for start in range(0, len(asks), at_once):
        some = [made(ask, not start and not n) for n, ask in enumerate(asks[start:][:at_once])]
        await asyncio.gather(
            *(loop.create_connection(lambda one=one: one, "127.0.0.1", port) for one in some)  # type: ignore[misc]
        )
        await asyncio.gather(*(reader.answered for reader in some))
        readers += some
    return readers
