"""Declared pipelines: what their files say becomes commands and dead letters on real topics."""

from operator import itemgetter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sowline.config.yaml_file import YamlFileError
from sowline_ingest.explain import explain, text_of
from sowline_ingest.job import Job
from tests.spark.log import create_topic, read_log
from tests.spark.pipelines import SOURCE, Write, commands, letters, run_once, send


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
