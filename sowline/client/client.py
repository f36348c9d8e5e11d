"""The synchronous client: it runs the asynchronous one in its own thread."""

import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from sowline.client.async_client import AsyncClient
from sowline.client.local_view import LocalView
from sowline.client.messages import IteratedStream, Messages, RecordIterator
from sowline.client.record_view import Callbacks, OnInsert, OnRemove, OnUpdate
from sowline.client.records import Record, asked_records
from sowline.config.credentials import Token
from sowline.errors import SowlineError
from sowline.runtime.loop_thread import LoopThread
from sowline.subscriptions.ask import Ask, Reading

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["Client", P], T]:
    """Return a method of the asynchronous client as one that waits for its result."""

    @wraps(method)
    def run(self: "Client", /, *given: P.args, **named: P.kwargs) -> T:
        return self._run(method, self._client, *given, **named)

    return run


class Client:
    """A client of a query service. Use it as a context manager; it has the guarantees of `AsyncClient`."""

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
            # No caller has a client to close, so its thread would run until the process ends.
            self._thread.stop()
            raise

    def _run(self, function: Callable[P, Coroutine[Any, Any, T]], *given: P.args, **named: P.kwargs) -> T:
        # Ctrl-C may come at any step after the start, and cancels the call.
        with self._thread.call(function, *given, **named) as call:
            # Only the start is under the lock: if a reader held it while waiting, `close` could not wake that reader
            # (test_closing_the_client_wakes_its_readers).
            with self._lock:
                if self._is_closed:
                    raise SowlineError("disconnected", "the client is closed")
                call.start()
            return call.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Flush all publishes, and close the connection; wake other threads that wait."""
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

    def records(self, topic: str, **reading: Unpack[Reading]) -> Iterator[Record]:
        """Yield the records that match at one instant, each as a dict; the arguments are those of `sow`."""
        return RecordIterator(self._open(asked_records(topic, **reading)))

    def subscribe(self, topic: str, **reading: Unpack[Reading]) -> Messages:
        """Return the changes as they happen, from this call or from a bookmark on."""
        return self._open(Ask("subscribe", topic, **reading))

    def sow_and_subscribe(self, topic: str, **reading: Unpack[Reading]) -> Messages:
        """Yield the records that match at one instant, then every change after it: no gap, no repeat."""
        return self._open(Ask("sow_and_subscribe", topic, **reading))

    def delta_subscribe(self, topic: str, **reading: Unpack[Reading]) -> Messages:
        """Return changes as they happen; for a record that you hold, only its key fields and changed fields."""
        return self._open(Ask("delta_subscribe", topic, **reading))

    def sow_and_delta_subscribe(self, topic: str, **reading: Unpack[Reading]) -> Messages:
        """Yield the records that match at one instant, then the changed fields of every change after it."""
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

        Use it in a `with` block, which waits until all records have arrived. Take `records` and `bookmark` from a
        saved copy. Without `delta`, changed records are sent whole.
        """
        callbacks = Callbacks(on_insert, on_update, on_remove)
        return LocalView(self._run, self._client, topic, callbacks, records, delta=delta, **reading)

    def _open(self, ask: Ask) -> Messages:
        """Start a query or subscription; once this returns, it has begun."""
        opening = IteratedStream(self._client)
        # Made first: its finalizer ends the stream, whenever the caller is interrupted.
        messages = Messages(self._run, opening, self._leave)
        try:
            self._run(opening.open, ask)
        except BaseException:
            messages.close()
            raise
        return messages

    def _leave(self, opening: IteratedStream) -> None:
        """Let the loop end a stream."""
        # Not awaited: the garbage collector may come here in any thread, also in the loop's, which would then wait
        # for itself (test_an_iterator_that_the_loop_collects). When the program ends, that thread has already
        # stopped, and once the client is closed, the loop is.
        if not self._is_closed and not sys.is_finalizing():
            with suppress(RuntimeError):
                self._thread.start(opening.end)

    @property
    def effect(self) -> str:
        """The bookmark of the effects of all writes that this client has waited for; empty if there are none.

        A read with it as `at_least` sees these writes, from any client and at any service.
        """
        return self._client.effect

    table = _blocking(AsyncClient.table)
    explain = _blocking(AsyncClient.explain)
    record = _blocking(AsyncClient.record)
    timeline = _blocking(AsyncClient.timeline)
    topics = _blocking(AsyncClient.topics)

    publish = _blocking(AsyncClient.publish)
    delta_publish = _blocking(AsyncClient.delta_publish)
    publish_all = _blocking(AsyncClient.publish_all)
    delta = _blocking(AsyncClient.delta)
    deltas = _blocking(AsyncClient.deltas)
    sow_delete = _blocking(AsyncClient.sow_delete)
    flush = _blocking(AsyncClient.flush)
