"""The canonical text of a tree reads back as the same tree."""

import pytest

from sowline.language.emodb.conditions import intrinsic, negation
from sowline.language.emodb.parse import read_condition, read_delta
from sowline.language.emodb.printer import text_of
from sowline.language.emodb.tree import Equal


@pytest.mark.parametrize(
    "text",
    [
        "~",
        "..",
        '{"a":[1,2.0]}',
        '{..,"a":{..,"b":~}?}',
        "{..}?",
        '(..,1,"a",~2,~"b")?',
        "()",
        "if + then .. elif 1 then ~ else {..} end",
        'if {..,"a":~} then ~ end',
    ],
)
def test_the_text_of_a_delta(text: str) -> None:
    """Canonical text stays as it is."""
    assert text_of(read_delta(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "~",
        "+",
        "null",
        "alwaysTrue()",
        "alwaysFalse()",
        'in("a",1)',
        "is(num)",
        'ge("a\\"b")',
        'like("a*\\\\*")',
        "contains(1)",
        "containsAll(1,2)",
        "containsAny(1,2)",
        "containsOnly(1)",
        'intrinsic("~id":"a","b")',
        'intrinsic("~id":~,like("a*b*c"))',
        "partition(8:1,2)",
        "not(and(~,or(1,+)))",
        '{..,"a":not(~),"b":1}',
    ],
)
def test_the_text_of_a_condition(text: str) -> None:
    """Canonical text stays as it is."""
    assert text_of(read_condition(text)) == text


def test_alternatives_need_no_or() -> None:
    """The cheapest comes first; a single test stands alone."""
    assert (
        text_of(read_condition('intrinsic("~id":or(like("a*b*c"),~))')) == 'intrinsic("~id":~,like("a*b*c"))'
    )
    assert text_of(intrinsic("~id", [negation(Equal("a"))])) == 'intrinsic("~id":not("a"))'


def test_values_are_in_order() -> None:
    """That of their texts, by UTF-16 code units."""
    assert text_of(read_condition('in("\uffff","\U0001f600",10,9)')) == 'in("\U0001f600","\uffff",10,9)'
