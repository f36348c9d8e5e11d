"""A pipeline that is killed, repeats itself and goes back to an old checkpoint: nobody can tell from the records."""

import json
import os
import random
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from sowline.model.key import partition_of
from tests.integration.load import new_seed
from tests.integration.served import Served, serve
from tests.integration.wire import Wire, wire
from tests.spark.log import create_topic, follow_log, read_log
from tests.spark.pipelines import pipeline_process, run_once

pytestmark = pytest.mark.timeout(600)

KEYS, RECORDS, FILES, LINES = 12, 240, 6, 20
SOURCE_PARTITIONS = 3

Row = dict[str, Any]

PIPELINE = """
name: shop
topic: {topic}
checkpoint: "{directory}/checkpoint"
sources:
  live:
    kafka: {raw}
    format: json
    schema: id STRING, n INT, gone BOOLEAN
    options: {{maxOffsetsPerTrigger: 30}}
  old:
    directory: "{directory}/in"
    format: csv
    schema: id STRING, n INT, gone BOOLEAN
    options: {{maxFilesPerTrigger: 1}}
transforms:
  - select: SELECT _source, id, n, gone FROM live UNION ALL SELECT _source, id, n, gone FROM old
key: id
command: IF(gone, 'sow_delete', 'publish')
body: to_json(struct(id, n))
"""


def rows(dice: random.Random, prefix: str, count: int) -> Iterator[Row]:
    """Yield rows of some keys; of each key none is like another, and a record is deleted only if it is there."""
    there: set[str] = set()
    for n in range(count):
        id = f"{prefix}{dice.randrange(KEYS)}"
        gone = id in there and dice.random() < 0.2
        (there.discard if gone else there.add)(id)
        yield {"id": id, "n": n, "gone": gone}


def command_and_number(row: Row) -> tuple[str, int]:
    """Return what a subscriber is told of a row, beside its key: a deletion shows the record as it was."""
    return ("oof" if row["gone"] else "publish", row["n"])


def story(all_rows: list[Row]) -> dict[str, list[tuple[str, int]]]:
    """Return what a subscriber must be told of each key."""
    stories: dict[str, list[tuple[str, int]]] = defaultdict(list)
    last: dict[str, int] = {}
    for row in all_rows:
        command, n = command_and_number(row)
        stories[row["id"]].append((command, last[row["id"]] if row["gone"] else n))
        last[row["id"]] = n
    return stories


def feed(kafka: str, raw: str, directory: Path, dice: random.Random) -> list[Row]:
    """Write the rows of both sources, and return them."""
    live, old = list(rows(dice, "k", RECORDS)), list(rows(dice, "f", FILES * LINES))
    producer = Producer({"bootstrap.servers": kafka})
    for row in live:
        partition = partition_of(row["id"], SOURCE_PARTITIONS)
        producer.produce(raw, json.dumps(row).encode(), partition=partition)
    producer.flush()
    (directory / "in").mkdir()
    for file in range(FILES):
        part = old[file * LINES : (file + 1) * LINES]
        lines = "".join(f"{row['id']},{row['n']},{str(row['gone']).lower()}\n" for row in part)
        path = directory / "in" / f"{file}.csv"
        path.write_text(lines)
        os.utime(path, (1_700_000_000 + file, 1_700_000_000 + file))
    return live + old


def wait_for_log(kafka: str, topic: str, count: int) -> None:
    """Wait until the log has that many records."""
    seen = 0
    for record in follow_log(kafka, topic):
        seen += record is not None
        if seen >= count:
            return


@pytest.fixture
def served(kafka: str, tmp_path: Path) -> Iterator[Served]:
    """The topic, behind a materializer and a query service."""
    (tmp_path / "served").mkdir()
    with serve(kafka, tmp_path / "served", {"orders": {"key": "/id", "partitions": 2}}) as served:
        yield served


@pytest.fixture
def client(served: Served) -> Iterator[Wire]:
    """A connection to the query service."""
    with wire(served.query.url) as client:
        yield client


@pytest.mark.long
def test_kill_and_old_checkpoint(
    spark: SparkSession,
    kafka: str,
    prefix: str,
    served: Served,
    client: Wire,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A subscriber that was there all the time is told of each row once, in its order."""
    monkeypatch.setenv("SOWLINE_KAFKA", kafka)
    dice = random.Random(new_seed())
    orders = served["orders"]
    raw = create_topic(kafka, f"{prefix}raw", SOURCE_PARTITIONS)
    client.send("sow_and_subscribe", topic=orders.name, sub_id="s", options="oof")
    client.group()
    every = feed(kafka, raw, tmp_path, dice)
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE.format(topic=orders.name, raw=raw, directory=tmp_path))
    checkpoint, old = tmp_path / "checkpoint", tmp_path / "old"
    with pipeline_process(file, kafka, {}):
        wait_for_log(kafka, orders.name, dice.randrange(1, len(every) // 3))
    shutil.copytree(checkpoint, old)
    with pipeline_process(file, kafka, {}):
        wait_for_log(kafka, orders.name, dice.randrange(len(every) // 2, len(every)))
    shutil.rmtree(checkpoint)
    old.rename(checkpoint)
    run_once(file)
    orders.settle()
    messages: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for message in client.heartbeat():
        messages[message["data"]["id"]].append((message["command"], message["data"]["n"]))
    assert messages == story(every)
    assert len(read_log(kafka, orders.name)) > len(every), "nothing was repeated"
    assert read_log(kafka, f"{orders.name}.dead") == []
