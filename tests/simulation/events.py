"""The events of a simulation as JSON lines: the models of the protocols replay them (`tests/models`).

`python -m tests.simulation.events MODEL FILE SEED` writes those of a seed. Its faults are those that the model has.
"""

import argparse
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import orjson

from sowline.native import Core
from tests.simulation.gateway_clients import GatewaySubscriber
from tests.simulation.harness import CORES, STEPS, Loop
from tests.simulation.mishaps import UNFORESEEN
from tests.simulation.mutations import FAULTS_OF, mistaken
from tests.simulation.owner_events import OwnerLines
from tests.simulation.run import play
from tests.simulation.serving_events import ServingLines, wishes_of
from tests.simulation.subscriber import Subscriber
from tests.simulation.world import Simulation

Line = dict[str, Any]
Lines = Callable[[Line], Line | None]
"""Returns the line of an event; None if the model does not have it."""


class Model(NamedTuple):
    """A model that replays events: the faults of the simulation that it does not have, and how its lines are made."""

    not_modeled: frozenset[str]
    lines_of: Callable[[Simulation], Lines]
    has_gateways: bool = False


def _owner_lines(simulation: Simulation) -> Lines:
    return OwnerLines(simulation.truth).line


def _handoff_lines(simulation: Simulation) -> Lines:
    wishes = wishes_of(simulation.subscribers, Subscriber, has_oof=True)
    return ServingLines(simulation.truth, wishes).line


def _stream_lines(simulation: Simulation) -> Lines:
    wishes = wishes_of(simulation.subscribers, GatewaySubscriber, has_oof=False)
    return ServingLines(simulation.truth, wishes).line


LOST_CHANGES = frozenset({"changes loss", "compaction"})

MODELS = {
    # Each offset has a record, and each log record can be applied.
    "materializer": Model(LOST_CHANGES | {"holes", UNFORESEEN}, _owner_lines),
    "handoff": Model(LOST_CHANGES, _handoff_lines),
    # Programs of clients of a gateway continue.
    "streams": Model(LOST_CHANGES | {"restart"}, _stream_lines, has_gateways=True),
}


def event_lines(model: str, seed: int, steps: int = STEPS, mistake: str = "") -> list[Line]:
    """Run a seed, and return its events; raise what is found wrong, unless the services make a mistake."""
    not_modeled, lines_of, has_gateways = MODELS[model]
    # Mistakes are made in Python.
    cores: Sequence[Core] = ("python",) if mistake else CORES
    with ExitStack() as stack:
        # The models have no checksums.
        stack.enter_context(patch("tests.simulation.gateway_clients.PROOF_SHARE", 0))
        if mistake:
            stack.enter_context(mistaken(mistake))
        faults = FAULTS_OF.get(mistake)
        simulation = Simulation(seed, steps, Loop(), faults, cores, has_gateways=has_gateways, is_typed=False)
        simulation.faults -= not_modeled
        if simulation.gateways is not None:
            del simulation.gateways.gateways[1:]
        events = simulation.trace.events = []
        error = play(simulation).error
    if error is not None and (not mistake or isinstance(error, TypeError)):
        raise error
    lines = map(lines_of(simulation), events)
    return [line for line in lines if line is not None]


def encoded(lines: Iterable[Line]) -> bytes:
    """Return the lines as JSON."""
    return b"".join(orjson.dumps(line) + b"\n" for line in lines)


def main() -> None:
    """Write the events of a seed to a file."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.events", description=__doc__)
    parser.add_argument("model", choices=MODELS, help="the model that is to replay them")
    parser.add_argument("file", type=Path, help="the file to write")
    parser.add_argument("seed", type=int, help="the seed to run")
    parser.add_argument("--steps", type=int, default=STEPS, help="how many are played before the end")
    given = parser.parse_args()
    given.file.write_bytes(encoded(event_lines(given.model, given.seed, given.steps)))


if __name__ == "__main__":
    main()
