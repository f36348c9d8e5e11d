"""The filter's interface, its trees, its errors and its limits. (What filters mean: test_filter_docs.)"""

import pickle
import sys
import threading
from typing import Any

import pytest

from sowline.errors import SowlineError
from sowline.language.filter import ALL, Filter, FilterError, compile_filter
from sowline.language.filter.fold import folded
from sowline.language.filter.parse import FILTER_CHARS_MAX, NESTING_MAX, parse
from sowline.language.filter.tree import (
    Affixed,
    And,
    Arithmetic,
    Comparison,
    Field,
    In,
    IsNaN,
    IsNull,
    Literal,
    Not,
    Or,
    children,
    walk,
)
from sowline.model.path import Path, parse_path


def refusal(text: str) -> FilterError:
    """The error that the text is refused with."""
    with pytest.raises(FilterError) as error:
        compile_filter(text)
    return error.value


# --- The interface ---


@pytest.mark.parametrize("text", ["", "  \n", "TRUE"])
def test_the_empty_filter_matches_everything(text: str) -> None:
    """A filter of nothing but blanks is ALL, which matches every document."""
    assert compile_filter(text) == ALL
    assert ALL.matches({})
    assert ALL.paths == frozenset()


def test_a_match_is_a_boolean() -> None:
    """`matches` gives True or False, never another value that counts as one."""
    for text in (
        "/a = 'x'",
        "/a AND /b",
        "/a OR /b",
        "/a LIKE 'x'",
        "/a",
        "/a + 1",
        "NOT /a",
        "/a < 'y' OR /b",
    ):
        values: list[Any] = ["x", "", 0, 1, None, [], ["x"], {}, 0.0]
        for value in values:
            assert compile_filter(text).matches({"a": value, "b": value}).__class__ is bool


def test_paths_are_those_mentioned() -> None:
    """A filter tells the paths it mentions, each once, wherever they stand."""
    text = "/a = 1 AND (/b/c + /a > 2 OR NOT /d[0] IN (/e, 3)) AND /f LIKE 'x' AND /g IS NULL"
    paths = {parse_path(path) for path in ("/a", "/b/c", "/d[0]", "/e", "/f", "/g")}
    assert compile_filter(text).paths == paths


def test_the_text_is_canonical() -> None:
    """A filter prints one way, however it was written."""
    text = ' ( (/a==1) ) and  not /b<>2.50 AND (/c in(1,"it\'s") or /d not null) AND /e not like "\'" '
    canonical = (
        r"/a = 1 AND NOT /b != 2.5 AND (/c IN (1, 'it\'s') OR /d IS NOT NULL) AND " + '/e NOT LIKE "\'"'
    )
    assert str(compile_filter(text)) == canonical
    assert repr(compile_filter("1=1")) == "Filter('1 = 1')"


@pytest.mark.parametrize(
    "text",
    [
        "(/a OR /b) AND /c",
        "NOT (/a AND /b)",
        "(/a = /b) = TRUE",
        "(/a - /b) - (/c - 1)",
        "/a - /b - /c * 2 % 3",
        "/a / (/b / 2)",
        "-(/a + 1) * --2",
        "/a BETWEEN 1 + 1 AND (/b = 2)",
        "(/a IN (1)) IS NULL",
        "(NOT /a) + 1",
        "[/unit price] = r'x'",
        "/a LIKE r'\\'",
        "/a LIKE 'x\\'y\\\\'",
        '/a LIKE "\'\\""',
        '/a LIKE r"\'"',
        "/a = '\\x00\\x1f\\a\\b\\f\\r\\t\\n'",
        "/a IN (/b OR /c, NULL)",
        "(/a BEGINS WITH (1)) NOT ENDS WITH ('x', /b OR /c)",
        "(/a IS NAN) IS NOT NAN",
        "IF(/a = 1 OR /b, CONCAT(/c, 'x'), -UPPER(/d)) + 1",
    ],
)
def test_text_reads_back(text: str) -> None:
    """The text of a filter gives the same filter, with its parentheses where they matter."""
    once = compile_filter(text)
    again = compile_filter(str(once))
    assert once == again
    assert once.tree == again.tree
    assert hash(once) == hash(again)


def test_equal_filters_are_compiled_once() -> None:
    """The same text gives the same filter again, from a cache that long texts stay out of."""
    assert compile_filter("/cached = 1") is compile_filter("/cached = 1")
    long = " OR ".join(f"/a = {number}" for number in range(1000))
    assert compile_filter(long) is not compile_filter(long)
    assert compile_filter(long) == compile_filter(long)


