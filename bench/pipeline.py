"""The Spark pipeline: from Parquet to the log, the lag of a stream, and a back-fill next to live traffic.

The yardstick of the first is Spark's own Kafka sink on the same frame in the same session: with its defaults, with
the producer's settings of `to_sow`, and with its headers as well. The steps of `to_sow` follow, one after the other.
The last pair reads files that are each of a range of keys, as a sorted export has them.

Lag is the time from the write of a row to the source's Kafka topic until a subscriber of the query service has it.
Live traffic is measured from a publish to the same subscriber. Everything is on this machine. The yardstick of a
back-fill next to live traffic is a plain producer that writes as many commands a second.
"""

import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.broker import broker
from bench.table import medians_of, table
from bench.traffic import Lags, Traffic, system
from sowline.commands.pipeline_row import SinkColumn
from sowline.spark import source_of_file, spark_session, to_sow
from sowline.spark.commands import command_rows, header
from sowline.spark.sink import PRODUCER, Log, addressed, with_dead_letters
from sowline.spark.source_files import source_files
from sowline.spark.source_order import in_order, located

RATE = 1000
"""Rows a second of the stream whose lag is measured."""
LIVE_RATE = 200
"""Commands a second of the traffic next to a back-fill."""
SECONDS = 15.0
WARM_UPS = 2
BACK_FILLS = 10
"""How many times the records a back-fill writes."""
BACK_FILL_RATE = 5_000
"""The rate that two cores carry next to everything else that runs on them."""
BACK_FILL_SECONDS = 60.0
TURNS_PER_SECOND = 20
"""In which the plain producer writes, as the tasks of a back-fill do."""
FILES = 20
SINK_FILES = 4

