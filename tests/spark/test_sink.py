"""The sink: rows of a data frame as commands on the log."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sowline.errors import SowlineError
from sowline.model.key import key_text as key_text_of
from sowline.model.key import partition_of
from sowline.spark import to_sow
from sowline.spark.commands import command_rows, key_text
from sowline.spark.sink import Log, kafka_records
from sowline.spark.source import source_of_file, source_of_kafka
from sowline.spark.source_order import LOOKED_UP_FILES_MAX
from tests.property.keys import HOSTILE
from tests.spark.log import Written, create_log, read_log

ORDERS = "id STRING, qty INT, command STRING, file STRING, row INT"
SOURCE = "named_struct('partition', '0', 'file', file, 'number', CAST(row AS BIGINT)) AS _source"


def orders(spark: SparkSession, *rows: tuple[str | None, int | None, str, str | None, int]) -> DataFrame:
    """Return rows as a job has them, with their numbers."""
    frame = spark.createDataFrame(list(rows), ORDERS)
    return frame.select("id", "qty", F.col("command").alias("_command"), F.expr(SOURCE))


def written(frame: DataFrame, kafka: str, prefix: str, partitions: int = 2, **options: Any) -> list[Written]:
    """Write a frame, and return what is on the log then."""
    topic = create_log(kafka, f"{prefix}orders", partitions)
    given = {"key": "id", "publisher": "shop", "command": F.col("_command"), **options}
    assert to_sow(frame, topic=topic, kafka=kafka, **given) is None
    return read_log(kafka, topic)


def test_session(spark: SparkSession) -> None:
    """A local session works in UTC and with few partitions."""
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_python_of_a_local_session(spark: SparkSession) -> None:
    """What runs in Python runs in this one, which has Sowline, whatever the PATH has."""
    assert spark.sparkContext.pythonExec == sys.executable


def test_command_on_the_log(spark: SparkSession, kafka: str, prefix: str) -> None:
    """A row becomes a record with its key text, its body, and headers for command, publisher and number."""
    (record,) = written(orders(spark, ("a", 5, "delta_publish", None, 14)), kafka, prefix)
    assert (record.key, record.value) == ("a", b'{"id":"a","qty":5}')
    assert record.headers == {
        "sow.command": "delta_publish",
        "sow.publisher": "shop/0",
        "sow.sequence": "14",
    }


def test_a_publish_needs_no_command(spark: SparkSession, kafka: str, prefix: str) -> None:
    """Null is left out: of the body, and of the headers."""
    row = orders(spark, ("a", None, "", None, 1))
    (record,) = written(row, kafka, prefix, command="publish", expiration=F.lit(None))
    assert (record.value, sorted(record.headers)) == (b'{"id":"a"}', ["sow.publisher", "sow.sequence"])


def test_body_expiration_and_correlation(spark: SparkSession, kafka: str, prefix: str) -> None:
    """What a job makes itself goes along as it is; a null body is a record without a value."""
    rows = orders(spark, ("a", 5, "sow_delete", None, 0), ("b", 7, "publish", None, 1))
    records = written(
        rows,
        kafka,
        prefix,
        partitions=1,
        body=F.when(F.col("id") == "b", '{"id":"b"}'),
        expiration=F.when(F.col("id") == "b", F.col("qty") / 2),
        correlation=F.upper("id"),
    )
    assert [(record.key, record.value) for record in records] == [("a", None), ("b", b'{"id":"b"}')]
    more = [(one.headers.get("sow.expiration"), one.headers["sow.correlation"]) for one in records]
    assert more == [(None, "A"), ("3.5", "B")]


@pytest.mark.parametrize("files", [11, LOOKED_UP_FILES_MAX + 1])
def test_order_per_key(spark: SparkSession, kafka: str, prefix: str, files: int) -> None:
    """Rows of one key are written in the order of their numbers, compared as numbers, wherever they were."""
    numbers = [(file, row) for file in range(files) for row in range(12)]
    rows = [
        (key, 0, "publish", f"file:/{file:02}", row)
        for file, row in reversed(numbers)
        for key in ("a", "b", "c")
    ]
    records = written(orders(spark, *rows).repartition(7), kafka, prefix)
    for key in ("a", "b", "c"):
        assert [record.sequence for record in records if record.key == key] == numbers


def test_parts_of_a_row(spark: SparkSession, kafka: str, prefix: str) -> None:
    """What a row is cut into is told apart, and keeps its order."""
    rows = orders(spark, ("a", 0, "publish", None, 7), ("a", 0, "publish", None, 8))
    parts = rows.select("*", F.explode(F.array(F.lit(0), F.lit(1), F.lit(2))).alias("_part"))
    records = written(parts.orderBy(F.desc("_part")), kafka, prefix)
    assert [record.sequence for record in records] == [(row, part) for row in (7, 8) for part in (0, 1, 2)]


@pytest.mark.parametrize("pattern", ["{}", "ключ-{}", '["{}","é|,"]'])
def test_placement(spark: SparkSession, kafka: str, prefix: str, pattern: str) -> None:
    """Each record is in the partition that owns its key, in any script."""
    rows = [(pattern.format(number), 0, "publish", None, number) for number in range(200)]
    records = written(orders(spark, *rows), kafka, prefix, partitions=5)
    assert len(records) == 200
    assert [record.partition for record in records] == [partition_of(record.key, 5) for record in records]


def test_key_text(spark: SparkSession) -> None:
    """Key fields become the key text that the body would give: a field itself, several as a JSON array."""
    body = {"id": 7, "name": 'a"b/é\\', "open": True}
    frame = spark.createDataFrame([(7, 'a"b/é\\', True)], "id INT, name STRING, open BOOLEAN")
    fields = ("id", "name", "open")
    one, several = frame.select(key_text(F.col("id")), key_text(*map(F.col, fields))).collect()[0]
    assert one == key_text_of(body, [("id",)])
    assert several == key_text_of(body, [(field,) for field in fields])
    (row,) = command_rows(spark.sql("SELECT 'a' AS `f:ref.@55`"), "f:ref.@55").collect()
    assert (row.key, row.value) == ("a", '{"f:ref.@55":"a"}')


@pytest.mark.parametrize("in_header", [False, True])
def test_keys_that_publishers_give(spark: SparkSession, kafka: str, prefix: str, in_header: bool) -> None:
    """They stand as they are in the Kafka key, and in the header if that is asked for; in the body they need not."""
    keys = ["YWJj+/=-_", "1"] if in_header else list(HOSTILE)
    frame = spark.createDataFrame(
        [(key, number) for number, key in enumerate(keys)], "_sow_key STRING, n INT"
    )
    options = {"key": "_sow_key", "publisher": None, "command": "publish"}
    records = written(frame, kafka, prefix, partitions=3, key_header=in_header, **options)
    assert {record.key: record.value for record in records} == {
        key: b'{"n":%d}' % number for number, key in enumerate(keys)
    }
    assert all(record.headers.get("sow.key") == (record.key if in_header else None) for record in records)
    assert all(record.partition == partition_of(record.key, 3) for record in records)


def test_frames_that_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Before anything is written, with what to do about it."""
    rows = orders(spark, ("a", 5, "publish", None, 0))
    stream = spark.readStream.schema("id STRING").parquet(str(tmp_path))
    numbered = stream.select("id", source_of_file())
    cases: tuple[tuple[DataFrame, dict[str, Any], str, str], ...] = (
        (rows, {"key": []}, "bad key", "expected the columns"),
        (rows.withColumn("id", F.lit(1.5)), {}, "bad key", "key column id, got double"),
        (
            rows,
            {"publisher": None},
            "bad frame",
            "got _source alone",
        ),
        (rows.drop("_source"), {}, "bad frame", "got id, qty, _command"),
        (numbered, {}, "bad frame", "expected a checkpoint for a stream"),
        (stream, {"publisher": None, "checkpoint": "c"}, "bad frame", "expected a publisher for a stream"),
    )
    for frame, options, reason, sentence in cases:
        with pytest.raises(SowlineError, match=sentence) as refused:
            to_sow(frame, topic="orders", **({"key": "id", "publisher": "shop"} | options))
        assert refused.value.reason == reason


