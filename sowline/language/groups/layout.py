"""A compiled grouping and projection: the inputs from a record, the state of a group, and the group's body.

The expressions of a group are evaluated over a document of slots. There is one slot for each value of the grouping,
for each aggregate's result, and for each other field, which has the latest record's value.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import msgspec
import orjson

from sowline.language.expressions.projection import Projection, is_aggregate
from sowline.language.filter.evaluate import first
from sowline.language.filter.expression import compile_tree
from sowline.language.filter.numbers import INT64_MIN, UINT64_MAX
from sowline.language.filter.tree import Call, Field, Literal, Node, rebuilt
from sowline.language.groups.aggregates import AggregateState, aggregate
from sowline.language.groups.latest import Latest
from sowline.model.body import trimmed_json
from sowline.model.path import Document, Path, Scalar, Value, reader

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
"""Unlike orjson, msgspec writes and reads integers of any size, which exact sums have."""

Evaluate = Callable[[Document], Value]


_INFINITY = re.compile(r'"(?:[^"\\]|\\.)*"|Infinity')
"""A string in JSON, or the infinity outside of strings that Python writes."""


class GroupInput(NamedTuple):
    """The inputs from a record: the key text of its group, the arguments of the aggregates, and the other fields."""

    key: bytes
    arguments: list[Scalar]
    others: list[Value]


GROUP_BYTES = 700
STATE_BYTES = 200
"""The memory of a group, and of the state of one of its aggregates, without the values that they keep."""


class GroupState:
    """The records with the same values in the fields that are grouped by."""

    __slots__ = ("body", "counted_bytes", "key", "latest", "records", "slots", "sow_key", "states")

    def __init__(
        self,
        key: bytes,
        sow_key: bytes,
        slots: dict[str, Scalar],
        states: list[AggregateState],
        latest: Latest | None,
    ) -> None:
        self.key = key
        """The text of the values that are grouped by."""
        self.sow_key = sow_key
        self.slots = slots
        """The values of the grouping fields, in their slots."""
        self.states = states
        self.latest = latest
        """The latest record, if the projection shows fields of it."""
        self.records = 0
        self.counted_bytes = 0
        """Its memory when that was last counted."""
        self.body: bytes | None = None
        """The projection, if it was computed since the last change."""

    @property
    def nbytes(self) -> int:
        """Its estimated memory, in bytes."""
        kept = sum(state.nbytes for state in self.states) + len(self.states) * STATE_BYTES
        kept += 0 if self.latest is None else self.latest.nbytes
        return GROUP_BYTES + kept + 2 * len(self.key) + len(self.body or b"")

    def exported(self) -> bytes:
        """Return the state as JSON, which `merge` adds to that of a group with the same values."""
        latest = None if self.latest is None else self.latest.exported()
        return exported_text(self.key, self.records, [state.exported() for state in self.states], latest)

    def merge(self, exported: "ExportedGroup") -> None:
        """Add the records of a group that was exported. A merged record can't be changed afterwards."""
        self.records += exported.records
        for state, more in zip(self.states, exported.states, strict=True):
            state.merge(more)
        if self.latest is not None:
            self.latest.merge(exported.latest)


def exported_text(key: bytes, records: int, states: list[Any], latest: Any) -> bytes:
    """Return a group as JSON, from the exported states of its parts."""
    assert records > 0, "a group has records"
    if latest is None and b"null" not in (exported := _encode(states)):
        return b"[%b,%d,%b,null]" % (_encode(key.decode()), records, exported)
    # msgspec writes null for an infinity.
    text = json.dumps([key.decode(), records, states, latest])
    # JSON has no infinity: readers would refuse the state (test_an_infinite_extreme_can_be_read).
    return (_INFINITY.sub(_beyond_doubles, text) if "Infinity" in text else text).encode()


