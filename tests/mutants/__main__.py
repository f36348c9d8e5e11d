"""`python -m tests.mutants`: try mutants, name the survivors, and fail if too few are killed."""

import argparse
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.mutants import scope, trial
from tests.mutants.mutants import Mutant, mutants, named, sample
from tests.mutants.trial import Trial, Verdict


@dataclass
class Run:
    """Trials, so many at once."""

    jobs: int
    limits: dict[str, int] = field(default_factory=dict)
    running: dict[int, Mutant] = field(default_factory=dict)

    def verdicts(self, chosen: list[Mutant]) -> Iterator[tuple[Mutant, Verdict]]:
        """Yield what becomes of each mutant, as trials end."""
        for mutant in chosen:
            if (source := mutant.source()) is None:
                continue
            while len(self.running) >= self.jobs:
                yield self._ended()
            self.running[self._trial(mutant, source).start()] = mutant
        while self.running:
            yield self._ended()

    def _trial(self, mutant: Mutant, source: str) -> Trial:
        module, tests = mutant.module, scope.tests(mutant.module)
        if module not in self.limits:
            self.limits[module] = 10 + 4 * round(trial.measured(module, tests))
        return Trial(module, source, tests, self.limits[module])

    def _ended(self) -> tuple[Mutant, Verdict]:
        child, status = os.wait()
        return self.running.pop(child), trial.verdict(status)


def main(arguments: list[str]) -> int:
    """Try mutants; return 1 if fewer than `--least` per cent of those that can be imported are killed."""
    given = _parser().parse_args(arguments)
    trial.prepare()
    chosen = [named(given.only)] if given.only else mutants(scope.modules(given.paths))
    if given.sample:
        print(f"mutants: {given.sample} of {len(chosen)}, --seed {given.seed}", flush=True)
        chosen = sample(chosen, given.sample, given.seed)
    counts: Counter[Verdict] = Counter()
    for mutant, verdict in Run(given.jobs).verdicts(chosen):
        counts[verdict] += 1
        if verdict is Verdict.SURVIVED:
            print(f"survived {mutant.name}\n{mutant.difference()}", flush=True)
    killed, survived = counts[Verdict.KILLED], counts[Verdict.SURVIVED]
    share = 100 * killed / max(1, killed + survived)
    print(f"mutants: {killed} killed, {survived} survived: {share:.1f} % killed")
    return int(share < given.least)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        "paths", nargs="*", help="modules or directories; all pure packages if there are none"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="try N of them, chosen at random")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="replays a sample")
    parser.add_argument("--only", metavar="NAME", help="try one mutant, by the name in a report")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="trials at once")
    parser.add_argument("--least", type=float, default=0, metavar="PERCENT", help="fail below this share")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
