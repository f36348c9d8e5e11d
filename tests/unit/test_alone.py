"""Whether the test file of a module runs enough of it: what is measured, and which faults are reported."""

import pytest

from tests.alone import BRANCHES, FLOOR, Measured, branch_options, faults, measure
from tests.mutants.scope import ROOT

LIMITS = "sowline/model/limits.py"
TEST = "tests/unit/sowline/model/test_limits.py"


def test_a_file_is_measured_alone() -> None:
    """It passes, and runs all of a small module."""
    assert measure(LIMITS) == Measured(LIMITS, 100, "", 0)


@pytest.mark.parametrize(
    ("module", "counted"),
    [
        ("sowline/changes/change.py", True),
        ("sowline/subscriptions/engine/matching/bucket.py", True),
        ("sowline/changes_of_others/change.py", False),
        ("sowline/subscriptions/ask.py", False),
    ],
)
def test_branches_count_in_some_packages(module: str, counted: bool) -> None:
    """In those on the list, and in the packages within them."""
    assert bool(branch_options(module)) is counted


@pytest.mark.parametrize("package", BRANCHES)
def test_packages_whose_branches_count_exist(package: str) -> None:
    """A package that was renamed would count its lines only."""
    assert (ROOT / package).is_dir()


@pytest.mark.parametrize(
    ("share", "code", "found"),
    [
        (FLOOR, 0, []),
        (FLOOR - 0.1, 0, [f"{TEST} alone: expected at least 95 %, got 94.9 % of {LIMITS}: test what these"]),
        (FLOOR, 1, [f"{TEST} alone: expected that its tests pass, got exit code 1"]),
    ],
    ids=["reached", "too little", "failed"],
)
def test_faults(share: float, code: int, found: list[str]) -> None:
    """Each file passes, and runs enough of its module."""
    lines = list(faults([Measured(LIMITS, share, "3-4", code)]))
    assert [line[: len(known)] for line, known in zip(lines, found, strict=True)] == found
