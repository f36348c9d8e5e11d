"""Finds the rows of a column for which a predicate is TRUE, or FALSE: one test for strings, one for numbers.

A test takes a range of rows, or some rows by number, and returns a mask. Its answers for HARD rows are meaningless.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from sowline.language.filter.arrays import RELATIONS
from sowline.language.filter.evaluate import truth
from sowline.language.filter.predicates import MIRRORED, Judge, Membership, constant, judged
from sowline.language.filter.tree import (
    Affixed,
    Between,
    Comparison,
    Field,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Node,
)
from sowline.model.path import Scalar
from sowline_query_service.index.bounds import INVERSE, NONE_HOLDS, Bound, bound, related_to
from sowline_query_service.index.cells import BOOLEAN, DOUBLE, HARD, INTEGER, NULL
from sowline_query_service.index.column import Column, Rows

Mask = NDArray[np.bool_]

RowTest = Callable[[Rows], Mask]

CODES_COMPARED_MAX = 3
"""Up to this many codes are compared one by one; more are looked up in a table."""

NUMBERS_COMPARED_MAX = 8
NUMBERS_JUDGED_MAX = 10_000
CHARS_JUDGED_AT_ONCE = 1 << 19
"""Some milliseconds of work."""


def row_test(node: Node, column: Column, wanted: bool) -> RowTest:
    """Return the rows for which a predicate of the column's field is TRUE, or FALSE if that is wanted."""
    judge = _judge(node)
    tests = [
        _text_test(node, judge, column, wanted),
        _number_test(node, judge, column, wanted),
        _null_test(column) if judge(None) is wanted else None,
    ]
    return any_of([test for test in tests if test is not None])


def any_of(tests: Sequence[RowTest]) -> RowTest:
    """Return the rows of any of the tests."""
    if not tests:
        return nowhere
    return tests[0] if len(tests) == 1 else lambda rows: reduce(np.bitwise_or, (test(rows) for test in tests))


def all_of(tests: Sequence[RowTest]) -> RowTest:
    """Return the rows of all of the tests."""
    return lambda rows: reduce(np.bitwise_and, (test(rows) for test in tests))


def nowhere(rows: Rows) -> Mask:
    """No row."""
    return np.zeros(rows.stop - rows.start if isinstance(rows, slice) else len(rows), np.bool_)


def undecided_test(node: Node, column: Column) -> RowTest | None:
    """Return the rows that the column can't decide: HARD ones, and many numbers whose texts are needed."""
    kinds = column.kinds
    if not _asks_for_many_texts(node, column):
        return (lambda rows: kinds[rows] == HARD) if column.may_have_hard else None
    undecided = np.isin(np.arange(HARD + 1), (HARD, INTEGER, DOUBLE))
    return lambda rows: undecided.take(kinds[rows])


def judge_texts(node: Node, column: Column) -> Iterator[None]:
    """Judge the column's strings beforehand, some at each step. `row_test` judges the others at once."""
    judge = _judge(node)
    if column.codes is None or _texts_equalled(node, judge) is not None:
        return
    while column.verdicts.judge_some(node, _text_judge(node, judge), CHARS_JUDGED_AT_ONCE):
        yield


def _judge(node: Node) -> Judge:
    if isinstance(node, Field):
        return truth
    one = judged(node)
    if one is None:
        raise AssertionError(f"not a predicate of one field: {node}")
    return one[1]


def _null_test(column: Column) -> RowTest:
    kinds = column.kinds
    return lambda rows: kinds[rows] == NULL


# --- strings ---


def _text_test(node: Node, judge: Judge, column: Column, wanted: bool) -> RowTest | None:
    if column.codes is None:
        return None
    equal = _texts_equalled(node, judge)
    if equal is None:
        table = column.verdicts.table(node, _text_judge(node, judge))
        return _table_test(column.codes, table == wanted)
    texts, may_fail = equal
    found = [code for text in texts if (code := column.dictionary.code_of(text))]
    if wanted:
        return _code_test(column, found)
    # With NULL in its list, IN is never FALSE (test_rows_are_those_for_which_the_filter_is_true).
    return _other_code_test(column, found) if may_fail else None


def _texts_equalled(node: Node, judge: Judge) -> tuple[Sequence[str], bool] | None:
    """For `=` and `IN` over strings: the strings, and whether another string makes it FALSE (else NULL)."""
    match node, judge:
        case IsNull(), _:
            return [], True
        case Comparison("="), _:
            value = _constant_of(node)
            return ([value], True) if isinstance(value, str) else None
        case In(_, items), _ if isinstance(judge, Membership) and judge.compares_texts_only:
            return list(judge.texts), None not in map(_value, items)
        case _:
            return None


def _code_test(column: Column, found: Sequence[int]) -> RowTest | None:
    codes = column.codes
    assert codes is not None, "a column of strings has codes"
    if len(found) > CODES_COMPARED_MAX:
        return _table_test(codes, _table_of(column, found))
    comparisons = [_one_code_test(codes, code) for code in found]
    return any_of(comparisons) if comparisons else None


def _one_code_test(codes: NDArray[np.unsignedinteger], code: int) -> RowTest:
    wanted = codes.dtype.type(code)
    return lambda rows: codes[rows] == wanted


def _other_code_test(column: Column, found: Sequence[int]) -> RowTest | None:
    codes = column.codes
    assert codes is not None, "a column of strings has codes"
    # Code 0 is no string: such a row has a number, which has its own test, or is NULL
    # (test_rows_are_those_for_which_the_filter_is_true).
    other = ~_table_of(column, [0, *found])
    return _table_test(codes, other)


