"""Pipelines write what their sources have, or refuse it: no other data."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from sowline.spark import to_sow
from sowline_ingest.job import Job
from sowline_ingest.run import cause
from tests.spark.log import create_topic, read_log
from tests.spark.pipelines import run_once

Run = Callable[[str], None]


@pytest.fixture
def log(kafka: str, prefix: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The log that pipelines write, its dead letters, and the directory `in` of their sources."""
    monkeypatch.setenv("SOWLINE_KAFKA", kafka)
    (tmp_path / "in").mkdir()
    create_topic(kafka, f"{prefix}orders.dead", partitions=1)
    return create_topic(kafka, f"{prefix}orders", partitions=1)


@pytest.fixture
def pipeline(log: str, tmp_path: Path) -> Callable[[str], Path]:
    """Writes the file of a pipeline from the directory `in`."""

    def write(text: str) -> Path:
        file = tmp_path / "pipeline.yaml"
        head = f"name: shop\ntopic: orders\nlog: {log}\ncheckpoint: {tmp_path}/checkpoint\n"
        file.write_text(head + dedent(text).replace("HERE", str(tmp_path)))
        return file

    return write


def bodies(kafka: str, log: str) -> list[str]:
    """Return the bodies of the commands, sorted."""
    return sorted((record.value or b"").decode() for record in read_log(kafka, log))


def letters(kafka: str, log: str) -> list[tuple[bytes | None, str]]:
    """Return the value and the message of each dead letter, in the order of their rows."""
    found = sorted(read_log(kafka, f"{log}.dead"), key=lambda one: one.key.split("@")[1])
    return [(one.value, one.headers["sow.message"].partition(", got")[0]) for one in found]


CSV = """
    sources:
      drops: {directory: HERE/in, format: csv, schema: "id INT, note STRING, x DOUBLE", options: {%s}}
    key: id
    """
FINITE = "expected finite numbers and UTF-8 in the column x"


def test_csv(
    spark: SparkSession, kafka: str, log: str, pipeline: Callable[[str], Path], tmp_path: Path
) -> None:
    """A value may have line breaks. What is refused is there with its bytes, and no part of it is a record."""
    rows = [
        b'1,"two\r\nlines, ""quoted""\n",1',
        b"2,\xe9clat,1",
        b'3,"a"b,1',
        b"4,NaN,NaN",
        b"5,,1e400",
        b"6,\xc3\xa9clat,-0.5",
        b'7,"open,1',
        b"8,looks like a row,1",
    ]
    (tmp_path / "in" / "a.csv").write_bytes(b"\n".join(rows) + b"\n")
    run_once(pipeline(CSV % ""))
    assert bodies(kafka, log) == [
        '{"id":1,"note":"two\\r\\nlines, \\"quoted\\"\\n","x":1.0}',
        '{"id":6,"note":"éclat","x":-0.5}',
    ]
    assert letters(kafka, log) == [
        (b"2,\xe9clat,1", "expected UTF-8"),
        (b'3,"a"b,1', "expected quotes around a whole value, with those in it escaped"),
        (b"4,NaN,NaN", FINITE),
        (b"5,,1e400", FINITE),
        (b'7,"open,1', "expected an end of the quoted value that begins here or in a line before"),
        (b"8,looks like a row,1", "expected an end of the quoted value that begins here or in a line before"),
    ]
    rows_of_letters = [int(one.key.rpartition(".")[2]) for one in read_log(kafka, f"{log}.dead")]
    assert sorted(rows_of_letters) == [1, 2, 3, 4, 6, 7]


def test_encodings(
    spark: SparkSession, kafka: str, log: str, pipeline: Callable[[str], Path], tmp_path: Path
) -> None:
    """Files may be ISO 8859-1 if the pipeline says so; UTF-16 is refused whole."""
    (tmp_path / "in" / "a.csv").write_bytes(b"1,\xe9clat,1\n")
    file = pipeline(CSV % "encoding: ISO-8859-1")
    run_once(file)
    content = "2,b,2\n3,c,3\n".encode("utf-16")
    (tmp_path / "in" / "b.csv").write_bytes(content)
    run_once(file)
    assert bodies(kafka, log) == ['{"id":1,"note":"éclat","x":1.0}']
    found = letters(kafka, log)
    assert b"\n".join(value or b"" for value, _ in found) == content
    assert {message for _, message in found} == {"expected UTF-8"}


