"""Messages under a writer's schema that has changed are read as docs/message-types.md says.

The words before a condition (`if …`, `without …`) are looked up in `MEANS`. A page that says something else than the
cases below fails, and so does a word that has no check.
"""

from collections.abc import Callable
from typing import NamedTuple

import orjson
import pytest

from sowline.codecs.codec import codec_of
from sowline.codecs.schema import JSON_SCHEMA, MessagePayload, Schema
from sowline.errors import SowlineError
from tests.docs.message_schemas import (
    A_UUID,
    AB,
    ABC,
    BARE,
    CLOSED_2,
    CLOSED_3,
    DEFAULT,
    NAMED,
    ONE,
    OPEN,
    OPEN_2,
    OPEN_3,
    PAGE,
    PROTO_TYPES,
    STRING,
    TYPES,
    Y_NAMED,
    Fields,
    X,
    avro,
    bare,
    field,
    js,
    logical,
    main_words,
    phrases_of,
    proto,
)
from tests.docs.pages import rows_of


class Change(NamedTuple):
    """A message, the schemas that it is written and read with, and the JSON that comes, or a reason."""

    writer: Schema
    reader: Schema
    written: Fields
    read: Fields | str

    def outcome(self) -> Fields | str:
        """Return what the codec makes of it."""
        data = codec_of(self.writer).write(orjson.dumps(self.written))
        try:
            found: Fields = orjson.loads(codec_of(self.reader).read(MessagePayload(data), self.writer))
        except SowlineError as error:
            return error.reason
        return found


def as_dropped_and_added(change: Change) -> bool:
    """The old name has what a dropped field has, and the new one what an added field has."""
    if not isinstance(change.read, dict):
        return False
    value = change.written["y"]
    kept = change.read.get("y")
    return change.read.get("x") != value and kept in (None, value)


def is_read(change: Change) -> bool:
    """Return whether the value comes as it was written, whatever the field is called."""
    got = change.read
    if not isinstance(got, dict):
        return False
    text = {"YQ==": "a"}
    values = [text.get(value, value) if isinstance(value, str) else value for value in got.values()]
    written = [
        text.get(value, value) if isinstance(value, str) else value for value in change.written.values()
    ]
    return sorted(map(str, values)) == sorted(map(str, written))


MEANS: dict[str, Callable[[Change], bool]] = {
    "left out": lambda change: change.read == BARE and len(change.written) > 1,
    "kept": lambda change: change.read == change.written,
    "kept in `@unknown": lambda change: "x" in change.written and set(change.read) == {"id", "@unknown"},
    "its default": lambda change: change.written == BARE and change.read == OPEN,
    "its default symbol": lambda change: change.read == {"id": 1, "x": "A"},
    "its zero value": lambda change: (
        change.written == BARE and change.read in (BARE | {"x": ""}, BARE | {"x": 0})
    ),
    "its number": lambda change: change.read == {"id": 1, "x": 2},
    "absent": lambda change: change.written == BARE and change.read == BARE,
    "as dropped and added": as_dropped_and_added,
    "read": is_read,
    "truncated": lambda change: change.read == {"id": 1, "x": change.written["x"] % 2**32},
    "bad message": lambda change: change.read == "bad message",
    "incompatible schema": lambda change: change.read == "incompatible schema",
}

