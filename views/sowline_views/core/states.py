"""The states of a view in one source partition, of groups or single records, and how changes affect them."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

import orjson

from sowline.changes.change import Change
from sowline.config.views import ComputedTopic
from sowline.language.groups import GroupStates
from sowline.language.groups.layout import ExportedGroup, ResultFields
from sowline.model.body import write_body
from sowline.model.key import SUPPLIED_BYTES_MAX
from sowline.model.path import Document

GROUPS_MAX = 1 << 40
"""The memory of the service is the limit."""


class StateChange(NamedTuple):
    """The key text of a group, and its state after a change; None if it has no records any more."""

    key: str
    state: bytes | None


Order = tuple[Any, ...]
"""When a record last changed: log time, partition, position."""


class States(Protocol):
    """The states of a view in one source partition."""

    def load(self, changes: Iterator[Change]) -> None:
        """Add the newest change of each live record."""

    def add(self, sow_key: bytes, document: Document | None, order: Order) -> None:
        """Add a record while a load lasts; None if it does not count."""

    def change(self, change: Change) -> list[StateChange]:
        """Apply a change; return the states that it changes, each of a different group."""
        ...

    def replace(
        self, sow_key: bytes, before: Document | None, now: Document | None, order: Order
    ) -> list[StateChange]:
        """Replace a document with another, each None if absent; return the changed states."""
        ...

    def order_of(self, change: Change) -> Order:
        """Return when a change was made, to compare it with others."""
        ...

    def take_loaded(self) -> Iterator[StateChange]:
        """Yield the states after a load, once."""
        ...


def states_of(view: ComputedTopic, partition: int) -> States:
    """Return the states of a view without joins in a source partition, without records."""
    return GroupedStates(view, partition) if view.grouping_paths else RecordStates(view, partition)


class _States:
    """The common part of both kinds of states."""

    def __init__(self, view: ComputedTopic, partition: int) -> None:
        self._partition = partition
        self._filter = view.record_filter

    def replace(
        self, sow_key: bytes, before: Document | None, now: Document | None, order: Order
    ) -> list[StateChange]:
        """Replace a document with another, each None if absent; return the changed states."""
        raise NotImplementedError

    def load(self, changes: Iterator[Change]) -> None:
        """Add the newest change of each live record."""
        for change in changes:
            self.add(change.sow_key, _read(change.body), self.order_of(change))

    def add(self, sow_key: bytes, document: Document | None, order: Order) -> None:
        """Add a record while a load lasts; None if it does not count."""
        self.replace(sow_key, None, document, order)

    def change(self, change: Change) -> list[StateChange]:
        """Apply a change; return the states of its group, or of both groups if the record moves."""
        before, now = _read(change.previous), _read(change.body)
        return self.replace(change.sow_key, before, now, self.order_of(change))

    def order_of(self, change: Change) -> Order:
        """Return when a change was made, to compare it with others."""
        # Partitions may have equal log times. With the partition and the position, the order is total.
        return change.time, self._partition, change.position

    def _counted(self, document: Document | None) -> Document | None:
        """Return a document if it counts."""
        is_counted = document is not None and (self._filter is None or self._filter.matches(document))
        return document if is_counted else None


class GroupedStates(_States):
    """The states of the groups of a view."""

    def __init__(self, view: ComputedTopic, partition: int) -> None:
        super().__init__(view, partition)
        fields = view.projected
        assert fields is not None, "a grouping has a projection"
        self._groups = GroupStates(view.name, view.grouping_paths, fields, groups_max=GROUPS_MAX)

    def replace(
        self, sow_key: bytes, before: Document | None, now: Document | None, order: Order
    ) -> list[StateChange]:
        """Replace a document with another; return the states of their groups, if they change."""
        before, now = self._counted(before), self._counted(now)
        if before is None and now is None:
            return []
        made = self._groups.change(sow_key, before, now, order)
        assert len({one.key for one in made}) == len(made) <= 2, "a record leaves one group and enters one"
        # A record may change without changing its group (test_a_change_without_effect_on_the_state_makes_none).
        return [StateChange(group_key(one.key), one.body) for one in made if one.body != one.previous]

    def take_loaded(self) -> Iterator[StateChange]:
        """Yield the states of all groups."""
        for _, state in self._groups.records():
            yield StateChange(group_key(ExportedGroup.read(state).key.encode()), state)


class RecordStates(_States):
    """The records of a view without groups: a record's state is its body, if the record counts.

    States are kept only while a load lasts. Later, the state before a change is computed from the previous body.
    """

    def __init__(self, view: ComputedTopic, partition: int) -> None:
        super().__init__(view, partition)
        self._fields = None
        if view.projected is not None:
            self._fields = ResultFields((field.output, field.expression) for field in view.projected.fields)
        self._loaded: dict[str, bytes] = {}

    def load(self, changes: Iterator[Change]) -> None:
        """Add the newest change of each live record."""
        for change in changes:
            self._note(self._made(change.sow_key, self._counted(_read(change.body)), change.body))

    def add(self, sow_key: bytes, document: Document | None, order: Order) -> None:
        """Add a record while a load lasts; None if it does not count."""
        self._note(self._made(sow_key, self._counted(document), None))

    def _note(self, made: StateChange) -> None:
        if made.state is not None:
            self._loaded[made.key] = made.state

    def change(self, change: Change) -> list[StateChange]:
        """Apply a change; return the record's state if it changes."""
        before, now = self._counted(_read(change.previous)), self._counted(_read(change.body))
        was = self._made(change.sow_key, before, change.previous)
        made = self._made(change.sow_key, now, change.body)
        return [] if was == made else [made]

    def replace(
        self, sow_key: bytes, before: Document | None, now: Document | None, order: Order
    ) -> list[StateChange]:
        """Replace a document with another; return the record's state if it changes."""
        was, made = (self._made(sow_key, self._counted(one), None) for one in (before, now))
        return [] if was == made else [made]

    def take_loaded(self) -> Iterator[StateChange]:
        """Yield the states of the records, once."""
        # Only the snapshot needs them. Kept here, they would take a view's whole memory as long as it runs.
        loaded, self._loaded = self._loaded, {}
        return (StateChange(key, state) for key, state in loaded.items())

    def _made(self, sow_key: bytes, document: Document | None, body: bytes | None) -> StateChange:
        """Return the state of a record with this document; `body` is its text, if it is known."""
        key = sow_key.decode()
        if document is None:
            return StateChange(key, None)
        if self._fields is not None:
            return StateChange(key, self._fields.of(document))
        # The known text is kept, so a record stays as it was written. A joined record may be deeper than orjson
        # writes (test_the_state_of_a_joined_record_may_be_deep).
        return StateChange(key, write_body(document) if body is None else body)


def _read(body: bytes | None) -> Document | None:
    return None if body is None else orjson.loads(body)


def group_key(text: bytes) -> str:
    """Return the key text of a group's record: the values that are grouped by as JSON, or a hash if that is long."""
    assert text, "a group has a key text"
    return (
        # SOW keys are short, and grouped values may be long (test_a_group_with_a_long_key_is_named_by_a_hash).
        text.decode() if len(text) <= SUPPLIED_BYTES_MAX else f"#{blake2b(text, digest_size=16).hexdigest()}"
    )
