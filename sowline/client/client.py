"""The synchronous client: it runs the asynchronous one in its own thread."""

import sys
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, Unpack

from sowline.client.ask import Ask, Fresh, Reading
from sowline.client.async_client import AsyncClient
from sowline.client.local_view import LocalView
from sowline.client.publisher import (
    Body,
    DeltaWriteOptions,
    KeyedWriteOptions,
    OnDelivery,
    Tagging,
    WriteOptions,
)
from sowline.client.record_view import Callbacks, OnInsert, OnRemove, OnUpdate
from sowline.client.stream import Stream
from sowline.client.writing import Written
from sowline.config.credentials import Token
from sowline.errors import SowlineError
from sowline.model.bookmark_range import Given
from sowline.protocol.client_message import Message
from sowline.runtime.loop_thread import LoopThread

P = ParamSpec("P")
T = TypeVar("T")


class Messages(Iterator[Message]):
    """The messages of one query or subscription, as they come. Leaving the iteration, or `close`, ends it."""

    def __init__(self, client: "Client", stream: Stream) -> None:
        self._client = client
        self._stream = stream
        self._messages = client._iterate(stream)

    def __next__(self) -> Message:
        """Wait for the next message."""
        return next(self._messages)

    @property
    def bookmark(self) -> str | None:
        """The bookmark to resume from: after the last messages that were returned. None until a group has ended."""
        return self._stream.bookmark

    def pause(self) -> None:
        """Let the service send nothing until it is resumed; messages that have arrived are still returned."""
        self._client._run(self._client._client.pause, self._stream)

    def resume(self) -> None:
        """Resume the subscription, with every change since."""
        self._client._run(self._client._client.resume, self._stream)

    def close(self) -> None:
        """End it."""
        self._messages.close()


