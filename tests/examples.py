"""Which examples Hypothesis tries: the same ones in every run, new ones, or few for the quick tests of `make check`.

A run of `make test` says whether a commit is good, so two runs of one commit have to agree. `make test EXAMPLES=new`
looks for what nobody has seen yet, as `make test-all` does.
"""

import os
from typing import Any

import hypothesis

ARE_FEW = os.environ.get("EXAMPLES") == "few"
ARE_NEW = os.environ.get("EXAMPLES") == "new"
FEW = 10
"""Enough to see that a test runs; `make test` tries the number that its author chose."""


def examples(count: int, **others: Any) -> hypothesis.settings:
    """Return settings with a number of examples. A busy machine is no fault: neither running nor drawing an example
    has a time limit.
    """
    given = {"suppress_health_check": [hypothesis.HealthCheck.too_slow], **others}
    return hypothesis.settings(max_examples=min(count, FEW) if ARE_FEW else count, deadline=None, **given)
