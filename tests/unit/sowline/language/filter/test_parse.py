"""What a text is read as: literals, nodes, the fields of other clauses, and the limits of a text."""

from collections.abc import Callable
from typing import Any

import pytest

from sowline.language.filter.compiled import compile_filter
from sowline.language.filter.errors import FilterError
from sowline.language.filter.parse import (
    FILTER_CHARS_MAX,
    NESTING_MAX,
    parse,
    parse_enriched,
    parse_order_terms,
    parse_paths,
    parse_projected,
)
from sowline.language.filter.printer import text_of
from sowline.language.filter.tree import Literal
from tests.unit.sowline.language.filter.refusals import refusal


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", 42),
        ("04109", 4109),
        ("18446744073709551615", 18446744073709551615),
        ("18446744073709551616", 18446744073709551616.0),
        ("98.6", 98.6),
        ("31.4e-1", 3.14),
        ("6.022E23", 6.022e23),
        (".5", 0.5),
        ("5.", 5.0),
        ("0" * 6000 + "7", 7),
        ("1" + "0" * 300, 1e300),
        (r"'\a\b\t\n\f\r'", "\a\b\t\n\f\r"),
        (r"'\x41\101\'\q\\'", "AA'q\\"),
        (r"'\xg1\18'", "xg118"),
        (r"""r'\n"'""", '\\n"'),
        (r"""R"\n'" """, "\\n'"),
        ("'a\nb'", "a\nb"),
        ("null", None),
        ("False", False),
    ],
)
def test_literals(text: str, value: object) -> None:
    """A literal has the value, and the kind, that its text says."""
    tree = parse(text)
    assert isinstance(tree, Literal)
    assert repr(tree.value) == repr(value)


def test_a_filter_has_a_length() -> None:
    """A filter of the greatest length works; one character more is an error."""
    text = "/a = 1".ljust(FILTER_CHARS_MAX)
    assert compile_filter(text).matches({"a": 1})
    assert refusal(text + " ").column == FILTER_CHARS_MAX + 1


def nestings(levels: int) -> list[str]:
    """Texts that nest so many levels, each in another way."""
    return [
        "(" * levels + "/a" + ")" * levels,
        "NOT " * levels + "/a",
        "-" * levels + "/a",
        "1 - (" * (levels // 2) + "/a" + ")" * (levels // 2),
        "(NOT " * (levels // 2) + "/a" + ")" * (levels // 2),
        "/a IN (" * levels + "/a" + ")" * levels,
        "abs(" * levels + "/a" + ")" * levels,
        "IF(/a,1," * levels + "/a" + ")" * levels,
        "COALESCE(/b,/c," * levels + "/a" + ")" * levels,
        "/a BEGINS WITH(" * levels + "/a" + ")" * levels,
    ]


@pytest.mark.parametrize("text", nestings(NESTING_MAX))
def test_the_deepest_nesting_works(text: str) -> None:
    """A filter of the greatest depth is compiled, printed and run, whatever it nests."""
    again = compile_filter(str(compile_filter(text)))
    assert again.matches({"a": 1}).__class__ is bool


@pytest.mark.parametrize("text", nestings(NESTING_MAX + 2) + nestings(3_000))
def test_deeper_nesting_is_an_error(text: str) -> None:
    """One level too many, or thousands, is an error of its own kind, not Python's recursion limit."""
    error = refusal(text)
    assert f"at most {NESTING_MAX} levels" in error.message


@pytest.mark.parametrize("operator", [" OR ", " AND "])
def test_long_chains_of_logic_work(operator: str) -> None:
    """A chain of 5,000 terms is one level, and works."""
    text = operator.join(f"/a!={number}" for number in range(5000))
    chain = compile_filter(text)
    assert chain.matches({"a": 5000})
    assert chain.matches({"a": 3}) is (operator == " OR ")
    assert parse(str(chain)) == chain.tree


def test_a_blank_text_is_true() -> None:
    """A filter without conditions matches every document."""
    assert parse(" \n") == Literal(True)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("/a==1 and /b<>2", "/a = 1 AND /b != 2"),
        ("not /a not in (1)", "NOT /a NOT IN (1)"),
        ("/a mod 2", "/a % 2"),
        ("-(/a - 1)", "-(/a - 1)"),
        ("/a not between 1 and 2", "/a NOT BETWEEN 1 AND 2"),
        ("/a not begins  with ('x')", "/a NOT BEGINS WITH ('x')"),
        ("/a not like r'x'", "/a NOT LIKE r'x'"),
        ("/a is not nan or /b not null", "/a IS NOT NAN OR /b IS NOT NULL"),
        ("upper(lower(/a))", "UPPER(LOWER(/a))"),
        ("condition('{..}')", "CONDITION('{..}')"),
    ],
)
def test_a_form_has_one_node(text: str, canonical: str) -> None:
    """It makes no difference how it is written."""
    assert text_of(parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("/a = 1e999", 6, "expected a number that a double can hold at column 6"),
        ("[/a//b] = 1", 1, "got an empty one, at column 1"),
        ("1 = 1 AND CONDITION('{')", 11, "in CONDITION at column 11"),
        ("CONDITION(/a)", 1, "expected one quoted condition as the argument of CONDITION at column 1"),
        ("CONDITION()", 1, "expected one quoted condition as the argument of CONDITION at column 1"),
    ],
)
def test_what_the_grammar_can_not_refuse(text: str, column: int, words: str) -> None:
    """Numbers, paths and conditions are read where they stand."""
    error = refusal(text)
    assert error.column == column
    assert words in error.message


def test_the_field_of_an_enrichment() -> None:
    """An expression over two states, a path for its value, and hints."""
    field = parse_enriched("/a of previous + 1 AS /b/c HINT optional")
    assert text_of(field.expression) == "/a OF PREVIOUS + 1"
    assert (str(field.path), field.hints, field.column) == ("/b/c", {"OPTIONAL"}, 23)


def test_the_fields_of_a_projection() -> None:
    """A bare path is the expression, and the path of its value."""
    whole, computed = parse_projected("/a, /b + 1 AS /c")
    assert (text_of(whole.expression), str(whole.path), whole.column, whole.path_column) == ("/a", "/a", 1, 1)
    assert (text_of(computed.expression), str(computed.path)) == ("/b + 1", "/c")
    assert (computed.column, computed.path_column) == (5, 15)


def test_the_paths_of_a_grouping() -> None:
    """Each has its column."""
    assert [(str(path), column) for path, column in parse_paths("/a, /b/c")] == [("/a", 1), ("/b/c", 5)]


def test_the_terms_of_an_order() -> None:
    """Ascending and by value, unless they say otherwise."""
    terms = parse_order_terms("/a, /b desc, /c asc text, /d DESC TEXT")
    assert [(str(term.path), term.descending, term.text) for term in terms] == [
        ("/a", False, False),
        ("/b", True, False),
        ("/c", False, True),
        ("/d", True, True),
    ]


@pytest.mark.parametrize(
    ("read", "what"),
    [
        (parse_enriched, "field"),
        (parse_projected, "projection"),
        (parse_paths, "grouping"),
        (parse_order_terms, "order"),
    ],
)
def test_an_error_names_what_ends_too_early(read: Callable[[str], Any], what: str) -> None:
    """It is a clause, and not a filter."""
    with pytest.raises(FilterError, match=f"got end of {what}"):
        read("")
