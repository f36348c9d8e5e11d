"""Orders: how they are written, and that their keys put any records in one total order."""

from functools import partial
from itertools import permutations
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.errors import SowlineError
from sowline.language.expressions.order import ORDER_CHARS_MAX, TERMS_MAX, Order, Term, parse_order
from sowline.model.path import parse_path

KEY = b"1"

numbers = st.integers(-3, 3) | st.sampled_from(
    [2**53, 2**53 + 1, 2.0**53, 2**64 - 1, 2.0**64, -0.0, 0.5, 1e300]
)
texts = st.sampled_from(["", "1", "10", "9", "a", "A", "aa", "é", "\U0001f600", "true", "0.5", "null"])
scalars = st.none() | st.booleans() | numbers | texts
values = scalars | st.lists(scalars, max_size=2) | st.just({"x": 1})
documents = st.dictionaries(st.sampled_from("abc"), values, max_size=3)
sow_keys = st.integers(0, 12).map(lambda number: str(number).encode())
records = st.tuples(documents, sow_keys)
orders = st.lists(
    st.builds(
        Term, st.sampled_from("abc").map(lambda name: parse_path(f"/{name}")), st.booleans(), st.booleans()
    ),
    max_size=3,
).map(lambda terms: Order(tuple(terms)))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("  ", ""),
        ("/a", "/a"),
        ("/a ASC", "/a"),
        (" /a  desc ,/b\tText", "/a DESC, /b TEXT"),
        ("/orderDate DESC, /customerName ASC", "/orderDate DESC, /customerName"),
        ("/a DESC TEXT,/a", "/a DESC TEXT, /a"),
        ("/legs[0]/px desc, [/a, b DESC]/c ASC text", "/legs[0]/px DESC, [/a, b DESC]/c TEXT"),
        ("[/a]", "/a"),
        ("/desc DESC", "/desc DESC"),
    ],
)
def test_an_order_has_a_canonical_text(text: str, canonical: str) -> None:
    """Words in any case, blanks where one likes; ascending is not said."""
    order = parse_order(text)
    assert order.text == canonical
    assert parse_order(canonical) == order
    assert hash(parse_order(canonical)) == hash(order)
    assert order.paths == {term.path for term in order.terms}


def test_the_terms_say_what_was_asked_for() -> None:
    """A term is a path, a direction, and whether texts are compared."""
    assert parse_order("/a/b DESC TEXT, /c").terms == (
        Term(parse_path("/a/b"), descending=True, text=True),
        Term(parse_path("/c")),
    )
    assert parse_order("/a") != parse_order("/a DESC")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "column 1"),
        ("/a,", "a path after , at column 4, got end of order"),
        (",/a", "a path at column 1, got ','"),
        ("/a,,/b", "a path after , at column 4, got ','"),
        ("/a /b", "after /a at column 4, got '/b'"),
        ("/a DESC ASC", "column 9, got 'ASC'"),
        ("/a TEXT DESC", "column 9, got 'DESC'"),
        ("/a DOWN", "column 4, got 'DOWN'"),
        ("/a DESCENDING", "got 'DESCENDING'"),
        ("/b, /a//b", "after /a at column 7"),
        ("/b, [/a", "at column 5"),
        ("/a ]", r"column 4, got '\]'"),
        ("DESC", "column 1"),
        (", ".join(["/a"] * (TERMS_MAX + 1)), "at most 16 fields"),
        (f"/{'a' * ORDER_CHARS_MAX}", "at most 4096 characters, got 4097"),
    ],
)
def test_what_is_no_order_is_refused(text: str, message: str) -> None:
    """The error names what was expected and the column."""
    with pytest.raises(SowlineError, match=message) as error:
        parse_order(text)
    assert error.value.reason == "invalid order by"


def test_as_many_terms_as_there_may_be() -> None:
    """The limit itself is fine."""
    assert len(parse_order(", ".join(["/a"] * TERMS_MAX)).terms) == TERMS_MAX


ASCENDING = [None, False, 0.5, True, 2, 2**53, 2**53 + 1, 2**64 - 1, 2.0**64, "10", "9", "Z", "a", "aa", "é"]


def sorted_values(order: str, values: list[Any]) -> list[Any]:
    """Return the values as records of that field are sorted; in the field `a`."""
    compiled = parse_order(order)
    return sorted(values, key=lambda value: compiled.key({"a": value}, KEY))


def test_null_then_numbers_then_strings() -> None:
    """Nothing is converted, and integers beyond a double's precision keep apart."""
    assert sorted_values("/a", ASCENDING[::-1]) == ASCENDING
    assert sorted_values("/a DESC", ASCENDING) == ASCENDING[::-1]


