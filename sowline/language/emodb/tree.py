"""The nodes of deltas and conditions, in canonical form; nothing is evaluated here.

In canonical form, entries and sets are sorted, values occur once, and constant parts have their value. `deltas.py`
and `conditions.py` create the nodes and explain how. Nodes are immutable and define no equality: two are equal if
their texts are equal.
"""

from dataclasses import dataclass

from sowline.language.emodb.values import Json
from sowline.model.json_parts import Part

Entries = tuple[tuple[str, "Delta"], ...]
Tests = tuple[tuple[str, "Condition"], ...]


@dataclass(frozen=True, slots=True, eq=False)
class LiteralDelta:
    """The value itself, for every previous value."""

    value: Part


@dataclass(frozen=True, slots=True, eq=False)
class Delete:
    """`~`: UNDEFINED, for every previous value."""


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
    """Whether no case results in UNDEFINED."""


Delta = LiteralDelta | Delete | Noop | MapDelta | SetDelta | Conditional


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """`alwaysTrue()` or `alwaysFalse()`."""

    holds: bool


@dataclass(frozen=True, slots=True, eq=False)
class Equal:
    """A value: matches the same value of the same kind."""

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
    """`like(pattern)`: a text that begins with the first piece, ends with the last, and contains the others."""

    pattern: str
    pieces: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Contains:
    """`containsAny`, `containsAll` or `containsOnly`, by `which`: `Any`, `All` or `Only`; values all different."""

    which: str
    values: tuple[Json, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Intrinsic:
    """`intrinsic(name:test)`: the test holds for an intrinsic of the document."""

    name: str
    test: "Condition"


@dataclass(frozen=True, slots=True, eq=False)
class PartitionTest:
    """`partition(count:test)`: the test holds for the number, from 1, of the document's part."""

    count: int
    test: "Condition"


@dataclass(frozen=True, slots=True, eq=False)
class MapTest:
    """`{..,"key":test}`: an object for whose keys all tests hold."""

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
