"""Run seeds: `python -m tests.simulation 17 23`, or so many from one on: `--seeds 10000 [--from 0]`."""

import argparse
import sys
import time
from concurrent.futures import as_completed

from tests.simulation.many import failures, pool
from tests.simulation.run import STEPS

PORTION = 20
"""Seeds that a process runs before it says how they went."""


def main() -> int:
    """Run the seeds and say what failed; the number of failures is the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", nargs="*", type=int, help="seeds to replay")
    parser.add_argument("--seeds", type=int, default=0, help="how many to run, on all cores")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument(
        "--gateways", action="store_const", const=True, help="shards and gateways in every seed, not in some"
    )
    parser.add_argument(
        "--typed",
        action="store_const",
        const=True,
        help="a message type with schemas in every seed, not in some",
    )
    given = parser.parse_args()
    failed, began = 0, time.perf_counter()
    seeds = [*given.seed, *range(given.first, given.first + given.seeds)]
    if len(seeds) <= PORTION:
        failed += _say(failures(seeds, given.steps, given.gateways, given.typed))
    else:
        portions = [seeds[start : start + PORTION] for start in range(0, len(seeds), PORTION)]
        with pool() as processes:
            more = given.steps, given.gateways, given.typed
            runs = [processes.submit(failures, portion, *more) for portion in portions]
            failed += sum(_say(run.result()) for run in as_completed(runs))
    seconds = time.perf_counter() - began
    print(f"{len(seeds)} seeds in {seconds:.1f} s, {failed} failed")
    return min(failed, 100)


def _say(found: list[str]) -> int:
    for failure in found:
        print(failure, flush=True)
    return len(found)


if __name__ == "__main__":
    sys.exit(main())
