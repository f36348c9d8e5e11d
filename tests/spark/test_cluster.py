"""One file of a pipeline, run here and on a standalone cluster: both write the same."""

import os
import subprocess
import sys
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from textwrap import dedent

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from sowline.runtime.ports import HOST
from tests.spark.clusters import QUICK, standalone
from tests.spark.log import Written, create_topic, read_log
from tests.spark.pipelines import run_once

pytestmark = pytest.mark.timeout(600)

FILE = dedent(
    """
    name: shop
    topic: orders
    log: "${LOG}"
    checkpoint: "${STATE}"
    sources:
      raw: {kafka: "${RAW}", format: json, schema: "id INT, qty INT"}
      drops: {directory: "${DROPS}", format: json, schema: "id INT, qty INT"}
    transforms:
      - select: |
          SELECT _source, id, qty FROM raw UNION ALL
          SELECT _source, id, qty FROM drops
      - columns: {total: qty * 2}
    checks:
      - expect: qty > 0
    key: id
    """
)


@pytest.fixture
def file(kafka: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file, and what it reads: rows, one that fails its check, and one that is none."""
    raw = create_topic(kafka, f"{prefix}raw", partitions=2)
    producer = Producer({"bootstrap.servers": kafka})
    for number in range(100):
        body = b'{"id": %d, "qty": %d}' % (number % 40, number) if number != 50 else b"{"
        producer.produce(raw, body, partition=number % 2)
    producer.flush()
    monkeypatch.setenv("SOWLINE_KAFKA", kafka)
    monkeypatch.setenv("RAW", raw)
    drops = tmp_path / "drops"
    drops.mkdir()
    monkeypatch.setenv("DROPS", str(drops))
    for name in ("a", "b"):
        (drops / f"{name}.json").write_text("".join(f'{{"id": 1{n}, "qty": {n}}}\n' for n in range(9)))
    path = tmp_path / "pipeline.yaml"
    path.write_text(FILE)
    return path


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The master of a cluster whose executors find no Python."""
    directory = tmp_path / "cluster"
    directory.mkdir()
    with standalone(directory) as url:
        yield url


def submitted(file: Path, master: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the pipeline of a file on a cluster until it has written what there is."""
    settings = {
        "spark.driver.host": HOST,
        "spark.executor.extraJavaOptions": QUICK,
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
    }
    options = ["--master", master, *(f"--conf={name}={value}" for name, value in settings.items())]
    return subprocess.run(
        [sys.executable, "-m", "sowline_ingest", "submit", str(file), "--once", "--", *options],
        env={**os.environ, **environment, "PYSPARK_PYTHON": "/nowhere/python", "SPARK_SUBMIT_OPTS": QUICK},
        capture_output=True,
        text=True,
        timeout=400,
    )


def written(kafka: str, log: str) -> list[list[Written]]:
    """Return what is on a log and among its dead letters, but for the order of different keys."""
    return [sorted(read_log(kafka, topic), key=itemgetter(0, 1)) for topic in (log, f"{log}.dead")]


def log_of(kafka: str, name: str) -> str:
    """Make a log and its dead letters."""
    create_topic(kafka, f"{name}.dead", partitions=1)
    return create_topic(kafka, name)


@pytest.mark.long
def test_same_file_here_and_on_a_cluster(
    spark: SparkSession,
    kafka: str,
    prefix: str,
    file: Path,
    cluster: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each record has the key, body, headers and partition that a local run gives it.

    A local run that goes on from the cluster's checkpoint adds none.
    """
    here, there = log_of(kafka, f"{prefix}here"), log_of(kafka, f"{prefix}there")
    run_here(file, monkeypatch, log=here, state=tmp_path / "here")
    expected = written(kafka, here)
    assert [len(records) for records in expected] == [114, 4]

    done = submitted(file, cluster, LOG=there, STATE=str(tmp_path / "there"))
    assert done.returncode == 0, done.stderr
    assert written(kafka, there) == expected
    assert noise(done) == []

    run_here(file, monkeypatch, log=there, state=tmp_path / "there")
    assert written(kafka, there) == expected


def run_here(file: Path, monkeypatch: pytest.MonkeyPatch, log: str, state: Path) -> None:
    """Run the pipeline of a file in the session of the tests until it has written what there is."""
    monkeypatch.setenv("LOG", log)
    monkeypatch.setenv("STATE", str(state))
    run_once(file)


def noise(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the lines that are no JSON of ours, nor the JVM's word on its modules and its options."""
    usual = ("{", "WARNING: Using incubator modules", "Picked up JAVA_TOOL_OPTIONS")
    return [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith(usual)]


def test_mistakes_are_reported_first(tmp_path: Path) -> None:
    """With their lines, and before anything is asked of the cluster, which need not be there."""
    file = tmp_path / "pipeline.yaml"
    file.write_text(FILE.replace("qty * 2", "qty *"))
    refused = submitted(file, f"spark://{HOST}:1", RAW="raw", DROPS="in", LOG="log", STATE="s")
    assert refused.returncode == 1
    (messages,) = noise(refused)
    assert messages.startswith(
        f"{file}, line 13: transforms.1.columns.total: expected a Spark SQL expression: "
    )