def test_rows_without_numbers(spark: SparkSession, kafka: str, prefix: str) -> None:
    """A batch may do without a publisher."""
    (record,) = written(
        orders(spark, ("a", 5, "publish", None, 0)).drop("_source"), kafka, prefix, publisher=None
    )
    assert record.headers == {}


def test_no_python_in_the_plan(spark: SparkSession) -> None:
    """Ordering, headers and body are computed by Spark alone."""
    rows = command_rows(orders(spark, ("a", 5, "publish", "file:/a", 0)), "id", F.col("_command"))
    plan = kafka_records(rows, Log("orders", "", "shop", rows_per_second=10.0), {"file:/a": 3})
    text = plan._jdf.queryExecution().toString()
    assert "Sort [" in text
    assert "java_method" in text
    assert "Python" not in text


@pytest.mark.parametrize("files", [1, LOOKED_UP_FILES_MAX + 1])
def test_files_without_a_number(spark: SparkSession, files: int) -> None:
    """Rows of Kafka stand beside those of files; a file that nothing has numbered ends the job."""
    ordinals = {f"file:/{number}": 40 + number for number in range(files)}
    rows = orders(spark, ("a", 5, "", None, 7), ("b", 5, "", "file:/0", 3), ("c", 5, "", "file:/x", 1))
    records = kafka_records(command_rows(rows, "id"), Log("orders", "", "shop"), ordinals)
    known = records.where("key <> 'c'").select("key", F.col("headers")[1]["value"].cast("string"))
    assert sorted(map(tuple, known.collect())) == [("a", "7"), ("b", "40.3")]
    with pytest.raises(PySparkException, match="no number for file:/x"):
        records.collect()


