"""Log records whose message type has schemas: what they do to the records of a partition."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import orjson
import pytest

from sowline.codecs.codec import CompilerAway, codec_of
from sowline.codecs.framing import frame
from sowline.codecs.msgpack import MsgpackCodec
from sowline.codecs.resolutions import Resolution, Resolutions, entry_value, id_key, reader_key
from sowline.codecs.schema import MessagePayload, Schema, is_format
from sowline.codecs.typed_bodies import TypedBodies
from sowline.commands.command import Headers, LogRecord
from sowline.config.message_formats import MessageFormat
from sowline.config.topic_definition import define_topic
from sowline.model.key import partition_of
from sowline.model.limits import define_value
from sowline_materializer.core.applier import Applier
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.step import Step
from sowline_materializer.store.overlay import Overlay
from tests.memory_store import MemoryStore
from tests.unit.materializer.core.test_applier import Core

FIELDS: list[dict[str, Any]] = [{"name": "id", "type": "long"}, {"name": "qty", "type": "int"}]


def avro(*more: dict[str, Any], fields: list[dict[str, Any]] = FIELDS) -> Schema:
    """Return the schema of an order, with more fields."""
    return Schema("avro", json.dumps({"type": "record", "name": "Order", "fields": [*fields, *more]}))


ORDER = avro()
WITH_STATE = avro({"name": "state", "type": "string", "default": "open"})
RENAMED = avro(
    {"name": "state", "type": "string", "default": "open"},
    fields=[FIELDS[0], {"name": "quantity", "aliases": ["qty"], "type": "long"}],
)
TEXTS = avro({"name": "text", "type": "string"})
DELTA = Schema(
    "avro",
    json.dumps(
        {
            "type": "record",
            "name": "Order",
            "fields": [FIELDS[0], {"name": "qty", "type": ["null", "int"], "default": None}],
        }
    ),
)
PROTO_TEXT = 'syntax = "proto3"; message Order { int64 id = 1; int32 qty = 2; optional string note = 3; }'
PROTO = Schema("protobuf", PROTO_TEXT)
NEWER_PROTO = Schema("protobuf", PROTO_TEXT.replace("3; }", "3; double x = 9; }"))
IDS = {1: ORDER, 2: WITH_STATE, 3: RENAMED, 4: TEXTS, 5: DELTA, 6: PROTO, 7: NEWER_PROTO}


class TypedCore:
    """Partition 0 of `orders`, one message after the other. Schema 99 is unknown."""

    def __init__(self, reader: Schema = ORDER, partitions: int = 1, **given: Any) -> None:
        own: dict[str, Any] = {} if is_format(reader.type) else {"reader_schema": {"text": reader.text}}
        self.definition = define_topic(
            **{
                "name": "orders",
                "key": "/id",
                "partitions": partitions,
                "message_type": reader.type,
                **own,
                **given,
            }
        )
        self.resolutions = Resolutions()
        self.know(reader)
        for number, schema in IDS.items():
            self.resolutions.add(id_key(number), entry_value(Resolution(schema, "orders-value", number)))
        self.resolutions.add(id_key(99), entry_value(Resolution(None)))
        self.resolutions.add(id_key(98), entry_value(Resolution(None, problem="expected AVRO, got XML")))
        self.store = MemoryStore()
        self.checkpoint = Checkpoint(limits=self.definition.limits, log_id="log")

    def know(self, reader: Schema) -> None:
        """Add a reader schema to the entries."""
        self.resolutions.add(reader_key(reader.digest), entry_value(Resolution(reader)))

    def write(self, value: bytes | None, key: bytes | None = None, **headers: str) -> Step:
        """Apply one message."""
        encoded: Headers = [(f"sow.{name}", text.encode()) for name, text in headers.items()]
        record = LogRecord(self.checkpoint.next_offset, 1000, key, value, encoded)
        view = Overlay(self.store)
        bodies = TypedBodies(self.definition.message_type, self.definition.framing, self.resolutions)  # type: ignore[arg-type]
        step = Applier(self.definition, 0, self.checkpoint, view, bodies=bodies).apply([record])
        written = view.written(self.store.checksum())
        self.store.commit(written.entries, written.checksum, b"", written.expiries)
        self.checkpoint = step.checkpoint
        return step

    def define(self, reader: Schema) -> Step:
        """Change the reader schema, as the owner does."""
        limits = self.checkpoint.limits
        return self.write(define_value(limits, replace(limits, schema=reader.digest)), command="define")

    @property
    def bodies(self) -> list[Any]:
        """All records."""
        return [orjson.loads(record.body or b"") for _, record in Overlay(self.store).scan()]


def message(schema_id: int, **body: Any) -> bytes:
    """Return the message of a body under a schema."""
    schema = IDS[schema_id]
    return frame("confluent", schema.type, schema_id, codec_of(schema).write(orjson.dumps(body)))


def refusal(step: Step) -> tuple[str, str]:
    """Return the reason and the sentence of the one dead letter."""
    [letter] = step.dead
    return letter.reason, letter.message


@pytest.mark.parametrize(("reader", "schema_id"), [(ORDER, 1), (PROTO, 6)])
def test_a_record_is_canonical_json(reader: Schema, schema_id: int) -> None:
    """Key, body, previous body and schema id come from the message; the log keeps its bytes."""
    core = TypedCore(reader)
    [inserted] = core.write(message(schema_id, id=1, qty=5)).changes
    [updated] = core.write(message(schema_id, id=1, qty=6)).changes
    assert (inserted.body, inserted.schema_id) == (b'{"id":1,"qty":5}', schema_id)
    assert (updated.body, updated.previous) == (b'{"id":1,"qty":6}', b'{"id":1,"qty":5}')
    [(_, record)] = Overlay(core.store).scan()
    assert (record.key_text, record.schema_id) == ("1", schema_id)


def test_a_message_of_another_version_is_read_under_the_reader_schema() -> None:
    """Fields that only the writer has are left out, those that only the reader has get their defaults."""
    core = TypedCore(WITH_STATE)
    core.write(message(1, id=1, qty=5))
    core.write(message(2, id=2, qty=5, state="done"))
    core.write(message(4, id=3, qty=5, text="x"))
    assert sorted(core.bodies, key=lambda body: body["id"]) == [
        {"id": 1, "qty": 5, "state": "open"},
        {"id": 2, "qty": 5, "state": "done"},
        {"id": 3, "qty": 5, "state": "open"},
    ]


@pytest.mark.parametrize(
    ("value", "reason", "sentence"),
    [
        (b"", "bad message", "expected a message in the confluent format"),
        (b'{"id":1}', "bad message", "expected a message in the confluent format"),
        (message(1, id=1, qty=5)[:-1], "bad message", "schema 1 of orders-value: "),
        (message(1, id=1, qty=5) + b"x", "bad message", "schema 1 of orders-value: "),
        (b"\0\0\0\0\x63\2", "unknown schema", "schema 99: expected a schema that the registry has"),
        (b"\0\0\0\0\x62\2", "incompatible schema", "schema 98: expected AVRO, got XML"),
        (message(6, id=1), "incompatible schema", "schema 6 of orders-value: expected a schema of avro, got"),
    ],
)
def test_what_can_not_be_read_is_a_dead_letter(value: bytes, reason: str, sentence: str) -> None:
    """The letter has the message as it came; the records after it are applied."""
    core = TypedCore()
    step = core.write(value, command="publish") if value else core.write(b"\0", command="publish")
    assert refusal(step)[0] == reason
    assert refusal(step)[1].startswith(sentence)
    assert step.dead[0].record.value == (value or b"\0")
    assert not core.write(message(1, id=1, qty=5)).dead


def test_what_the_reader_schema_can_not_read_is_a_dead_letter() -> None:
    """A reader's field without a default that the writer does not have."""
    assert refusal(TypedCore(TEXTS).write(message(1, id=1, qty=5)))[0] == "incompatible schema"


