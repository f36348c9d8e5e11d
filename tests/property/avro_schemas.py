"""Avro schemas: made by hand, or at random with JSON of their records and later versions."""

import json
from base64 import b64encode
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from sowline.codecs.schema import AVRO, Schema

Json = dict[str, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
INTS = st.integers(-(1 << 31), (1 << 31) - 1)
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
NON_FINITE = st.sampled_from(["NaN", "Infinity", "-Infinity"])
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)


def record(*fields: Any, name: str = "Order", **more: Any) -> Json:
    """Return the schema of a record. A field is its name and type, or an object."""
    made = [field if isinstance(field, dict) else {"name": field[0], "type": field[1]} for field in fields]
    return {"type": "record", "name": name, "fields": made, **more}


def schema_of(raw: Any, *references: tuple[str, str]) -> Schema:
    """Return a schema of Avro."""
    return Schema(AVRO, json.dumps(raw), references)


def logical(kind: str, name: str, **more: Any) -> Json:
    """Return a logical type."""
    return {"type": kind, "logicalType": name, **more}


def fixed(size: int, name: str = "", **more: Any) -> Json:
    """Return a fixed type."""
    return {"type": "fixed", "name": "Sized", "size": size, **({"logicalType": name} if name else {}), **more}


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


def _nanos(whole: datetime) -> str:
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{whole.microsecond:06}789"


_MICROS = st.datetimes().map(lambda when: when.isoformat(timespec="microseconds"))
_NANO_YEARS = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1))

PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": INTS,
    "long": LONGS,
    "float": FLOATS | NON_FINITE,
    "double": DOUBLES | NON_FINITE | st.integers(-(1 << 53), 1 << 53),
    "string": TEXTS,
    "bytes": st.binary(max_size=4).map(_base64),
}
LOGICAL: list[tuple[Json, st.SearchStrategy[Any]]] = [
    ({"type": "string", "logicalType": "uuid"}, st.uuids().map(str)),
    ({"type": "int", "logicalType": "date"}, st.dates().map(str)),
    (
        {"type": "int", "logicalType": "time-millis"},
        st.times().map(lambda clock: clock.isoformat(timespec="milliseconds")),
    ),
    (
        {"type": "long", "logicalType": "time-micros"},
        st.times().map(lambda clock: clock.isoformat(timespec="microseconds")),
    ),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        st.datetimes().map(lambda when: when.isoformat(timespec="milliseconds") + "Z"),
    ),
    ({"type": "long", "logicalType": "timestamp-micros"}, _MICROS.map(lambda text: text + "Z")),
    ({"type": "long", "logicalType": "timestamp-nanos"}, _NANO_YEARS.map(lambda when: _nanos(when) + "Z")),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, _MICROS),
    ({"type": "long", "logicalType": "local-timestamp-nanos"}, _NANO_YEARS.map(_nanos)),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        st.integers(-9999999 * 100, 9999999 * 100).map(lambda number: f"{Decimal(number).scaleb(-2):f}"),
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 30},
        st.integers(-(10**30) + 1, 10**30 - 1).map(str),
    ),
]
_DURATIONS = st.fixed_dictionaries(
    {part: st.integers(0, (1 << 32) - 1) for part in ("months", "days", "milliseconds")}
)


