"""`python tests/conformance/run.py FILE…`: ask the cases of the files, and tell what passed and what failed.

The status is 1 if a case fails that docs/emodb.md doesn't list.
"""

import sys
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.conformance.corpus import cases
from tests.conformance.differences import listed, rules_of
from tests.conformance.kinds import run_case


def main(files: list[str]) -> int:
    """Run every case of the files; returns the exit status."""
    excused = listed()
    counts: Counter[tuple[str, str]] = Counter()
    failed = 0
    for file in files:
        for case in cases(Path(file)):
            trouble = run_case(case)
            outcome = "passed" if trouble is None else "listed" if rules_of(case) & excused else "failed"
            counts[case["kind"], outcome] += 1
            failed += outcome == "failed"
            if trouble is not None:
                print(f"{outcome} {case['id']} {case['kind']}: {trouble}")
    report(counts)
    return 1 if failed else 0


def report(counts: Counter[tuple[str, str]]) -> None:
    """Print one line for each kind of case."""
    for kind in sorted({kind for kind, _ in counts}):
        numbers = ", ".join(
            f"{counts[kind, outcome]} {outcome}" for outcome in ("passed", "failed", "listed")
        )
        print(f"{kind}: {numbers}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
