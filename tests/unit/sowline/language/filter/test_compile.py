"""Trees compiled to closures: whether a condition is TRUE, whether it is FALSE, its verdict, and values."""

from typing import Any

import pytest

from sowline.language.filter.compile import fails, holds, value, verdict
from sowline.language.filter.parse import parse, parse_enriched

DOCUMENT: dict[str, Any] = {"a": 1, "b": "x", "c": [1, 2], "d": {"e": 2.5}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/a = 1", True),
        ("/a = 2", False),
        ("/none = 1", None),
        ("NOT /a = 1", False),
        ("NOT /none = 1", None),
        ("/a = 1 AND /b = 'x'", True),
        ("/a = 1 AND /none = 1", None),
        ("/a = 2 AND /none = 1", False),
        ("/a = 1 OR /none = 1", True),
        ("/a = 2 OR /none = 1", None),
        ("/a = 2 OR /b = 'y'", False),
        ("/a < /d/e", True),
        ("/a BETWEEN /c AND /d/e", True),
        ("/a IN (/d/e, 1)", True),
        ("/b BEGINS WITH (/b)", True),
        ("/b ENDS WITH ('y', /none)", None),
        ("/b LIKE '^x$'", True),
        ("/b IS NAN", True),
        ("/none IS NULL", True),
        ("/c[1] > 1", True),
        ("TRUE", True),
        ("''", None),
        ("/b", None),
        ("IF(/a, /d/e, /none)", True),
        ("CONDITION('{..,\"a\":1}')", True),
    ],
)
def test_a_condition_has_one_verdict(text: str, expected: bool | None) -> None:
    """It holds if that is TRUE, and fails if it is FALSE."""
    tree = parse(text)
    assert verdict(tree)(DOCUMENT) is expected
    assert holds(tree)(DOCUMENT) is (expected is True)
    assert fails(tree)(DOCUMENT) is (expected is False)


@pytest.mark.parametrize(
    ("text", "document", "expected"),
    [
        ("(/a)/2 = 3", {"a": 6}, True),
        ("/a-1 = 3", {"a-1": 3, "a": 9}, True),
        ("/legs[1]/px = 5", {"legs": [{"px": 4}, {"px": 5}]}, True),
        ("/no/such/field = 1", {"no": 1}, None),
        ('/name = "it\'s"', {"name": "it's"}, True),
        ("/a != 1", {}, None),
        ("10 < ''", {}, None),
        ("NULL OR TRUE", {}, True),
        ("NULL OR FALSE", {}, None),
        ("NULL AND FALSE", {}, False),
        ("NULL AND TRUE", {}, None),
        ("/a = 1", {"a": True}, True),
        ("/qty NOT BETWEEN 1 AND 3", {"qty": 4}, True),
        ("/qty NOT IN (1, 2)", {"qty": 3}, True),
        ("/a * 2 IS NAN", {"a": "three"}, True),
        ("/a IS NOT NAN", {"a": 3}, True),
        ("/data > 4", {"data": [1, "zebra"]}, True),
        ("/data IN (1, 2)", {"data": [1, "zebra"]}, True),
        ("NOT /data IN ('zebra')", {"data": [1, "zebra"]}, False),
        ("/name begins with('x', 'Cr')", {"name": "Cranky"}, True),
        ("/name BEGINS WITH ('x')", {}, None),
        ("1 / 5 = 0", {}, True),
        ("1.0 / 5 = 0.2", {}, True),
        ("/a * 2 = 6", {"a": "three"}, False),
        ("TRUE + TRUE = 2", {}, True),
    ],
)
def test_a_verdict_about_a_document(text: str, document: dict[str, Any], expected: bool | None) -> None:
    """Also where a field is missing, an array, or of another type."""
    assert verdict(parse(text))(document) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/c", [1, 2]),
        ("-/d/e", -2.5),
        ("/a + 2 * 3", 7),
        ("UPPER(/b)", "X"),
        ("IF(/a = 1, 'then', 'else')", "then"),
        ("(/a = 1)", True),
        ("'text'", "text"),
        ("''", None),
    ],
)
def test_an_expression_has_a_value(text: str, expected: Any) -> None:
    """The value of a condition is its verdict."""
    assert value(parse(text))(DOCUMENT) == expected


def test_a_condition_of_an_envelope_has_intrinsics() -> None:
    """Outside of an envelope there are none."""
    tree = parse('CONDITION(\'intrinsic("~id":"k")\')')
    assert value(tree)(DOCUMENT) is False


def test_previous_records_are_replaced_before() -> None:
    """No document holds them, so this is an error of the caller."""
    with pytest.raises(AssertionError, match="no document holds /a OF PREVIOUS"):
        value(parse_enriched("/a OF PREVIOUS AS /b").expression)
