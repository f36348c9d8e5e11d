"""Traces of the simulation are possible in the models, and wrong ones are not.

`make models` runs this, after the checks of the models themselves. It needs Rust.
"""

import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.models import wrong_owner_traces, wrong_serving_traces
from tests.simulation.events import MODELS, Line, encoded, event_lines

pytestmark = [pytest.mark.timeout(420), pytest.mark.needs("cargo")]

SEEDS = {"materializer": range(20), "handoff": range(10), "streams": range(10)}

HERE = Path(__file__).parent
REPLAY = HERE / "target" / "release" / "replay"

Change = Callable[[list[Line]], list[Line] | None]
"""Makes a trace wrong; returns None if that has nothing to change."""

WRONG: list[tuple[str, Change]] = [
    *(("materializer", change) for change in wrong_owner_traces.WRONG),
    *(("handoff", change) for change in wrong_serving_traces.WRONG_HANDOFF),
    *(("streams", change) for change in wrong_serving_traces.WRONG_STREAMS),
]

KINDS = {
    "materializer": {
        *("log", "change", "progress", "ask", "open", "close"),
        *("commit", "restore", "wipe", "crash"),
    },
    "handoff": {
        *("change", "apply", "start", "loaded", "look", "subscribe", "refuse"),
        *("receive", "read", "stand", "save", "disconnect", "restart"),
    },
    "streams": {
        *("change", "apply", "start", "loaded", "subscribe", "refuse", "read", "stand", "disconnect", "stop"),
        *("follow", "pass", "end", "join", "snapshot", "release", "leave", "alone", "relay", "note"),
    },
}
"""The events that the traces of all seeds have together."""

MISTAKES = [
    ("handoff", "moved on receipt"),
    ("handoff", "no out of focus"),
    ("handoff", "behind from now"),
    ("handoff", "pass begins one change late"),
]
"""Mistakes in the services. The replay refuses a trace of one of the seeds."""


@pytest.fixture(scope="session")
def replayer() -> Path:
    """The program that replays traces."""
    subprocess.run(["cargo", "build", "--quiet", "--locked", "--release"], cwd=HERE, check=True)
    return REPLAY


@cache
def trace(model: str, seed: int) -> list[Line]:
    """Return the trace of a seed."""
    return event_lines(model, seed)


def replayed(replayer: Path, model: str, traces: dict[int, list[Line]], directory: Path) -> dict[int, str]:
    """Return what is wrong with traces, by their seeds."""
    paths = {seed: directory / f"{seed}.jsonl" for seed in traces}
    for seed, path in paths.items():
        path.write_bytes(encoded(traces[seed]))
    done = subprocess.run(
        [replayer, model, *paths.values()], capture_output=True, text=True, check=False
    ).stdout.splitlines()
    print(*done, sep="\n")
    assert len(done) == len(traces)
    return {seed: line for seed, line in zip(traces, done, strict=True) if "states at once" not in line}


@pytest.mark.parametrize("model", MODELS)
def test_traces(model: str, replayer: Path, tmp_path: Path) -> None:
    """Each event of the simulation is among those that the model has next."""
    traces = {seed: trace(model, seed) for seed in SEEDS[model]}
    assert replayed(replayer, model, traces, tmp_path) == {}
    assert {line["event"] for lines in traces.values() for line in lines} >= KINDS[model]


@pytest.mark.parametrize(("model", "change"), WRONG)
def test_wrong_trace(model: str, change: Change, replayer: Path, tmp_path: Path) -> None:
    """A trace with one wrong event is refused."""
    wrong = {seed: lines for seed in SEEDS[model] if (lines := change(trace(model, seed))) is not None}
    assert wrong
    assert replayed(replayer, model, wrong, tmp_path).keys() == wrong.keys()


@pytest.mark.parametrize(("model", "mistake"), MISTAKES)
def test_mistake(model: str, mistake: str, replayer: Path, tmp_path: Path) -> None:
    """What services do that make a mistake is refused."""
    refused = (
        replayed(replayer, model, {seed: event_lines(model, seed, mistake=mistake)}, tmp_path)
        for seed in SEEDS[model]
    )
    assert any(refused)
