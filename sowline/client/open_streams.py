"""The open queries and subscriptions of a client: gives each message to the streams that it is for."""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any, Unpack

from sowline.client.ask import Ask, Selecting
from sowline.client.connection import ServiceConnection
from sowline.client.stream import PAUSE, PROOF, RESUME, Stream, stream_id
from sowline.errors import SowlineError
from sowline.wire.client_message import Received


class OpenStreams:
    """Streams by their ids, over one connection. After a lost connection, each stream resumes over the next one."""

    def __init__(self) -> None:
        self.by_id: dict[str, Stream] = {}
        self.connection: ServiceConnection
        """The connection of the streams; set before the first of them is opened."""
        self._ids = (str(number) for number in itertools.count(1))
        self._resumed: list[Stream] = []

    # what the client calls

    async def open(self, ask: Ask) -> Stream:
        """Start a query or subscription and return its stream once the server has taken it."""
        await self.connection.wait_until_open()
        stream = Stream(next(self._ids), ask)
        self.by_id[stream.id] = stream
        self._let_reader_go_on()
        try:
            await self.connection.send(ask.request(stream.id))
            await stream.started()
        except BaseException:
            self.by_id.pop(stream.id, None)
            raise
        return stream

    async def replace(self, stream: Stream, **reading: Unpack[Selecting]) -> None:
        """Change the request of a subscription; return once the server has accepted it."""
        replacement = stream.replace(**reading)
        self._let_reader_go_on()
        await self._send_next(stream)
        await replacement.settled()

    async def pause(self, stream: Stream) -> None:
        """Let the service send nothing to a subscription until it is resumed."""
        stream.is_paused = True
        await self._send_about(stream, PAUSE)

    async def unpause(self, stream: Stream) -> None:
        """Resume a subscription from the position at which it was paused."""
        stream.is_paused = False
        await self._send_about(stream, RESUME)

    async def prove(self, stream: Stream) -> None:
        """Ask for the number of records and the checksum of what a subscriber should hold."""
        stream.wants_proof = True
        self._let_reader_go_on()
        await self._send_about(stream, PROOF)

    async def end(self, stream: Stream) -> None:
        """Unsubscribe, if the stream is still open; without a connection there is nothing to unsubscribe from."""
        if self.by_id.pop(stream.id, None) is not None:
            stream.close()
            if self.connection.is_open:
                await self.connection.send(stream.end_request())

    def _let_reader_go_on(self) -> None:
        """Let the reader reach an answer that is expected, although callers have many messages to read."""
        for stream in self.by_id.values():
            stream.let_reader_go_on()

    async def _send_about(self, stream: Stream, what: str) -> None:
        """Send a command about a subscription. Without a connection, a later one does so."""
        if self.connection.is_open:
            await self.connection.send(stream.request_about(what))

    async def _send_next(self, stream: Stream) -> None:
        """Send the next replacement of a subscription. Without a connection, a later one does so."""
        if self.connection.is_open and (request := stream.next_request()) is not None:
            await self.connection.send(request)

    # what the connection calls

    async def receive(self, received: Received) -> None:
        """Give a message to the streams that it is for; send a request again that was refused temporarily."""
        for id in received.streams:
            stream = self.by_id.get(stream_id(id))
            if stream is None:
                continue
            if stream.is_to_ask_again(received):
                self.connection.start(self.connection.send_later(partial(self._repeated, stream, received)))
                continue
            await stream.receive(received, partial(self._is_awaited_behind, stream))
            if received.command == "ack":
                self.connection.start(self._send_next(stream))

    def _repeated(self, stream: Stream, refused: Received) -> dict[str, Any] | None:
        """Return the request that was refused, or None if its caller has left."""
        return stream.again(refused) if stream.id in self.by_id else None

    def _is_awaited_behind(self, stream: Stream) -> bool:
        return any(other.is_owed for other in self.by_id.values() if other is not stream)

    def resume(self, *, is_void: bool) -> Iterator[dict[str, Any]]:
        """Yield the requests that resume all streams; each stream drops messages that its caller has not received."""
        self._resumed = []
        for stream in list(self.by_id.values()):
            ask = stream.resumed(is_void=is_void)
            if ask is not None:
                self._resumed.append(stream)
                yield ask.request(stream.id)
                if stream.wants_proof:
                    yield stream.request_about(PROOF)

    def abandoned(self) -> list[dict[str, Any]]:
        """Return the requests that end streams whose callers left while the connection was resumed."""
        return [stream.end_request() for stream in self._resumed if stream.id not in self.by_id]

    def fail(self, error: SowlineError) -> None:
        """End all streams: their callers get what was received, then the error."""
        for stream in self.by_id.values():
            stream.fail(error)
