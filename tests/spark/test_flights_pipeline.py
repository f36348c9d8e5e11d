"""The pipeline of the demo: its commands on the log equal a plain derivation from the facts."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from examples.flights.data import Fact, Flight, clock_text, feed_of, flights_csv, key_text, read_flights
from examples.flights.demo import PIPELINE_FILE
from examples.flights.feed import SliceWriter, slices
from sowline_ingest.definition import load_pipeline
from sowline_ingest.job import Job
from tests.spark.log import Written, create_topic, read_log
from tests.spark.pipelines import pipeline_process, run_once

# One of these tests starts a Spark of its own, which takes its time on a busy machine.
pytestmark = pytest.mark.timeout(300)

FLIGHTS = 1500
HOUR_S = 3600
WITH_UNITS = {
    "distance": "distance_miles",
    "dep_delay": "dep_delay_min",
    "arr_delay": "arr_delay_min",
    "air_time": "air_time_min",
}
"""The fields of the records whose names say their unit, by the columns of the data set."""
LOCAL = {f"{name}_time": f"{name}_local" for name in ("sched_dep", "sched_arr", "dep", "arr")}
"""The fields that are times of an airport's clock, by the columns of the data set."""


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
        derive(fact, (ordinal, row)) for ordinal, part in enumerate(parts) for row, fact in enumerate(part)
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
    messages = {
        "scheduled": "tailnum origin dest distance sched_dep_time sched_arr_time",
        "late": "",
        "diverted": "",
        "departed": "dep_time dep_delay",
        "landed": "arr_time arr_delay air_time",
    }[fact.kind].split()
    for name in messages:
        text = getattr(flight, name)
        if name in LOCAL:
            body[LOCAL[name]] = f"{text.zfill(4)[:2]}:{text.zfill(4)[2:]}"
        elif text != "NA":
            body[WITH_UNITS.get(name, name)] = text if name in ("tailnum", "origin", "dest") else int(text)
    if fact.kind == "scheduled":
        body["hour_local"] = int(flight.sched_dep_time) // 100
    late = fact.kind == "departed" and int(flight.dep_delay) >= 15
    body["status"] = "departed late" if late else fact.kind
    body["moment"] = clock_text(fact.moment)
    return Command(key, body, "publish" if fact.kind == "scheduled" else "delta_publish", sequence)


def as_command(record: Written) -> Command:
    """Return a record of the log as the command it is."""
    body = json.loads(record.value or b"null")
    n, m = record.sequence
    return Command(record.key, body, record.headers.get("sow.command", "publish"), (n, m))


def by_key(commands: list[Command]) -> dict[str, list[Command]]:
    """Return the commands of each key in the order in which they stand."""
    stories: dict[str, list[Command]] = {}
    for command in commands:
        stories.setdefault(command.key, []).append(command)
    return stories


def make_log(kafka: str, prefix: str) -> str:
    """Create the topics that the pipeline writes, and return the name of the log."""
    create_topic(kafka, f"{prefix}flights.dead", partitions=1)
    return create_topic(kafka, f"{prefix}flights")


def variables(directory: Path, topic: str) -> dict[str, str]:
    """Return the values of the variables that the pipeline's file has."""
    directories = {"FLIGHTS_FEED": directory / "feed", "FLIGHTS_CHECKPOINT": directory / "checkpoint"}
    return {**{name: str(path) for name, path in directories.items()}, "FLIGHTS_LOG": topic}


@pytest.fixture
def log(kafka: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The log of a pipeline that this process runs."""
    topic = make_log(kafka, prefix)
    for name, value in {**variables(tmp_path, topic), "SOWLINE_KAFKA": kafka}.items():
        monkeypatch.setenv(name, value)
    return topic


def test_columns_of_the_feed(tmp_path: Path) -> None:
    """The schema of the file is that of the feed's lines."""
    (facts,) = load_pipeline(PIPELINE_FILE, variables(tmp_path, "flights")).sources.values()
    columns = [column.split()[0] for column in facts.ddl.split(",")]
    assert columns == ["kind", "moment", *Flight._fields]


def test_commands_on_the_log(spark: SparkSession, kafka: str, log: str, tmp_path: Path) -> None:
    """Each fact becomes the command it calls for, and the commands of one flight keep its order."""
    expected = derived(write_feed(tmp_path / "feed"))
    run_once(PIPELINE_FILE)
    records = read_log(kafka, log)
    assert {record.headers["sow.publisher"] for record in records} == {"flights/facts/0"}
    assert {command.command for command in expected} == {"publish", "delta_publish", "sow_delete"}
    assert by_key([as_command(record) for record in records]) == by_key(expected)
    assert read_log(kafka, f"{log}.dead") == []


def test_unknown_kind(spark: SparkSession, kafka: str, log: str, tmp_path: Path) -> None:
    """A line of an unknown kind becomes a dead letter, with its bytes, its place and the reason."""
    write_feed(tmp_path / "feed")
    first = tmp_path / "feed" / "000001.csv"
    line = "lost," + first.read_text().splitlines()[0].partition(",")[2]
    for path in first.parent.iterdir():
        path.unlink()
    first.write_text(line)
    run_once(PIPELINE_FILE)
    assert read_log(kafka, log) == []
    (letter,) = read_log(kafka, f"{log}.dead")
    assert (letter.key, letter.value) == ("flights/facts/0@0.0", line.encode())
    assert letter.headers == {
        "sow.reason": "check failed",
        "sow.message": "expected a kind of fact that there is",
    }


def test_no_python_in_the_plan(spark: SparkSession, log: str, tmp_path: Path) -> None:
    """From the file to the headers, everything is computed by Spark alone."""
    (tmp_path / "feed").mkdir()
    plan = Job(PIPELINE_FILE).frames().rows()._jdf.queryExecution().toString()
    assert "from_csv" in plan
    assert "Python" not in plan


def test_sigterm(kafka: str, prefix: str, tmp_path: Path) -> None:
    """SIGTERM ends the pipeline with exit code 0."""
    topic = make_log(kafka, prefix)
    SliceWriter(tmp_path / "feed")
    with pipeline_process(PIPELINE_FILE, kafka, variables(tmp_path, topic)) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {
            "running": "flights",
            "log": topic,
            "rows": 0,
            "refused": 0,
        }
        process.terminate()
        assert process.wait() == 0
