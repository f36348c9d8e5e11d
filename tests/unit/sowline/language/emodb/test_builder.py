"""One node for each form of the grammar, and the forms that have no meaning."""

import pytest

from sowline.language.emodb.errors import DocumentError
from sowline.language.emodb.parse import read_condition, read_delta
from sowline.language.emodb.printer import text_of


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("5", "5"),
        ("~", "~"),
        ("..", ".."),
        ("{}", "{}"),
        ("{}?", "~"),
        ("{..}", "{..}"),
        ("{..}?", "{..}?"),
        ('{..,"b":1}', '{..,"b":1}'),
        ('{..,"b":~,"a":..}?', '{..,"a":..,"b":~}?'),
        ('{"a":..}', '{"a":..}'),
        ("()", "()"),
        ("(..)", "(..)"),
        ("(2,1,~3)?", "(1,2,~3)?"),
        ('(..,"a",~{"b":1})', '(..,"a",~{"b":1})'),
        ("if + then 1 elif ~ then 2 else 3 end", "if + then 1 elif ~ then 2 else 3 end"),
        ("if + then 1 end", "if + then 1 end"),
        (r'["\u0041",[1 , {"a":"\n"}]]', r'["A",[1,{"a":"\n"}]]'),
        (r'{"a":["\u0009"]}', r'{"a":["\t"]}'),
    ],
)
def test_a_form_of_deltas(text: str, canonical: str) -> None:
    """Its canonical text shows what was built."""
    assert text_of(read_delta(text)) == canonical


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('{"a":1}', '{"a":1}'),
        ('{..,"b":1,"a":"x"}', '{..,"a":"x","b":1}'),
        ('{..,"b":+,"a":~}', '{..,"a":~,"b":+}'),
        ("{..}", "{..}"),
        ("~", "~"),
        ("+", "+"),
        ("alwaysTrue()", "alwaysTrue()"),
        ("alwaysFalse()", "alwaysFalse()"),
        ("in(2,1)", "in(1,2)"),
        ("in()", "alwaysFalse()"),
        ("is(null)", "null"),
        ("is(list)", "is(array)"),
        ("ge(2.5)", "ge(2.5)"),
        ('like("a*")', 'like("a*")'),
        ("contains(1)", "contains(1)"),
        ("containsAny(1,2)", "containsAny(1,2)"),
        ("containsOnly()", "containsOnly()"),
        ('intrinsic("~id":"a","b")', 'intrinsic("~id":"a","b")'),
        ("partition(4:1,2)", "partition(4:1,2)"),
        ("not(~)", "not(~)"),
        ("and(~,+)", "and(~,+)"),
        ("and()", "alwaysTrue()"),
        ("or(~,+)", "or(~,+)"),
        ("or()", "alwaysFalse()"),
    ],
)
def test_a_form_of_conditions(text: str, canonical: str) -> None:
    """Its canonical text shows what was built."""
    assert text_of(read_condition(text)) == canonical


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ('{..,"a":~,"b":~,"a":..}', 16, "expected each key once, got 'a' again"),
        ("(1,..)", 0, "expected only values in a set, got .."),
        ("(~~)", 0, "expected only values in a set, got ~"),
        ("if gt(null) then ~ end", 3, "expected a number or a text for gt, got null"),
        ("if like(1) then ~ end", 8, "expected a text for like, got 1"),
        ('if intrinsic("~x":1) then ~ end', 13, "expected one of the intrinsics ~id,"),
        ("if partition(true:1) then ~ end", 3, "expected a number of partitions, got true"),
    ],
)
def test_a_form_without_meaning(text: str, position: int, problem: str) -> None:
    """The error is at the start of the form."""
    with pytest.raises(DocumentError) as refused:
        read_delta(text)
    assert refused.value.position == position
    assert refused.value.message.startswith(problem)
