"""Local views: a subscription's records as a mapping that is always up to date, for threads and for asyncio."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError
from dataclasses import replace
from queue import SimpleQueue
from types import TracebackType
from typing import Any, ParamSpec, Protocol, Self, TypeVar, Unpack

from sowline.client.record_view import Callbacks, RecordView, Waiting
from sowline.client.records import RecordSet
from sowline.client.stream import Stream
from sowline.errors import SowlineError
from sowline.language.expressions.order import parse_order
from sowline.model.bookmark_range import bookmark_text
from sowline.runtime.loop_thread import SIGNAL_SECONDS_MAX, next_of
from sowline.subscriptions.ask import Ask, Reading, Selecting
from sowline.subscriptions.position_tracker import PositionTracker
from sowline.subscriptions.taken import ServedRequest
from sowline.wire.client_message import Message
from sowline.wire.options import parse_options

P = ParamSpec("P")
T = TypeVar("T")


class Subscriber(Protocol):
    """The part of a client that a view uses: it subscribes, changes the subscription, and ends it."""

    async def open(self, ask: Ask) -> Stream:
        """Start a subscription and return its stream once the server has taken it."""
        ...

    async def replace(self, stream: Stream, **reading: Unpack[Selecting]) -> None:
        """Change the request of a subscription; parameters that are not given stay as they are."""

    async def prove(self, stream: Stream) -> None:
        """Ask the service for the number and the checksum of the records that the subscriber should hold."""

    async def end(self, stream: Stream) -> None:
        """Unsubscribe, if the stream is still alive."""


class Run(Protocol):
    """Runs a coroutine function on the client's event loop, and waits for its result."""

    def __call__(self, function: Callable[P, Coroutine[Any, Any, T]], *given: P.args, **named: P.kwargs) -> T:
        """Return what the function returns, or raise what it raises."""
        ...


class _Following(RecordView):
    """A view with its subscription; the subclasses decide how to wait for it."""

    def __init__(
        self,
        client: Subscriber,
        topic: str,
        callbacks: Callbacks,
        records: Mapping[str, bytes] | None,
        *,
        delta: bool,
        **reading: Unpack[Reading],
    ) -> None:
        self._client = client
        self._ask = _asked(topic, delta, records, reading)
        self._stream: Stream | None = None
        held = RecordSet(
            records, PositionTracker(None if records is None else bookmark_text(self._ask.bookmark))
        )
        super().__init__(topic, held, parse_order(self._ask.order_by), callbacks)

    async def _subscribe(self) -> Stream:
        """Subscribe; a view with a saved copy shows its records at once."""
        self._stream = stream = await self._client.open(self._ask)
        self._shown = stream.shown
        if stream.bookmark is not None:
            self._records.position = PositionTracker(stream.bookmark)
        return stream

    def _refuse_second_entry(self) -> None:
        if self._stream is not None:
            raise RuntimeError("a view can be entered only once; create a new view")

    async def _replace(self, changes: Selecting) -> int:
        """Replace the subscription; return the number of replacements after which the view shows it."""
        stream = self._subscribed()
        await self._client.replace(stream, **_changed(stream.ask, changes))
        return stream.machine.taken.served.replacements

    async def _ask_for_proof(self) -> int:
        """Request a checksum; return how many answers there were before."""
        answers = len(self._proofs)
        await self._client.prove(self._subscribed())
        return answers

    def _come_to_end(self, stream: Stream) -> None:
        """Note that the stream has reached its requested end."""
        if stream.ask.has_end:
            self._fail(SowlineError("disconnected", "the view reached its end"))

    def _subscribed(self) -> Stream:
        if self._stream is None:
            raise SowlineError("disconnected", "the view was never entered; use it in a with block")
        return self._stream

    def _waited_too_long(self, timeout_seconds: float | None) -> TimeoutError:
        return TimeoutError(f"waited {timeout_seconds} s for a condition of {self!r}")

    def _shows(self, replacements: int) -> bool:
        return self._shown is not None and self._shown.replacements >= replacements

    async def _end(self) -> None:
        if self._stream is not None:
            await self._client.end(self._stream)
        self._fail(SowlineError("disconnected", "the view was closed"))

    def _break(self, error: BaseException) -> None:
        """End because of an error."""
        if not isinstance(error, SowlineError):
            error = SowlineError("internal", f"the view could not continue: {error!r}")
        self._fail(error)


