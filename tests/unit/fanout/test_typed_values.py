"""Fanouts that are written in a message type with schemas: their values, and what a type can't express."""

from datetime import date
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import orjson
import pytest
from msgspec.structs import replace

from sowline.changes.change import REMOVED_BYTES_MAX, Change
from sowline.codecs.schema import MessagePayload, Schema
from sowline.config.fanouts import FanoutDefinition
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.errors import SowlineError
from sowline.model.position import Position
from sowline.registry.client import RegistryAway, Resolved
from sowline.subscriptions.engine.subscription import MATCH, OOF, PUBLISH, Delivery
from sowline_fanout.message import OutputMessage, ReaderState
from sowline_fanout.output import FanoutOutput
from sowline_fanout.typed_values import TypedValues
from tests.typed_orders import AVRO_SCHEMA, SCHEMAS, avro_message, avro_order, typed_topic

BODY = b'{"id":1,"day":"2026-11-26","price":"9.50","qty":2,"note":null}'
CHANGED = BODY.replace(b'"qty":2', b'"qty":3')
ORDER = {"id": 1, "day": date(2026, 11, 26), "price": Decimal("9.50"), "qty": 2, "note": None}
CHANGE = Change(b"7", BODY, None, Position(0, 5), Position(0, 3), "publish", 1_700_000_000_000)


class FakeRegistry:
    """A registry that knows some schemas; while it is away it answers nothing."""

    def __init__(self, known: dict[int, str], *, away: bool = False) -> None:
        self.known = known
        self.away = away
        self.registered: list[tuple[str, Schema]] = []

    def id_of(self, subject: str, schema: Schema) -> int | None:
        """Return the id of a schema."""
        if self.away:
            raise RegistryAway("nobody answers")
        return next((id for id, text in self.known.items() if text == schema.text), None)

    def register(self, subject: str, schema: Schema) -> int:
        """Return the id that a schema gets."""
        self.registered.append((subject, schema))
        self.known[99] = schema.text
        return 99

    def resolve(self, id: int) -> Resolved | None:
        """Return the schema with an id."""
        return Resolved(Schema("avro", self.known[id])) if id in self.known else None


def fanout(**given: Any) -> FanoutDefinition:
    """Return a fanout of orders as Avro."""
    return FanoutDefinition.model_validate({"name": "f", "topic": "orders", "as": "avro", **given})


class FakeProducer:
    """Keeps what is produced."""

    def __init__(self) -> None:
        self.produced: list[tuple[bytes, Any]] = []

    def produce(self, topic: str, value: bytes, *about: Any, headers: Any) -> None:
        """Take a message."""
        self.produced.append((value, headers))


class Written:
    """A fanout whose messages are kept."""

    def __init__(self, source: TopicDefinition, definition: FanoutDefinition) -> None:
        self.values = TypedValues.of(definition, source, None)
        self.producer = FakeProducer()
        with patch("sowline.kafka.exact_output.exact_producer", lambda *_, **__: self.producer):
            self.output = FanoutOutput({}, definition, source, self.values)

    def send(self, delivery: Delivery) -> tuple[bytes, OutputMessage]:
        """Return the value of a delivery's message, and the message as it is read back."""
        self.output.send(0, CHANGE, delivery)
        value, headers = self.producer.produced[-1]
        read = OutputMessage.read(value, headers)
        return value, read if self.values is None else self.values.read(read)


def test_json_values_stay_as_they_are() -> None:
    """A fanout without a type, of a topic of any."""
    written = Written(typed_topic("avro"), FanoutDefinition(name="f", topic="orders"))
    assert written.send(Delivery(PUBLISH, BODY))[0] == BODY


