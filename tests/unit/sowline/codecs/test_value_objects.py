"""Value objects: which parts of JSON are values, how they merge, and their texts."""

import math
from typing import Any

import pytest

from sowline.codecs.value_objects import (
    base64_text,
    bytes_of,
    check_no_look_alike,
    containers,
    instant_of,
    instant_text,
    is_value_object,
    may_have_names,
    members,
    merged_values,
    non_finite_text,
    replace_value_objects,
    reserved_names,
    shown,
)
from sowline.errors import SowlineError
from sowline.model.merge import DEPTH_MAX

RESERVED = reserved_names(["$date", "$code", "$code $scope"])


@pytest.mark.parametrize("part", [{"$date": 5}, {"$code": "x", "$scope": {}}, {"$scope": 1, "$code": 2}])
def test_exactly_reserved_names_are_a_value(part: Any) -> None:
    """Whatever their values, and in any order. A map of a message may not look like one."""
    assert is_value_object(part, RESERVED)
    with pytest.raises(SowlineError, match=r"expected no map whose only names are \$") as refused:
        check_no_look_alike(part, RESERVED)
    assert refused.value.reason == "bad message"


@pytest.mark.parametrize(
    "part",
    [{}, {"$scope": 1}, {"$date": 1, "a": 2}, {"$date": 1, "$code": 2}, {"date": 1}, ["$date"], "$date"],
)
def test_any_other_part_is_no_value(part: Any) -> None:
    """One other name is enough."""
    assert not is_value_object(part, RESERVED)
    check_no_look_alike(part, RESERVED)


@pytest.mark.parametrize(
    ("body", "may"), [(b'{"$a":1}', True), (b'{"\\u0024a":1}', True), (b'{"a":"x"}', False), (b"{}", False)]
)
def test_json_shows_whether_it_may_have_names(body: bytes, may: bool) -> None:
    """The name may be written as an escape; most bodies need no other look."""
    assert may_have_names(body) is may


def test_containers_come_outer_ones_first() -> None:
    """A caller may replace the values of one before it takes the next."""
    document: Any = {"a": {"b": [{"c": 1}]}, "d": 2}
    found = list(containers(document))
    assert found == [document, {"b": [{"c": 1}]}, [{"c": 1}], {"c": 1}]
    for container in containers(document):
        for key, part in members(container):
            container[key] = {"new": 1} if part == [{"c": 1}] else part
    assert document == {"a": {"b": {"new": 1}}, "d": 2}


def test_members_of_both_containers_have_keys() -> None:
    """Those of an array are its positions."""
    assert list(members({"a": 1})) == [("a", 1)]
    assert list(members(["x", "y"])) == [(0, "x"), (1, "y")]


def test_inner_values_are_replaced_first() -> None:
    """An outer value is made of inner ones; names at the top are those of a record."""
    document = {"$date": {"a": [{"$code": "x", "$scope": {"b": {"$date": 5}}}, {"$date": 6}]}}
    replace_value_objects(document, RESERVED, lambda part: tuple(part.values()))
    assert document == {"$date": {"a": [("x", {"b": (5,)}), (6,)]}}


def test_a_value_that_is_none_is_a_bad_message() -> None:
    """The sentence has what was expected, and the value."""

    def refuse(part: dict[str, Any]) -> Any:
        raise ValueError("a time")

    with pytest.raises(SowlineError, match=r'^expected a time, got \{"\$date":"x"\}$') as refused:
        replace_value_objects({"a": {"$date": "x"}}, RESERVED, refuse)
    assert refused.value.reason == "bad message"


@pytest.mark.parametrize(
    ("body", "delta", "after"),
    [
        (b'{"a":{"b":1}}', b'{"a":{"c":2}}', b'{"a":{"b":1,"c":2}}'),
        (b'{"a":{"$date":1}}', b'{"a":{"$date":2}}', b'{"a":{"$date":2}}'),
        (b'{"a":{"$date":1}}', b'{"a":{"$code":"x"}}', b'{"a":{"$code":"x"}}'),
        (b'{"a":{"$date":1}}', b'{"a":{"b":2}}', b'{"a":{"b":2}}'),
        (b'{"a":{"b":{"$date":1},"c":1}}', b'{"a":{"b":{"$date":2}}}', b'{"a":{"b":{"$date":2},"c":1}}'),
        (b'{"a":{"$x":1}}', b'{"a":{"$y":2}}', b'{"a":{"$x":1,"$y":2}}'),
        (b'{"a":{"$date":1}}', b'{"b":1}', b'{"a":{"$date":1},"b":1}'),
    ],
)
def test_a_value_is_replaced_as_a_whole(body: bytes, delta: bytes, after: bytes) -> None:
    """And replaces as a whole; objects that are no values are merged."""
    assert merged_values(body, delta, RESERVED) == after


def test_merging_has_a_depth() -> None:
    """The same as without values."""
    body = b'{"a":' * (DEPTH_MAX + 1) + b'{"$date":1}' + b"}" * (DEPTH_MAX + 1)
    with pytest.raises(SowlineError, match=f"at most {DEPTH_MAX} levels") as refused:
        merged_values(body, body, RESERVED)
    assert refused.value.reason == "too deep"
    shallower = body[5:-1]
    assert merged_values(shallower, shallower, RESERVED) == shallower


def test_an_excerpt_is_short() -> None:
    """What JSON lacks is shown by its text."""
    assert shown({"a": math.inf, "b": range(2)}) == '{"a":null,"b":"range(0, 2)"}'
    assert shown("x" * 100) == f'"{"x" * 59}…'


def test_bytes_are_base64() -> None:
    """Text that is not exactly base64 is refused: a typing error would become other bytes."""
    assert base64_text(b"\xff\0") == "/wA="
    assert bytes_of("/wA=") == b"\xff\0"
    for wrong in ("/wA", "/w A=", "é", 5, None):
        with pytest.raises(ValueError, match=r"^bytes as base64 text$"):
            bytes_of(wrong)


@pytest.mark.parametrize(
    ("number", "text"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")]
)
def test_doubles_that_are_not_finite_have_texts(number: float, text: str) -> None:
    """JSON has no number for them."""
    assert non_finite_text(number) == text


@pytest.mark.parametrize(
    ("seconds", "fraction", "digits", "text"),
    [
        (0, 0, 3, "1970-01-01T00:00:00.000Z"),
        (-1, 5, 9, "1969-12-31T23:59:59.000000005Z"),
        (-62_135_596_800, 0, 3, "0001-01-01T00:00:00.000Z"),
        (253_402_300_799, 999, 3, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_a_time_has_one_text(seconds: int, fraction: int, digits: int, text: str) -> None:
    """It is read back as it was."""
    assert instant_text(seconds, fraction, digits) == text
    assert instant_of(text, digits) == (seconds, fraction)


def test_a_time_may_have_fewer_digits() -> None:
    """Those that are missing are zeros."""
    assert instant_of("1970-01-01T00:00:01Z", 3) == (1, 0)
    assert instant_of("1970-01-01T00:00:01.5Z", 3) == (1, 500)


@pytest.mark.parametrize(
    "text", ["1970-01-01T00:00:00.0001Z", "1970-02-30T00:00:00Z", "1970-01-01T00:00:00", "0", 5, None]
)
def test_what_is_no_time_is_refused(text: Any) -> None:
    """The error has an example with as many digits as there may be."""
    with pytest.raises(ValueError, match=r"^a time like 2026-11-26T12:34:56\.789Z$"):
        instant_of(text, 3)
