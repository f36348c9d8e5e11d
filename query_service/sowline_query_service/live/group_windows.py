"""Live groups of a topic's records: all groups, or a page of them in an order."""

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import orjson

from sowline.changes.change import DELETED, Change
from sowline.language.groups import GroupChange
from sowline.model.path import Document
from sowline.model.position import Position, before_the_log
from sowline.serving.cooperative import in_turns
from sowline.serving.window_memory import WindowMemory
from sowline.subscriptions.engine.page import Entered, Event, Left, Page
from sowline.subscriptions.engine.shown import GUESSED, Due, ShownRecord, no_longer_shown
from sowline.subscriptions.engine.subscription import MATCH, OOF, PUBLISH, ChangeView, Delivery
from sowline_query_service.index.rows import Captured
from sowline_query_service.live.pages import Paged, sorted_set
from sowline_query_service.live.viewer import Viewer
from sowline_query_service.live.window import LiveWindow
from sowline_query_service.query.grouping import groups_of, load_groups
from sowline_query_service.query.query import Query
from sowline_query_service.query.selection import Selection
from sowline_query_service.topics.topic_state import TopicState

Order = tuple[int, int, Position]
"""When a record last changed: log time, partition, position."""

LONG_AGO: Order = (0, 0, before_the_log())


class GroupWindow(LiveWindow):
    """The groups of the records that match."""

    def __init__(
        self, topic: TopicState, selection: Selection, memory: WindowMemory, groups_max: int
    ) -> None:
        super().__init__(topic, selection, memory)
        self._new_groups = partial(groups_of, topic, selection, groups_max)
        self._groups = self._new_groups()

    @property
    def matches(self) -> int:
        """The number of records in the groups."""
        return self._groups.members

    @property
    def nbytes(self) -> int:
        """The estimated memory of the groups, in bytes."""
        return self._groups.measure()

    def _note_groups(self) -> None:
        self.bytes.note(self._groups.measure())

    def _drop(self) -> None:
        self._groups = self._new_groups()

    async def _load(self, query: Query) -> None:
        await load_groups(self._groups, query, self._note_groups)
        # Compute the results now, in steps: they are cached. The first `shown_to` would compute all of them in one
        # instant, and block every other client until then.
        await in_turns(self._groups.records(), query.work)

    def _take(self, partition: int, seen: ChangeView) -> list[tuple[Viewer, Due]]:
        before = seen.before if seen.matched_before(self._filter) else None
        now = seen.now if seen.matches_now(self._filter) else None
        if before is None and now is None:
            return []
        order = (seen.change.time, partition, seen.change.position)
        return self._due(self._groups.change(seen.change.sow_key, before, now, order))

    def _due(self, changed: list[GroupChange]) -> list[tuple[Viewer, Due]]:
        """Return the messages of changed groups for each viewer."""
        published = [
            (c.sow_key, Delivery(PUBLISH, c.body, previous=c.previous)) for c in changed if c.body is not None
        ]
        deletions = [
            (c.sow_key, Delivery(OOF, c.previous, DELETED, c.previous))
            for c in changed
            if c.body is None and c.previous is not None
        ]
        return [(viewer, (deletions if viewer.oof else []) + published) for viewer in self._viewers]

    def shown_to(self, viewer: Viewer) -> dict[bytes, ShownRecord]:
        """Return all groups."""
        return {key: ShownRecord(body, 0) for key, body in self._groups.records()}

    def _shown_before(self, viewer: Viewer, undone: dict[bytes, Change]) -> dict[bytes, ShownRecord]:
        were: dict[bytes, ShownRecord | None] = {}
        done: list[_UndoStep] = []
        try:
            for step in self._steps_back(undone):
                changed = self._groups.change(step.key, step.now, step.before, LONG_AGO)
                were |= {group.sow_key: self._once(group.body) for group in changed}
                done.append(step)
        # The window is shared, and live for others: whatever happens, restore it in this instant. Also after `too
        # many groups`, which undoing can raise, because more groups may have existed at that time.
        finally:
            for step in reversed(done):
                self._groups.change(step.key, step.before, step.now, step.order)
        return self._shown_if(viewer, were)

    def _once(self, body: bytes | None) -> ShownRecord | None:
        """Return a previous state of a group; None if it did not exist."""
        if body is None:
            return None
        # If the projection shows fields of the group's latest record, the previous state is a guess: changes do not
        # contain which record had changed last before (test_groups_of_a_guess_are_sent_whole).
        return ShownRecord(body, 0, position=GUESSED) if self._groups.tells_latest else ShownRecord(body, 0)

    def _shown_if(self, viewer: Viewer, were: dict[bytes, ShownRecord | None]) -> dict[bytes, ShownRecord]:
        """Return the window if these groups were as given; None means that a group did not exist."""
        shown = self.shown_to(viewer) | {key: of for key, of in were.items() if of is not None}
        return {key: of for key, of in shown.items() if were.get(key, of) is not None}

    def _steps_back(self, undone: dict[bytes, Change]) -> Iterator["_UndoStep"]:
        for key, change in undone.items():
            seen = ChangeView(change, self.topic.metadata)
            before = seen.before if seen.matched_before(self._filter) else None
            held = self.topic.rows.capture(self.topic.rows.found([key]))
            now = self._matching(held) if len(held) else None
            if now is None:
                yield _UndoStep(key, None, before, LONG_AGO)
            else:
                # The real order of the current record: when the step is reverted, the record must count as recent as
                # it was, or live groups would show another latest record.
                order = (int(held.times[0]), int(held.partitions[0]), held.position(0))
                yield _UndoStep(key, now, before, order)

    def _matching(self, held: Captured) -> Document | None:
        """Return the document of the one captured record; None if it does not match."""
        document: Document = orjson.loads(held.bodies[0])
        return document if self._filter.matches_about(document, held.facts(0, self.topic.metadata)) else None

    def _left(self, key: bytes, body: bytes) -> Delivery:
        return Delivery(OOF, body, DELETED, body)


