"""Schemas in `topics.yaml`: as text or in files, for the message types that have them."""

import json
from pathlib import Path
from typing import Any

import pytest

from sowline.codecs.schema import Schema
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.config.topics import Topics, load_topics, parse_topics
from sowline.errors import SowlineError

ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})


def typed(**given: Any) -> TopicDefinition:
    """Return the definition of an Avro topic with what is given."""
    fields = {"name": "orders", "key": "/id", "message_type": "avro", "reader_schema": {"text": ORDER}}
    return define_topic(**{**fields, **given})


def test_a_schema_is_text() -> None:
    """The reader schema determines records; its digest is a limit, since it may change."""
    topic = typed(reader_schema={"text": ORDER, "id": 7, "subject": "orders-value"})
    assert topic.reader == Schema("avro", ORDER)
    assert topic.limits.schema == Schema("avro", ORDER).digest
    assert topic.kafka.names == ("orders", "orders.changes", "orders.dead", "orders.schemas")
    assert define_topic(name="orders", key=("/id",)).limits.schema is None


def test_a_schema_is_in_files_next_to_the_topics(tmp_path: Path) -> None:
    """Files are found from the directory of `topics.yaml`, also those that a schema refers to."""
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "order.proto").write_text(
        'syntax = "proto3"; import "money.proto"; message Order {}'
    )
    (tmp_path / "money.proto").write_text('syntax = "proto3"; message Money {}')
    (tmp_path / "topics.yaml").write_text(
        "topics:\n  - name: orders\n    key: /id\n    message_type: protobuf\n    reader_schema:\n"
        "      file: schemas/order.proto\n      message: Order\n      references: {money.proto: money.proto}\n"
    )
    [topic] = load_topics(tmp_path / "topics.yaml").topics
    assert topic.reader is not None
    assert topic.reader.text.startswith('syntax = "proto3"; import')
    assert topic.reader.references == (("money.proto", 'syntax = "proto3"; message Money {}'),)
    assert topic.reader.message == "Order"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"message_type": "json"}, "expected a message_type with schemas, got json and reader_schema"),
        ({"reader_schema": None}, "expected a reader_schema with message_type: avro"),
        ({"documents": True}, "expected message_type: json with documents: true, got avro"),
        ({"framing": "none", "schemas": {1: {"text": ORDER}}}, "expected no schemas with framing: none"),
        (
            {"reader_schema": {"file": "order.avsc"}},
            "got the name of a file: only a topics.yaml on disk may name files",
        ),
        ({"reader_schema": {"file": "a", "text": ORDER}}, "expected either text or file, got both"),
        ({"reader_schema": {"text": ORDER, "id": -1}}, "greater than or equal to 0"),
        ({"framing": "thrift"}, "'confluent', 'apicurio' or 'none'"),
    ],
)
def test_what_does_not_fit_is_refused(given: dict[str, Any], message: str) -> None:
    """Only message types with schemas have schemas, and they need one."""
    with pytest.raises(ValueError, match=message):
        typed(**given)


def test_a_schema_that_is_none_is_refused_with_its_line(tmp_path: Path) -> None:
    """A missing file, and a text that is no schema of a record."""
    text = "topics:\n  - name: orders\n    key: /id\n    message_type: avro\n    reader_schema: {%s}\n"
    (tmp_path / "topics.yaml").write_text(text % "file: gone.avsc")
    with pytest.raises(
        SowlineError, match=r"line 5: topics\.0\.reader_schema \(orders\): expected a schema in the file gone"
    ):
        load_topics(tmp_path / "topics.yaml")
    with pytest.raises(SowlineError, match=r"line 5: topics\.0\.reader_schema \(orders\): .*record"):
        parse_topics(text % "text: '\"string\"'")


def test_framing_decides_what_a_message_means() -> None:
    """A topic can't change it, nor the message type, while it has state."""
    digests = {
        typed().digest,
        typed(framing="none").digest,
        define_topic(name="orders", key=("/id",)).digest,
    }
    assert len(digests) == 3
    longer = {"text": ORDER.replace("long", "int")}
    assert typed(reader_schema=longer).digest == typed().digest


def test_two_types_of_one_name_are_two_topics() -> None:
    """The second one has its message type in the name, and in the names of its Kafka topics."""
    topics = Topics.model_validate(
        {
            "topics": [
                {"name": "orders", "key": "/id"},
                {"name": "orders", "key": "/id", "message_type": "avro", "reader_schema": {"text": ORDER}},
            ]
        }
    )
    assert [topic.name for topic in topics.topics] == ["orders", "orders.avro"]
    assert [topic.log for topic in topics.topics] == ["orders", "orders.avro"]
    with pytest.raises(ValueError, match="expected each topic once, got 'orders' twice"):
        Topics.model_validate({"topics": [{"name": "orders", "key": "/id"}] * 2})