class Client:
    """A client of a query service. Use it as a context manager; see `AsyncClient` for what it promises."""

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
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = LoopThread("sowline-client")
        self._client = AsyncClient(
            url,
            kafka=kafka,
            kafka_options=kafka_options,
            publisher=publisher,
            token=token,
            ca_file=ca_file,
            cert_file=cert_file,
            key_file=key_file,
        )
        try:
            self._run(self._client.__aenter__)
        except BaseException:
            self._thread.stop()
            raise

    def _run(self, function: Callable[P, Coroutine[Any, Any, T]], *given: P.args, **named: P.kwargs) -> T:
        with self._lock:
            if self._is_closed:
                raise SowlineError("disconnected", "the client is closed")
            call = self._thread.start(function, *given, **named)
        return call.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Flush what was published, and close the connection; wake other threads that wait."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        try:
            self._thread.run(self._client.close)
        finally:
            self._thread.stop()

    @property
    def rights(self) -> str | None:
        """A name for the rights of this client: equal names, equal rights. None if the service does not send one."""
        return self._client.rights

    def sow(self, topic: str, **reading: Unpack[Reading]) -> Messages:
        """Yield the records that match at one instant, between a `group_begin` and a `group_end`."""
        return self._open(Ask("sow", topic, **reading))

    def subscribe(self, topic: str, **reading: Unpack[Reading]) -> Messages:
        """Return the changes as they happen, from this call or from a bookmark on."""
        return self._open(Ask("subscribe", topic, **reading))

    def sow_and_subscribe(self, topic: str, **reading: Unpack[Reading]) -> Messages:
        """Yield the records that match at one instant, then every change after it: no gap, no repeat."""
        return self._open(Ask("sow_and_subscribe", topic, **reading))

    def delta_subscribe(self, topic: str, **reading: Unpack[Reading]) -> Messages:
        """Return changes as they happen; of a record that you hold, only the key fields and what has changed."""
        return self._open(Ask("delta_subscribe", topic, **reading))

    def sow_and_delta_subscribe(self, topic: str, **reading: Unpack[Reading]) -> Messages:
        """Yield the records that match at one instant, then what every change after it has changed."""
        return self._open(Ask("sow_and_delta_subscribe", topic, **reading))

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
    ) -> LocalView:
        """Return a mapping of SOW keys to the records that match, which is always up to date.

        Use it in a `with` block, which waits until all records have come. `records` and `bookmark` come from a saved
        copy. Without `delta`, changed records are sent whole.
        """
        callbacks = Callbacks(on_insert, on_update, on_remove)
        return LocalView(self._run, self._client, topic, callbacks, records, delta=delta, **reading)

    def explain(self, topic: str, **reading: Unpack[Reading]) -> dict[str, Any]:
        """Return the access path that a query would take in each topic, and how many records it would examine."""
        return self._run(self._client.explain, topic, **reading)

    def record(self, topic: str, key: str, **fresh: Unpack[Fresh]) -> dict[str, Any]:
        """Return one record by its key text; for a topic with documents also one that is deleted or was never
        written.

        A document comes with its intrinsics, such as `~version` and `~deleted`. Raises `no record` if there is none.
        """
        return self._run(self._client.record, topic, key, **fresh)

    def timeline(
        self,
        topic: str,
        key: str,
        *,
        limit: int = 100,
        reversed: bool = True,
        bookmark: Given = "",
        up_to: Given = "",
        **fresh: Unpack[Fresh],
    ) -> dict[str, Any]:
        """Return the writes to the document with this key text: newest first or, unless `reversed`, oldest first."""
        return self._run(
            self._client.timeline,
            topic,
            key,
            limit=limit,
            reversed=reversed,
            bookmark=bookmark,
            up_to=up_to,
            **fresh,
        )

    def _open(self, ask: Ask) -> Messages:
        """Start a query or subscription; once this returns, it has begun."""
        return Messages(self, self._run(self._client.open, ask))

    def _iterate(self, stream: Stream) -> Generator[Message, None, None]:
        try:
            while batch := self._run(stream.next_batch):
                yield from batch
        finally:
            # When the program ends, the loop's thread has already stopped.
            if not self._is_closed and not sys.is_finalizing():
                self._run(self._client.end, stream)

    def topics(self) -> dict[str, Any]:
        """Return the service's description of its topics, and the address of its Kafka."""
        return self._run(self._client.topics)

    def publish(
        self,
        topic: str,
        data: Body,
        *,
        wait: bool = False,
        on_delivery: OnDelivery | None = None,
        **writing: Unpack[KeyedWriteOptions],
    ) -> str | None:
        """Insert the record, or replace it whole; `flush` waits until Kafka has it, `on_delivery` gets the report.

        With `wait` it goes to the service, after what was published before. Once the record is visible there, the
        bookmark of its effect is returned: reads with that as `at_least` see the record, at any service. A refused
        record raises its reason.
        """
        return self._run(self._client.publish, topic, data, wait=wait, on_delivery=on_delivery, **writing)

    def delta_publish(
        self,
        topic: str,
        data: Body,
        *,
        wait: bool = False,
        on_delivery: OnDelivery | None = None,
        **writing: Unpack[DeltaWriteOptions],
    ) -> str | None:
        """Merge the fields into the record that the key fields in `data`, or the `key`, name.

        `wait` and `on_delivery` are as of `publish`.
        """
        return self._run(
            self._client.delta_publish, topic, data, wait=wait, on_delivery=on_delivery, **writing
        )

    def publish_all(
        self,
        topic: str,
        records: Iterable[Body],
        *,
        delta: bool = False,
        **writing: Unpack[KeyedWriteOptions],
    ) -> Written:
        """Have the service write the records, or `delta` publishes, in order; wait until all are visible there.

        With a `key` all of them are of that record. The first record that is refused raises its reason; those before
        it are written.
        """
        return self._run(self._client.publish_all, topic, records, delta=delta, **writing)

    @property
    def effect(self) -> str:
        """The bookmark of the effects of all writes that this client has waited for; empty if there are none.

        A read with it as `at_least` sees these writes, from any client and at any service.
        """
        return self._client.effect

    def delta(
        self,
        topic: str,
        key: str,
        delta: str,
        *,
        wait: bool = False,
        on_delivery: OnDelivery | None = None,
        **writing: Unpack[WriteOptions],
    ) -> str | None:
        """Apply a delta to the document with this key text.

        With `wait` it goes to the service, after what was published before. Once the service has applied it, the
        outcome is returned: `applied`, `noop` or `condition_false`. `on_delivery` gets the report of Kafka, without
        `wait`.
        """
        return self._run(self._client.delta, topic, key, delta, wait=wait, on_delivery=on_delivery, **writing)

    def deltas(
        self,
        topic: str,
        key: str,
        stream: str,
        *,
        wait: bool = False,
        on_delivery: OnDelivery | None = None,
        **writing: Unpack[WriteOptions],
    ) -> list[str]:
        """Apply each delta of a stream to a document, in order; all are checked before one is written.

        With `wait` the outcome of each is returned, as by `delta`; otherwise an empty list. `on_delivery` is called
        for each.
        """
        return self._run(
            self._client.deltas, topic, key, stream, wait=wait, on_delivery=on_delivery, **writing
        )

    def sow_delete(
        self,
        topic: str,
        *,
        filter: str | None = None,
        keys: Sequence[str] | None = None,
        data: Body | None = None,
        key: str | None = None,
        **tagging: Unpack[Tagging],
    ) -> int:
        """Delete the records that a filter (`1=1`: every one), SOW keys, `data` or a `key` select.

        It takes effect after everything that was published before. Returns how many records were deleted, once the
        service has applied it. The topic may be a pattern.
        """
        return self._run(
            self._client.sow_delete, topic, filter=filter, keys=keys, data=data, key=key, **tagging
        )

    def flush(self) -> None:
        """Wait until Kafka has everything that was published; raises `not written`."""
        self._run(self._client.flush)
