"""The sentences for texts that are not filters."""

import pytest

from tests.unit.sowline.language.filter.refusals import refusal


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
        ("/a = 1 AND f(/b, 2) = 3", 12, "expected a known function at column 12, got F"),
        ("f()", 1, "expected a known function at column 1, got F"),
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
