"""The sink: rows of a data frame as commands on the log."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.sink import in_order, kafka_records, key_text, publisher_name, to_sow, write_commands
from ingest.sources import csv_rows, growing_directory
from sowline.key import key_text as key_text_of
from sowline.key import partition_of
from tests.spark.log import create_topic, read_log

COMMANDS = "key STRING, body STRING, command STRING, file BIGINT, row INT"


def commands(spark: SparkSession, *rows: tuple[str, str | None, str, int, int]) -> DataFrame:
    """Return rows as a pipeline hands them to the sink."""
    return spark.createDataFrame(list(rows), COMMANDS)


def test_session(spark: SparkSession) -> None:
    """A local session works in UTC and with few partitions."""
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_command_on_the_log(spark: SparkSession, kafka: str, prefix: str) -> None:
    """A row becomes a record with its key text, its body, and headers for command, publisher and number."""
    topic = create_topic(kafka, f"{prefix}orders")
    write_commands(commands(spark, ("a", '{"id":"a"}', "delta_publish", 3, 14)), topic, kafka, "shop/0")
    (record,) = read_log(kafka, topic)
    assert (record.key, record.value) == ("a", b'{"id":"a"}')
    assert record.headers == {
        "sow.command": "delta_publish",
        "sow.publisher": "shop/0",
        "sow.sequence": "3.14",
    }


def test_null_body(spark: SparkSession, kafka: str, prefix: str) -> None:
    """A row without a body is a record without a value: its key names the record."""
    topic = create_topic(kafka, f"{prefix}orders")
    write_commands(commands(spark, ("a", None, "sow_delete", 0, 0)), topic, kafka, "shop/0")
    assert [record.value for record in read_log(kafka, topic)] == [None]


def test_order_per_key(spark: SparkSession, kafka: str, prefix: str) -> None:
    """Rows of one key are written in the order of their numbers, compared as numbers, wherever they were."""
    topic = create_topic(kafka, f"{prefix}orders")
    numbers = [(file, row) for file in (1, 2, 10) for row in range(12)]
    rows = [(key, "{}", "publish", *number) for number in reversed(numbers) for key in ("a", "b", "c")]
    write_commands(commands(spark, *rows).repartition(7), topic, kafka, "shop/0")
    records = read_log(kafka, topic)
    for key in ("a", "b", "c"):
        assert [record.sequence for record in records if record.key == key] == numbers


@pytest.mark.parametrize("pattern", ["{}", "ключ-{}", '["{}","é|,"]'])
def test_placement(spark: SparkSession, kafka: str, prefix: str, pattern: str) -> None:
    """Each record is in the partition that owns its key, in any script."""
    topic = create_topic(kafka, f"{prefix}orders", partitions=5)
    rows = [(pattern.format(number), "{}", "publish", 0, number) for number in range(200)]
    write_commands(commands(spark, *rows), topic, kafka, "shop/0")
    records = read_log(kafka, topic)
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


def test_no_python_in_the_plan(spark: SparkSession) -> None:
    """Ordering, headers and body are computed by Spark alone."""
    plan = kafka_records(in_order(commands(spark, ("a", "{}", "publish", 0, 0))), publisher_name("shop"))
    text = plan._jdf.queryExecution().toString()
    assert "Sort [file" in text
    assert "Python" not in text


def test_publisher_name() -> None:
    """A publisher is a pipeline and one partition of its source."""
    assert [publisher_name("shop"), publisher_name("shop", 3)] == ["shop/0", "shop/3"]


def test_stream_goes_on_from_its_checkpoint(
    spark: SparkSession, kafka: str, prefix: str, tmp_path: Path
) -> None:
    """A pipeline started again with its checkpoint writes what is new, and nothing twice."""
    topic = create_topic(kafka, f"{prefix}orders")
    source = tmp_path / "in"
    source.mkdir()
    rows = csv_rows(growing_directory(spark, str(source)), "key STRING, body STRING, command STRING")
    for number, key in enumerate("ab", 1):
        (source / f"{number}.csv").write_text(f"{key},7,publish\n")
        query = to_sow(rows, topic, kafka, "shop/0", str(tmp_path / "checkpoint"), available_now=True)
        query.awaitTermination()
        assert sorted(record.key for record in read_log(kafka, topic)) == list("ab"[:number])
