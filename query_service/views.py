"""Live views: pages and groups of a topic, each kept once and looked at by any number of subscribers.

A subscriber that is too slow for every change is later told the difference between what it holds and what
there is then. A subscriber that comes back with a bookmark holds what the view was there: the changes since
are undone to find out what that is.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import orjson

from fanout.groups import GroupChange
from fanout.page import SortedSet, Window, deliveries
from fanout.subscription import MATCH, OOF, PUBLISH, Delivery, Sighting
from query_service.grouping import groups_in_order, groups_of, load_groups
from query_service.ordering import in_thread_if_large
from query_service.outbox import Outbox
from query_service.query import Query, Selection
from query_service.state import TopicState
from sowline.bookmark import Positions, format_bookmark
from sowline.change import DELETED, Change
from sowline.errors import SowlineError
from sowline.path import Document
from sowline.position import Position, before_the_log
from sowline.wire import change_head, change_tail

Order = tuple[int, int, Position]
"""When a record changed last: log time, partition, position."""

LONG_AGO: Order = (0, 0, before_the_log())

Due = list[tuple[bytes, Delivery]]
"""Messages for one subscriber: the SOW key of the record or group, and what is said of it."""


class Shown(NamedTuple):
    """A record or group as a view shows it; `position` and `partition` are those of a record's last change."""

    body: bytes
    time: int
    partition: int = 0
    position: Position | None = None


class Viewer:
    """One subscriber of a view. While it is not live, `held` is what it was told last, and `positions` where."""

    def __init__(self, outbox: Outbox, sub_id: str, selection: Selection) -> None:
        self.outbox = outbox
        self.sub_id = sub_id
        self.options = selection.options
        self.window = Window(selection.skip_n, selection.top_n or 0)
        self.held: dict[bytes, Shown] = {}
        self.positions: Positions = {}
        self.behind = asyncio.Event()


class View(ABC):
    """What pages and groups have in common: they are filled from a query, then follow the changes after it."""

    def __init__(self, topic: TopicState, selection: Selection) -> None:
        self.topic = topic
        self.users = 0
        """The subscriptions that use it or wait for it."""
        self.filling: asyncio.Task[None] | None = None
        self.failed: SowlineError | None = None
        self._filter = selection.filter
        self._pending: list[tuple[int, Sighting]] | None = []
        self._viewers: dict[Viewer, None] = {}

    def __len__(self) -> int:
        return len(self._viewers)

    async def fill(self, query: Query) -> None:
        """Take in what matched at the query's instant, then what has changed since."""
        try:
            await self._load(query)
            for partition, seen in self._pending or ():
                self._take(partition, seen)
        except SowlineError as error:
            self.failed = error
        self._pending = None

    def add(self, viewer: Viewer) -> None:
        """Let a viewer be live: it holds exactly what the view shows now."""
        self._viewers[viewer] = None

    def remove(self, viewer: Viewer) -> None:
        """Tell a viewer nothing more."""
        self._viewers.pop(viewer, None)

    def apply(self, partition: int, seen: Sighting) -> int:
        """Take a change in, tell the viewers, and return how many messages that took."""
        if self._pending is not None:
            self._pending.append((partition, seen))
            return 0
        if self.failed is not None:
            return 0
        try:
            due = self._take(partition, seen)
        except SowlineError as error:
            self._fail(error)
            return 0
        if due:
            before, now = (self._bookmark(partition, at) for at in (seen.change.after, seen.change.position))
            for viewer, messages in due:
                self._tell(viewer, messages, before, now, seen.change.time)
        return sum(len(messages) for _, messages in due)

    def _bookmark(self, partition: int, position: Position) -> str:
        """The whole topic's: what a page shows comes of all partitions, and not every change is a message."""
        return self.topic.bookmark(self.topic.positions | {partition: position})

    def settle(self) -> None:
        """After a batch of changes: whoever is too slow goes on at its own pace from here."""
        for viewer in [viewer for viewer in self._viewers if viewer.outbox.full]:
            self.fall_behind(viewer)

    def fall_behind(self, viewer: Viewer) -> None:
        """Let a viewer stand where the view stands now."""
        self.remove(viewer)
        viewer.held = self.shown_to(viewer)
        viewer.positions = self.topic.positions
        viewer.behind.set()

    def catch_up(self, viewer: Viewer) -> None:
        """Tell a viewer what differs from what it holds, and let it be live."""
        log = self.topic.definition.log
        before, now = (
            format_bookmark({log: positions}) for positions in (viewer.positions, self.topic.positions)
        )
        self._tell(viewer, self._difference(viewer), before, now, None)
        viewer.held = {}
        viewer.behind.clear()
        self.add(viewer)

    def hold(self, viewer: Viewer, positions: Positions, changes: list[tuple[int, Change]]) -> None:
        """Let a viewer hold what the view showed before the changes, which are all since `positions`.

        Raises `too many groups` where there were more then than there may be.
        """
        undone: dict[bytes, Change] = {}
        for _, change in changes:
            undone.setdefault(change.sow_key, change)
        viewer.held = self._shown_before(viewer, undone)
        viewer.positions = positions

    def _fail(self, error: SowlineError) -> None:
        self.failed = error
        for viewer in list(self._viewers):
            self.fall_behind(viewer)

    def _difference(self, viewer: Viewer) -> Due:
        now = self.shown_to(viewer)
        due = [
            (key, self._left(key, shown.body))
            for key, shown in viewer.held.items()
            if viewer.options.oof and key not in now
        ]
        return due + [
            (key, Delivery(PUBLISH, shown.body))
            for key, shown in now.items()
            if not _same(viewer.held.get(key), shown)
        ]

    def _tell(self, viewer: Viewer, due: Due, before: str, now: str, time: int | None) -> None:
        """Put the messages of one step; all but the last say that there is more, and where it was before them."""
        options, topic = viewer.options, self.topic.definition.name
        when = time if options.timestamp else None
        for number, (key, said) in enumerate(due, 1):
            more = number < len(due)
            body = said.body if options.select is None else options.select.apply(said.body)
            name, place = None if options.no_sowkey else key, before if more else now
            tail = change_tail(topic, name, place, body, when)
            viewer.outbox.put(change_head(said.command, [viewer.sub_id], said.reason, more=more) + tail)

    @property
    @abstractmethod
    def matches(self) -> int:
        """How many records match, or groups there are."""

    @abstractmethod
    async def _load(self, query: Query) -> None:
        """Take in what the query finds."""

    @abstractmethod
    def _take(self, partition: int, seen: Sighting) -> list[tuple[Viewer, Due]]:
        """Take in a change; return what it means to the viewers."""

    @abstractmethod
    def shown_to(self, viewer: Viewer) -> dict[bytes, Shown]:
        """What a viewer sees now, by SOW key and in order."""

    @abstractmethod
    def _shown_before(self, viewer: Viewer, undone: dict[bytes, Change]) -> dict[bytes, Shown]:
        """What a viewer saw before each of these records changed; the first change of each is given."""

    @abstractmethod
    def _left(self, key: bytes, body: bytes) -> Delivery:
        """What is said of something that a viewer held with this body, and that is not shown to it any more."""


