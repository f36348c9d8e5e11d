"""Creates the nodes of conditions in canonical form: equivalent forms become one.

`in` of one value becomes an equality, and an `or` of values becomes an `in`. A condition that is always true, or
never, becomes a constant where EmoDB does the same. The functions raise `ValueError` with the problem of their
arguments.
"""

from collections.abc import Iterable, Sequence

from sowline.language.emodb.errors import excerpt
from sowline.language.emodb.intrinsics import FIELDS
from sowline.language.emodb.json_text import json_text
from sowline.language.emodb.like import wildcards
from sowline.language.emodb.text_order import key_order
from sowline.language.emodb.tree import (
    AndTest,
    ComparisonTest,
    Condition,
    Constant,
    Contains,
    Equal,
    InTest,
    Intrinsic,
    Is,
    LikeTest,
    MapTest,
    NotTest,
    OrTest,
    PartitionTest,
)
from sowline.language.emodb.values import Json, identity

ALWAYS = Constant(True)
NEVER = Constant(False)

INT32_MAX = 2**31 - 1

_STATES = ("undefined", "defined", "bool", "num", "string", "array", "object")
_ALIASES = {"map": "object", "list": "array"}


def one_of(values: Iterable[Json]) -> Condition:
    """`in(values)`."""
    different = _different(values)
    if len(different) > 1:
        return InTest(different)
    return Equal(different[0]) if different else NEVER


def state(name: str) -> Condition:
    """`is(name)`, except `is(null)`."""
    name = _ALIASES.get(name, name)
    if name not in _STATES:
        raise ValueError(f"expected one of {', '.join(_STATES)} or null, got {name!r}")
    return Is(name)


def comparison(operator: str, operand: Json) -> Condition:
    """`gt(operand)` and the other comparisons."""
    if type(operand) not in (int, float, str):
        raise ValueError(f"expected a number or a text for {operator}, got {excerpt(json_text(operand))}")
    return ComparisonTest(operator, operand)


def contains(which: str, values: Iterable[Json]) -> Condition:
    """`containsAny(values)` and its variants, by `which`: `Any`, `All` or `Only`."""
    different = _different(values)
    # EmoDB decides so: `containsAny()` holds for everything, though no element can be one of none
    # (test_a_condition_is_canonical).
    if not different and which != "Only":
        return ALWAYS
    return Contains("All" if which == "Any" and len(different) == 1 else which, different)


def intrinsic(name: str, tests: Sequence[Condition]) -> Condition:
    """`intrinsic(name:tests)`: one of the tests holds for the intrinsic."""
    if name not in FIELDS:
        raise ValueError(f"expected one of the intrinsics {', '.join(FIELDS)}, got {name!r}")
    return Intrinsic(name, disjunction(tests))


def partition(count: Json, tests: Sequence[Condition]) -> Condition:
    """`partition(count:tests)`: one of the tests holds for the number of the document's part."""
    if type(count) not in (int, float):
        raise ValueError(f"expected a number of partitions, got {excerpt(json_text(count))}")
    number = _int32(count)
    if number < 1:
        raise ValueError(f"expected at least 1 partition, got {number}")
    test = disjunction(tests)
    _check_partitions(test, number)
    return PartitionTest(number, test)


def map_test(tests: Iterable[tuple[str, Condition]]) -> Condition:
    """`{..,"key":test}`, its keys all different."""
    ordered = tuple(sorted(tests, key=lambda entry: key_order(entry[0])))
    return MapTest(ordered, _weight_of_all(test for _, test in ordered))


def negation(test: Condition) -> Condition:
    """`not(test)`."""
    return test.test if isinstance(test, NotTest) else NotTest(test, weight(test))


def conjunction(tests: Sequence[Condition]) -> Condition:
    """`and(tests)`."""
    if len(tests) < 2:
        return tests[0] if tests else ALWAYS
    return AndTest(tuple(tests), _weight_of_all(tests))


def disjunction(tests: Iterable[Condition]) -> Condition:
    """`or(tests)`: one `in` for all values, then one test for each intrinsic, then the others as written."""
    values: list[Json] = []
    intrinsics: dict[str, list[Condition]] = {}
    others: list[Condition] = []
    for test in _flat(tests):
        match test:
            case Constant(True):
                return ALWAYS
            case Constant(False):
                pass
            case Equal(value):
                values.append(value)
            case InTest(some):
                values += some
            case Intrinsic(name, inner):
                intrinsics.setdefault(name, []).append(inner)
            case _:
                others.append(test)
    terms = [one_of(values)] if values else []
    terms += (Intrinsic(name, disjunction(intrinsics[name])) for name in sorted(intrinsics, key=key_order))
    terms += others
    if len(terms) < 2:
        return terms[0] if terms else NEVER
    return OrTest(tuple(terms), _weight_of_all(terms))


def weight(test: Condition) -> int:
    """Return the cost of a condition by EmoDB's measure, which some canonical orders follow."""
    match test:
        case Constant():
            return 0
        case LikeTest(_, pieces):
            return 1 if wildcards(pieces) < 2 or _is_within(pieces) else 2
        case Contains(_, values):
            return 3 * len(values)
        case MapTest() | NotTest() | AndTest() | OrTest():
            # Kept in the node: computed again from each level down, it would make the work for a deep condition
            # quadratic.
            return test.weight
        case _:
            return 1


def by_weight(tests: Iterable[Condition]) -> list[Condition]:
    """Return the conditions, cheapest first; those of equal cost keep their order."""
    return sorted(tests, key=weight)


def _is_within(pieces: tuple[str, ...]) -> bool:
    """Whether the pattern is `*text*`."""
    return len(pieces) == 3 and not pieces[0] and not pieces[2]


def _weight_of_all(tests: Iterable[Condition]) -> int:
    return sum(map(weight, tests))


def _flat(tests: Iterable[Condition]) -> Iterable[Condition]:
    for test in tests:
        if isinstance(test, OrTest):
            yield from by_weight(test.tests)
        else:
            yield test


def _different(values: Iterable[Json]) -> tuple[Json, ...]:
    return tuple({identity(value): value for value in reversed(list(values))}.values())[::-1]


def _int32(number: int | float) -> int:
    """Return the number as Java's `intValue` returns it: a double stops at the limits, an integer wraps around."""
    if isinstance(number, float):
        return int(max(-(2.0**31), min(number, float(INT32_MAX))))
    return (number + 2**31) % 2**32 - 2**31


def _check_partitions(test: Condition, count: int) -> None:
    """Raise if some part of a partition's test can't be a test of a partition's number."""
    rest = [test]
    while rest:
        match rest.pop():
            case Equal(value):
                _check_partition(value, count)
            case InTest(values):
                for value in values:
                    _check_partition(value, count)
            case NotTest(inner):
                rest.append(inner)
            case AndTest(tests) | OrTest(tests):
                rest += tests
            case LikeTest() | Contains() | MapTest() | Intrinsic() | PartitionTest():
                raise ValueError("expected only tests of a number inside partition")
            case _:
                pass


def _check_partition(value: Json, count: int) -> None:
    if type(value) not in (int, float) or value != int(value):
        raise ValueError(f"expected the whole number of a partition, got {excerpt(json_text(value))}")
    if not 1 <= value <= count:
        raise ValueError(f"expected a partition between 1 and {count}, got {excerpt(json_text(value))}")
