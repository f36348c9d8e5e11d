"""Whether the test file of a module runs enough of it: what is measured, and which faults are reported."""

import pytest

from tests.alone import FLOOR, Measured, faults, measure

LIMITS = "sowline/model/limits.py"
TEST = "tests/unit/sowline/model/test_limits.py"


def test_a_file_is_measured_alone() -> None:
    """It passes, and runs all of a small module."""
    assert measure(LIMITS) == Measured(LIMITS, 100, "", 0)


@pytest.mark.parametrize(
    ("share", "code", "not_yet", "found"),
    [
        (FLOOR, 0, [], []),
        (FLOOR - 0.1, 0, [LIMITS], []),
        (
            FLOOR - 0.1,
            0,
            [],
            [f"{TEST} alone: expected at least 95 %, got 94.9 % of {LIMITS}: test what these"],
        ),
        (
            FLOOR,
            0,
            [LIMITS],
            [f"{TEST} alone: it runs 95.0 % of {LIMITS}: delete the module's line of NOT_YET"],
        ),
        (FLOOR, 1, [], [f"{TEST} alone: expected that its tests pass, got exit code 1"]),
    ],
    ids=["reached", "listed", "too little", "listed without need", "failed"],
)
def test_faults(share: float, code: int, not_yet: list[str], found: list[str]) -> None:
    """A module whose file runs too little is listed, one whose file runs enough is not, and each file passes."""
    lines = faults([Measured(LIMITS, share, "3-4", code)], not_yet)
    assert [line[: len(known)] for line, known in zip(lines, found, strict=True)] == found
