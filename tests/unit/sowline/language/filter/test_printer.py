"""The canonical text of a tree."""

import pytest

from sowline.language.filter.compiled import compile_filter
from sowline.language.filter.parse import parse, parse_enriched
from sowline.language.filter.printer import text_of


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


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("((/a))", "/a"),
        ("(/a = 1 AND /b) OR /c", "/a = 1 AND /b OR /c"),
        ("/a * (/b * /c) - (1 - 2)", "/a * (/b * /c) - (1 - 2)"),
        ("NOT (NOT /a BETWEEN 1 AND 2)", "NOT /a NOT BETWEEN 1 AND 2"),
        ("/a IS NAN", "/a IS NAN"),
        ("TRUE OR FALSE OR NULL", "TRUE OR FALSE OR NULL"),
        ('CONDITION(\'{..,"a":"it\\\'s"}\')', 'CONDITION(\'{..,"a":"it\\\'s"}\')'),
        ('/a LIKE r"it\'s"', '/a LIKE r"it\'s"'),
    ],
)
def test_parentheses_are_those_that_matter(text: str, printed: str) -> None:
    """A text has no others."""
    assert text_of(parse(text)) == printed


def test_a_state_is_part_of_the_text() -> None:
    """An enrichment prints like a filter."""
    assert text_of(parse_enriched("/a of current AS /b").expression) == "/a OF CURRENT"
