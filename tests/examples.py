"""Which examples Hypothesis tries: the same ones in every run, new ones, or few for the quick tests of `make check`.

A run of `make test` says whether a commit is good, so two runs of one commit have to agree. They try the same
examples, a third of those that the author of a property chose: the others would take minutes of each run, and have
nothing to say that they did not say in the run before. `make test EXAMPLES=new` looks for what nobody has seen yet,
with the whole number, as `make test-all` does; `EXAMPLES=all` tries the usual ones in their whole number.
"""

import os
from typing import Any

import hypothesis

WANTED = os.environ.get("EXAMPLES", "")
ARE_NEW = WANTED == "new"
FEW = 10
"""Enough to see that a test runs."""
SHARE = 3
"""`make test` tries one of so many."""


def examples(count: int, **others: Any) -> hypothesis.settings:
    """Return settings with a number of examples. A busy machine is no fault: neither running nor drawing an example
    has a time limit.
    """
    given = {"suppress_health_check": [hypothesis.HealthCheck.too_slow], **others}
    return hypothesis.settings(max_examples=_tried(count), deadline=None, **given)


def _tried(count: int) -> int:
    """Return how many examples are tried where the author of a property chose a number."""
    shares = {"few": FEW, "new": count, "all": count}
    return min(count, shares.get(WANTED, max(FEW, count // SHARE)))
