"""Run the test file of each module of the pure packages alone, and hold the floor of what it runs of its module.

A part of `make coverage`. `python -m tests.alone sowline/model` measures the modules below some paths, and lists the
lines that their test files don't run. `tests/docs/test_map.py` says which modules have a test file.
"""

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from coverage import Coverage
from coverage.exceptions import NoDataError

from tests.docs.test_map import mapped
from tests.mutants.scope import ROOT, own_test

FLOOR = 95
"""Of the lines of a module, in percent; where branches count, of both together."""

BRANCHES = ("sowline/changes", "sowline/model", "sowline/subscriptions/engine")
"""The packages whose branches count, too: there, a test takes each way through a module."""


class Measured(NamedTuple):
    """What the test file of a module runs of it, alone."""

    module: str
    share: float
    missing: str
    """The numbers of the lines that it does not run, and the branches that it does not take."""
    code: int
    """The exit code of its tests."""


def measure(module: str) -> Measured:
    """Run the test file of a module in a process of its own, with coverage of the module."""
    with tempfile.TemporaryDirectory() as directory:
        data = Path(directory, "coverage")
        # For a dotted name, coverage would import the packages above the module, and NumPy can't be imported twice.
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--cov-report="]
        run = subprocess.run(
            [*command, f"--cov={Path(module).parent}", *branch_options(module), str(own_test(module))],
            cwd=ROOT,
            env={**os.environ, "COVERAGE_FILE": str(data)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if run.returncode:
            print(run.stdout)
        return Measured(module, *_covered(data, module), run.returncode)


def branch_options(module: str) -> list[str]:
    """Return the further options of pytest for a module whose branches count."""
    return ["--cov-branch"] if module.startswith(tuple(f"{package}/" for package in BRANCHES)) else []


def _covered(data: Path, module: str) -> tuple[float, str]:
    """Return the share of a module's lines that ran, and the numbers of the others."""
    coverage, table = Coverage(data_file=str(data)), io.StringIO()
    coverage.load()
    try:
        share = coverage.report(include=[str(ROOT / module)], show_missing=True, file=table)
    except NoDataError:
        return 0, "all"
    (line,) = (line for line in table.getvalue().splitlines() if line.startswith(module))
    return share, line.partition("%")[2].strip()


def measured(paths: Iterable[str] = ()) -> list[Measured]:
    """Measure the modules below paths, or all."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(measure, mapped(paths)))


def faults(found: Iterable[Measured]) -> Iterator[str]:
    """Yield what is wrong, and what to do about it."""
    for one in found:
        alone = f"{own_test(one.module)} alone"
        if one.code:
            yield f"{alone}: expected that its tests pass, got exit code {one.code}"
        elif one.share < FLOOR:
            shown = f"{one.share:.1f} % of {one.module}"
            yield f"{alone}: expected at least {FLOOR} %, got {shown}: test what these lines do: {one.missing}"


def main(paths: Sequence[str]) -> int:
    """Print what was measured, of some paths with the missing lines; the exit code is 1 if there are faults."""
    found = measured(paths)
    for one in found if paths else ():
        print(f"{one.share:5.1f} %  {one.module}  {one.missing}".rstrip())
    wrong = list(faults(found))
    print(*wrong, sep="\n", end="\n" * bool(wrong))
    reached = len(found) - len(wrong)
    print(f"coverage: {reached} of {len(found)} test files alone run at least {FLOOR} % of their module")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