def test_different_kinds_of_number_are_different_filters() -> None:
    """`/a / 2` and `/a / 2.0` don't mean the same, and aren't equal."""
    assert compile_filter("/a / 2 = 1") != compile_filter("/a / 2.0 = 1")
    assert Literal(1) != Literal(True)
    assert Literal(1) == Literal(1)
    assert compile_filter("/a") != "/a"


def test_filters_travel_between_processes() -> None:
    """A filter can be pickled: its text says it all."""
    again = pickle.loads(pickle.dumps(compile_filter("/a = 1")))
    assert isinstance(again, Filter)
    assert again.matches({"a": 1})


def test_several_threads_compile_at_once() -> None:
    """Threads that compile at the same time don't disturb each other."""
    wrong: list[int] = []

    def work(number: int) -> None:
        for step in range(50):
            expected = number * 1000 + step
            if not compile_filter(f"/a = {expected} AND /b").matches({"a": expected, "b": 1}):
                wrong.append(expected)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# --- The tree ---


def test_a_tree_says_what_is_written() -> None:
    """The tree has one node per form, canonical, without parentheses."""
    one, two = (
        Comparison("=", Field(Path(("a",))), Literal(1)),
        Comparison("!=", Field(Path(("b",))), Literal(2)),
    )
    assert parse("(/a == 1) AND (/b <> 2)") == And((one, two))
    assert parse("/a NOT IN (1)") == Not(In(Field(Path(("a",))), (Literal(1),)))
    assert parse("/a NOT NULL") == parse("NOT /a IS NULL") == Not(IsNull(Field(Path(("a",)))))
    affixed = Affixed("BEGINS", Field(Path(("a",))), (Literal("x"), Literal(1)))
    assert parse("/a NOT BEGINS WITH ('x', 1)") == Not(affixed)
    assert parse("/a IS NOT NAN") == parse("NOT /a IS NAN") == Not(IsNaN(Field(Path(("a",)))))
    assert parse("1 - 2 + 3") == Arithmetic(Literal(1), (("-", Literal(2)), ("+", Literal(3))))
    assert parse("1 MOD 2") == parse("1 % 2")


def test_chains_of_logic_are_flat() -> None:
    """AND of ANDs is one AND, OR of ORs one OR, with or without parentheses."""
    assert parse("/a AND (/b AND /c) AND /d") == parse("((/a AND /b) AND /c) AND /d")
    tree = parse("/a OR (/b OR /c)")
    assert isinstance(tree, Or)
    assert len(tree.terms) == 3


def test_walk_meets_every_node() -> None:
    """`walk` gives a node, then all below it, in the order written."""
    tree = parse(
        "-/a + 1 BETWEEN /b AND 2 OR /c IN (/d) OR /e LIKE 'x' OR NOT /f IS NULL OR NOSUCH(/g) = 1"
        " OR /h ENDS WITH (/i, /j) OR /k IS NAN"
    )
    fields = [str(node.path) for node in walk(tree) if isinstance(node, Field)]
    assert fields == [f"/{name}" for name in "abcdefghijk"]
    assert children(Literal(1)) == ()


# --- Numbers and strings ---


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


@pytest.mark.parametrize(
    ("text", "number", "is_above"),
    [
        ("12", 12, False),
        ("+12", 12, False),
        ("-1.5e1", -15, False),
        (".5", 0.5, False),
        ("9" * 30, 1e30, False),
        ("1e400", float("inf"), False),
        *(
            (text, 1e308, True)
            for text in ("nan", "inf", "Infinity", "1_0", " 1", "1 ", "٣", "0x1", "1e", ".", "+")
        ),
    ],
)
def test_strings_that_spell_numbers(text: str, number: float, is_above: bool) -> None:
    """A string is compared with a number as the number it spells; one that spells none is above all numbers."""
    document = {"a": text, "b": number}
    assert compile_filter("/a > /b").matches(document) is is_above
    assert compile_filter("/a = /b").matches(document) is not is_above


def test_integers_of_any_size_in_a_document() -> None:
    """An integer beyond 64 bits compares exactly, and is a double in arithmetic and LIKE."""
    document = {"a": 10**400, "b": -(10**400), "c": 2**70}
    assert compile_filter("/a > 1 AND /b < 1").matches(document)
    assert compile_filter("/a - 1 = /a * 2 AND -/a = /b * 1").matches(document)
    assert compile_filter("/c LIKE 'e[+]21$' AND /a LIKE 'inf'").matches(document)


