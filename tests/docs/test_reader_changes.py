"""A reader schema that changes is taken or refused, and its records become, what docs/message-types.md says.

The words before a condition (`if …`, `without …`) are looked up in `VERDICTS`. A page that says something else than
the cases below fails, and so does a word that has no check.
"""

from collections.abc import Callable
from typing import NamedTuple

import orjson
import pytest

from sowline.codecs.codec import codec_of
from sowline.codecs.compatibility import why_unreadable
from sowline.codecs.schema import JSON_SCHEMA, Schema
from sowline.errors import SowlineError
from tests.docs.message_schemas import (
    AB,
    ABC,
    BARE,
    CLOSED_2,
    CLOSED_3,
    DEFAULT,
    IMPORTS,
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


class Upgrade(NamedTuple):
    """Two reader schemas, a record under the first, and what it becomes under the second; None if that is refused."""

    earlier: Schema
    later: Schema
    before: Fields
    after: Fields | None

    def outcome(self) -> Fields | None:
        """Return the record under the second schema, as a command that changes it would store it."""
        codec = codec_of(self.later)
        if why_unreadable(self.later, self.earlier):
            with pytest.raises(SowlineError) as caught:
                codec.check_reads(self.earlier)
            assert caught.value.reason == "incompatible schema"
            return None
        stored = codec_of(self.earlier).completed(orjson.dumps(self.before))
        found: Fields = orjson.loads(codec.completed(codec.upgraded(stored)))
        return found


def is_dropped_and_added(upgrade: Upgrade) -> bool:
    """The old value is not under the new name."""
    return upgrade.after is not None and upgrade.after.get("y") != upgrade.before["x"]


VERDICTS: dict[str, Callable[[Upgrade], bool]] = {
    "yes": lambda upgrade: upgrade.after is not None,
    "no": lambda upgrade: upgrade.after is None,
    "restored": lambda upgrade: "@unknown" in upgrade.before and upgrade.after == OPEN,
    "as dropped and added": is_dropped_and_added,
}
UNKNOWN_X = BARE | {"@unknown": {"2": "EgRvcGVu"}}
INTEGER, NUMBER = {"type": "integer"}, {"type": "number"}
NULLABLE = {"type": ["integer", "null"]}
READER_CHANGES: dict[str, tuple[dict[str, list[Upgrade]], ...]] = {
    "a field is added: in Avro with a default, else optional": (
        {"yes": [Upgrade(avro(), avro(DEFAULT), BARE, OPEN)]},
        {
            "yes": [
                Upgrade(proto(""), proto(X), BARE, BARE | {"x": ""}),
                Upgrade(proto(""), proto(f"optional {X}"), BARE, BARE),
            ],
            "restored from `@unknown` if it was there": [Upgrade(proto(""), proto(X), UNKNOWN_X, OPEN)],
        },
        {"yes": [Upgrade(js(), js(NAMED), BARE, BARE)]},
    ),
    "a field is added: in Avro without a default, else required": (
        {
            "no": [
                Upgrade(avro(), avro(STRING), BARE, None),
                Upgrade(avro(), avro(field(["null", "string"])), BARE, None),
            ]
        },
        {"no": [Upgrade(proto("", "", "proto2"), proto(f"required {X}", "", "proto2"), BARE, None)]},
        {
            "no": [
                Upgrade(js(), js(NAMED, ("x",)), BARE, None),
                Upgrade(js(NAMED), js(NAMED, ("x",)), BARE, None),
            ]
        },
    ),
    "a field is dropped": (
        {"yes": [Upgrade(avro(STRING), avro(), OPEN, BARE)]},
        {"yes": [Upgrade(proto(X), proto(""), OPEN, BARE)]},
        {
            "yes": [Upgrade(js(NAMED), js(), OPEN, OPEN)],
            "no if `additionalProperties` is false": [
                Upgrade(js(NAMED), js(additionalProperties=False), OPEN, None)
            ],
        },
    ),
    "a field is renamed": (
        {
            "yes with an alias": [
                Upgrade(avro(STRING), avro(field("string", "y", aliases=["x"])), OPEN, {"id": 1, "y": "open"})
            ],
            "as dropped and added without one": [
                Upgrade(avro(STRING), avro(field("string", "y", default="")), OPEN, {"id": 1, "y": ""})
            ],
        },
        {"no": [Upgrade(proto(X), proto("string y = 2;"), OPEN, None)]},
        {
            "as dropped and added": [
                Upgrade(js(NAMED), Schema(JSON_SCHEMA, orjson.dumps(Y_NAMED).decode()), OPEN, OPEN)
            ]
        },
    ),
    "a number becomes wider": (
        {
            "yes": [
                Upgrade(avro(field("int")), avro(field("long")), ONE, ONE),
                Upgrade(avro(field("int")), avro(field("double")), ONE, ONE),
                Upgrade(
                    avro(field("float")), avro(field("double")), {"id": 1, "x": 0.1}, {"id": 1, "x": 0.1}
                ),
            ]
        },
        {
            "yes between integers": [
                Upgrade(proto("int32 x = 2;"), proto("int64 x = 2;"), ONE, ONE),
                Upgrade(proto("uint32 x = 2;"), proto("int64 x = 2;"), ONE, ONE),
            ],
            "no from `float` to `double`": [
                Upgrade(proto("float x = 2;"), proto("double x = 2;"), ONE, None)
            ],
        },
        {"yes": [Upgrade(js(INTEGER), js(NUMBER), ONE, ONE)]},
    ),
    "a number becomes narrower": (
        {"no": [Upgrade(avro(field("long")), avro(field("int")), ONE, None)]},
        {"no": [Upgrade(proto("int64 x = 2;"), proto("int32 x = 2;"), ONE, None)]},
        {
            "no": [
                Upgrade(js(NUMBER), js(INTEGER), ONE, None),
                Upgrade(js(INTEGER), js(INTEGER | {"maximum": 9}), ONE, None),
            ]
        },
    ),
    "a field may now be null or absent": (
        {"yes": [Upgrade(avro(field("int")), avro(field(["null", "int"])), ONE, ONE)]},
        {"yes": [Upgrade(proto("int32 x = 2;"), proto("optional int32 x = 2;"), ONE, ONE)]},
        {
            "yes": [
                Upgrade(js(INTEGER), js(NULLABLE), ONE, ONE),
                Upgrade(js(INTEGER, ("x",)), js(INTEGER), ONE, ONE),
            ]
        },
    ),
    "a field may no longer be null or absent": (
        {"no": [Upgrade(avro(field(["null", "int"])), avro(field("int")), ONE, None)]},
        {"yes": [Upgrade(proto("optional int32 x = 2;"), proto("int32 x = 2;"), BARE, {"id": 1, "x": 0})]},
        {"no": [Upgrade(js(NULLABLE), js(INTEGER), ONE, None)]},
    ),
    "an enum gets a symbol": (
        {"yes": [Upgrade(avro(field(AB)), avro(field(ABC)), {"id": 1, "x": "B"}, {"id": 1, "x": "B"})]},
        {
            "yes": [
                Upgrade(proto(*OPEN_2), proto(*OPEN_3), {"id": 1, "x": 2}, {"id": 1, "x": "C"}),
                Upgrade(
                    proto(*CLOSED_2),
                    proto(*CLOSED_3),
                    {"id": 1, "@unknown": {"2": "EAM="}},
                    {"id": 1, "x": "C"},
                ),
            ]
        },
        {
            "yes": [
                Upgrade(
                    js({"enum": ["A"]}), js({"enum": ["A", "B"]}), {"id": 1, "x": "A"}, {"id": 1, "x": "A"}
                )
            ]
        },
    ),
    "an enum loses a symbol": (
        {
            "no": [Upgrade(avro(field(ABC)), avro(field(AB)), {"id": 1, "x": "C"}, None)],
            "yes with a default symbol": [
                Upgrade(
                    avro(field(ABC)),
                    avro(field(AB | {"default": "A"})),
                    {"id": 1, "x": "C"},
                    {"id": 1, "x": "A"},
                )
            ],
        },
        {"no": [Upgrade(proto(*OPEN_3), proto(*OPEN_2), {"id": 1, "x": "C"}, None)]},
        {"no": [Upgrade(js({"enum": ["A", "B"]}), js({"enum": ["A"]}), {"id": 1, "x": "A"}, None)]},
    ),
    "a field moves into a `oneof`": (
        {},
        {
            "yes": [Upgrade(proto(f"optional {X}"), proto(f"oneof one {{ {X} int32 y = 3; }}"), OPEN, OPEN)],
            "no if the `oneof` gets another of the old fields": [
                Upgrade(
                    proto(f"optional {X} optional int32 y = 3;"),
                    proto(f"oneof one {{ {X} int32 y = 3; }}"),
                    OPEN,
                    None,
                )
            ],
        },
        {},
    ),
    "the record gets another name": (
        {
            "yes with an alias": [
                Upgrade(avro(STRING), avro(STRING, name="Other", aliases=["Order"]), OPEN, OPEN)
            ],
            "no without one": [Upgrade(avro(STRING), avro(STRING, name="Other"), OPEN, None)],
        },
        {"no": [Upgrade(proto(X), proto(X, name="Other"), OPEN, None)]},
        {"yes": [Upgrade(js(NAMED, title="Order"), js(NAMED, title="Other"), OPEN, OPEN)]},
    ),
    "a type changes between text and bytes, or to another logical type": (
        {
            "no": [
                Upgrade(avro(STRING), avro(field("bytes")), OPEN, None),
                Upgrade(avro(field("bytes")), avro(STRING), {"id": 1, "x": "YQ=="}, None),
                Upgrade(avro(field("long")), avro(field(logical("timestamp-millis", "long"))), ONE, None),
            ]
        },
        {
            "no": [
                Upgrade(proto(X), proto("bytes x = 2;"), OPEN, None),
                Upgrade(
                    proto("Leg x = 2;", PROTO_TYPES),
                    proto("google.protobuf.Timestamp x = 2;", IMPORTS),
                    {"id": 1, "x": {"z": 1}},
                    None,
                ),
            ]
        },
        {},
    ),
}
READER_ROWS = rows_of(PAGE, "change of the reader schema", "Avro", "Protobuf", "JSON Schema")


@pytest.mark.parametrize("row", READER_ROWS, ids=lambda row: str(row[0]))
@pytest.mark.parametrize("column", range(3), ids=TYPES)
def test_a_change_of_the_reader_schema(row: list[str], column: int) -> None:
    """The new schema is taken or refused, as the cell says, and records become what its words mean."""
    cases = READER_CHANGES[row[0]][column]
    assert [bare(phrase) for phrase in phrases_of(row[column + 1])] == list(map(bare, cases))
    for phrase, upgrades in cases.items():
        for upgrade in upgrades:
            assert upgrade.outcome() == upgrade.after, phrase
            assert VERDICTS[main_words(phrase)](upgrade), phrase
            assert {upgrade.earlier.type, upgrade.later.type} == {TYPES[column]}


def test_each_change_of_the_reader_schema_has_a_row() -> None:
    """No case is about a row that the page has no more."""
    assert list(READER_CHANGES) == [row[0] for row in READER_ROWS]
