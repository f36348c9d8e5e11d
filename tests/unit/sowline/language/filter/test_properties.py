"""The compiled filter against a slow, obviously right one, on random filters and documents."""

from typing import Any

from hypothesis import assume, example, given
from hypothesis import strategies as st

from sowline.language.filter import Filter, FilterError, compile_filter
from sowline.language.filter.check import REGEXES_SIZE_MAX, regex_size
from sowline.language.filter.compile import value as value_closure
from sowline.language.filter.compile import verdict
from sowline.language.filter.parse import parse, parse_enriched
from sowline.language.filter.printer import text_of
from sowline.language.filter.tree import (
    Affixed,
    Arithmetic,
    Between,
    Call,
    Comparison,
    Field,
    FieldOf,
    In,
    IsNaN,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Signed,
    conjunction,
    disjunction,
    walk,
)
from sowline.model.path import parse_path
from tests.examples import examples
from tests.property.filter_reference import reference_values, reference_verdict
from tests.property.function_reference import FUNCTIONS, OFFSETS
from tests.property.scalar_reference import RELATIONS

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
documents = st.fixed_dictionaries({}, optional=dict.fromkeys(("a", "b", "c", "d e", "p"), json_values))

DATE_FORMATS = ["%Y-%m-%d %H:%M:%S.%f", "%03f", "%a %e %B, day %j of %y", "%I %p, %U %W %V %u %w %G", "x"]


def arguments_of(
    name: str, kinds: str, inner: st.SearchStrategy[Node]
) -> st.SearchStrategy[tuple[Node, ...]]:
    """Arguments for the function, as many as it takes, most of them apt."""
    if name == "STRFTIME":
        return st.tuples(st.sampled_from(DATE_FORMATS).map(Literal), inner)
    if name.startswith("REGEXP_"):
        # A pattern that may be refused stands in a field: as a constant it would be an error.
        patterns = st.sampled_from([*PATTERNS, "a*"]).map(Literal) | st.just(Field(parse_path("/p")))
        rest = [inner] * (len(kinds) - 2)
        return st.tuples(inner, patterns, *rest)
    if kinds == "nt":
        zones = st.sampled_from([*OFFSETS, "x"]).map(Literal)
        return st.tuples(inner) | st.tuples(inner, zones)
    if len(kinds) == 1 and name.endswith("?"):
        return st.lists(inner, min_size=1, max_size=3).map(tuple)
    most = st.tuples(*[inner] * len(kinds))
    return most | st.tuples(*[inner] * (len(kinds) - 1)) if name in OPTIONAL else most


OPTIONAL = {"SUBSTR", "TRIM", "LTRIM", "RTRIM", "ROUND"}


def calls(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    """Calls of every function that the reference has."""
    choices = st.builds(lambda arguments: Call("IF", arguments), st.tuples(inner, inner, inner))
    names = sorted(FUNCTIONS.items())
    of_names = st.sampled_from([(name, kinds) for name, (kinds, _) in names])
    return choices | of_names.flatmap(
        lambda function: arguments_of(*function, inner).map(
            lambda found: Call(function[0].rstrip("?"), found)
        )
    )


states = st.builds(FieldOf, st.sampled_from(PATHS).map(parse_path), st.sampled_from(["PREVIOUS", "CURRENT"]))
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
        st.builds(Affixed, st.sampled_from(["BEGINS", "ENDS"]), inner, items.map(tuple)),
        st.builds(IsNull, inner),
        st.builds(IsNaN, inner),
        calls(inner),
        calls(inner),
        st.builds(Not, inner),
        several.map(conjunction),
        several.map(disjunction),
        chain("+-"),
        chain("*/%"),
        st.builds(Signed, st.sampled_from(["+", "-"]), inner),
    )


nodes = st.recursive(compound(leaf_nodes), compound, max_leaves=8)


def is_within_limits(node: Node) -> bool:
    """Return whether the regular expressions of a filter fit: one from the record counts as the largest."""
    sizes = [regex_size(part) for part in walk(node) if isinstance(part, Call | Like)]
    return sum(sizes) <= REGEXES_SIZE_MAX


