"""The groups of a topic's records, kept up to date change by change: events in, changed groups out. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sowline.errors import SowlineError
from sowline.language.expressions.projection import Projection
from sowline.language.groups.latest import Order
from sowline.language.groups.layout import GroupInput, GroupState, Layout
from sowline.model.key import sow_key as hashed
from sowline.model.path import Document, Path


class GroupChange(NamedTuple):
    """The change of one group's result.

    `body` is the new result, None if the group no longer exists. `previous` is the result before, None if the group
    did not exist. Both are equal if a record of the group changed, but the result did not. `key` is the text of the
    values that are grouped by.
    """

    sow_key: bytes
    body: bytes | None
    previous: bytes | None
    key: bytes


class Groups:
    """The groups of the records that were added: those that match the filter, if there is one.

    The results depend only on these records and the order of their last changes. To save memory, the groups do not
    keep the values of each record; they read them again from `before` when the record changes. So `before` must be
    the document that was `now` in the record's last change. If the projection has fields that are neither grouped by
    nor aggregated, these fields and the order are kept for each record.
    """

    def __init__(
        self, topic: str, grouping: Sequence[Path], projection: Projection, *, groups_max: int
    ) -> None:
        """Make groups without records; at most `groups_max` may exist at a time."""
        self._domain = group_domain(topic, grouping)
        self._layout = Layout(grouping, projection)
        self._groups_max = groups_max
        self._groups: dict[bytes, GroupState] = {}
        self._by_sow_key: dict[bytes, GroupState] = {}
        self._orders: dict[bytes, Order] = {}
        """When each record last changed, if the projection shows fields of the latest record."""
        self._changed: set[GroupState] | None = None
        """The groups whose memory was not counted since they changed; None if it was never asked for."""
        self._nbytes = 0

    def __len__(self) -> int:
        return len(self._groups)

    def measure(self) -> int:
        """Return the estimated memory of the groups, in bytes; it counts those that changed since the last call."""
        changed, self._changed = self._changed, set()
        for group in self._groups.values() if changed is None else changed:
            now = group.nbytes if group.records else 0
            self._nbytes += now - group.counted_bytes
            group.counted_bytes = now
        return self._nbytes

    def _note_changed(self, group: GroupState) -> None:
        if self._changed is not None:
            self._changed.add(group)

    @property
    def tells_latest(self) -> bool:
        """Whether results have fields of the record that changed last."""
        return self._layout.tells_latest

    @property
    def members(self) -> int:
        """The number of records in the groups."""
        return sum(group.records for group in self._groups.values())

    def load(self, records: Iterable[tuple[bytes, Document, Order]]) -> None:
        """Add new records, each with its SOW key, document and order.

        Raise `too many groups`; the records before the one that exceeds the limit are added.
        """
        for sow_key, document, order in records:
            reading = self._layout.read(document)
            self._check_room(None, reading)
            self._add(sow_key, reading, order)

    def change(
        self, sow_key: bytes, before: Document | None, now: Document | None, order: Order
    ) -> list[GroupChange]:
        """Apply a change of a record; return the change of its group, or of both groups if it moves, the old first.

        None means that the record is not in the groups, before or after. Every update returns a change, even if the
        result stays the same. Raise `too many groups`, without any effect.
        """
        left = None if before is None else self._layout.read(before)
        entered = None if now is None else self._layout.read(now)
        if left is not None and entered is not None and left.key == entered.key:
            return [self._replace(sow_key, left, entered, order)]
        if entered is not None:
            # Before the record leaves its group: a refusal has no effect.
            self._check_room(left, entered)
        changes = [] if left is None else [self._take_out(sow_key, left)]
        if entered is not None:
            changes.append(self._take_in(sow_key, entered, order))
        return changes

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the SOW key and the result of each group, in the order of the SOW keys."""
        for group in sorted(self._groups.values(), key=lambda group: group.sow_key):
            yield group.sow_key, self._body(group)

    def body(self, sow_key: bytes) -> bytes | None:
        """Return the result of the group with this SOW key; None if there is no such group."""
        group = self._by_sow_key.get(sow_key)
        return None if group is None else self._body(group)

    def _replace(self, sow_key: bytes, left: GroupInput, entered: GroupInput, order: Order) -> GroupChange:
        group = self._group_of(left)
        self._note_changed(group)
        previous = self._body(group)
        for state, (_, argument) in zip(group.states, self._layout.states, strict=True):
            old, new = left.arguments[argument], entered.arguments[argument]
            # In Python, 1, 1.0 and True are equal, but a sum of doubles is a double.
            if old.__class__ is not new.__class__ or old != new:
                state.remove(old)
                state.add(new)
                group.body = None
        if group.latest is not None:
            group.latest.remove(self._orders[sow_key], sow_key)
            group.latest.add(order, sow_key, entered.others)
            self._orders[sow_key] = order
            group.body = None
        return GroupChange(group.sow_key, self._body(group), previous, group.key)

    def _take_out(self, sow_key: bytes, left: GroupInput) -> GroupChange:
        group = self._group_of(left)
        previous = self._body(group)
        self._note_changed(group)
        group.body = None
        group.records -= 1
        if not group.records:
            del self._groups[left.key], self._by_sow_key[group.sow_key]
        for state, (_, argument) in zip(group.states, self._layout.states, strict=True):
            state.remove(left.arguments[argument])
        if group.latest is not None:
            group.latest.remove(self._orders.pop(sow_key), sow_key)
        return GroupChange(group.sow_key, self._body(group) if group.records else None, previous, group.key)

    def _take_in(self, sow_key: bytes, entered: GroupInput, order: Order) -> GroupChange:
        group = self._groups.get(entered.key)
        # Before the change, because the states give a result only when it is asked for: later it would have the new
        # record.
        previous = None if group is None else self._body(group)
        group = self._add(sow_key, entered, order)
        return GroupChange(group.sow_key, self._body(group), previous, group.key)

    def _add(self, sow_key: bytes, entered: GroupInput, order: Order) -> GroupState:
        """Add a record to its group; make the group if it does not exist."""
        group = self._group_for(entered.key)
        self._note_changed(group)
        group.body = None
        group.records += 1
        for state, (_, argument) in zip(group.states, self._layout.states, strict=True):
            state.add(entered.arguments[argument])
        if group.latest is not None:
            group.latest.add(order, sow_key, entered.others)
            self._orders[sow_key] = order
        return group

    def _group_for(self, key: bytes) -> GroupState:
        """Return the group with these values; make it if it does not exist."""
        group = self._groups.get(key)
        if group is None:
            sow_key = hashed(self._domain, key.decode())
            group = self._groups[key] = self._layout.new_group(key, sow_key)
            self._by_sow_key[sow_key] = group
        return group

    def _check_room(self, left: GroupInput | None, entered: GroupInput) -> None:
        """Raise if the record would make one group too many."""
        if entered.key in self._groups:
            return
        # A group that loses its last record makes room for the new one.
        ends = left is not None and self._group_of(left).records == 1
        if len(self._groups) - ends >= self._groups_max:
            raise too_many_groups(self._groups_max)

    def _group_of(self, left: GroupInput) -> GroupState:
        group = self._groups.get(left.key)
        assert group is not None, f"a record leaves group {left.key!r}, which has no records"
        return group

    def _body(self, group: GroupState) -> bytes:
        if group.body is None:
            self._note_changed(group)
            group.body = self._result(group)
        return group.body

    def _result(self, group: GroupState) -> bytes:
        return self._layout.body(group)


class GroupStates(Groups):
    """Groups whose results are their states as JSON, for `MergedGroups` to merge with those of other processes."""

    def _result(self, group: GroupState) -> bytes:
        return group.exported()


def group_domain(topic: str, grouping: Sequence[Path]) -> bytes:
    """Return the text from which, with a group's values, its SOW key is made."""
    return f"{topic} by {','.join(map(str, grouping))}\0".encode()


def too_many_groups(groups_max: int) -> SowlineError:
    """Return the error for one group above the limit."""
    return SowlineError(
        "too many groups",
        f"expected at most {groups_max} groups, got one more"
        " (group by a field with fewer values, or filter the records)",
    )
