"""One client's session: its commands, its queries and its subscriptions."""

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, TypeVar

import structlog

from query_service.asking import (
    check_pace,
    is_view,
    only_topic,
    query_of,
    selection_of,
    span_of,
    topics_of,
)
from query_service.backend import Backend
from query_service.group import acknowledge, acknowledge_processed, send_group
from query_service.grouping import GroupedQuery
from query_service.outbox import Outbox
from query_service.pace import STEP_SECONDS
from query_service.places import wait_for_past
from query_service.query import Query
from query_service.serving import Serving
from query_service.viewing import Viewing
from query_service.writing import Way, writes_of
from sowline.bookmark import format_bookmark
from sowline.errors import SowlineError
from sowline.wire import Request, ack, command_id_of, failure, message, read_request, split_frame

log = structlog.get_logger()

SUBSCRIPTIONS_MAX = 10_000

WRITES_MAX = 10_000
"""Commands of one client of which it is not known yet what became of them."""

QUIET_CHUNK = 500
"""Subscriptions that are looked at before others in the event loop get a turn."""

S = TypeVar("S", Serving, Viewing)

Run = Callable[[], Coroutine[Any, Any, None]]
"""What a command starts: called when its task begins, so not at all where it was ended before."""


class _Subscription(NamedTuple):
    """A subscription, who serves it, and the task in which that happens."""

    request: Request
    serving: Serving | Viewing
    task: asyncio.Task[None]
    proofs: set[asyncio.Task[None]]
    """Of where it stands, which were asked for and not given yet."""


