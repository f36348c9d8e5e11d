"""What each change of a source partition does to the states of a view: of its groups, or of its single records."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

import orjson

from sowline.config.views import ComputedTopic
from sowline.expressions.projection import Projection
from sowline.filter import Filter
from sowline.filter.expression import compile_tree
from sowline.groups import GroupStates
from sowline.groups.layout import ExportedGroup
from sowline.model.key import SUPPLIED_BYTES_MAX
from sowline.model.path import Document
from sowline.protocol.change import Change

GROUPS_MAX = 1 << 40
"""The memory of the service is the limit."""


class StateChange(NamedTuple):
    """The state of a group after a change, None if it has no records any more, and the group's key text."""

    key: str
    state: bytes | None


class States(Protocol):
    """The states of a view in one source partition."""

    def load(self, changes: Iterator[Change]) -> None:
        """Add the newest change of each live record."""

    def change(self, change: Change) -> list[StateChange]:
        """Apply a change; return the states that it changes, each of another group."""

    def all(self) -> Iterator[StateChange]:
        """Yield all states."""


def states_of(view: ComputedTopic, partition: int) -> States:
    """Return the states of a view in a source partition, without records."""
    return GroupedStates(view, partition) if view.grouping_paths else RecordStates(view)


class GroupedStates:
    """The states of the groups of a view."""

    def __init__(self, view: ComputedTopic, partition: int) -> None:
        fields = view.projected
        assert fields is not None, "a grouping has a projection"
        self._partition = partition
        self._filter = view.record_filter
        self._groups = GroupStates(view.name, view.grouping_paths, fields, groups_max=GROUPS_MAX)

    def load(self, changes: Iterator[Change]) -> None:
        """Add the newest change of each live record."""
        for change in changes:
            document = _counted(change.body, self._filter)
            if document is not None:
                self._groups.load([(change.sow_key, document, self._order(change))])

    def change(self, change: Change) -> list[StateChange]:
        """Apply a change; return the states of its group, or of both groups if the record moves."""
        before = _counted(change.previous, self._filter)
        now = _counted(change.body, self._filter)
        if before is None and now is None:
            return []
        made = self._groups.change(change.sow_key, before, now, self._order(change))
        return [StateChange(group_key(one.key), one.body) for one in made if one.body != one.previous]

    def _order(self, change: Change) -> tuple[Any, ...]:
        return change.time, self._partition, change.position

    def all(self) -> Iterator[StateChange]:
        """Yield the states of all groups."""
        for _, state in self._groups.records():
            yield StateChange(group_key(ExportedGroup.read(state).key.encode()), state)


class RecordStates:
    """The records of a view without groups: a record's state is its body, if the record counts.

    Nothing is kept: the state before a change is computed from the previous body.
    """

    def __init__(self, view: ComputedTopic) -> None:
        self._filter = view.record_filter
        self._fields = None if view.projected is None else _Fields(view.projected)
        self._loaded: list[StateChange] = []

    def load(self, changes: Iterator[Change]) -> None:
        """Add the newest change of each live record."""
        self._loaded = [
            made for change in changes if (made := self._made(change, change.body)).state is not None
        ]

    def change(self, change: Change) -> list[StateChange]:
        """Apply a change; return the record's state if it changes."""
        before, now = self._made(change, change.previous), self._made(change, change.body)
        return [] if before == now else [now]

    def all(self) -> Iterator[StateChange]:
        """Yield the states that were loaded, once."""
        loaded, self._loaded = self._loaded, []
        yield from loaded

    def _made(self, change: Change, body: bytes | None) -> StateChange:
        document = _counted(body, self._filter)
        if document is None or self._fields is None:
            return StateChange(change.sow_key.decode(), None if document is None else body)
        return StateChange(change.sow_key.decode(), self._fields.of(document))


class _Fields:
    """The fields of a projection without aggregates."""

    def __init__(self, projection: Projection) -> None:
        self._fields = [
            (field.output[:-1], field.output[-1], compile_tree(field.expression))
            for field in projection.fields
        ]

    def of(self, document: Document) -> bytes:
        """Return the projection of a document as JSON; a value that is absent is null."""
        made: Document = {}
        for above, name, evaluate in self._fields:
            node = made
            for step in above:
                node = node.setdefault(step, {})
            node[name] = evaluate(document)
        return orjson.dumps(made)


def _counted(body: bytes | None, filter: Filter | None) -> Document | None:
    """Return a body as a document; None if there is none, or if it does not match the view's filter."""
    if body is None:
        return None
    document = orjson.loads(body)
    return document if filter is None or filter.matches(document) else None


def group_key(text: bytes) -> str:
    """Return the key text of a group's record: the values that are grouped by as JSON, or a hash if that is long."""
    return (
        text.decode() if len(text) <= SUPPLIED_BYTES_MAX else f"#{blake2b(text, digest_size=16).hexdigest()}"
    )