def test_a_shuffle_carries_few_columns(spark: SparkSession) -> None:
    """What is written of a row, and where it comes from; headers and what rows are sorted by are made after it."""
    rows = command_rows(orders(spark, ("a", 5, "publish", "file:/a", 0)), "id")
    records = kafka_records(rows, Log("orders", "", "shop"), {"file:/a": 3})
    lines = records._jdf.queryExecution().executedPlan().toString().splitlines()
    (shuffle,) = (at for at, line in enumerate(lines) if "Exchange hashpartitioning" in line)
    assert "sow.sequence" not in "".join(lines[shuffle:])
    (carried,) = re.findall(r"Exchange\nInput \[\d+\]: \[(.*)\]", explained(records))
    assert re.findall(r"\w+(?=#)", carried) == ["key", "value", "_sowline_number", "_sowline_ordinal"]


def explained(frame: DataFrame) -> str:
    """Return the formatted plan of a frame."""
    jvm: Any = frame.sparkSession._jvm
    mode = jvm.org.apache.spark.sql.execution.ExplainMode.fromString("formatted")
    return str(frame._jdf.queryExecution().explainString(mode))


def test_rate_limit(spark: SparkSession) -> None:
    """Each task rests after every so many rows; none is lost."""
    rows = spark.range(60).select(F.col("id").cast("string").alias("id"))
    log = Log("orders", "", None, rows_per_second=200.0)
    began = spark.sql("SELECT unix_millis(now())").collect()[0][0]
    assert kafka_records(command_rows(rows, "id"), log, {}).select("key").distinct().count() == 60
    ended = spark.sql("SELECT unix_millis(now())").collect()[0][0]
    assert ended - began >= 30 // 5 * 50


def test_sources(spark: SparkSession, tmp_path: Path) -> None:
    """A source's name is a part of the partition."""
    kafka = spark.createDataFrame([(3, 17)], "partition INT, offset BIGINT")
    (row,) = kafka.select(source_of_kafka(), source_of_kafka("raw").alias("named")).collect()
    assert tuple(row._source) == ("3", None, 17)
    assert tuple(row.named) == ("raw/3", None, 17)
    spark.range(2).coalesce(1).write.parquet(f"{tmp_path}/a b")
    rows = (
        spark.read.parquet(f"{tmp_path}/a b").select("id", source_of_file(name="raw")).orderBy("id").collect()
    )
    assert [(row._source.partition, row._source.number) for row in rows] == [("raw/0", 0), ("raw/0", 1)]
    assert rows[0]._source.file.startswith(f"file:{tmp_path}/a%20b/part-")


def test_files_of_a_batch(spark: SparkSession, kafka: str, prefix: str, tmp_path: Path) -> None:
    """They are numbered in the order of their names; what a frame is joined with has no part in that."""
    for name in ("a a", "b"):
        spark.range(1).select(F.lit(name).alias("id")).write.parquet(f"{tmp_path}/in/{name}")
    spark.range(1).select(F.lit("b").alias("id"), F.lit(7).alias("qty")).write.parquet(f"{tmp_path}/0")
    rows = (
        spark.read.option("recursiveFileLookup", "true")
        .parquet(f"{tmp_path}/in")
        .select("id", source_of_file())
    )
    joined = rows.join(spark.read.parquet(f"{tmp_path}/0"), "id", "left")
    for number, frame in enumerate((rows, joined)):
        records = written(frame, kafka, f"{prefix}{number}", command="publish")
        assert {record.key: record.sequence for record in records} == {"a a": (0, 0), "b": (1, 0)}


def test_stream_goes_on_from_its_checkpoint(
    spark: SparkSession, kafka: str, prefix: str, tmp_path: Path
) -> None:
    """A stream started again with its checkpoint writes what is new, under numbers that go on."""
    topic = create_log(kafka, f"{prefix}orders")
    source = f"{tmp_path}/the source"
    Path(source).mkdir()
    spark.conf.set("spark.sql.streaming.fileSource.log.compactInterval", 2)
    rows = spark.readStream.schema("id BIGINT").parquet(source).select("id", source_of_file())
    for number in range(4):
        spark.range(number, number + 1).coalesce(1).write.mode("append").parquet(source)
        query = to_sow(
            rows,
            topic=topic,
            key="id",
            kafka=kafka,
            publisher="shop",
            checkpoint=f"{tmp_path}/check point",
            once=True,
        )
        assert query is not None
        query.awaitTermination()
    found = sorted((int(record.key), record.sequence) for record in read_log(kafka, topic))
    assert found == [(number, (number, 0)) for number in range(4)]