# --- LIKE ---


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("'b'", "abc", True),
        ("'^b'", "abc", False),
        ("'^a'", "abc", True),
        ("'c$'", "abc", True),
        ("'b$'", "abc", False),
        ("'^abc$'", "abc", True),
        ("'^ab$'", "abc", False),
        (r"'a\.c'", "a.c", True),
        (r"'a\.c'", "abc", False),
        (r"'\$'", "a$b", True),
        (r"'a\^'", "a^", True),
        ("'c$'", "abc\n", False),
        ("'(?m)c$'", "abc\nd", True),
        ("'a.c'", "a\nc", False),
        ("'(?s)a.c'", "a\nc", True),
        ("'^.$'", "é", True),
        (r"'\x41\t'", "A\t", True),
        (r"'it\'s'", "it's", True),
        ("'a'", "A", False),
        ("'(?i)É'", "é", True),
        ("r'^a.'", "x^a.", True),
        ("r'^a.'", "ab", False),
        ("''", "abc", True),
        ("'a]'", "a]", True),
        ("'a'", "\ud800a", True),
        ("'[b]'", "\ud800", False),
    ],
)
def test_like(pattern: str, text: str, found: bool) -> None:
    """LIKE finds a pattern anywhere unless it is anchored; a raw pattern letter by letter."""
    assert compile_filter(f"/a LIKE {pattern}").matches({"a": text}) is found


def test_no_pattern_takes_forever() -> None:
    """The pattern that hangs a backtracking engine is answered at once."""
    hang = compile_filter("/a LIKE '(a+)+$'")
    assert hang.matches({"a": "a" * 100_000})
    assert not hang.matches({"a": "a" * 100_000 + "b"})


@pytest.mark.parametrize(
    "pattern", ["(a", "a**", r"(a)\1", "(?=a)", "a{2000}", "((a{100}){100}){100}", r"\y", "[z-a]"]
)
def test_a_bad_pattern_is_an_error(pattern: str) -> None:
    """A pattern that RE2 refuses is an error at the pattern's column, with RE2's reason."""
    error = refusal(f"/a LIKE '{pattern}'")
    assert error.column == 9
    assert "RE2" in error.message


# --- Arrays ---


@pytest.mark.parametrize("operator", ["=", "!=", "<", "<=", ">", ">="])
def test_large_arrays_are_not_compared_pair_by_pair(operator: str) -> None:
    """Two arrays of 100,000 elements are compared without trying ten thousand million pairs."""
    below, above = [str(n) for n in range(100_000)], [100_000 + n for n in range(100_000)]
    matched = compile_filter(f"/a {operator} /b").matches({"a": below, "b": above})
    assert matched is (operator in ("!=", "<", "<="))


# --- Errors ---


def test_a_filter_error_is_a_sowline_error() -> None:
    """A FilterError has the reason code `bad filter`, a column, and the sentence as its text."""
    error = refusal("/a = 1 AND")
    assert isinstance(error, SowlineError)
    assert (error.reason, error.column) == ("bad filter", 11)
    assert str(error) == "expected an operand after AND at column 11, got end of filter"


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("AND", 1, "expected an operand at column 1, got 'AND'"),
        ("/a =", 5, "expected an operand after ="),
        ("/a = = 1", 6, "expected an operand after ="),
        ("NOT", 4, "expected an operand after NOT"),
        ("/a = NOT /b", 6, "expected an operand after = at column 6, got 'NOT'"),
        ("/a = 1 /b = 2", 9, "(after an operand, '/' divides)"),
        ("/a = 1 'x'", 8, "expected an operator after 1 at column 8, got \"'x'\""),
        ("/a = 1)", 7, "expected an operator or the end after 1 at column 7, got ')'"),
        ("/a ! 1", 4, "expected an operator after /a at column 4, got '!'"),
        ("/a # 1", 4, "got '#'"),
        ("(/a = 1 = 2)", 9, "comparisons can't be chained"),
        ("/a BETWEEN 1 AND 2 = 3", 20, "comparisons can't be chained"),
        ("/a BETWEEN 1", 13, "expected AND after 1"),
        ("/a BETWEEN 1 OR 2", 14, "expected AND after 1"),
        ("/a IN 1", 7, "expected '(' after IN"),
        ("/a IN ()", 8, "expected an operand after ("),
        ("/a IN (1", 9, "expected ',' or ')' after 1"),
        ("/a IN (1,", 10, "expected an operand after ,"),
        ("/a NOT 5", 8, "expected IN, LIKE, BETWEEN, BEGINS WITH, ENDS WITH or NULL after NOT"),
        ("/a IS 5", 7, "expected NULL, NAN, NOT NULL or NOT NAN after IS"),
        ("/a LIKE 5", 9, "expected a quoted pattern after LIKE"),
        ("/a = 'x\\'", 6, "expected a closing '"),
        ('/a = "x', 6, 'expected a closing "'),
        ("/a = [/b", 6, "expected a closing ]"),
        ("/a[0 = 1", 3, "expected a closing ]"),
        ("[/] = 1", 1, "expected a"),
        ("[/a//b] = 1", 1, "expected a name after every /"),
        ("1 = /a[9999999999]", 5, "at most 9 digits"),
        ("qty > 1", 1, "(a field's name begins with '/')"),
        ("/a = 1 AND f(/b, 2) = 3", 12, "unknown function F at column 12"),
        ("f()", 1, "unknown function F at"),
        ("1 = 1e999", 5, "a double can hold"),
        ("/a = " + "x" * 500, 6, "..."),
    ],
)
def test_errors_say_where_and_what(text: str, column: int, words: str) -> None:
    """An error names the column where the trouble begins, what was expected there, and what came."""
    error = refusal(text)
    assert error.column == column
    assert words in error.message
    assert len(error.message) < 250


