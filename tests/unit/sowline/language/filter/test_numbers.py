"""The numbers of the language, and the texts that spell them."""

from math import inf

import pytest

from sowline.language.filter.compiled import compile_filter
from sowline.language.filter.numbers import INT64_MIN, UINT64_MAX, narrow, parse_number


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


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("-0", 0),
        ("+007", 7),
        ("18446744073709551615", UINT64_MAX),
        ("-9223372036854775808", INT64_MIN),
        ("-9223372036854775809", -(2.0**63)),
        ("000000000000000000000000000001", 1),
        ("1e2", 100.0),
        ("1e400", inf),
        ("1_0", None),
        ("0x1f", None),
        ("", None),
        ("nan", None),
    ],
)
def test_the_number_that_a_text_spells(text: str, number: object) -> None:
    """It is an integer without a point and an exponent, within 64 bits."""
    assert repr(parse_number(text)) == repr(number)


def test_integers_beyond_64_bits_become_doubles() -> None:
    """Those beyond doubles become infinite."""
    assert repr([narrow(INT64_MIN), narrow(UINT64_MAX)]) == repr([INT64_MIN, UINT64_MAX])
    assert [narrow(INT64_MIN - 1), narrow(UINT64_MAX + 1)] == [-(2.0**63), 2.0**64]
    assert [narrow(10**400), narrow(-(10**400))] == [inf, -inf]