class ExportedGroup(NamedTuple):
    """The state of a group as another process has exported it."""

    key: str
    records: int
    states: list[Any]
    latest: Any

    @classmethod
    def read(cls, text: bytes) -> Self:
        """Return the state in the JSON of `GroupState.exported`; raise ValueError if it is of no records.

        A state may come from a log that others can write. An assertion would stop the partition
        (test_a_state_that_can_not_be_read_is_refused).
        """
        try:
            exported = cls(*_decode(text))
        except msgspec.DecodeError:  # an infinity
            exported = cls(*json.loads(text))
        if exported.records < 1:
            raise ValueError(f"expected the number of records of a group, at least 1, got {exported.records}")
        return exported


@dataclass(frozen=True, slots=True)
class _Result:
    """An aggregate's result: the state that it is read from, the function that reads it, and its slot."""

    slot: str
    state: int
    read: Callable[[Any], Scalar]


class FieldRule(NamedTuple):
    """A field of a template: the name of an aggregate and the number of its state, or `group` and that of a value."""

    result: str
    number: int


class Template(NamedTuple):
    """The template of groups' bodies, if each field is a value or the result of a simple aggregate.

    - `pieces`: the JSON around the fields, one more than there are fields.
    - `fields`: the fields, in the order of the JSON.
    - `states`: the classes of the states by name.
    - `grouped_by`: the number of values that records are grouped by.
    """

    pieces: list[bytes]
    fields: list[FieldRule]
    states: list[str]
    grouped_by: int


_RESULTS: Final = {"ANY": "MIN", **{name: name for name in ("COUNT", "SUM", "AVG", "MIN", "MAX")}}
"""The aggregates of a template, each with the one that has the same result."""

_MARK: Final = re.compile(rb"\x00(\d+)\x00")
"""Stands for a field in the JSON of a template: no JSON has a zero byte."""


class _Slots:
    """Gives every aggregate and every field of a projection its slot; equal ones share theirs."""

    def __init__(self, grouping: Sequence[Path]) -> None:
        self.names: dict[Node, str] = {Field(path): f"group {n}" for n, path in enumerate(grouping)}
        self.aggregates: dict[Call, str] = {}
        self.others: dict[Field, str] = {}

    def slotted(self, node: Node) -> Node:
        """Return the tree with slots in place of aggregates and fields."""
        if isinstance(node, Field) and node not in self.names:
            self.names[node] = self.others[node] = f"other {len(self.others)}"
        elif isinstance(node, Call) and is_aggregate(node) and node not in self.names:
            self.names[node] = self.aggregates[node] = f"aggregate {len(self.aggregates)}"
        name = self.names.get(node)
        return rebuilt(node, self.slotted) if name is None else Field(Path((name,)))


class ResultFields:
    """The fields of a projection, each with its output path and its expression, ready to be evaluated."""

    def __init__(self, fields: Iterable[tuple[tuple[str, ...], Node]]) -> None:
        fields = list(fields)
        self.expressions = [expression for _, expression in fields]
        self._fields = [(output[:-1], output[-1], compile_tree(expression)) for output, expression in fields]

    def of(self, document: Document) -> bytes:
        """Return the result for a document as JSON; a value that is absent, or that JSON can't represent, is null."""
        return self._written([evaluate(document) for _, _, evaluate in self._fields])

    def marked(self) -> bytes:
        """Return the JSON of a result with a mark in place of each value."""
        return self._written(orjson.Fragment(b"\0%d\0" % number) for number in range(len(self._fields)))

    def _written(self, values: Iterable[Any]) -> bytes:
        result: Document = {}
        for (above, name, _), value in zip(self._fields, values, strict=True):
            node = result
            for step in above:
                node = node.setdefault(step, {})
            node[name] = value
        return trimmed_json(result)


