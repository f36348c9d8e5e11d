"""The asynchronous client: queries and subscriptions over one WebSocket, commands straight to Kafka."""

import asyncio
import contextlib
import itertools
import ssl
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack
from urllib.parse import quote, urlsplit, urlunsplit

import httpx2
import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from sowline.command import joined_tags
from sowline.credentials import RENEW_AT, RENEW_SECONDS_MIN, Credentials, Token
from sowline.errors import SowlineError
from sowline.kafka import kafka_config
from sowline.local_view import AsyncLocalView
from sowline.message import Message, Received, read_frame
from sowline.publisher import Body, Publisher, Tagging, Writing, encode, read_stream
from sowline.record_view import Callbacks, OnInsert, OnRemove, OnUpdate
from sowline.span import Given, bookmark_text
from sowline.stream import PAUSE, PROOF, RESUME, Ask, Reading, Selecting, Stream, stream_id
from sowline.topics import Topics

CONNECT_SECONDS_MAX = 30.0
CLOSE_SECONDS_MAX = 1.0
"""How long the end of a connection is waited for: nothing is lost where the service does not answer."""
BACK_OFF_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
ASK_AGAIN_SECONDS = 0.2
SILENCE_SECONDS_MAX = 20.0
HTTP_SECONDS_MAX = 120.0
IDLE_SECONDS_MAX = 2.0
"""How long a connection for HTTP is kept: the service ends it a while later, and then must not be asked any more."""
KEYS_A_POST = 1000
"""SOW keys in one request: they go into its URL."""

LOGON = "logon"
"""The id of the command that renews a logon; no stream has it."""

NDJSON = "application/x-ndjson"
POSTED = ("correlation", "expiration")
"""What may go with a delta and is a parameter of its request."""

EXPLAINED = ("bookmark", "filter", "condition", "options", "order_by", "top_n", "skip_n", "sow_keys")


