"""The nodes of conditions in canonical form: equivalent ones become one."""

import re
from typing import Any

import pytest

from sowline.language.emodb.conditions import (
    ALWAYS,
    NEVER,
    by_weight,
    comparison,
    conjunction,
    contains,
    disjunction,
    intrinsic,
    map_test,
    negation,
    one_of,
    partition,
    state,
    weight,
)
from sowline.language.emodb.like import like
from sowline.language.emodb.printer import text_of
from sowline.language.emodb.tree import Condition, Equal, Is

LESS, TEXT = comparison("lt", 5), Is("string")


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (one_of([]), "alwaysFalse()"),
        (one_of([1, 1]), "1"),
        (one_of([1, 1.0]), "in(1,1.0)"),
        (state("map"), "is(object)"),
        (state("list"), "is(array)"),
        (contains("Any", []), "alwaysTrue()"),
        (contains("Only", []), "containsOnly()"),
        (contains("Any", [1, 1]), "contains(1)"),
        (contains("Any", [1, 2]), "containsAny(1,2)"),
        (conjunction([]), "alwaysTrue()"),
        (conjunction([LESS]), "lt(5)"),
        (negation(negation(LESS)), "lt(5)"),
        (disjunction([]), "alwaysFalse()"),
        (disjunction([NEVER, LESS]), "lt(5)"),
        (disjunction([LESS, ALWAYS]), "alwaysTrue()"),
        (disjunction([Equal(1), LESS, one_of([2, 3])]), "or(in(1,2,3),lt(5))"),
        (disjunction([disjunction([LESS, TEXT]), TEXT]), "or(lt(5),is(string),is(string))"),
        (
            disjunction(
                [
                    intrinsic("~table", [Equal("t")]),
                    intrinsic("~id", [Equal("a")]),
                    intrinsic("~id", [Equal("b")]),
                ]
            ),
            'or(intrinsic("~id":"a","b"),intrinsic("~table":"t"))',
        ),
        (map_test([("b", LESS), ("~a", TEXT)]), '{..,"~a":is(string),"b":lt(5)}'),
        (partition(4, [Equal(1), LESS]), "partition(4:1,lt(5))"),
        (partition(2.9, [Equal(2)]), "partition(2:2)"),
        (partition(2**32 + 3, [Equal(3)]), "partition(3:3)"),
        (partition(4, [negation(conjunction([LESS, one_of([1, 2])]))]), "partition(4:not(and(lt(5),in(1,2))))"),
    ],
)  # fmt: skip
def test_a_condition_is_canonical(condition: Condition, text: str) -> None:
    """Constants are left out, values are put together, and the rest keeps its order."""
    assert text_of(condition) == text


@pytest.mark.parametrize(
    ("test", "cost"),
    [
        (ALWAYS, 0),
        (LESS, 1),
        (like("a*"), 1),
        (like("*a*"), 1),
        (like("a*b*"), 2),
        (contains("Any", [1, 2]), 6),
        (negation(contains("All", [1])), 3),
        (conjunction([LESS, TEXT]), 2),
        (map_test([("a", LESS), ("b", like("a*b*c"))]), 3),
    ],
)
def test_the_cost_of_a_condition(test: Condition, cost: int) -> None:
    """It decides the order of some canonical texts."""
    assert weight(test) == cost


def test_cheap_conditions_come_first() -> None:
    """Those of equal cost keep their order."""
    dear = contains("Any", [1, 2])
    assert by_weight([dear, TEXT, LESS]) == [TEXT, LESS, dear]


@pytest.mark.parametrize("operand", [True, None, [1], {}])
def test_only_numbers_and_texts_are_compared(operand: Any) -> None:
    """Other values have no order."""
    with pytest.raises(ValueError, match="expected a number or a text for gt"):
        comparison("gt", operand)


def test_names_that_are_unknown() -> None:
    """The error lists those that are known."""
    with pytest.raises(ValueError, match=r"expected one of undefined, defined, .+, got 'number'"):
        state("number")
    with pytest.raises(ValueError, match=r"expected one of the intrinsics ~id, .+, got '~version'"):
        intrinsic("~version", [])


@pytest.mark.parametrize(
    ("count", "test", "problem"),
    [
        (True, Equal(1), "expected a number of partitions, got true"),
        (0, Equal(1), "expected at least 1 partition, got 0"),
        (-1e300, Equal(1), "expected at least 1 partition, got -2147483648"),
        (4, Equal(5), "expected a partition between 1 and 4, got 5"),
        (4, one_of([1, "x"]), 'expected the whole number of a partition, got "x"'),
        (4, Equal(1.5), "expected the whole number of a partition, got 1.5"),
        (4, negation(like("a*")), "expected only tests of a number inside partition"),
    ],
)
def test_a_partition_that_is_none(count: Any, test: Condition, problem: str) -> None:
    """Its test must be one that some part can pass."""
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        partition(count, [test])
