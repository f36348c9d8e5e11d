"""The Spark pipeline: from Parquet to the log, the lag of a stream, and a back-fill beside live traffic.

The yardstick of the first is Spark's own Kafka sink on the same frame in the same session. Lag is measured from the
moment that a row is written to the source's Kafka topic until a subscriber of the query service has it, and live
traffic from a publish to the same subscriber; both with everything on this machine.
"""

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.broker import broker
from sowline.client import Client
from sowline.errors import SowlineError
from sowline.spark import source_of_file, spark_session, to_sow
from sowline.spark.commands import command_rows
from sowline.spark.sink import PRODUCER, Log, kafka_records

RATE = 1000
"""Rows a second of the stream whose lag is measured."""
LIVE_RATE = 200
"""Commands a second of the traffic beside a back-fill."""
SECONDS = 15.0
BACK_FILLS = 10
"""How many times the records a back-fill writes."""
BACK_FILL_RATE = 20_000
BACK_FILL_SECONDS = 60.0
FILES = 20

TOPICS = "topics: [{name: orders, key: /id, partitions: 2, record_bytes_max: 65536}]\n"

STREAM = """
name: stream
topic: orders
checkpoint: {directory}/stream
sources:
  raw: {{kafka: raw, format: json, schema: "id BIGINT, qty INT, at DOUBLE"}}
key: id
"""

BACK_FILL = """
name: backfill
topic: orders
checkpoint: {directory}/backfill
sources:
  old: {{directory: "{directory}/old", format: parquet}}
key: id
rows_per_second: {rate}
"""


class Lags(NamedTuple):
    """Milliseconds, of so many messages."""

    p50: float
    p99: float
    messages: int


def run(records: int, runs: int) -> None:
    """Measure, and print medians and ratios."""
    with broker() as kafka, tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        spark = spark_session("bench", {"spark.driver.memory": "2g"})
        _report_sinks(records, _sinks(spark, kafka, directory, records, runs))
        rows = records * BACK_FILLS
        _orders(spark, rows).repartition(FILES).write.parquet(f"{directory}/old")
        spark.stop()
        with _system(kafka, directory) as url:
            lag = _lag_of_a_stream(kafka, directory, url)
            print(f"\nlag of a stream of {RATE} rows/s: p50 {lag.p50:.0f} ms, p99 {lag.p99:.0f} ms")
            _report_back_fill(rows, *_back_fill(kafka, directory, url))


def _orders(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(rows).select(
        "id",
        F.concat(F.lit("customer-"), F.lpad((F.col("id") % 5000).cast("string"), 5, "0")).alias("customer"),
        F.element_at(
            F.array(*map(F.lit, ("open", "filled", "late"))), (F.col("id") % 3 + 1).cast("int")
        ).alias("status"),
        (F.col("id") * 7919 % 1000).cast("int").alias("qty"),
        (F.col("id") * 104729 % 100_000 / 100).alias("price"),
    )


def _sinks(
    spark: SparkSession, kafka: str, directory: Path, records: int, runs: int
) -> dict[str, list[float]]:
    """Return the rows a second of each way to write the same rows, by turns."""
    _orders(spark, records).repartition(4).write.parquet(f"{directory}/orders")
    frame = spark.read.parquet(f"{directory}/orders")
    plain = command_rows(frame, "id").select("key", "value")
    numbered = frame.select("*", source_of_file())
    files = sorted(one for (one,) in numbered.select("_source.file").distinct().collect())
    log = Log("", kafka, "bench")
    ordinals = {file: number for number, file in enumerate(files)}
    same = kafka_records(command_rows(numbered, "id"), log, ordinals, is_one_task=True)
    found: dict[str, list[float]] = {"spark": [], "spark, same headers": [], "to_sow": []}
    for _ in range(runs + 1):
        for name, seconds in (
            ("spark", _timed(lambda: _save(plain, kafka))),
            ("spark, same headers", _timed(lambda: _save(same.drop("topic"), kafka))),
            (
                "to_sow",
                _timed(
                    lambda: to_sow(numbered, topic=_topic(kafka), key="id", publisher="bench", kafka=kafka)
                ),
            ),
        ):
            found[name].append(records / seconds)
    return {name: rates[1:] for name, rates in found.items()}


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _save(frame: DataFrame, kafka: str) -> None:
    options = {f"kafka.{name}": value for name, value in PRODUCER.items()}
    options |= {"kafka.bootstrap.servers": kafka, "topic": _topic(kafka)}
    frame.write.format("kafka").options(**options).save()


def _topic(kafka: str, name: str | None = None, partitions: int = 2) -> str:
    name = name or f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(name, partitions)])[name].result(30)
    return name