def test_text_compares_what_json_writes() -> None:
    """With TEXT, numbers and booleans stand among the strings."""
    assert sorted_values("/a TEXT", ["b", 9, 10, True, None, "1", 0.5]) == [None, 0.5, "1", 10, 9, "b", True]
    assert sorted_values("/a DESC TEXT", [9, 10, None, "2"]) == [9, "2", 10, None]


@pytest.mark.parametrize("value", [None, "", [], {}, {"x": 1}, [""], [[]], [None, 5], [{"x": 1}]])
def test_what_has_no_value_is_null(value: Any) -> None:
    """A missing field, an empty string, an object: all alike, before every number."""
    order = parse_order("/a")
    assert order.key({"a": value}, KEY) == order.key({}, KEY) < order.key({"a": -1e300}, KEY)


@pytest.mark.parametrize(("value", "first"), [([3, 1], 3), ([["b"], "a"], "b"), ([{"x": 1}, 2], 2)])
def test_an_array_counts_as_its_first_element(value: Any, first: Any) -> None:
    """As where the filter language needs one scalar."""
    assert parse_order("/a").key({"a": value}, KEY) == parse_order("/a").key({"a": first}, KEY)


def test_ties_are_in_the_order_of_their_keys() -> None:
    """SOW keys ascend, byte by byte, whichever way the terms go."""
    for text in ("", "/a", "/a DESC"):
        order = parse_order(text)
        keys = [order.key({"a": 1}, sow_key) for sow_key in (b"9", b"10", b"\xff", b"2")]
        assert [key[-1] for key in sorted(keys)] == [b"10", b"2", b"9", b"\xff"]


def test_nan_is_ordered() -> None:
    """NaN, where a body can hold it, stands behind all numbers."""
    assert str(sorted_values("/a", ["", "x", float("nan"), float("inf"), -1])) == "['', -1, inf, nan, 'x']"
    assert str(sorted_values("/a DESC", ["", "x", float("nan"), -1])) == "['x', nan, -1, '']"


@given(orders, records)
@example(parse_order("/a, /b DESC TEXT"), ({"a": [2**53 + 1], "b": {"c": 1}}, b"1"))
def test_a_key_is_made_of_values_that_were_sent(order: Order, one: Any) -> None:
    """A gateway gets the values as JSON, and makes the same key of them."""
    document, sow_key = one
    values = orjson.loads(orjson.dumps(order.values(document)))
    key = order.key(document, sow_key)
    remade = order.key_of(values, sow_key)
    assert remade == key
    assert list(map(type, remade)) == list(map(type, key))


@given(orders, st.tuples(records, records, records))
@example(parse_order("/a"), (({"a": "10"}, b"1"), ({"a": "9"}, b"2"), ({"a": 9.5}, b"3")))
@example(parse_order("/a"), (({"a": 2**53 + 1}, b"1"), ({"a": 2.0**53}, b"1"), ({"a": 2**53}, b"1")))
def test_the_order_is_total(order: Order, three: Any) -> None:
    """Of two records with different SOW keys one is first, and what is first of two pairs is first of all."""
    keys = [order.key(document, sow_key) for document, sow_key in three]
    for i, j in permutations(range(3), 2):
        assert (keys[i] < keys[j]) + (keys[j] < keys[i]) + (keys[i] == keys[j]) == 1
        if three[i][1] != three[j][1]:
            assert keys[i] != keys[j]
    for left, middle, right in permutations(keys):
        if left < middle < right:
            assert left < right
        if left == middle:
            assert (left < right) is (middle < right)
            assert hash(left) == hash(middle)


@given(orders, records, records)
def test_descending_is_the_exact_reverse(order: Order, left: Any, right: Any) -> None:
    """With every term turned round, records that the terms tell apart change places; others stay."""
    turned = Order(tuple(Term(term.path, not term.descending, term.text) for term in order.terms))
    pair, turned_pair = ([o.key(*record) for record in (left, right)] for o in (order, turned))
    tied = pair[0][:-1] == pair[1][:-1]
    assert tied is (turned_pair[0][:-1] == turned_pair[1][:-1])
    assert (pair[0] < pair[1]) is (
        (turned_pair[0] < turned_pair[1]) if tied else (turned_pair[1] < turned_pair[0])
    )


def _key_of_one(order: Order, record: tuple[dict[str, Any], bytes]) -> tuple[Any, ...]:
    return order.key(record[0], b"")


@given(orders, st.lists(records, max_size=6))
def test_later_terms_decide_among_equals(order: Order, some: list[tuple[dict[str, Any], bytes]]) -> None:
    """Sorting by all terms is sorting by each, the last first, and by SOW key before that."""
    expected = sorted(some, key=lambda record: record[1])
    for term in reversed(order.terms):
        expected.sort(key=partial(_key_of_one, Order((term,))))
    assert [order.key(*record) for record in sorted(some, key=lambda record: order.key(*record))] == [
        order.key(*record) for record in expected
    ]
