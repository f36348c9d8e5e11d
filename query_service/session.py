"""One client's session: its commands, its queries and its subscriptions."""

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeVar

import structlog

from query_service.access.identity import Identity
from query_service.access.visit import Visit
from query_service.answers import unforeseen
from query_service.aside import ASIDE_BYTES_MIN, aside, reading_bytes
from query_service.asking import (
    Asked,
    asked_of,
    check_documents,
    check_pace,
    is_view,
    only_topic,
    query_of,
    span_of,
)
from query_service.backend import Backend
from query_service.deltas import delta_of
from query_service.group import (
    acknowledge,
    acknowledge_completed,
    acknowledge_processed,
    send_group,
    send_timeline,
)
from query_service.grouping import GroupedQuery
from query_service.outbox import Outbox
from query_service.pace import TURN_SECONDS
from query_service.places import wait_for_past, wait_for_replica
from query_service.query import Query
from query_service.rights import Rights
from query_service.serving import Serving
from query_service.standing import Standing
from query_service.state import State
from query_service.timeline_answer import Wanted, wanted_of
from query_service.viewing import Viewing
from query_service.writing import Way, Writing, writes_of
from sowline import __version__
from sowline.bookmark import format_bookmark
from sowline.command import DELTA
from sowline.errors import SowlineError
from sowline.wire import Request, ack, command_id_of, failure, message, read_request, split_frame

log = structlog.get_logger()

SUBSCRIPTIONS_MAX = 10_000

WRITES_MAX = 10_000
"""Commands of one client of which it is not known yet what became of them."""