class PageView(View):
    """A sorted set of the records that match, with a window for each page."""

    def __init__(self, topic: TopicState, selection: Selection) -> None:
        super().__init__(topic, selection)
        self._order = selection.order
        self._set: SortedSet[Shown] = SortedSet()

    def add(self, viewer: Viewer) -> None:
        """Open the viewer's window."""
        if viewer not in self._viewers:
            self._set.open(viewer.window)
        super().add(viewer)

    def remove(self, viewer: Viewer) -> None:
        """Close the viewer's window."""
        if viewer in self._viewers:
            self._set.close(viewer.window)
        super().remove(viewer)

    @property
    def matches(self) -> int:
        """How many records match."""
        return len(self._set)

    async def _load(self, query: Query) -> None:
        keyed = []
        async for part, places in query.matches():
            for at in places.tolist():
                captured = part.captured
                key, body = captured.keys[at], captured.bodies[at]
                document = orjson.loads(body) if self._order.terms else {}
                shown = Shown(
                    body, int(captured.times[at]), int(captured.partitions[at]), captured.position(at)
                )
                keyed.append((self._order.key(document, key), shown))
            await asyncio.sleep(0)
        self._set = await in_thread_if_large(SortedSet, len(keyed), keyed)

    def _take(self, partition: int, seen: Sighting) -> list[tuple[Viewer, Due]]:
        change = seen.change
        if seen.now is not None and seen.matches_now(self._filter):
            assert change.body is not None
            shown = Shown(change.body, change.time, partition, change.position)
            events = self._set.put(self._order.key(seen.now, change.sow_key), shown)
        else:
            events = self._set.remove(change.sow_key)
        if not events:
            return []
        return [
            (viewer, deliveries(events[viewer.window], change, viewer.options.oof))
            for viewer in self._viewers
            if viewer.window in events
        ]

    def shown_to(self, viewer: Viewer) -> dict[bytes, Shown]:
        """The records of its window."""
        return dict(self._set.between(viewer.window.skip, viewer.window.skip + viewer.window.top))

    def _shown_before(self, viewer: Viewer, undone: dict[bytes, Change]) -> dict[bytes, Shown]:
        end = viewer.window.skip + viewer.window.top
        near = self._set.between(0, end + len(undone))
        records = [(key, shown) for key, shown in near if key not in undone]
        records += [
            (key, Shown(change.previous, 0))
            for key, change in undone.items()
            if change.previous is not None and Sighting(change, self.topic.about).matched_before(self._filter)
        ]
        records.sort(key=lambda record: self._order.key(orjson.loads(record[1].body), record[0]))
        return dict(records[viewer.window.skip : end])

    def _left(self, key: bytes, body: bytes) -> Delivery:
        present = self.topic.rows.body(key)
        return Delivery(OOF, body, DELETED) if present is None else Delivery(OOF, present, MATCH)


