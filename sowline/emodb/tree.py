"""The nodes of a delta and of its conditions, in canonical form; nothing is evaluated here.

Canonical: entries are sorted by key, sets as sets sort, values that say the same twice are one, and what is constant
is worked out (`deltas.py` and `conditions.py` make the nodes, and say how). Nodes are immutable and know no
equality of their own: two are equal when their texts are.
"""

from dataclasses import dataclass

from sowline.emodb.values import Json

Entries = tuple[tuple[str, "Delta"], ...]
Tests = tuple[tuple[str, "Condition"], ...]


@dataclass(frozen=True, slots=True, eq=False)
class LiteralDelta:
    """The value itself, whatever was there before."""

    value: Json


@dataclass(frozen=True, slots=True, eq=False)
class Delete:
    """`~`: UNDEFINED, whatever was there before."""


@dataclass(frozen=True, slots=True, eq=False)
class Noop:
    """`..`: keeps the previous value."""


@dataclass(frozen=True, slots=True, eq=False)
class MapDelta:
    """`{..,"key":delta}`: an object, its keys changed one by one. Without `..` the others are dropped."""

    keeps_rest: bool
    entries: Entries
    deletes_empty: bool


@dataclass(frozen=True, slots=True, eq=False)
class SetDelta:
    """`(..,added,~removed)`: an array, sorted and without duplicates. Without `..` only what is added."""

    keeps_rest: bool
    added: tuple[Json, ...]
    removed: tuple[Json, ...]
    deletes_empty: bool


@dataclass(frozen=True, slots=True, eq=False)
class Conditional:
    """`if test then delta elif … else otherwise end`: the delta of the first case whose test holds."""

    cases: tuple[tuple["Condition", "Delta"], ...]
    otherwise: "Delta"
    always_defined: bool
    """Whether no case can give UNDEFINED."""


Delta = LiteralDelta | Delete | Noop | MapDelta | SetDelta | Conditional


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """`alwaysTrue()` or `alwaysFalse()`."""

    holds: bool


@dataclass(frozen=True, slots=True, eq=False)
class Equal:
    """A value: the same, of the same kind."""

    value: Json


@dataclass(frozen=True, slots=True, eq=False)
class InTest:
    """`in(values)`: two or more, all different."""

    values: tuple[Json, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Is:
    """`is(state)`: `undefined`, `defined`, `bool`, `num`, `string`, `array` or `object`."""

    state: str


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonTest:
    """`operator(operand)`, the operator one of `gt ge lt le`, the operand a number or a text."""

    operator: str
    operand: int | float | str


@dataclass(frozen=True, slots=True, eq=False)
class LikeTest:
    """`like(pattern)`: a text that begins with the first of the pieces, ends with the last, and holds the others."""

    pattern: str
    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Contains:
    """`containsAny`, `containsAll` or `containsOnly`, by `which`: `Any`, `All` or `Only`; values all different."""

    which: str
    values: tuple[Json, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Intrinsic:
    """`intrinsic(name:test)`: the test of an intrinsic of the document."""

    name: str
    test: "Condition"


@dataclass(frozen=True, slots=True, eq=False)
class PartitionTest:
    """`partition(count:test)`: the test of the number, from 1, of the part that the document falls in."""

    count: int
    test: "Condition"


@dataclass(frozen=True, slots=True, eq=False)
class MapTest:
    """`{..,"key":test}`: an object of which every test holds, each of its key."""

    tests: Tests
    weight: int


@dataclass(frozen=True, slots=True, eq=False)
class NotTest:
    """`not(test)`."""

    test: "Condition"
    weight: int


@dataclass(frozen=True, slots=True, eq=False)
class AndTest:
    """`and(tests)`, two or more."""

    tests: tuple["Condition", ...]
    weight: int


@dataclass(frozen=True, slots=True, eq=False)
class OrTest:
    """`or(tests)`, two or more, none of them an `OrTest`; at most one `Equal` or `InTest`, and it comes first."""

    tests: tuple["Condition", ...]
    weight: int


Condition = (
    Constant
    | Equal
    | InTest
    | Is
    | ComparisonTest
    | LikeTest
    | Contains
    | Intrinsic
    | PartitionTest
    | MapTest
    | NotTest
    | AndTest
    | OrTest
)