class _Drawing:
    """Draws one schema. `named` are the named types so far, by name."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self.named: dict[str, Json] = {}

    def _name(self, prefix: str) -> str:
        return f"{prefix}{len(self.named)}"

    def record(self, depth: int) -> Json:
        name = self._name("R")
        made: Json = {"type": "record", "name": name, "fields": []}
        self.named[name] = made
        for number in range(self._draw(st.integers(0 if depth < 3 else 1, 4))):
            made["fields"].append({"name": f"f{number}", "type": self.type(depth - 1)})
        if self._draw(st.integers(0, 4)) == 0:
            made["fields"].append({"name": "again", "type": self._draw(_circles(name))})
        return made

    def type(self, depth: int, is_branch: bool = False) -> Any:
        kinds = ["plain", "plain", "plain", "logical", "named"]
        if depth > 0:
            kinds += ["record", "array", "map"] + ["optional", "union"] * (not is_branch)
        match self._draw(st.sampled_from(kinds)):
            case "plain":
                return self._draw(st.sampled_from(sorted(PLAIN)))
            case "logical":
                return self._draw(st.sampled_from([schema for schema, _ in LOGICAL]))
            case "named":
                return self._sized_or_enum()
            case "record":
                return self.record(depth - 1)
            case "array":
                return {"type": "array", "items": self.type(depth - 1)}
            case "map":
                return {"type": "map", "values": self.type(depth - 1)}
            case "optional":
                branch = self.type(depth - 1, is_branch=True)
                return "null" if branch == "null" else self._draw(st.permutations(["null", branch]))
        return self._union(depth)

    def _union(self, depth: int) -> list[Any]:
        branches: dict[str, Any] = {}
        for _ in range(self._draw(st.integers(1, 4))):
            branch = self.type(depth - 1, is_branch=True)
            kind = branch if isinstance(branch, str) else branch.get("name", branch["type"])
            branches.setdefault(kind, branch)
        return list(branches.values())

    def _sized_or_enum(self) -> Json:
        name = self._name("N")
        made: Json = self._draw(
            st.sampled_from(
                [
                    {"type": "fixed", "size": 3},
                    {"type": "fixed", "size": 16, "logicalType": "uuid"},
                    {"type": "fixed", "size": 12, "logicalType": "duration"},
                    {"type": "fixed", "size": 5, "logicalType": "decimal", "precision": 9, "scale": 4},
                    {"type": "enum", "symbols": ["A", "B", "C"]},
                    {"type": "enum", "symbols": ["A", "B", "C"], "default": "C"},
                ]
            )
        )
        self.named[name] = made = made | {"name": name}
        return made


def _circles(name: str) -> st.SearchStrategy[Any]:
    return st.sampled_from(
        [["null", name], {"type": "array", "items": name}, {"type": "map", "values": ["null", name]}]
    )


@st.composite
def schemas(draw: Draw) -> Json:
    """Schemas of records: all types, unions, logical types, and records that contain themselves."""
    return _Drawing(draw).record(3)


def records_of(schema: Json) -> st.SearchStrategy[Json]:
    """JSON objects that fit a schema."""
    named: dict[str, Json] = {}
    _note_named(schema, named)
    return _values(schema, named, 6)


def _note_named(schema: Any, named: dict[str, Json]) -> None:
    if isinstance(schema, list):
        for part in schema:
            _note_named(part, named)
    elif isinstance(schema, dict):
        if "name" in schema:
            named[schema["name"]] = schema
        for part in (
            schema.get("items"),
            schema.get("values"),
            *(f["type"] for f in schema.get("fields", ())),
        ):
            _note_named(part, named)


def _values(schema: Any, named: dict[str, Json], depth: int) -> st.SearchStrategy[Any]:
    if isinstance(schema, list):
        branches = [branch for branch in schema if depth > 0 or not _is_mention(branch, named)] or schema
        return st.one_of([_values(branch, named, depth) for branch in branches])
    if isinstance(schema, str):
        return _values(named[schema], named, depth) if schema in named else PLAIN[schema]
    size = max(0, min(depth, 2))
    match schema["type"]:
        case "record":
            fields = {f["name"]: _values(f["type"], named, depth - 1) for f in schema["fields"]}
            return st.fixed_dictionaries(fields)
        case "array":
            return (
                st.lists(_values(schema["items"], named, depth - 2), max_size=size) if size else st.just([])
            )
        case "map":
            inner = _values(schema["values"], named, depth - 2) if size else st.none()
            return st.dictionaries(TEXTS, inner, max_size=size)
        case "enum":
            return st.sampled_from(schema["symbols"])
        case "fixed":
            return _fixed(schema)
    return next(values for other, values in LOGICAL if other == schema)


def _is_mention(branch: Any, named: dict[str, Json]) -> bool:
    return isinstance(branch, str) and branch in named


def _fixed(schema: Json) -> st.SearchStrategy[Any]:
    match schema.get("logicalType"):
        case "uuid":
            return st.uuids().map(str)
        case "duration":
            return _DURATIONS
        case "decimal":
            return st.integers(-99990000, 99990000).map(lambda number: f"{Decimal(number).scaleb(-4):f}")
    return st.binary(min_size=schema["size"], max_size=schema["size"]).map(_base64)


_WIDER = {"int": ["long", "float", "double"], "long": ["float", "double"], "float": ["double"]}


@st.composite
def later_versions(draw: Draw, schema: Json) -> Json:
    """Later versions of a schema. Most can read its records, by any of Avro's rules; some can't."""
    later: Json = _later(draw, schema)
    return later


def _later(draw: Draw, schema: Any) -> Any:
    if isinstance(schema, list):
        return [_later_branch(draw, branch) for branch in schema]
    if isinstance(schema, str):
        wider = draw(st.sampled_from([schema, *_WIDER.get(schema, [])]))
        return (
            draw(st.sampled_from([wider, wider, ["null", wider]]))
            if schema in PLAIN and wider != "null"
            else wider
        )
    match schema["type"]:
        case "record":
            fields = [field for old in schema["fields"] for field in _later_fields(draw, old)]
            return schema | {"fields": draw(st.permutations(fields))}
        case "array":
            return schema | {"items": _later(draw, schema["items"])}
        case "map":
            return schema | {"values": _later(draw, schema["values"])}
        case "enum" if draw(st.booleans()):
            return schema | {"symbols": ["B", "D", "C"]}
    return schema


def _later_branch(draw: Draw, branch: Any) -> Any:
    return branch if isinstance(branch, str) else _later(draw, branch)


def _later_fields(draw: Draw, old: Json) -> list[Json]:
    # A dropped field may define a type that another one mentions: only plain ones are dropped.
    is_plain = isinstance(old["type"], str) and old["type"] in PLAIN
    changes = ["keep", "keep", "rename", "add"] + ["drop"] * is_plain
    kept = {"name": old["name"], "type": _later(draw, old["type"])}
    match draw(st.sampled_from(changes)):
        case "drop":
            return []
        case "rename":
            return [kept | {"name": f"{old['name']}_renamed", "aliases": [old["name"]]}]
        case "add":
            added = draw(st.sampled_from([("int", 5), (["null", "long"], None), ("bytes", "\u00ff")]))
            return [kept, {"name": f"{old['name']}_added", "type": added[0], "default": added[1]}]
    return [kept]
