"""Rows as messages, as the executors make them."""

import json
import pickle

import pytest

from sowline.codecs.codec import codec_of
from sowline.codecs.schema import AVRO, Schema
from sowline.config.schema_fields import PinnedSchema
from sowline.config.topic_definition import define_topic
from sowline.spark.typed_rows import RowMessage, RowMessages

FIELDS = [
    {"name": "id", "type": "string"},
    {"name": "qty", "type": ["null", "long"]},
    {"name": "note", "type": "string", "default": "none"},
]
READER = Schema(AVRO, json.dumps({"type": "record", "name": "Order", "fields": FIELDS}))

DICTIONARY = (
    "<fix><header/><messages/><trailer/><components/>"
    "<fields><field number='55' name='Symbol' type='STRING'/></fields></fix>"
)


@pytest.fixture
def messages() -> RowMessages:
    """The messages of a topic, as they are sent to an executor after its definition was used."""
    definition = define_topic(
        name="orders",
        key=("/id",),
        message_type="avro",
        reader_schema=PinnedSchema(text=READER.text),
        framing="none",
        enrichment=("/qty AS /n",),
    )
    assert definition.enrich is not None
    assert definition.key_rule.paths == (("id",),)
    made = pickle.loads(pickle.dumps(RowMessages(definition)))
    assert isinstance(made, RowMessages)
    return made


def test_publish(messages: RowMessages) -> None:
    """A field that Spark leaves out has its default, or null if it has none."""
    whole = RowMessage(codec_of(READER).write(b'{"id":"a","qty":null,"note":"none"}'))
    assert messages.of('{"id":"a"}', None) == messages.of('{"id":"a"}', "publish") == whole


def test_delta(messages: RowMessages) -> None:
    """A delta has no nulls but those of its own, and names its fields."""
    message, fields = codec_of(READER).write_delta(b'{"id":"a","note":"b"}')
    assert messages.of('{"id":"a","note":"b"}', "delta_publish") == RowMessage(message, "/id,/note")
    assert ",".join(fields) == "/id,/note"


def test_without_schemas() -> None:
    """The options of a message type go to an executor, of a data dictionary what the codec needs."""
    definition = define_topic(
        name="orders",
        key=("/11",),
        message_type="fix",
        message_format={"separator": "|", "dictionaries": [{"text": DICTIONARY}]},
    )
    assert definition.codec is not None
    assert definition.key_rule.paths == (("11",),)
    sent = pickle.dumps(RowMessages(definition))
    assert b"<fix" not in sent
    messages = pickle.loads(sent)
    assert messages.of('{"11":"a","Symbol":"IBM"}', None) == RowMessage(b"11=a|55=IBM|")
    assert messages.of('{"11":"a","44":1.50}', "delta_publish") == RowMessage(b"11=a|44=1.50|")
    refused = messages.of('{"price":1}', None)
    assert (refused.value, refused.reason) == (b'{"price":1}', "bad message")


def test_without_a_message(messages: RowMessages) -> None:
    """A deletion names its record by its key. Of a command that no such topic takes, the owner says so."""
    assert messages.of('{"id":"a"}', "sow_delete") == RowMessage(None)
    assert messages.of(None, None) == RowMessage(None)
    assert messages.of("{..}", "delta") == RowMessage(b"{..}")


@pytest.mark.parametrize(
    ("body", "reason"), [("{", "not json"), ('{"id":1}', "bad message"), ('{"qty":1}', "bad message")]
)
def test_refusals(messages: RowMessages, body: str, reason: str) -> None:
    """What is no message stays JSON, with the reason."""
    made = messages.of(body, None)
    assert (made.value, made.reason) == (body.encode(), reason)
    assert made.problem