def _table_of(column: Column, codes: Sequence[int]) -> Mask:
    table = np.zeros(len(column.dictionary), np.bool_)
    table[codes] = True
    return table


def _table_test(codes: NDArray[np.unsignedinteger], table: Mask) -> RowTest | None:
    if not table.any():
        return None
    return lambda rows: table.take(codes[rows])


def _text_judge(node: Node, judge: Judge) -> Judge:
    """Return the judge, or an equivalent faster test for strings."""
    if not isinstance(node, Comparison) or not isinstance(literal := _constant_of(node), str):
        return judge
    relation = RELATIONS[_relation_name(node)]
    return lambda text: relation(text, literal)


def _relation_name(node: Comparison) -> str:
    return node.operator if isinstance(node.left, Field) else MIRRORED[node.operator]


# --- numbers ---


def _number_test(node: Node, judge: Judge, column: Column, wanted: bool) -> RowTest | None:
    if column.numbers is None:
        return None
    match node, judge:
        case Comparison(), _:
            return _bound_test(column, bound(_relation_name(node), _constant_of(node)), wanted)
        case Field(), _:
            return _bound_test(column, bound("!=", 0), wanted)
        case ((IsNull() | IsNaN()), _):
            return _bound_test(column, NONE_HOLDS, wanted)
        case Between(_, low, high), _:
            ends = bound(">=", _value(low)), bound("<=", _value(high))
            return _both_ends_test(column, ends, wanted)
        case In(_, items), _ if isinstance(judge, Membership):
            return _member_test(column, judge, wanted, None not in map(_value, items))
        case _:
            forms = {BOOLEAN: bool} if _asks_for_many_texts(node, column) else _FORMS
            return _judged_numbers_test(column, judge, wanted, forms)


def _bound_test(column: Column, relation: Bound | None, wanted: bool) -> RowTest | None:
    numbers = column.numbers
    if numbers is None or relation is None:
        return None
    asked = relation if wanted else (INVERSE[relation[0]], relation[1])
    return lambda rows: related_to(numbers[rows], asked)


def _both_ends_test(column: Column, ends: Sequence[Bound | None], wanted: bool) -> RowTest | None:
    """BETWEEN: TRUE if both comparisons are, FALSE if either is."""
    tests = [test for end in ends if (test := _bound_test(column, end, wanted)) is not None]
    if wanted:
        return all_of(tests) if len(tests) == len(ends) else None
    return any_of(tests) if tests else None


def _member_test(column: Column, judge: Membership, wanted: bool, may_fail: bool) -> RowTest | None:
    numbers = column.numbers
    assert numbers is not None, "a column of numbers has them"
    exact = sorted(float(number) for number in judge.numbers if bound("=", number) == ("=", number))
    if wanted:
        return _any_number_test(numbers, exact) if exact else None
    if not may_fail:
        return None
    found = _any_number_test(numbers, exact) if exact else nowhere
    # Only NaN differs from itself: a row without a number is not one that has another number
    # (test_rows_are_those_for_which_the_filter_is_true).
    return lambda rows: (numbers[rows] == numbers[rows]) & ~found(rows)


def _any_number_test(numbers: NDArray[np.float64], wanted: Sequence[float]) -> RowTest:
    """Return the rows whose number is one of the sorted ones."""
    if len(wanted) <= NUMBERS_COMPARED_MAX:
        return any_of([lambda rows, number=number: numbers[rows] == number for number in wanted])  # type: ignore[misc]
    several = np.array(wanted)

    def test(rows: Rows) -> Mask:
        some = numbers[rows]
        indices = several.searchsorted(some)
        # A number above all of them has an index past the end: clipped, it is compared with the last one, and
        # differs (test_rows_are_those_for_which_the_filter_is_true).
        is_equal: Mask = several.take(indices, mode="clip") == some
        return is_equal

    return test


_FORMS: Mapping[int, Callable[[float], Scalar]] = {INTEGER: int, DOUBLE: float, BOOLEAN: bool}


def _asks_for_many_texts(node: Node, column: Column) -> bool:
    """Whether a predicate on texts would have to judge more numbers than is quick."""
    if not isinstance(node, Like | Affixed) or column.numbers is None:
        return False
    numbers = np.count_nonzero(column.kinds == INTEGER) + np.count_nonzero(column.kinds == DOUBLE)
    return int(numbers) > NUMBERS_JUDGED_MAX


def _judged_numbers_test(
    column: Column, judge: Judge, wanted: bool, forms: Mapping[int, Callable[[float], Scalar]]
) -> RowTest:
    """For predicates that ask for a number's text: each distinct number is judged."""
    numbers, kinds = column.numbers, column.kinds
    assert numbers is not None, "a column of numbers has them"
    found = np.zeros(len(kinds), np.bool_)
    for kind, form in forms.items():
        rows = np.flatnonzero(kinds == kind)
        # By their bits: -0.0 and 0.0 are not written the same.
        bits, indices = np.unique(numbers[rows].view(np.int64), return_inverse=True)
        values: map[Scalar] = map(form, bits.view(np.float64).tolist())
        verdicts = [judge(value) is wanted for value in values]
        found[rows] = np.array(verdicts, np.bool_)[indices]
    return lambda rows: found[rows]


# --- constants ---


def _constant_of(node: Comparison) -> Scalar:
    return _value(node.left if isinstance(node.left, Literal) else node.right)


def _value(node: Node) -> Scalar:
    if not isinstance(node, Literal):
        raise AssertionError(f"not a constant: {node}")
    return constant(node)