class GroupView(View):
    """The groups of the records that match."""

    def __init__(self, topic: TopicState, selection: Selection, groups_max: int) -> None:
        super().__init__(topic, selection)
        self._groups = groups_of(topic, selection, groups_max)

    @property
    def matches(self) -> int:
        """How many groups there are."""
        return len(self._groups)

    async def _load(self, query: Query) -> None:
        await load_groups(self._groups, query)

    def _take(self, partition: int, seen: Sighting) -> list[tuple[Viewer, Due]]:
        before = seen.before if seen.matched_before(self._filter) else None
        now = seen.now if seen.matches_now(self._filter) else None
        if before is None and now is None:
            return []
        place = (seen.change.time, partition, seen.change.position)
        changed = self._groups.change(seen.change.sow_key, before, now, place)
        published = [(c.sow_key, Delivery(PUBLISH, c.body)) for c in changed if c.body is not None]
        gone = [(c.sow_key, Delivery(OOF, c.previous or b"", DELETED)) for c in changed if c.body is None]
        return [(viewer, (gone if viewer.options.oof else []) + published) for viewer in self._viewers]

    def shown_to(self, viewer: Viewer) -> dict[bytes, Shown]:
        """All groups."""
        return {key: Shown(body, 0) for key, body in self._groups.records()}

    def _shown_before(self, viewer: Viewer, undone: dict[bytes, Change]) -> dict[bytes, Shown]:
        shown = self.shown_to(viewer)
        done: list[_Step] = []
        try:
            for step in self._steps_back(undone):
                for group in self._groups.change(step.key, step.now, step.before, LONG_AGO):
                    _note(shown, group)
                done.append(step)
        finally:
            for step in reversed(done):
                self._groups.change(step.key, step.before, step.now, step.order)
        return shown

    def _steps_back(self, undone: dict[bytes, Change]) -> Iterator["_Step"]:
        for key, change in undone.items():
            seen = Sighting(change, self.topic.about)
            before = seen.before if seen.matched_before(self._filter) else None
            held = self.topic.rows.capture(self.topic.rows.found([key]))
            if not held.bodies or not self._is_in(key, held.bodies[0]):
                yield _Step(key, None, before, LONG_AGO)
            else:
                order = (int(held.times[0]), int(held.partitions[0]), held.position(0))
                yield _Step(key, orjson.loads(held.bodies[0]), before, order)

    def _is_in(self, key: bytes, body: bytes) -> bool:
        about = self.topic.about._replace(sow_key=key.decode(), size=len(body))
        return self._filter.matches_about(orjson.loads(body), about)

    def _left(self, key: bytes, body: bytes) -> Delivery:
        return Delivery(OOF, body, DELETED)


class _Step(NamedTuple):
    """A record whose changes are to be undone: its document now and before, and when it changed last."""

    key: bytes
    now: Document | None
    before: Document | None
    order: Order


def _note(shown: dict[bytes, Shown], group: GroupChange) -> None:
    """Note what a group was; it may have shown something of its latest record, which is not known any more."""
    if group.body is None:
        shown.pop(group.sow_key, None)
    else:
        shown[group.sow_key] = Shown(group.body, 0, position=before_the_log())


def _same(held: Shown | None, shown: Shown) -> bool:
    return held is not None and (held.body, held.position) == (shown.body, shown.position)


def shown_in_order(shown: dict[bytes, Shown], selection: Selection) -> dict[bytes, Shown]:
    """Return the groups that are asked for, in the order that is asked for."""
    bodies = groups_in_order([(key, of.body) for key, of in shown.items()], selection)
    return {key: shown[key] for key, _ in bodies}
