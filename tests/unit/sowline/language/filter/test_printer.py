"""The canonical text of a tree."""

import pytest

from sowline.language.filter.compiled import compile_filter


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
