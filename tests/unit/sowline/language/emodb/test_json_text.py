"""The canonical text of a JSON value."""

from typing import Any

import pytest

from sowline.language.emodb.json_text import json_text, quoted


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (100.0, "100.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (-3.2e14, "-3.2E14"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (5e-324, "5.0E-324"),
        (2**63 - 1, "9223372036854775807"),
    ],
)
def test_a_number_keeps_its_kind(number: int | float, text: str) -> None:
    """A double has a point, so that it reads back as one."""
    assert json_text(number) == text
    assert type(number)(text) == number


def test_only_what_must_be_is_escaped() -> None:
    """Control characters in capitals; all else as it is."""
    assert json_text('"\\/\b\t\x1f\x7fé\u2028') == '"\\"\\\\/\\b\\t\\u001F\x7fé\u2028"'


def test_a_value_nests_as_deep_as_it_likes() -> None:
    """Its text takes no stack."""
    value: Any = []
    for _ in range(100_000):
        value = [value]
    assert json_text(value) == "[" * 100_001 + "]" * 100_001


def test_equal_values_have_one_text() -> None:
    """Keys are sorted, those that begin with `~` first, and there are no blanks."""
    value = {"b": [], "a": {"d": 1, "c": [True, False, None, {}]}, "~id": "x"}
    assert json_text(value) == '{"~id":"x","a":{"c":[true,false,null,{}],"d":1},"b":[]}'
    assert json_text(dict(reversed(value.items()))) == json_text(value)


def test_a_text_is_quoted_with_few_escapes() -> None:
    """Only what JSON asks for."""
    assert quoted('say "é"\n') == '"say \\"é\\"\\n"'