class AsyncLocalView(_Following):
    """A live view for asyncio: `async with client.local_view(…) as view`; see docs/client.md."""

    _task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Subscribe, and wait for the first group; raises what the server refuses."""
        self._refuse_second_entry()
        stream = await self._subscribe()
        self._task = asyncio.create_task(self._follow(stream))
        try:
            await self._wait(lambda: self._shows(0))
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Unsubscribe; the records of the view stay readable."""
        await self._end()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def wait_for(self, condition: Callable[[Self], object], timeout: float | None = None) -> None:  # noqa: ASYNC109 - as without a loop
        """Wait until `condition(view)` is true after a step; see `LocalView.wait_for`."""
        await self._wait(lambda: bool(condition(self)), timeout)

    async def replace(self, **reading: Unpack[Selecting]) -> None:
        """Change what the view shows; see `LocalView.replace`."""
        replacements = await self._replace(reading)
        await self._wait(lambda: self._shows(replacements))

    async def verify(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - as without a loop
        """Return whether the view is correct; see `LocalView.verify`."""
        answers = await self._ask_for_proof()
        await self._wait(lambda: len(self._proofs) > answers, timeout)
        return self._outcome(answers)

    async def _wait(self, condition: Callable[[], bool], timeout_seconds: float | None = None) -> None:
        answered: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

        def answer(error: BaseException | None) -> None:
            if not answered.done():
                answered.set_result(error)

        waiting = Waiting(condition, answer)
        try:
            self._begin_to_wait(waiting)
            async with asyncio.timeout(timeout_seconds):
                error = await answered
        except TimeoutError:
            raise self._waited_too_long(timeout_seconds) from None
        finally:
            self._give_up(waiting)
        if error is not None:
            raise error

    async def _follow(self, stream: Stream) -> None:
        try:
            while batch := await stream.next_batch():
                self._take(batch, stream.shown)
                # `next_batch` does not suspend while messages are waiting: a busy topic would stop all other tasks.
                await asyncio.sleep(0)
            self._come_to_end(stream)
        except Exception as error:
            self._break(error)


class LocalView(_Following):
    """A live view for threads: `with client.local_view(…) as view`; see docs/client.md.

    A separate thread keeps it up to date and calls the callbacks. They may use the client; they can't wait for the
    view.
    """

    def __init__(
        self,
        run: Run,
        client: Subscriber,
        topic: str,
        callbacks: Callbacks,
        records: Mapping[str, bytes] | None,
        *,
        delta: bool,
        **reading: Unpack[Reading],
    ) -> None:
        self._run = run
        self._thread: threading.Thread | None = None
        super().__init__(client, topic, callbacks, records, delta=delta, **reading)

    def __enter__(self) -> Self:
        """Subscribe, and wait for the first group; raises what the server refuses."""
        self._refuse_second_entry()
        name = f"sowline-view-{self._topic}"
        try:
            # Also an interrupted subscription is ended (test_an_interrupted_entry_leaves_no_subscription).
            stream = self._run(self._subscribe)
            self._thread = threading.Thread(target=self._follow, args=(stream,), name=name, daemon=True)
            self._thread.start()
            self._wait(lambda: self._shows(0))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Unsubscribe; the records of the view stay readable. No callback is called after that."""
        with contextlib.suppress(SowlineError):  # a closed client has ended the view already
            self._run(self._end)
        thread = self._thread
        # A callback may close its own view, and a thread can't join itself. Each join is short: it delays Ctrl-C.
        while thread is not None and thread is not threading.current_thread() and thread.is_alive():
            thread.join(SIGNAL_SECONDS_MAX)

    def wait_for(self, condition: Callable[[Self], object], timeout: float | None = None) -> None:
        """Wait until `condition(view)` is true after a step, whose callbacks have all been called.

        Raises the condition's error, the view's error once it is no longer kept up to date, and TimeoutError after
        `timeout` seconds.
        """
        self._refuse_callbacks()
        self._wait(lambda: bool(condition(self)), timeout)

    def replace(self, **reading: Unpack[Selecting]) -> None:
        """Change what the view shows; return once it does. Parameters that are not given stay as they are.

        Raises the reason if the server refuses it: then the view continues as it was.
        """
        self._refuse_callbacks()
        replacements = self._run(self._replace, reading)
        self._wait(lambda: self._shows(replacements))

    def verify(self, timeout: float | None = None) -> bool:
        """Return whether the view is correct at one position, by the service's count and hash of the SOW keys.

        Raises what `wait_for` raises, and the reason if the service can't compute the hash.
        """
        self._refuse_callbacks()
        answers = self._run(self._ask_for_proof)
        self._wait(lambda: len(self._proofs) > answers, timeout)
        return self._outcome(answers)

    def _wait(self, condition: Callable[[], bool], timeout_seconds: float | None = None) -> None:
        """Wait so that a signal ends this wait, and no other one."""
        answers: SimpleQueue[BaseException | None] = SimpleQueue()
        waiting = Waiting(condition, answers.put)
        try:
            self._begin_to_wait(waiting)
            error = next_of(answers, timeout_seconds)
        except TimeoutError:
            raise self._waited_too_long(timeout_seconds) from None
        finally:
            self._give_up(waiting)
        if error is not None:
            raise error

    def _refuse_callbacks(self) -> None:
        if self._thread is threading.current_thread():
            raise RuntimeError("a callback can't wait for its own view: the view waits for the callback")

    def _follow(self, stream: Stream) -> None:
        try:
            while (taken := self._run(_next, stream))[0]:
                self._take(*taken)
            self._come_to_end(stream)
        except CancelledError:
            self._fail(SowlineError("disconnected", "the client was closed"))
        except BaseException as error:  # This includes a callback that ends the program.
            self._break(error)


async def _next(stream: Stream) -> tuple[list[Message], ServedRequest | None]:
    # Both in one step of the loop: read by the view's thread, `shown` could be that of a later batch, and the view
    # would sort by an order that its records are not of.
    batch = await stream.next_batch()
    return batch, stream.shown


def _asked(topic: str, delta: bool, records: Mapping[str, bytes] | None, reading: Reading) -> Ask:
    """Return the request of a view; raise if no view can hold its result."""
    if topic.startswith("^"):
        raise SowlineError(
            "regex topic not supported", f"expected the name of one topic, got {topic!r}; use a view of each"
        )
    ask = Ask("sow_and_delta_subscribe" if delta else "sow_and_subscribe", topic, **reading)
    if (records is None) is ask.bookmark_range.is_return:
        raise SowlineError(
            "invalid bookmark", "expected a bookmark together with the records there, got one of them"
        )
    changes: Selecting = {"options": ask.options, "order_by": ask.order_by}
    if ask.top_n is not None:
        changes["top_n"] = ask.top_n
    return replace(ask, **_changed(ask, changes))


def _changed(ask: Ask, changes: Selecting) -> Selecting:
    """Return changes of a request with the options that a view needs.

    Only a page keeps holding just the first `top_n` records, so any `top_n` asks for a page.
    """
    changed = changes.copy()
    if "options" in changes:
        changed["options"] = _options(changes["options"])
    if "top_n" in changes and "skip_n" not in changes:
        changed["skip_n"] = None if changes["top_n"] is None else ask.skip_n or 0
    if "order_by" in changes:
        parse_order(changes["order_by"])
    return changed


def _options(options: str) -> str:
    """Return the options after those that a view needs, because later options take precedence."""
    given = parse_options(options)
    if given.no_sowkey:
        raise SowlineError(
            "invalid options", "expected options without no_sowkey: a view holds records by SOW key"
        )
    if given.intrinsics:
        raise SowlineError(
            "invalid options",
            "expected options without intrinsics: a view holds the content of documents alone",
        )
    if given.is_typed:
        raise SowlineError(
            "invalid options", "expected options without format=native: a view holds records as JSON"
        )
    return f"oof,reset,{options}".rstrip(",")