def test_a_delta_changes_the_fields_that_it_names() -> None:
    """In the header, or as what is not null in a delta schema."""
    core = TypedCore(WITH_STATE)
    core.write(message(2, id=1, qty=5, state="done"))
    core.write(message(2, id=1, qty=7, state="open"), command="delta_publish", fields="/id,/qty")
    assert core.bodies == [{"id": 1, "qty": 7, "state": "done"}]
    core.write(message(5, id=1), command="delta_publish")
    core.write(message(5, id=1, qty=8), command="delta_publish")
    assert core.bodies == [{"id": 1, "qty": 8, "state": "done"}]


def test_protobuf_names_what_a_delta_changes_by_presence() -> None:
    """A field without presence that is zero has to be named."""
    core = TypedCore(PROTO)
    core.write(message(6, id=1, qty=5, note="n"))
    core.write(message(6, id=1, qty=0, note="m"), command="delta_publish")
    assert core.bodies == [{"id": 1, "qty": 5, "note": "m"}]
    core.write(message(6, id=1), command="delta_publish", fields="/id,/qty,/note")
    assert core.bodies == [{"id": 1, "qty": 0}]


def test_fields_that_the_reader_schema_does_not_know_are_kept() -> None:
    """A consumer that knows them gets them back."""
    core = TypedCore(PROTO)
    core.write(message(7, id=1, qty=5, x=1.5))
    [body] = core.bodies
    assert set(body) == {"id", "qty", "@unknown"}
    assert set(body["@unknown"]) == {"9"}
    assert codec_of(PROTO).write(orjson.dumps(body)) == codec_of(NEWER_PROTO).write(
        b'{"id":1,"qty":5,"x":1.5}'
    )


