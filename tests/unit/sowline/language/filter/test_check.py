"""What the grammar allows and a filter does not."""

import pytest

from sowline.language.filter.check import REGEXES_SIZE_MAX, check, regex_size
from sowline.language.filter.compiled import compile_filter
from sowline.language.filter.errors import FilterError
from sowline.language.filter.parse import parse, parse_enriched
from sowline.language.filter.regex import PATTERN_BYTES_MAX, PATTERN_SIZE_MAX


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


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        (
            "/a = 1 AND uppr(/b) = 2",
            12,
            "expected a known function at column 12, got UPPR; did you mean UPPER?",
        ),
        (f"{'x' * 50}()", 1, f"expected a known function at column 1, got {'X' * 37}..."),
        ("UPPER()", 1, "expected 1 argument for UPPER at column 1, got 0"),
        ("SUBSTR(/a)", 1, "expected 2 or 3 arguments for SUBSTR at column 1, got 1"),
        ("NAN_VALUE(1)", 1, "expected no argument for NAN_VALUE at column 1, got 1"),
        ("CONCAT()", 1, "expected at least 1 argument for CONCAT at column 1, got 0"),
        ("REGEXP_MATCH(/a, '(b') = 1", 1, "expected a pattern in RE2's syntax in REGEXP_MATCH at column 1"),
        ("/a LIKE '(b'", 9, "expected a pattern in RE2's syntax after LIKE at column 9"),
        (f"/a LIKE '{'(x|y){9}' * 2000}'", 9, "after LIKE at column 9"),
        (f"/a LIKE r'{'x' * (PATTERN_BYTES_MAX + 1)}'", 9, "after LIKE at column 9"),
    ],
    ids=lambda text: str(text)[:20],
)
def test_what_can_not_be_compiled(text: str, column: int, words: str) -> None:
    """The sentence says where it is, and what a writer may have meant."""
    with pytest.raises(FilterError) as refused:
        check(parse(text))
    assert refused.value.column == column
    assert words in refused.value.message


def test_a_filter_has_no_previous_record() -> None:
    """Only a field of an enrichment has."""
    tree = parse_enriched("/a OF PREVIOUS AS /b").expression
    with pytest.raises(
        FilterError, match=r"got /a OF PREVIOUS \(only enrichment has OF PREVIOUS and OF CURRENT\)"
    ):
        check(tree)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("/a LIKE 'abc'", 0),
        ("/a LIKE r'a+'", 0),
        ("/a LIKE 'a+'", 2),
        ("REGEXP_MATCH(/a, 'a+')", 2),
        ("REGEXP_MATCH(/a, '')", 1),
        ("REGEXP_MATCH(/a, /b)", PATTERN_SIZE_MAX),
        ("UPPER(/a)", 0),
        ("REGEXP_MATCH(/a)", 0),
    ],
)
def test_the_size_of_a_regular_expression(text: str, size: int) -> None:
    """A pattern that comes from the record counts as the largest."""
    assert regex_size(parse(text)) == size


def test_patterns_have_a_total_size() -> None:
    """A pattern of the record counts as half of it."""
    patterns = [f"REGEXP_MATCH(/a, /p{number}) = 'x'" for number in range(3)]
    check(parse(" AND ".join(patterns[: REGEXES_SIZE_MAX // PATTERN_SIZE_MAX])))
    with pytest.raises(FilterError, match=f"of {REGEXES_SIZE_MAX} characters together"):
        check(parse(" AND ".join(patterns)))


@pytest.mark.parametrize("pattern", ["NULL", "''", "/b"])
def test_a_pattern_that_is_unknown_is_no_error(pattern: str) -> None:
    """NULL, and what only a record gives, are looked at when there is a record."""
    check(parse(f"REGEXP_MATCH(/a, {pattern}) = 'x'"))
