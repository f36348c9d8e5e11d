"""Many runs at once: a process for each core, which keeps to it, for the threads of a run take turns."""

import gc
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.sharedctypes import Synchronized

from tests.simulation.gateway_mutations import GATEWAY_MISTAKES
from tests.simulation.harness import STEPS
from tests.simulation.mutations import FAULTS_OF, FOUND_BY, MISTAKES, mistaken
from tests.simulation.run import simulate
from tests.simulation.schema_mutations import SCHEMA_MISTAKES
from tests.simulation.view_runs import VIEW_STEPS, simulate_views

SEEDS_A_MISTAKE = 20
"""So many seeds are tried with each mistake, after the known one: a search that takes long holds up all tests."""

RUNS_A_COLLECTION = 10
"""Runs between two garbage collections: what one leaves behind is little, and to look through all of it is dear."""


def pool() -> ProcessPoolExecutor:
    """Return as many processes as there are cores."""
    context = get_context("spawn")
    return ProcessPoolExecutor(os.cpu_count(), context, _begin, (context.Value("i", 0),))


def _begin(begun: "Synchronized[int]") -> None:
    with begun.get_lock():
        number = begun.value
        begun.value += 1
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})
    gc.collect()
    gc.freeze()
    gc.disable()


def failures(
    seeds: Sequence[int],
    steps: int = STEPS,
    has_gateways: bool | None = None,
    is_typed: bool | None = None,
) -> list[str]:
    """Run seeds, one after the other, and return what the failed ones say."""
    found = []
    for number, seed in enumerate(seeds, 1):
        outcome = simulate(seed, steps, has_gateways=has_gateways, is_typed=is_typed)
        if outcome.error is not None:
            given = (" --gateways" if has_gateways else "") + (" --typed" if is_typed else "")
            found.append(f"python -m tests.simulation {seed}{given}\n{outcome}")
        if number % RUNS_A_COLLECTION == 0:
            gc.collect()
    return found


def view_failures(seeds: Sequence[int], steps: int = VIEW_STEPS) -> list[str]:
    """Run seeds of views, one after the other, and return what the failed ones say."""
    outcomes = [simulate_views(seed, steps) for seed in seeds]
    return [
        f"python -m tests.simulation {outcome.seed} --views\n{outcome}"
        for outcome in outcomes
        if outcome.error is not None
    ]


def finding(mistake: str, seeds: Sequence[int]) -> int | None:
    """Return the first seed that fails with a mistake in the services, the known one before all; None without one.

    Raises `TypeError` where the mistake itself does: what it stands in for is called otherwise by now.
    """
    known = FOUND_BY.get(mistake)
    in_turn = seeds if known is None else [known, *(seed for seed in seeds if seed != known)]
    with mistaken(mistake):
        for number, seed in enumerate(in_turn, 1):
            # Mistakes are made in Python.
            kind = mistake in GATEWAY_MISTAKES, mistake in SCHEMA_MISTAKES
            error = simulate(seed, STEPS, FAULTS_OF.get(mistake), ["python"], *kind).error
            if isinstance(error, TypeError):
                raise error
            if error is not None:
                return seed
            if number % RUNS_A_COLLECTION == 0:
                gc.collect()
    return None


def findings_to_note(seeds: Sequence[int]) -> Iterator[str]:
    """Look for each mistake, and yield the lines of `FOUND_BY` that are missing, or have another seed."""
    with pool() as processes:
        runs = {mistake: processes.submit(finding, mistake, seeds) for mistake in MISTAKES}
        for mistake, run in runs.items():
            seed, known = run.result(), FOUND_BY.get(mistake)
            if seed != known and (known is not None or seed not in range(SEEDS_A_MISTAKE)):
                yield f'"{mistake}": {seed},'
