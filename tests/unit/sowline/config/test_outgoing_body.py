"""Bodies that are about to be written: the message for the log, and the JSON that is checked."""

from datetime import date
from decimal import Decimal
from typing import Any

import orjson
import pytest

from sowline.commands.command import DELTA_PUBLISH, PUBLISH, SOW_DELETE
from sowline.config.outgoing_body import outgoing_body
from sowline.config.topic_definition import define_topic
from sowline.errors import SowlineError
from tests.typed_orders import AVRO_SCHEMA, SCHEMAS, avro_message, avro_order, typed_topic

ORDER = {"id": 1, "day": date(2026, 11, 26), "price": Decimal("9.50"), "qty": 2, "note": None}
CANONICAL = {"id": 1, "day": "2026-11-26", "price": "9.50", "qty": 2, "note": None}
GIVEN = b'{"price": "9.5", "id":1, "day": "2026-11-26", "qty": 2}'


def test_json_stays_as_it_is() -> None:
    """On a topic of JSON the bytes are the message, whether they are called native or not."""
    orders = define_topic(name="orders", key=("/id",))
    data = b'{ "id" : 1 }'
    for is_typed in (False, True):
        assert outgoing_body(orders, PUBLISH, data, is_typed=is_typed) == (data, data, "1", ())
    assert outgoing_body(orders, SOW_DELETE, None) == (None, None, None, ())


def test_a_record_is_written_as_a_message() -> None:
    """Its JSON for the checks is canonical: as the owner of the partition will read it."""
    found = outgoing_body(typed_topic("avro"), PUBLISH, GIVEN)
    assert avro_order(found.value or b"") == ORDER
    assert orjson.loads(found.body or b"") == CANONICAL
    assert (found.key, found.fields) == ("1", ())


def test_a_key_is_made_of_canonical_json() -> None:
    """A default that the JSON leaves out, and a decimal with its scale: the owner makes the same key."""
    topic = typed_topic("avro", key=["/qty", "/price"])
    found = outgoing_body(topic, PUBLISH, b'{"id": 1, "day": "2026-11-26", "price": "9.5"}')
    native = outgoing_body(topic, PUBLISH, avro_message(ORDER | {"qty": 0}), is_typed=True)
    assert found.key == native.key
    assert "9.50" in (found.key or "")


def test_a_delta_is_written_with_the_paths_of_what_it_changes() -> None:
    """The message is a whole record; the paths say which of it count."""
    found = outgoing_body(typed_topic("avro"), DELTA_PUBLISH, b'{"id": 1, "price": "3.1"}')
    assert (found.key, set(found.fields)) == ("1", {"/id", "/price"})
    assert avro_order(found.value or b"")["price"] == Decimal("3.10")
    assert orjson.loads(found.body or b"") == {"id": 1, "price": "3.10"}


def test_a_delta_of_nothing_is_refused() -> None:
    """No Avro message says that it changes nothing: without paths it would set every field."""
    topic = typed_topic("avro", key={"from": "header"})
    with pytest.raises(SowlineError, match="one that changes none") as error:
        outgoing_body(topic, DELTA_PUBLISH, b"{}", key="k")
    assert error.value.reason == "bad message"


def test_a_delete_names_its_record_by_the_kafka_key() -> None:
    """There is no message of only the key fields, and none is needed."""
    found = outgoing_body(typed_topic("avro"), SOW_DELETE, b'{"id": 1}')
    assert (found.value, found.key) == (None, "1")
    assert orjson.loads(found.body or b"") == {"id": 1}


@pytest.mark.parametrize("type", SCHEMAS)
@pytest.mark.parametrize("data", [b"{}", b'{"qty": 1}'])
def test_a_delete_needs_the_key(type: str, data: bytes) -> None:
    """No record is named by the default of its key field; a key that the publisher gives is enough."""
    for topic in (typed_topic(type), typed_topic(type, key=["/qty", "/id"])):
        with pytest.raises(SowlineError) as error:
            outgoing_body(topic, SOW_DELETE, data)
        assert error.value.reason == "key missing"
    supplied = typed_topic(type, key={"from": "header"})
    assert outgoing_body(supplied, SOW_DELETE, data, key="k").key == "k"


def test_a_delete_whose_key_is_not_known_has_the_whole_record() -> None:
    """The owner makes the key of it; a part of a record is refused."""
    topic = typed_topic("avro", key={"generator": "not-here"})
    found = outgoing_body(topic, SOW_DELETE, GIVEN)
    assert (avro_order(found.value or b""), found.key) == (ORDER, None)
    with pytest.raises(SowlineError, match="expected"):
        outgoing_body(topic, SOW_DELETE, b'{"id": 1}')


