"""What the examples of docs/filters.md don't show of functions: limits, laziness, patterns that would hang."""

import math
from typing import Any

import pytest

from sowline.language.filter import FilterError, compile_expression, compile_filter
from sowline.language.filter.fold import FOLDED_TEXT_CHARS_MAX, folded
from sowline.language.filter.functions import FUNCTIONS
from sowline.language.filter.functions.patterns import COMPILED_PATTERNS_MAX, _compiled
from sowline.language.filter.functions.registry import TEXT_CHARS_MAX
from sowline.language.filter.parse import parse
from sowline.language.filter.regex import PATTERN_BYTES_MAX
from sowline.language.filter.tree import Call, Literal


def value(text: str, **fields: Any) -> Any:
    """The value of an expression of these fields."""
    return compile_expression(text).value(fields)


# --- More values ---


@pytest.mark.parametrize(
    ("text", "fields", "expected"),
    [
        ("LENGTH(CONCAT(/a, /a))", {"a": "ab"}, 4),
        ("LEFT('abc', 'two')", {}, None),
        ("CONCAT(/a, /b)", {}, None),
        ("REGEXP_MATCH('order', '[0-9]+')", {}, None),
        ("REGEXP_REPLACE(/a, '(?i)X', '')", {"a": "axbX"}, "ab"),
        ("SUBSTR('fandango', 9)", {}, None),
        ("RIGHT('été', 9)", {}, "été"),
        ("ROUND(-2.5)", {}, -3),
        ("EXP(1000)", {}, math.inf),
        ("POWER(-8, 0.5)", {}, math.nan),
        ("SQRT(-1)", {}, math.nan),
        ("WIDTH_BUCKET(-1, 0, 100, 10)", {}, 0),
        ("WIDTH_BUCKET(1, 5, 5, 10)", {}, None),
        ("ARRAY_COUNT(/legs/px)", {"legs": [{"px": 4}, {"px": 5}]}, 2),
        ("STRPTIME('2009-02-13 and more', '%Y-%m-%d')", {}, None),
        ("STRPTIME('2009-02-13 23:31:30.500000999', '%Y-%m-%d %H:%M:%S.%f')", {}, 1234567890.5),
        ("STRPTIME('2009-W07', '%Y-W%V')", {}, None),
        ("STRPTIME('30 Feb 2009', '%d %b %Y')", {}, None),
        ("STRFTIME('%Y', 1e300)", {}, None),
        ("DAY(1234567890)", {}, 13),
        ("ARRAY_SUM(/a)", {"a": [1, "x"]}, math.nan),
        ("CHAR_VALUE(1e9)", {}, None),
        ("REPLACE('a-b-c', '-', '')", {}, "abc"),
        ("IF(/a, /b, NULL)", {"a": True, "b": [1, 2]}, 1),
        ("GREATEST(/a, 'x')", {}, math.nan),
        ("SUBSTR('fandango', -20, 3)", {}, "fan"),
        ("FLOOR(1e30)", {}, 1e30),
        ("REPLACE('a-b-c', '-', '+')", {}, "a+b+c"),
        ("SUBSTR('fandango', 4)", {}, "dango"),
        ("INSTR('fandango', 'AN')", {}, 0),
        ("ABS(-3)", {}, 3),
        ("ROUND(2.5)", {}, 3),
        ("LN(1)", {}, 0.0),
        ("COT(0)", {}, None),
        ("WIDTH_BUCKET(100, 0, 100, 10)", {}, 11),
        ("ARRAY_COUNT(/a)", {}, 0),
        ("ARRAY_SUM(/a)", {}, None),
        ("ARRAY_MAX(/a)", {"a": ["x"]}, math.nan),
        ("ARRAY_TO_STRING(/a, ', ')", {}, None),
        ("STRFTIME('%c', 0)", {}, "Thu Jan  1 00:00:00 1970"),
        ("STRFTIME('100%q', 0)", {}, "100%q"),
        ("STRPTIME('13 feb 2009', '%d %b %Y')", {}, 1234483200.0),
        ("STRPTIME('Mon 13/2/09', '%a %d/%m/%y')", {}, 1234483200.0),
        ("STRPTIME('1234567890', '%s')", {}, 1234567890.0),
        ("DATE(1234567890, 'Europe/Berlin')", {}, None),
    ],
)
def test_a_value(text: str, fields: dict[str, Any], expected: object) -> None:
    """At the edges of what it takes, a function has this value, of this kind."""
    assert repr(value(text, **fields)) == repr(expected)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("COALESCE() = 1", "expected at least 1 argument for COALESCE at column 1, got 0"),
        (
            "REGEXP_MATCH(/a, '(x') = 'x'",
            "expected a pattern in RE2's syntax in REGEXP_MATCH at column 1, got one with missing ): (x",
        ),
        ("/a BEGINS WITH 'x'", "expected '(' after BEGINS WITH at column 16, got \"'x'\""),
        ("CONDITION(/a)", "expected one quoted condition as the argument of CONDITION at column 1"),
    ],
)
def test_what_a_function_refuses(text: str, sentence: str) -> None:
    """The error says what was expected, and where."""
    with pytest.raises(FilterError) as refused:
        compile_filter(text)
    assert str(refused.value) == sentence


