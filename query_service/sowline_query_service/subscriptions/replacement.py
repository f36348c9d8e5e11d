"""Replaces a subscription: finds the records that its client holds, and what differs from the new selection."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from msgspec import structs

from sowline.changes.change import Change
from sowline.errors import SowlineError
from sowline.model.bookmark import PositionsByLog, format_bookmark
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.cooperative import wait_next_turn
from sowline.serving.worker_thread import in_worker_thread
from sowline.subscriptions.engine.delivery import whole_payload
from sowline.subscriptions.engine.shown import as_held
from sowline.subscriptions.engine.subscription import (
    MATCH,
    OOF,
    ChangeView,
    Delivery,
    as_left,
    left,
    left_sight,
)
from sowline.subscriptions.live.conflation import SlowRecipient
from sowline.subscriptions.live.put_payload import put_payload
from sowline.wire.request import Sow
from sowline_query_service.context import ServiceContext
from sowline_query_service.index.access_path import NO_ROWS
from sowline_query_service.index.rows import RowNumbers
from sowline_query_service.query.query import Query
from sowline_query_service.query.read_request import (
    bookmark_range_of,
    bytes_to_check,
    is_certain,
    live_filter,
    read_request_of,
)
from sowline_query_service.query.selection import Selection
from sowline_query_service.query.topic_slice import TopicSlice
from sowline_query_service.subscriptions.bookmark_resolver import wait_for_replica
from sowline_query_service.subscriptions.catch_up import changes_since
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState


@dataclass(frozen=True, slots=True)
class HeldRecords:
    """The records that the client of a subscription holds: those that match at its positions."""

    topics: list[TopicState]
    selection: Selection
    positions: PositionsByLog


async def held_records(state: ServedTopics, request: Sow, rights: Rights) -> HeldRecords:
    """Return the records that the client of a gateway holds, from the `sow` that finds them at the client's bookmark.

    Raise `bookmark_expired` if they are unknown.
    """
    topics, selection = await in_worker_thread(
        bytes_to_check(request), read_request_of, state, request, rights
    )
    (positions,) = bookmark_range_of(request, topics).starts
    assert isinstance(positions, dict), "gateways send positions"
    if not is_certain(selection):
        raise SowlineError(
            "bookmark_expired",
            "the records that the replaced subscription has sent are unknown, because its filter depends on the time",
        )
    return HeldRecords(topics, selection, positions)


class Leaving(NamedTuple):
    """A record that the client holds and that the new selection does not contain."""

    topic: str
    sow_key: bytes
    delivery: Delivery


class ReplacementQuery(Query):
    """The records of one instant that the new selection contains and the client does not hold.

    `leaving` are the records of the reverse. `begin` it, then use it like any other query.
    """

    def __init__(
        self, context: ServiceContext, held: HeldRecords, topics: list[TopicState], selection: Selection
    ) -> None:
        super().__init__(topics, selection, context.limits)
        self._context = context
        self._held = held
        self._before = Query(
            held.topics, Selection(held.selection.filter, sow_keys=held.selection.sow_keys), context.limits
        )
        self._matching: dict[str, RowNumbers] = {}
        self._held_rows: dict[str, RowNumbers] = {}
        self.leaving: list[Leaving] = []

    @property
    def bookmark_before(self) -> str:
        """The bookmark of the records that the client holds."""
        return format_bookmark(self._held.positions)

    @property
    def compared(self) -> PositionsByLog:
        """The positions of the instant in all topics: those of the client's records, too."""
        return {**self._before.positions, **self.positions}

    async def wait_for_replica(self) -> None:
        """Wait until the replica has what the client holds, which another one may have sent; raise `behind`."""
        for topic in self._held.topics:
            await wait_for_replica(self._context.state, topic, self._held.positions[topic.definition.log])

    async def begin(self) -> None:
        """Take the instant, and compare both selections at it.

        Raise `BookmarkExpired` if the changes since the client's bookmark are no longer available, and `behind`.
        """
        assert not self.leaving, "it begins once"
        await self.wait_for_replica()
        await wait_next_turn()
        changes = await self._begin_together()
        changed = {
            topic.definition.name: _Changed.of(topic, found)
            for topic, found in zip(self._held.topics, changes, strict=True)
        }
        for topic_slice in self.topic_slices:
            self._matching[topic_slice.name] = await _rows(super().matches_in(topic_slice), topic_slice)
        for topic_slice in self._before.topic_slices:
            rows = await _rows(self._before.matches_in(topic_slice), topic_slice)
            # The rows hold current bodies. A record that has changed since the client's bookmark had another one, and
            # only its first change still has: `_changed_leave` decides (test_what_has_changed_meanwhile_is_sent).
            held = np.setdiff1d(rows, changed[topic_slice.name].rows)
            self._held_rows[topic_slice.name] = held
            self._unchanged_leave(
                topic_slice, np.setdiff1d(held, self._matching.get(topic_slice.name, NO_ROWS))
            )
        for topic in self._held.topics:
            self._changed_leave(topic, changed[topic.definition.name])

    async def _begin_together(self) -> list[list[tuple[int, Change]]]:
        """Take one instant for both queries; return the changes since the client's bookmark."""
        held = self._held
        positions = [(topic, held.positions[topic.definition.log]) for topic in held.topics]
        while True:
            await self.prepare()
            await self._before.prepare()
            # Both queries must begin at the instant up to which these changes are known, so nothing is awaited after
            # this line. Otherwise a record that changed in between would be in neither.
            changes = await changes_since(self._context.kafka, positions, self._context.limits.undo_max)
            if self.is_prepared and self._before.is_prepared:
                self.begin_now()
                self._before.begin_now()
                return changes

    def _unchanged_leave(self, topic_slice: TopicSlice, rows: RowNumbers) -> None:
        captured = topic_slice.captured
        found: list[int] = np.searchsorted(captured.rows, rows).tolist()
        for at in found:
            body = captured.bodies[at]
            delivery = Delivery(OOF, body, MATCH, body, captured.rare_of(at).known)
            self.leaving.append(Leaving(topic_slice.name, captured.keys[at], delivery))

    def _changed_leave(self, topic: TopicState, changed: "_Changed") -> None:
        before = live_filter(self._held.selection)
        now = live_filter(self._selection) if topic in self._topics else None
        for key, changes in changed.of_record.items():
            # The body before the first change decides whether the client held the record; the body after the last
            # one, whether it leaves. The bodies in between do not matter
            # (test_what_has_changed_meanwhile_is_sent).
            if not ChangeView(changes[0], topic.metadata).matched_before(before):
                continue
            if now is None or not ChangeView(changes[-1], topic.metadata).matches_now(now):
                self.leaving.append(Leaving(topic.definition.name, key, self._left(topic, changes)))

    def _left(self, topic: TopicState, changes: list[Change]) -> Delivery:
        """Return the `oof` of a record after all these changes; the client holds it as it was before them."""
        last, held = changes[-1], changes[0].previous
        assert held is not None, "what matched was there"
        entitlement = self._held.selection.entitled.get(topic.definition.name)
        if entitlement is None or ChangeView(last, topic.metadata).matches_now(entitlement):
            delivery = left(structs.replace(last, previous=held, correlation=None))
            return as_held(delivery) if topic.definition.is_conflated else delivery
        # What happened to it once it was out of sight is not for this user
        # (test_what_happened_to_a_hidden_record_is_not_disclosed).
        seen = (ChangeView(change, topic.metadata) for change in reversed(changes))
        left_by = (gone for one in seen if (gone := left_sight(one, entitlement)) is not None)
        return as_left(next(left_by, None), held)

    async def send_leaving(self, to: SlowRecipient, *, has_group: bool) -> None:
        """Send which records the client should drop, as fast as it reads; a group may follow."""
        done = 0
        while done < len(self.leaving):
            await to.outbox.wait_turn()
            done = self._put_leaving(to, done, has_group=has_group)

    def _put_leaving(self, to: SlowRecipient, done: int, *, has_group: bool) -> int:
        """Put the messages after the first `done`, as far as the outbox takes them; return how many are put then."""
        for number, (topic, key, delivery) in enumerate(self.leaving[done:], done + 1):
            # All messages of a step but the last one have the bookmark before the step. A client that loses its
            # connection within the step resumes before it, and gets the whole step again.
            more = has_group or number < len(self.leaving)
            payload = whole_payload(key, delivery, to.form, None)
            put_payload(to, topic, payload, self.bookmark_before if more else self.bookmark, more=more)
            if not to.outbox.has_turn:
                return number
        return len(self.leaving)

    def _slice_of(self, topic: TopicState) -> TopicSlice:
        return TopicSlice.of(topic, replace(self._selection, top_n=None, skip_n=0))

    async def matches_in(self, topic_slice: TopicSlice) -> AsyncIterator[RowNumbers]:
        """Yield the records that match and that the client does not hold."""
        # If the new subscription shows other fields, the client's bodies are useless to it: send all records.
        rows = self._matching[topic_slice.name]
        if self._held.selection.options.shows_like(self._selection.options):
            rows = np.setdiff1d(rows, self._held_rows.get(topic_slice.name, NO_ROWS))
        yield np.searchsorted(topic_slice.captured.rows, rows)


@dataclass(frozen=True, slots=True)
class _Changed:
    """The changed records of a topic, each with its changes in order, and their current rows."""

    of_record: dict[bytes, list[Change]]
    rows: RowNumbers

    @classmethod
    def of(cls, topic: TopicState, changes: list[tuple[int, Change]]) -> "_Changed":
        """Collect the changed records, at the instant of the last change."""
        of_record: dict[bytes, list[Change]] = {}
        for _, change in changes:
            of_record.setdefault(change.sow_key, []).append(change)
        return cls(of_record, np.sort(topic.rows.found(of_record)))


async def _rows(positions: AsyncIterator[RowNumbers], topic_slice: TopicSlice) -> RowNumbers:
    """Return the rows of all these indices, in ascending order."""
    found = [some async for some in positions]
    return np.sort(topic_slice.captured.rows[np.concatenate(found)]) if found else NO_ROWS
