"""The asynchronous client: queries and subscriptions over one WebSocket, commands straight to Kafka."""

import asyncio
import contextlib
import itertools
import ssl
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack
from urllib.parse import quote, urlsplit, urlunsplit

import httpx2
import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from sowline.errors import SowlineError
from sowline.kafka import kafka_config
from sowline.local_view import AsyncLocalView
from sowline.message import Message, Received, read_frame
from sowline.publisher import Body, Publisher, encode
from sowline.record_view import Callbacks, OnInsert, OnRemove, OnUpdate
from sowline.stream import PAUSE, PROOF, RESUME, Ask, Reading, Selecting, Stream, stream_id
from sowline.topics import Topics

CONNECT_SECONDS_MAX = 30.0
CLOSE_SECONDS_MAX = 1.0
"""How long the end of a connection is waited for: nothing is lost where the service does not answer."""
BACK_OFF_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
ASK_AGAIN_SECONDS = 0.2
SILENCE_SECONDS_MAX = 20.0
POST_SECONDS_MAX = 120.0
KEYS_A_POST = 1000
"""SOW keys in one request: they go into its URL."""

EXPLAINED = ("bookmark", "filter", "options", "order_by", "top_n", "skip_n", "sow_keys")


class AsyncClient:
    """A client of a query service. Use it as an async context manager.

    A lost connection is made again, and every subscription goes on from the last message that its caller
    was given, without a gap and without a repeat. A subscription that lost its connection before its group
    had ended begins the group again: a `group_begin` always says that the whole follows.
    """

    def __init__(
        self, url: str = "http://127.0.0.1:8080", *, kafka: str | None = None, publisher: str | None = None
    ) -> None:
        self._url = url.rstrip("/")
        self._kafka = kafka
        self._publisher_id = publisher
        self._publisher: Publisher | None = None
        self._ids = (str(number) for number in itertools.count(1))
        self._streams: dict[str, Stream] = {}
        self._connection: ClientConnection | None = None
        self._connected = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._connection = await self._connect_within(CONNECT_SECONDS_MAX)
        self._connected.set()
        self._reader = asyncio.create_task(self._read_for_ever())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Flush what was published, and end the connection, with all that was read from it."""
        if self._publisher is not None:
            await asyncio.to_thread(self._publisher.close)
        for stream in self._streams.values():
            stream.fail(SowlineError("disconnected", "the client was closed"))
        for task in self._sending:
            task.cancel()
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
        if self._connection is not None:
            await self._connection.close()

    # reading

    def sow(self, topic: str, **reading: Unpack[Reading]) -> AsyncIterator[Message]:
        """Yield the records that match at one instant, between a `group_begin` and a `group_end`."""
        return self._read_all(Ask("sow", topic, **reading))

    def subscribe(self, topic: str, **reading: Unpack[Reading]) -> AsyncIterator[Message]:
        """Yield changes as they happen, from a bookmark on, or from the first step of the iteration on."""
        return self._read_all(Ask("subscribe", topic, **reading))

    def sow_and_subscribe(self, topic: str, **reading: Unpack[Reading]) -> AsyncIterator[Message]:
        """Yield the records that match at one instant, then every change after it: no gap, no repeat."""
        return self._read_all(Ask("sow_and_subscribe", topic, **reading))

    def delta_subscribe(self, topic: str, **reading: Unpack[Reading]) -> AsyncIterator[Message]:
        """Yield changes as they happen; of a record that you hold, only the key fields and what has changed."""
        return self._read_all(Ask("delta_subscribe", topic, **reading))

    def sow_and_delta_subscribe(self, topic: str, **reading: Unpack[Reading]) -> AsyncIterator[Message]:
        """Yield the records that match at one instant, then what every change after it has changed."""
        return self._read_all(Ask("sow_and_delta_subscribe", topic, **reading))

    def local_view(
        self,
        topic: str,
        *,
        delta: bool = True,
        records: Mapping[str, bytes] | None = None,
        on_insert: OnInsert | None = None,
        on_update: OnUpdate | None = None,
        on_remove: OnRemove | None = None,
        **reading: Unpack[Reading],
    ) -> AsyncLocalView:
        """Return a mapping of SOW keys to the records that match, which is always up to date.

        It is one within `async with`, which waits until all records are there. `records` and `bookmark` begin
        from a saved copy. Without `delta`, records that change are sent whole.
        """
        callbacks = Callbacks(on_insert, on_update, on_remove)
        return AsyncLocalView(self, topic, callbacks, records, delta=delta, **reading)

    async def explain(self, topic: str, **reading: Unpack[Reading]) -> dict[str, Any]:
        """Return which road a query would take in each topic, and what it would find there."""
        fields = Ask("sow", topic, **reading).request("")
        asked = {name: fields[name] for name in EXPLAINED if name in fields}
        return await self._post(topic, "explain", {}, orjson.dumps(asked))

    async def open(self, ask: Ask) -> Stream:
        """Start a query or subscription and return its stream once the server has taken it.

        For those who need the stream's bookmark or batches, or must know that it has begun; raises what the
        server refuses it for.
        """
        await self._connected.wait()
        stream = Stream(next(self._ids), ask)
        self._streams[stream.id] = stream
        try:
            await self._send(ask.request(stream.id))
            await stream.started()
        except BaseException:
            self._streams.pop(stream.id, None)
            raise
        return stream

    async def replace(self, stream: Stream, **reading: Unpack[Selecting]) -> None:
        """Let a subscription ask for something else from here on; what is not named stays as it was.

        Returns once the server has taken it: the stream then gives what is left of before, and goes on with
        what differs. Raises what the server refuses it for; then the subscription goes on as it was.
        """
        replacement = stream.replace(**reading)
        await self._send_next(stream)
        await replacement.settled()

    async def pause(self, stream: Stream) -> None:
        """Let a subscription stand still until it is resumed; what has come already can still be read."""
        stream.is_paused = True
        await self._send_aside(stream, PAUSE)

    async def resume(self, stream: Stream) -> None:
        """Let a subscription go on from where it was paused, with every change since."""
        stream.is_paused = False
        await self._send_aside(stream, RESUME)

    async def prove(self, stream: Stream) -> None:
        """Let the service say what a subscriber holds: a `progress` message among the others, with records and hash.

        Where it can't say, the message has a reason, and the hash is an empty string.
        """
        stream.wants_proof = True
        await self._send_aside(stream, PROOF)

    async def _send_aside(self, stream: Stream, what: str) -> None:
        """Send what is about a subscription. Without a connection, a later one does so."""
        if self._connected.is_set():
            await self._send(stream.aside(what))

    async def end(self, stream: Stream) -> None:
        """Unsubscribe, if the stream is still alive; without a connection there is nothing to unsubscribe from."""
        if self._streams.pop(stream.id, None) is not None:
            stream.close()
            if self._connected.is_set():
                await self._unsubscribe(stream.id)

    async def _unsubscribe(self, id: str) -> None:
        await self._send({"command": "unsubscribe", "command_id": id, "sub_id": id, "query_id": id})

    async def _read_all(self, ask: Ask) -> AsyncIterator[Message]:
        stream = await self.open(ask)
        try:
            while batch := await stream.next_batch():
                for message in batch:
                    yield message
        finally:
            await self.end(stream)

    async def topics(self) -> dict[str, Any]:
        """Return what the service says of its topics, and where its Kafka is."""
        async with httpx2.AsyncClient(timeout=CONNECT_SECONDS_MAX) as http:
            response = await http.get(f"{self._url}/v1/topics")
            response.raise_for_status()
            return dict(orjson.loads(response.content))

    # writing

    async def publish(
        self, topic: str, data: Body, *, correlation: str | None = None, expiration: float | None = None
    ) -> None:
        """Insert the record, or replace it whole; `flush` waits until Kafka has it."""
        (await self.publisher()).publish(topic, data, correlation=correlation, expiration=expiration)

    async def delta_publish(
        self, topic: str, data: Body, *, correlation: str | None = None, expiration: float | None = None
    ) -> None:
        """Merge the fields into the record that the key fields in `data` name."""
        (await self.publisher()).delta_publish(topic, data, correlation=correlation, expiration=expiration)

    async def sow_delete(
        self,
        topic: str,
        *,
        filter: str | None = None,
        keys: Sequence[str] | None = None,
        data: Body | None = None,
    ) -> int:
        """Delete the records that a filter (`1=1`: every one), SOW keys or `data` select; exactly one of them.

        What was published before comes before it. Returns how many records are gone, once the service has
        applied it; the topic may be a pattern.
        """
        await self.flush()
        if keys is not None and not (filter or data):
            parts = [keys[start : start + KEYS_A_POST] for start in range(0, len(keys), KEYS_A_POST)]
            return sum([await self._post_delete(topic, {"keys": ",".join(part)}) for part in parts or [()]])
        selected = {"filter": filter or "", "keys": ",".join(keys or ())}
        return await self._post_delete(topic, selected, None if data is None else encode(data))

    async def _post_delete(self, topic: str, given: Mapping[str, str], body: bytes | None = None) -> int:
        selectors = {name: text for name, text in given.items() if text}
        answer = await self._post(topic, "sow_delete", {**selectors, "ack": "processed"}, body)
        return int(answer["records_deleted"])

    async def _post(
        self, topic: str, what: str, given: Mapping[str, str], body: bytes | None
    ) -> dict[str, Any]:
        """Ask over HTTP; raises what is answered in place of an answer."""
        async with httpx2.AsyncClient(timeout=POST_SECONDS_MAX) as http:
            url = f"{self._url}/v1/topics/{quote(topic)}/{what}"
            response = await http.post(url, params=dict(given), content=body)
            answer = dict(orjson.loads(response.content))
        if response.status_code != 200:
            raise SowlineError(answer["reason"], answer["message"])
        return answer

    async def flush(self) -> None:
        """Wait until Kafka has everything that was published; raises `not written`."""
        if self._publisher is not None:
            await asyncio.to_thread(self._publisher.flush)

    async def publisher(self) -> Publisher:
        """Return the client's publisher, made from what the service says of its topics at first use."""
        if self._publisher is None:
            about = await self.topics()
            config = kafka_config(self._kafka or about["kafka"])
            self._publisher = Publisher(config, topics_of(about), publisher=self._publisher_id)
        return self._publisher

    # the connection

    async def _send(self, request: dict[str, Any]) -> None:
        """Send a request at once. Where the connection is lost a new one is made, and asks for what must go on."""
        assert self._connection is not None
        with contextlib.suppress(ConnectionClosed):
            await self._connection.send(orjson.dumps(request).decode())

    async def _read_for_ever(self) -> None:
        try:
            while True:
                with contextlib.suppress(ConnectionClosed):
                    await self._read()
                self._connected.clear()
                await self._reconnect()
        except Exception as error:
            for stream in self._streams.values():
                stream.fail(SowlineError("internal", f"the client could not go on: {error!r}"))

    async def _read(self) -> None:
        assert self._connection is not None
        while True:
            for received in read_frame(await self._receive(self._connection)):
                await self._dispatch(received)

    @staticmethod
    async def _receive(connection: ClientConnection) -> bytes:
        """Return the next frame. A silent service is asked for a sign of life, and given up if it gives none.

        Asked only by those who wait for it: while a slow caller keeps us from reading, no answer could arrive.
        """
        pong = None
        while True:
            try:
                async with asyncio.timeout(SILENCE_SECONDS_MAX):
                    return await connection.recv(decode=False)
            except TimeoutError:
                if pong is not None and not pong.done():
                    connection.transport.abort()
                else:
                    pong = asyncio.ensure_future(await connection.ping())

    async def _dispatch(self, received: Received) -> None:
        for id in received.streams:
            stream = self._streams.get(stream_id(id))
            if stream is None:
                continue
            if stream.is_to_ask_again(received):
                self._start(self._ask_again(stream, received))
                continue
            await stream.receive(received)
            if received.command == "ack":
                self._start(self._send_next(stream))

    def _start(self, sending: Coroutine[Any, Any, None]) -> None:
        """Send something while the reader reads on."""
        task = asyncio.create_task(sending)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _ask_again(self, stream: Stream, refused: Received) -> None:
        """Repeat what the service could not do yet, where its connection is still there: a new one asks by itself."""
        connection = self._connection
        await asyncio.sleep(ASK_AGAIN_SECONDS)
        is_there = connection is self._connection and self._connected.is_set()
        if is_there and stream.id in self._streams:
            await self._send(stream.again(refused))

    async def _send_next(self, stream: Stream) -> None:
        """Send what a subscription is to be replaced with next. Without a connection a later one does so."""
        if self._connected.is_set() and (request := stream.next_request()) is not None:
            await self._send(request)

    async def _reconnect(self) -> None:
        """Connect again, as often as it takes, and let every subscription go on from its bookmark."""
        self._connection = await self._connect_within(None)
        asked = []
        for stream in list(self._streams.values()):
            ask = stream.resumed()
            if ask is not None:
                asked.append(stream.id)
                requests = [ask.request(stream.id), *([stream.aside(PROOF)] if stream.wants_proof else [])]
                for request in requests:
                    with contextlib.suppress(ConnectionClosed):
                        await self._connection.send(orjson.dumps(request).decode())
        self._connected.set()
        for id in asked:
            if id not in self._streams:  # its caller left meanwhile
                await self._unsubscribe(id)

    async def _connect_within(self, seconds: float | None) -> ClientConnection:
        for pause in itertools.chain(BACK_OFF_SECONDS, itertools.repeat(BACK_OFF_SECONDS[-1])):
            try:
                url = _websocket_url(self._url)
                return await connect(
                    url,
                    max_size=None,
                    compression=None,
                    ping_interval=None,
                    close_timeout=CLOSE_SECONDS_MAX,
                )
            except (OSError, InvalidHandshake, TimeoutError) as error:
                if isinstance(error, ssl.SSLError) or (seconds is not None and seconds <= 0):
                    raise SowlineError(
                        "not connected", f"expected a query service at {self._url}: {error}"
                    ) from error
            await asyncio.sleep(pause)
            seconds = None if seconds is None else seconds - pause
        raise AssertionError("the pauses never end")


def _websocket_url(url: str) -> str:
    scheme, netloc, path, _, _ = urlsplit(url)
    schemes = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
    if scheme not in schemes or not netloc:
        raise SowlineError("bad request", f"expected a URL such as http://127.0.0.1:8080, got {url!r}")
    return urlunsplit((schemes[scheme], netloc, f"{path}/v1", "", ""))


def topics_of(about: dict[str, Any]) -> Topics:
    """Return the definitions that a service's answer to `/v1/topics` describes."""
    names = ("name", "message_type", "log", "partitions", "record_bytes_max")
    of_records = ("key", "key_domain", "preprocessing")
    return Topics.model_validate(
        {
            "topics": [
                {name: topic[name] for name in (*names, *of_records)}
                if topic["key"]
                else {name: topic[name] for name in names} | {"sow": False}
                for topic in about["topics"]
            ]
        }
    )
