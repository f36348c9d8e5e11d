"""Evaluates filters over columns: all rows at once, in blocks that fit into the processor's cache.

A filter's top-level conjuncts are of two kinds. This module evaluates those that compare fields with constants. The
filter's closure evaluates the others, and each row whose value a column can't hold.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sowline.language.filter.evaluate import truth
from sowline.language.filter.fold import folded
from sowline.language.filter.predicates import constant
from sowline.language.filter.tree import (
    Affixed,
    And,
    Between,
    Comparison,
    Field,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Or,
    children,
    conjunction,
    paths_of,
)
from sowline.model.path import Path
from sowline_query_service.index.cells import NO_ROW
from sowline_query_service.index.column import Column
from sowline_query_service.index.masks import (
    Mask,
    RowTest,
    all_of,
    any_of,
    judge_texts,
    nowhere,
    row_test,
    undecided_test,
)

BLOCK_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Matches:
    """Masks of the rows of which all terms are TRUE, and of those for the closure to decide, if any."""

    certain: Mask
    undecided: Mask | None


def split(tree: Node) -> tuple[list[Node], Node | None]:
    """Return the conjuncts that `evaluate` can use, and the conjunction of the others."""
    simple = folded(tree)
    terms = simple.terms if isinstance(simple, And) else (simple,)
    # A term without a field has no column, and only a column shows which rows hold a record
    # (test_no_term_is_refused).
    taken = [term for term in terms if _is_vectorisable(term) and paths_of(term)]
    rest = [term for term in terms if term not in taken]
    return taken, conjunction(rest) if rest else None


def _is_vectorisable(node: Node) -> bool:
    match node:
        case Not() | And() | Or():
            return all(map(_is_vectorisable, children(node)))
        case Literal() | Field():
            return True
        case Comparison(_, Field(), Literal()) | Comparison(_, Literal(), Field()):
            return True
        case Between(Field(), Literal(), Literal()) | Like(Field()) | IsNull(Field()) | IsNaN(Field()):
            return True
        case In(Field(), items) | Affixed(_, Field(), items):
            return all(isinstance(item, Literal) for item in items)
        case _:
            return False


def needed_paths(terms: Iterable[Node]) -> frozenset[Path]:
    """Return the paths whose columns `evaluate` needs."""
    return frozenset[Path]().union(*map(paths_of, terms))


def prepare(terms: Iterable[Node], columns: Mapping[Path, Column]) -> Iterator[None]:
    """Evaluate the terms for strings that are new to them, some milliseconds of work in each step.

    `evaluate` does the rest at once. Rows may change between the steps.
    """
    for term in terms:
        for node, path in _predicates(term):
            yield from judge_texts(node, columns[path])


def evaluate(terms: Sequence[Node], columns: Mapping[Path, Column], rows: int) -> Matches:
    """Return which of the rows 0 to `rows - 1` match all terms, which come from `split`; at least one is needed.

    Rows without a record never match, and are never undecided.
    """
    if not terms:
        raise ValueError("expected at least one term, got none: a filter without terms matches every row")
    columns = {path: columns[path] for path in needed_paths(terms)}
    for column in columns.values():
        # A column that no recent row had a value in may be shorter (test_rows_that_no_column_has_seen_never_match).
        column.reserve(rows)
    tests = [_row_test(term, columns, wanted=True) for term in terms]
    undecided_tests = [_undecided_test(term, columns) for term in terms]
    certain = np.zeros(rows, np.bool_)
    undecided = np.zeros(rows, np.bool_) if any(undecided_tests) else None
    for start in range(0, rows, BLOCK_ROWS):
        block = slice(start, min(start + BLOCK_ROWS, rows))
        if undecided is None:
            _all_hold(tests, block, certain)
        else:
            _hold_or_may(tests, undecided_tests, block, certain, undecided)
    return Matches(certain, undecided)


def _all_hold(tests: Sequence[RowTest], block: slice, certain: Mask) -> None:
    found = tests[0](block)
    for test in tests[1:]:
        # A selective term leaves most blocks without a match: the other terms need not read them.
        if not found.any():
            return
        found = found & test(block)
    certain[block] = found


def _hold_or_may(
    tests: Sequence[RowTest],
    undecided_tests: Sequence[RowTest | None],
    block: slice,
    certain: Mask,
    undecided: Mask,
) -> None:
    """Do the same for terms that can't decide all rows: an undecided row may match, unless another term fails."""
    sure, possible = ~nowhere(block), ~nowhere(block)
    for test, undecided_rows in zip(tests, undecided_tests, strict=True):
        found = test(block)
        unknown = nowhere(block) if undecided_rows is None else undecided_rows(block)
        sure &= found & ~unknown
        possible &= found | unknown
    certain[block] = sure
    undecided[block] = possible & ~sure


def _undecided_test(term: Node, columns: Mapping[Path, Column]) -> RowTest | None:
    """Return the rows for which a predicate of the term can't be decided."""
    tests = [undecided_test(node, columns[path]) for node, path in _predicates(term)]
    known = [test for test in tests if test is not None]
    return any_of(known) if known else None


def _predicates(node: Node) -> Iterator[tuple[Node, Path]]:
    """Return the predicates of a condition, each with its path."""
    if isinstance(node, Not | And | Or):
        for operand in children(node):
            yield from _predicates(operand)
    else:
        for path in paths_of(node):
            yield node, path


def _row_test(node: Node, columns: Mapping[Path, Column], *, wanted: bool) -> RowTest:
    """Return the rows for which the condition is TRUE, or FALSE if requested. So NULL needs no mask."""
    match node:
        case Not(operand):
            return _row_test(operand, columns, wanted=not wanted)
        case And(terms) | Or(terms):
            # De Morgan: an AND is FALSE where any term is, and an OR where all terms are.
            tests = [_row_test(term, columns, wanted=wanted) for term in terms]
            return all_of(tests) if isinstance(node, And) is wanted else any_of(tests)
        case Literal():
            return _constant_test(columns, truth(constant(node)) is wanted)
        case _:
            (path,) = paths_of(node)
            return row_test(node, columns[path], wanted)


def _constant_test(columns: Mapping[Path, Column], holds: bool) -> RowTest:
    """Return all rows that have a record, or none of them, according to any column."""
    # Even a condition that always holds matches no record where there is none
    # (test_rows_without_a_record_never_match).
    kinds = next(iter(columns.values())).kinds
    return (lambda rows: kinds[rows] != NO_ROW) if holds else nowhere
