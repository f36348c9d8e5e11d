"""The compiled filter against a slow, obviously right one, on random filters and documents."""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import re2  # type: ignore[import-untyped,unused-ignore]
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sowline.filter import FilterError, compile_filter
from sowline.filter.compile import value as value_closure
from sowline.filter.compile import verdict
from sowline.filter.parse import parse
from sowline.filter.printer import text_of
from sowline.filter.tree import (
    And,
    Arithmetic,
    Between,
    Comparison,
    Field,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Or,
    Signed,
    conjunction,
    disjunction,
)
from sowline.path import parse_path

# --- The reference: a direct reading of docs/filters.md, every pair of array elements tried. ---


def reference_read(node: Any, steps: tuple[str | int, ...]) -> list[Any]:
    """All scalars that the path reaches, as a flat list."""
    if not steps:
        if isinstance(node, list):
            return [leaf for element in node for leaf in reference_read(element, ())]
        return [] if isinstance(node, dict) else [None if node == "" else node]
    if isinstance(steps[0], int):
        elements = node if isinstance(node, list) else [node]
        return [leaf for element in elements[steps[0] :][:1] for leaf in reference_read(element, steps[1:])]
    if isinstance(node, list):
        # Subscripts further on count what all elements together gave, so the whole list takes the step at once.
        found = list(reference_members(node, steps[0]))
        return reference_read(found, steps[1:])
    if isinstance(node, dict) and steps[0] in node:
        return reference_read(node[steps[0]], steps[1:])
    return []


def reference_members(nodes: list[Any], name: str) -> Iterator[Any]:
    """The members of that name; a list among them gives its elements, as a merged array has them."""
    for node in nodes:
        if isinstance(node, list):
            yield from reference_members(node, name)
        elif isinstance(node, dict) and name in node:
            member = node[name]
            yield from member if isinstance(member, list) else [member]


def reference_number(value: Any) -> Any:
    """The value as a number; NaN for a string that spells none."""
    if not isinstance(value, str):
        return None if value is None else value if isinstance(value, float) else int(value)
    try:
        float(value)
    except ValueError:
        return math.nan
    spells_integer = value.lstrip("+-").isdigit()
    return math.nan if value.strip() != value else int(value) if spells_integer else float(value)


