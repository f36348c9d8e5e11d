"""Durations as people write them."""

from typing import Any

import pytest

from sowline.model.duration import parse_duration_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0s", 0),
        ("250ms", 250),
        ("30s", 30_000),
        ("1.5s", 1500),
        ("1.005s", 1005),
        ("5m", 300_000),
        ("1h", 3_600_000),
        ("7d", 604_800_000),
        (" 1h ", 3_600_000),
    ],
)
def test_units(text: str, ms: int) -> None:
    """A number and a unit give milliseconds, fractions rounded."""
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize(
    "given",
    ["", "5", "s", "5 s", "-5s", "1w", "1e3s", ".5s", "٣s", "1h30m", "9" * 400 + "s", 5, None, ["1h"]],
)
def test_anything_else_is_refused(given: Any) -> None:
    """What is no duration is refused with examples."""
    with pytest.raises(ValueError, match="expected a duration such as 250ms"):
        parse_duration_ms(given)