class GroupPageWindow(Paged, GroupWindow):
    """A page of the groups."""

    @property
    def can_go_back(self) -> bool:
        """Whether undoing changes restores the page.

        It does not if the order may depend on a group's latest record: changes do not contain which one that was
        before (test_a_page_of_latest_fields_can_not_go_back).
        """
        return not self._groups.tells_latest

    @property
    def nbytes(self) -> int:
        """The estimated memory of the groups and of the sorted set, in bytes."""
        return self._groups.measure() + self._set.nbytes

    def _drop(self) -> None:
        Paged._drop(self)
        GroupWindow._drop(self)

    async def _load(self, query: Query) -> None:
        await load_groups(self._groups, query, self._note_groups)
        groups = ((self._key(key, body), ShownRecord(body, 0)) for key, body in self._groups.records())
        self._set = await sorted_set(await in_turns(groups, query.work))
        assert len(self._set) == len(self._groups), "each group has its place"

    def _due(self, changed: list[GroupChange]) -> list[tuple[Viewer, Due]]:
        """Return the messages of each viewer, for the window after all changes compared with before."""
        # A record that moves changes two groups, one after the other. Collect the events of both: the messages of the
        # first change alone would show a page that never existed
        # (test_a_group_that_leaves_a_page_is_sent_as_it_is_now).
        due: dict[Page, list[Event[ShownRecord]]] = {}
        for group in changed:
            if group.body is None:
                seen = self._set.remove(group.sow_key)
            else:
                seen = self._set.put(self._key(group.sow_key, group.body), ShownRecord(group.body, 0))
            for window, events in seen.items():
                due.setdefault(window, []).extend(events)
        return [
            (viewer, deliveries)
            for viewer in self._viewers
            if (deliveries := self._deliveries(due.get(viewer.page, []), changed, oof=viewer.oof))
        ]

    def _deliveries(self, events: list[Event[ShownRecord]], changed: list[GroupChange], *, oof: bool) -> Due:
        """Return the messages of a step for one window, given all its events; a group may have two of them."""
        deletions = {group.sow_key for group in changed if group.body is None}
        before = {group.sow_key: group.previous for group in changed}
        last = {event.sow_key: event for event in events}
        first = {event.sow_key: event for event in reversed(events)}
        out: Due = []
        deliveries: Due = []
        # The last event of a group decides whether the client shows it, the first whether the client held it: a group
        # that entered and left within the step is not mentioned.
        for key, event in last.items():
            body = event.held.body
            held = None if isinstance(first[key], Entered) else before.get(key, body)
            if not isinstance(event, Left):
                deliveries.append((key, Delivery(PUBLISH, body, previous=held)))
            elif held is not None and oof:
                present = self._groups.body(key) or body
                out.append((key, Delivery(OOF, present, DELETED if key in deletions else MATCH, held)))
        return out + deliveries

    def _left(self, key: bytes, body: bytes) -> Delivery:
        return no_longer_shown(body, self._groups.body(key))


class _UndoStep(NamedTuple):
    """A record whose changes are undone: its document now and before, and when it last changed."""

    key: bytes
    now: Document | None
    before: Document | None
    order: Order