# --- Limits ---


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


def test_a_condition_in_a_condition_is_asked_once() -> None:
    """Conditions used as values, nested as deep as goes, take no more calls than there are levels."""
    calls = 0

    class Counting(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            nonlocal calls
            calls += 1
            return super().get(key, default)

    depth = NESTING_MAX // 2 - 3
    text = "(" * depth + "/a = 1" + ") = TRUE" * depth
    assert compile_filter(text).matches(Counting(a=1))
    assert compile_filter(f"NOT ({text} AND /a)").matches(Counting(a=0))
    assert calls <= 4


@pytest.mark.parametrize("operator", [" OR ", " AND "])
def test_long_chains_of_logic_work(operator: str) -> None:
    """A chain of 5,000 terms is one level, and works."""
    text = operator.join(f"/a!={number}" for number in range(5000))
    chain = compile_filter(text)
    assert chain.matches({"a": 5000})
    assert chain.matches({"a": 3}) is (operator == " OR ")
    assert parse(str(chain)) == chain.tree


def test_long_sums_and_lists_work() -> None:
    """A sum of 15,000 numbers, or a list of as many, is one level, and works."""
    assert compile_filter("+".join(["1"] * 15_000) + " = 15000").matches({})
    assert compile_filter("+".join(["/a"] * 15_000) + " = 15000").matches({"a": 1})
    assert compile_filter(f"/a IN ({','.join(map(str, range(10_000)))})").matches({"a": 9_999})


def test_matching_needs_little_stack() -> None:
    """The deepest filter can be matched from deep within a program."""
    levels = NESTING_MAX // 2 - 1
    deepest = [
        compile_filter("(/a + " * levels + "1" + ")" * levels + " > 0"),
        compile_filter("COALESCE(/b, /c, " * 98 + "/a" + ")" * 98 + " > 0"),
        compile_filter("IF(/a, " * 98 + "1" + ", 0)" * 98 + " > 0"),
    ]

    def descend(levels: int) -> bool:
        return descend(levels - 1) if levels else all(filter_.matches({"a": 1}) for filter_ in deepest)

    assert descend(sys.getrecursionlimit() // 2)


def test_a_filter_holds_so_many_regular_expressions() -> None:
    """One is quick, and so are all together; plain patterns don't count."""
    plain = " OR ".join("/a LIKE '^plain$' OR /b LIKE r'C++'" for _ in range(200))
    compile_filter(plain)
    regexes = " OR ".join(
        f"/a LIKE 'x{n}+'" if n % 2 else f"REGEXP_MATCH(/a, 'x{n}+') = 'x'" for n in range(100)
    )
    compile_filter(regexes)
    with pytest.raises(FilterError, match=r"at most 100 regular expressions, .+ got more at column"):
        compile_filter(f"{regexes} OR /a LIKE 'y+'")


def test_zeros_of_both_signs_are_two_literals() -> None:
    """They are equal numbers, and different texts: what is kept of one must not answer for the other."""
    minus, plus = (compile_filter(f"/a BEGINS WITH ({zero})").tree for zero in ("-0.0", "0.0"))
    assert folded(minus) != folded(plus)