@pytest.mark.parametrize("type", SCHEMAS)
@pytest.mark.parametrize("framing", ["confluent", "none"])
def test_values_are_read_as_they_were_written(type: str, framing: str) -> None:
    """Of publishes and oofs, and of deltas, which name their fields."""
    definition = fanout(**{"as": type, "framing": framing, "delta": True, "options": "oof"})
    written = Written(typed_topic(type), definition)
    held = ReaderState()
    for delivery in (Delivery(PUBLISH, BODY), Delivery(PUBLISH, CHANGED, previous=BODY)):
        _, read = written.send(delivery)
        held.take(b"7", read._replace(position=None))
        assert (
            orjson.loads(held.bodies[b"7"]).items()
            >= {
                name: value for name, value in orjson.loads(delivery.body).items() if value is not None
            }.items()
        )
    assert read.delta
    value, read = written.send(Delivery(OOF, CHANGED, MATCH))
    assert (read.command, read.delta, orjson.loads(read.value)["qty"]) == ("oof", False, 3)
    assert value.startswith(b"\0\0\0\0\7") == (framing == "confluent")


def test_an_avro_reader_of_other_make_reads_it() -> None:
    """The whole record in a publish; in a delta the fields that the header names."""
    written = Written(typed_topic("avro"), fanout(delta=True))
    value, _ = written.send(Delivery(PUBLISH, BODY))
    assert avro_order(value)["qty"] == 2
    value, read = written.send(Delivery(PUBLISH, CHANGED, previous=BODY))
    assert (avro_order(value)["qty"], set(read.fields)) == (3, {"/id", "/qty"})
    assert dict(written.producer.produced[-1][1])["sow.fields"] == ",".join(read.fields).encode()


def test_a_delta_of_nothing_is_a_whole_record() -> None:
    """No Avro message says that nothing changes."""
    source = typed_topic("avro", key={"from": "kafka_key"})
    _, read = Written(source, fanout(delta=True)).send(Delivery(PUBLISH, BODY, previous=BODY))
    assert (read.delta, orjson.loads(read.value)) == (False, orjson.loads(BODY))


def test_a_field_that_is_gone_makes_a_whole_record() -> None:
    """A message type has no removed fields, but defaults."""
    source = define_topic(name="orders", key=("/id",))
    written = Written(source, fanout(delta=True, schema={"text": AVRO_SCHEMA, "id": 7}))
    less = BODY.replace(b',"note":null', b"")
    _, read = written.send(Delivery(PUBLISH, less, previous=BODY))
    assert (read.delta, read.removed, orjson.loads(read.value)) == (False, (), orjson.loads(BODY))


def test_a_delta_that_xml_can_not_show_is_a_whole_record() -> None:
    """XML deltas add and change attributes; none takes one away."""
    source = define_topic(name="orders", key=("/Order/@id",), message_type="xml")
    written = Written(source, fanout(**{"as": "xml", "delta": True}))
    first, more, less = (
        f'<Order id="1"><Price{attribute}>{price}</Price></Order>'.encode()
        for attribute, price in (("", 5), (' ccy="USD"', 5), ("", 6))
    )
    bodies = [source.codec.read(MessagePayload(one), source.reader) for one in (first, more, less)]  # type: ignore[union-attr,arg-type]
    held = ReaderState(written.values.merged)  # type: ignore[union-attr]
    values = []
    for previous, body in zip([None, *bodies], bodies, strict=False):
        value, read = written.send(Delivery(PUBLISH, body, previous=previous))
        held.take(b"7", read._replace(position=None))
        assert held.bodies[b"7"] == body
        values.append((value, read.delta))
    assert values == [
        (first, False),
        (b'<Order id="1"><Price ccy="USD">5</Price></Order>', True),
        (less, False),
    ]


