"""Limits: lifetimes, shares, and the form in which they travel."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.errors import SowlineError
from sowline.limits import LIFETIME_MS_MAX, Limits, define_value, read_define

limits = st.builds(
    Limits,
    st.sampled_from(["disabled", "enabled"]) | st.integers(1, LIFETIME_MS_MAX),
    st.integers(1, 2**26),
    st.integers(0, 10**12),
    st.none() | st.integers(1, 10**12),
)


@given(limits, limits)
def test_what_is_defined_reads_back(was: Limits, now: Limits) -> None:
    """Of a `define` command, and of progress events."""
    assert read_define(define_value(was, now)) == (was, now)
    assert Limits.read(now.fields()) == now


@pytest.mark.parametrize(
    ("expiration", "seconds", "due"),
    [
        ("disabled", None, None),
        ("disabled", 2.5, 3500),
        ("enabled", None, None),
        ("enabled", 2.5, 3500),
        ("enabled", 0.0, None),
        (30_000, None, 31_000),
        (30_000, 2.5, 3500),
        (30_000, 0.0, None),
    ],
)
def test_a_messages_lifetime_comes_before_the_topics(
    expiration: Any, seconds: float | None, due: int | None
) -> None:
    """And 0 is for ever."""
    assert Limits(expiration).due(1000, seconds) == due


def test_each_partition_has_its_share_rounded_up() -> None:
    """So that no key is refused before the topic is full."""
    assert [Limits(records_max=n).share(3) for n in (1, 3, 4, 7)] == [1, 1, 2, 3]
    assert Limits().share(3) is None


FIELDS = Limits().fields()


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"was":{},"now":{}}',
        b'{"was":1,"now":2}',
        *(
            define_value(Limits(), Limits(**{**FIELDS, **wrong}))
            for wrong in (
                {"expiration": "on"},
                {"expiration": 0},
                {"expiration": None},
                {"record_bytes_max": 0},
                {"record_bytes_max": True},
                {"record_bytes_max": 1.5},
                {"record_bytes_max": "enabled"},
                {"repeat_window": -1},
                {"repeat_window": 2**60},
                {"records_max": 0},
            )
        ),
        define_value(Limits(), Limits())[:-1] + b',"why":1}',
        define_value(Limits(), Limits())[:-2] + b',"why":1}}',
    ],
)
def test_what_is_no_definition_is_refused(value: bytes | None) -> None:
    """With a sentence that says what it should be."""
    with pytest.raises(SowlineError, match="expected the limits") as error:
        read_define(value)
    assert error.value.reason == "bad definition"
