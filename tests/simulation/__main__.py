"""Run seeds: `python -m tests.simulation 17 23`, or so many from one on: `--seeds 10000 [--from 0]`."""

import argparse
import sys
import time

from tests.simulation.run import STEPS, simulate


def main() -> int:
    """Run the seeds and say what failed; the number of failures is the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", nargs="*", type=int, help="seeds to replay")
    parser.add_argument("--seeds", type=int, default=0, help="how many to run, one after the other")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them")
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    failed, began = 0, time.perf_counter()
    seeds = [*given.seed, *range(given.first, given.first + given.seeds)]
    for seed in seeds:
        outcome = simulate(seed, given.steps)
        if outcome.error is not None:
            failed += 1
            print(outcome, flush=True)
    seconds = time.perf_counter() - began
    print(f"{len(seeds)} seeds in {seconds:.1f} s, {failed} failed")
    return min(failed, 100)


if __name__ == "__main__":
    sys.exit(main())