def test_json_lines(
    spark: SparkSession, kafka: str, log: str, pipeline: Callable[[str], Path], tmp_path: Path
) -> None:
    """Lines that are not UTF-8 keep their bytes; numbers that a DOUBLE can't hold are no infinities."""
    lines = [
        b'{"id":1,"x":[0.5],"t":"2026-11-26T12:34:56.123456Z"}',
        b'{"id":2,"note":"\xff"}',
        b'{"id":3,"x":[1e400]}',
        b'{"id":4,"x":["NaN"]}',
    ]
    (tmp_path / "in" / "a.json").write_bytes(b"\n".join(lines))
    schema = "id INT, note STRING, x ARRAY<DOUBLE>, t TIMESTAMP"
    run_once(
        pipeline(f'sources:\n  lines: {{directory: HERE/in, format: json, schema: "{schema}"}}\nkey: id\n')
    )
    assert bodies(kafka, log) == ['{"id":1,"x":[0.5],"t":"2026-11-26T12:34:56.123456Z"}']
    assert letters(kafka, log) == [
        (lines[1], "expected UTF-8"),
        (lines[2], FINITE),
        (lines[3], FINITE),
    ]


DECIMALS = "id INT NOT NULL, a DECIMAL(4,2), b ARRAY<STRUCT<c: DECIMAL(38,20)>>, d MAP<STRING, DECIMAL(3,0)>"


def test_decimals(
    spark: SparkSession, kafka: str, log: str, pipeline: Callable[[str], Path], tmp_path: Path
) -> None:
    """A number is not rounded where its column has fewer decimals: the row is refused."""
    lines = [
        b'{"id":1,"a":1.5,"b":[{"c":0.12345678901234567890}],"d":{"k":9e2}}',
        b'{"id":2,"a":1.239}',
        b'{"id":3,"a":99.999}',
        b'{"id":4,"d":{"k":1,"l":1.5}}',
        b'{"id":5,"a":1.23000,"b":[null]}',
        b'{"id":6,"a":100}',
    ]
    (tmp_path / "in" / "a.json").write_bytes(b"\n".join(lines))
    file = pipeline(
        f"""
        sources:
          lines: {{directory: HERE/in, format: json, schema: "{DECIMALS}"}}
          sheet: {{directory: HERE/sheet, format: csv, schema: "id INT, `a b` DECIMAL(4,2)"}}
        transforms:
          - select: SELECT * FROM lines UNION ALL SELECT _source, id, `a b`, NULL, NULL FROM sheet
        key: id
        """
    )
    (tmp_path / "sheet").mkdir()
    (tmp_path / "sheet" / "a.csv").write_text("7,1.5\n8,1.239\n")
    run_once(file)
    assert bodies(kafka, log) == [
        '{"id":1,"a":1.50,"b":[{"c":0.12345678901234567890}],"d":{"k":900}}',
        '{"id":5,"a":1.23,"b":[null]}',
        '{"id":7,"a":1.50}',
    ]
    refused = {value for value, message in letters(kafka, log) if message.startswith("expected ")}
    assert refused == {lines[1], lines[2], lines[3], lines[5], b"8,1.239"}


EVERY_TYPE = """
    id, TIMESTAMP'2026-11-26 12:34:56.000001' AS t, TIMESTAMP_NTZ'2026-11-26 12:34:56.000001' AS n,
    DATE'2026-11-26' AS d, CAST('12345678901234567890.123456789' AS DECIMAL(38,9)) AS amount, unhex('00ff') AS data,
    named_struct('t', array(TIMESTAMP'2026-11-26 12:34:56.5')) AS s,
    map('k', IF(id = 1, CAST('-Infinity' AS FLOAT), 1.5F)) AS m,
    IF(id = 2, CAST(unhex('61ff') AS STRING), 'a') AS note
"""
WRITTEN = (
    '{"id":%d,"t":"2026-11-26T12:34:56.000001Z","n":"2026-11-26T12:34:56.000001","d":"2026-11-26",'
    '"amount":12345678901234567890.123456789,"data":"AP8=","s":{"t":["2026-11-26T12:34:56.500000Z"]},'
    '"m":{"k":%s},"note":"%s"}'
)