# --- Limits ---

LONGEST = "x" * TEXT_CHARS_MAX


@pytest.mark.parametrize(
    "text",
    [
        "CONCAT(/a, /b)",
        "CONCAT(/a, 'x')",
        "REPLACE(/a, 'x', 'yy')",
        "REPLACE(/a, 'x', /a)",
        "REGEXP_REPLACE(/b, '(?:)', /a)",
        "REGEXP_REPLACE(/c, 'x', /c)",
        "ARRAY_TO_STRING(/list, /a)",
        "UPPER(CONCAT(/b, /sharp))",
        "REVERSE(/longer)",
    ],
)
def test_a_text_too_long_is_null(text: str) -> None:
    """A result longer than the longest text is NULL, and what would grow without limit isn't even made."""
    fields = {"a": LONGEST, "b": "abc", "c": "x" * 10_000, "list": ["p", "q"]}
    assert value(text, **fields, sharp="ß" * (TEXT_CHARS_MAX // 2), longer=LONGEST + "x") is None


def test_the_longest_text_is_a_text() -> None:
    """A result of just the greatest length is there."""
    assert value("CONCAT(/a, 'x')", a=LONGEST[1:]) == LONGEST
    assert value("REPLACE(/a, 'xx', 'x')", a=LONGEST) == LONGEST[: TEXT_CHARS_MAX // 2]
    assert value("REGEXP_REPLACE(/a, '^x', 'é')", a=LONGEST) == "é" + LONGEST[1:]


def test_long_constants_are_not_kept() -> None:
    """A short filter doesn't hold a long text: what is constant and long is made when it is needed."""
    doubled = "CONCAT('" + "x" * (FOLDED_TEXT_CHARS_MAX // 2 + 1) + "', 'y')"
    assert isinstance(folded(parse(doubled)), Literal)
    tree = folded(parse(f"CONCAT({doubled}, {doubled})"))
    assert isinstance(tree, Call)
    assert len(value(f"CONCAT({doubled}, {doubled})")) == FOLDED_TEXT_CHARS_MAX + 4


def test_a_long_set_of_characters_to_trim() -> None:
    """Trimming takes no longer for a long list of characters."""
    characters = "".join(map(chr, range(0x4E00, 0x9E00)))
    assert value("TRIM(/a, /set)", a=characters[-1] * TEXT_CHARS_MAX + "x", set=characters) == "x"


# --- Patterns ---


def test_no_pattern_takes_forever() -> None:
    """The pattern that hangs a backtracking engine is answered at once, in functions too."""
    text = "a" * 100_000 + "b"
    assert value("REGEXP_MATCH(/a, '(a+)+$')", a=text) is None
    assert value("REGEXP_MATCH(/a, /p)", a=text, p="(a+)+b$") == text
    assert value("REGEXP_REPLACE(/a, '(a+)+$', 'x')", a=text) == text


def test_a_replacement_has_a_budget() -> None:
    """Where each of very many matches makes RE2 read to the text's end, there is no result."""
    assert value("REGEXP_REPLACE(/a, 'x.*y|x', 'z')", a="x" * 300_000) is None
    assert value("REGEXP_REPLACE(/a, 'x.*y|x', 'z')", a="x" * 5_000) == "z" * 5_000
    assert value("REGEXP_REPLACE(/a, 'x.*y|x', 'z')", a="x" * 300_000 + "y") == "z"


@pytest.mark.parametrize(
    ("text", "pattern", "result"),
    [
        ("éaé", "(?:)", "-é-a-é-"),
        ("日本", "x*", "-日-本-"),
        ("aaxb", "x*", "-a-a--b-"),
        ("ab", "^", "-ab"),
        ("ab\nc", "(?m)$", "ab-\nc-"),
        ("foo bar", r"\b", "-foo- -bar-"),
        ("aaa", "^a", "-aa"),
        ("\ud800b", "b", "\ud800-"),
    ],
)
def test_empty_matches_stand_between_characters(text: str, pattern: str, result: str) -> None:
    """A match of nothing is replaced once per place, never within a character; anchors know the whole text."""
    assert value("REGEXP_REPLACE(/a, /p, '-')", a=text, p=pattern) == result


def test_a_match_of_bytes_is_still_a_text() -> None:
    """RE2 can match single bytes of a character; what comes out has the replacement character there."""
    assert value(r"REGEXP_MATCH(/a, r'\C')", a="é") == "\ufffd"


@pytest.mark.parametrize(
    "pattern", ["'('", r"r'(a)\1'", "'a{2000}'", "'" + "a" * (PATTERN_BYTES_MAX + 1) + "'"]
)
def test_a_constant_pattern_is_checked(pattern: str) -> None:
    """A constant pattern that RE2 refuses, or that is too long, is an error at the call."""
    for text in (f"1 = REGEXP_MATCH(/a, {pattern})", f"1 = REGEXP_REPLACE(/a, {pattern}, 'x')"):
        with pytest.raises(FilterError) as error:
            compile_filter(text)
        assert error.value.column == 5
        assert "RE2" in error.value.message


def test_a_pattern_in_a_field_is_null_if_refused() -> None:
    """Nothing can be wrong with a filter because of a document."""
    for pattern in ("(", "a" * (PATTERN_BYTES_MAX + 1), None, ""):
        assert value("REGEXP_MATCH('abc', /p)", p=pattern) is None
        assert value("REGEXP_REPLACE('abc', /p, 'x')", p=pattern) is None


def test_few_patterns_are_kept() -> None:
    """The compiled patterns of documents are kept up to a number."""
    for number in range(COMPILED_PATTERNS_MAX * 2):
        assert value("REGEXP_MATCH(/a, /p)", a=f"x{number}", p=f"x{number}$") == f"x{number}"
    assert _compiled.cache_info().currsize <= COMPILED_PATTERNS_MAX


# --- IF, and constants ---


def test_if_evaluates_what_it_chooses() -> None:
    """The argument that isn't chosen is never asked for."""
    asked: list[str] = []

    class Asked(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            asked.append(key)
            return super().get(key, default)

    expression = compile_expression("IF(/a, UPPER(/b), UPPER(/c))")
    assert expression.value(Asked(a=1, b="b", c="c")) == "B"
    assert expression.value(Asked(a=0, b="b", c="c")) == "C"
    assert asked == ["a", "b", "a", "c"]


def test_if_gives_what_any_function_gives() -> None:
    """What is chosen is a result like others: one value, within 64 bits, and not too long."""
    assert value("IF(TRUE, /a, 0)", a=[3, 4]) == 3
    assert repr(value("IF(TRUE, /a, 0)", a=10**30)) == "1e+30"
    assert value("IF(TRUE, /a, 0)", a=LONGEST + "x") is None


def test_constant_calls_are_worked_out_once() -> None:
    """A call of constants is a constant, and so are conditions made of it."""
    assert folded(parse("CONCAT('a', UPPER('b'))")) == Literal("aB")
    assert folded(parse("/a > LENGTH('abc') * 2")) == parse("/a > 6")
    assert folded(parse("IF(TRUE_VALUE(), 1, 2) = 1")) == Literal(True)
    assert folded(parse("UUID7()")) == parse("UUID7()")


def test_functions_of_values_far_out() -> None:
    """Integers stay whole as far as 64 bits go, and results beyond are doubles."""
    assert value("ABS(/a)", a=-(2**63)) == 2**63
    assert repr(value("ABS(/a)", a=-(10**30))) == "1e+30"
    assert value("CEILING(/a)", a=2**64 - 1) == 2**64 - 1
    assert repr(value("ROUND(/a, -3)", a=2**64 - 1)) == "1.8446744073709552e+19"
    assert value("POWER(-10, 309)") == -float("inf")
    assert value("POWER(-10, 310)") == float("inf")
    assert value("WIDTH_BUCKET(0.3, 0, 1, 10)") == 3
    assert value("STRPTIME('366 1999', '%j %Y')") is None
    assert value("STRPTIME('366 2000', '%j %Y')") == value("STRPTIME('2000-12-31', '%F')")


# --- Names ---


def test_names_may_be_in_any_case() -> None:
    """Keywords and functions are read in any case, and with any blanks before a parenthesis."""
    assert parse("if (/a begins\nWith('x') or /b Ends  with ('y') , 1 , upper\n(/c)) is Not nan") == parse(
        "IF(/a BEGINS WITH ('x') OR /b ENDS WITH ('y'), 1, UPPER(/c)) IS NOT NAN"
    )


@pytest.mark.parametrize(
    ("name", "near"),
    [("SUBSTRING", "SUBSTR"), ("CEIL", "CEILING"), ("LCASE", None), ("X" * 5000, None)],
)
def test_a_name_that_is_nearly_right(name: str, near: str | None) -> None:
    """An unknown function is named, shortly, with the one it may have been meant to be."""
    with pytest.raises(FilterError) as error:
        compile_filter(f"{name}(/a) = 1")
    assert (f"; did you mean {near}?" in str(error.value)) is (near is not None)
    assert len(str(error.value)) < 150


def test_names_are_canonical() -> None:
    """Every function stands under its own name, in upper case."""
    assert all(name == function.name == name.upper() for name, function in FUNCTIONS.items())
