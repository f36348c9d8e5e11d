"""What a changed `topics.yaml` costs: the time until a new topic answers, and the delay of a topic that stays.

All services run as `sowline up` starts them. While a subscriber takes 2,000 changes a second of one topic, another
topic is added and removed all the time. Each run has one without a change of the file before it. At last, a view of a
topic with RECORDS records is added, and the time until it has counted them all is measured.
"""

import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from bench.broker import broker
from bench.merging import fill_with_orders
from bench.relay import RATE, SECONDS, WARM_RUNS, Lags, measure, subscribe
from bench.table import medians_of, table
from bench.traffic import system
from sowline.client.client import Client
from sowline.config.kafka_options import kafka_config
from sowline.errors import SowlineError

STAYS, LOADED = "stays", "loaded"
TOPICS = f"""topics:
  - {{name: {STAYS}, key: /order, partitions: 2}}
  - {{name: {LOADED}, key: /order, partitions: 2}}
"""
NEW_TOPIC = "  - {{name: {}, key: /order}}\n"
NEW_VIEW = f"""views:
  - {{name: by-ticker, from: {LOADED}, grouping: [/ticker], projection: [COUNT(1) AS /orders]}}
"""
PAUSE_SECONDS = 1.5
"""The time between two changes of the file: the services take each of them."""

NEW_TOPICS = 10
ANSWER_SECONDS_MAX, VIEW_SECONDS_MAX = 60.0, 600.0


def run(records: int, runs: int) -> str:
    """Measure both in turn; return a table."""
    seconds = min(SECONDS, records / RATE)
    quiet, changing = list[Lags](), list[Lags]()
    with broker() as kafka, tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "topics.yaml"
        with system(kafka, Path(directory), TOPICS) as url:
            reader = partial(subscribe, url, STAYS)
            for number in range(WARM_RUNS + runs):
                found = measure(kafka, STAYS, reader, int(seconds * RATE), RATE)
                with _changes(config) as count:
                    changed = measure(kafka, STAYS, reader, int(seconds * RATE), RATE)
                print(f"quiet {found}, with {len(count)} changes {changed}", flush=True)
                if number >= WARM_RUNS:
                    quiet.append(found)
                    changing.append(changed)
            answers = [_answer_seconds(config, url, f"new{number}") for number in range(NEW_TOPICS)]
            print(f"new topics answer after {answers} s", flush=True)
            fill_with_orders(kafka_config(kafka), LOADED, records)
            with Client(url) as client:
                _until_counted(client, LOADED, records)
                _write(config, NEW_VIEW)
                began = time.monotonic()
                _until_counted(client, "by-ticker", records)
            view_seconds = time.monotonic() - began
            print(f"the view is right after {view_seconds} s", flush=True)
    rows = [("the file stays the same", quiet), ("a topic is added and removed", changing)]
    middle = [
        (name, *(f"{statistics.median(figures):.1f}" for figures in zip(*found, strict=True)))
        for name, found in rows
    ]
    figures = table((f"milliseconds at {RATE:,}/s", *Lags._fields), middle)
    new = f"A new topic answered {statistics.median(answers):.1f} s after the file changed"
    slowest = f"the slowest of {NEW_TOPICS}: {max(answers):.1f} s"
    view = f"A new view of a topic with {records:,} records was right after {view_seconds:.1f} s"
    return f"{seconds:g} seconds each, {medians_of(runs)}.\n\n{figures}\n\n{new} ({slowest}). {view}."


@contextmanager
def _changes(config: Path) -> Iterator[list[float]]:
    """Add and remove a topic all the time during the block; yield the times at which that was done."""
    done, times = threading.Event(), list[float]()

    def change() -> None:
        number = 0
        while not done.wait(PAUSE_SECONDS):
            number += 1
            _write(config, NEW_TOPIC.format(f"comes-and-goes-{number % 4}") if number % 2 else "")
            times.append(time.monotonic())

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield times
    finally:
        done.set()
        thread.join()
        _write(config, "")


def _write(config: Path, more: str) -> None:
    fresh = config.with_suffix(".new")
    fresh.write_text(TOPICS + more)
    fresh.replace(config)


def _until_counted(client: Client, name: str, records: int) -> None:
    """Wait until all records are in the topic, or in the groups of the view."""
    deadline = time.monotonic() + VIEW_SECONDS_MAX
    while time.monotonic() < deadline:
        with suppress(SowlineError):
            if _counted(client, name) == records:
                return
        time.sleep(0.1)
    raise RuntimeError(f"expected {records:,} records in {name} within {VIEW_SECONDS_MAX:g} s")


def _counted(client: Client, name: str) -> int:
    if name == LOADED:
        groups = client.sow(name, options="grouping=[/side],projection=[/side,COUNT(1) AS /orders]")
    else:
        groups = client.sow(name)
    return sum(group.data["orders"] for group in groups if group.command == "sow")


def _answer_seconds(config: Path, url: str, topic: str) -> float:
    """Return the time from the change of the file until a record that was written to the new topic is answered."""
    _write(config, NEW_TOPIC.format(topic))
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
