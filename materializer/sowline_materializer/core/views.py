"""Merges the partial states of a view into the records of its groups. Pure.

A group's record keeps its newest state from each source partition, with the position of the source up to which the
state is true. A message counts only as far as it is newer than what is reflected of its source partition. So a
repeated message changes nothing, nor does one from an owner that has lost the source partition.

In a view with joins, that position is a count of the owner. `taken` is the same point in positions of the source and
of the joined topics. It moves with the count, and is never ahead of the states.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import orjson

from sowline.changes.change import DELETED, Change
from sowline.changes.partials import (
    NO_STATE,
    HeldState,
    HeldStates,
    Partials,
    PartialsHead,
    encode_held,
    read_head,
    read_held,
    read_partials,
)
from sowline.commands.command import PARTIALS, LogRecord
from sowline.config.topic_definition import TopicDefinition
from sowline.config.views import ComputedTopic
from sowline.errors import SowlineError
from sowline.language.groups.layout import ExportedGroup, Layout, Template
from sowline.model.bookmark import PositionsByLog, parse_bookmark
from sowline.model.position import Position, before_the_log
from sowline_materializer.core.batch_state import BatchState
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.limit_checks import checked_size
from sowline_materializer.core.record import Record, record_after
from sowline_materializer.core.step import REPEAT, Accelerator

NOWHERE: Final = before_the_log(-1)
"""Before any position: nothing of a source partition is reflected yet."""


OTHER_DEFINITION: Final = "other definition"
"""The outcome of a message that was computed by another definition of the view."""


class _Merged(NamedTuple):
    """A group after a message: its key, the entry before, its states, and its body. Without states it is gone."""

    sow_key: bytes
    key_text: str
    current: Record | None
    states: HeldStates
    body: bytes | None


class GroupBodies:
    """Makes the bodies of a view's records from their states."""

    def __init__(self, view: ComputedTopic) -> None:
        self._condition = view.result_filter
        fields = view.projected
        self._layout = (
            Layout(view.grouping_paths, fields) if view.grouping_paths and fields is not None else None
        )

    @property
    def template(self) -> Template | None:
        """The template of the bodies; None if they are computed in another way."""
        return None if self._layout is None or self._condition is not None else self._layout.template

    def body(self, texts: list[bytes]) -> bytes | None:
        """Return the body of a record with some states, of which there is one; None if `having` does not match it."""
        assert texts, "a group without states has no body"
        body = _only_record(texts) if self._layout is None else _merged_body(self._layout, texts)
        if self._condition is not None and not self._condition.matches(orjson.loads(body)):
            return None
        return body