@pytest.mark.parametrize("framing", ["confluent", "none"])
def test_a_native_message_is_written_as_it_came(framing: str) -> None:
    """It is read for the checks only."""
    message = avro_message(ORDER, None if framing == "none" else 7)
    topic = typed_topic("avro", framing=framing)
    for command in (PUBLISH, SOW_DELETE):
        found = outgoing_body(topic, command, message, is_typed=True)
        assert (found.value, found.key) == (message, "1")
        assert orjson.loads(found.body or b"") == CANONICAL
    paths = ("/id", "/qty")
    delta = outgoing_body(topic, DELTA_PUBLISH, message, is_typed=True, fields=paths)
    assert (delta.value, delta.key, delta.fields) == (message, "1", paths)
    assert orjson.loads(delta.body or b"") == {"id": 1, "qty": 2}


def test_a_schema_of_the_definition_is_known() -> None:
    """Those under `schemas` are read as the reader schema is."""
    topic = typed_topic("avro", schemas={8: {"text": AVRO_SCHEMA}})
    assert outgoing_body(topic, PUBLISH, avro_message(ORDER, 8), is_typed=True).key == "1"


def test_a_message_with_an_unknown_schema_is_left_to_the_owner() -> None:
    """Its key is not known, unless the publisher gives it."""
    message = avro_message(ORDER, 9)
    assert outgoing_body(typed_topic("avro"), PUBLISH, message, is_typed=True) == (message, None, None, ())
    unkept: dict[str, Any] = typed_topic("avro").declared.model_dump(exclude_unset=True)
    del unkept["key"], unkept["key_domain"]
    ticks = define_topic(**unkept | {"sow": False})
    assert outgoing_body(ticks, PUBLISH, message, is_typed=True).key is None
    given = typed_topic("avro", key={"from": "header"})
    assert outgoing_body(given, PUBLISH, message, is_typed=True, key="k").key == "k"
    for topic, key, reason in ((given, None, "key missing"), (typed_topic("avro"), "k", "bad request")):
        with pytest.raises(SowlineError) as error:
            outgoing_body(topic, PUBLISH, message, is_typed=True, key=key)
        assert error.value.reason == reason


@pytest.mark.parametrize(
    ("data", "native", "reason"),
    [
        (b'{"id": 1}', False, "bad message"),
        (b'{"id": "x", "day": "2026-11-26", "price": "1"}', False, "bad message"),
        (b"[]", False, "bad message"),
        (b"{", False, "bad message"),
        (b"\1\0\0\0\7", True, "bad message"),
        (avro_message(ORDER)[:-3], True, "bad message"),
        (avro_message(ORDER | {"note": "x" * 200}), True, "too large"),
        (GIVEN[:-1] + b',"note":"%s"}' % (b"x" * 200), False, "too large"),
    ],
)
def test_what_the_owner_would_refuse_is_refused(data: bytes, native: bool, reason: str) -> None:
    """As a message that is not of the schema, or is too large."""
    with pytest.raises(SowlineError) as error:
        outgoing_body(typed_topic("avro", record_bytes_max=150), PUBLISH, data, is_typed=native)
    assert error.value.reason == reason


def test_paths_go_with_native_messages_only() -> None:
    """JSON shows what it changes."""
    orders = define_topic(name="orders", key=("/id",))
    for topic, native in ((orders, True), (typed_topic("avro"), False)):
        with pytest.raises(SowlineError, match="got /id") as error:
            outgoing_body(topic, DELTA_PUBLISH, GIVEN, fields=("/id",), is_typed=native)
        assert error.value.reason == "bad request"


def test_an_id_is_needed_where_messages_have_one() -> None:
    """A service that writes must know it."""
    topic = typed_topic("avro", reader_schema={"text": AVRO_SCHEMA})
    with pytest.raises(SowlineError, match="expected the id of the reader_schema") as error:
        outgoing_body(topic, PUBLISH, GIVEN)
    assert error.value.reason == "bad configuration"


@pytest.mark.parametrize("type", SCHEMAS)
def test_every_type_is_read_as_it_was_written(type: str) -> None:
    """Publishes, deltas and deletes; a message that was written is one that can be given."""
    topic = typed_topic(type)
    found = outgoing_body(topic, PUBLISH, GIVEN)
    again = outgoing_body(topic, PUBLISH, found.value, is_typed=True)
    assert again == found
    assert orjson.loads(found.body or b"").items() >= {"id": 1, "day": "2026-11-26", "qty": 2}.items()
    delta = outgoing_body(topic, DELTA_PUBLISH, b'{"id": 1, "qty": 3}')
    assert outgoing_body(topic, DELTA_PUBLISH, delta.value, is_typed=True, fields=delta.fields) == delta
    assert orjson.loads(delta.body or b"") == {"id": 1, "qty": 3}
    assert outgoing_body(topic, SOW_DELETE, b'{"id": 1}').key == found.key == delta.key == "1"


def test_protobuf_deltas_show_their_fields() -> None:
    """The JSON of the delta comes back from the message and the paths."""
    found = outgoing_body(typed_topic("protobuf"), DELTA_PUBLISH, b'{"id": 1, "note": null}')
    assert orjson.loads(found.body or b"") == {"id": 1, "note": None}
    assert found.key == "1"
