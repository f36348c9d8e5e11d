"""Deltas of Avro: by the paths of what they change, or by a schema of optional fields."""

import orjson
import pytest

from sowline.codecs.avro import AvroCodec
from sowline.codecs.schema import MessagePayload
from sowline.errors import SowlineError
from tests.property.avro_schemas import fixed, record, schema_of

CUSTOMER = record(("name", "string"), ("city", ["null", "string"]), name="Customer")

ORDER = record(
    ("id", "long"),
    ("note", ["null", "string"]),
    ("customer", CUSTOMER),
    ("agent", ["null", "Customer"]),
    ("legs", {"type": "array", "items": record(("qty", "int"), name="Leg")}),
    ("tags", {"type": "map", "values": "int"}),
)

FULL = (
    b'{"id":1,"note":"n","customer":{"name":"a","city":"c"},"agent":{"name":"b","city":null},'
    b'"legs":[{"qty":1}],"tags":{"x":1,"y":2}}'
)


@pytest.mark.parametrize(
    ("paths", "kept"),
    [
        ([], b"{}"),
        (["/id"], b'{"id":1}'),
        (["/customer/name", "/id"], b'{"id":1,"customer":{"name":"a"}}'),
        (["/customer", "/customer/name"], b'{"customer":{"name":"a","city":"c"}}'),
        (["/customer/name", "/customer"], b'{"customer":{"name":"a","city":"c"}}'),
        (["/agent/city"], b'{"agent":{"city":null}}'),
        (["/tags/y", "/tags/z"], b'{"tags":{"y":2}}'),
        (["/legs"], b'{"legs":[{"qty":1}]}'),
    ],
)
def test_paths_choose_the_fields(paths: list[str], kept: bytes) -> None:
    """Only these fields are in the delta, inside the objects that they are in."""
    codec = AvroCodec(schema_of(ORDER))
    assert codec.read_delta(MessagePayload(codec.write(FULL)), schema_of(ORDER), paths) == kept


@pytest.mark.parametrize("path", ["/none", "/customer/none", "/legs[0]", "/legs/qty", "/id/x", "/agent/none"])
def test_a_path_without_a_field_is_refused(path: str) -> None:
    """The reader schema has no such field, or it is inside an array, which a delta replaces as a whole."""
    codec = AvroCodec(schema_of(ORDER))
    with pytest.raises(SowlineError) as caught:
        codec.read_delta(MessagePayload(codec.write(FULL)), schema_of(ORDER), [path])
    assert caught.value.reason == "bad header"


def test_a_path_that_does_not_parse_is_refused() -> None:
    """The header is at fault, not a path of a command."""
    with pytest.raises(SowlineError) as caught:
        AvroCodec(schema_of(ORDER)).read_delta(MessagePayload(b""), schema_of(ORDER), ["id"])
    assert caught.value.reason == "bad header"


@pytest.mark.parametrize(
    ("delta", "paths"),
    [
        ("{}", ()),
        ('{"id":5}', ("/id",)),
        ('{"note":null}', ("/note",)),
        ('{"customer":{"name":"z"}}', ("/customer/name",)),
        (
            '{"customer":{"name":"z","city":null},"agent":{"city":"c"}}',
            ("/customer/name", "/customer/city", "/agent/city"),
        ),
        ('{"agent":null}', ("/agent",)),
        ('{"legs":[{"qty":2}],"tags":{"x":1}}', ("/legs", "/tags")),
    ],
)
def test_a_delta_comes_back_by_its_paths(delta: str, paths: tuple[str, ...]) -> None:
    """What is missing is filled for the bytes, and the paths leave it out again."""
    codec = AvroCodec(schema_of(ORDER))
    data, named = codec.write_delta(delta.encode())
    assert named == paths
    assert codec.read_delta(MessagePayload(data), schema_of(ORDER), named) == delta.encode()


def test_a_delta_of_an_empty_object_changes_nothing() -> None:
    """A path would set the whole record, with the values that fill it. An empty map is a value."""
    codec = AvroCodec(schema_of(ORDER))
    assert codec.write_delta(b'{"customer":{}}')[1] == ()
    data, paths = codec.write_delta(b'{"tags":{}}')
    assert codec.read_delta(MessagePayload(data), schema_of(ORDER), paths) == b'{"tags":{}}'


