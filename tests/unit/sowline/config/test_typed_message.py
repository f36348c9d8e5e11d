"""Messages in a topic's own message type."""

import pytest

from sowline.config.topic_definition import define_topic
from sowline.config.typed_message import TypedDelta, changes_nothing, typed_delta, typed_message
from sowline.errors import SowlineError
from tests.typed_orders import AVRO_SCHEMA, avro_order, typed_topic

JSON = define_topic(name="orders", key="/id")
ORDER = b'{"id":1,"day":"2026-11-21","price":"2.50","qty":3,"note":null}'


def test_json_is_its_own_message() -> None:
    """The bytes are the object that came."""
    assert typed_message(JSON, ORDER) is ORDER
    assert typed_delta(JSON, ORDER) == TypedDelta(ORDER)


@pytest.mark.parametrize(("framing", "schema_id"), [("confluent", 7), ("none", None)])
def test_a_message_is_framed_with_the_id_of_its_schema(framing: str, schema_id: int | None) -> None:
    """Without framing it is the codec's bytes alone."""
    message = typed_message(typed_topic("avro", framing=framing), ORDER)
    assert avro_order(message, schema_id)["qty"] == 3


def test_an_avro_delta_names_its_fields() -> None:
    """The message has all fields of the schema, so the paths are next to it."""
    message, fields = typed_delta(typed_topic("avro"), b'{"id":1,"qty":4}')
    assert (avro_order(message)["qty"], set(fields)) == (4, {"/id", "/qty"})


def test_other_deltas_show_what_they_change() -> None:
    """Only an Avro message without paths would change each field."""
    assert typed_delta(typed_topic("json-schema"), b'{"id":1,"qty":4}').fields == ()
    assert changes_nothing("avro", ())
    assert not changes_nothing("avro", ("/qty",))
    assert not changes_nothing("protobuf", ())


def test_a_frame_needs_the_id_of_the_reader_schema() -> None:
    """The refusal names both ways out."""
    topic = define_topic(name="orders", key="/id", message_type="avro", reader_schema={"text": AVRO_SCHEMA})
    with pytest.raises(SowlineError, match=r"add its id in the registry, or set framing: none"):
        typed_message(topic, ORDER)


def test_a_record_that_the_schema_does_not_have_is_refused() -> None:
    """It would be unreadable in the log."""
    with pytest.raises(SowlineError) as error:
        typed_message(typed_topic("avro"), b'{"id":"one"}')
    assert error.value.reason == "bad message"
