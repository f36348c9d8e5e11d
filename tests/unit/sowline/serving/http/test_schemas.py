"""What is said about a topic's schemas, over all partitions."""

import json

import pytest

from sowline.codecs.resolutions import Resolution, Resolutions, entry_value, id_key, reader_key
from sowline.codecs.schema import AVRO, PROTOBUF, Schema
from sowline.serving.http.schemas import named_schemas, past_readers


def avro(**fields: str) -> Schema:
    """Return an Avro schema with fields of these types."""
    named = [{"name": name, "type": type} for name, type in fields.items()]
    return Schema(AVRO, json.dumps({"type": "record", "name": "Order", "fields": named}))


READER = avro(id="long")


def knowing(ids: dict[int, Resolution], *readers: Schema) -> Resolutions:
    """Return what a partition with these entries knows."""
    known = Resolutions()
    for schema in readers:
        known.add(reader_key(schema.digest), entry_value(Resolution(schema)))
    for schema_id, resolution in ids.items():
        known.add(id_key(schema_id), entry_value(resolution))
    return known


def test_partitions_that_know_the_same_are_one_entry() -> None:
    """Entries are ordered by subject, version and id; an id with two answers is there twice."""
    first, second = Resolution(avro(id="int"), "orders", 1), Resolution(READER, "orders", 2)
    known = {
        0: knowing({9: second, 7: first, 8: Resolution(None)}),
        1: knowing({7: first, 8: Resolution(READER, "orders", 3)}),
    }
    found = [(one.id, one.resolution.version, one.partitions) for one in named_schemas(READER, known)]
    assert found == [(8, 0, (0,)), (7, 1, (0, 1)), (9, 2, (0,)), (8, 3, (1,))]


@pytest.mark.parametrize(
    ("resolution", "state", "problem"),
    [
        (Resolution(avro(id="int")), "readable", ""),
        (Resolution(None), "unknown", "no such schema"),
        (Resolution(None, problem="too deep"), "incompatible", "too deep"),
        (Resolution(avro(id="string")), "incompatible", "/id"),
        (Resolution(Schema(AVRO, "{")), "incompatible", "expected the schema"),
        (Resolution(Schema(PROTOBUF, "")), "incompatible", "expected a schema of avro, got one of protobuf"),
    ],
)
def test_the_state_of_a_schema(resolution: Resolution, state: str, problem: str) -> None:
    """It says whether messages can be read, and if not, why."""
    (found,) = named_schemas(READER, {0: knowing({7: resolution})})
    assert (found.state, problem in found.problem, not found.problem) == (state, True, not problem)


def test_a_registry_names_no_message() -> None:
    """Then a Protobuf schema has the message that the reader schema names."""
    text = 'syntax = "proto3"; message Other { bytes id = 1; } message Order { int32 id = 1; }'
    reader = Schema(PROTOBUF, text, message="Order")
    (found,) = named_schemas(reader, {0: knowing({7: Resolution(Schema(PROTOBUF, text))})})
    assert found.state == "readable"
    (found,) = named_schemas(reader, {0: knowing({7: Resolution(Schema(PROTOBUF, text, message="Other"))})})
    assert found.state == "incompatible"


def test_reader_schemas_are_in_their_order() -> None:
    """With the partitions that know them."""
    earlier = avro(id="int")
    known = {0: knowing({}, earlier, READER), 1: knowing({}, READER)}
    assert past_readers(known) == [(earlier, (0,)), (READER, (0, 1))]