def test_paths_that_no_header_holds_make_a_whole_record() -> None:
    """As the names of removed fields do."""
    names = [f"field_{'x' * 200}_{number}" for number in range(REMOVED_BYTES_MAX // 200)]
    schema = {
        "type": "record",
        "name": "Wide",
        "fields": [{"name": "id", "type": "int"}, *({"name": n, "type": "int"} for n in names)],
    }
    source = define_topic(name="orders", key=("/id",))
    pinned = {"text": orjson.dumps(schema).decode(), "id": 7}
    written = Written(source, fanout(delta=True, schema=pinned))
    before, now = (orjson.dumps({"id": 1} | dict.fromkeys(names, number)) for number in (1, 2))
    _, read = written.send(Delivery(PUBLISH, now, previous=before))
    assert (read.delta, read.fields, orjson.loads(read.value)) == (False, (), orjson.loads(now))


def test_what_a_type_can_t_express_is_refused() -> None:
    """A select list without a field that has no default; the sentence names the record and the field."""
    written = Written(typed_topic("avro"), fanout(options="select=[-/,+/id]"))
    with pytest.raises(SowlineError, match=r"the record 7 of topic orders can't be written as avro: .*day"):
        written.send(Delivery(PUBLISH, BODY))


def test_the_id_of_the_definition_counts() -> None:
    """No registry is asked for it."""
    values = TypedValues.of(fanout(), typed_topic("avro"), None)
    assert values is not None
    assert values.schema_id == 7
    own = fanout(schema={"text": AVRO_SCHEMA, "id": 8})
    assert values_of(own, FakeRegistry({5: AVRO_SCHEMA})).schema_id == 8
    assert values_of(fanout(framing="none"), FakeRegistry({}, away=True)).schema_id is None


WITHOUT_ID = typed_topic("avro", reader_schema={"text": AVRO_SCHEMA})


def values_of(definition: FanoutDefinition, registry: Any) -> TypedValues:
    """Return what makes the values of a fanout whose topic has a schema without an id."""
    values = TypedValues.of(definition, WITHOUT_ID, registry)
    assert values is not None
    return values


def test_a_registry_gives_the_id() -> None:
    """Of a schema that is there; any other one is registered under the fanout's subject."""
    known = FakeRegistry({5: AVRO_SCHEMA})
    assert (values_of(fanout(), known).schema_id, known.registered) == (5, [])
    for given, subject in (
        ({}, "fanout.f-value"),
        ({"subject": "s"}, "s"),
        ({"schema": {"text": AVRO_SCHEMA, "subject": "own"}}, "own"),
    ):
        empty = FakeRegistry({})
        assert values_of(fanout(**given), empty).schema_id == 99
        assert empty.registered == [(subject, Schema("avro", AVRO_SCHEMA))]


def test_without_id_and_registry_it_is_refused() -> None:
    """A frame needs an id."""
    with pytest.raises(SowlineError, match="set SOWLINE_REGISTRY") as error:
        values_of(fanout(), None)
    assert error.value.reason == "bad configuration"


def test_values_of_earlier_schemas_are_read() -> None:
    """By the registry's schema; without one the fanout needs another name."""
    earlier = AVRO_SCHEMA.replace('"qty"', '"amount"')
    message = OutputMessage("publish", avro_message(ORDER, 4), None)
    registry = FakeRegistry({5: AVRO_SCHEMA, 4: earlier})
    order = orjson.loads(values_of(fanout(), registry).read(message).value)
    assert (order["id"], order["qty"]) == (1, 0)
    with pytest.raises(SowlineError, match="got one with schema 4, which no registry knows") as error:
        values_of(fanout(), FakeRegistry({5: AVRO_SCHEMA})).read(message)
    assert error.value.reason == "unknown schema"


def test_the_value_of_a_change_that_is_gone() -> None:
    """An oof without a body of its own has what readers hold, as JSON, and is written again as a message."""
    written = Written(typed_topic("avro"), fanout(options="oof"))
    _, read = written.send(Delivery(PUBLISH, BODY))
    written.output.send(0, replace(CHANGE, body=None), Delivery(OOF, read.value, "deleted"))
    assert avro_order(written.producer.produced[-1][0])["id"] == 1
