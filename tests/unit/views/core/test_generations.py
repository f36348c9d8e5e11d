"""Generations: the positions of an owner are above those of all owners before it."""

import pytest

from sowline_views.core.generations import next_generation


@pytest.mark.parametrize(
    ("claimed", "now", "generation"),
    [
        ("1700000000", 1_700_000_123.9, 1_700_000_123),
        ("1700000123", 1_700_000_123.9, 1_700_000_124),
        ("1700009999", 1_700_000_123.9, 1_700_010_000),
        ("", 1_700_000_123.9, 1_700_000_124),
        (None, 1_700_000_123.0, 1_700_000_124),
    ],
    ids=["a later second", "the same second", "a clock that is behind", "forgotten", "never claimed"],
)
def test_a_generation_is_above_the_one_before(claimed: str | None, now: float, generation: int) -> None:
    """Also when two owners begin within one second."""
    assert next_generation(claimed, now) == generation


def test_an_owner_that_was_forgotten_is_below_the_next() -> None:
    """It wrote in its second at the earliest, so one that begins in that second must have another."""
    forgotten = next_generation("1700000000", 1_700_000_123.1)
    assert next_generation(None, 1_700_000_123.2) > forgotten