def test_a_delta_schema_names_what_it_can_change() -> None:
    """Fields may be missing from the writer schema, and a null is an absent field, in records at any depth."""
    customer = record(("city", ["null", "string"]), name="Customer")
    delta = record(
        ("note", ["null", "string"]),
        ("customer", ["null", customer]),
        ("legs", ["null", {"type": "array", "items": record(("qty", "int"), name="Leg")}]),
    )
    codec = AvroCodec(schema_of(ORDER))
    write = AvroCodec(schema_of(delta)).write
    for body, read in [
        (b'{"note":null,"customer":null,"legs":null}', b"{}"),
        (b'{"note":"x","customer":null,"legs":null}', b'{"note":"x"}'),
        (b'{"note":null,"customer":{"city":null},"legs":null}', b'{"customer":{}}'),
        (
            b'{"note":null,"customer":{"city":"c"},"legs":[{"qty":1}]}',
            b'{"customer":{"city":"c"},"legs":[{"qty":1}]}',
        ),
    ]:
        assert codec.read_delta(MessagePayload(write(body)), schema_of(delta), None) == read


def test_a_delta_schema_is_resolved_like_any_other() -> None:
    """Types are promoted, fields renamed by alias; a type that does not resolve is refused."""
    reader = schema_of(record(("id", "long"), {"name": "px", "type": "double", "aliases": ["price"]}))
    codec = AvroCodec(reader)
    delta = record(("price", ["null", "int"]))
    assert codec.read_delta(MessagePayload(b"\2\4"), schema_of(delta), None) == b'{"px":2.0}'
    with pytest.raises(SowlineError) as caught:
        codec.read_delta(MessagePayload(b"\2x"), schema_of(record(("id", "string"))), None)
    assert caught.value.reason == "incompatible schema"


def test_the_records_of_a_delta_schema_have_names_of_their_own() -> None:
    """The class of a delta is not the class of the record."""
    customer = record(("city", ["null", "string"]), name="CustomerChange")
    delta = record(("customer", customer), ("agent", ["null", "CustomerChange"]), name="OrderChange")
    codec = AvroCodec(schema_of(ORDER))
    body = b'{"customer":{"city":"c"},"agent":{"city":"d"}}'
    assert (
        codec.read_delta(MessagePayload(AvroCodec(schema_of(delta)).write(body)), schema_of(delta), None)
        == body
    )
    with pytest.raises(SowlineError, match="expected record Order, got record OrderChange"):
        codec.read(MessagePayload(b""), schema_of(delta))


def test_a_null_inside_an_array_stays() -> None:
    """Arrays and maps are replaced as a whole, so their records are whole as well."""
    item = record(("x", ["null", "int"]), name="Item")
    raw = record(("items", {"type": "array", "items": item}))
    data = AvroCodec(schema_of(raw)).write(b'{"items":[{"x":null}]}')
    assert (
        AvroCodec(schema_of(raw)).read_delta(MessagePayload(data), schema_of(raw), None)
        == b'{"items":[{"x":null}]}'
    )


def test_a_delta_schema_of_a_record_that_contains_itself() -> None:
    """The delta's record is optional at each level."""
    raw = record(("next", ["null", "Order"]), ("v", ["null", "int"]))
    codec = AvroCodec(schema_of(raw))
    data = codec.write(b'{"next":{"next":{"next":null,"v":2},"v":null},"v":null}')
    assert codec.read_delta(MessagePayload(data), schema_of(raw), None) == b'{"next":{"next":{"v":2}}}'


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"months": 1, "days": 2, "milliseconds": 3}, "/term"),
        ({"months": 4}, "/term/months"),
    ],
)
def test_a_delta_of_a_duration_or_a_record(value: dict[str, int], path: str) -> None:
    """Both are objects: a duration is replaced as a whole, and of a record its fields."""
    period = record(("months", "int"), ("weeks", ["null", "int"]), name="Period")
    raw = record(("id", "long"), ("term", [period, fixed(12, "duration")]))
    codec = AvroCodec(schema_of(raw))
    delta = orjson.dumps({"term": value})
    message, paths = codec.write_delta(delta)
    assert list(paths) == [path]
    assert orjson.loads(codec.read_delta(MessagePayload(message), schema_of(raw), paths)) == {"term": value}
