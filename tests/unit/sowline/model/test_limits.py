"""Limits: lifetimes, shares, and the form in which they travel."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.errors import SowlineError
from sowline.model.limits import LIFETIME_MS_MAX, Limits, define_value, names_template, read_define

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


def test_what_is_not_defined() -> None:
    """Records live for ever and may have a MiB, repeats are known for a week, and any number of records may be."""
    assert FIELDS == {
        "expiration": "disabled",
        "record_bytes_max": 1_048_576,
        "repeat_window": 604_800_000,
        "records_max": None,
    }
    assert not Limits().may_expire
    assert Limits("enabled").may_expire
    assert Limits(1).may_expire


def test_the_log_has_room_for_what_is_refused() -> None:
    """Three times the largest body, and 64 KiB for headers."""
    assert Limits(record_bytes_max=1000).log_bytes_max == 68_536


@pytest.mark.parametrize("name", ["expiration", "record_bytes_max", "repeat_window", "records_max"])
def test_the_least_and_the_most(name: str) -> None:
    """Some 300 years, or 10^13 of what is counted; only the window for repeats may be nothing."""
    least = 0 if name == "repeat_window" else 1
    for value in (least, 10_000_000_000_000):
        assert Limits.read(FIELDS | {name: value}).fields() == FIELDS | {name: value}
    for value in (least - 1, 10_000_000_000_001):
        with pytest.raises(ValueError, match=f"expected a limit in {name}, got {value}$"):
            Limits.read(FIELDS | {name: value})


def test_a_sentence_shows_the_beginning_of_what_is_wrong() -> None:
    """Not more than a line of it."""
    with pytest.raises(ValueError, match=f"expected a limit in expiration, got {'x' * 60}$"):
        Limits.read(FIELDS | {"expiration": "x" * 61})
    with pytest.raises(ValueError, match=f"got {'x' * 200}$"):
        Limits.read("x" * 201)


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
                {"template": "["},
                {"template": "[]"},
                {"template": 5},
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


def test_a_define_names_the_template_only_if_it_changes() -> None:
    """A version that knows none still reads other limits."""
    held = Limits(template='{"a":1}')
    assert read_define(define_value(held, Limits(template="{}"))) == (held, Limits(template="{}"))
    was, now = read_define(define_value(held, Limits(5, template=held.template)))
    assert (was, now) == (Limits(), Limits(5))
    assert names_template(held, Limits())
    assert not names_template(was, now)


def test_limits_that_differ_are_named() -> None:
    """By the names that they have in `topics.yaml`."""
    assert Limits().differing(Limits()) == []
    assert Limits(records_max=3, schema="a").differing(Limits(schema="b")) == ["records_max", "reader_schema"]
