"""Every road to a filter's answer is the closure's answer: columns, hash indexes, after any history of rows."""

from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from query_service.index.cells import ABSENT
from query_service.index.column import Column
from query_service.index.vector import evaluate, split
from sowline.filter import Filter, compile_filter
from sowline.path import parse_path

PATHS = ["/a", "/b", "/c/d", "/a[0]", "/c"]

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 12),
    st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1, 2**64 - 1, 10**17]),
    st.sampled_from([0.0, -0.0, 0.5, 5.0, 1e16, 2.0**53, 1e300, -2.5]),
    st.sampled_from(["", "a", "ab", "b", "5", "05", "5.0", "-0", "true", "1e400", "9007199254740993", "é"]),
)
NODES = st.one_of(
    SCALARS, st.lists(SCALARS, max_size=3), st.just({}), st.fixed_dictionaries({}, optional={"d": SCALARS})
)
DOCUMENTS = st.fixed_dictionaries(
    {}, optional={"a": NODES, "b": SCALARS, "c": st.fixed_dictionaries({"d": NODES}) | NODES}
)


def _literal(value: Any) -> str:
    if value is None or value == "":
        return "NULL" if value is None else "''"
    if isinstance(value, bool):
        return str(value).upper()
    return f"'{value}'" if isinstance(value, str) else repr(value)


LITERALS = SCALARS.map(_literal)
FIELDS = st.sampled_from(PATHS)
OPERATORS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
NEGATION = st.sampled_from(["", "NOT "])
PREDICATES = st.one_of(
    st.builds("{} {} {}".format, FIELDS, OPERATORS, LITERALS),
    st.builds("{1} {2} {0}".format, FIELDS, LITERALS, OPERATORS),
    st.builds("{} {}BETWEEN {} AND {}".format, FIELDS, NEGATION, LITERALS, LITERALS),
    st.builds(
        lambda field, negation, items: f"{field} {negation}IN ({', '.join(items)})",
        FIELDS,
        NEGATION,
        st.lists(LITERALS, min_size=1, max_size=12),
    ),
    st.builds(
        "{} {}LIKE '{}'".format, FIELDS, NEGATION, st.sampled_from(["a", "^5", "0$", "true", "", "[b-e]"])
    ),
    st.builds("{} IS {}NULL".format, FIELDS, NEGATION),
    FIELDS,
    LITERALS,
    st.builds("{} + 1 > {}".format, FIELDS, LITERALS),
    st.builds("{} {} {}".format, FIELDS, OPERATORS, FIELDS),
)
FILTERS = st.recursive(
    PREDICATES,
    lambda inner: st.one_of(
        st.builds("NOT ({})".format, inner),
        st.builds("({}) AND ({})".format, inner, inner),
        st.builds("({}) OR ({})".format, inner, inner),
    ),
    max_leaves=5,
)


def matching_rows(condition: Filter, columns: dict[Any, Column], documents: list[Any]) -> list[int]:
    """The rows that match: by the columns where they know, by closures for the rest."""
    terms, rest = split(condition.tree)
    if not terms:
        return [row for row, body in enumerate(documents) if body is not None and condition.matches(body)]
    found = evaluate(terms, columns, len(documents))
    rest_matches = Filter(rest).matches if rest is not None else (lambda document: True)
    rows = [row for row in np.flatnonzero(found.certain).tolist() if rest_matches(documents[row])]
    if found.undecided is not None:
        assert not (found.certain & found.undecided).any()
        rows += [row for row in np.flatnonzero(found.undecided).tolist() if condition.matches(documents[row])]
    return sorted(rows)


def expected_rows(condition: Filter, documents: list[Any]) -> list[int]:
    """The rows that match, by the closure."""
    return [row for row, body in enumerate(documents) if body is not None and condition.matches(body)]


@given(FILTERS, st.lists(DOCUMENTS | st.none(), max_size=12))
@example("/a != 9007199254740993", [{"a": 2**53}, {"a": 2**53 + 1}])
def test_columns_and_closures_agree(text: str, documents: list[Any]) -> None:
    """Columns, with the closure where they can't decide, find what the closure finds."""
    condition = compile_filter(text)
    columns = {path: Column(path) for path in map(parse_path, PATHS)}
    for column in columns.values():
        column.put_many(0, documents)
    assert matching_rows(condition, columns, documents) == expected_rows(condition, documents)


CHANGES = st.lists(st.tuples(st.integers(0, 7), DOCUMENTS | st.none()), max_size=20)


@settings(max_examples=60)
@given(FILTERS, CHANGES, st.integers(1, 6))
def test_any_history_of_rows(text: str, changes: list[tuple[int, Any]], batch: int) -> None:
    """Rows that are put one by one or together, cleared and reused give what their last documents give."""
    condition = compile_filter(text)
    columns = {path: Column(path) for path in map(parse_path, PATHS)}
    documents: list[Any] = [None] * 8
    for start in range(0, len(changes), batch):
        some = changes[start : start + batch]
        for row, document in some:
            documents[row] = document
        for path, column in columns.items():
            if start // batch % 2:
                rows = np.array([row for row, _ in some], np.intp)
                column.put_rows(rows, [ABSENT if d is None else path.read(d) for _, d in some])
                continue
            for row, document in some:
                column.clear(row) if document is None else column.put(row, path.read(document))
    assert matching_rows(condition, columns, documents) == expected_rows(condition, documents)
