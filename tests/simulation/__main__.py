"""Run seeds: `python -m tests.simulation 17 23`, or so many from one on: `--seeds 10000 [--from 0]`."""

import argparse
import sys
import time
from collections.abc import Callable
from concurrent.futures import as_completed

from tests.simulation.harness import STEPS
from tests.simulation.log_world import LOG_STEPS, log_failures
from tests.simulation.many import failures, findings_to_note, pool, view_failures
from tests.simulation.view_runs import VIEW_STEPS

PORTION = 20
"""Seeds that a process runs before it says how they went."""


def main() -> int:
    """Run the seeds and say what failed; the number of failures is the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", nargs="*", type=int, help="seeds to replay")
    parser.add_argument("--seeds", type=int, default=0, help="how many to run, on all cores")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them")
    parser.add_argument("--steps", type=int, help="how many are played before the end")
    parser.add_argument(
        "--gateways", action="store_const", const=True, help="shards and gateways in every seed, not in some"
    )
    parser.add_argument(
        "--typed",
        action="store_const",
        const=True,
        help="a message type with schemas in every seed, not in some",
    )
    parser.add_argument(
        "--views", action="store_true", help="the two stages of a view, instead of the whole system"
    )
    parser.add_argument(
        "--logs", action="store_true", help="logs that are replaced, instead of the whole system"
    )
    parser.add_argument(
        "--mistakes",
        action="store_true",
        help="the lines that FOUND_BY lacks, instead of the seeds' failures",
    )
    given = parser.parse_args()
    failed, began = 0, time.perf_counter()
    seeds = [*given.seed, *range(given.first, given.first + given.seeds)]
    if given.mistakes:
        failed = sum(_say([line]) for line in findings_to_note(seeds))
        return min(failed, 100)
    run: Callable[..., list[str]]
    more: tuple[int | bool | None, ...]
    if given.views:
        run, more = view_failures, (given.steps or VIEW_STEPS,)
    elif given.logs:
        run, more = log_failures, (given.steps or LOG_STEPS,)
    else:
        run, more = failures, (given.steps or STEPS, given.gateways, given.typed)
    if len(seeds) <= PORTION:
        failed += _say(run(seeds, *more))
    else:
        portions = [seeds[start : start + PORTION] for start in range(0, len(seeds), PORTION)]
        with pool() as processes:
            runs = [processes.submit(run, portion, *more) for portion in portions]
            failed += sum(_say(done.result()) for done in as_completed(runs))
    seconds = time.perf_counter() - began
    print(f"{len(seeds)} seeds in {seconds:.1f} s, {failed} failed")
    return min(failed, 100)


def _say(found: list[str]) -> int:
    for failure in found:
        print(failure, flush=True)
    return len(found)


if __name__ == "__main__":
    sys.exit(main())
