"""A writer schema resolved against a reader schema: what is read, and what can not be."""

from typing import Any

import pytest

from sowline.codecs.avro import AvroCodec
from sowline.codecs.schema import MessagePayload
from sowline.errors import SowlineError
from tests.property.avro_schemas import fixed, logical, record, schema_of

E_AB = {"type": "enum", "name": "E", "symbols": ["A", "B"]}

E_AC = {"type": "enum", "name": "E", "symbols": ["A", "C"]}

OLD_SIDE = record(("x", "int"), name="OldSide")

LIST: Any = {"type": "array", "items": "int"}


@pytest.mark.parametrize(
    ("earlier", "later", "old", "new"),
    [
        pytest.param(
            record(("a", "int")),
            record(("a", "int"), {"name": "b", "type": "string", "default": "x"}),
            '{"a":1}',
            '{"a":1,"b":"x"}',
            id="add",
        ),
        pytest.param(
            record(("a", "int"), ("b", "int")), record(("b", "int")), '{"a":1,"b":2}', '{"b":2}', id="drop"
        ),
        pytest.param(
            record(("a", "int")),
            record({"name": "b", "type": "int", "aliases": ["a"]}),
            '{"a":1}',
            '{"b":1}',
            id="rename",
        ),
        pytest.param(
            record(("a", "int"), ("b", "int")),
            record(("b", "int"), ("a", "int")),
            '{"a":1,"b":2}',
            '{"b":2,"a":1}',
            id="reorder",
        ),
        pytest.param(record(("a", "int")), record(("a", "long")), '{"a":1}', '{"a":1}', id="int to long"),
        pytest.param(
            record(("a", "int")), record(("a", "double")), '{"a":1}', '{"a":1.0}', id="int to double"
        ),
        pytest.param(
            record(("a", "long")),
            record(("a", "float")),
            '{"a":16777217}',
            '{"a":16777216.0}',
            id="long to float",
        ),
        pytest.param(
            record(("a", "float")), record(("a", "double")), '{"a":0.1}', '{"a":0.1}', id="float to double"
        ),
        pytest.param(
            record(("a", LIST)),
            record(("a", {"type": "array", "items": ["null", "double"]})),
            '{"a":[1]}',
            '{"a":[1.0]}',
            id="in an array",
        ),
        pytest.param(
            record(("a", E_AB)),
            record(("a", E_AC | {"default": "C"})),
            '{"a":"B"}',
            '{"a":"C"}',
            id="symbol to default",
        ),
        pytest.param(
            record(("a", "int")), record(("a", ["null", "int"])), '{"a":1}', '{"a":1}', id="to a union"
        ),
        pytest.param(record(("a", ["int"])), record(("a", "long")), '{"a":1}', '{"a":1}', id="from a union"),
        pytest.param(
            record(("a", ["null", "int"])),
            record(("a", ["string", "long", "null"])),
            '{"a":1}',
            '{"a":1}',
            id="union to union",
        ),
        pytest.param(
            record(("a", OLD_SIDE)),
            record(("a", record(("x", "long"), name="Side", aliases=["OldSide"]))),
            '{"a":{"x":1}}',
            '{"a":{"x":1}}',
            id="record renamed",
        ),
        pytest.param(
            record(("a", "int"), namespace="old"),
            record(("a", "int"), namespace="new"),
            '{"a":1}',
            '{"a":1}',
            id="another namespace",
        ),
        pytest.param(
            record(("a", logical("bytes", "decimal", precision=4, scale=2))),
            record(("a", logical("bytes", "decimal", precision=9, scale=2))),
            '{"a":"1.50"}',
            '{"a":"1.50"}',
            id="more digits",
        ),
    ],
)
def test_a_later_schema_reads_and_upgrades(earlier: Any, later: Any, old: str, new: str) -> None:
    """Old bytes read as the new JSON, and so does old JSON upgrade."""
    codec = AvroCodec(schema_of(later))
    codec.check_reads(schema_of(earlier))
    data = AvroCodec(schema_of(earlier)).write(old.encode())
    assert codec.read(MessagePayload(data), schema_of(earlier)) == new.encode()
    assert codec.upgraded(old.encode()) == new.encode()


