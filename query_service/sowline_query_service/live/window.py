"""Live windows: the common part of pages and groups. Each window is kept once, for any number of subscribers.

A subscriber that is too slow for every change later gets the difference between its window and the current one. A
subscriber that comes back with a bookmark holds the window as it was there. The service undoes the changes since then
to compute that window, and sends the difference.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

import structlog

from sowline.changes.change import Change
from sowline.errors import SowlineError
from sowline.model.bookmark import Positions
from sowline.model.position import Position
from sowline.serving.refusal import unforeseen
from sowline.serving.window_memory import WindowBytes, WindowMemory
from sowline.subscriptions.engine.delivery import Deltas, payload_of
from sowline.subscriptions.engine.shown import Due, ShownRecord, as_held, difference, is_redundant
from sowline.subscriptions.engine.subscription import ChangeView, Delivery
from sowline.subscriptions.live.put_payload import put_step
from sowline_query_service.live.viewer import Viewer
from sowline_query_service.query.query import Query
from sowline_query_service.query.selection import Selection
from sowline_query_service.topics.topic_state import TopicState

log = structlog.get_logger()


class LiveWindow(ABC):
    """The common part of pages and groups. A window is filled from a query, then follows the changes after it."""

    def __init__(self, topic: TopicState, selection: Selection, memory: WindowMemory) -> None:
        self.topic = topic
        self.bytes = WindowBytes(memory)
        self.users = 0
        """The number of subscriptions that use it or wait for it."""
        self.filling: asyncio.Task[None] | None = None
        self.failed: SowlineError | None = None
        self.coming_back = asyncio.Lock()
        """Held by a subscription that undoes changes. One at a time, because that takes memory and time."""
        self._filter = selection.filter
        self._pending: list[tuple[int, ChangeView]] | None = []
        """The changes since the instant of the query that fills it; None if none does."""
        self._is_filled = False
        self._viewers: dict[Viewer, None] = {}
        self._behind: dict[Viewer, None] = {}
        """The viewers that are no longer live, or not yet, and hold their own windows."""

    def __len__(self) -> int:
        return len(self._viewers)

    def __contains__(self, viewer: Viewer) -> bool:
        """Whether a viewer is live."""
        return viewer in self._viewers

    async def fill(self, query: Query) -> None:
        """Add the records that matched at the query's instant, then the changes since; set `failed` on an error."""
        assert self._pending is not None, "changes are kept since the query's instant"
        with self._failing():
            self.bytes.note(self.nbytes)
            await self._load(query)
            self._follow(self._pending or ())
            self.bytes.note(self.nbytes)
        # Nothing is awaited between the last pending change and this line. A change that came in between would stay
        # in the list and never be applied.
        self._pending = None
        self._is_filled = True

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Fail with the error that ends the block."""
        try:
            yield
        except SowlineError as error:
            self._fail(error)
        except Exception as error:
            log.exception("filling a view failed", topic=self.topic.definition.name)
            self._fail(unforeseen("the view could not be filled", error))

    def _follow(self, changes: Iterable[tuple[int, ChangeView]]) -> None:
        """Apply the changes since the query to what was loaded; nobody sees it yet."""
        for partition, seen in changes:
            self._take(partition, seen)

    @asynccontextmanager
    async def reaching(self, end: int) -> AsyncIterator[None]:
        """Wait until the window has the first `end` records of its order; keep them in reach within the block."""
        yield

    def reaches(self, end: int) -> bool:
        """Whether the window has the first `end` records of its order, or all if they are fewer."""
        return True

    def _recount(self) -> None:
        """Count the memory of the window after changes; end what has become too large."""
        try:
            has_grown = self.bytes.note(self.nbytes)
        except SowlineError as error:
            self._fail(error)
            return
        # Other users may have room for it: then it ends only for users without room.
        for viewer in [*self._viewers, *self._behind] if has_grown else ():
            if (refusal := self.bytes.refusal(viewer.holder)) is not None:
                self._end(viewer, refusal)

    def check(self, viewer: Viewer) -> None:
        """Raise the error with which the window, or this viewer, has failed."""
        if (failed := self.failed or viewer.failed) is not None:
            raise failed

    def add(self, viewer: Viewer) -> None:
        """Make a viewer live; its client must hold exactly the current window."""
        assert viewer not in self._viewers, "a viewer becomes live once"
        self._behind.pop(viewer, None)
        self._viewers[viewer] = None
        viewer.be_live()

    def remove(self, viewer: Viewer) -> None:
        """Send a viewer nothing more."""
        self._viewers.pop(viewer, None)
        self._behind.pop(viewer, None)
        viewer.live.clear()
        viewer.level_at = time.monotonic()

    def apply(self, partition: int, seen: ChangeView) -> int:
        """Apply a change, send its messages to the viewers, and return their number."""
        if self._pending is not None:
            # The window is being filled from a query of an earlier instant. `query at 5, change K@6, fill with K@5`:
            # applied now, K@6 would be replaced by the older K@5. It waits until the fill is complete.
            self._pending.append((partition, seen))
        if self.failed is not None or not self._is_filled:
            return 0
        try:
            due = self._take(partition, seen)
        except SowlineError as error:
            self._fail(error)
            return 0
        live: list[tuple[Viewer, Due]] = []
        for viewer, meant in self._without_redundant(due, seen.change):
            messages = [(key, viewer.as_sent(delivery)) for key, delivery in meant]
            viewer.was_sent = viewer.was_sent or bool(messages)
            if viewer.conflated is None:
                live.append((viewer, messages))
            else:
                each = [(key, delivery, Deltas(viewer.keys)) for key, delivery in messages]
                viewer.conflated.take(partition, seen.after, seen.change.time, each)
        return self._send_now(live, partition, seen)

    def _without_redundant(self, due: list[tuple[Viewer, Due]], change: Change) -> list[tuple[Viewer, Due]]:
        """Return the messages without those that viewers with `no_redundant` did not ask for."""
        if not change.is_redundant:
            return due
        return [
            (viewer, [m for m in messages if not is_redundant(m[1], of_changed=m[0] == change.sow_key)])
            if viewer.no_redundant
            else (viewer, messages)
            for viewer, messages in due
        ]

    def _send_now(self, due: list[tuple[Viewer, Due]], partition: int, seen: ChangeView) -> int:
        """Send the messages of a change, and return their number."""
        if due:
            before, now = (self._bookmark(partition, at) for at in (seen.after, seen.change.position))
            for viewer, messages in due:
                self._send(viewer, messages, before, now, seen.change.time)
        return sum(len(messages) for _, messages in due)

    def _bookmark(self, partition: int, position: Position) -> str:
        """Return the bookmark of the whole topic, with one partition at this position."""
        # A page depends on all partitions, and a change may affect it without a message. In partition 1 a record
        # after the window is deleted; then a change in partition 0 draws in the record after it. With the old
        # position of partition 1, the window at the bookmark would have the deleted record, which the client never
        # received (test_a_client_that_comes_back_is_sent_the_difference).
        return self.topic.bookmark(self.topic.positions | {partition: position})

    def settle(self) -> int:
        """After a batch of changes, let viewers of slow clients fall behind.

        For other viewers send the conflated messages that are too large to keep; return their number.
        """
        if self._is_filled and self.failed is None:
            self._recount()
        for viewer in [viewer for viewer in self._viewers if viewer.is_too_slow]:
            self.fall_behind(viewer, self.topic.positions)
        return sum(viewer.conflated.relieve() for viewer in self._viewers if viewer.conflated is not None)

    def fall_behind(
        self, viewer: Viewer, positions: Positions, changes: Sequence[tuple[int, Change]] = ()
    ) -> None:
        """End live delivery to a viewer; it holds the window as it was before these changes.

        They are all changes since `positions`. Raise `too many groups` if there were more groups at that time than
        the limit.
        """
        if viewer in self._viewers:
            self._stop(viewer)
        assert viewer not in self._viewers, "a viewer is live or behind"
        self._behind[viewer] = None
        # The first change of a record has the body that it had at `positions`; later ones have bodies in between.
        undone: dict[bytes, Change] = {}
        for _, change in changes:
            undone.setdefault(change.sow_key, change)
        # The client has, or will get, every message up to here. Its next messages are the difference from this
        # window, so it skips the steps between, however many there are (test_a_slow_client_is_sent_the_difference).
        shown = self._shown_before(viewer, undone) if undone else self.shown_to(viewer)
        viewer.hold(shown, positions)
        for _, change in changes:
            viewer.note_change(ChangeView(change, self.topic.metadata))

    def _stop(self, viewer: Viewer) -> None:
        """End live delivery to a viewer, after what was held back."""
        if viewer.conflated is not None:
            # The difference from the current window, which the client is sent later, will not contain these changes.
            viewer.conflated.flush()
        self.remove(viewer)

    def catch_up(self, viewer: Viewer) -> None:
        """Send a viewer the difference from its window, and make it live, in one instant."""
        # Nothing is awaited in here. A change between the difference and `add` would reach the client in neither
        # (test_a_slow_client_is_sent_the_difference).
        before, now = map(self.topic.bookmark, (viewer.positions, self.topic.positions))
        due = self.difference(viewer)
        if viewer.conflated is not None:
            due = [(key, as_held(delivery)) for key, delivery in due]
        self._send(viewer, due, before, now, None)
        self.add(viewer)

    def _fail(self, error: SowlineError) -> None:
        """End the window, and all its viewers at once: nobody needs its content now."""
        # A client that is paused would keep it for as long as it likes, and leave no room for others
        # (test_a_view_that_has_failed_takes_no_memory). The frames of the traceback have what was being loaded.
        self.failed = error.with_traceback(None)
        for viewer in [*self._viewers, *self._behind]:
            self._end(viewer, error)
        assert not self._viewers, "a window that has failed has no viewers"
        assert not self._behind, "a window that has failed has no viewers"
        self._drop()
        self.bytes.clear()

    def _end(self, viewer: Viewer, error: SowlineError) -> None:
        """End one viewer, after what was held back for it."""
        if viewer in self._viewers:
            self._stop(viewer)
        self._behind.pop(viewer, None)
        assert viewer not in self._viewers, "what has ended is not live"
        viewer.fail(error)

    def difference(self, viewer: Viewer) -> Due:
        """Return the messages that turn a viewer's window into the current one; `oof` only if requested."""

        def left(key: bytes, body: bytes) -> Delivery:
            return viewer.leaving(key, self._left(key, body))

        now = self.shown_to(viewer)
        return difference(viewer.held, now, left, oof=viewer.oof, no_redundant=viewer.no_redundant)

    def _send(self, viewer: Viewer, due: Due, before: str, now: str, time: int | None) -> None:
        """Put the messages of one step into the outbox."""
        messages = [
            payload_of(key, delivery, viewer.form, Deltas(viewer.keys), time) for key, delivery in due
        ]
        payloads = [message for message in messages if message is not None]
        if viewer.merges:
            payloads = [
                payload._replace(relayed=self._relayed(key, delivery))
                for payload, (key, delivery) in zip(payloads, due, strict=True)
            ]
        put_step(viewer, self.topic.definition.name, payloads, before, now, viewer.rank_of)

    def _relayed(self, key: bytes, delivery: Delivery) -> bytes:
        """Return what a gateway needs to know of a record in a message."""
        return ShownRecord(b"", 0, known=delivery.known).relayed()

    @property
    def can_go_back(self) -> bool:
        """Whether undoing changes restores the window before them."""
        return True

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The estimated memory of the window, in bytes."""

    @abstractmethod
    def _drop(self) -> None:
        """Drop all that is in the window."""

    @property
    @abstractmethod
    def matches(self) -> int:
        """The number of records that match."""

    @abstractmethod
    async def _load(self, query: Query) -> None:
        """Add what the query finds."""

    @abstractmethod
    def _take(self, partition: int, seen: ChangeView) -> list[tuple[Viewer, Due]]:
        """Apply a change; return the messages of each viewer."""

    @abstractmethod
    def shown_to(self, viewer: Viewer) -> dict[bytes, ShownRecord]:
        """Return the current window, by SOW key and in order."""

    @abstractmethod
    def _shown_before(self, viewer: Viewer, undone: dict[bytes, Change]) -> dict[bytes, ShownRecord]:
        """Return the window as it was before these changes: the first of each record."""

    @abstractmethod
    def _left(self, key: bytes, body: bytes) -> Delivery:
        """Return the `oof` for a record or group that a viewer held with this body and that left its window."""
