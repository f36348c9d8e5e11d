"""What a changed `topics.yaml` costs: the time until a new topic answers, and the delay of a topic that stays.

All services run as `sowline up` starts them. While a subscriber takes 2,000 changes a second of one topic, another
topic is added and removed all the time. Each run has one without a change of the file before it.
"""

import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.broker import broker
from bench.relay import RATE, SECONDS, TOPICS, WARM_RUNS, Lags, measure, subscribe
from bench.table import medians_of, table
from bench.traffic import system
from sowline.client.client import Client
from sowline.errors import SowlineError

STAYS = "stays"
PAUSE_SECONDS = 1.5
"""The time between two changes of the file: the services take each of them."""

NEW_TOPICS = 10
ANSWER_SECONDS_MAX = 60.0


def run(records: int, runs: int) -> str:
    """Measure both in turn; return a table."""
    seconds = min(SECONDS, records / RATE)
    quiet, changing = list[Lags](), list[Lags]()
    with broker() as kafka, tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "topics.yaml"
        plain = TOPICS.format(STAYS, 2)
        with system(kafka, Path(directory), plain) as url:
            reader = partial(subscribe, url, STAYS)
            for number in range(WARM_RUNS + runs):
                found = measure(kafka, STAYS, reader, int(seconds * RATE), RATE)
                with _changes(config, plain) as count:
                    changed = measure(kafka, STAYS, reader, int(seconds * RATE), RATE)
                print(f"quiet {found}, with {len(count)} changes {changed}", flush=True)
                if number >= WARM_RUNS:
                    quiet.append(found)
                    changing.append(changed)
            answers = [_answer_seconds(config, plain, url, f"new{number}") for number in range(NEW_TOPICS)]
            print(f"new topics answer after {answers} s", flush=True)
    rows = [("the file stays", quiet), ("a topic is added and removed", changing)]
    middle = [
        (name, *(f"{statistics.median(figures):.1f}" for figures in zip(*found, strict=True)))
        for name, found in rows
    ]
    figures = table((f"milliseconds at {RATE:,}/s", *Lags._fields), middle)
    new = f"A new topic answered {statistics.median(answers):.1f} s after the file changed"
    slowest = f"the slowest of {NEW_TOPICS}: {max(answers):.1f} s"
    return f"{seconds:g} seconds each, {medians_of(runs)}.\n\n{figures}\n\n{new} ({slowest})."


@contextmanager
def _changes(config: Path, plain: str) -> Iterator[list[float]]:
    """Add and remove a topic all the time during the block; yield the times at which that was done."""
    done, times = threading.Event(), list[float]()

    def change() -> None:
        number = 0
        while not done.wait(PAUSE_SECONDS):
            number += 1
            _write(config, plain, f"comes-and-goes-{number % 4}" if number % 2 else None)
            times.append(time.monotonic())

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield times
    finally:
        done.set()
        thread.join()
        _write(config, plain, None)


def _write(config: Path, plain: str, topic: str | None) -> None:
    more = "" if topic is None else f"  - {{name: {topic}, key: /order}}\n"
    lines = plain.replace("topics: [", "topics:\n  - ").replace("]\n", "\n")
    fresh = config.with_suffix(".new")
    fresh.write_text(lines + more)
    fresh.replace(config)


def _answer_seconds(config: Path, plain: str, url: str, topic: str) -> float:
    """Return the time from the change of the file until a record that was written to the new topic is answered."""
    _write(config, plain, topic)
    began = time.monotonic()
    with Client(url) as client:
        while time.monotonic() < began + ANSWER_SECONDS_MAX:
            try:
                client.publish(topic, {"order": 1})
                if [one for one in client.sow(topic) if one.command == "sow"]:
                    return time.monotonic() - began
            except SowlineError:
                time.sleep(0.05)
    raise RuntimeError(f"expected {topic} to answer within {ANSWER_SECONDS_MAX:g} s")
