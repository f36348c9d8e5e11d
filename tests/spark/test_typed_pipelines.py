"""Pipelines whose sources or topics have messages of a type other than JSON."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from sowline.codecs.codec import codec_of
from sowline.codecs.framing import frame
from sowline.codecs.schema import AVRO, FIX, Schema
from sowline.config.yaml_file import YamlFileError
from sowline_ingest.job import Job
from sowline_ingest.sample import sample_of
from tests.spark.log import by_key, create_topic, read_log
from tests.spark.pipelines import run_once
from tests.spark.registry_server import RegistryServer, registry_server
from tests.spark.test_typed import PROTO, body_of, define, write_topic

ID = {"name": "id", "type": "string"}
QTY = {"name": "qty", "type": "long"}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
OLD = Schema(AVRO, json.dumps({"type": "record", "name": "Trade", "fields": [ID, QTY]}))
NEW = Schema(
    AVRO,
    json.dumps(
        {
            "type": "record",
            "name": "Trade",
            "fields": [ID, QTY, {"name": "price", "type": ["null", PRICE], "default": None}],
        }
    ),
)
PIPELINE = """\
name: shop
topic: orders
log: {log}
checkpoint: {directory}/checkpoint
sources:
  raw: {{kafka: {raw}, format: avro, subject: trades}}
transforms:
  - where: id IS NOT NULL
  - columns: {{serial: CAST(price * 100 AS DECIMAL(20))}}
  - drop: [price]
checks:
  - {{expect: qty < 100, message: a quantity is below a hundred}}
key: id
command: IF(qty = 0, 'sow_delete', 'publish')
"""


FIX_TO_XML = """\
name: shop
topic: orders
log: {log}
checkpoint: {directory}/checkpoint
sources:
  raw:
    kafka: {raw}
    format: fix
    message_format: {{separator: "|", names: {{38: OrderQty}}}}
    schema: "`11` STRING, `55` STRING, OrderQty DECIMAL(18,2), `60` TIMESTAMP"
    options: {{timestampFormat: "yyyyMMdd-HH:mm:ss"}}
transforms:
  - where: "`11` IS NOT NULL"
  - select: |
      SELECT _source, `11` AS _key,
        struct(`11` AS `@ID`, struct(`55` AS `@Symbol`, OrderQty AS Qty) AS Leg, `60` AS Placed) AS Order
      FROM rows
key: _key
"""


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[RegistryServer]:
    """The registry of the source."""
    with registry_server() as server:
        server.add(3, "older", "avro", OLD.text)
        server.add(4, "trades", "avro", NEW.text)
        monkeypatch.setenv("SOWLINE_REGISTRY", server.url)
        yield server


def message(schema_id: int, schema: Schema, body: object) -> bytes:
    """Return a message in Confluent's format."""
    return frame("confluent", AVRO, schema_id, codec_of(schema).write(json.dumps(body).encode()))