class AsyncClient:
    """A client of a query service. Use it as an async context manager.

    A lost connection is made again, and every subscription goes on from the last message that its caller
    was given, without a gap and without a repeat. A subscription that lost its connection before its group
    had ended begins the group again: a `group_begin` always says that the whole follows.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        kafka: str | None = None,
        kafka_options: Mapping[str, str] | None = None,
        publisher: str | None = None,
        token: Token | None = None,
        ca_file: str | Path | None = None,
        cert_file: str | Path | None = None,
        key_file: str | Path | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._credentials = Credentials(token, ca_file, cert_file, key_file)
        self._rights: str | None = None
        self._renewing: asyncio.TimerHandle | None = None
        self._failure: SowlineError | None = None
        self._kafka = kafka
        self._kafka_options = kafka_options
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
        if self._renewing is not None:
            self._renewing.cancel()
        if self._connection is not None:
            await self._connection.close()
        if "_web" in self.__dict__:
            await self._web.aclose()

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

    async def record(self, topic: str, key: str) -> dict[str, Any]:
        """Return one record by its key text; of a topic with documents also one that is deleted or was never written.

        A document comes with its intrinsics, such as `~version` and `~deleted`. Raises `no record` where there is
        none.
        """
        return await self._get(topic, key)

    async def timeline(
        self,
        topic: str,
        key: str,
        *,
        limit: int = 100,
        reversed: bool = True,
        bookmark: Given = "",
        up_to: Given = "",
    ) -> dict[str, Any]:
        """Return the writes to the document with this key text, newest first; not `reversed`, oldest first."""
        given = {
            "limit": str(limit),
            "reversed": "true" if reversed else "false",
            "bookmark": bookmark_text(bookmark),
            "up_to": bookmark_text(up_to),
        }
        asked = {name: text for name, text in given.items() if text}
        return await self._get(topic, key, "/timeline", asked)

    async def open(self, ask: Ask) -> Stream:
        """Start a query or subscription and return its stream once the server has taken it.

        For those who need the stream's bookmark or batches, or must know that it has begun; raises what the
        server refuses it for.
        """
        await self._connected.wait()
        if self._failure is not None:
            raise self._failure
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
        return await self._ask_web("GET", f"{self._url}/v1/topics", timeout=CONNECT_SECONDS_MAX)

    # writing

    async def publish(self, topic: str, data: Body, **writing: Unpack[Writing]) -> None:
        """Insert the record, or replace it whole; `flush` waits until Kafka has it."""
        (await self.publisher()).publish(topic, data, **writing)

    async def delta_publish(self, topic: str, data: Body, **writing: Unpack[Writing]) -> None:
        """Merge the fields into the record that the key fields in `data` name."""
        (await self.publisher()).delta_publish(topic, data, **writing)

    async def delta(
        self, topic: str, key: str, delta: str, *, wait: bool = False, **writing: Unpack[Writing]
    ) -> str | None:
        """Do with the document that has this key text what the delta says.

        With `wait` it goes to the service, behind what was published before, and what became of it is returned once
        the service has applied it: `applied`, `noop` or `condition_false`.
        """
        if wait:
            [outcome] = await self._post_deltas(topic, key, [delta], writing)
            return outcome
        (await self.publisher()).delta(topic, key, delta, **writing)
        return None

    async def deltas(
        self, topic: str, key: str, stream: str, *, wait: bool = False, **writing: Unpack[Writing]
    ) -> list[str]:
        """Do with a document what each delta of a stream says, in order; all are checked before one is written.

        With `wait` the outcome of each is returned, as by `delta`; without, nothing.
        """
        if wait:
            texts = [text.decode() for text in read_stream(stream, writing)]
            return await self._post_deltas(topic, key, texts, writing)
        (await self.publisher()).deltas(topic, key, stream, **writing)
        return []

    async def _post_deltas(self, topic: str, key: str, deltas: Sequence[str], writing: Writing) -> list[str]:
        """Have the service write deltas to a document; return what became of each."""
        await self.flush()
        given = {name: str(value) for name, value in writing.items() if name in POSTED and value is not None}
        own = {name: value for name, value in writing.items() if name not in POSTED and value}
        lines = [orjson.dumps({"key": key, "delta": delta, **own}) for delta in deltas]
        answer = await self._post(topic, "delta", {**given, "ack": "processed"}, b"\n".join(lines), NDJSON)
        return list(answer["each"])

    async def sow_delete(
        self,
        topic: str,
        *,
        filter: str | None = None,
        keys: Sequence[str] | None = None,
        data: Body | None = None,
        **tagging: Unpack[Tagging],
    ) -> int:
        """Delete the records that a filter (`1=1`: every one), SOW keys or `data` select; exactly one of them.

        What was published before comes before it. Returns how many records are gone, once the service has
        applied it; the topic may be a pattern.
        """
        await self.flush()
        tags, change_id = joined_tags(tagging.get("tags", ())), tagging.get("change_id")
        about = {"tags": tags or "", "change_id": change_id or ""}
        if keys is not None and not (filter or data):
            parts = [keys[start : start + KEYS_A_POST] for start in range(0, len(keys), KEYS_A_POST)]
            posts = [self._post_delete(topic, {"keys": ",".join(part), **about}) for part in parts or [()]]
            return sum([await post for post in posts])
        selected = {"filter": filter or "", "keys": ",".join(keys or ()), **about}
        return await self._post_delete(topic, selected, None if data is None else encode(data))

    async def _post_delete(self, topic: str, given: Mapping[str, str], body: bytes | None = None) -> int:
        selectors = {name: text for name, text in given.items() if text}
        answer = await self._post(topic, "sow_delete", {**selectors, "ack": "processed"}, body)
        return int(answer["records_deleted"])

    async def _post(
        self, topic: str, what: str, given: Mapping[str, str], body: bytes | None, type: str = ""
    ) -> dict[str, Any]:
        """Ask over HTTP; raises what is answered in place of an answer."""
        url = f"{self._url}/v1/topics/{quote(topic)}/{what}"
        headers = {"content-type": type} if type else {}
        return await self._ask_web("POST", url, headers, params=dict(given), content=body)

    async def _get(
        self, topic: str, key: str, what: str = "", given: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Ask for a record, or what there is of it; raises what is answered in place of that."""
        url = f"{self._url}/v1/topics/{quote(topic)}/records/{quote(key, safe='')}{what}"
        return await self._ask_web("GET", url, params=dict(given or {}))

    async def _ask_web(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, **given: Any
    ) -> dict[str, Any]:
        """Ask over HTTP; a token that is not good any more is replaced once by a fresh one."""
        mine = {**(headers or {}), **await self._credentials.headers()}
        answer = await self._web.request(method, url, headers=mine, **given)
        if answer.status_code == 401 and self._credentials.renews:
            mine |= await self._credentials.headers(fresh=True)
            answer = await self._web.request(method, url, headers=mine, **given)
        return _answer(answer)

    async def flush(self) -> None:
        """Wait until Kafka has everything that was published; raises `not written`."""
        if self._publisher is not None:
            await asyncio.to_thread(self._publisher.flush)

    async def publisher(self) -> Publisher:
        """Return the client's publisher, made from what the service says of its topics at first use."""
        if self._publisher is None:
            about = await self.topics()
            config = kafka_config(self._kafka or about["kafka"], self._kafka_options)
            self._publisher = Publisher(config, topics_of(about), publisher=self._publisher_id)
        return self._publisher

    # the connections

    @cached_property
    def _web(self) -> httpx2.AsyncClient:
        """What requests over HTTP go through: to begin anew with each takes longer than most of their answers."""
        limits = httpx2.Limits(max_connections=None, keepalive_expiry=IDLE_SECONDS_MAX)
        verify = self._tls or True
        return httpx2.AsyncClient(limits=limits, timeout=HTTP_SECONDS_MAX, verify=verify)

    @cached_property
    def _tls(self) -> ssl.SSLContext | None:
        """How the service is known, where it is asked over TLS."""
        return self._credentials.tls() if self._url.startswith(("https://", "wss://")) else None

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
        except SowlineError as error:
            self._break(error)
        except Exception as error:
            self._break(SowlineError("internal", f"the client could not go on: {error!r}"))

    def _break(self, error: SowlineError) -> None:
        """End everything; whoever begins something is told why."""
        self._failure = error
        self._connected.set()
        for stream in self._streams.values():
            stream.fail(error)

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
        if received.command_id == LOGON and received.command == "ack":
            await self._note_renewal(received)
            return
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
        before = self._rights
        self._connection = await self._connect_within(None)
        asked, is_void = [], before is not None and self._rights not in (before, None)
        for stream in list(self._streams.values()):
            ask = stream.resumed(is_void=is_void)
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
        """Connect, for so long, or as long as it takes; raises `not connected`, or for what it was refused.

        Where a token is refused and there may be another, a connection that is made again asks a few times more.
        """
        refusals = itertools.count(
            1 if seconds is None and self._credentials.renews else len(BACK_OFF_SECONDS)
        )
        for pause in itertools.chain(BACK_OFF_SECONDS, itertools.repeat(BACK_OFF_SECONDS[-1])):
            try:
                return await self._connect()
            except (OSError, InvalidHandshake, TimeoutError) as error:
                refusal = _refusal(error)
                if refusal is not None and next(refusals) >= len(BACK_OFF_SECONDS):
                    raise refusal from None
                if isinstance(error, ssl.SSLError) or (seconds is not None and seconds <= 0):
                    raise SowlineError(
                        "not connected", f"expected a query service at {self._url}: {error}"
                    ) from error
            except SowlineError as error:
                if seconds is not None or error.reason != "auth unavailable":
                    raise
            await asyncio.sleep(pause)
            seconds = None if seconds is None else seconds - pause
        raise AssertionError("the pauses never end")

    async def _connect(self) -> ClientConnection:
        """Make a connection, with a token that is as fresh as can be, and note what the service says of it."""
        connection = await connect(
            _websocket_url(self._url),
            additional_headers=await self._credentials.headers(fresh=True),
            ssl=self._tls,
            max_size=None,
            compression=None,
            ping_interval=None,
            close_timeout=CLOSE_SECONDS_MAX,
        )
        if connection.response is not None:
            told = connection.response.headers
            expires_in = told.get("Sowline-Expires-In")
            self._note_logon(told.get("Sowline-Rights"), None if expires_in is None else float(expires_in))
        return connection

    # the logon

    @property
    def rights(self) -> str | None:
        """What names the rights of this client: equal names, equal rights. None where the service does not say."""
        return self._rights

    def _note_logon(self, rights: str | None, expires_in: float | None) -> None:
        """Note what a logon is good for; a token that ends is renewed before that, where there may be another."""
        self._rights = rights or self._rights
        if self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None
        if expires_in is not None and self._credentials.renews:
            loop = asyncio.get_running_loop()
            wait = max(expires_in * RENEW_AT, min(expires_in, RENEW_SECONDS_MIN))
            self._renewing = loop.call_later(wait, lambda: self._start(self._renew()))

    async def _renew(self) -> None:
        """Log on again over the connection that is there, with a fresh token; a new connection does so by itself."""
        with contextlib.suppress(
            SowlineError
        ):  # the connection ends with its token, and the next one asks again
            token = await self._credentials.token(fresh=True)
            if self._connected.is_set():
                await self._send({"command": "logon", "command_id": LOGON, "token": token})

    async def _note_renewal(self, answer: Received) -> None:
        """Go on with the token that was taken; where it was not, come back with a new connection."""
        if answer.status == "success":
            self._note_logon(answer.rights, answer.expires_in)
        elif self._connection is not None:
            await self._connection.close()


