"""Declared pipelines: what their files say becomes commands and dead letters on real topics."""

import base64
import json
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from confluent_kafka import Producer
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from sowline.config.yaml_file import YamlFileError
from sowline.errors import SowlineError
from sowline.spark import broker
from sowline_ingest.explain import explain, text_of
from sowline_ingest.job import Job
from sowline_ingest.run import cause
from tests.spark.log import create_topic, read_log
from tests.spark.pipelines import run_once

Write = Callable[[str], Path]


@pytest.fixture
def log(kafka: str, prefix: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The log that pipelines write, and its dead letters."""
    monkeypatch.setenv("SOWLINE_KAFKA", kafka)
    create_topic(kafka, f"{prefix}orders.dead", partitions=1)
    return create_topic(kafka, f"{prefix}orders", partitions=1)


@pytest.fixture
def write(log: str, tmp_path: Path) -> Write:
    """Writes the file of a pipeline into the log, whose sources stand in a directory of their own."""

    def write(text: str) -> Path:
        file = tmp_path / "pipeline.yaml"
        head = f"name: shop\ntopic: orders\nlog: {log}\ncheckpoint: {tmp_path}/checkpoint\n"
        file.write_text(head + dedent(text).replace("INPUT", f"{tmp_path}/in"))
        return file

    (tmp_path / "in").mkdir()
    return write


def commands(kafka: str, log: str) -> list[tuple[str, str, Any, str]]:
    """Return the commands: name, source and sequence, body."""
    return [
        (
            record.headers.get("sow.command", "publish"),
            record.key,
            json.loads(record.value or b"null"),
            f"{record.headers['sow.publisher']}@{record.headers['sow.sequence']}",
        )
        for record in read_log(kafka, log)
    ]


def letters(kafka: str, log: str) -> list[tuple[str, bytes | None, str]]:
    """Return the dead letters: key, value and reason."""
    found = read_log(kafka, f"{log}.dead")
    return sorted((record.key, record.value, record.headers["sow.reason"]) for record in found)


def send(kafka: str, topic: str, *records: tuple[str | None, Any]) -> None:
    """Write JSON records into one partition."""
    producer = Producer({"bootstrap.servers": kafka})
    for key, value in records:
        body = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
        producer.produce(topic, body, key, partition=0, headers=[("trace", b"t1")])
    producer.flush()


def test_csv(spark: SparkSession, kafka: str, log: str, write: Write, tmp_path: Path) -> None:
    """Lines are numbered as they stand in their file; what is no row, and a file with other columns, is refused."""
    file = write(
        """
        sources:
          drops: {directory: INPUT, format: csv, header: true, schema: "id INT, note STRING", options: {sep: ;}}
        key: id
        """
    )
    (tmp_path / "in" / "a.csv").write_text('\ufeff"id"; note\r\n1;"a ""b"" \\"\r\n\r\nx;two\r\n3;\r\n')
    run_once(file)
    (tmp_path / "in" / "b.csv").write_text("note;id\none;1\n")
    (tmp_path / "in" / "c.csv").write_text("id;note\n")
    run_once(file)
    (tmp_path / "in" / "d.csv").write_text("id;note\n4;four")
    run_once(file)
    assert commands(kafka, log) == [
        ("publish", "1", {"id": 1, "note": 'a "b" \\'}, "shop/drops/0@0.1"),
        ("publish", "3", {"id": 3}, "shop/drops/0@0.4"),
        ("publish", "4", {"id": 4, "note": "four"}, "shop/drops/0@3.1"),
    ]
    assert letters(kafka, log) == [
        ("shop/drops/0@0.3", b"x;two", "bad row"),
        ("shop/drops/0@1.0", b"note;id", "bad row"),
    ]


def test_keys_in_the_header(
    spark: SparkSession, kafka: str, log: str, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a topic with keys in the header the file says so, and is held against topics.yaml, where there is one."""
    monkeypatch.setenv("SOWLINE_CONFIG", str(tmp_path / "topics.yaml"))
    text = """
        sources:
          lines: {directory: INPUT, format: json, schema: "_name STRING, n INT"}
        key: _name
        """
    (tmp_path / "topics.yaml").write_text(f"topics: [{{name: orders, key: {{from: header}}, log: {log}}}]\n")
    with pytest.raises(YamlFileError, match="key_header: expected key_header: true"):
        Job(write(text))
    (tmp_path / "in" / "a.json").write_text('{"_name":"YQ==","n":1}\n')
    run_once(write(text + "key_header: true\n"))
    (record,) = read_log(kafka, log)
    assert (record.key, record.headers["sow.key"], record.value) == ("YQ==", "YQ==", b'{"n":1}')


def test_json_with_checks(spark: SparkSession, kafka: str, log: str, write: Write, tmp_path: Path) -> None:
    """Steps are taken in their order; a check that is not true, or has no answer, makes a dead letter."""
    file = write(
        """
        sources:
          lines: {directory: INPUT, format: json, schema: "id STRING, qty INT, price DOUBLE, secret STRING"}
        transforms:
          - columns: {total: qty * price, _half: qty / 2}
          - where: id IS DISTINCT FROM 'skip'
          - drop: [secret]
        checks:
          - expect: qty > 0
          - {expect: total < 1000, message: too dear}
        key: [id]
        command: IF(qty > 5, 'delta_publish', 'publish')
        expiration: _half
        correlation: upper(id)
        """
    )
    (tmp_path / "in" / "a.json").write_text(
        '{"id":"a","qty":2,"price":1.5,"secret":"s"}\n{"id":"skip","qty":1}\n[1]\n{"id":"b"}\n'
        '{"id":"c","qty":9,"price":500}\n{"id":"d","qty":6,"price":1}\n{"qty":1,"price":1}\n'
        '{"id":"","qty":1,"price":1}\n'
    )
    run_once(file)
    assert commands(kafka, log) == [
        ("publish", "a", {"id": "a", "qty": 2, "price": 1.5, "total": 3.0}, "shop/lines/0@0.0"),
        ("delta_publish", "d", {"id": "d", "qty": 6, "price": 1.0, "total": 6.0}, "shop/lines/0@0.5"),
    ]
    more = [(one.headers["sow.expiration"], one.headers["sow.correlation"]) for one in read_log(kafka, log)]
    assert more == [("1.0", "A"), ("3.0", "D")]
    assert letters(kafka, log) == [
        ("shop/lines/0@0.2", b"[1]", "bad row"),
        ("shop/lines/0@0.3", b'{"id":"b"}', "check failed"),
        ("shop/lines/0@0.4", b'{"id":"c","qty":9,"price":500}', "check failed"),
        ("shop/lines/0@0.6", b'{"qty":1,"price":1}', "check failed"),
        ("shop/lines/0@0.7", b'{"id":"","qty":1,"price":1}', "check failed"),
    ]
    messages = {one.headers["sow.message"] for one in read_log(kafka, f"{log}.dead")}
    assert messages == {
        "expected JSON of id STRING, qty INT, price DOUBLE, secret STRING, got [1]",
        "qty > 0",
        "too dear",
        "expected a value in the key column id, got null",
        "expected a value in the key column id, got an empty string",
    }


def test_parquet_with_a_table(
    spark: SparkSession, kafka: str, log: str, write: Write, tmp_path: Path
) -> None:
    """Files say their own columns; a statement joins them with a table, and keeps where rows come from."""
    spark.sql("SELECT id, 'c' || id % 2 AS customer FROM range(3)").coalesce(1).write.mode(
        "overwrite"
    ).parquet(f"{tmp_path}/in")
    (tmp_path / "customers").mkdir()
    (tmp_path / "customers" / "c.csv").write_text("customer,region\nc0,north\nc1,south\n")
    file = write(
        f"""
        sources:
          old: {{directory: INPUT, format: parquet}}
        tables:
          customers:
            directory: {tmp_path}/customers
            format: csv
            header: true
            schema: customer STRING, region STRING
        transforms:
          - select: |
              SELECT r._source, r.id, c.region
              FROM rows r JOIN customers c USING (customer)
        key: [id, region]
        body: to_json(named_struct('id', id, 'region', region, 'from', 'old'))
        """
    )
    run_once(file)
    assert sorted(commands(kafka, log)) == [
        ("publish", f'["{id}","{region}"]', {"id": id, "region": region, "from": "old"}, f"shop/old/0@0.{id}")
        for id, region in ((0, "north"), (1, "south"), (2, "north"))
    ]


def test_kafka(spark: SparkSession, kafka: str, prefix: str, log: str, write: Write) -> None:
    """Rows are numbered by offset, also the parts of one; a dead letter keeps the key and the headers."""
    raw = create_topic(kafka, f"{prefix}raw", partitions=2)
    send(kafka, raw, ("k", {"id": 7, "items": ["x", "y"]}), ("k", b"{"), ("gone", None))
    file = write(
        f"""
        sources:
          raw: {{kafka: {raw}, format: json, schema: "id INT, items ARRAY<STRING>"}}
        transforms:
          - select: |
              SELECT _source, _part, id, item, CAST(NULL AS STRING) AS _deleted
              FROM rows LATERAL VIEW posexplode(items) AS _part, item
              UNION ALL
              SELECT _source, 0, NULL, NULL, _kafka.key FROM rows WHERE id IS NULL
          - columns: {{_key: "coalesce(_deleted, CAST(id AS STRING))"}}
        key: _key
        command: IF(_deleted IS NULL, 'publish', 'sow_delete')
        body: IF(_deleted IS NULL, to_json(struct(id, item)), NULL)
        """
    )
    run_once(file)
    assert sorted(commands(kafka, log), key=itemgetter(3)) == [
        ("publish", "7", {"id": 7, "item": "x"}, "shop/raw/0@0.0"),
        ("publish", "7", {"id": 7, "item": "y"}, "shop/raw/0@0.1"),
        ("sow_delete", "gone", None, "shop/raw/0@2.0"),
    ]
    (letter,) = read_log(kafka, f"{log}.dead")
    assert (letter.key, letter.value) == ("shop/raw/0@1", b"{")
    assert letter.headers == {
        "trace": "t1",
        "sow.original_key": "k",
        "sow.reason": "bad row",
        "sow.message": "expected JSON of id INT, items ARRAY<STRING>, got {",
    }


def test_debezium(spark: SparkSession, kafka: str, prefix: str, log: str, write: Write) -> None:
    """Snapshot, insert and update publish the row, a deletion deletes it; with a schema beside it or without."""
    raw = create_topic(kafka, f"{prefix}raw", partitions=1)
    events: list[tuple[str, Any]] = [
        ("1", {"before": None, "after": {"id": 1, "name": "a"}, "op": "r", "ts_ms": 1}),
        ("2", {"schema": {}, "payload": {"before": None, "after": {"id": 2, "name": "b"}, "op": "c"}}),
        ("1", {"before": {"id": 1, "name": "a"}, "after": {"id": 1, "name": None}, "op": "u"}),
        ("2", {"before": {"id": 2}, "after": None, "op": "d"}),
        ("2", None),
        ("3", {"op": "t"}),
        ("3", {"op": "u", "after": None}),
    ]
    send(kafka, raw, *events)
    file = write(
        f"""
        sources:
          db: {{kafka: {raw}, format: debezium, schema: "id BIGINT, name STRING"}}
        key: id
        """
    )
    run_once(file)
    assert sorted(commands(kafka, log), key=itemgetter(3)) == [
        ("publish", "1", {"id": 1, "name": "a"}, "shop/db/0@0"),
        ("publish", "2", {"id": 2, "name": "b"}, "shop/db/0@1"),
        ("publish", "1", {"id": 1}, "shop/db/0@2"),
        ("sow_delete", "2", {"id": 2}, "shop/db/0@3"),
    ]
    assert [key for key, _, _ in letters(kafka, log)] == ["shop/db/0@5", "shop/db/0@6"]


def test_debezium_values_that_are_not_there(
    spark: SparkSession, kafka: str, prefix: str, log: str, write: Write
) -> None:
    """A placeholder leaves the field as it was, in the form of its type; a null beside it is written as null."""
    raw = create_topic(kafka, f"{prefix}raw", partitions=1)
    gone = "__debezium_unavailable_value"
    data = base64.b64encode(gone.encode()).decode()
    whole = {"id": 1, "name": "a", "note": "n", "data": "AAE=", "tags": ["x"], "n": [1], "h": {"k": "v"}}
    lacking = {"note": gone, "data": data, "tags": [gone], "n": list(gone.encode()), "h": {gone: gone}}
    events = [
        {"before": None, "after": whole, "op": "c"},
        {"before": None, "after": {**whole, **lacking, "name": None}, "op": "u"},
        {"before": whole, "after": {**whole, "note": gone, "name": "b"}, "op": "u"},
        {"before": None, "after": {**whole, "note": gone}, "op": "u"},
        {"before": {**whole, **lacking}, "after": None, "op": "d"},
    ]
    send(kafka, raw, *(("1", event) for event in events))
    columns = "id INT, name STRING, note STRING, data BINARY, tags ARRAY<STRING>, n ARRAY<INT>, h MAP<STRING, STRING>"
    file = write(
        f"""
        sources:
          db: {{kafka: {raw}, format: debezium, schema: "{columns}"}}
        transforms:
          - columns: {{size: length(note), note: "coalesce(note, '')", _half: id / 2}}
        key: id
        """
    )
    run_once(file)
    assert commands(kafka, log) == [
        ("publish", "1", {**whole, "size": 1}, "shop/db/0@0"),
        ("delta_publish", "1", {"id": 1, "name": None}, "shop/db/0@1"),
        ("publish", "1", {**whole, "name": "b", "size": 1}, "shop/db/0@2"),
        ("sow_delete", "1", {"id": 1, "name": "a"}, "shop/db/0@4"),
    ]
    (letter,) = read_log(kafka, f"{log}.dead")
    assert json.loads(letter.value or b"") == events[3]
    assert "expected no map in the column h of an update that lacks values" in letter.headers["sow.message"]


def test_debezium_updates_of_the_key(
    spark: SparkSession, kafka: str, prefix: str, log: str, write: Write
) -> None:
    """The old record is deleted, by one event or by two; another placeholder is what its connector has.

    Values that an event lacks would be lost with the old record. So it stays, and the event is refused.
    """
    raw = create_topic(kafka, f"{prefix}raw", partitions=1)
    events = [
        {"before": None, "after": {"id": 1, "code": "a", "note": "x"}, "op": "c"},
        {
            "before": {"id": 1, "code": "a", "note": "x"},
            "after": {"id": 1, "code": "b", "note": "gone"},
            "op": "u",
        },
        {"before": {"id": 1, "code": "b"}, "after": None, "op": "d"},
        {"before": None, "after": {"id": 2, "code": "c", "note": "__debezium_unavailable_value"}, "op": "c"},
        {"before": {"id": 1}, "after": {"id": 2, "code": "c", "note": "y"}, "op": "u"},
        {"before": {"id": 2, "code": "c"}, "after": {"id": 2, "code": "d", "note": "gone"}, "op": "u"},
        {"before": None, "after": {"id": 3, "code": "e", "note": "gone"}, "op": "c"},
        {"before": {"id": 2, "code": "c"}, "after": {"id": 2, "code": "gone", "note": "z"}, "op": "u"},
        {"before": {"id": 2, "code": "c"}, "after": {"id": 2, "code": "c", "note": "gone"}, "op": "u"},
    ]
    send(kafka, raw, *(("k", event) for event in events))
    placeholder = "unavailable_value_placeholder: hex:676f6e65"
    file = write(
        f"""
        sources:
          db: {{kafka: {raw}, format: debezium, schema: "id INT, code STRING, note STRING", {placeholder}}}
        key: code
        """
    )
    run_once(file)
    assert sorted(commands(kafka, log), key=itemgetter(3, 0)) == [
        ("publish", "a", {"id": 1, "code": "a", "note": "x"}, "shop/db/0@0"),
        ("publish", "b", {"id": 1, "code": "b", "note": "x"}, "shop/db/0@1"),
        ("sow_delete", "a", {"id": 1, "code": "a", "note": "x"}, "shop/db/0@1"),
        ("sow_delete", "b", {"id": 1, "code": "b"}, "shop/db/0@2"),
        ("publish", "c", {"id": 2, "code": "c", "note": "__debezium_unavailable_value"}, "shop/db/0@3"),
        ("publish", "c", {"id": 2, "code": "c", "note": "y"}, "shop/db/0@4"),
        ("publish", "c", {"id": 2, "code": "c", "note": "z"}, "shop/db/0@7"),
        ("delta_publish", "c", {"id": 2, "code": "c"}, "shop/db/0@8"),
    ]
    refused = sorted(read_log(kafka, f"{log}.dead"), key=lambda one: one.key)
    assert [(one.key, json.loads(one.value or b"")) for one in refused] == [
        ("shop/db/0@5", events[5]),
        ("shop/db/0@6", events[6]),
    ]
    assert {one.headers["sow.reason"] for one in refused} == {"bad row"}
    assert all("set REPLICA IDENTITY FULL" in one.headers["sow.message"] for one in refused)


def test_two_sources(
    spark: SparkSession, kafka: str, prefix: str, log: str, write: Write, tmp_path: Path
) -> None:
    """A statement brings them together; each has publishers of its own."""
    raw = create_topic(kafka, f"{prefix}raw", partitions=1)
    send(kafka, raw, ("k", {"id": 1}))
    file = write(
        f"""
        sources:
          live: {{kafka: {raw}, format: json, schema: "id INT"}}
          old: {{directory: INPUT, format: json, schema: "id INT"}}
        transforms:
          - select: SELECT _source, id FROM live UNION ALL SELECT _source, id FROM old
        key: id
        """
    )
    run_once(file)
    assert commands(kafka, log) == [("publish", "1", {"id": 1}, "shop/live/0@0")]
    (tmp_path / "in" / "a.json").write_text('{"id":2}\n')
    run_once(file)
    assert sorted(commands(kafka, log)) == [
        ("publish", "1", {"id": 1}, "shop/live/0@0"),
        ("publish", "2", {"id": 2}, "shop/old/0@0.0"),
    ]


def test_only_one_value_is_json(spark: SparkSession, kafka: str, prefix: str, log: str, write: Write) -> None:
    """Nothing of a record is dropped without a word."""
    raw = create_topic(kafka, f"{prefix}raw", partitions=1)
    odd = [
        b'{"id":2}{"id":3}',
        b'{"id":4},{"id":5}',
        b'{"id":6} x',
        b"",
        b"{'id':7}",
        b'{"id":8,"a":"\xff"}',
        b"null",
    ]
    send(kafka, raw, ("k", b' {"id":1}\n'), *(("k", one) for one in odd))
    run_once(
        write(
            f"""
            sources:
              raw: {{kafka: {raw}, format: json, schema: "id INT, a STRING"}}
            key: id
            """
        )
    )
    assert [body for _, _, body, _ in commands(kafka, log)] == [{"id": 1}]
    assert [value for _, value, _ in letters(kafka, log)] == odd


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


SOURCE = 'sources:\n  lines: {directory: INPUT, format: json, schema: "id STRING, ratio DOUBLE"}\nkey: id\n'


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


def test_explain(spark: SparkSession, write: Write, log: str) -> None:
    """It tells publishers, topics, columns and the plan, and writes nothing."""
    file = write("\n" + SOURCE)
    explanation = explain(file)
    assert (explanation["rows"]["ratio"], "plan" in explanation) == ("double", False)
    assert "Physical Plan" not in text_of(explanation)
    text = text_of(explain(file, with_plan=True))
    assert "publisher  shop/lines/<partition>" in text
    assert f"dead       {log}.dead" in text
    assert "  ratio double" in text
    assert "Physical Plan" in text
    assert "Python" not in text
