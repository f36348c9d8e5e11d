"""Every access path to a filter's answer is the closure's answer: columns, hash indexes, after any history."""

import json
from typing import Any
from unittest.mock import patch

import numpy as np
import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.language.expressions.order import Order, Term
from sowline.language.filter import Filter, compile_filter
from sowline.model.path import Path, parse_path
from sowline_query_service.index import masks
from sowline_query_service.index.cells import ABSENT
from sowline_query_service.index.column import Column
from sowline_query_service.index.hash_index import HashIndex
from sowline_query_service.index.ranks import ranks, top
from sowline_query_service.index.read import reader_of
from sowline_query_service.index.vector import evaluate, split
from tests.columns import put_many
from tests.examples import examples

PATHS = ["/a", "/b", "/c/d", "/a[0]", "/c"]

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 12),
    st.sampled_from([-(2**53), 2**53 + 4.0, 2**53 + 3]),
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
    st.builds("{} IS {}{}".format, FIELDS, NEGATION, st.sampled_from(["NULL", "NAN"])),
    st.builds(
        lambda field, end, items: f"{field} {end} WITH ({', '.join(items)})",
        FIELDS,
        st.sampled_from(["BEGINS", "ENDS"]),
        st.lists(LITERALS, min_size=1, max_size=3),
    ),
    st.builds("UPPER({}) {} {}".format, FIELDS, OPERATORS, LITERALS),
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
    for numbers_judged_max in (masks.NUMBERS_JUDGED_MAX, 1):
        with patch.object(masks, "NUMBERS_JUDGED_MAX", numbers_judged_max):
            _check_columns(compile_filter(text), documents)


def _check_columns(condition: Filter, documents: list[Any]) -> None:
    columns = {path: Column(path) for path in map(parse_path, PATHS)}
    for column in columns.values():
        put_many(column, 0, documents)
    assert matching_rows(condition, columns, documents) == expected_rows(condition, documents)


CHANGES = st.lists(st.tuples(st.integers(0, 7), DOCUMENTS | st.none()), max_size=20)


@examples(60)
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


STRINGS = st.sampled_from(["", "a", "5", "05", "5.0", "1", "-0", "0", "true", "9007199254740993"]).map(repr)
LOOKUPS = st.one_of(
    st.builds("{} = {}".format, FIELDS, STRINGS),
    st.builds("{1} = {0}".format, FIELDS, STRINGS),
    st.builds(
        lambda field, items: f"{field} IN ({', '.join(items)})",
        FIELDS,
        st.lists(STRINGS, min_size=1, max_size=3),
    ),
    PREDICATES,
)


@given(
    st.lists(LOOKUPS, min_size=1, max_size=4).map(lambda terms: " AND ".join(f"({term})" for term in terms)),
    st.lists(st.sampled_from(PATHS), min_size=1, max_size=2, unique=True),
    CHANGES,
)
def test_hash_index_and_closure_agree(text: str, fields: list[str], changes: list[tuple[int, Any]]) -> None:
    """What a hash index finds, verified, is what the closure finds among all records."""
    condition = compile_filter(text)
    index = HashIndex([parse_path(field) for field in fields])
    documents: list[Any] = [None] * 8
    for row, document in changes:
        documents[row] = document
        index.clear(row) if document is None else index.put(
            row, [path.read(document) for path in index.paths]
        )
    found = index.lookup(condition.tree)
    if found is not None:
        assert len(found) == len(set(found))
        assert sorted(row for row in found if condition.matches(documents[row])) == expected_rows(
            condition, documents
        )


TERMS = st.lists(st.tuples(st.sampled_from(PATHS), st.booleans(), st.booleans()), min_size=1, max_size=3)


@given(TERMS, st.lists(DOCUMENTS, max_size=12), st.integers(0, 13))
def test_ranks_sort_as_the_order_does(
    terms: list[tuple[str, bool, bool]], documents: list[Any], count: int
) -> None:
    """Sorting by ranks is sorting by the values, and the first few are among those chosen."""
    order = Order(tuple(Term(parse_path(field), descending, text) for field, descending, text in terms))
    columns = [Column(term.path) for term in order.terms]
    for column in columns:
        put_many(column, 0, documents)
    found = [
        ranks(column, len(documents), text=term.text)
        for column, term in zip(columns, order.terms, strict=True)
    ]
    by_row = [rank.values for rank in found if rank is not None and rank.hard is None]
    if len(by_row) < len(found):
        return
    falling = [term.descending for term in order.terms]
    rows = np.arange(len(documents), dtype=np.intp)

    def by_ranks(row: int) -> tuple[Any, ...]:
        signed = (
            -values[row] if falls else values[row] for values, falls in zip(by_row, falling, strict=True)
        )
        return (*signed, row)

    expected = sorted(rows.tolist(), key=lambda row: order.key(documents[row], b"%09d" % row))
    assert sorted(rows.tolist(), key=by_ranks) == expected
    chosen = top(rows, by_row, falling, count).tolist()
    assert sorted(chosen, key=by_ranks)[:count] == expected[:count]
    assert len(set(chosen)) == len(chosen)


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "d", "e"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def _member(name: str, value: Any, spaces: str, ascii_only: bool) -> str:
    return f"{spaces}{json.dumps(name, ensure_ascii=ascii_only)}{spaces}:{json.dumps(value, ensure_ascii=ascii_only)}"


MEMBERS = st.lists(
    st.builds(
        _member,
        st.sampled_from(["a", "b", "c", "é", "other", 'q"'] * 2),
        JSON,
        st.sampled_from(["", " ", "\n\t"]),
        st.booleans(),
    ),
    max_size=6,
)


@given(st.lists(MEMBERS.map(lambda members: f"{{{','.join(members)}}}".encode()) | st.none(), max_size=6))
@example([b'{"a": 18446744073709551616, "a": -0}', None])
@example([b'{"\\u0061": "\\ud83d\\ude00", "c": {"d": 1, "d": 2}}'])
@example([b'{"a": ' + b"[" * 1000 + b"]" * 1000 + b"}"])
def test_values_read_are_those_of_the_whole_body(bodies: list[bytes | None]) -> None:
    """Reading a few members gives what parsing all of the body gives, duplicates and odd numbers included."""
    for last in ("[/é]", '[/q"]'):
        _check_values_read([*map(parse_path, [*PATHS, last])], bodies)


def _check_values_read(paths: list[Path], bodies: list[bytes | None]) -> None:
    documents = [None if body is None else orjson.loads(body) for body in bodies]
    for path, values in zip(paths, reader_of(paths)(bodies), strict=True):
        expected = [
            ABSENT
            if document is None
            else document.get(path.steps[0])
            if len(path.steps) == 1
            else path.read(document)
            for document in documents
        ]
        assert repr(values) == repr(expected)
