"""The reading methods of the asynchronous client: subscriptions over the WebSocket, single answers over HTTP."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Unpack

import orjson

from sowline.client.http_api import HttpClient
from sowline.client.local_view import AsyncLocalView
from sowline.client.open_streams import OpenStreams
from sowline.client.record_view import Callbacks, OnInsert, OnRemove, OnUpdate
from sowline.client.records import Record, asked_records, record_of
from sowline.client.stream import Stream
from sowline.client.table import Columns, table_reader
from sowline.model.bookmark_range import Given, bookmark_text
from sowline.subscriptions.ask import Ask, Fresh, Reading, Selecting
from sowline.wire.client_message import Message
from sowline.wire.request_fields import QUERY_FIELDS

if TYPE_CHECKING:
    import pyarrow as pa


class Subscribing:
    """Queries and subscriptions: each is a stream of messages."""

    _streams: OpenStreams

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
        """Yield changes as they happen; for a record that you hold, only its key fields and changed fields."""
        return self._read_all(Ask("delta_subscribe", topic, **reading))

    def sow_and_delta_subscribe(self, topic: str, **reading: Unpack[Reading]) -> AsyncIterator[Message]:
        """Yield the records that match at one instant, then the changed fields of every change after it."""
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

        Use it in an `async with` block, which waits until all records have arrived. Take `records` and `bookmark`
        from a saved copy. Without `delta`, changed records are sent whole.
        """
        callbacks = Callbacks(on_insert, on_update, on_remove)
        return AsyncLocalView(self, topic, callbacks, records, delta=delta, **reading)

    async def open(self, ask: Ask) -> Stream:
        """Start a query or subscription; return its stream once the server has accepted it.

        For callers that need the stream's bookmark or batches, or must know that it has begun. Raises the reason of a
        refusal.
        """
        return await self._streams.open(ask)

    async def replace(self, stream: Stream, **reading: Unpack[Selecting]) -> None:
        """Change the request of a subscription; parameters that are not given stay as they are.

        Returns once the server has accepted it. The stream then yields the remaining messages of the previous
        request, and continues with the difference. Raises the reason of a refusal, which changes nothing.
        """
        await self._streams.replace(stream, **reading)

    async def pause(self, stream: Stream) -> None:
        """Let the service send nothing to a subscription until it is resumed; messages that arrived stay readable."""
        await self._streams.pause(stream)

    async def resume(self, stream: Stream) -> None:
        """Resume a subscription from the position at which it was paused, with every change since."""
        await self._streams.unpause(stream)

    async def prove(self, stream: Stream) -> None:
        """Request the checksum of the records that a subscriber should hold.

        The answer is a `progress` message with `records` and `hash`. If the service can't compute the checksum, the
        message has a reason, and the hash is an empty string.
        """
        await self._streams.prove(stream)

    async def end(self, stream: Stream) -> None:
        """Unsubscribe, if the stream is still open; without a connection there is nothing to unsubscribe from."""
        await self._streams.end(stream)

    async def _read_all(self, ask: Ask) -> AsyncGenerator[Message, None]:
        stream = await self.open(ask)
        try:
            while batch := await stream.next_batch():
                for message in batch:
                    yield message
        finally:
            await self.end(stream)


class RecordReading(Subscribing):
    """Queries for records as dicts, and requests with one answer each."""

    _http: HttpClient

    async def records(self, topic: str, **reading: Unpack[Reading]) -> AsyncIterator[Record]:
        """Yield the records that match at one instant, each as a dict; the arguments are those of `sow`."""
        messages = self._read_all(asked_records(topic, **reading))
        # A caller that leaves the loop ends the query now, not when the generator is collected.
        async with aclosing(messages):
            async for message in messages:
                if message.command == "sow":
                    yield record_of(message)

    async def table(
        self, topic: str, *, columns: Columns | None = None, **reading: Unpack[Reading]
    ) -> "pa.Table":
        """Return the records that match at one instant as a table; the other arguments are those of `sow`.

        `columns` are paths of fields, or paths with types; without it, each field has a column. The metadata of the
        table's schema has the topic and the bookmark of the instant. Requires the extra `arrow`.
        """
        read = table_reader()
        asked = _query_fields(topic, reading)
        if columns is not None:
            asked["columns"] = dict(columns) if isinstance(columns, Mapping) else list(columns)
        return read(await self._http.table(topic, orjson.dumps(asked)))

    async def explain(self, topic: str, **reading: Unpack[Reading]) -> dict[str, Any]:
        """Return the access path that a query would take in each topic, and how many records it would examine."""
        return await self._http.post(topic, "explain", {}, orjson.dumps(_query_fields(topic, reading)))

    async def record(self, topic: str, key: str | int, **fresh: Unpack[Fresh]) -> dict[str, Any]:
        """Return one record by its key text, or by a number as its key; for a topic with documents also one that is
        deleted or was never written.

        A document comes with its intrinsics, such as `~version` and `~deleted`. Raises `no record` if there is none.
        """
        return await self._http.get_record(topic, key, "", _texts(fresh))

    async def timeline(
        self,
        topic: str,
        key: str | int,
        *,
        limit: int = 100,
        reversed: bool = True,  # noqa: A002 - the name of the option in requests
        bookmark: Given = "",
        up_to: Given = "",
        **fresh: Unpack[Fresh],
    ) -> dict[str, Any]:
        """Return the writes to the document with this key text: newest first or, unless `reversed`, oldest first."""
        given = {
            "limit": str(limit),
            "reversed": "true" if reversed else "false",
            "bookmark": bookmark_text(bookmark),
            "up_to": bookmark_text(up_to),
        }
        asked = {name: text for name, text in given.items() if text} | _texts(fresh)
        return await self._http.get_record(topic, key, "/timeline", asked)

    async def topics(self) -> dict[str, Any]:
        """Return the service's description of its topics, and the address of its Kafka."""
        return await self._http.topics()


def _query_fields(topic: str, reading: Reading) -> dict[str, Any]:
    """Return the fields of a query that is sent by HTTP."""
    fields = Ask("sow", topic, **reading).request("")
    return {name: fields[name] for name in QUERY_FIELDS if name in fields}


def _texts(fresh: Fresh) -> dict[str, str]:
    """Return the demands on freshness as URL parameters."""
    texts = {"at_least": fresh.get("at_least", ""), "max_staleness": fresh.get("max_staleness", "")}
    return {name: text for name, text in texts.items() if text}
