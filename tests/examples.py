"""How many examples Hypothesis tries: all of them, or few for the quick tests of `make check`."""

import os
from typing import Any

import hypothesis

ARE_FEW = os.environ.get("EXAMPLES") == "few"
FEW = 10
"""Enough to see that a test runs; `make test` tries the number that its author chose."""


def examples(count: int, **others: Any) -> hypothesis.settings:
    """Return settings with a number of examples. No example has a deadline: a busy machine is not a fault."""
    return hypothesis.settings(max_examples=min(count, FEW) if ARE_FEW else count, deadline=None, **others)
