"""The groups of all partitions, merged from the states that several processes have exported. Pure.

Each process sends the state of a group of its partitions whenever it changes. A result is made from the newest states
of all processes, so it equals that of one process with all records, to the last bit.
"""

from collections.abc import Hashable, Iterator, Sequence

from sowline.language.expressions.projection import Projection
from sowline.language.groups.engine import group_domain, too_many_groups
from sowline.language.groups.layout import ExportedGroup, Layout
from sowline.model.key import sow_key as hashed
from sowline.model.path import Path


class MergedGroups:
    """The groups, by SOW key. `source` names the process that has exported a state."""

    def __init__(
        self, topic: str, grouping: Sequence[Path], projection: Projection, *, groups_max: int
    ) -> None:
        """Begin without groups; at most `groups_max` may exist at a time, after the merge."""
        self._domain = group_domain(topic, grouping)
        self._layout = Layout(grouping, projection)
        self._groups_max = groups_max
        self._states: dict[bytes, dict[Hashable, ExportedGroup]] = {}
        self._bodies: dict[bytes, bytes] = {}
        """The results that were computed since the last change of their group."""

    def __len__(self) -> int:
        return len(self._states)

    @property
    def tells_latest(self) -> bool:
        """Whether results have fields of the record that changed last."""
        return self._layout.tells_latest

    @property
    def members(self) -> int:
        """The number of records in the groups."""
        return sum(state.records for states in self._states.values() for state in states.values())

    def put(self, source: Hashable, exported: bytes) -> bytes:
        """Take the state of a group at a source, in place of the previous one; return the group's SOW key.

        Raise `too many groups`, without any effect.
        """
        state = ExportedGroup.read(exported)
        sow_key = hashed(self._domain, state.key)
        states = self._states.get(sow_key)
        if states is None:
            if len(self._states) >= self._groups_max:
                raise too_many_groups(self._groups_max)
            states = self._states[sow_key] = {}
        states[source] = state
        self._bodies.pop(sow_key, None)
        return sow_key

    def remove(self, source: Hashable, sow_key: bytes) -> None:
        """Drop the state of a group at a source that no longer has records of it."""
        states = self._states[sow_key]
        del states[source]
        self._bodies.pop(sow_key, None)
        if not states:
            del self._states[sow_key]

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the SOW key and the result of each group, in the order of the SOW keys."""
        for sow_key in sorted(self._states):
            yield sow_key, self._body(sow_key)

    def body(self, sow_key: bytes) -> bytes | None:
        """Return the result of the group with this SOW key; None if there is no such group."""
        return self._body(sow_key) if sow_key in self._states else None

    def _body(self, sow_key: bytes) -> bytes:
        body = self._bodies.get(sow_key)
        if body is None:
            # From all states each time: none of them can be taken out of a result once it is in.
            states = self._states[sow_key].values()
            group = self._layout.new_group(next(iter(states)).key.encode(), sow_key)
            for state in states:
                group.merge(state)
            body = self._bodies[sow_key] = self._layout.body(group)
        return body
