"""Topics whose message type has a schema: read as frames with its types, written as its messages."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sowline.codecs.framing import read_frame
from sowline.codecs.resolutions import Resolution, entry_value, reader_key
from sowline.codecs.schema import AVRO, PROTOBUF, MessagePayload, Schema
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.config.topics import load_topics
from sowline.errors import SowlineError
from sowline.spark import read_changes, read_sow, to_sow
from sowline.spark.canonical_body import canonical_body
from sowline.spark.typed_rows import check_writable
from tests.spark.changes import Story, Written
from tests.spark.log import Written as LogRecord
from tests.spark.log import by_key, create_topic, read_log


def nullable(type: Any) -> list[Any]:
    """Return a type or null, as Spark's own schemas have it: without a default."""
    return ["null", type]


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    """Return a logical type."""
    return {"type": kind, "logicalType": name, **more}


LINE: dict[str, Any] = {
    "type": "record",
    "name": "Line",
    "fields": [
        {"name": "sku", "type": "string"},
        {"name": "price", "type": logical("bytes", "decimal", precision=30, scale=4)},
        {"name": "note", "type": nullable("string")},
    ],
}
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "qty", "type": nullable("long")},
        {"name": "open", "type": "boolean", "default": True},
        {"name": "rate", "type": "double"},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
        {"name": "total", "type": nullable(logical("bytes", "decimal", precision=12, scale=2))},
        {"name": "day", "type": logical("int", "date")},
        {"name": "placed", "type": logical("long", "timestamp-micros")},
        {"name": "sent", "type": nullable(logical("long", "timestamp-millis"))},
        {"name": "data", "type": "bytes"},
        {"name": "tags", "type": {"type": "map", "values": nullable("int")}},
    ],
}
BODIES: list[dict[str, Any]] = [
    {
        "id": "a",
        "qty": 2**62 + 1,
        "open": False,
        "rate": 0.1,
        "lines": [
            {"sku": "x", "price": "12345678901234567890123456.7890", "note": None},
            {"sku": "y", "price": "-0.0500", "note": "late"},
        ],
        "total": "1234567890.12",
        "day": "2026-11-26",
        "placed": "1969-12-31T23:59:59.999999Z",
        "sent": "2026-11-26T12:34:50.120Z",
        "data": "AP8=",
        "tags": {"k": 1, "none": None},
    },
    {
        "id": "b",
        "qty": None,
        "open": True,
        "rate": "NaN",
        "lines": [],
        "total": None,
        "day": "0001-01-01",
        "placed": "2026-11-26T12:34:56.000000Z",
        "sent": None,
        "data": "",
        "tags": {},
    },
]
PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order {
  string id = 1;
  optional int64 qty = 2;
  optional uint64 serial = 3;
  google.protobuf.Timestamp placed = 4;
}
"""


def define(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str, message_type: str, text: str
) -> TopicDefinition:
    """Write a `topics.yaml` with one topic that has a reader schema, and return its definition."""
    reader = {"text": text, "id": 7}
    return write_topic(tmp_path, monkeypatch, log, message_type=message_type, reader_schema=reader)


def write_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str, **fields: Any) -> TopicDefinition:
    """Write a `topics.yaml` with one topic of these fields, and return its definition."""
    topic = {"name": "orders", "key": "/id", "log": log, "partitions": 1, **fields}
    file = tmp_path / "topics.yaml"
    file.write_text(json.dumps({"topics": [topic]}))
    monkeypatch.setenv("SOWLINE_CONFIG", str(file))
    (definition,) = load_topics(file).topics
    return definition


def add_reader(kafka: str, log: str, reader: Schema) -> None:
    """Write a reader schema to `<log>.schemas`, among entries that are none, as the partition's owner does."""
    producer = Producer({"bootstrap.servers": kafka})
    schemas = create_topic(kafka, f"{log}.schemas", 1)
    for key, value in (
        (b"reader:0", entry_value(Resolution(Schema(AVRO, '"string"')))),
        (reader_key(reader.digest), entry_value(Resolution(reader))),
        (b"id:7", entry_value(Resolution(reader))),
        (b"reader:1", b"{"),
    ):
        producer.produce(schemas, value, key)
    assert producer.flush(30) == 0


def body_of(definition: TopicDefinition, record: LogRecord) -> Any:
    """Return the JSON of a record, as the partition's owner reads it."""
    reader, codec = definition.reader, definition.codec
    assert reader is not None
    assert codec is not None
    frame = read_frame(definition.framing, reader.type, record.value or b"")
    assert frame.schema_id == 7
    if record.headers.get("sow.command") != "delta_publish":
        return json.loads(codec.read(frame.payload, reader))
    fields = record.headers.get("sow.fields")
    return json.loads(codec.read_delta(frame.payload, reader, None if fields is None else fields.split(",")))