@pytest.mark.parametrize(
    ("earlier", "later", "message"),
    [
        (
            record(("a", "int")),
            record(("b", "int")),
            "/b: expected a field of the writer schema, or a default",
        ),
        (record(("a", "long")), record(("a", "int")), "/a: expected int, got long"),
        (record(("a", "int")), record(("a", "string")), "/a: expected string, got int"),
        (record(("a", ["null", "int"])), record(("a", "int")), "/a: expected int, got null"),
        (
            record(("a", ["null", "int"])),
            record(("a", ["int", "string"])),
            "/a: expected int or string, got null",
        ),
        (record(("a", "string")), record(("a", "bytes")), "/a: expected bytes, got string"),
        (record(("a", "bytes")), record(("a", "string")), "/a: expected string, got bytes"),
        (record(("a", E_AB)), record(("a", E_AC)), "/a: expected one of A, C, or a default symbol, got 'B'"),
        (record(("a", fixed(2))), record(("a", fixed(3))), "/a: expected 3 bytes, got 2 bytes"),
        (
            record(("a", OLD_SIDE)),
            record(("a", record(("x", "int"), name="Side"))),
            "/a: expected record Side",
        ),
        (record(("a", "int")), record(("a", "int"), name="Other"), "the record: expected record Other"),
        (
            record(("a", LIST)),
            record(("a", {"type": "array", "items": "string"})),
            "/a: expected string, got int",
        ),
        (
            record(("a", record(("x", "int"), name="In"))),
            record(("a", ["null", record(("x", "string"), name="In")])),
            "/a/x: expected string, got int",
        ),
        (
            record(("a", record(("x", "int"), name="In")), ("b", "In")),
            record(("a", "int"), {"name": "b", "type": record(("x", "int"), ("y", "int"), name="In")}),
            "/a: expected int, got record In",
        ),
        (
            record(("n", ["null", "Order"]), ("v", "long")),
            record(("n", ["null", "Order"]), ("v", "int")),
            "/v: expected int, got long",
        ),
        (
            record(("a", logical("bytes", "decimal", precision=4, scale=2))),
            record(("a", logical("bytes", "decimal", precision=4, scale=1))),
            "/a: expected a decimal of scale 1, got a decimal of scale 2",
        ),
        (
            record(("a", logical("long", "timestamp-millis"))),
            record(("a", logical("long", "timestamp-micros"))),
            "/a: expected timestamp-micros, got timestamp-millis",
        ),
        (
            record(("a", "long")),
            record(("a", logical("long", "timestamp-millis"))),
            "/a: expected timestamp-millis",
        ),
        (record(("a", logical("string", "uuid"))), record(("a", "string")), "/a: expected string, got uuid"),
    ],
)
def test_an_incompatible_schema_is_refused(earlier: Any, later: Any, message: str) -> None:
    """The message names the path of the change."""
    with pytest.raises(SowlineError) as caught:
        AvroCodec(schema_of(later)).check_reads(schema_of(earlier))
    assert caught.value.reason == "incompatible schema"
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    ("writer", "reader", "good", "bad"),
    [
        (record(("a", ["null", "int"])), record(("a", "int")), '{"a":1}', '{"a":null}'),
        (record(("a", ["null", "int"])), record(("a", ["int", "string"])), '{"a":1}', '{"a":null}'),
        (record(("a", ["string", "null", "int"])), record(("a", ["int", "null"])), '{"a":1}', '{"a":"x"}'),
        (record(("a", E_AB)), record(("a", E_AC)), '{"a":"A"}', '{"a":"B"}'),
    ],
)
def test_a_value_may_be_what_can_not_be_read(writer: Any, reader: Any, good: str, bad: str) -> None:
    """By Avro's rules a branch or a symbol counts only when a message has it."""
    codec = AvroCodec(schema_of(reader))
    write = AvroCodec(schema_of(writer)).write
    assert codec.read(MessagePayload(write(good.encode())), schema_of(writer)) == good.encode()
    with pytest.raises(SowlineError) as caught:
        codec.read(MessagePayload(write(bad.encode())), schema_of(writer))
    assert caught.value.reason == "incompatible schema"


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        (record(("a", "string")), record(("a", "int"))),
        (record(("a", ["null", "string"])), record(("a", "int"))),
        (record(), record(("a", "int"))),
    ],
)
def test_a_writer_schema_that_can_never_be_read_is_refused(writer: Any, reader: Any) -> None:
    """Each message is refused, whatever its bytes."""
    with pytest.raises(SowlineError) as caught:
        AvroCodec(schema_of(reader)).read(MessagePayload(b""), schema_of(writer))
    assert caught.value.reason == "incompatible schema"


def test_text_and_bytes_are_promoted_when_read() -> None:
    """The specification has it, though JSON of an earlier reader schema can't follow."""
    text, data = record(("a", "string")), record(("a", "bytes"))
    assert AvroCodec(schema_of(data)).read(MessagePayload(b"\2A"), schema_of(text)) == b'{"a":"QQ=="}'
    assert AvroCodec(schema_of(text)).read(MessagePayload(b"\2A"), schema_of(data)) == b'{"a":"A"}'
    with pytest.raises(SowlineError, match="/a: expected text in UTF-8"):
        AvroCodec(schema_of(text)).read(MessagePayload(b"\2\xff"), schema_of(data))


def test_the_branch_of_the_same_kind_comes_first() -> None:
    """An int is an int where the reader has one, though double comes first and could hold it."""
    reader = record(("a", ["double", "long", "int"]))
    assert (
        AvroCodec(schema_of(reader)).read(MessagePayload(b"\2"), schema_of(record(("a", "int"))))
        == b'{"a":1}'
    )
