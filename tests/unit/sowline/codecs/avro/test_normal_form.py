"""JSON of a record, or of an earlier schema, becomes canonical: branches of unions, missing fields, other names."""

from typing import Any

import pytest

from sowline.codecs.avro import AvroCodec
from sowline.codecs.schema import MessagePayload
from sowline.errors import SowlineError
from tests.property.avro_schemas import logical, record, schema_of
from tests.unit.sowline.codecs.avro.messages import Json


def test_upgraded_leaves_missing_what_has_no_default() -> None:
    """`completed` refuses the record afterwards."""
    codec = AvroCodec(schema_of(record(("a", "int"), ("b", "int"))))
    assert codec.upgraded(b'{"a":1,"c":2}') == b'{"a":1}'


def test_upgraded_renames_in_records_of_any_depth() -> None:
    """Aliases count inside arrays and in records that contain themselves."""
    later = record({"name": "below", "type": {"type": "array", "items": "Order"}, "aliases": ["nodes"]})
    body = b'{"nodes":[{"nodes":[]},{"nodes":[{"nodes":[]}]}]}'
    assert AvroCodec(schema_of(later)).upgraded(body) == body.replace(b"nodes", b"below")


@pytest.mark.parametrize(
    ("kind", "earlier", "later"),
    [
        ({"type": "enum", "name": "E", "symbols": ["A", "C"], "default": "A"}, '"B"', '"A"'),
        ({"type": "enum", "name": "E", "symbols": ["A", "C"], "default": "A"}, '"C"', '"C"'),
        ("long", "5.0", "5"),
        ("int", "5", "5"),
        ("double", "5", "5.0"),
    ],
)
def test_upgraded_reads_values_of_other_types(kind: Any, earlier: str, later: str) -> None:
    """A symbol that is gone becomes the default one; whole numbers are integers and doubles. No client may do so."""
    codec = AvroCodec(schema_of(record(("a", kind))))
    assert codec.upgraded(f'{{"a":{earlier}}}'.encode()) == f'{{"a":{later}}}'.encode()
    if earlier in ('"B"', "5.0"):
        with pytest.raises(SowlineError, match="/a: expected"):
            codec.completed(f'{{"a":{earlier}}}'.encode())


def test_upgraded_finds_the_record_of_a_union_by_its_fields() -> None:
    """A record that has lost a field is the one that still shares the others."""
    later = record(("a", [record(("x", "int"), name="A"), record(("y", "int"), ("z", "int"), name="B")]))
    assert AvroCodec(schema_of(later)).upgraded(b'{"a":{"z":1,"y":2,"w":3}}') == b'{"a":{"y":2,"z":1}}'


def test_a_union_of_records_takes_no_exponential_time() -> None:
    """Each level could be either record; only the last one shows that none fits."""
    kind = {
        "type": "record",
        "name": "A",
        "fields": [
            {
                "name": "next",
                "type": [
                    "null",
                    "A",
                    {"type": "record", "name": "B", "fields": [{"name": "next", "type": ["null", "A", "B"]}]},
                ],
            }
        ],
    }
    with pytest.raises(SowlineError) as caught:
        AvroCodec(schema_of(kind)).write(b'{"next":' * 400 + b"5" + b"}" * 400)
    assert caught.value.reason == "bad message"


@pytest.mark.parametrize(
    ("branches", "value", "number"),
    [
        (["null", "double", "long"], "5", 2),
        (["null", "double", "long"], "5.5", 1),
        (["null", "double"], "5", 1),
        (["int", "long"], "5", 0),
        (["int", "long"], "2147483648", 1),
        (["float", "double"], "0.1", 0),
        (["float", "double"], "0.12345678901", 1),
        (["bytes", "string"], '"QQ=="', 0),
        (["bytes", "string"], '"text!"', 1),
        ([logical("bytes", "decimal", precision=5, scale=2), "string"], '"12.30"', 0),
        ([logical("bytes", "decimal", precision=5, scale=2), "string"], '"12.3"', 1),
        ([logical("long", "timestamp-millis"), "string"], '"2026-11-26T12:34:56.789Z"', 0),
        ([logical("long", "timestamp-millis"), "string"], '"yesterday"', 1),
        ([{"type": "enum", "name": "E", "symbols": ["A"]}, "string"], '"A"', 0),
        ([{"type": "enum", "name": "E", "symbols": ["A"]}, "string"], '"B"', 1),
        ([record(("x", "int"), name="A"), record(("x", "int"), ("y", "int"), name="B")], '{"x":1}', 0),
        ([record(("x", "int"), name="A"), record(("x", "int"), ("y", "int"), name="B")], '{"x":1,"y":2}', 1),
        ([record(("x", "int"), name="A"), record(("x", "string"), name="B")], '{"x":"t"}', 1),
        ([record(("x", "double"), name="A"), {"type": "map", "values": "long"}], '{"x":5}', 1),
        ([record(("x", "double"), name="A"), {"type": "map", "values": "long"}], '{"x":5.5}', 0),
        (["int", {"type": "array", "items": "int"}], "[1]", 1),
    ],
)
def test_json_is_of_the_branch_that_it_fits_best(branches: list[Any], value: str, number: int) -> None:
    """Canonical forms come first, then the order of the branches."""
    data = AvroCodec(schema_of(record(("a", branches)))).write(f'{{"a":{value}}}'.encode())
    assert data[0] == 2 * number


def nested_records(kind: Any, depth: int, prefix: str) -> Json:
    """Return the schema of records in records, with a value at the bottom."""
    for level in range(depth):
        kind = record(("x", kind), name=f"{prefix}{level}")
    return kind  # type: ignore[no-any-return]


def test_records_that_differ_far_below_are_one_for_a_union() -> None:
    """The first record is taken, and a value of the second is refused: values count down to three levels."""
    raw = record(
        ("a", [nested_records("int", 5, "A"), nested_records(record(("y", "int"), name="Y"), 5, "B")])
    )
    codec = AvroCodec(schema_of(raw))
    for value, fits in (("1", True), ('{"y":1}', False)):
        body = ('{"a":' + '{"x":' * 5 + value + "}" * 6).encode()
        if fits:
            assert codec.read(MessagePayload(codec.write(body)), schema_of(raw)) == body
        else:
            with pytest.raises(SowlineError, match="/a/x/x/x/x/x: expected an integer of 32 bits"):
                codec.write(body)


def test_completed_refuses_a_missing_field() -> None:
    """Without a default there is nothing to add: `incomplete record` on the log, `bad message` from a writer."""
    inner = record(("x", "int"), name="Inner")
    codec = AvroCodec(schema_of(record(("a", inner), {"name": "b", "type": "int", "default": 7})))
    assert codec.completed(b'{"b":1,"a":{"x":2}}') == b'{"a":{"x":2},"b":1}'
    assert codec.completed(b'{"a":{"x":2}}') == b'{"a":{"x":2},"b":7}'
    for call, reason in ((codec.completed, "incomplete record"), (codec.write, "bad message")):
        with pytest.raises(SowlineError, match="/a/x: expected int: a field without a default") as caught:
            call(b'{"a":{}}')
        assert caught.value.reason == reason


def test_a_writer_names_only_fields_of_the_schema() -> None:
    """A misspelled field is refused, not dropped."""
    codec = AvroCodec(schema_of(record({"name": "a", "type": "int", "default": 0})))
    with pytest.raises(SowlineError, match="/b: expected a field of the schema, got 'b'"):
        codec.write(b'{"b":1}')