def test_round_trip(
    spark: SparkSession, kafka: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records are read with the types of their reader schema, and written as the messages that they came from."""
    written = Written(kafka, f"{prefix}orders")
    log = written.log
    story = Story()
    for offset, body in enumerate(BODIES):
        story.change(offset, body["id"], json.dumps(body).encode())
    story.progress(len(BODIES))
    written.write(*story.events)
    create_topic(kafka, f"{log}.dead", 1)
    reader = Schema(AVRO, json.dumps(ORDER))
    add_reader(kafka, log, reader)
    frame = read_sow(spark, log, kafka=kafka)
    types = "struct<id:string,qty:bigint,open:boolean,rate:double,lines:array<struct<sku:string,price:decimal(38,4),"
    types += "note:string>>,total:decimal(38,2),day:date,placed:timestamp,sent:timestamp,data:binary,"
    types += "tags:map<string,int>>"
    own = frame.drop("_sow_key", "_updated_at", "_time")
    assert own.schema.simpleString() == types
    assert read_changes(spark, log, kafka=kafka).schema["after"].dataType == own.schema
    assert [row["total"] for row in frame.orderBy("id").collect()] == [Decimal("1234567890.12"), None]
    definition = define(tmp_path, monkeypatch, log, "avro", reader.text)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        assert (
            to_sow(frame.repartition(1, "id").sortWithinPartitions("id"), topic=log, key="id", kafka=kafka)
            is None
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert [body_of(definition, record) for record in by_key(read_log(kafka, log))] == BODIES
    assert read_log(kafka, f"{log}.dead") == []


def test_commands(
    spark: SparkSession, kafka: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delta names what it changes, a delete has no message, and what is no message is a dead letter."""
    log = create_topic(kafka, f"{prefix}orders", 1)
    for name in ("dead", "schemas"):
        create_topic(kafka, f"{log}.{name}", 1)
    definition = define(tmp_path, monkeypatch, log, PROTOBUF, PROTO)
    source = (
        "named_struct('partition', '0', 'file', CAST(NULL AS STRING), 'number', CAST(n AS BIGINT)) AS _source"
    )
    rows = spark.sql(
        f"""SELECT *, {source} FROM VALUES
            (0, 'publish', 'a', 1L, 18446744073709551615BD, TIMESTAMP'2026-11-26 12:34:56.1234'),
            (1, 'delta_publish', 'b', 0L, NULL, NULL),
            (2, 'sow_delete', 'c', 1L, NULL, NULL),
            (3, 'publish', 'd', 1L, -1BD, NULL) AS t(n, _command, id, qty, serial, placed)"""
    ).drop("n")
    options: dict[str, Any] = {"topic": log, "key": "id", "publisher": "shop", "kafka": kafka}
    to_sow(rows, command=F.col("_command"), **options)
    publish, delta, delete = by_key(read_log(kafka, log))
    placed = "2026-11-26T12:34:56.123400Z"
    assert body_of(definition, publish) == {"id": "a", "qty": 1, "serial": 2**64 - 1, "placed": placed}
    assert body_of(definition, delta) == {"id": "b", "qty": 0}
    assert (delete.key, delete.value, delete.headers["sow.command"]) == ("c", None, "sow_delete")
    (letter,) = read_log(kafka, f"{log}.dead")
    assert (letter.key, letter.value) == ("shop/0@3", b'{"id":"d","qty":1,"serial":-1}')
    reason, message = letter.headers["sow.reason"], letter.headers["sow.message"]
    assert (reason, letter.headers["sow.original_key"]) == ("bad message", "d")
    assert "-1" in message


def test_without_a_publisher(
    spark: SparkSession, kafka: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead letter has the key of its row; without the topic's definition, nothing is written."""
    log = create_topic(kafka, f"{prefix}orders", 1)
    for name in ("dead", "schemas"):
        create_topic(kafka, f"{log}.{name}", 1)
    frame = spark.sql("SELECT 'a' AS id, 1 AS qty UNION ALL SELECT 'b', NULL")
    options: dict[str, Any] = {"topic": log, "key": "id", "kafka": kafka}
    monkeypatch.setenv("SOWLINE_CONFIG", str(tmp_path / "topics.yaml"))
    with pytest.raises(SowlineError, match=f"a topic with the log {log} and a message_type") as unknown:
        to_sow(frame, **options)
    assert unknown.value.reason == "bad configuration"
    field = {"name": "qty", "type": "int"}
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "string"}, field]}
    definition = define(tmp_path, monkeypatch, log, AVRO, json.dumps(schema))
    to_sow(frame, **options)
    (record,) = read_log(kafka, log)
    assert body_of(definition, record) == {"id": "a", "qty": 1}
    (letter,) = read_log(kafka, f"{log}.dead")
    assert (letter.key, letter.value, letter.headers["sow.reason"]) == ("b", b'{"id":"b"}', "bad message")


