"""Random Protobuf schemas, records of them, and what canonical JSON has to make of a record and a delta.

A `ProtoFile` has a first message `M0`, and types of each message refer to later messages or to their own.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from sowline.codecs.schema import Schema

Record = dict[str, Any]

RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "sint32": (-(2**31), 2**31 - 1),
    "sfixed32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "sint64": (-(2**63), 2**63 - 1),
    "sfixed64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "fixed32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
    "fixed64": (0, 2**64 - 1),
}
KEY_TYPES = ["string", "bool", "int32", "sint64", "fixed32", "uint64"]
SCALARS = [*RANGES, "double", "float", "bool", "string", "bytes"]
KNOWN_FILES = {
    "Any": "any",
    "Duration": "duration",
    "FieldMask": "field_mask",
    "Int64Value": "wrappers",
    "StringValue": "wrappers",
    "Struct": "struct",
    "Timestamp": "timestamp",
    "Value": "struct",
}
KNOWN = [f"google.protobuf.{name}" for name in KNOWN_FILES]
SYMBOLS = ["NONE", "ONE", "TWO", "THREE"]

NOT_FINITE = ["NaN", "Infinity", "-Infinity"]
ZEROS: dict[str, Any] = dict.fromkeys(RANGES, 0)
ZEROS |= {"double": 0.0, "float": 0.0, "bool": False, "string": "", "bytes": "", "E": "NONE"}


@dataclass(frozen=True)
class ProtoField:
    """A field: `label` is empty, optional, required, repeated, map, or the name of its oneof."""

    name: str
    number: int
    type: str
    label: str
    key: str = ""

    @property
    def is_message(self) -> bool:
        """Whether its type is a message."""
        return self.type.startswith(("M", "google."))

    @property
    def is_nested(self) -> bool:
        """Whether it holds one message that is shown as an object."""
        return self.type.startswith("M") and self.label not in ("repeated", "map")


@dataclass(frozen=True)
class ProtoFile:
    """A schema: the fields of each message by its name."""

    syntax: str
    messages: dict[str, tuple[ProtoField, ...]]
    symbols: int = len(SYMBOLS)

    @property
    def schema(self) -> Schema:
        """The text."""
        lines = [self._head(), "package shop;"]
        lines += [f'import "google/protobuf/{file}.proto";' for file in sorted(set(KNOWN_FILES.values()))]
        symbols = " ".join(f"{name} = {number};" for number, name in enumerate(SYMBOLS[: self.symbols]))
        lines += [f"enum E {{ {symbols} }}"]
        for name, fields in self.messages.items():
            plain = [_declared(field) for field in fields if not field.label.startswith("one")]
            oneofs: dict[str, list[str]] = {}
            for field in fields:
                if field.label.startswith("one"):
                    oneofs.setdefault(field.label, []).append(f"{field.type} {field.name} = {field.number};")
            plain += [f"oneof {oneof} {{ {' '.join(members)} }}" for oneof, members in oneofs.items()]
            lines.append(f"message {name} {{ {' '.join(plain)} }}")
        return Schema("protobuf", "\n".join(lines))

    def _head(self) -> str:
        return 'edition = "2023";' if self.syntax == "2023" else f'syntax = "{self.syntax}";'

    def ordered(self, message: str) -> list[ProtoField]:
        """The fields of a message in the order of the text, members of a oneof together."""
        fields = self.messages[message]
        oneofs = list(dict.fromkeys(field.label for field in fields if field.label.startswith("one")))
        plain = [field for field in fields if not field.label.startswith("one")]
        return plain + [field for oneof in oneofs for field in fields if field.label == oneof]

    def has_presence(self, field: ProtoField) -> bool:
        """Whether a field can be absent."""
        if field.label in ("repeated", "map"):
            return False
        return field.is_message or bool(field.label) or self.syntax != "proto3"


def _declared(field: ProtoField) -> str:
    if field.label == "map":
        return f"map<{field.key}, {field.type}> {field.name} = {field.number};"
    return f"{field.label} {field.type} {field.name} = {field.number};".strip()


@st.composite
def proto_files(draw: st.DrawFn) -> ProtoFile:
    """Return random schemas."""
    syntax = draw(st.sampled_from(["proto2", "proto3", "2023"]))
    count = draw(st.integers(1, 3))
    return ProtoFile(syntax, {f"M{n}": draw(_fields(syntax, n, count)) for n in range(count)})


@st.composite
def _fields(draw: st.DrawFn, syntax: str, own: int, count: int) -> tuple[ProtoField, ...]:
    types = [*SCALARS, "E", *KNOWN, *[f"M{n}" for n in range(own, count)]]
    labels = ["repeated", "map", "one_a", "one_b", {"proto2": "optional"}.get(syntax, "")]
    labels += {"proto2": ["required"], "proto3": ["optional"], "2023": []}[syntax]
    names = draw(st.permutations(["id", "Name", "camelCase", "a_b", "class", "HasField", "x9", "from"]))
    numbers = draw(st.lists(st.integers(1, 2000), min_size=8, max_size=8, unique=True))
    fields = []
    for name, number in list(zip(names, numbers, strict=True))[: draw(st.integers(1, 8))]:
        kind, label = draw(st.sampled_from(types)), draw(st.sampled_from(labels))
        # A message that requires itself has no end.
        if label == "required" and kind == f"M{own}":
            label = "optional"
        key = draw(st.sampled_from(KEY_TYPES)) if label == "map" else ""
        fields.append(ProtoField(name, number, kind, label, key))
    return tuple(fields)


@st.composite
def older_files(draw: st.DrawFn, newer: ProtoFile) -> ProtoFile:
    """Return schemas that lack some fields of another one, and symbols if unknown ones stay numbers."""
    messages = {
        name: tuple(field for field in fields if field.label == "required" or draw(st.booleans()))
        for name, fields in newer.messages.items()
    }
    symbols = draw(st.integers(1, len(SYMBOLS))) if newer.syntax != "proto2" else len(SYMBOLS)
    return replace(newer, messages=messages, symbols=symbols)


def _sorted(members: Record) -> Record:
    return dict(sorted(members.items()))


@st.composite
def changed_files(draw: st.DrawFn, earlier: ProtoFile) -> ProtoFile:
    """Return schemas with some fields of another one removed, and one or two of another type, label, or name."""
    messages = {
        name: tuple(field for field in fields if draw(st.integers(0, 4)))
        for name, fields in earlier.messages.items()
    }
    for name in draw(st.lists(st.sampled_from(sorted(messages)), max_size=2)):
        if messages[name]:
            index = draw(st.integers(0, len(messages[name]) - 1))
            fields = list(messages[name])
            fields[index] = draw(_changed_field(earlier.syntax, fields[index]))
            messages[name] = tuple(fields)
    return replace(earlier, messages=messages, symbols=draw(st.integers(1, len(SYMBOLS))))


def _changed_field(syntax: str, field: ProtoField) -> st.SearchStrategy[ProtoField]:
    changes = [replace(field, type=kind) for kind in [*SCALARS, "E", *KNOWN]]
    changes += [replace(field, name="renamed"), replace(field, number=2001)]
    if field.label != "map":
        labels = {"proto2": ["optional", "required"], "proto3": ["", "optional"], "2023": [""]}[syntax]
        # What widens is seldom drawn from all types.
        changes += [replace(field, label=label) for label in [*labels, "repeated", "one_a", "one_b"]] * 3
        changes += [
            replace(field, type=kind) for kind in ["int64", "sint64", "uint64", "fixed64", "sfixed64"]
        ] * 2
    return st.sampled_from(changes)


def _floats(width: int) -> st.SearchStrategy[Any]:
    finite = st.floats(allow_nan=False, allow_infinity=False, width=64 if width == 64 else 32)
    shortest = finite if width == 64 else finite.map(lambda number: float(str(np.float32(number))))
    return shortest | st.sampled_from(NOT_FINITE)


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_bases = st.sampled_from(["", "AA==", "AQI=", "////"])
_json_scalars = st.none() | st.booleans() | _floats(64) | _texts
_struct_values = st.recursive(
    _json_scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_texts, inner, max_size=2).map(_sorted),
    max_leaves=4,
)


_VALUES: dict[str, st.SearchStrategy[Any]] = {
    **{
        kind: st.sampled_from([0, 1, least, most]) | st.integers(least, most)
        for kind, (least, most) in RANGES.items()
    },
    "double": _floats(64),
    "float": _floats(32),
    "bool": st.booleans(),
    "string": _texts,
    "bytes": _bases,
    "google.protobuf.Any": st.builds(lambda url, value: {"@type": url, "value": value}, _texts, _bases),
    "google.protobuf.Duration": st.sampled_from(
        ["0s", "-1.500s", "315576000000s", "0.000000001s", "-0.000001s"]
    ),
    "google.protobuf.FieldMask": st.sampled_from(["", "a", "a_b,c.d"]),
    "google.protobuf.Int64Value": st.integers(*RANGES["int64"]),
    "google.protobuf.StringValue": _texts,
    "google.protobuf.Struct": st.dictionaries(_texts, _struct_values, max_size=2).map(_sorted),
    "google.protobuf.Timestamp": st.sampled_from(
        ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "1969-12-31T23:59:59.500Z"]
    ),
    "google.protobuf.Value": _struct_values,
}


@st.composite
def records(
    draw: st.DrawFn, file: ProtoFile, message: str = "M0", depth: int = 2, is_delta: bool = False
) -> Record:
    """Return random records of a message, or deltas: with nulls, and nested messages that change something."""
    record: Record = {}
    oneofs: set[str] = set()
    for field in draw(st.permutations(file.messages[message])):
        is_required = field.label == "required" and not is_delta
        if field.label in oneofs or not (is_required or draw(st.booleans())):
            continue
        if field.label.startswith("one"):
            oneofs.add(field.label)
        if is_delta and field.type != "google.protobuf.Value" and draw(st.integers(0, 3)) == 0:
            record[field.name] = None
            continue
        inner = is_delta and field.is_nested
        values = _values(file, field, depth - 1, inner)
        if values is None:
            continue
        value = draw(values)
        if not (inner and value == {} and file.messages[field.type]):
            record[field.name] = value
    return record


def _values(file: ProtoFile, field: ProtoField, depth: int, is_delta: bool) -> st.SearchStrategy[Any] | None:
    if field.type.startswith("M"):
        if not depth and field.label != "required":
            return None
        one: st.SearchStrategy[Any] = records(file, field.type, max(depth, 1), is_delta)
    elif field.type == "E":
        symbols = st.sampled_from(SYMBOLS[: file.symbols])
        one = symbols if file.syntax == "proto2" else symbols | st.sampled_from([-1, 2**31 - 1])
    else:
        one = _VALUES[field.type]
    if field.type == "google.protobuf.Value" and field.label not in ("repeated", "map"):
        # Here a null stands for an absent field too.
        one = one.filter(lambda value: value is not None)
    if field.label == "repeated":
        return st.lists(one, max_size=2)
    if field.label == "map":
        return st.dictionaries(_keys(field.key), one, max_size=2)
    return one


def _keys(kind: str) -> st.SearchStrategy[str]:
    if kind == "string":
        return _texts
    return st.sampled_from(["true", "false"]) if kind == "bool" else st.integers(*RANGES[kind]).map(str)


def canonical(file: ProtoFile, record: Record, message: str = "M0") -> Record:
    """Return a record as canonical JSON has it: in order, with defaults, without nulls."""
    result: Record = {}
    for field in file.ordered(message):
        value = record.get(field.name)
        if value is not None:
            result[field.name] = _canonical_value(file, field, value)
        elif not file.has_presence(field):
            result[field.name] = {"repeated": [], "map": {}}.get(field.label, ZEROS.get(field.type))
    return result


def _canonical_value(file: ProtoFile, field: ProtoField, value: Any) -> Any:
    if field.label == "map":
        entries = sorted(value.items())
        return {key: _canonical_one(file, field, one) for key, one in entries}
    if field.label == "repeated":
        return [_canonical_one(file, field, one) for one in value]
    return _canonical_one(file, field, value)


def _canonical_one(file: ProtoFile, field: ProtoField, value: Any) -> Any:
    return canonical(file, value, field.type) if field.type.startswith("M") else value


def changed(file: ProtoFile, record: Record, delta: Record, message: str = "M0") -> Record:
    """Return what a delta makes of a record: it merges messages and maps, and sets one member of a oneof."""
    result = dict(record)
    for field in file.messages[message]:
        if field.name not in delta:
            continue
        value = delta[field.name]
        if value is not None:
            if field.label.startswith("one"):
                _clear_oneof(file, message, field.label, result)
            result[field.name] = _changed_value(file, field, record.get(field.name), value)
        elif field.label != "map":
            result.pop(field.name, None)
    return result


def _clear_oneof(file: ProtoFile, message: str, oneof: str, record: Record) -> None:
    for field in file.messages[message]:
        if field.label == oneof:
            record.pop(field.name, None)


def _changed_value(file: ProtoFile, field: ProtoField, before: Any, value: Any) -> Any:
    if field.is_nested:
        return changed(file, before or {}, value, field.type)
    is_object = (
        field.type in ("google.protobuf.Struct", "google.protobuf.Value") and field.label != "repeated"
    )
    return _merged(before, value) if field.label == "map" or is_object else value


def _merged(before: Any, value: Any) -> Any:
    if type(before) is not dict or type(value) is not dict:
        return value
    return _sorted({**before, **{key: _merged(before.get(key), one) for key, one in value.items()}})


def seen_present(file: ProtoFile, delta: Record, message: str = "M0") -> Record:
    """Return what a message shows of a delta by presence: no nulls, and no zeros of fields without presence."""
    result: Record = {}
    for field in file.messages[message]:
        value = delta.get(field.name)
        if value is None:
            continue
        if field.is_nested:
            result[field.name] = seen_present(file, value, field.type)
        elif file.has_presence(field) or (value not in ([], {}) and not _is_zero(field, value)):
            result[field.name] = value
    return result


def _is_zero(field: ProtoField, value: Any) -> bool:
    return field.label == "" and repr(value) == repr(ZEROS.get(field.type))
