"""Avro under random schemas: round trips, deltas, later schemas, and bytes that are no record."""

from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import Any

import fastavro
import jsonschema_rs
import orjson
from hypothesis import assume, given
from hypothesis import strategies as st

from sowline.codecs.avro import AvroCodec
from sowline.codecs.schema import MessagePayload, Schema
from sowline.errors import SowlineError
from tests.property.avro_schemas import later_versions, records_of, schema_of, schemas


def _unless_refused(call: Callable[[], Any], *reasons: str) -> Any:
    """Return what a call returns; None if it raises a SowlineError, which must have one of the reasons."""
    try:
        return call()
    except SowlineError as error:
        if error.reason not in reasons:
            raise
    return None


def _checked(later: AvroCodec, earlier: Schema) -> bool:
    later.check_reads(earlier)
    return True


@given(st.data())
def test_a_written_record_reads_as_its_canonical_json(data: st.DataObject) -> None:
    """Canonical JSON comes back from the bytes, and stays as it is by every other way. fastavro reads the bytes."""
    raw = data.draw(schemas())
    body = orjson.dumps(data.draw(records_of(raw)))
    schema = schema_of(raw)
    codec = AvroCodec(schema)
    canonical = codec.completed(body)
    message = codec.write(body)
    assert codec.read(MessagePayload(message), schema) == canonical
    assert codec.write(canonical) == message
    assert codec.completed(canonical) == canonical
    assert codec.upgraded(canonical) == canonical
    stream = BytesIO(message)
    fastavro.schemaless_reader(stream, _without_logical(raw), None)
    assert stream.tell() == len(message)
    codec.check_reads(schema)


@given(st.data())
def test_canonical_json_is_as_described(data: st.DataObject) -> None:
    """The JSON Schema of a reader schema accepts each record of it, and each default."""
    raw = data.draw(schemas())
    codec = AvroCodec(schema_of(raw))
    canonical = codec.completed(orjson.dumps(data.draw(records_of(raw))))
    jsonschema_rs.validator_for(codec.described(), validate_formats=True).validate(orjson.loads(canonical))


def _without_logical(schema: Any) -> Any:
    """Return a schema without its logical types: Python has no value for some of theirs."""
    if isinstance(schema, dict):
        return {key: _without_logical(part) for key, part in schema.items() if key != "logicalType"}
    return [_without_logical(part) for part in schema] if isinstance(schema, list) else schema


@given(st.data())
def test_any_bytes_are_a_record_or_refused(data: st.DataObject) -> None:
    """Random bytes, and records with some bytes changed, give canonical JSON or `bad message`."""
    raw = data.draw(schemas())
    schema = schema_of(raw)
    codec = AvroCodec(schema)
    message = bytearray(codec.write(orjson.dumps(data.draw(records_of(raw)))))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(message)))
        message[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    hostile = data.draw(st.just(bytes(message)) | st.binary(max_size=20))
    body = _unless_refused(lambda: codec.read(MessagePayload(hostile), schema), "bad message")
    assert body is None or codec.completed(body) == body


@given(st.data())
def test_any_json_is_a_record_or_refused(data: st.DataObject) -> None:
    """A record of another schema is written, completed and upgraded, or refused with a reason."""
    codec = AvroCodec(schema_of(data.draw(schemas())))
    body = orjson.dumps(data.draw(records_of(data.draw(schemas()))))
    for call in (codec.write, codec.completed, codec.upgraded, codec.write_delta):
        _unless_refused(partial(call, body), "bad message", "incomplete record")


@given(st.data())
def test_a_later_schema_reads_what_it_upgrades(data: st.DataObject) -> None:
    """Reading earlier bytes, and upgrading what an earlier reader schema made of them, give the same."""
    earlier_raw = data.draw(schemas())
    earlier, later = schema_of(earlier_raw), schema_of(data.draw(later_versions(earlier_raw)))
    earlier_codec, later_codec = AvroCodec(earlier), AvroCodec(later)
    assume(_unless_refused(lambda: _checked(later_codec, earlier), "incompatible schema"))
    message = earlier_codec.write(orjson.dumps(data.draw(records_of(earlier_raw))))
    body = later_codec.read(MessagePayload(message), earlier)
    assert later_codec.upgraded(earlier_codec.read(MessagePayload(message), earlier)) == body
    assert later_codec.completed(body) == body


@given(st.data())
def test_a_delta_with_paths_reads_as_it_was_written(data: st.DataObject) -> None:
    """Some fields of a record, at the top and in records, come back with their paths."""
    raw = data.draw(schemas())
    codec = AvroCodec(schema_of(raw))
    whole = orjson.loads(codec.completed(orjson.dumps(data.draw(records_of(raw)))))
    delta = {name: value for name, value in whole.items() if data.draw(st.booleans())}
    message, paths = codec.write_delta(orjson.dumps(delta))
    read = orjson.loads(codec.read_delta(MessagePayload(message), schema_of(raw), paths))
    assert read == delta


@given(st.data())
def test_a_delta_schema_reads_the_fields_that_are_not_null(data: st.DataObject) -> None:
    """A writer schema with optional fields, some of them left out, gives the fields that have a value."""
    raw = data.draw(schemas())
    # A record in itself would have optional fields inside arrays as well, where a delta replaces whole values.
    fields = [
        field for field in raw["fields"] if field["name"] != "again" and _can_be_optional(field["type"])
    ]
    sparse = raw | {"fields": [field | {"type": ["null", field["type"]]} for field in fields]}
    values = data.draw(records_of(sparse))
    message = AvroCodec(schema_of(sparse)).write(orjson.dumps(values))
    whole = orjson.loads(AvroCodec(schema_of(sparse)).read(MessagePayload(message), schema_of(sparse)))
    read = orjson.loads(
        AvroCodec(schema_of(raw)).read_delta(MessagePayload(message), schema_of(sparse), None)
    )
    assert read.keys() == {name for name, value in whole.items() if value is not None}
    assert all(
        read[name] == value for name, value in whole.items() if value is not None and type(value) is not dict
    )


def _can_be_optional(schema: Any) -> bool:
    return not isinstance(schema, list) and schema != "null"