@examples(1000)
@given(nodes, documents)
@example(parse("NOT /a = 1"), {"a": ""})
@example(parse("/a <= /b"), {"a": [10, "9"], "b": ["10", 5]})
@example(parse("/a = /b"), {"a": ["2", "x"], "b": [2.0, None]})
def test_agrees_with_the_reference(node: Node, document: dict[str, Any]) -> None:
    """A compiled filter matches exactly when the reference says TRUE, and its negation when it says FALSE."""
    assume(is_within_limits(node))
    expected = reference_verdict(node, document)
    text = text_of(node)
    assert compile_filter(text).matches(document) is (expected is True)
    assert compile_filter(f"NOT ({text})").matches(document) is (expected is False)
    assert verdict(node)(document) is expected
    assert Filter(node).nondeterministic == ()


@examples(500)
@given(nodes | st.recursive(compound(leaf_nodes | states), compound, max_leaves=4))
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
    st.builds(
        Affixed,
        st.sampled_from(["BEGINS", "ENDS"]),
        fields,
        st.lists(constants, min_size=1, max_size=3).map(tuple),
    ),
    st.builds(IsNull, fields),
    st.builds(IsNaN, fields),
)
flat_values = scalars | st.lists(scalars, max_size=3)


@examples(3000)
@given(field_predicates, flat_values | st.just({}), st.booleans())
@example(parse("/a < 'b'"), "", False)
@example(parse("/a != 'b'"), "", False)
@example(parse("/a LIKE '$'"), "", False)
@example(parse("/a IN (2, 'x')"), "2.0", False)
@example(parse("/c/a = 1"), [0, 1], True)
@example(parse("/c/a IS NULL"), 1, False)
def test_shortcuts_agree_with_the_reference(node: Node, value: Any, is_below: bool) -> None:
    """A condition on one field and constants, for which there is a shortcut, is what the reference says."""
    document = {"c": {"a": value}} if is_below else {"a": value}
    expected = reference_verdict(node, document)
    assert compile_filter(text_of(node)).matches(document) is (expected is True)
    assert compile_filter(text_of(Not(node))).matches(document) is (expected is False)


@examples(2000)
@given(st.sampled_from(list("+-*/%")), scalars, scalars)
def test_arithmetic_agrees_with_the_reference(operator: str, left: Any, right: Any) -> None:
    """An operation on two values gives what the reference gives, of the same kind."""
    node = parse(f"/a {operator} /b")
    document = {"a": left, "b": right}
    assert repr(value_closure(node)(document)) == repr(reference_values(node, document)[0])


@examples(3000)
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
TOKENS = [*MARKS, "==", "!=", "<>", "1", ".5", "1e400", "'x'", '"y"', "r'z'", "foo", "foo(", "IF("]
PATH_TOKENS = ["/a", "/b/c", "/d[0]", "[/x y]"]
WORDS = [
    "and",
    "OR",
    "Not",
    "IN",
    "LIKE",
    "BETWEEN",
    "BEGINS WITH",
    "ENDS",
    "IS",
    "NAN",
    "NULL",
    "TRUE",
    "false",
    "MOD",
    "OF",
    "PREVIOUS",
    "current",
    "AS",
    "HINT",
    "OPTIONAL",
]


@examples(500)
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
        assert error.column in columns
    else:
        assert parse(text_of(tree)) == tree


@examples(500)
@given(
    st.lists(st.sampled_from(TOKENS + PATH_TOKENS + WORDS), max_size=12), st.sampled_from(["", " ", "\n "])
)
@example(["/a", "OF", "PREVIOUS", "AS", "/b/c", "HINT", "OPTIONAL"], " ")
def test_any_text_is_a_field_of_enrichment_or_an_error(tokens: list[str], blank: str) -> None:
    """The other rule that texts are read by fails in no other way, either."""
    text = blank.join(tokens)
    try:
        field = parse_enriched(text)
    except FilterError as error:
        columns = range(1, len(text) + 2)
        assert error.column in columns
    else:
        hints = "".join(f" HINT {hint}" for hint in field.hints)
        canonical = f"{text_of(field.expression)} AS {field.path}{hints}"
        assert parse_enriched(canonical)[:3] == field[:3]
