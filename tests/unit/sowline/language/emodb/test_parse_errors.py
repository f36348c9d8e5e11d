"""The sentences for texts that are not deltas or conditions."""

import pytest

from sowline.language.emodb import DocumentError, compile_condition, parse_delta


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "expected a delta at column 1, got the end of the delta"),
        ("foo", "expected a delta at column 1, got 'foo'"),
        ('{..,"a" 1}', "expected a key in double quotes and a colon at column 5, got '\"a\"'"),
        ('{"a":1,\n "b":}', "expected a delta at line 2, column 6, got '}'"),
        ("{..", "expected ',' or '}' at column 4, got the end of the delta"),
        ("if 1 the 2 end", "expected then at column 6, got 'the'"),
        ("if 1 then 2", "expected elif, else or end at column 12, got the end of the delta"),
        ("5 5", "expected the end at column 3, got '5'"),
        ("{..} ?", "expected the end at column 6, got '?'"),
        ('"abc', 'expected a closing " for the string, at column 1'),
        ('"a\nb"', "expected no control character in a string, got '\\n', at line 1, column 3"),
        (r'"\q"', r"expected one of \" \\ \/ \b \f \n \r \t \uXXXX in a string, at column 2"),
        ("1e400", "expected a number that a double can hold, at column 1"),
        ('{..,"a":1,"a":2}', "expected each key once, got 'a' again, at column 11"),
        ('{"a":[{"b":1,"b":2}]}', "expected each key once, got 'b' again, at column 14"),
        ("(1,(2))", "expected only values in a set, got (2), at column 1"),
        ("(1,~1)", "expected each value of a set once, got 1 twice, at column 1"),
        ("{..}\0", "expected the end at column 5, got '\\x00'"),
        ("[~]", "expected a value at column 2, got '~'"),
    ],
)
def test_what_is_no_delta_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    """The sentence says what was expected, where, and what came."""
    with pytest.raises(DocumentError) as refused:
        parse_delta(text)
    assert (refused.value.reason, refused.value.message) == ("bad delta", sentence)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "expected a condition at column 1, got the end of the condition"),
        ("(1)", "expected a condition at column 1, got '('"),
        (
            "is(number)",
            "string, array or object at column 4, got 'number'",
        ),
        ("gt(true)", "expected a number or a text for gt, got true, at column 1"),
        ("like(5)", "expected a text for like, got 5, at column 6"),
        (r'like("a\\")', "expected a character after the backslash that ends the pattern, at column 6"),
        ('intrinsic("~version":1)', "~version"),
        ("partition(4:5)", "expected a partition between 1 and 4, got 5, at column 1"),
        ("partition(0:1)", "expected at least 1 partition, got 0, at column 1"),
        ("not()", "expected a condition at column 5, got ')'"),
        ("not(1,2)", "expected ')' at column 6, got ','"),
        ("contains", "expected '(' at column 9, got the end of the condition"),
        ("True", "expected a condition at column 1, got 'True'"),
    ],
)
def test_what_is_no_condition_is_refused_with_a_sentence(text: str, sentence: str) -> None:
    """The sentence says what was expected, where, and what came."""
    with pytest.raises(DocumentError) as refused:
        compile_condition(text)
    assert refused.value.reason == "bad condition"
    assert sentence in refused.value.message