RELATIONS: dict[str, Any] = {
    "=": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def reference_compare(name: str, left: Any, right: Any) -> bool | None:
    """One comparison of two scalars."""
    if left is None or right is None:
        return None
    if isinstance(left, str) != isinstance(right, str):
        for text, above in ((left, (1, 0)), (right, (0, 1))):
            if isinstance(text, str) and math.isnan(reference_number(text)):
                return bool(RELATIONS[name](*above))
        left, right = reference_number(left), reference_number(right)
    return bool(RELATIONS[name](left, right))


def reference_or(verdicts: list[bool | None]) -> bool | None:
    """OR of any number of verdicts."""
    return True if True in verdicts else None if None in verdicts else False


def reference_not(verdict: bool | None) -> bool | None:
    """NOT of a verdict."""
    return None if verdict is None else not verdict


def reference_and(verdicts: list[bool | None]) -> bool | None:
    """AND of any number of verdicts."""
    return reference_not(reference_or([reference_not(verdict) for verdict in verdicts]))


def reference_calculate(operator: str, left: Any, right: Any) -> Any:
    """One arithmetic operation on two scalars."""
    left, right = reference_number(left), reference_number(right)
    if left is None or right is None:
        return None
    if math.isnan(left) or math.isnan(right):
        return math.nan
    if operator in "/%" and right == 0:
        return None
    if isinstance(left, float) or isinstance(right, float):
        return reference_float(operator, float(left), float(right))
    quotient = math.trunc(Fraction(left, right)) if right else 0
    results = {
        "+": left + right,
        "-": left - right,
        "*": left * right,
        "/": quotient,
        "%": left - right * quotient,
    }
    result = results[operator]
    return result if -(2**63) <= result < 2**64 else float(result)


def reference_float(operator: str, left: float, right: float) -> float:
    """One arithmetic operation on doubles."""
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
    return math.nan if math.isinf(left) else math.fmod(left, right)


def reference_like(value: Any, pattern: str, raw: bool) -> bool | None:
    """LIKE on one scalar: always by way of RE2."""
    if value is None:
        return None
    text = value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else repr(value)
    return pattern in text if raw else re2.search(pattern, text) is not None


def reference_verdict(node: Node, document: dict[str, Any]) -> bool | None:
    """What a node is of a document, as a condition."""
    scalar = reference_values(node, document)[0]
    if isinstance(scalar, bool):
        return scalar
    number = reference_number(scalar)
    return None if number is None or math.isnan(number) else number != 0


def reference_values(node: Node, document: dict[str, Any]) -> list[Any]:
    """What a node is of a document: a list of scalars, never empty."""

    def values(operand: Node) -> list[Any]:
        return reference_values(operand, document)

    def verdicts(operands: tuple[Node, ...]) -> list[bool | None]:
        return [reference_verdict(operand, document) for operand in operands]

    match node:
        case Literal(value):
            return [None if value == "" else value]
        case Field(path):
            return reference_read(document, path.steps) or [None]
        case Signed(sign, operand):
            return [reference_calculate("*", 1 if sign == "+" else -1, values(operand)[0])]
        case Arithmetic(first, rest):
            result = values(first)[0]
            for operator, operand in rest:
                result = reference_calculate(operator, result, values(operand)[0])
            return [result]
        case Comparison(name, left, right):
            pairs = [(one, other) for one in values(left) for other in values(right)]
            return [reference_or([reference_compare(name, *pair) for pair in pairs])]
        case Between(operand, low, high):
            triples = [(one, a, b) for one in values(operand) for a in values(low) for b in values(high)]
            return [
                reference_or(
                    [
                        reference_and([reference_compare(">=", one, a), reference_compare("<=", one, b)])
                        for one, a, b in triples
                    ]
                )
            ]
        case In(operand, items):
            equal = [(one, other) for one in values(operand) for item in items for other in values(item)]
            return [reference_or([reference_compare("=", *pair) for pair in equal])]
        case Like(operand, pattern, raw):
            return [reference_or([reference_like(one, pattern, raw) for one in values(operand)])]
        case IsNull(operand):
            return [values(operand)[0] is None]
        case Not(operand):
            return [reference_not(reference_verdict(operand, document))]
        case And(terms):
            return [reference_and(verdicts(terms))]
        case Or(terms):
            return [reference_or(verdicts(terms))]
    raise AssertionError(node)


# --- Random filters and documents, from few names and values, so that they often meet. ---

TEXTS = [
    "",
    "a",
    "b",
    "z",
    "zebra",
    "Z",
    "2",
    "2.0",
    "02",
    "-1",
    "10",
    " 2",
    "1e2",
    "é",
    "a\\'\n\x01",
    "true",
    "it's",
]
NUMBERS: list[Any] = [0, 1, 2, 3, 10, 2**63, 2**64 - 1, 0.5, 2.0, 1e2, 1e300]
PATHS = ["/a", "/b", "/c/a", "/c/b/a", "/a[0]", "/b/a[1]", "/c[1]/a", "/b[0][1]", "[/d e]/a"]
PATTERNS = [
    "a",
    "^a",
    "a$",
    "^a$",
    "e",
    "^",
    "$",
    "",
    "^$",
    "[0-9]",
    "(?i)Z",
    "a|b",
    r"\.",
    r"\d",
    ".",
    r"\'",
    "^2",
]

scalars = st.sampled_from([None, True, False, -1, -7, -0.5, *NUMBERS, *TEXTS])
json_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=8,
)
documents = st.fixed_dictionaries({}, optional=dict.fromkeys(("a", "b", "c", "d e"), json_values))

leaf_nodes = st.one_of(
    st.sampled_from([None, True, False, *NUMBERS, *TEXTS]).map(Literal),
    st.sampled_from(PATHS).map(lambda text: Field(parse_path(text))),
    st.sampled_from(PATHS).map(lambda text: Field(parse_path(text))),
)


