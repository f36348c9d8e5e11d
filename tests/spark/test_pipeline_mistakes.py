"""Pipelines that can't run: what is refused before anything is read, and what ends them later."""

from pathlib import Path

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from sowline.config.yaml_file import YamlFileError
from sowline.errors import SowlineError
from sowline.spark import broker
from sowline_ingest.job import Job
from sowline_ingest.run import cause
from tests.spark.pipelines import SOURCE, Write, commands, run_once


@pytest.mark.parametrize(
    ("key", "body", "refused"),
    [
        ("id", "", "key"),
        ("[id, b]", "", ""),
        ("[id, c]", "", "key"),
        ("[id, c]", "body: note\n", ""),
        ("id", "body: note\n", "key"),
    ],
)
def test_the_key_is_that_of_the_topic(
    spark: SparkSession,
    write: Write,
    log: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    body: str,
    refused: str,
) -> None:
    """Where there is a topics.yaml, a pipeline that fits none of its topics does not begin."""
    monkeypatch.setenv("SOWLINE_CONFIG", str(tmp_path / "topics.yaml"))
    (tmp_path / "topics.yaml").write_text(f"topics: [{{name: orders, key: [/id, /b], log: {log}}}]\n")
    file = write("\n" + SOURCE.replace("key: id", f"key: {key}\n{body}"))
    if not refused:
        Job(file)
        return
    with pytest.raises(YamlFileError, match=r"line 8: key: expected the key of the topic in .*, /id, /b"):
        Job(file)


def test_a_checkpoint_that_cannot_be_written(spark: SparkSession, write: Write, log: str) -> None:
    """It is one sentence, too."""
    file = write("\n" + SOURCE)
    lines = file.read_text().splitlines()
    lines[3] = "checkpoint: /proc/none/there"
    file.write_text("\n".join(lines))
    with pytest.raises((Py4JError, PySparkException)) as failure:
        Job(file).start(once=True)
    assert "/proc/none" in cause(str(failure.value))
    assert len(cause(str(failure.value))) < 300


@pytest.mark.parametrize(
    ("text", "line", "where", "reason"),
    [
        (
            SOURCE + "transforms:\n  - where: qty > 0",
            10,
            "transforms.0.where",
            "with name `qty` cannot be resolved",
        ),
        (
            SOURCE + "transforms:\n  - columns:\n      a: id\n      b: id + c",
            12,
            "transforms.0.columns.b",
            "`c`",
        ),
        (
            SOURCE + "transforms:\n  - select: SELECT id FROM rows",
            10,
            "transforms.0",
            "keep the column _source",
        ),
        (SOURCE + "transforms:\n  - drop: [id, qty]", 10, "transforms.0.drop", "got qty"),
        (SOURCE + "checks:\n  - expect: id", 10, "checks.0.expect", '"id" of type "STRING" is not a boolean'),
        (SOURCE + "body: struct(nothing)", 9, "body", "`nothing`"),
        (SOURCE.replace("key: id", "key: [ratio]"), 8, "key", "key column ratio, got double"),
        (SOURCE.replace("key: id", "key: [qty]"), 8, "key", "_source, id, ratio, got qty"),
        (
            SOURCE.replace("json", "parquet").replace('"id STRING, ratio DOUBLE"', '""'),
            7,
            "sources.lines",
            "infer",
        ),
    ],
)
def test_what_spark_can_make_no_sense_of(
    spark: SparkSession, write: Write, text: str, line: int, where: str, reason: str
) -> None:
    """It is refused before anything is read, with its line."""
    job = Job(write("\n" + text))
    with pytest.raises(YamlFileError) as refused:
        job.frames().rows()
    (problem,) = refused.value.problems
    assert (problem.line, problem.where) == (line, where)
    assert reason in problem.reason


def test_a_log_that_is_not_there(spark: SparkSession, write: Write, log: str) -> None:
    """The pipeline does not make it: it would be made the wrong way."""
    file = write("\n" + SOURCE)
    file.write_text(file.read_text().replace(log, f"{log}-other"))
    with pytest.raises(SowlineError, match="a materializer makes the topics") as refused:
        Job(file).start()
    assert refused.value.reason == "invalid topic"


def test_no_kafka(spark: SparkSession, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it was looked for is told."""
    monkeypatch.setenv("SOWLINE_KAFKA", "127.0.0.1:1")
    monkeypatch.setattr(broker, "TIMEOUT_MS", 300)
    with pytest.raises(SowlineError, match=r"expected Kafka at 127\.0\.0\.1:1, got: Timed out") as refused:
        Job(write("\n" + SOURCE)).start()
    assert refused.value.reason == "no kafka"


def test_what_an_expression_fails_with(
    spark: SparkSession, kafka: str, log: str, write: Write, tmp_path: Path
) -> None:
    """The pipeline ends with a sentence, and goes on with what it could not do once that is repaired."""
    file = write("\n" + SOURCE + "transforms:\n  - columns: {whole: CAST(id AS INT)}")
    (tmp_path / "in" / "a.json").write_text('{"id":"x"}\n')
    query = Job(file).start(once=True)
    with pytest.raises(StreamingQueryException):
        query.awaitTermination()
    failure = query.exception()
    assert failure is not None
    message = cause(str(failure))
    assert "[CAST_INVALID_INPUT] The value 'x' of the type \"STRING\" cannot be cast" in message
    assert "Traceback" not in message
    assert len(message) < 1000
    file.write_text(file.read_text().replace("CAST", "try_cast"))
    run_once(file)
    assert commands(kafka, log) == [("publish", "x", {"id": "x"}, "shop/lines/0@0.0")]
