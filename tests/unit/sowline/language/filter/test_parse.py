"""What a text is read as: literals, nodes, the fields of other clauses, and the limits of a text."""

import pytest

from sowline.language.filter.compiled import compile_filter
from sowline.language.filter.parse import FILTER_CHARS_MAX, NESTING_MAX, parse
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