def compound(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    """Every kind of node over the given operands."""

    def chain(operators: str) -> st.SearchStrategy[Node]:
        steps = st.lists(st.tuples(st.sampled_from(list(operators)), inner), min_size=1, max_size=3)
        return st.builds(Arithmetic, inner, steps.map(tuple))

    several = st.lists(inner, min_size=2, max_size=4)
    items = st.lists(st.sampled_from([None, *NUMBERS, *TEXTS]).map(Literal) | inner, min_size=1, max_size=4)
    return st.one_of(
        st.builds(Comparison, st.sampled_from(list(RELATIONS)), inner, inner),
        st.builds(Comparison, st.sampled_from(list(RELATIONS)), inner, inner),
        st.builds(Between, inner, inner, inner),
        st.builds(In, inner, items.map(tuple)),
        st.builds(In, inner, st.lists(leaf_nodes, min_size=1).map(tuple)),
        st.builds(Like, inner, st.sampled_from(PATTERNS), st.just(False)),
        st.builds(Like, inner, st.sampled_from(["a", "C++", "^", "'"]), st.just(True)),
        st.builds(IsNull, inner),
        st.builds(Not, inner),
        several.map(conjunction),
        several.map(disjunction),
        chain("+-"),
        chain("*/%"),
        st.builds(Signed, st.sampled_from(["+", "-"]), inner),
    )


nodes = st.recursive(compound(leaf_nodes), compound, max_leaves=8)


@settings(max_examples=1000, deadline=None)
@given(nodes, documents)
@example(parse("NOT /a = 1"), {"a": ""})
@example(parse("/a <= /b"), {"a": [10, "9"], "b": ["10", 5]})
@example(parse("/a = /b"), {"a": ["2", "x"], "b": [2.0, None]})
def test_agrees_with_the_reference(node: Node, document: dict[str, Any]) -> None:
    """A compiled filter matches exactly when the reference says TRUE, and its negation when it says FALSE."""
    expected = reference_verdict(node, document)
    text = text_of(node)
    assert compile_filter(text).matches(document) is (expected is True)
    assert compile_filter(f"NOT ({text})").matches(document) is (expected is False)
    assert verdict(node)(document) is expected


@settings(max_examples=500, deadline=None)
@given(nodes)
def test_text_reads_back_as_the_same_tree(node: Node) -> None:
    """Whatever a tree prints as is read back as that tree."""
    assert parse(text_of(node)) == node


PATTERN_LITERALS = st.sampled_from(PATTERNS)
constants = st.sampled_from([None, True, False, *NUMBERS, *TEXTS]).map(Literal)
fields = st.sampled_from(["/a", "/c/a"]).map(lambda text: Field(parse_path(text)))
field_predicates = st.one_of(
    st.builds(Comparison, st.sampled_from(list(RELATIONS)), fields, constants),
    st.builds(Comparison, st.sampled_from(list(RELATIONS)), constants, fields),
    st.builds(Between, fields, constants, constants),
    st.builds(In, fields, st.lists(constants, min_size=1, max_size=4).map(tuple)),
    st.builds(Like, fields, PATTERN_LITERALS, st.just(False)),
    st.builds(IsNull, fields),
)
flat_values = scalars | st.lists(scalars, max_size=3)


@settings(max_examples=3000, deadline=None)
@given(field_predicates, flat_values | st.just({}), st.booleans())
@example(parse("/a < 'b'"), "", False)
@example(parse("/a != 'b'"), "", False)
@example(parse("/a LIKE '$'"), "", False)
@example(parse("/a IN (2, 'x')"), "2.0", False)
@example(parse("/c/a = 1"), [0, 1], True)
@example(parse("/c/a IS NULL"), 1, False)
def test_short_roads_agree_with_the_reference(node: Node, value: Any, is_below: bool) -> None:
    """A condition on one field and constants, for which there is a short road, is what the reference says."""
    document = {"c": {"a": value}} if is_below else {"a": value}
    expected = reference_verdict(node, document)
    assert compile_filter(text_of(node)).matches(document) is (expected is True)
    assert compile_filter(text_of(Not(node))).matches(document) is (expected is False)


@settings(max_examples=2000, deadline=None)
@given(st.sampled_from(list("+-*/%")), scalars, scalars)
def test_arithmetic_agrees_with_the_reference(operator: str, left: Any, right: Any) -> None:
    """An operation on two values gives what the reference gives, of the same kind."""
    node = parse(f"/a {operator} /b")
    document = {"a": left, "b": right}
    assert repr(value_closure(node)(document)) == repr(reference_values(node, document)[0])


@settings(max_examples=3000, deadline=None)
@given(
    st.sampled_from(list(RELATIONS)),
    st.lists(scalars, min_size=2, max_size=4),
    st.lists(scalars, min_size=2, max_size=4),
)
@example("<", [None, 5], [1, 2])
@example("<", ["10", "9", 100], [9.5, 8])
@example("=", ["2", "x"], [2.0, 5])
@example("=", [2.0, 5], ["2", "x"])
@example(">", ["a", "10"], [50, 60])
def test_arrays_agree_with_all_pairs(name: str, left: list[Any], right: list[Any]) -> None:
    """A comparison of two arrays, which looks at few elements, is what trying every pair would give."""
    node = parse(f"/a {name} /b")
    document = {"a": left, "b": right}
    assert verdict(node)(document) is reference_verdict(node, document)


MARKS = list("[](),=<>+-*/%!#é'\"\\")
TOKENS = [*MARKS, "==", "!=", "<>", "1", ".5", "1e400", "'x'", '"y"', "r'z'", "foo", "foo("]
PATH_TOKENS = ["/a", "/b/c", "/d[0]", "[/x y]"]
WORDS = ["and", "OR", "Not", "IN", "LIKE", "BETWEEN", "IS", "NULL", "TRUE", "false", "MOD"]


@settings(max_examples=500, deadline=None)
@given(
    st.lists(st.sampled_from(TOKENS + PATH_TOKENS + WORDS), max_size=12), st.sampled_from(["", " ", "\n "])
)
def test_any_text_is_a_filter_or_an_error(tokens: list[str], blank: str) -> None:
    """No text makes the compiler fail in any way but a FilterError, whose column is in the text or at its end."""
    text = blank.join(tokens)
    try:
        tree = parse(text)
    except FilterError as error:
        columns = range(1, len(text) + 2)
        assert error.column in columns  # noqa: PT017  (most texts are errors, some are not)
    else:
        assert parse(text_of(tree)) == tree
