"""The types of an Avro schema as objects: read from its text, named types found."""

from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from fastavro.schema import parse_schema

from sowline.codecs.avro.misfit import SchemaMisfit
from sowline.codecs.errors import bad_schema
from sowline.codecs.schema import Schema
from sowline.model.body import why_not_json

SCHEMA_NESTING_MAX: Final = 100
"""The number of levels of objects and arrays in the text of a schema. Types that name each other need none."""

PRECISION_MAX: Final = 1000
"""The number of digits of a decimal. Python converts a few thousand digits at most."""

FIXED_BYTES_MAX: Final = 1 << 24
"""The size of a fixed type. A missing field of this type is filled with this many bytes."""

_NAMED: Final = ("record", "enum", "fixed")
_UNITS: Final = {"millis": 3, "micros": 6, "nanos": 9}
_LOGICAL: Final = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    **{f"{kind}-{unit}": "long" for kind in ("timestamp", "local-timestamp") for unit in _UNITS},
}


@dataclass(eq=False, slots=True)
class AvroType:
    """One type of a schema. `kind` is Avro's word, `union`, or `reference`: a mention of a record by its name.

    Only references can form a cycle, so functions can recurse through all other types.
    """

    kind: str
    logical: str = ""
    """The logical type; empty if there is none that Sowline knows for this kind."""
    name: str = ""
    """The full name of a record, enum or fixed."""
    aliases: tuple[str, ...] = ()
    size: int = 0
    precision: int = 0
    scale: int = 0
    symbols: tuple[str, ...] = ()
    default_symbol: str | None = None
    doc: str = ""
    items: "AvroType | None" = None
    """The type of the items of an array, or of the values of a map."""
    branches: tuple["AvroType", ...] = ()
    fields: tuple["AvroField", ...] = ()
    target: "AvroType | None" = None
    """The record that a reference mentions."""
    is_delta: bool = False
    """Whether a field of this record is absent if its value is null."""

    @property
    def of(self) -> "AvroType":
        """The items of an array, or the values of a map."""
        assert self.items is not None
        return self.items

    @property
    def itself(self) -> "AvroType":
        """The record that a reference mentions; any other type itself."""
        return self.target or self

    @property
    def digits(self) -> int:
        """The number of digits of a second's fraction."""
        return _UNITS[self.logical.rpartition("-")[2]]

    @property
    def null_index(self) -> int:
        """The number of the null branch of a union; -1 if it has none."""
        return next((n for n, branch in enumerate(self.branches) if branch.kind == "null"), -1)

    @property
    def is_optional(self) -> bool:
        """Whether this is a union of null and one other type."""
        return len(self.branches) == 2 and self.null_index >= 0

    def __str__(self) -> str:
        """Return the type as a short text for messages."""
        if self.kind == "union":
            return " or ".join(str(branch) for branch in self.branches)
        if self.logical == "decimal":
            return f"a decimal of scale {self.scale}"
        return self.logical or f"{self.itself.kind} {self.itself.name}".strip()


