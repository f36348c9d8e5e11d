"""All that can be tested, one step after the other, with a summary at the end: `make test-all`.

It takes an hour or more, and is run before an issue is resolved.
"""

import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

SEED = time.time_ns() % 100_000
"""Of the random order, another one each time. The summary names it, so that a run can be repeated."""

OVER_SHARDS = tuple(
    f"tests/integration/test_{name}.py"
    for name in (
        "acks",
        "change_deltas",
        "computed_views",
        "documents_write",
        "group_turns",
        "groups",
        "message_formats",
        "oof_chapter",
        "pages",
        "replace",
        "replay",
        "supplied_keys",
        "views",
        "writing",
    )
)
"""Tests whose query service may be three shards behind a gateway, with the same expectations."""

OVER_EARLIER_NODES = ("tests/integration/test_pages.py", "tests/integration/test_groups.py")
"""Tests whose gateway may have nodes of the version before: they send each kind of request of a gateway."""

KAFKAS = ("3.9.2", "4.4.0")
"""Versions of Kafka beside the usual one: the oldest that is tested, and the newest."""

STEPS = (
    ("make", "test"),
    ("make", "test", "ARGS=-n 2 -m long"),
    (
        "make",
        "test",
        "EXAMPLES=new",
        f"ARGS=-n 2 --random-order-seed={SEED} tests/unit tests/property",
    ),
    ("make", "test", "SOWLINE_CORE=python", "ARGS=-n 2 tests/integration tests/spark"),
    *(
        ("make", "test", f"SOWLINE_KAFKA_VERSION={version}", "ARGS=-n 2 tests/integration")
        for version in KAFKAS
    ),
    ("make", "test", "SHARDS=3", f"ARGS=-n 2 {' '.join(OVER_SHARDS)}"),
    ("make", "test", "SHARDS=2", "NODES=previous", f"ARGS=-n 2 {' '.join(OVER_EARLIER_NODES)}"),
    ("make", "test", "ARGS=tests/upgrades/checks.py tests/upgrades/rolling.py"),
    ("make", "test", "ARGS=tests/browser/notebook_checks.py tests/browser/marimo_checks.py"),
    ("make", "test", "MISTAKES=all", "ARGS=tests/integration/test_check.py"),
    ("make", "test", "STEPS=10000", "ARGS=tests/clients/test_typescript_views.py"),
    ("make", "test", "STARTS=20", "ARGS=tests/integration/test_fresh_starts.py"),
    (
        "make",
        "test",
        "TIMES=200",
        "ARGS=-n 2 --timeout 1800 -k many_changes_leave_nothing_behind tests/integration",
    ),
    ("make", "test", "ARGS=tests/distribution/checks.py"),
    ("make", "fuzz", "SECONDS=60"),
    ("make", "rust"),
    ("make", "models"),
    ("make", "coverage"),
    ("make", "simulate", "SEEDS=10000"),
    ("make", "simulate", "SEEDS=2000", "ARGS=--views"),
    ("make", "mutants", "ARGS=--sample 200"),
)


class Outcome(NamedTuple):
    """What became of a step, and the last line that it printed."""

    command: str
    code: int
    seconds: float
    last: str


def run(command: Sequence[str]) -> Outcome:
    """Run a step to its end, and print what it prints."""
    name, last, began = " ".join(command), "", time.monotonic()
    print(f"\n== {name}", flush=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    return Outcome(name, process.returncode, time.monotonic() - began, last.strip("= "))


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """Return a line for each step, and one for all."""
    width = max(len(outcome.command) for outcome in outcomes)
    failed = sum(outcome.code != 0 for outcome in outcomes)
    return [
        *(
            f"{'failed' if code else 'passed'}  {command:{width}}  {seconds / 60:5.1f} min  {last}"
            for command, code, seconds, last in outcomes
        ),
        f"steps: {len(outcomes) - failed} passed, {failed} failed",
    ]


def main(steps: Sequence[Sequence[str]]) -> int:
    """Run all steps, also behind one that failed; print the summary, and return the exit code."""
    outcomes = [run(step) for step in steps]
    print("\n== summary", *summary(outcomes), sep="\n", flush=True)
    return int(any(outcome.code for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(STEPS))