def test_avro_to_protobuf(
    spark: SparkSession,
    kafka: str,
    prefix: str,
    registry: RegistryServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Messages are read by the subject's latest schema, and written in the topic's type; the rest is dead letters."""
    monkeypatch.setenv("SOWLINE_KAFKA", kafka)
    log, raw = (create_topic(kafka, prefix + name, 1) for name in ("orders", "raw"))
    for name in ("dead", "schemas"):
        create_topic(kafka, f"{log}.{name}", 1)
    definition = define(tmp_path, monkeypatch, log, "protobuf", PROTO)
    negative = message(4, NEW, {"id": "c", "qty": 1, "price": "-1.00"})
    many = message(3, OLD, {"id": "d", "qty": 100})
    unknown = message(9, OLD, {"id": "e", "qty": 1})
    producer = Producer({"bootstrap.servers": kafka})
    for value in (
        message(3, OLD, {"id": "a", "qty": 2}),
        message(4, NEW, {"id": "b", "qty": 7, "price": "12.50"}),
        negative,
        many,
        unknown,
        b"{}",
        None,
        message(3, OLD, {"id": "f", "qty": 0}),
    ):
        producer.produce(raw, value, "k", partition=0)
    assert producer.flush(30) == 0
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE.format(log=log, raw=raw, directory=tmp_path))
    sample = sample_of(Job(file))
    assert sample.commands == {"publish": 2, "sow_delete": 1}
    refused = {"bad message": 2, "check failed": 1, "unknown schema": 1}
    assert (sample.refused, sample.fields) == (refused, {"id", "qty", "serial"})
    run_once(file)
    first, second, deletion = by_key(read_log(kafka, log))
    assert body_of(definition, first) == {"id": "a", "qty": 2}
    assert body_of(definition, second) == {"id": "b", "qty": 7, "serial": 1250}
    assert (deletion.key, deletion.value) == ("f", None)
    letters = {letter.key: letter for letter in read_log(kafka, f"{log}.dead")}
    assert {key: (letter.value, letter.headers["sow.reason"]) for key, letter in letters.items()} == {
        "shop/raw/0@2": (negative, "bad message"),
        "shop/raw/0@3": (many, "check failed"),
        "shop/raw/0@4": (unknown, "unknown schema"),
        "shop/raw/0@5": (b"{}", "bad message"),
    }
    assert all(letter.headers["sow.original_key"] == "k" for letter in letters.values())


def test_fix_to_xml(
    spark: SparkSession, kafka: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages are read by the columns of the file; what the codec or a column refuses is a dead letter."""
    monkeypatch.setenv("SOWLINE_KAFKA", kafka)
    log, raw = (create_topic(kafka, prefix + name, 1) for name in ("orders", "raw"))
    for name in ("dead", "schemas"):
        create_topic(kafka, f"{log}.{name}", 1)
    write_topic(tmp_path, monkeypatch, log, message_type="xml", key="/Order/@ID")
    source = codec_of(Schema(FIX, '{"separator":"|"}'))
    sent = {"8": "FIX.4.4", "35": "D", "11": "a", "55": "IBM", "38": "100.50", "60": "20261126-12:34:56"}
    good = source.write(json.dumps(sent).encode())
    unfit = source.write(json.dumps(sent | {"38": "many"}).encode())
    wrong = good.replace(b"IBM", b"IBN")
    producer = Producer({"bootstrap.servers": kafka})
    for value in (good, unfit, wrong, None):
        producer.produce(raw, value, partition=0)
    assert producer.flush(30) == 0
    file = tmp_path / "pipeline.yaml"
    file.write_text(FIX_TO_XML.format(log=log, raw=raw, directory=tmp_path))
    run_once(file)
    (record,) = read_log(kafka, log)
    order = b'<Order ID="a"><Leg Symbol="IBM"><Qty>100.50</Qty></Leg><Placed>2026-11-26T12:34:56Z</Placed></Order>'
    assert (record.key, record.value) == ("a", order)
    misfit, broken = by_key(read_log(kafka, f"{log}.dead"))
    assert (misfit.key, misfit.value, misfit.headers["sow.reason"]) == ("shop/raw/0@1", unfit, "bad row")
    assert '"OrderQty":"many"' in misfit.headers["sow.message"]
    assert (broken.key, broken.value, broken.headers["sow.reason"]) == ("shop/raw/0@2", wrong, "bad message")
    assert "CheckSum" in broken.headers["sow.message"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"subject: trades": "subject: none"}, "line 6: sources.raw: expected the latest schema of none"),
        (
            {"format: avro": "format: protobuf"},
            "line 6: sources.raw: expected a schema of protobuf for trades",
        ),
        (
            {"subject: trades": "reader_schema: {text: '\"string\"'}"},
            "line 6: sources.raw: expected",
        ),
    ],
)
def test_schemas_that_do_not_fit(
    spark: SparkSession,
    kafka: str,
    registry: RegistryServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, str],
    problem: str,
) -> None:
    """The line of the source says so, before anything is read."""
    monkeypatch.setenv("SOWLINE_KAFKA", kafka)
    monkeypatch.chdir(tmp_path)
    text = PIPELINE.format(log="orders", raw="raw", directory=tmp_path)
    for one, other in changes.items():
        text = text.replace(one, other)
    (tmp_path / "pipeline.yaml").write_text(text)
    with pytest.raises(YamlFileError, match=problem):
        Job(tmp_path / "pipeline.yaml").frames().rows()


def test_options_that_do_not_fit(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The codec of a format says what is wrong with its options."""
    monkeypatch.chdir(tmp_path)
    text = FIX_TO_XML.format(log="orders", raw="raw", directory=tmp_path).replace(
        "38: OrderQty", "x: OrderQty"
    )
    (tmp_path / "pipeline.yaml").write_text(text)
    with pytest.raises(YamlFileError, match=r"line 6: sources\.raw: expected.*'x'"):
        Job(tmp_path / "pipeline.yaml").frames().rows()


def test_without_a_registry(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages with frames need one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SOWLINE_REGISTRY", raising=False)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.format(log="orders", raw="raw", directory=tmp_path))
    with pytest.raises(YamlFileError, match="URL of a schema registry in SOWLINE_REGISTRY, got none"):
        Job(tmp_path / "pipeline.yaml").frames().rows()