@contextmanager
def _system(kafka: str, directory: Path) -> Iterator[str]:
    """Lend a running system's URL."""
    (directory / "topics.yaml").write_text(TOPICS)
    options = ["--config", f"{directory}/topics.yaml", "--data-dir", f"{directory}/state", "--port", "0"]
    command = [sys.executable, "-m", "sowline", "up", "--kafka", kafka, *options]
    with (directory / "up.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        process.wait()


@contextmanager
def _pipeline(
    kafka: str, directory: Path, name: str, text: str, *options: str
) -> Iterator[subprocess.Popen[str]]:
    """Lend a running pipeline."""
    file = directory / f"{name}.yaml"
    file.write_text(text.format(directory=directory, rate=BACK_FILL_RATE))
    command = [sys.executable, "-m", "sowline", "pipeline", "run", str(file), "--kafka", kafka, *options]
    with (directory / f"{name}.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline(), (directory / f"{name}.log").read_text()
        yield process
    finally:
        process.terminate()
        process.wait()


class Traffic:
    """Rows with the moment at which they were written, sent at a steady rate and taken by a subscriber."""

    def __init__(self, kafka: str, topic: str, url: str, rate: int) -> None:
        self.lags: list[float] = []
        self._producer = Producer(
            {"bootstrap.servers": kafka, "linger.ms": 1, "partitioner": "murmur2_random"}
        )
        self._topic, self._url, self._rate = topic, url, rate
        self._stop = threading.Event()

    def __enter__(self) -> "Traffic":
        self._client = Client(self._url)
        self._stream = self._client.subscribe("orders", filter="/at > 0")
        self._threads = [
            threading.Thread(target=self._send),
            threading.Thread(target=self._take, daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._threads[0].join()
        self._client.close()

    def fresh(self, seconds: float) -> Lags:
        """Return the lags of the messages of the next seconds."""
        self.lags.clear()
        time.sleep(seconds)
        lags = sorted(self.lags)
        return Lags(statistics.median(lags), lags[len(lags) * 99 // 100], len(lags))

    def _send(self) -> None:
        began, sent = time.monotonic(), 0
        while not self._stop.wait(0.005):
            due = int((time.monotonic() - began) * self._rate)
            for number in range(sent, due):
                body = {"id": -1 - number % 500, "qty": number, "at": time.time()}
                self._producer.produce(self._topic, json.dumps(body).encode(), str(body["id"]))
            sent = due
            self._producer.poll(0)
        self._producer.flush()

    def _take(self) -> None:
        with contextlib.suppress(SowlineError):  # the client is closed under it
            for message in self._stream:
                if message.command == "publish":
                    self.lags.append((time.time() - message.data["at"]) * 1000)


def _lag_of_a_stream(kafka: str, directory: Path, url: str) -> Lags:
    _topic(kafka, "raw")
    with _pipeline(kafka, directory, "stream", STREAM), Traffic(kafka, "raw", url, RATE) as traffic:
        traffic.fresh(SECONDS)  # Spark warms up
        return traffic.fresh(SECONDS)


def _back_fill(kafka: str, directory: Path, url: str) -> tuple[Lags, Lags, float, dict[str, int]]:
    """Return the lags without a back-fill and beside one, and what it took without a limit to finish it.

    The one with a limit is killed, and the other goes on from there.
    """
    with Traffic(kafka, "orders", url, LIVE_RATE) as traffic:
        traffic.fresh(SECONDS / 3)
        alone = traffic.fresh(SECONDS)
        with _pipeline(kafka, directory, "backfill", BACK_FILL, "--once") as process:
            beside = traffic.fresh(BACK_FILL_SECONDS)
            process.kill()
    began = time.monotonic()
    with _pipeline(kafka, directory, "backfill", BACK_FILL, "--once", "--rows-per-second", "1e9") as process:
        assert process.stdout is not None
        return alone, beside, time.monotonic() - began, json.loads(process.stdout.readline())


def _report_sinks(records: int, found: dict[str, list[float]]) -> None:
    print(f"\n{records:,} rows from Parquet to the log, rows/s (medians)")
    ours = statistics.median(found["to_sow"])
    for name, rates in found.items():
        rate = statistics.median(rates)
        print(f"  {name:22} {rate:10,.0f}   to_sow is {ours / rate:.2f} of it")


def _report_back_fill(rows: int, alone: Lags, beside: Lags, seconds: float, sums: dict[str, int]) -> None:
    print(f"\nback-fill of {rows:,} rows: {BACK_FILL_SECONDS:.0f} s at most {BACK_FILL_RATE:,}/s, killed,")
    print(f"  then {seconds:.0f} s without a limit, in all {sums}")
    for name, lags in (("live alone", alone), ("live beside it", beside)):
        print(f"  {name:16} p50 {lags.p50:6.1f} ms   p99 {lags.p99:6.1f} ms   ({lags.messages} messages)")
