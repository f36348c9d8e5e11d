"""Parses durations such as `250ms`, `30s`, `5m`, `1h` and `7d`."""

import re
from typing import Any

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# With 400 digits a double is infinite, and rounding it raises what no caller expects.
_TEXT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)(ms|s|m|h|d)")


def parse_duration_ms(text: Any) -> int:
    """Return the duration in milliseconds; raise ValueError with a message for the user."""
    match = _TEXT.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"expected a duration such as 250ms, 30s, 5m, 1h or 7d, got {text!r:.60}")
    # In doubles, 1.001 s are 1000.9999999999999 ms: cut off instead of rounded, a duration would lose a millisecond.
    return round(float(match[1]) * _UNITS_MS[match[2]])
