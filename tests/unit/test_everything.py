"""`make test-all` runs every step to its end, and its summary says what became of each."""

import re
import sys

import pytest

from tests.everything import STEPS, main

GOOD = (sys.executable, "-c", "print('12 passed in 3 s'); print()")
BAD = (
    sys.executable,
    "-c",
    "import sys; print('== 1 failed =='); print('why', file=sys.stderr); sys.exit(3)",
)


def summary(printed: str) -> list[str]:
    """Return the lines of the summary, without Python's path and the time that steps took."""
    lines = printed.partition("== summary\n")[2].splitlines()
    return [re.sub(r"\s+\S+ -c .* +\d+\.\d min +", " … ", line) for line in lines]


def test_all_steps_pass(capfd: pytest.CaptureFixture[str]) -> None:
    """The last line that a step printed stands behind it."""
    assert main([GOOD]) == 0
    printed = capfd.readouterr().out
    assert printed.splitlines().count("12 passed in 3 s") == 1
    assert summary(printed) == ["passed … 12 passed in 3 s", "steps: 1 passed, 0 failed"]


def test_a_step_fails(capfd: pytest.CaptureFixture[str]) -> None:
    """Those behind it run all the same, and the exit code is 1. What went to standard error is printed, too."""
    assert main([BAD, GOOD]) == 1
    printed = capfd.readouterr().out
    assert "why" in printed.splitlines()
    wanted = ["failed … ", "passed … 12 passed in 3 s", "steps: 1 passed, 1 failed"]
    assert [line.startswith(start) for line, start in zip(summary(printed), wanted, strict=True)] == [
        True
    ] * 3


def test_steps_are_commands_of_the_makefile() -> None:
    """Each can be repeated by itself, as the summary has it."""
    assert {step[0] for step in STEPS} == {"make"}
    assert STEPS[0] == ("make", "test")