AS_IT_COMES = "Spark's Kafka sink with default settings, key and value"
SAME_PRODUCER = "the same, with `to_sow`'s producer settings"
SAME_HEADERS = "plus command headers, added by hand"
NUMBERS = "plus file numbering, value checks and dead letters"
SORT = "plus sorting within tasks"
SHUFFLE = "plus all rows of a key in one task"
TO_SOW = "`to_sow`: plus checks of topics and files"
APART_HEADERS = "files with disjoint key ranges: Spark's sink with command headers"
APART_TO_SOW = "files with disjoint key ranges: `to_sow`"
OF_RANGES = (APART_HEADERS, APART_TO_SOW)

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
"""


def run(records: int, runs: int) -> str:
    """Measure, and print lags; return the table of sinks."""
    with broker() as kafka, tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        spark = spark_session("bench", {"spark.driver.memory": "2g"})
        text = report_sinks(records, runs, sinks(spark, kafka, directory, records, runs))
        print(f"\n{text}", flush=True)
        rows = records * BACK_FILLS
        _orders(spark, rows).repartition(FILES).write.parquet(f"{directory}/old")
        spark.stop()
        with system(kafka, directory, TOPICS) as url:
            lag = _lag_of_a_stream(kafka, directory, url)
            print(f"\nlag of a stream of {RATE} rows/s: p50 {lag.p50:.0f} ms, p99 {lag.p99:.0f} ms")
            _report_back_fill(rows, *_back_fill(kafka, directory, url))
    return text


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


def sinks(
    spark: SparkSession, kafka: str, directory: Path, records: int, runs: int
) -> dict[str, list[float]]:
    """Return the rows a second of each way to write the same rows, in turn."""
    orders = _orders(spark, records)
    orders.repartition(SINK_FILES).write.parquet(f"{directory}/orders")
    orders.repartitionByRange(SINK_FILES, "id").write.parquet(f"{directory}/ranges")
    numbered, ranges = (
        spark.read.parquet(f"{directory}/{name}").select("*", source_of_file())
        for name in ("orders", "ranges")
    )
    ordinals = {file: number for number, file in enumerate(source_files(numbered).urls)}
    key = F.col("id")

    def by_hand(rows: DataFrame) -> DataFrame:
        sequence = F.concat(F.lit("1."), "_source.number")
        headers = F.array(header("sow.publisher", F.lit("bench/0")), header("sow.sequence", sequence))
        value = F.to_json(F.struct(*orders.columns))
        return rows.select(key.cast("string").alias("key"), value.alias("value"), headers.alias("headers"))

    def step(topic: str, rows: DataFrame) -> None:
        commands = with_dead_letters(command_rows(rows, "id", keep=tuple(SinkColumn)))
        _save(addressed(commands, Log(topic, kafka, "bench", f"{topic}.dead")), kafka, None, PRODUCER)

    def written(rows: DataFrame, topic: str) -> None:
        to_sow(rows, topic=topic, key="id", publisher="bench", kafka=kafka)

    # Each makes its frame as a job does, within the time that is measured.
    ways: dict[str, Callable[[str], object]] = {
        AS_IT_COMES: lambda topic: _save(by_hand(numbered).drop("headers"), kafka, topic, {}),
        SAME_PRODUCER: lambda topic: _save(by_hand(numbered).drop("headers"), kafka, topic, PRODUCER),
        SAME_HEADERS: lambda topic: _save(by_hand(numbered), kafka, topic, PRODUCER),
        NUMBERS: lambda topic: step(topic, located(numbered, ordinals)),
        SORT: lambda topic: step(topic, in_order(numbered, [key], ordinals, is_one_task=True)),
        SHUFFLE: lambda topic: step(topic, in_order(numbered, [key], ordinals)),
        TO_SOW: lambda topic: written(numbered, topic),
        APART_HEADERS: lambda topic: _save(by_hand(ranges), kafka, topic, PRODUCER),
        APART_TO_SOW: lambda topic: written(ranges, topic),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(runs + WARM_UPS):
        for name, write in ways.items():
            topic = _topic(kafka)
            began = time.perf_counter()
            write(topic)
            found[name].append(records / (time.perf_counter() - began))
    return {name: rates[WARM_UPS:] for name, rates in found.items()}


def _save(frame: DataFrame, kafka: str, topic: str | None, producer: Mapping[str, str]) -> None:
    """Write a frame to a topic, or each row to that in its column."""
    options = {f"kafka.{name}": value for name, value in producer.items()}
    options |= {"kafka.bootstrap.servers": kafka} | ({} if topic is None else {"topic": topic})
    frame.write.format("kafka").options(**options).save()


def _topic(kafka: str, name: str | None = None, partitions: int = 2) -> str:
    name = name or f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": kafka})
    # `to_sow` needs the topic of dead letters, too, which a materializer makes.
    for future in admin.create_topics([NewTopic(name, partitions), NewTopic(f"{name}.dead", 1)]).values():
        future.result(30)
    return name


@contextmanager
def _pipeline(
    kafka: str, directory: Path, name: str, text: str, *options: str
) -> Iterator[subprocess.Popen[str]]:
    """Lend a running pipeline."""
    file = directory / f"{name}.yaml"
    file.write_text(text.format(directory=directory))
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


def _lag_of_a_stream(kafka: str, directory: Path, url: str) -> Lags:
    _topic(kafka, "raw")
    with _pipeline(kafka, directory, "stream", STREAM), Traffic(kafka, "raw", url, RATE) as traffic:
        traffic.fresh(SECONDS)  # Spark warms up
        return traffic.fresh(SECONDS)


def _back_fill(kafka: str, directory: Path, url: str) -> tuple[dict[str, Lags], float, dict[str, int]]:
    """Return the lags of live commands, and what it took without a limit to finish the back-fill.

    The one with a limit is killed, and the other continues from there.
    """
    limit = ("--once", "--rows-per-second", str(BACK_FILL_RATE))
    found: dict[str, Lags] = {}
    with Traffic(kafka, "orders", url, LIVE_RATE) as traffic:
        traffic.settle()
        found["alone"] = traffic.fresh(SECONDS)
        with _plain_producer(kafka, "orders"):
            found["with a plain producer"] = traffic.fresh(BACK_FILL_SECONDS)
        traffic.settle()
        with _pipeline(kafka, directory, "backfill", BACK_FILL, *limit) as process:
            before = _records(kafka, "orders")
            found["with a back-fill"] = traffic.fresh(BACK_FILL_SECONDS)
            written = _records(kafka, "orders") - before
            print(f"\nthe log grew by {written / BACK_FILL_SECONDS:,.0f}/s beside the back-fill")
            process.kill()
        traffic.settle()
    began = time.monotonic()
    with _pipeline(kafka, directory, "backfill", BACK_FILL, "--once") as process:
        assert process.stdout is not None
        return found, time.monotonic() - began, json.loads(process.stdout.readline())


def _records(kafka: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": topic})
    partitions = consumer.list_topics(topic, 30).topics[topic].partitions
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, one))[1] for one in partitions]
    consumer.close()
    return sum(ends)


@contextmanager
def _plain_producer(kafka: str, topic: str) -> Iterator[None]:
    """Have a process write the rows of the back-fill, as many a second, with numbers but without Spark."""
    process = get_context("spawn").Process(target=_produce, args=(kafka, topic), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _produce(kafka: str, topic: str) -> None:
    settings = {"linger.ms": 5, "compression.type": "lz4", "partitioner": "murmur2_random"}
    producer = Producer({"bootstrap.servers": kafka, **settings})
    began = time.monotonic()
    for turn in itertools.count():
        rows = BACK_FILL_RATE // TURNS_PER_SECOND
        for number in range(turn * rows, (turn + 1) * rows):
            headers: list[tuple[str, str | bytes | None]] = [
                ("sow.publisher", b"plain/0"),
                ("sow.sequence", b"0.%d" % number),
            ]
            body = {
                "id": number,
                "customer": f"customer-{number % 5000:05}",
                "status": ("open", "filled", "late")[number % 3],
                "qty": number * 7919 % 1000,
                "price": number * 104729 % 100_000 / 100,
            }
            producer.produce(topic, json.dumps(body).encode(), str(number), headers=headers)
        producer.poll(0)
        time.sleep(max(0.0, began + (turn + 1) / TURNS_PER_SECOND - time.monotonic()))


def report_sinks(records: int, runs: int, found: Mapping[str, list[float]]) -> str:
    """Return the table of medians; each way but the first takes a step more than the one before, up to `to_sow`."""
    seconds = {name: records / statistics.median(rates) for name, rates in found.items()}
    before = 0.0
    rows = []
    for name, taken in seconds.items():
        ours = seconds[APART_TO_SOW if name in OF_RANGES else TO_SOW]
        is_step = name not in (AS_IT_COMES, *OF_RANGES)
        share = f"{(taken - before) / ours:.0%}" if is_step else ""
        before = taken if is_step else before
        rows.append((name, f"{records / taken:,.0f}", f"{taken:.2f}", share, f"{taken / ours:.2f}"))
    head = ("", "rows/s", "seconds", "share of the step in `to_sow`", "`to_sow` relative to this row")
    caption = f"{records:,} rows of five columns in {SINK_FILES} Parquet files, {medians_of(runs)}."
    return f"{caption}\n\n{table(head, rows)}"


def _report_back_fill(rows: int, found: dict[str, Lags], seconds: float, sums: dict[str, int]) -> None:
    print(f"\nback-fill of {rows:,} rows: {BACK_FILL_SECONDS:.0f} s at most {BACK_FILL_RATE:,}/s, killed,")
    print(f"  then {seconds:.0f} s without a limit, in all {sums}")
    for name, lags in found.items():
        print(
            f"  live {name:24} p50 {lags.p50:6.1f} ms   p99 {lags.p99:6.1f} ms   ({lags.messages} messages)"
        )