def test_a_delta_can_not_leave_a_record_incomplete() -> None:
    """A new record has every field that has no default."""
    core = TypedCore()
    reason, sentence = refusal(core.write(message(5, id=1), command="delta_publish"))
    assert (reason, "/qty" in sentence) == ("incomplete record", True)
    assert core.bodies == []


def test_a_delete_names_its_record_by_a_message_or_by_its_key() -> None:
    """As with JSON: the body as a publish, or the Kafka key."""
    core = TypedCore()
    core.write(message(1, id=1, qty=5))
    core.write(message(1, id=2, qty=5))
    assert len(core.write(message(1, id=1, qty=0), command="sow_delete").changes) == 1
    assert len(core.write(None, key=b"2").changes) == 1
    assert core.bodies == []
    core.write(message(1, id=3, qty=5))
    assert len(core.write(None, command="sow_delete", filter="/qty = 5").changes) == 1


def test_a_misplaced_message_is_forwarded_as_it_came() -> None:
    """Its owner reads it by its own entries."""
    core = TypedCore(partitions=2)
    elsewhere = next(n for n in range(99) if partition_of(str(n), 2) == 1)
    value = message(1, id=elsewhere, qty=5)
    [forward] = core.write(value).forwards
    assert (forward.partition, forward.record.value) == (1, value)


def test_sow_fields_is_for_message_types_with_schemas() -> None:
    """A JSON delta names by itself what it changes, and a publish changes everything."""
    json_topic = define_topic(name="orders", key=("/id",))
    record = LogRecord(
        0, 1000, None, b'{"id":1}', [("sow.command", b"delta_publish"), ("sow.fields", b"/id")]
    )
    step = Applier(json_topic, 0, Checkpoint(limits=json_topic.limits), Overlay(MemoryStore())).apply(
        [record]
    )
    assert refusal(step)[0] == "bad header"
    assert refusal(TypedCore().write(message(1, id=1, qty=5), fields="/qty"))[0] == "bad header"


@pytest.mark.parametrize("stage", ["enrichment", "preprocessing"])
def test_computed_fields_are_in_the_schema(stage: str) -> None:
    """A record that the schema does not describe could not be written in its type."""
    core = TypedCore(WITH_STATE, partitions=1, **{stage: ["CONCAT('s', /qty) AS /state"]})
    core.write(message(1, id=1, qty=5))
    assert core.bodies == [{"id": 1, "qty": 5, "state": "s5"}]
    core = TypedCore(WITH_STATE, partitions=1, **{stage: ["/qty AS /state"]})
    assert refusal(core.write(message(1, id=1, qty=5)))[0] == "bad message"
    refused = TypedCore(ORDER, enrichment=["/qty * 2 AS /twice"]).write(message(1, id=1, qty=5))
    assert refusal(refused)[0] == "bad message"