class Session:
    """Takes frames of requests, and puts what they lead to into an outbox."""

    def __init__(self, backend: Backend, outbox: Outbox) -> None:
        self._backend = backend
        self.outbox = outbox
        self._subscriptions: dict[str, _Subscription] = {}
        self._queries: dict[str, tuple[Request, asyncio.Task[None]]] = {}
        self._unnamed = itertools.count()
        self._writing: set[asyncio.Task[None]] = set()

    async def receive(self, frame: bytes) -> None:
        """Take one frame; whatever is wrong with it is answered, and harms nothing else.

        If its requests take long, others get turns between them.
        """
        began = time.monotonic()
        for text in self._requests(frame):
            self.receive_one(text)
            if time.monotonic() - began > STEP_SECONDS:
                await asyncio.sleep(0)
                began = time.monotonic()

    def _requests(self, frame: bytes) -> list[bytes]:
        try:
            return split_frame(frame)
        except SowlineError as error:
            self.outbox.put(failure("", error))
            return []

    def receive_one(self, text: bytes) -> None:
        """Take one request."""
        try:
            request = read_request(text)
        except SowlineError as error:
            self.outbox.put(failure(command_id_of(text), error))
            return
        try:
            if "received" in request.acks:
                self.outbox.put(ack("received", request.command_id))
            _HANDLERS[request.command](self, request)
        except SowlineError as error:
            self.outbox.put(failure(request.command_id, error))

    # queries

    def _heartbeat(self, request: Request) -> None:
        if not request.sub_id:
            self.outbox.put(message("heartbeat", command_id=request.command_id))
            return
        one = self._subscriptions.get(request.sub_id)
        if one is None:
            raise SowlineError(
                "invalid subid", f"expected the sub_id of one subscription, got {request.sub_id!r}"
            )
        task = asyncio.get_running_loop().create_task(
            self._guarded(request, partial(one.serving.prove, request), "processed")
        )
        one.proofs.add(task)
        task.add_done_callback(one.proofs.discard)

    def _sow(self, request: Request) -> None:
        query = self._query(request)
        if not request.bookmark:
            query.begin_now()
        self._start_query(request, partial(self._run_sow, request, query))

    def _explain(self, request: Request) -> None:
        self._start_query(request, partial(self._run_explain, request, self._query(request)))

    def _query(self, request: Request) -> Query | GroupedQuery:
        topics = topics_of(self._backend.state, request.topic)
        return query_of(request, topics, self._backend.limits)

    def _start_query(self, request: Request, run: Run) -> None:
        query_id = request.id_of_query or f"\0{next(self._unnamed)}"
        if query_id in self._queries:
            raise SowlineError(
                "queryid in use", f"query {query_id!r} is still running; give this one another query_id"
            )
        task = asyncio.get_running_loop().create_task(self._guarded(request, run, "completed"))
        self._queries[query_id] = request, task
        task.add_done_callback(lambda done: self._queries.pop(query_id, None))

    async def _run_sow(self, request: Request, query: Query | GroupedQuery) -> None:
        await wait_for_past(self._backend, request)
        await query.begin()
        acknowledge_processed(self.outbox, request, bookmark=query.bookmark)
        await send_group(self.outbox, request, query)
        acknowledge(self.outbox, request, query.bookmark, query.result)

    async def _run_explain(self, request: Request, query: Query | GroupedQuery) -> None:
        await wait_for_past(self._backend, request)
        acknowledge_processed(self.outbox, request)
        roads = await query.explained()
        self.outbox.put(
            message("explain", command_id=request.command_id, bookmark=query.bookmark, roads=roads)
        )

    async def _guarded(self, request: Request, run: Run, ack_type: str, **fields: Any) -> None:
        """Run what a command has started; a failure, or an end that was asked for, is acknowledged."""
        try:
            await run()
        except SowlineError as error:
            self.outbox.put(failure(request.command_id, error, ack_type, **fields))
        except Exception as error:
            log.exception("command failed", command=request.command, command_id=request.command_id)
            broken = SowlineError("internal", f"the {request.command} failed: {error}")
            self.outbox.put(failure(request.command_id, broken, ack_type, **fields))

    # writing

    def _write(self, request: Request) -> None:
        if len(self._writing) >= WRITES_MAX:
            raise SowlineError(
                "busy", f"expected at most {WRITES_MAX} commands under way; wait for their acknowledgements"
            )
        way = Way(self._backend.publishing, writes_of(self._backend.state, request))
        task = self._start_writing(request, partial(self._follow_up, request, way))
        task.add_done_callback(lambda done: way.end())

    def _start_writing(self, request: Request, run: Run) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._guarded(request, run, "processed"))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        return task

    async def _follow_up(self, request: Request, way: Way) -> None:
        """Say what becomes of commands that were written; a refusal also where nobody has asked."""
        bookmark = await way.persisted()
        if "persisted" in request.acks:
            self.outbox.put(ack("persisted", request.command_id, bookmark=bookmark))
        told = await way.told()
        for kind in ("processed", "completed"):
            if kind in request.acks:
                outcome = ", ".join(told.outcomes)
                self.outbox.put(ack(kind, request.command_id, bookmark=bookmark, outcome=outcome))
        if "stats" in request.acks:
            self.outbox.put(ack("stats", request.command_id, **told.stats))

    def _flush(self, request: Request) -> None:
        self._start_writing(request, partial(self._run_flush, request, tuple(self._writing)))

    async def _run_flush(self, request: Request, before: tuple[asyncio.Task[None], ...]) -> None:
        await asyncio.gather(*before)
        acknowledge_processed(self.outbox, request)

    # subscriptions

    def _subscribe(self, request: Request) -> None:
        sub_id = request.id_of_subscription
        replaced = self._replaced(request, sub_id)
        serving = self._serving(request, None if replaced is None else replaced.serving)
        if replaced is not None and not replaced.serving.has_begun:
            overtaken = SowlineError("replaced", f"subscription {sub_id!r} was replaced before this began")
            self.outbox.put(failure(replaced.request.command_id, overtaken))
        self._end(sub_id)
        task = asyncio.get_running_loop().create_task(
            self._guarded(request, partial(self._serve, sub_id, serving), "processed", sub_id=sub_id)
        )
        self._subscriptions[sub_id] = _Subscription(request, serving, task, set())
        task.add_done_callback(lambda done: self._ended(sub_id, task))

    async def _serve(self, sub_id: str, serving: Serving | Viewing) -> None:
        """Serve a subscription; one that says that it is over is over then."""
        last = await serving.run()
        one = self._subscriptions.get(sub_id)
        if last is not None and one is not None and one.serving is serving:
            del self._subscriptions[sub_id]
            self.outbox.put(last)

    def _replaced(self, request: Request, sub_id: str) -> _Subscription | None:
        """Return the subscription whose place the new one takes, if there is one; raises where it may not begin."""
        if not sub_id:
            raise SowlineError("invalid subid", "expected a sub_id or a command_id to name the subscription")
        replaced = self._subscriptions.get(sub_id)
        if replaced is None and len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
            raise SowlineError(
                "too many subscriptions", f"expected at most {SUBSCRIPTIONS_MAX} on one connection"
            )
        if replaced is not None and not request.parsed_options.replace:
            raise SowlineError(
                "subid in use",
                f"subscription {sub_id!r} exists already; unsubscribe it first, or replace it with that option",
            )
        return replaced

    def _serving(self, request: Request, replaced: Serving | Viewing | None) -> Serving | Viewing:
        """Return who serves a subscription; the one that it replaces is stopped then."""
        topics = topics_of(self._backend.state, request.topic)
        selection = selection_of(request)
        span = span_of(request, topics)
        check_pace(request, selection.options, is_view=is_view(request, selection))
        if replaced is not None and not span.begins_now:
            raise SowlineError(
                "invalid bookmark",
                f"expected no bookmark with replace, got {request.bookmark!r}: it goes on from where the old"
                " subscription stands",
            )
        if is_view(request, selection):
            topic = only_topic(request, topics)
            viewing = _like(Viewing, replaced)
            return Viewing(self._backend, self.outbox, request, topic, selection, span, viewing)
        serving = _like(Serving, replaced)
        return Serving(self._backend, self.outbox, request, topics, selection, span, serving)

    def _unsubscribe(self, request: Request) -> None:
        if not request.sub_id and not request.query_id:
            raise SowlineError(
                "invalid subid", "expected a sub_id (one, several with commas, or all) or a query_id"
            )
        for sub_id in self._named_subscriptions(request.sub_id):
            self._end(sub_id)
        if request.query_id:
            self._abort(request.query_id)
        acknowledge_processed(self.outbox, request)

    def _pause(self, request: Request) -> None:
        for one in self._those_named(request.sub_id):
            one.serving.pause()
        acknowledge_processed(self.outbox, request)

    def _resume(self, request: Request) -> None:
        for one in self._those_named(request.sub_id):
            one.serving.resume()
        acknowledge_processed(self.outbox, request)

    def _those_named(self, text: str) -> list[_Subscription]:
        """Return subscriptions by their names; raises `invalid subid` where there is none of a name."""
        names = self._named_subscriptions(text)
        unknown = [name for name in names if name not in self._subscriptions]
        if unknown or not text:
            raise SowlineError(
                "invalid subid",
                f"expected a sub_id of this connection (one, several with commas, or all), got"
                f" {', '.join(unknown) or 'none'}",
            )
        return [self._subscriptions[name] for name in names]

    async def tell_progress(self) -> None:
        """Tell where those subscriptions stand that were told nothing for a while; call it again and again."""
        due: dict[str, list[str]] = {}
        for number, (sub_id, one) in enumerate(list(self._subscriptions.items()), 1):
            if (places := one.serving.quiet_place()) is not None:
                due.setdefault(format_bookmark(places), []).append(sub_id)
            if number % QUIET_CHUNK == 0:
                self._put_progress(due)
                await asyncio.sleep(0)
        self._put_progress(due)

    def _put_progress(self, due: dict[str, list[str]]) -> None:
        for bookmark, sub_ids in due.items():
            self.outbox.put(message("progress", sids=sub_ids, bookmark=bookmark))
        due.clear()

    def _abort(self, query_id: str) -> None:
        """End a query; a subscription whose snapshot it is ends with it."""
        aborted = SowlineError("query aborted", f"query {query_id!r} was ended by unsubscribe")
        query, task = self._queries.pop(query_id, (None, None))
        if query is not None and task is not None:
            task.cancel()
            self.outbox.put(failure(query.command_id, aborted, "completed"))
        for sub_id, one in list(self._subscriptions.items()):
            if one.serving.is_querying and one.request.id_of_query == query_id:
                self._end(sub_id)
                self.outbox.put(failure(one.request.command_id, aborted, sub_id=sub_id))

    def _named_subscriptions(self, text: str) -> list[str]:
        if text == "all":
            return list(self._subscriptions)
        return [name.strip() for name in text.split(",") if name.strip()]

    def _end(self, sub_id: str) -> None:
        one = self._subscriptions.pop(sub_id, None)
        if one is not None:
            one.serving.stop()
            one.task.cancel()
            for proof in one.proofs:
                proof.cancel()

    def _ended(self, sub_id: str, task: asyncio.Task[None]) -> None:
        """Forget a subscription that came to its end by itself; another one may have its name by now."""
        one = self._subscriptions.get(sub_id)
        if one is not None and one.task is task:
            self._end(sub_id)

    def close(self) -> None:
        """End everything that the client asked for."""
        for sub_id in list(self._subscriptions):
            self._end(sub_id)
        for _, task in list(self._queries.values()):
            task.cancel()
        for task in list(self._writing):
            task.cancel()


def _like(kind: type[S], replaced: Serving | Viewing | None) -> S | None:
    """Return the subscription to be replaced; raises `not supported` if it is of another kind."""
    if replaced is None or isinstance(replaced, kind):
        return replaced
    raise SowlineError(
        "not supported",
        "expected a page (top_n and skip_n) or groups to replace such a one, and no other subscription; got one"
        " of another kind: unsubscribe the first",
    )


_HANDLERS: dict[str, Callable[[Session, Request], None]] = {
    "heartbeat": Session._heartbeat,
    "sow": Session._sow,
    "explain": Session._explain,
    "subscribe": Session._subscribe,
    "sow_and_subscribe": Session._subscribe,
    "delta_subscribe": Session._subscribe,
    "sow_and_delta_subscribe": Session._subscribe,
    "unsubscribe": Session._unsubscribe,
    "pause": Session._pause,
    "resume": Session._resume,
    "publish": Session._write,
    "delta_publish": Session._write,
    "sow_delete": Session._write,
    "flush": Session._flush,
}
