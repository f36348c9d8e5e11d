"""The subscriptions of one session: how they begin, pause, report progress and end."""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple, Protocol

import structlog

from sowline.errors import SowlineError
from sowline.model.bookmark import PositionsByLog, format_bookmark
from sowline.serving.authorization.topic_patterns import meant
from sowline.serving.outbox.group import acknowledge_done
from sowline.serving.sessions.command_runner import QUERIES_MAX, CommandRunner, too_many_in_flight
from sowline.serving.sessions.running_queries import RunningQueries
from sowline.serving.sessions.status import SubscriptionStatus
from sowline.wire.request import Heartbeat, Pause, Resume, Subscribe, Unsubscribe
from sowline.wire.server_message import failure, message

log = structlog.get_logger()

SUBSCRIPTIONS_MAX = 10_000

ENDED_A_TURN = 500
"""The number of subscriptions to end in one turn of the event loop."""

PROGRESS_NAMES_MAX = 50
"""The number of subscriptions of a session to look at together. More would delay the messages of all clients."""


class ServedSubscription(Protocol):
    """The interface of a subscription for its session, to records or to a view."""

    @property
    def request(self) -> Subscribe:
        """The request that it serves."""

    @property
    def has_begun(self) -> bool:
        """Whether its command was acknowledged, if requested."""

    @property
    def is_querying(self) -> bool:
        """Whether its snapshot is still being sent."""

    async def run(self) -> bytes | None:
        """Serve until cancelled or until its end; raise if it can't continue.

        At the end return the last message to send, or None if there is none.
        """

    def stop(self) -> None:
        """Send nothing more, from now on."""

    def pause(self) -> None:
        """Send nothing more until `resume`."""

    def resume(self) -> None:
        """Continue from the position at which it was paused."""

    def quiet_position(self) -> PositionsByLog | None:
        """Return its bookmark, if the client should be sent that now; None if not."""

    def subscription_status(self) -> SubscriptionStatus:
        """Return whether it is live, or how far behind."""

    async def prove(self, request: Heartbeat) -> None:
        """Send a checksum of the view that the client should hold; raise if there can't be one."""


MakeSubscription = Callable[[ServedSubscription | None], ServedSubscription]


class _Entry(NamedTuple):
    """A subscription, and the tasks that serve it."""

    request: Subscribe
    subscription: ServedSubscription
    task: asyncio.Task[None]
    checksum_tasks: set[asyncio.Task[None]]
    """The tasks that compute a checksum of its view."""