def test_a_part_of_a_composite_gets_names_with_a_delta() -> None:
    """A delta names a field of a record that was stored without the name: it is the same field."""
    parts: list[dict[str, Any]] = [{"type": "json"}, {"type": "fix"}, {"type": "xml"}]
    named = [parts[0], {"type": "fix", "format": {"names": {"55": "Symbol"}}}, parts[2]]
    before, after = (
        MessageFormat.model_validate({"parts": some}).schema_of("composite-local") for some in (parts, named)
    )
    core = TypedCore(before, message_format={"parts": parts}, key="/0/id")
    record = {"0": {"id": 1}, "1": {"55": "IBM", "44": "1"}, "2": {"Order": {"Qty": "1"}}}
    core.write(codec_of(before).write(orjson.dumps(record)))
    core.know(after)
    core.define(after)
    delta = {"0": {"id": 1}, "1": {"Symbol": "MSFT"}}
    assert not core.write(codec_of(after).write(orjson.dumps(delta)), command="delta_publish").dead
    assert core.bodies == [{**record, "1": {"Symbol": "MSFT", "44": "1"}}]


def test_json_that_is_too_large_is_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its message fits, as it has few bytes for much JSON. Nothing is done with it but to read it."""
    options = Schema("msgpack", "{}")
    core, codec = TypedCore(options, record_bytes_max=1000), codec_of(options)
    for name in ("merged", "completed"):
        monkeypatch.setattr(MsgpackCodec, name, None)
    message = msgspec.msgpack.encode({"id": 1, "empty": [b""] * 400})
    assert len(message) < 1000 < len(codec.read(MessagePayload(message), options))
    assert refusal(core.write(message, command="delta_publish"))[0] == "too large"


def test_a_reader_schema_changes_from_a_define_on() -> None:
    """Earlier records stay as they are until they change; then they are read as the new schema has it."""
    core = TypedCore(WITH_STATE)
    core.write(message(2, id=1, qty=5, state="done"))
    core.write(message(2, id=2, qty=5, state="done"))
    core.know(RENAMED)
    step = core.define(RENAMED)
    assert (step.dead, list(step.outcomes.values())) == ([], ["applied"])
    assert core.checkpoint.limits.schema == RENAMED.digest
    core.write(message(1, id=1, qty=6), command="delta_publish", fields="/id,/quantity")
    core.write(message(3, id=3, quantity=2**40))
    assert sorted(core.bodies, key=lambda body: body["id"]) == [
        {"id": 1, "quantity": 6, "state": "done"},
        {"id": 2, "qty": 5, "state": "done"},
        {"id": 3, "quantity": 2**40, "state": "open"},
    ]


def test_a_reader_schema_that_no_entry_has_is_refused() -> None:
    """A replay could not read what comes after it."""
    core = TypedCore()
    assert refusal(core.define(RENAMED))[0] == "bad definition"
    assert core.checkpoint.limits.schema == ORDER.digest


def test_a_define_that_names_another_schema_does_not_count() -> None:
    """After a rebuild the log still has the `define` commands that led to the newest schema."""
    core = TypedCore(RENAMED)
    core.know(ORDER)
    core.know(WITH_STATE)
    limits = core.checkpoint.limits
    was, now = replace(limits, schema=ORDER.digest), replace(limits, schema=WITH_STATE.digest)
    step = core.write(define_value(was, now), command="define")
    assert (step.dead, list(step.outcomes.values())) == ([], ["noop"])
    assert core.checkpoint.limits == limits


def test_a_compiler_that_is_away_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead letter would depend on the machine, and a replay would not make it."""

    def away(*_: object) -> bytes:
        raise CompilerAway("expected the compiler of Protobuf schemas to run, got exit status -9")

    core = TypedCore(PROTO)
    monkeypatch.setattr(type(codec_of(PROTO)), "read", away)
    with pytest.raises(CompilerAway):
        core.write(message(6, id=1, qty=5))


def test_json_is_merged_as_it_is() -> None:
    """A topic without a message type has no schema to complete a record by."""
    core = Core()
    core.write({"id": 1, "a": 1})
    core.write({"id": 1, "b": 2}, "delta_publish")
    assert core.body("1") == {"id": 1, "a": 1, "b": 2}
