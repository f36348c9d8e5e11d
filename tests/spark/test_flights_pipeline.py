"""The demo's pipeline: its commands on the log equal a plain derivation from the facts, also across a kill."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from examples.flights.data import Fact, feed_of, flights_csv, key_text, read_flights
from examples.flights.feed import SliceWriter, slices
from examples.flights.pipeline import SCHEMA, commands_of, start
from ingest.sink import in_order, kafka_records
from ingest.sources import csv_rows, whole_directory
from tests.spark.log import Written, create_topic, follow_log, read_log

# Two of these tests start a Spark of their own, which takes its time on a busy machine.
pytestmark = pytest.mark.timeout(300)

FLIGHTS = 1500
HOUR_S = 3600


class Command(NamedTuple):
    """A command as it must be on the log."""

    key: str
    body: dict[str, Any]
    command: str
    sequence: tuple[int, int]


def write_feed(directory: Path) -> list[Sequence[Fact]]:
    """Write the first flights of the year as slices of an hour, and return what is in each."""
    flights = [flight for _, flight in zip(range(FLIGHTS), read_flights(flights_csv()), strict=False)]
    writer = SliceWriter(directory)
    parts = [part.facts for part in slices(feed_of(flights), HOUR_S)]
    for part in parts:
        writer.write(part)
    return parts


def derived(parts: list[Sequence[Fact]]) -> list[Command]:
    """Return the commands that the facts call for, in the order of the facts."""
    return [
        derive(fact, (ordinal, row)) for ordinal, part in enumerate(parts, 1) for row, fact in enumerate(part)
    ]


def derive(fact: Fact, sequence: tuple[int, int]) -> Command:
    """Return the command that one fact calls for."""
    flight = fact.flight
    body: dict[str, Any] = {
        "carrier": flight.carrier,
        "flight": int(flight.flight),
        "time_hour": flight.time_hour,
    }
    key = key_text(flight.carrier, flight.flight, flight.time_hour)
    if fact.kind == "cancelled":
        return Command(key, body, "sow_delete", sequence)
    said = {
        "scheduled": "tailnum origin dest distance sched_dep_time sched_arr_time",
        "late": "",
        "departed": "dep_time dep_delay",
        "landed": "arr_time arr_delay air_time",
    }[fact.kind].split()
    for name in said:
        text = getattr(flight, name)
        if text != "NA":
            body[name] = text if name in ("tailnum", "origin", "dest") else int(text)
    late = fact.kind == "departed" and int(flight.dep_delay) >= 15
    body["status"] = "departed late" if late else fact.kind
    return Command(key, body, "publish" if fact.kind == "scheduled" else "delta_publish", sequence)


def as_command(record: Written) -> Command:
    """Return a record of the log as the command it is."""
    body = json.loads(record.value or b"null")
    n, m = record.sequence
    return Command(record.key, body, record.headers["sow.command"], (n, m))


def by_key(commands: list[Command]) -> dict[str, list[Command]]:
    """Return the commands of each key in the order in which they stand."""
    stories: dict[str, list[Command]] = {}
    for command in commands:
        stories.setdefault(command.key, []).append(command)
    return stories


def applied(story: list[Command]) -> list[Command]:
    """Return the commands of one key without repeats: those whose number is above all before."""
    kept: list[Command] = []
    for command in story:
        if not kept or command.sequence > kept[-1].sequence:
            kept.append(command)
    return kept


@contextmanager
def pipeline_process(kafka: str, topic: str, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the pipeline as a process of its own, and kill it with everything it started at the end."""
    module = [sys.executable, "-m", "examples.flights.pipeline", "--kafka", kafka, "--topic", topic]
    places = ["--source", str(directory / "feed"), "--checkpoint", str(directory / "checkpoint")]
    process = subprocess.Popen([*module, *places], stdout=subprocess.PIPE, start_new_session=True)
    with process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def wait_for_records(kafka: str, topic: str, count: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the log has that many different commands; the pipeline must live as long."""
    seen: set[tuple[int, ...]] = set()
    for record in follow_log(kafka, topic):
        if record is None:
            assert process.poll() is None, "the pipeline ended by itself"
            continue
        seen.add(record.sequence)
        if len(seen) >= count:
            return


def test_commands_on_the_log(spark: SparkSession, kafka: str, prefix: str, tmp_path: Path) -> None:
    """Each fact becomes the command it calls for, and the commands of one flight keep its order."""
    topic = create_topic(kafka, f"{prefix}flights")
    expected = derived(write_feed(tmp_path / "feed"))
    checkpoint = str(tmp_path / "checkpoint")
    start(str(tmp_path / "feed"), kafka, topic, checkpoint, available_now=True).awaitTermination()
    records = read_log(kafka, topic)
    assert {record.headers["sow.publisher"] for record in records} == {"flights/0"}
    assert {command.command for command in expected} == {"publish", "delta_publish", "sow_delete"}
    assert by_key([as_command(record) for record in records]) == by_key(expected)


def test_unknown_kind(spark: SparkSession, tmp_path: Path) -> None:
    """A row of an unknown kind becomes an unknown command, which the log's reader refuses in the open."""
    (tmp_path / "1.csv").write_text("lost,2013-01-01T07:00:00Z,UA,1\n")
    (row,) = commands_of(csv_rows(whole_directory(spark, str(tmp_path)), SCHEMA)).collect()
    assert (row["command"], row["body"]) == ("lost", None)


def test_no_python_in_the_plan(spark: SparkSession, tmp_path: Path) -> None:
    """From the file to the headers, everything is computed by Spark alone."""
    write_feed(tmp_path)
    commands = commands_of(csv_rows(whole_directory(spark, str(tmp_path)), SCHEMA))
    plan = kafka_records(in_order(commands), "flights/0")._jdf.queryExecution().toString()
    assert "from_csv" in plan
    assert "Python" not in plan


def test_kill_and_restart(kafka: str, prefix: str, tmp_path: Path) -> None:
    """A killed pipeline that starts again may repeat rows, each as it was, and leaves out none."""
    topic = create_topic(kafka, f"{prefix}flights")
    expected = derived(write_feed(tmp_path / "feed"))
    with pipeline_process(kafka, topic, tmp_path) as process:
        wait_for_records(kafka, topic, 1, process)
    with pipeline_process(kafka, topic, tmp_path) as process:
        wait_for_records(kafka, topic, len(expected), process)
    commands = [as_command(record) for record in read_log(kafka, topic)]
    by_number = {command.sequence: command for command in expected}
    assert all(command == by_number[command.sequence] for command in commands)
    assert {key: applied(story) for key, story in by_key(commands).items()} == by_key(expected)


def test_sigterm(kafka: str, prefix: str, tmp_path: Path) -> None:
    """SIGTERM ends the pipeline with exit code 0."""
    topic = create_topic(kafka, f"{prefix}flights")
    SliceWriter(tmp_path / "feed")
    with pipeline_process(kafka, topic, tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"running\n"
        process.terminate()
        assert process.wait() == 0