class OpenSubscriptions:
    """The subscriptions of one session, by sub_id."""

    def __init__(self, runner: CommandRunner, queries: RunningQueries) -> None:
        self._runner = runner
        self._outbox = runner.outbox
        self._queries = queries
        self._entries: dict[str, _Entry] = {}
        self._progress: asyncio.Task[None] | None = None
        """Sends the bookmarks of idle subscriptions, if there are many."""

    def __len__(self) -> int:
        return len(self._entries)

    def statuses(self) -> Iterator[SubscriptionStatus]:
        """Yield the status of each subscription, the oldest first."""
        for entry in self._entries.values():
            yield entry.subscription.subscription_status()._replace(request=entry.request)

    # begin

    def subscribe(self, request: Subscribe, make: MakeSubscription) -> None:
        """Begin a subscription; replace the one with its sub_id if the request has that option.

        `make` returns the new subscription, and stops the one that it replaces, if any.
        """
        sub_id = request.id_of_subscription
        replaced = self._replaced(request, sub_id)
        subscription = make(None if replaced is None else replaced.subscription)
        if replaced is not None and not replaced.subscription.has_begun:
            error = SowlineError(
                "replaced", f"subscription {sub_id!r} was replaced before this command began"
            )
            self._outbox.put(failure(replaced.request.command_id, error), (sub_id,))
        self._end(sub_id)
        serve = partial(self._serve, sub_id, subscription)
        task = self._runner.start(request, serve, "processed", sub_id=sub_id)
        self._entries[sub_id] = _Entry(request, subscription, task, set())
        task.add_done_callback(lambda done: self._done(sub_id, task))

    async def _serve(self, sub_id: str, subscription: ServedSubscription) -> None:
        """Serve a subscription; remove it at its end, before its last message is sent."""
        last = await subscription.run()
        entry = self._entries.get(sub_id)
        # A replacement may have taken the sub_id: its client expects no end of the old subscription.
        if last is not None and entry is not None and entry.subscription is subscription:
            del self._entries[sub_id]
            self._outbox.put(last, (sub_id,))

    def _replaced(self, request: Subscribe, sub_id: str) -> _Entry | None:
        """Return the subscription that a new one replaces, if any; raise if it may not begin."""
        if not sub_id:
            raise SowlineError(
                "invalid subid", "expected a sub_id or a command_id to name the subscription, got neither"
            )
        replaced = self._entries.get(sub_id)
        # A gateway limits its own clients; its connection has the subscriptions of all of them.
        is_full = len(self._entries) >= SUBSCRIPTIONS_MAX and not self._runner.is_of_gateway
        if replaced is None and is_full:
            raise SowlineError(
                "too many subscriptions",
                f"expected at most {SUBSCRIPTIONS_MAX} subscriptions on one connection, got one more",
            )
        if replaced is not None and not request.options.replace:
            raise SowlineError(
                "subid in use",
                f"expected an unused sub_id, got {sub_id!r}; unsubscribe it first, or set the option replace",
            )
        if replaced is not None:
            _check_format(replaced.request, request)
        return replaced

    # end

    def unsubscribe(self, request: Unsubscribe) -> None:
        """End the subscriptions and the query that a request names."""
        if not request.sub_id and not request.query_id:
            raise SowlineError(
                "invalid subid",
                "expected a sub_id (one, several with commas, or all) or a query_id, got neither",
            )
        # Raises before anything is ended: a command with one wrong sub_id has no effect
        # (test_unsubscribe_of_what_does_not_exist_fails).
        ended = self._existing(request.sub_id) if request.sub_id else []
        for sub_id in ended:
            self._end(sub_id)
        if request.query_id:
            self._abort(request.query_id)
        acknowledge_done(self._outbox, request, ended)

    def _abort(self, query_id: str) -> None:
        """End a query; if it is the snapshot of a subscription, end that too."""
        aborted = SowlineError("query aborted", f"query {query_id!r} was ended by unsubscribe")
        self._queries.abort(query_id, aborted)
        for sub_id, entry in list(self._entries.items()):
            if entry.subscription.is_querying and entry.request.id_of_query == query_id:
                self._end(sub_id)
                self._outbox.put(failure(entry.request.command_id, aborted, sub_id=sub_id), (sub_id,))

    def end_those_to(self, topics: Collection[str], error: SowlineError) -> None:
        """End the subscriptions that read one of these topics, with an error."""
        for sub_id, entry in list(self._entries.items()):
            if meant(entry.request.topic, topics):
                self._end(sub_id)
                self._outbox.put(failure(entry.request.command_id, error, sub_id=sub_id), (sub_id,))

    def close(self) -> None:
        """End all subscriptions; if they are many, some of them now and the others in the next turns of the loop."""
        if self._progress is not None:
            self._progress.cancel()
        self._end_some()

    def _end_some(self) -> None:
        # When a client with 10,000 subscriptions left, their ends and those of their tasks took one turn of the loop,
        # half a second (test_many_subscriptions_end_in_several_turns).
        for sub_id in list(islice(self._entries, ENDED_A_TURN)):
            self._end(sub_id)
        if self._entries:
            asyncio.get_running_loop().call_soon(self._end_some)

    def _end(self, sub_id: str) -> None:
        entry = self._entries.pop(sub_id, None)
        if entry is not None:
            entry.subscription.stop()
            entry.task.cancel()
            for task in entry.checksum_tasks:
                task.cancel()

    def _done(self, sub_id: str, task: asyncio.Task[None]) -> None:
        """Remove a subscription whose task has ended, unless another one has its sub_id by now."""
        entry = self._entries.get(sub_id)
        if entry is not None and entry.task is task:
            self._end(sub_id)

    # while it runs

    def pause(self, request: Pause) -> None:
        """Pause the subscriptions that a request names."""
        paused = self._existing(request.sub_id)
        for sub_id in paused:
            self._entries[sub_id].subscription.pause()
        acknowledge_done(self._outbox, request, paused)

    def resume(self, request: Resume) -> None:
        """Resume the subscriptions that a request names."""
        resumed = self._existing(request.sub_id)
        for sub_id in resumed:
            self._entries[sub_id].subscription.resume()
        acknowledge_done(self._outbox, request, resumed)

    def heartbeat(self, request: Heartbeat) -> None:
        """Start to compute the checksum of the records that a subscription's client should hold."""
        entry = self._entries.get(request.sub_id)
        if entry is None:
            raise SowlineError(
                "invalid subid", f"expected the sub_id of one subscription, got {request.sub_id!r}"
            )
        if len(entry.checksum_tasks) >= QUERIES_MAX:
            raise too_many_in_flight(f"{QUERIES_MAX} heartbeats of this subscription")
        task = self._runner.start(request, partial(self._prove, entry.subscription, request), "processed")
        entry.checksum_tasks.add(task)
        task.add_done_callback(entry.checksum_tasks.discard)

    async def _prove(self, subscription: ServedSubscription, request: Heartbeat) -> None:
        await subscription.prove(request)
        acknowledge_done(self._outbox, request, (request.sub_id,))

    def send_progress(self, seconds: float) -> None:
        """Send the bookmarks of idle subscriptions; call it at intervals of `seconds`.

        The messages of many subscriptions are spread over half of the interval.
        """
        names = list(self._entries)
        if len(names) <= PROGRESS_NAMES_MAX:
            self._send_progress_of(names)
        elif self._progress is None or self._progress.done():
            self._progress = asyncio.get_running_loop().create_task(self._spread_progress(names, seconds / 2))

    async def _spread_progress(self, names: Sequence[str], seconds: float) -> None:
        try:
            for start in range(0, len(names), PROGRESS_NAMES_MAX):
                self._send_progress_of(names[start : start + PROGRESS_NAMES_MAX])
                await asyncio.sleep(seconds * PROGRESS_NAMES_MAX / len(names))
        except Exception:
            log.exception("progress or ping failed")

    def _send_progress_of(self, names: Sequence[str]) -> None:
        """Send the bookmarks of those that are idle; nothing this time if the client's outbox is full."""
        if self._outbox.full:
            return
        # Idle subscriptions to one topic have the same bookmark: ten thousand of them get it in one message for each
        # chunk.
        due: dict[str, list[str]] = {}
        for sub_id in names:
            entry = self._entries.get(sub_id)
            if entry is not None and (positions := entry.subscription.quiet_position()) is not None:
                due.setdefault(format_bookmark(positions), []).append(sub_id)
        for bookmark, sub_ids in due.items():
            self._outbox.put_behind(message("progress", sids=sub_ids, bookmark=bookmark), sub_ids)

    def _existing(self, text: str) -> list[str]:
        """Return the sub_ids that a command names; raise `invalid subid` if one of them does not exist."""
        names = self._split_sub_ids(text)
        unknown = [name for name in names if name not in self._entries]
        if unknown or not text:
            raise SowlineError(
                "invalid subid",
                f"expected a sub_id of this connection (one, several with commas, or all), got"
                f" {', '.join(unknown) or 'none'}",
            )
        return list(dict.fromkeys(names))

    def _split_sub_ids(self, text: str) -> list[str]:
        if text == "all":
            return list(self._entries)
        # Counted before it is split: a frame of 4 MiB could hold two million names.
        if text.count(",") > SUBSCRIPTIONS_MAX:
            raise SowlineError(
                "invalid subid",
                f"expected at most {SUBSCRIPTIONS_MAX} subscriptions, got {text.count(',') + 1}",
            )
        return [name.strip() for name in text.split(",") if name.strip()]


def _check_format(before: Subscribe, now: Subscribe) -> None:
    """Raise `not supported` if a subscription would be replaced by one whose records have another format."""
    had, has = before.options.format, now.options.format
    if had != has:
        raise SowlineError(
            "not supported",
            f"expected format={had} in the command that replaces a subscription with it, got {has}: its client holds"
            f" records as {had}; unsubscribe first",
        )