class Layout:
    """The layout of groups for one grouping and projection."""

    def __init__(self, grouping: Sequence[Path], projection: Projection) -> None:
        slots = _Slots(grouping)
        self._fields = ResultFields(
            (field.output, slots.slotted(field.expression)) for field in projection.fields
        )
        self._grouping = [reader(path) for path in grouping]
        self._group_slots = [slots.names[Field(path)] for path in grouping]
        self._others = [reader(field.path) for field in slots.others]
        self._other_slots = list(slots.others.values())
        self._lay_out_states(slots)

    def _lay_out_states(self, slots: _Slots) -> None:
        self._rules: dict[Node, FieldRule] = {
            Field(Path((slot,))): FieldRule("group", n) for n, slot in enumerate(self._group_slots)
        }
        arguments: dict[Node, int] = {}
        states: dict[tuple[Callable[[], AggregateState], int], int] = {}
        self._results: list[_Result] = []
        for call, slot in slots.aggregates.items():
            new_state, read = aggregate(call.name, *_literals(call.arguments[1:]))
            # Equal arguments are evaluated once for a record, and equal states kept once for a group: AVG and SUM
            # share theirs (test_equal_aggregates_share_a_state).
            argument = arguments.setdefault(call.arguments[0], len(arguments))
            state = states.setdefault((new_state, argument), len(states))
            self._results.append(_Result(slot, state, read))
            if call.name in _RESULTS:
                self._rules[Field(Path((slot,)))] = FieldRule(_RESULTS[call.name], state)
        self.argument_trees = list(arguments)
        self._arguments = [compile_tree(tree) for tree in arguments]
        self.states = list(states)
        """For each state of a group, the function that makes it, and the number of its argument."""

    @property
    def tells_latest(self) -> bool:
        """Whether results have fields of the record that changed last."""
        return bool(self._others)

    def read(self, document: Document) -> GroupInput:
        """Return the inputs from a record."""
        return GroupInput(
            trimmed_json([grouped_value(read(document)) for read in self._grouping]),
            [first(evaluate(document)) for evaluate in self._arguments],
            [read(document) for read in self._others],
        )

    def new_group(self, key: bytes, sow_key: bytes) -> GroupState:
        """Return a new group without records."""
        values = dict(zip(self._group_slots, orjson.loads(key), strict=True))
        states = [new_state() for new_state, _ in self.states]
        return GroupState(key, sow_key, values, states, Latest() if self._others else None)

    @property
    def template(self) -> Template | None:
        """The template of the bodies; None if a field is computed from several, or from the latest record."""
        classes = [class_name(new_state) for new_state, _ in self.states]
        rules = [self._rules.get(expression) for expression in self._fields.expressions]
        if not all(rules) or not {"Count", "OrderedValues", "Sums"}.issuperset(classes):
            return None
        pieces = _MARK.split(self._fields.marked())
        fields = [rule for number in pieces[1::2] if (rule := rules[int(number)]) is not None]
        return Template(pieces[::2], fields, classes, len(self._grouping))

    def body(self, group: GroupState) -> bytes:
        """Return the projection of a group as JSON; a value that is absent, or that JSON can't represent, is null."""
        slots: Document = dict(group.slots)
        for result in self._results:
            slots[result.slot] = result.read(group.states[result.state])
        if group.latest is not None:
            slots.update(zip(self._other_slots, group.latest.values(), strict=True))
        return self._fields.of(slots)


def class_name(new_state: Callable[[], AggregateState]) -> str:
    """Return the name of a state's class."""
    return getattr(new_state, "__name__", "")


def _beyond_doubles(match: re.Match[str]) -> str:
    """Return a number that is read as infinity in place of the word."""
    return "1e999" if match[0] == "Infinity" else match[0]


def _literals(nodes: Sequence[Node]) -> list[Any]:
    return [node.value for node in nodes if isinstance(node, Literal)]


def grouped_value(value: Value) -> Scalar:
    """Return the canonical form of a value for grouping: 1.0 becomes 1, because they are equal."""
    scalar = first(value)
    # Equal values must be one group, whichever record comes first (test_which_values_are_one_group).
    if isinstance(scalar, float) and scalar.is_integer() and INT64_MIN <= scalar <= UINT64_MAX:
        return int(scalar)
    return scalar