WRITER_CHANGES: dict[str, tuple[dict[str, list[Change]], ...]] = {
    "a field is added": (
        {"left out": [Change(avro(STRING), avro(), OPEN, BARE)]},
        {"kept in `@unknown`": [Change(proto(X), proto(""), OPEN, BARE | {"@unknown": {"2": "EgRvcGVu"}})]},
        {
            "kept": [Change(js(NAMED), js(), OPEN, OPEN)],
            "`bad message` if `additionalProperties` is false": [
                Change(js(NAMED), js(additionalProperties=False), OPEN, "bad message")
            ],
        },
    ),
    "a field is dropped": (
        {
            "its default": [Change(avro(), avro(DEFAULT), BARE, OPEN)],
            "`incompatible schema` without one": [
                Change(avro(), avro(STRING), BARE, "incompatible schema"),
                Change(avro(), avro(field(["null", "string"])), BARE, "incompatible schema"),
            ],
        },
        {
            "its zero value": [Change(proto(""), proto(X), BARE, BARE | {"x": ""})],
            "absent if it is `optional` or a message": [
                Change(proto(""), proto(f"optional {X}"), BARE, BARE),
                Change(proto(""), proto("Leg x = 2;", PROTO_TYPES), BARE, BARE),
            ],
            "`bad message` if it is `required`": [
                Change(proto("", "", "proto2"), proto(f"required {X}", "", "proto2"), BARE, "bad message")
            ],
        },
        {
            "absent": [Change(js(), js(NAMED | {"default": "open"}), BARE, BARE)],
            "`bad message` if it is required": [Change(js(), js(NAMED, ("x",)), BARE, "bad message")],
        },
    ),
    "a field is renamed": (
        {
            "as dropped and added": [
                Change(avro(field("string", "y")), avro(DEFAULT), {"id": 1, "y": "a"}, OPEN)
            ],
            "read if the reader's field has the new name as an alias": [
                Change(
                    avro(field("string", "y")),
                    avro(field("string", aliases=["y"])),
                    {"id": 1, "y": "a"},
                    {"id": 1, "x": "a"},
                )
            ],
        },
        {"read": [Change(proto("string y = 2;"), proto(X), {"id": 1, "y": "a"}, {"id": 1, "x": "a"})]},
        {
            "as dropped and added": [
                Change(
                    Schema(JSON_SCHEMA, orjson.dumps(Y_NAMED).decode()),
                    js(NAMED),
                    {"id": 1, "y": "a"},
                    {"id": 1, "y": "a"},
                )
            ]
        },
    ),
    "fields are reordered": (
        {
            "read": [
                Change(
                    avro(STRING, field("int", "y")),
                    avro(field("int", "y"), STRING),
                    OPEN | {"y": 2},
                    OPEN | {"y": 2},
                )
            ]
        },
        {
            "read": [
                Change(
                    proto(f"{X} int32 y = 3;"), proto(f"int32 y = 3; {X}"), OPEN | {"y": 2}, OPEN | {"y": 2}
                )
            ]
        },
        {"read": [Change(js(NAMED), js(NAMED), {"x": "open", "id": 1}, {"x": "open", "id": 1})]},
    ),
    "a number becomes wider (`int` to `long`)": (
        {
            "`incompatible schema`": [
                Change(avro(field("long")), avro(field("int")), ONE, "incompatible schema"),
                Change(avro(field("double")), avro(field("float")), ONE, "incompatible schema"),
            ],
            "read if the reader's type is as wide": [
                Change(avro(field("long")), avro(field("long")), ONE, ONE),
                Change(avro(field("int")), avro(field("long")), ONE, ONE),
            ],
        },
        {
            "read": [Change(proto("int64 x = 2;"), proto("int32 x = 2;"), ONE, ONE)],
            "truncated if the value is too large": [
                Change(
                    proto("int64 x = 2;"), proto("int32 x = 2;"), {"id": 1, "x": 2**32 + 5}, {"id": 1, "x": 5}
                )
            ],
        },
        {
            "read": [Change(js({"type": "number"}), js({"type": "integer"}), ONE, ONE)],
            "`bad message` if the value doesn't fit": [
                Change(js({"type": "number"}), js({"type": "integer"}), {"id": 1, "x": 1.5}, "bad message"),
                Change(
                    js({"type": "integer"}),
                    js({"type": "integer", "maximum": 9}),
                    {"id": 1, "x": 10},
                    "bad message",
                ),
            ],
        },
    ),
    "a number becomes narrower (`long` to `int`)": (
        {"read": [Change(avro(field("int")), avro(field("long")), ONE, ONE)]},
        {"read": [Change(proto("int32 x = 2;"), proto("int64 x = 2;"), ONE, ONE)]},
        {"read": [Change(js({"type": "integer"}), js({"type": "number"}), ONE, ONE)]},
    ),
    "an integer becomes a `double`": (
        {
            "`incompatible schema`": [
                Change(avro(field("double")), avro(field("long")), ONE, "incompatible schema")
            ]
        },
        {
            "`incompatible schema`": [
                Change(proto("double x = 2;"), proto("int64 x = 2;"), ONE, "incompatible schema")
            ]
        },
        {
            "read": [Change(js({"type": "number"}), js({"type": "integer"}), ONE, ONE)],
            "`bad message` if it has a fraction": [
                Change(js({"type": "number"}), js({"type": "integer"}), {"id": 1, "x": 1.5}, "bad message")
            ],
        },
    ),
    "a field may now be null or absent": (
        {
            "read": [Change(avro(field(["null", "int"])), avro(field("int")), ONE, ONE)],
            "`incompatible schema` if it is null": [
                Change(
                    avro(field(["null", "int"])),
                    avro(field("int")),
                    {"id": 1, "x": None},
                    "incompatible schema",
                )
            ],
        },
        {
            "read": [Change(proto("optional int32 x = 2;"), proto("int32 x = 2;"), ONE, ONE)],
            "its zero value if it is absent": [
                Change(proto("optional int32 x = 2;"), proto("int32 x = 2;"), BARE, {"id": 1, "x": 0})
            ],
        },
        {
            "read": [Change(js({"type": ["integer", "null"]}), js({"type": "integer"}), ONE, ONE)],
            "`bad message` if it is null": [
                Change(
                    js({"type": ["integer", "null"]}),
                    js({"type": "integer"}),
                    {"id": 1, "x": None},
                    "bad message",
                )
            ],
        },
    ),
    "a union gets a branch": (
        {
            "read": [
                Change(avro(field(["null", "int", "string"])), avro(field(["null", "int"])), ONE, ONE),
            ],
            "`incompatible schema` if the value has this branch": [
                Change(
                    avro(field(["null", "int", "string"])),
                    avro(field(["null", "int"])),
                    OPEN,
                    "incompatible schema",
                )
            ],
        },
        {},
        {
            "read": [Change(js({"type": ["integer", "string"]}), js({"type": "integer"}), ONE, ONE)],
            "`bad message` if the value has this type": [
                Change(js({"type": ["integer", "string"]}), js({"type": "integer"}), OPEN, "bad message")
            ],
        },
    ),
    "an enum gets a symbol": (
        {
            "its default symbol": [
                Change(
                    avro(field(ABC)),
                    avro(field(AB | {"default": "A"})),
                    {"id": 1, "x": "C"},
                    {"id": 1, "x": "A"},
                )
            ],
            "`incompatible schema` without one": [
                Change(avro(field(ABC)), avro(field(AB)), {"id": 1, "x": "C"}, "incompatible schema")
            ],
        },
        {
            "its number": [Change(proto(*OPEN_3), proto(*OPEN_2), {"id": 1, "x": "C"}, {"id": 1, "x": 2})],
            "kept in `@unknown` if the enum is closed": [
                Change(
                    proto(*CLOSED_3),
                    proto(*CLOSED_2),
                    {"id": 1, "x": "C"},
                    {"id": 1, "@unknown": {"2": "EAM="}},
                )
            ],
        },
        {
            "`bad message`": [
                Change(
                    js({"enum": ["A", "B", "C"]}),
                    js({"enum": ["A", "B"]}),
                    {"id": 1, "x": "C"},
                    "bad message",
                )
            ]
        },
    ),
    "a field moves into a `oneof`": (
        {},
        {"read": [Change(proto(f"oneof one {{ {X} int32 y = 3; }}"), proto(f"optional {X}"), OPEN, OPEN)]},
        {},
    ),
    "a field leaves a `oneof`": (
        {},
        {
            "`incompatible schema`": [
                Change(
                    proto(f"optional {X} oneof one {{ int32 y = 3; }}"),
                    proto(f"oneof one {{ {X} int32 y = 3; }}"),
                    OPEN,
                    "incompatible schema",
                )
            ],
            "read if the `oneof` had no other field": [
                Change(proto(f"optional {X}"), proto(f"oneof one {{ {X} }}"), OPEN, OPEN)
            ],
        },
        {},
    ),
    "the record gets another name": (
        {
            "`incompatible schema`": [
                Change(avro(STRING, name="Other"), avro(STRING), OPEN, "incompatible schema")
            ],
            "read if only the namespace differs": [
                Change(avro(STRING, namespace="other"), avro(STRING), OPEN, OPEN)
            ],
            "read if the reader's record has the new name as an alias": [
                Change(avro(STRING, name="Other"), avro(STRING, aliases=["Other"]), OPEN, OPEN)
            ],
        },
        {
            "`incompatible schema`": [
                Change(proto(X, name="Other"), proto(X), OPEN, "incompatible schema"),
            ]
        },
        {"read": [Change(js(NAMED, title="Other"), js(NAMED, title="Order"), OPEN, OPEN)]},
    ),
    "`string` becomes `bytes`": (
        {"read": [Change(avro(field("bytes")), avro(STRING), {"id": 1, "x": "YQ=="}, {"id": 1, "x": "a"})]},
        {"read": [Change(proto("bytes x = 2;"), proto(X), {"id": 1, "x": "YQ=="}, {"id": 1, "x": "a"})]},
        {},
    ),
    "a logical type changes": (
        {
            "`incompatible schema`": [
                Change(
                    avro(field(logical("timestamp-millis", "long"))),
                    avro(field(logical("timestamp-micros", "long"))),
                    {"id": 1, "x": "2026-11-26T12:34:56.789Z"},
                    "incompatible schema",
                ),
                Change(
                    avro(field(logical("decimal", "bytes", precision=9, scale=2))),
                    avro(field(logical("decimal", "bytes", precision=9, scale=3))),
                    {"id": 1, "x": "1.50"},
                    "incompatible schema",
                ),
            ],
            "read if the reader has none": [
                Change(
                    avro(field(logical("uuid", "string"))),
                    avro(STRING),
                    {"id": 1, "x": A_UUID},
                    {"id": 1, "x": A_UUID},
                )
            ],
        },
        {},
        {},
    ),
    "a type changes otherwise": (
        {"`incompatible schema`": [Change(avro(STRING), avro(field("int")), OPEN, "incompatible schema")]},
        {
            "`incompatible schema`": [
                Change(proto(X), proto("int32 x = 2;"), OPEN, "incompatible schema"),
                Change(proto("sint32 x = 2;"), proto("int32 x = 2;"), ONE, "incompatible schema"),
                Change(proto("int32 x = 2;"), proto("repeated int32 x = 2;"), ONE, "incompatible schema"),
            ]
        },
        {"`bad message`": [Change(js(NAMED), js({"type": "integer"}), OPEN, "bad message")]},
    ),
}
WRITER_ROWS = rows_of(PAGE, "change of the writer's schema", "Avro", "Protobuf", "JSON Schema")


@pytest.mark.parametrize("row", WRITER_ROWS, ids=lambda row: str(row[0]))
@pytest.mark.parametrize("column", range(3), ids=TYPES)
def test_a_change_of_the_writers_schema(row: list[str], column: int) -> None:
    """What the cell says comes of messages under the changed schema, and the words mean that."""
    cases = WRITER_CHANGES[row[0]][column]
    assert [bare(phrase) for phrase in phrases_of(row[column + 1])] == list(map(bare, cases))
    for phrase, changes in cases.items():
        for change in changes:
            assert change.outcome() == change.read, phrase
            assert MEANS[main_words(phrase)](change), phrase
            assert {change.writer.type, change.reader.type} == {TYPES[column]}


def test_each_change_of_the_writers_schema_has_a_row() -> None:
    """No case is about a row that the page has no more."""
    assert list(WRITER_CHANGES) == [row[0] for row in WRITER_ROWS]