QUERIES_MAX = 100
"""Queries of one client that run at a time, and proofs that one subscription is to give."""

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

    def __init__(self, backend: Backend, outbox: Outbox, visit: Visit | None = None) -> None:
        self._backend = backend
        self._visit = visit or Visit()
        self.outbox = outbox
        self._subscriptions: dict[str, _Subscription] = {}
        self._queries: dict[str, tuple[Request, asyncio.Task[None]]] = {}
        self._unnamed = itertools.count()
        self._writing: set[asyncio.Task[None]] = set()

    @property
    def rights(self) -> Rights:
        """What the client may do; raises `logon required`."""
        return self.identity.rights

    @property
    def identity(self) -> Identity:
        """Whose session this is; raises `logon required` before anybody has logged on where that is needed."""
        return self._visit.identity

    # what others may know of it

    @property
    def user(self) -> str | None:
        """The name of the user, empty where anybody may come in; None where nobody has logged on."""
        return self._visit.user

    @property
    def subscriptions_count(self) -> int:
        """How many subscriptions there are."""
        return len(self._subscriptions)

    def standings(self) -> Iterator[Standing]:
        """Yield how each subscription stands; the oldest first."""
        return (one.serving.standing() for one in self._subscriptions.values())

    @property
    def queries_count(self) -> int:
        """How many queries run."""
        return len(self._queries)

    def queries(self) -> Iterator[Request]:
        """Yield what the running queries ask for; the oldest first."""
        return (request for request, _ in self._queries.values())

    # taking frames

    async def receive(self, frame: bytes) -> int:
        """Take one frame and return how many requests it held; what is wrong with it is answered, and harms nothing.

        If its requests take long, others get turns between them.
        """
        began = time.monotonic()
        requests = self._requests(frame)
        for text in requests:
            if (waiting := self.receive_one(text)) is not None:
                await waiting
            if time.monotonic() - began > TURN_SECONDS:
                await self._backend.hub.turns.wait()
                began = time.monotonic()
        return len(requests)

    def _requests(self, frame: bytes) -> list[bytes]:
        try:
            return split_frame(frame)
        except SowlineError as error:
            self.outbox.put(failure("", error))
            return []

    def receive_one(self, text: bytes) -> Coroutine[Any, Any, None] | None:
        """Take one request; returns what must have been done before the next is taken, if anything."""
        try:
            request = read_request(text)
        except SowlineError as error:
            self.outbox.put(failure(command_id_of(text), error))
            return None
        try:
            if "received" in request.acks:
                self.outbox.put(ack("received", request.command_id))
            if request.command == "logon":
                return self._log_on(request)
            self._visit.ask()
            if request.command in _READS:
                return self._read(request)
            return _HANDLERS[request.command](self, request)
        except SowlineError as error:
            self.outbox.put(failure(request.command_id, error))
            return None

    async def _log_on(self, request: Request) -> None:
        """Say who has logged on; that is told whether or not an acknowledgement was asked for."""
        try:
            identity = await self._visit.log_on(request.token)
        except SowlineError as error:
            self.outbox.put(failure(request.command_id, error))
            return
        self.outbox.put(
            ack(
                "processed",
                request.command_id,
                user=identity.user,
                roles=identity.roles,
                rights=identity.rights.digest,
                expires_in=self._visit.expires_in,
                version=__version__,
            )
        )

    def _read(self, request: Request) -> Coroutine[Any, Any, None] | None:
        if reading_bytes(request) >= ASIDE_BYTES_MIN:
            return self._read_large(request)
        _READS[request.command](self, request, asked_of(self._backend.state, request, self.rights))
        return None

    async def _read_large(self, request: Request) -> None:
        """Understand a large request aside; those of other clients get turns meanwhile."""
        try:
            size, state = reading_bytes(request), self._backend.state
            asked = await aside(size, asked_of, state, request, self.rights)
            _READS[request.command](self, request, asked)
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
        if len(one.proofs) >= QUERIES_MAX:
            raise _busy(f"{QUERIES_MAX} heartbeats of a subscription")
        task = asyncio.get_running_loop().create_task(
            self._guarded(request, partial(one.serving.prove, request), "processed")
        )
        one.proofs.add(task)
        task.add_done_callback(one.proofs.discard)

    def _sow(self, request: Request, asked: Asked) -> None:
        self._check_queries()
        query = query_of(request, asked, self._backend.limits)
        if not request.bookmark:
            query.begin_now()
        self._start_query(request, partial(self._run_sow, request, query))

    def _explain(self, request: Request, asked: Asked) -> None:
        self._check_queries()
        query = query_of(request, asked, self._backend.limits)
        self._start_query(request, partial(self._run_explain, request, query))

    def _check_queries(self) -> None:
        if len(self._queries) >= QUERIES_MAX:
            raise _busy(f"{QUERIES_MAX} queries")

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
        await wait_for_past(self._backend, request, self.rights)
        await query.begin()
        acknowledge_processed(self.outbox, request, bookmark=query.bookmark)
        await send_group(self.outbox, request, query)
        acknowledge(self.outbox, request, query.bookmark, query.result)

    async def _run_explain(self, request: Request, query: Query | GroupedQuery) -> None:
        await wait_for_past(self._backend, request, self.rights)
        acknowledge_processed(self.outbox, request)
        roads = await query.explained()
        self.outbox.put(
            message("explain", command_id=request.command_id, bookmark=query.bookmark, roads=roads)
        )

    def _timeline(self, request: Request) -> None:
        self._check_queries()
        wanted = wanted_of(self._backend.state, request, self.rights)
        self._start_query(request, partial(self._run_timeline, request, wanted))

    async def _run_timeline(self, request: Request, wanted: Wanted) -> None:
        await wait_for_replica(self._backend.state, wanted.topic, wanted.awaited)
        told = await self._backend.timelines.told(wanted)
        acknowledge_processed(self.outbox, request, bookmark=told.bookmark)
        await send_timeline(self.outbox, request, told)
        acknowledge_completed(self.outbox, request, told.bookmark)

    async def _guarded(self, request: Request, run: Run, ack_type: str, **fields: Any) -> None:
        """Run what a command has started; a failure, or an end that was asked for, is acknowledged."""
        try:
            await run()
        except SowlineError as error:
            self.outbox.put(failure(request.command_id, error, ack_type, **fields))
        except Exception as error:
            log.exception("command failed", command=request.command, command_id=request.command_id)
            broken = unforeseen(f"the {request.command} failed", error)
            self.outbox.put(failure(request.command_id, broken, ack_type, **fields))

    # writing

    def _write(self, request: Request) -> Coroutine[Any, Any, None] | None:
        if len(self._writing) >= WRITES_MAX:
            raise _busy(f"{WRITES_MAX} commands")
        if reading_bytes(request) >= ASIDE_BYTES_MIN:
            return self._write_large(request)
        self._send(request, _writings_of(self._backend.state, request, self.rights))
        return None

    async def _write_large(self, request: Request) -> None:
        """Check a large command aside; those of other clients get turns meanwhile."""
        try:
            size, state = reading_bytes(request), self._backend.state
            self._send(request, await aside(size, _writings_of, state, request, self.rights))
        except SowlineError as error:
            self.outbox.put(failure(request.command_id, error))

    def _send(self, request: Request, writings: list[Writing]) -> None:
        way = Way(self._backend.publishing, writings)
        way.begin()
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

    def _subscribe(self, request: Request, asked: Asked) -> None:
        sub_id = request.id_of_subscription
        replaced = self._replaced(request, sub_id)
        serving = self._serving(request, asked, None if replaced is None else replaced.serving)
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

    def _serving(
        self, request: Request, asked: Asked, replaced: Serving | Viewing | None
    ) -> Serving | Viewing:
        """Return who serves a subscription; the one that it replaces is stopped then."""
        topics, selection = asked
        check_documents(selection.options, topics)
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
        """Tell where those subscriptions stand that were told nothing for a while; call it again and again.

        A client that has no room is told later.
        """
        if self.outbox.full:
            return
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


def _writings_of(state: State, request: Request, rights: Rights) -> list[Writing]:
    return (delta_of if request.command == DELTA else writes_of)(state, request, rights)


def _busy(most: str) -> SowlineError:
    return SowlineError(
        "busy", f"expected at most {most} of a connection under way; wait for what was asked before"
    )


def _like(kind: type[S], replaced: Serving | Viewing | None) -> S | None:
    """Return the subscription to be replaced; raises `not supported` if it is of another kind."""
    if replaced is None or isinstance(replaced, kind):
        return replaced
    raise SowlineError(
        "not supported",
        "expected a page (top_n and skip_n) or groups to replace such a one, and no other subscription; got one"
        " of another kind: unsubscribe the first",
    )


_HANDLERS: dict[str, Callable[[Session, Request], Coroutine[Any, Any, None] | None]] = {
    "heartbeat": Session._heartbeat,
    "timeline": Session._timeline,
    "unsubscribe": Session._unsubscribe,
    "pause": Session._pause,
    "resume": Session._resume,
    "publish": Session._write,
    "delta_publish": Session._write,
    "delta": Session._write,
    "sow_delete": Session._write,
    "flush": Session._flush,
}

_READS: dict[str, Callable[[Session, Request, Asked], None]] = {
    "sow": Session._sow,
    "explain": Session._explain,
    "subscribe": Session._subscribe,
    "sow_and_subscribe": Session._subscribe,
    "delta_subscribe": Session._subscribe,
    "sow_and_delta_subscribe": Session._subscribe,
}