def _refusal(error: Exception) -> SowlineError | None:
    """Return for what a handshake was refused, where asking again would be no use."""
    if not isinstance(error, InvalidStatus) or error.response.status_code not in (401, 403):
        return None
    try:
        said = orjson.loads(error.response.body or b"")
        return SowlineError(said["reason"], said["message"])
    except (ValueError, LookupError, TypeError):
        return None


def _answer(response: httpx2.Response) -> dict[str, Any]:
    """Return what a service answers; raises what it says in place of that."""
    answer = dict(orjson.loads(response.content))
    if response.status_code != 200:
        raise SowlineError(answer["reason"], answer["message"])
    return answer


def _websocket_url(url: str) -> str:
    scheme, netloc, path, _, _ = urlsplit(url)
    schemes = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
    if scheme not in schemes or not netloc:
        raise SowlineError("bad request", f"expected a URL such as http://127.0.0.1:8080, got {url!r}")
    return urlunsplit((schemes[scheme], netloc, f"{path}/v1", "", ""))


def topics_of(about: dict[str, Any]) -> Topics:
    """Return the definitions that a service's answer to `/v1/topics` describes."""
    return Topics.model_validate({"topics": [_definition_of(topic) for topic in about["topics"]]})


def _definition_of(topic: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a topic's definition decides how its commands are written."""
    given = {name: topic[name] for name in ("name", "message_type", "log", "partitions", "record_bytes_max")}
    if not topic["key"]:
        return given | {"sow": False}
    computed = {"preprocessing": topic["preprocessing"]} if topic["preprocessing"] else {}
    return given | {name: topic[name] for name in ("key", "key_domain", "documents")} | computed
