"""Whether what came is what a page shows: offsets, times and what a page leaves out (`…`) aside."""

import re
from typing import Any

# Offsets differ with what was written before, times and tokens always.
_VOLATILE = (
    (re.compile(r"(?<=\d@)[\d./]+"), "#"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z"), "TIME"),
    (re.compile(r"sow_[\w-]{43}|\b[0-9a-f]{64}\b"), "TOKEN"),
)
_MEASURED = {"lag_seconds"}
"""Fields whose values are measured."""


def agrees(output: str, expected: str) -> bool:
    """Whether a text is as the page shows it; `…` in that stands for any text."""
    pattern = ".*".join(map(re.escape, _steady(expected).split("…")))
    return re.fullmatch(pattern, _steady(output), re.DOTALL) is not None


def same(came: Any, shown: Any) -> bool:
    """Whether a message, or a part of one, is as the page shows it."""
    if isinstance(shown, dict):
        return (
            isinstance(came, dict)
            and came.keys() == shown.keys()
            and all(k in _MEASURED or same(came[k], shown[k]) for k in shown)
        )
    if isinstance(shown, list):
        return isinstance(came, list) and len(came) == len(shown) and all(map(same, came, shown))
    if isinstance(shown, str):
        return isinstance(came, str) and agrees(came, shown)
    return type(came) is type(shown) and came == shown


def _steady(text: str) -> str:
    for volatile, instead in _VOLATILE:
        text = volatile.sub(instead, text)
    return text.strip()