class ViewFold:
    """Applies partial states to the records of one partition of a view."""

    def __init__(
        self,
        definition: TopicDefinition,
        view: ComputedTopic,
        state: BatchState,
        accelerator: Accelerator | None = None,
    ) -> None:
        self._definition = definition
        self._view = view
        self._state = state
        self._accelerator = accelerator
        self._bodies = GroupBodies(view)

    def apply(self, record: LogRecord) -> None:
        """Apply one message, if it is of the view's definition; raise `bad message` or `partials missing`."""
        head = read_head(record.value) if self._accelerator is not None and _is_plain(record) else None
        if head is None or self._accelerator is None or not self._accelerated(self._accelerator, head):
            self._apply(record)

    def _accelerated(self, accelerator: Accelerator, head: PartialsHead) -> bool:
        """Apply a message by the native core; return False, without any effect, if only Python can."""
        if head.is_snapshot or head.definition != self._definition.digest:
            return False
        state, source = self._state, head.partition
        try:
            after, up_to, taken = Position.parse(head.after), Position.parse(head.up_to), _read_taken(head)
        except SowlineError:
            return False
        reached = state.reflected.get(source, NOWHERE)
        if not after <= reached < up_to:
            return False
        groups = accelerator.merge_states(bytes(head.states), source, reached, state)
        if groups is None:
            return False
        assert groups >= 0, "a count of groups is never negative"
        if head.ends:
            state.reflect(source, up_to, taken, is_all=False)
            state.out.note_news()
        if groups:
            reflects = (source, up_to) if head.ends else None
            accelerator.write_states(state, reflects, state.taken.get(source) if head.ends else None)
        return True

    def _apply(self, record: LogRecord) -> None:
        message = read_partials(record.value)
        # It was computed by an earlier definition, or by a process that still has one. That is no fault of the
        # message, and after a rebuild all such messages are applied again.
        if message.definition != self._definition.digest:
            self._state.out.set_outcome(OTHER_DEFINITION)
            return
        source, up_to, taken = message.partition, Position.parse(message.up_to), _read_taken(message)
        reached = self._state.reflected.get(source, NOWHERE)
        if up_to <= reached:
            self._state.out.set_outcome(REPEAT)
            return
        if not message.is_snapshot and Position.parse(message.after) > reached:
            raise SowlineError(
                "partials missing",
                f"expected partial states of {self._view.source} [{source}] from {reached} on, got those after"
                f" {message.after}: run sowline rebuild {self._view.name}",
            )
        try:
            merged = [*self._touched(record, message, reached), *self._left(record, message, up_to)]
        # A state that can't be merged must not stop the partition (test_a_state_that_can_not_be_read_is_refused).
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise SowlineError("bad message", f"expected states of groups of the view: {error}") from error
        # Until the last message of a snapshot the groups are of different positions of the source.
        reflects = None
        if message.ends:
            self._state.reflect(source, up_to, taken, is_all=message.is_snapshot)
            self._state.out.note_news()
            reflects = source, up_to
        for one in merged[:-1]:
            self._write(one, is_last=False)
        # Only the last change moves the position. If an owner dies within a message, the next one must apply the rest
        # of it (test_a_message_that_was_cut_short_is_applied_to_its_end).
        for one in merged[-1:]:
            self._write(one, reflects)

    def _touched(self, record: LogRecord, message: Partials, reached: Position) -> Iterator[_Merged]:
        """Yield the groups that a message gives a newer state."""
        source = message.partition
        for one in message.states:
            position = Position.parse(one.position)
            if position <= reached:
                continue
            sow_key = self._definition.key_rule.sow_key(one.key)
            current = self._state.records.get(sow_key)
            states = read_held(None if current is None else current.states)
            held = states.get(source)
            # A snapshot has begun, and an owner that has lost the source partition still writes older states
            # (test_a_late_owner_does_not_undo_a_snapshot).
            if held is not None and Position.parse(held.position) >= position:
                continue
            if one.state != NO_STATE:
                states[source] = HeldState(one.position, one.state)
            elif held is None:
                continue
            else:
                del states[source]
            yield self._merged(record, sow_key, one.key, current, states)

    def _left(self, record: LogRecord, message: Partials, up_to: Position) -> Iterator[_Merged]:
        """Yield the groups that a complete snapshot does not have: the source partition has no records of them."""
        if not (message.is_snapshot and message.ends):
            return
        assert message.ends, "only a whole snapshot says what is gone"
        source = message.partition
        sent = {self._definition.key_rule.sow_key(one.key) for one in message.states}
        for sow_key, _ in list(self._state.records.entries()):
            if sow_key in sent:
                continue
            # A record is read by its key before it is written.
            current = self._state.records.get(sow_key)
            states = read_held(None if current is None else current.states)
            held = states.get(source)
            if current is not None and held is not None and Position.parse(held.position) < up_to:
                del states[source]
                yield self._merged(record, sow_key, current.key_text, current, states)

    def _merged(
        self, record: LogRecord, sow_key: bytes, key_text: str, current: Record | None, states: HeldStates
    ) -> _Merged:
        try:
            body = self._body(states)
        except SowlineError as error:
            # Its states are still updated, so the group returns once it is small enough.
            self._state.out.add_dead_letter(
                record, SowlineError(error.reason, f"group {key_text}: {error.message}")
            )
            body = None
        return _Merged(sow_key, key_text, current, states, body)

    def _body(self, states: HeldStates) -> bytes | None:
        """Return the body of a record with these states; None without any, or if `having` does not match it."""
        if not states:
            return None
        body = self._bodies.body([bytes(one.state) for one in states.values()])
        return None if body is None else checked_size(self._state.limits, body)

    def _write(
        self, one: _Merged, reflects: tuple[int, Position] | None = None, *, is_last: bool = True
    ) -> None:
        state, previous = self._state, None if one.current is None else one.current.body
        assert one.states or one.current is not None, "a group that is gone was there before"
        assert one.states or one.body is None, "a group without states has no body"
        assert reflects is None or is_last, "only the last change of a message moves the position"
        change = Change(
            sow_key=one.sow_key,
            body=one.body,
            previous=previous,
            position=state.next_position(),
            after=state.last_change,
            op=PARTIALS,
            time=state.time,
            last=is_last,
            reason=DELETED if one.body is None and previous is not None else None,
            key_text=one.key_text if one.body is None else None,
            states=encode_held(one.states) if one.states else None,
            reflects=reflects,
            taken=None if reflects is None else state.taken.get(reflects[0]),
        )
        state.add_change(change)
        record = record_after(change, one.key_text, change.time) if one.states else None
        state.records.put(one.sow_key, record)
        state.live_records += bool(one.states) - (one.current is not None)
        assert state.live_records >= 0, "a count of live records is never negative"


def require_source_partitions(view: ComputedTopic, partitions: int, checkpoint: Checkpoint) -> None:
    """Raise `bad topic` if the records of a view have states of partitions that its source no longer has.

    Only a source that was dropped, and defined again, has fewer. Nothing would ever take these states away
    (test_a_source_that_comes_back_with_fewer_partitions).
    """
    newest = max(checkpoint.reflected, default=-1)
    if newest >= partitions:
        raise SowlineError(
            "bad topic",
            f"expected a source with the partitions of which view {view.name} has records, up to {newest}, but"
            f" {view.source} has {partitions}: it had more before it was dropped. Drop the view too, and define it"
            " again",
        )


def _is_plain(record: LogRecord) -> bool:
    """Return whether a message has no headers but its command, such as a trace context."""
    return record.headers is not None and len(record.headers) == 1


def _read_taken(message: Partials | PartialsHead) -> PositionsByLog:
    """Return what the owner has taken of the source and the joined topics; raise `bad message`."""
    try:
        return parse_bookmark(message.taken) if message.taken else {}
    except SowlineError as error:
        raise SowlineError(
            "bad message", f"expected positions that an owner has taken: {error.message}"
        ) from None


def _merged_body(layout: Layout, texts: list[bytes]) -> bytes:
    """Return the result of a group whose states these are."""
    assert texts, "a group without states has no body"
    exported = [ExportedGroup.read(text) for text in texts]
    group = layout.new_group(exported[0].key.encode(), b"")
    for one in exported:
        group.merge(one)
    return layout.body(group)


def _only_record(texts: list[bytes]) -> bytes:
    """Return the record of a view without groups; raise ValueError if its state is no object."""
    if not texts[0].startswith(b"{"):
        raise ValueError(f"expected a record, got {texts[0][:60]!r}")
    return texts[0]