# One part of each kind of record: by tags, by elements, and with values that JSON lacks.
LOCAL = {
    "parts": [
        {"type": "fix", "format": {"separator": "|", "groups": {"453": [448, 447]}}},
        {"type": "xml", "format": {"lists": ["/Order/Leg"]}},
        {"type": "msgpack"},
        {"type": "bson"},
    ]
}
LOCAL_BODY = {
    "0": {"8": "FIX.4.4", "35": "D", "11": "a", "44": "12.30", "453": [{"448": "A"}, {"448": "B"}]},
    "1": {"Order": {"@ID": "a", "Leg": [{"Qty": "5"}], "Note": {"@lang": "en", "#text": "x"}}},
    "2": {"data": {"$binary": "AAE="}},
    "3": {"when": {"$date": "2026-11-26T12:34:56.789Z"}},
}
LOCAL_TYPES = (
    "0:struct<11:string,35:string,44:string,453:array<struct<448:string>>,8:string>,"
    "1:struct<Order:struct<@ID:string,Leg:array<struct<Qty:string>>,Note:struct<#text:string,@lang:string>>>,"
    "2:struct<data:struct<$binary:string>>,3:struct<when:struct<$date:string>>"
)
GLOBAL = {"parts": [{"type": "json"}, {"type": "binary"}]}
GLOBAL_BODY = {"id": "a", "qty": 1.5, "data": "AAE=", "#parts": ["*", ["data"]]}
GLOBAL_TYPES = "data:string,id:string,qty:double,#parts:variant"


@pytest.mark.parametrize(
    ("message_type", "options", "key", "body", "types"),
    [
        pytest.param("composite-local", LOCAL, "`1`.Order.`@ID`", LOCAL_BODY, LOCAL_TYPES, id="local"),
        pytest.param("composite-global", GLOBAL, "id", GLOBAL_BODY, GLOBAL_TYPES, id="global"),
    ],
)
def test_without_schemas(
    spark: SparkSession,
    kafka: str,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    message_type: str,
    options: dict[str, Any],
    key: str,
    body: dict[str, Any],
    types: str,
) -> None:
    """The types of canonical JSON are inferred from records, and rows become the messages that they came from."""
    written = Written(kafka, f"{prefix}orders", has_hole=False)
    log = written.log
    create_topic(kafka, f"{log}.dead", 1)
    fields = {"message_type": message_type, "message_format": options}
    definition = write_topic(tmp_path, monkeypatch, log, **fields)
    reader, codec = definition.reader, definition.codec
    assert reader is not None
    assert codec is not None
    add_reader(kafka, log, reader)
    story = Story()
    story.change(0, "a", codec.completed(json.dumps(body).encode()))
    written.write(*story.events)
    frame = read_sow(spark, log, kafka=kafka)
    own = frame.drop("_sow_key", "_updated_at", "_time")
    assert own.schema.simpleString() == f"struct<{types}>"
    assert read_changes(spark, log, schema=own.schema, kafka=kafka).schema["after"].dataType == own.schema
    to_sow(frame, topic=log, key=F.expr(key), kafka=kafka)
    (record,) = read_log(kafka, log)
    assert record.key == "a"
    assert json.loads(codec.read(MessagePayload(record.value or b""), reader)) == body
    assert read_log(kafka, f"{log}.dead") == []


def test_texts_of_decimals(spark: SparkSession) -> None:
    """Where canonical JSON has no numbers, decimals keep their digits, also in a part of a message."""
    rows = spark.sql(
        "SELECT 12.30BD AS price, struct(1.50BD AS qty, array(2.50BD) AS all, map('a', 3.50BD) AS by) AS `1`"
    )

    def body(**fields: Any) -> Any:
        definition = define_topic(**{"name": "orders", "key": ("/id",), **fields})
        return rows.select(canonical_body(rows, definition).alias("body"))

    parts = {
        "message_type": "composite-local",
        "message_format": {"parts": [{"type": "json"}, {"type": "xml"}]},
    }
    found = body(message_type="fix").unionAll(body(**parts)).unionAll(body(message_type="msgpack")).collect()
    texts = '{"qty":"1.50","all":["2.50"],"by":{"a":"3.50"}}'
    assert [row.body for row in found] == [
        f'{{"price":"12.30","1":{texts}}}',
        f'{{"price":12.30,"1":{texts}}}',
        '{"price":12.30,"1":{"qty":1.50,"all":[2.50],"by":{"a":3.50}}}',
    ]


def test_without_an_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that have a frame need the schema's id."""
    definition = define(tmp_path, monkeypatch, "orders", AVRO, json.dumps(ORDER))
    pinned = definition.declared.reader_schema
    assert pinned is not None
    unnamed = definition.declared.model_copy(update={"reader_schema": pinned.model_copy(update={"id": None})})
    check_writable(definition)
    check_writable(TopicDefinition.of(unnamed.model_copy(update={"given_framing": "none"})))
    with pytest.raises(SowlineError, match="expected the id of the reader_schema of topic orders"):
        check_writable(TopicDefinition.of(unnamed))
