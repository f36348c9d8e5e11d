"""The groups of a view in a source partition, kept by the native core, which reads plain records by itself. Pure.

`GroupedStates` is the specification: the native core gives byte-equal results. Python reads the group and
the arguments of a record that is not plain. Python also takes over a state that gets a value that is not plain.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final, NamedTuple

from sowline.changes.change import Change
from sowline.commands.key_rule import FieldKeys
from sowline.config.views import ComputedTopic
from sowline.errors import StartAgain
from sowline.language.filter.numbers import parse_number
from sowline.language.filter.tree import And, Comparison, Field, In, Literal, Node
from sowline.language.groups.engine import group_domain
from sowline.language.groups.layout import Layout, class_name, exported_text
from sowline.language.groups.sums import Sums
from sowline.model.key import sow_key as hashed
from sowline.model.path import Document, Path, Scalar
from sowline.native import raise_unless_panic
from sowline_views.core.joined_tables import JoinedTable, KeyedTable
from sowline_views.core.states import GroupedStates, Order, StateChange, States, group_key, states_of

Names = tuple[str, ...]

JoinedRow = tuple[bytes, list[bytes | None]]
"""The body of a record, and the bodies of its joined records; None for no match."""


class _Argument(NamedTuple):
    """An argument of aggregates: a path, or an integer."""

    path: Names
    constant: int | None


class _Condition(NamedTuple):
    """A condition of the filter: one of these texts is at a path."""

    path: Names
    texts: list[str]


class _StateRule(NamedTuple):
    """A state: the name of its class, and the number of its argument."""

    kind: str
    argument: int


class _Reader(NamedTuple):
    """How the native core reads the records of a view."""

    grouping: list[Names]
    arguments: list[_Argument]
    conditions: list[_Condition]
    joined: list[str]
    join_keys: list[tuple[list[Names], bytes]]


class _Rule(NamedTuple):
    """How the native core keeps the groups of a view."""

    states: list[_StateRule]
    reader: _Reader | None
    adopted: Callable[[int, list[tuple[Any, int]]], Any]
    exported: Callable[[bytes, int, list[Any]], bytes]


class _OtherThanPlain(Exception):
    """Only Python can read the records of a view."""


def native_states(
    view: ComputedTopic, partition: int, module: Any, tables: Sequence[JoinedTable] = ()
) -> States:
    """Return the states of a view in a source partition, without records, as the native core keeps them.

    `module` is `sowline_native`. Without it, and in a view that it does not know, Python keeps the states. `tables`
    are those of the view's joins.
    """
    if module is not None and view.grouping_paths:
        states = NativeGroupedStates(view, partition, module, tables)
        # A field of the latest record needs the order of the records, which the native core doesn't keep.
        if not states.tells_latest:
            return states
    return states_of(view, partition)


class NativeGroupedStates(GroupedStates):
    """The states of the groups of a view."""

    def __init__(
        self, view: ComputedTopic, partition: int, module: Any, tables: Sequence[JoinedTable] = ()
    ) -> None:
        super().__init__(view, partition)
        fields = view.projected
        assert fields is not None, "a grouping has a projection"
        self._layout = layout = Layout(view.grouping_paths, fields)
        self._domain = group_domain(view.name, view.grouping_paths)
        join_keys = _join_keys(tables)
        self.has_join_keys = join_keys is not None
        """Whether the native core may find the matches of a record."""
        states = [_StateRule(class_name(new_state), argument) for new_state, argument in layout.states]
        reader = _reader(view, layout, join_keys or [])
        self._native = module.Groups(_Rule(states, reader, _Adopted(layout), _exported))

    @property
    def tells_latest(self) -> bool:
        """Whether results have fields of the record that changed last."""
        return self._layout.tells_latest

    def load(self, changes: Iterator[Change]) -> None:
        """Add the newest change of each live record."""
        for change in changes:
            assert change.body is not None, "a load has live records only"
            if self.change_rows(None, _row(change.body)) is None:
                super().load(iter((change,)))

    def change(self, change: Change) -> list[StateChange]:
        """Apply a change; return the states of its group, or of both groups if the record moves."""
        made = self.change_rows(_row(change.previous), _row(change.body))
        return super().change(change) if made is None else made

    def change_rows(self, before: JoinedRow | None, now: JoinedRow | None) -> list[StateChange] | None:
        """Replace a record with another, each None if absent; return the changed states.

        Return None, without any effect, if only Python can read one of them.
        """
        made = self._called(self._native.change, before, now)
        return None if made is None else _changes(made)

    def join_keys(self, body: bytes) -> list[bytes] | None:
        """Return the join keys of a record of the source; None if only Python can make them."""
        keys: list[bytes] | None = self._called(self._native.keys, body)
        return keys

    def replace(
        self, sow_key: bytes, before: Document | None, now: Document | None, order: Order
    ) -> list[StateChange]:
        """Replace a document with another; return the states of their groups, if they change."""
        left, entered = self._input(before), self._input(now)
        return _changes(self._called(self._native.replace, left, entered))

    def _input(self, document: Document | None) -> tuple[bytes, list[Scalar]] | None:
        counted = self._counted(document)
        return None if counted is None else self._layout.read(counted)[:2]

    def take_loaded(self) -> Iterator[StateChange]:
        """Yield the states of all groups."""
        made: list[tuple[bytes, bytes | None]] = self._called(self._native.records)
        # Python yields groups in the order of their SOW keys.
        made.sort(key=lambda one: hashed(self._domain, one[0].decode()))
        assert all(state is not None for _, state in made), "a group that was loaded has a state"
        return iter(_changes(made))

    def _called(self, call: Callable[..., Any], *given: Any) -> Any:
        try:
            return call(*given)
        except BaseException as error:
            raise_unless_panic(error, f"view partition {self._partition}")
            # Half of a change may be in the groups: they are made from all records, by Python
            # (test_a_panic_leaves_the_view_to_python).
            raise StartAgain("the native core failed") from None


class _Adopted:
    """Makes Python's states from the native core's values."""

    def __init__(self, layout: Layout) -> None:
        self._states = layout.states

    def __call__(self, number: int, values: list[tuple[Any, int]]) -> Any:
        """Return a state with these values: counts and sums, or values and how often each occurs."""
        state = self._states[number][0]()
        # The native core has only the total of a sum, not the values that were added.
        if isinstance(state, Sums):
            for count, integers in values:
                state.merge((count, 0, integers, 0, 0, 0, 0))
            return state
        assert all(count > 0 for _, count in values), "a value that occurs is counted"
        for value, count in values:
            for _ in range(count):
                state.add(value)
        return state


def _row(body: bytes | None) -> JoinedRow | None:
    """Return a record without joins as a row."""
    return None if body is None else (body, [])


def _exported(key: bytes, records: int, states: list[Any]) -> bytes:
    return exported_text(key, records, states, None)


def _changes(made: Collection[tuple[bytes, bytes | None]]) -> list[StateChange]:
    return [StateChange(group_key(key), state) for key, state in made]


def _reader(
    view: ComputedTopic, layout: Layout, join_keys: list[tuple[list[Names], bytes]]
) -> _Reader | None:
    """Return how the native core reads the records; None if only Python can."""
    condition = view.record_filter
    try:
        # One path that is not plain leaves all records to Python: none is read in part by each.
        return _Reader(
            [_names(path) for path in view.grouping_paths],
            [_argument(tree) for tree in layout.argument_trees],
            [] if condition is None else _conditions(condition.tree),
            [join.name for join in view.joins],
            join_keys,
        )
    except _OtherThanPlain:
        return None


def _names(path: Path) -> Names:
    # The native core reads no elements of arrays.
    names = tuple(step for step in path.steps if isinstance(step, str))
    if len(names) < len(path.steps):
        raise _OtherThanPlain
    return names


def _argument(tree: Node) -> _Argument:
    match tree:
        case Field(path):
            return _Argument(_names(path), None)
        # The native core has 64-bit integers. `type`, because `True` matches `int()` too.
        case Literal(int() as number) if type(number) is int and abs(number) < _INTEGER_END:
            return _Argument((), number)
        case _:
            raise _OtherThanPlain


_INTEGER_END: Final = 1 << 63


def _conditions(tree: Node) -> list[_Condition]:
    """Return conditions that hold for the same records as a filter."""
    match tree:
        case And(terms):
            return [one for term in terms for one in _conditions(term)]
        case In(Field(path), items):
            return [_Condition(_names(path), [_text(item) for item in items])]
        case Comparison("=", Field(path), item) | Comparison("=", item, Field(path)):
            return [_Condition(_names(path), [_text(item)])]
        case _:
            raise _OtherThanPlain


def _text(item: Node) -> str:
    """Return a text that equals only itself."""
    text = item.value if isinstance(item, Literal) else None
    # The native core compares texts only. An empty text is NULL, and the text of a number also equals the number.
    if not isinstance(text, str) or not text or parse_number(text) is not None:
        raise _OtherThanPlain
    return text


def _join_keys(tables: Sequence[JoinedTable]) -> list[tuple[list[Names], bytes]] | None:
    """Return the paths and the key domain of each join; None if the native core does not know one of them."""
    found: list[tuple[list[Names], bytes]] = []
    joined = {table.join.name for table in tables}
    for table in tables:
        topic, rule = table.topic.identity, table.topic.identity.key_rule
        # The native core makes only SOW keys that are hashes of fields.
        if not isinstance(table, KeyedTable) or topic.view is not None or not isinstance(rule, FieldKeys):
            return None
        ours = {tuple(map(str, theirs.steps)): own for own, theirs in table.join.equalities}
        try:
            paths = [_names(ours[path]) for path in topic.key_paths]
        except _OtherThanPlain:
            return None
        # A key may come from a record that an earlier join added. The native core reads the source's record only.
        if any(path[0] in joined for path in paths):
            return None
        found.append((paths, topic.declared.domain_prefix))
    return found
