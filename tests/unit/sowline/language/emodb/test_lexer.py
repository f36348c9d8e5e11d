"""The lexemes of a text: words, punctuation, and values that are read at once."""

from typing import Any

import pytest

from sowline.language.emodb.lexer import READ_AHEAD_MAX, Lexeme, Malformed, lexemes, whole


def seen(text: str) -> list[tuple[str, Any]]:
    """Return the types and values of a text's lexemes."""
    return [(lexeme.type, lexeme.value) for lexeme in lexemes(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("true", ("VALUE", True)),
        ("null", ("NULL", None)),
        ("-12", ("VALUE", -12)),
        ("9223372036854775807", ("VALUE", 2**63 - 1)),
        ("9223372036854775808", ("VALUE", 2.0**63)),
        ("1e3", ("VALUE", 1000.0)),
        ("007", ("WORD", "007")),
        ("True", ("WORD", "True")),
        ("then", ("_THEN", "then")),
        ("then~", ("WORD", "then~")),
        ("containsAny", ("CONTAINS_MANY", "containsAny")),
        ("map", ("STATE", "map")),
        ("..", ("DOTS", "..")),
        ("}?", ("EMPTY_RBRACE", "}?")),
        ("?", ("FOREIGN", "?")),
        ('"a"', ("VALUE", "a")),
        ('"a" :', ("KEY", "a")),
        (r'"\u0041"', ("VALUE", "A")),
        (r'"\n" :', ("KEY", "\n")),
        ("[1, {}]", ("VALUE", [1, {}])),
        ('{"a":[1.0]}', ("VALUE", {"a": [1.0]})),
        ('{ .. , "a":1}', ("MEMBERS", {"a": 1})),
    ],
)
def test_a_text_of_one_lexeme(text: str, expected: tuple[str, Any]) -> None:
    """Blanks around it make no difference; a double differs from an integer."""
    assert repr(seen(f" \t{text}\n")) == repr([expected])


@pytest.mark.parametrize("text", ["[1,~]", "{..}", '{"a":1}?', '{"a":1,"a":2}', "[1e400]", "[NaN]"])
def test_what_is_not_plain_json_is_taken_apart(text: str) -> None:
    """The grammar reads it, or says what is wrong with it."""
    assert next(lexemes(text)).type in ("_LBRACE", "_LSQB")


def test_a_lexeme_has_its_position() -> None:
    """Errors name it."""
    assert [*lexemes(' if "a"')] == [Lexeme("_IF", "if", 1, 3), Lexeme("VALUE", "a", 4, 7)]


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ('1 "abc', 2, 'expected a closing " for the string'),
        ('"a\x01"', 2, "expected no control character in a string, got '\\x01'"),
        (r'"\x"', 1, r"expected one of \" \\ \/ \b \f \n \r \t \uXXXX in a string"),
        ("5 -1e999", 2, "expected a number that a double can hold"),
    ],
)
def test_a_text_that_can_not_be_read(text: str, position: int, problem: str) -> None:
    """The error is where the reader stopped."""
    with pytest.raises(Malformed) as refused:
        list(lexemes(text))
    assert (refused.value.position, str(refused.value)) == (position, problem)


def test_plain_json_is_not_searched_for_at_every_bracket() -> None:
    """After some times the text's length in vain, brackets are read one by one: else the time would be quadratic."""
    levels = 4 * READ_AHEAD_MAX
    nested = "[" * levels + "[1]" + "~" + "]" * levels
    assert seen(nested)[levels : levels + 3] == [("_LSQB", "["), ("VALUE", 1), ("_RSQB", "]")]
    assert seen("[~,[1]]")[3] == ("VALUE", [1])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"a":1} ', "VALUE"),
        ('\n{..,"a":1}', "MEMBERS"),
        ("[1]", None),
        ('{"a":~}', None),
        ("{..}", None),
        ("{} {}", None),
        ("{", None),
        ("1", None),
    ],
)
def test_a_text_that_is_one_object(text: str, kind: str | None) -> None:
    """It needs no grammar."""
    lexeme = whole(text)
    assert (lexeme.type if lexeme else None) == kind