def test_every_type(
    spark: SparkSession, kafka: str, log: str, pipeline: Callable[[str], Path], tmp_path: Path
) -> None:
    """Parquet: all digits are written, to dead letters too; what JSON can't say is refused. So it is by `to_sow`."""
    rows = spark.sql(f"SELECT {EVERY_TYPE} FROM range(3)")
    rows.coalesce(1).write.mode("overwrite").parquet(f"{tmp_path}/in")
    run_once(pipeline("sources:\n  old: {directory: HERE/in, format: parquet}\nkey: id\n"))
    to_sow(rows.coalesce(1), topic=log, key="id", kafka=kafka)
    assert bodies(kafka, log) == [WRITTEN % (0, "1.5", "a")] * 2
    dead = read_log(kafka, f"{log}.dead")
    values = [(one.value or b"").decode() for one in dead]
    assert values == [WRITTEN % (1, '"-Infinity"', "a"), WRITTEN % (2, "1.5", "base64:Yf8=")] * 2
    assert [one.headers["sow.message"][:60] for one in dead] == [
        'expected finite numbers and UTF-8 in the column m, got {"k":',
        "expected finite numbers and UTF-8 in the column note, got a\ufffd",
    ] * 2


def test_a_key_that_is_not_utf_8(
    spark: SparkSession, kafka: str, log: str, pipeline: Callable[[str], Path], tmp_path: Path
) -> None:
    """It names no record; a deletion by another key takes place, whatever its row holds."""
    rows = spark.sql(
        "SELECT CAST(unhex(k) AS STRING) AS _k, double('NaN') AS x FROM VALUES ('61'), ('62ff') AS v(k)"
    )
    rows.coalesce(1).write.mode("overwrite").parquet(f"{tmp_path}/in")
    run_once(
        pipeline("sources:\n  old: {directory: HERE/in, format: parquet}\nkey: _k\ncommand: sow_delete\n")
    )
    assert [one.key for one in read_log(kafka, log)] == ["a"]
    assert [value for value, _ in letters(kafka, log)] == [b'{"_k":"base64:Yv8=","x":"NaN"}']


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'c,region\na,"north\nwest"\n', ""),
        (b"c,region\na,n\xff\n", "bad row: expected UTF-8, got n"),
        (b"region,c\nnorth,a\n", "bad row: expected CSV of c STRING, region STRING, got region,c"),
        (b'c,region\na,"north\n', "bad row: expected an end of the quoted value"),
    ],
)
def test_tables(
    spark: SparkSession,
    kafka: str,
    log: str,
    pipeline: Callable[[str], Path],
    tmp_path: Path,
    content: bytes,
    reason: str,
) -> None:
    """A file to join with is read whole, or the pipeline ends with a sentence."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "t.csv").write_bytes(content)
    (tmp_path / "tables" / "empty.csv").write_bytes(b"\xef\xbb\xbf")
    (tmp_path / "in" / "a.json").write_text('{"c":"a"}\n')
    file = pipeline(
        """
        sources:
          lines: {directory: HERE/in, format: json, schema: c STRING}
        tables:
          regions: {directory: HERE/tables, format: csv, header: true, schema: "c STRING, region STRING"}
        transforms:
          - select: SELECT r._source, c, region FROM rows r JOIN regions USING (c)
        key: c
        """
    )
    if not reason:
        run_once(file)
        assert bodies(kafka, log) == ['{"c":"a","region":"north\\nwest"}']
        return
    with pytest.raises(StreamingQueryException) as failure:
        Job(file).start(once=True).awaitTermination()
    assert reason.rpartition(", got")[0] in cause(str(failure.value))
