"""What is described: the JSON Schema of the canonical JSON."""

from sowline.codecs.avro import AvroCodec
from tests.property.avro_schemas import logical, record, schema_of


def test_the_description_is_a_json_schema() -> None:
    """It has the types, the required fields, and a definition of each named type."""
    side = {"type": "enum", "name": "ns.Side", "symbols": ["BUY"], "doc": "Which side."}
    raw = record(
        {"name": "id", "type": "long", "doc": "The number."},
        ("side", side),
        {"name": "note", "type": ["null", "string"], "default": None},
        ("px", logical("bytes", "decimal", precision=5, scale=2)),
        ("parent", ["null", "Order"]),
        ("tags", {"type": "map", "values": "double"}),
    )
    made = AvroCodec(schema_of(raw)).described()
    assert made["$ref"] == "#/$defs/Order"
    assert made["$defs"]["ns.Side"] == {"description": "Which side.", "type": "string", "enum": ["BUY"]}
    order = made["$defs"]["Order"]
    assert order["required"] == ["id", "side", "note", "px", "parent", "tags"]
    assert order["properties"]["id"]["description"] == "The number."
    assert order["properties"]["note"] == {"anyOf": [{"type": "null"}, {"type": "string"}], "default": None}
    assert order["properties"]["px"] == {"type": "string", "pattern": r"^-?[0-9]+\.[0-9]{2}$"}
    assert order["properties"]["parent"] == {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Order"}]}


def test_what_a_field_adds_is_its_own() -> None:
    """The text and the default of one field are not in the description of another one of its type."""
    raw = record({"name": "a", "type": "long", "doc": "The number.", "default": 5}, ("b", "long"))
    properties = AvroCodec(schema_of(raw)).described()["$defs"]["Order"]["properties"]
    assert properties["a"] == properties["b"] | {"description": "The number.", "default": 5}
    assert "default" not in properties["b"]