@dataclass(eq=False, slots=True)
class AvroField:
    """A field of a record. `default` is as in the schema: bytes as text, a value of the first branch of a union."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    has_default: bool = False
    default: Any = None
    doc: str = ""


@dataclass(eq=False, slots=True)
class AvroTypes:
    """A schema: the types of its references, in order, and the record of its messages."""

    references: list[AvroType] = field(default_factory=list)
    root: AvroType = field(default_factory=lambda: AvroType("null"))


def load_types(schema: Schema) -> AvroTypes:
    """Return the types of a schema; raise `bad schema` if it is not valid, or its top is not a record."""
    types = AvroTypes()
    parsed_names: dict[str, Any] = {}
    records: dict[str, AvroType] = {}
    for name, text in schema.references:
        types.references.append(_load(text, f"the schema {name}", parsed_names, records))
    types.root = _load(schema.text, "the schema", parsed_names, records).itself
    if types.root.kind != "record":
        raise bad_schema(f"expected an Avro schema of a record, got one of {types.root}")
    return types


def _load(text: str, what: str, parsed_names: dict[str, Any], named: dict[str, AvroType]) -> AvroType:
    try:
        raw = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise bad_schema(why_not_json(text.encode(errors="replace"), error, what)) from error
    _check_depth(raw, what)
    try:
        # fastavro refuses some valid defaults, like 0 for `{"type": "double"}`. `Defaults` checks them.
        return _Builder(named).type_of(parse_schema(raw, parsed_names, _ignore_default_error=True))
    except SchemaMisfit as misfit:
        raise misfit.error("bad schema") from None
    # These come from the process, not from the schema. As `bad schema` they would be cached, and refuse every later
    # message under the schema.
    except (MemoryError, RecursionError):
        raise
    # fastavro reports an invalid schema by whatever exception its first wrong step raises.
    except Exception as error:
        raise bad_schema(
            f"expected {what} to be a valid Avro schema, got {type(error).__name__}: {error}"
        ) from error


def _check_depth(raw: Any, what: str) -> None:
    """Raise if a schema nests too deep for functions that recurse through its types."""
    # Not recursive: the text decides how deep it nests (test_a_schema_of_many_levels_is_refused).
    level = [raw]
    for _ in range(SCHEMA_NESTING_MAX):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise bad_schema(
        f"expected at most {SCHEMA_NESTING_MAX} levels of objects and arrays in {what}, got more"
    )


class _Builder:
    """Makes the types of one text that fastavro has parsed: names are full, references are checked."""

    def __init__(self, named: dict[str, AvroType]) -> None:
        self._named = named

    def type_of(self, parsed: Any) -> AvroType:
        if isinstance(parsed, list):
            return self._union(parsed)
        if isinstance(parsed, str):
            return self._mention(parsed)
        # Protocols of Avro call the records of their errors so (test_a_record_of_the_kind_error_is_a_record).
        kind = "record" if parsed["type"] == "error" else parsed["type"]
        made = AvroType(kind, doc=parsed.get("doc", ""))
        if kind in _NAMED:
            made.name = parsed["name"]
            made.aliases = tuple(parsed.get("aliases", ()))
            self._named[made.name] = made
        match kind:
            case "record":
                made.fields = self._fields(parsed["fields"])
            case "enum":
                made.symbols = tuple(parsed["symbols"])
                made.default_symbol = parsed.get("default")
            case "fixed":
                made.size = _size(parsed["size"])
            case "array" | "map":
                made.items = self.type_of(parsed["items" if kind == "array" else "values"])
        _add_logical(made, parsed)
        return made

    def _mention(self, name: str) -> AvroType:
        mentioned = self._named.get(name)
        if mentioned is None:
            return AvroType(name)
        # Only a record can contain a mention of itself.
        return AvroType("reference", target=mentioned) if mentioned.kind == "record" else mentioned

    def _union(self, parsed: list[Any]) -> AvroType:
        branches = tuple(self.type_of(branch) for branch in parsed)
        kinds = [branch.itself.name or branch.kind for branch in branches]
        # fastavro accepts all of these, as well as fields of one name and sizes below 0.
        if not kinds or len(set(kinds)) < len(kinds) or "union" in kinds:
            raise SchemaMisfit("a union of different types", ", ".join(kinds) or "an empty one")
        return AvroType("union", branches=branches)

    def _fields(self, parsed: list[Any]) -> tuple[AvroField, ...]:
        fields: dict[str, AvroField] = {}
        for raw in parsed:
            name = raw["name"]
            if name in fields:
                raise SchemaMisfit("different names of fields", f"{name!r} twice")
            fields[name] = AvroField(
                name,
                self.type_of(raw["type"]),
                tuple(raw.get("aliases", ())),
                "default" in raw,
                raw.get("default"),
                raw.get("doc", ""),
            )
        return tuple(fields.values())


def _size(size: Any) -> int:
    if type(size) is not int or not 0 <= size <= FIXED_BYTES_MAX:
        raise SchemaMisfit(f"a size from 0 to {FIXED_BYTES_MAX} bytes", repr(size))
    return size


def _add_logical(made: AvroType, parsed: dict[str, Any]) -> None:
    """Note the logical type. Avro's rule is to ignore one that is unknown or does not fit its type."""
    logical = parsed.get("logicalType")
    match logical, made.kind:
        case "decimal", "bytes" | "fixed":
            _add_decimal(made, parsed)
        case "uuid", "string":
            made.logical = "uuid"
        case ("uuid", "fixed") if made.size == 16:
            made.logical = "uuid"
        case ("duration", "fixed") if made.size == 12:
            made.logical = "duration"
        case (str(), kind) if _LOGICAL.get(logical) == kind:
            made.logical = logical


def _add_decimal(made: AvroType, parsed: dict[str, Any]) -> None:
    precision, scale = parsed.get("precision"), parsed.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision:
        return
    if precision > PRECISION_MAX:
        raise SchemaMisfit(f"a decimal of at most {PRECISION_MAX} digits", f"precision {precision}")
    made.logical, made.precision, made.scale = "decimal", precision, scale
