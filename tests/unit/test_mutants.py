"""Mutation testing itself: what a sample holds, whose tests a mutant meets, and what becomes of it."""

import subprocess
import sys

import pytest

from tests.mutants import scope
from tests.mutants.mutants import Mutant, mutants, named, sample

MERGE = "sowline/model/merge.py"
LIMITS = "sowline/model/limits.py"


def run(*arguments: str) -> str:
    """Return what a run prints."""
    command = [sys.executable, "-m", "tests.mutants", *arguments]
    return subprocess.run(command, cwd=scope.ROOT, capture_output=True, text=True, check=True).stdout


def test_a_sample_can_be_replayed() -> None:
    """A seed gives the same mutants each time, at different points of the source."""
    found = mutants([MERGE, LIMITS])
    chosen = sample(found, 20, seed=7)
    assert chosen == sample(found, 20, seed=7)
    assert chosen != sample(found, 20, seed=8)
    assert len({(mutant.module, mutant.line, mutant.column) for mutant in chosen}) == 20


def test_annotations_are_left_out() -> None:
    """A change that only annotations show is none: they do nothing when the code runs."""
    changed = [mutant for mutant in mutants([MERGE]) if mutant.source() is not None]
    assert any("Operator_BitOr_" in mutant.operator for mutant in mutants([MERGE]))
    assert not any("Operator_BitOr_" in mutant.operator for mutant in changed)


def test_a_name_leads_back() -> None:
    """The name that a report gives is enough to try a mutant again."""
    mutant = mutants([MERGE])[-1]
    assert named(mutant.name) == mutant
    with pytest.raises(ValueError, match="expected the name of a mutant of the sources as they are"):
        named(f"{mutant.name}0")


def test_every_module_has_tests() -> None:
    """Those of its own name, or of its package, and the property tests that are named for it."""
    for module in scope.modules():
        for test in scope.tests(module):
            assert (scope.ROOT / test).exists(), f"{module}: {test}"
    for path in (*scope.PROPERTY, *scope.FURTHER):
        assert scope.modules([path])
    assert scope.tests(LIMITS) == ["tests/unit/sowline/model/test_limits.py"]


def test_a_module_that_does_not_exist() -> None:
    """A path that leads nowhere is refused; it would leave nothing to try."""
    with pytest.raises(FileNotFoundError, match="expected a module or a directory of modules"):
        scope.modules(["sowline/moddel"])


def test_a_mutant_is_killed() -> None:
    """A merge that keeps what it is to replace fails a test."""
    mutant = next(mutant for mutant in mutants([MERGE]) if _negates(mutant, "if before is not None"))
    assert run("--only", mutant.name) == "mutants: 1 killed, 0 survived: 100.0 % killed\n"


def _negates(mutant: Mutant, line: str) -> bool:
    return mutant.operator == "core/AddNot" and f"-        {line}" in mutant.difference()
