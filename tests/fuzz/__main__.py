"""Odd inputs by the million, for both cores: `python -m tests.fuzz [TARGET …] --seconds 600 [--seed 7]`.

Each target runs for so many seconds of CPU on each core, whatever else the machine does. A panic counts as a failure.
A failure names the seed that finds it again.
"""

import argparse
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec

from sowline.runtime.native import MODULE


def seeds(target: str, first: int, seconds: float) -> tuple[Counter[str], list[str]]:
    """Run a target from a seed on, for about so many seconds of CPU; return what was counted, and what failed."""
    from tests.fuzz.targets import TARGETS

    deadline, seed, failed = time.process_time() + seconds, first, []
    counts = Counter[str]()
    while True:
        try:
            counts += TARGETS[target](seed)
        except KeyboardInterrupt:
            raise
        # A panic of the native core is no Exception.
        except BaseException as difference:
            failed.append(f"python -m tests.fuzz {target} --seconds 0 --seed {seed}: {difference!r:.2000}")
        seed += 1
        if time.process_time() >= deadline:
            return counts, failed


def main() -> int:
    """Run the targets on all cores, and print what was counted; the exit code is 1 if the cores differ anywhere."""
    if find_spec(MODULE) is None:
        print(f"sowline: expected the module {MODULE}, which is not installed: there is nothing to compare")
        return 1
    from tests.fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "targets", nargs="*", choices=[[], *TARGETS], help="what to run; all if none is named"
    )
    parser.add_argument("--seconds", type=float, default=600, help="seconds of CPU for each; 0 runs one seed")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9, help="the first seed")
    given = parser.parse_args()
    cores = os.cpu_count() or 1 if given.seconds else 1
    has_failed = False
    for target in given.targets or TARGETS:
        with ProcessPoolExecutor(cores) as pool:
            runs = [
                pool.submit(seeds, target, given.seed + number * 10**9, given.seconds)
                for number in range(cores)
            ]
            found = [run.result() for run in runs]
        counts = sum((counts for counts, _ in found), Counter[str]())
        failed = [line for _, lines in found for line in lines]
        has_failed = has_failed or bool(failed)
        counted = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        print(*failed, f"{target}: {counted}, {len(failed)} failed", sep="\n", flush=True)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
