"""The record that a command names, and the partition that owns it."""

import pytest

from sowline.codecs.resolutions import Resolution, Resolutions, entry_value, reader_key
from sowline.codecs.schema import Schema
from sowline.codecs.typed_bodies import TypedBodies
from sowline.commands.command import Command, LogRecord
from sowline.commands.key_generator import Appended
from sowline.config.command_key import keyed_body, named_key, owner_of, preprocessed, read_body
from sowline.config.topic_definition import define_topic
from sowline.errors import SowlineError
from sowline.model.key import partition_of
from tests.typed_orders import AVRO_SCHEMA, avro_message

ORDERS = define_topic(name="orders", key="/id", partitions=8)
COMPUTED = define_topic(name="orders", key="/k", preprocessing=["CONCAT(/id, '-', MESSAGE_SIZE()) AS /k"])
NAMED = define_topic(name="orders", key={"from": "kafka_key"})


def record(value: bytes | None, key: bytes | None = None) -> LogRecord:
    """Return a record of a log."""
    return LogRecord(7, 1000, key, value)


def appended(record: LogRecord, command: Command) -> Appended:
    """Return when and where a record was appended."""
    return Appended(record.time, 0, record.offset)


def test_the_key_is_read_in_the_body() -> None:
    """The document is parsed once, for all that follows."""
    keyed = keyed_body(ORDERS, record(b'{"id":5}'), Command(), appended)
    assert (keyed.key_text, keyed.body, keyed.document) == ("5", b'{"id":5}', {"id": 5})


def test_preprocessing_comes_before_the_key() -> None:
    """What it computes may be a key field; the body and the document both have it."""
    keyed = keyed_body(COMPUTED, record(b'{"id":5}'), Command(), appended)
    assert (keyed.key_text, keyed.document) == ("5-8", {"id": 5, "k": "5-8"})
    assert keyed.body == b'{"id":5,"k":"5-8"}'


def test_a_topic_without_preprocessing_keeps_the_bytes() -> None:
    """They are the object that came."""
    body = b'{ "id": 5 }'
    assert preprocessed(ORDERS, body, {"id": 5}, None) is body


@pytest.mark.parametrize("value", [None, b"", b"[]", b'{"no":1}'])
def test_a_body_without_key_fields_names_no_record(value: bytes | None) -> None:
    """The command is refused."""
    with pytest.raises(SowlineError):
        keyed_body(ORDERS, record(value), Command(), appended)


def test_a_delete_names_its_record_by_body_or_by_kafka_key() -> None:
    """The body counts if there is one."""
    delete = Command("sow_delete")
    assert named_key(ORDERS, record(b'{"id":5}', b"ignored"), delete, appended) == "5"
    assert named_key(NAMED, record(None, b"a"), delete, appended) == "a"


def test_a_message_is_read_as_its_command_says() -> None:
    """A delta has the fields that it names; any other message has all fields of the schema."""
    reader = Schema("avro", AVRO_SCHEMA)
    resolutions = Resolutions()
    resolutions.add(reader_key(reader.digest), entry_value(Resolution(reader)))
    bodies = TypedBodies("avro", "none", resolutions)
    message = avro_message({"id": 1, "day": 0, "price": b"\x00\xfa", "qty": 3, "note": None}, None)
    whole = read_body(bodies, message, reader.digest, Command())
    delta = read_body(bodies, message, reader.digest, Command("delta_publish", fields=("/id", "/qty")))
    assert (b"price" in whole.body, delta.body) == (True, b'{"id":1,"qty":3}')


def test_the_owner_is_the_partition_of_the_key_text() -> None:
    """Of as many partitions as the topic has."""
    assert owner_of(ORDERS, "5") == partition_of("5", 8)
    assert {owner_of(ORDERS, str(number)) for number in range(100)} == set(range(8))
