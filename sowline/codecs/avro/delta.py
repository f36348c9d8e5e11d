"""Deltas: the schema that reads a delta, the fields that it names, and records reduced to those fields."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from sowline.codecs.avro.types import AvroField, AvroType
from sowline.codecs.field_tree import FieldTree, field_tree
from sowline.errors import SowlineError
from sowline.model.path import Path


def delta_type(root: AvroType) -> AvroType:
    """Return the reader's record with fields that may be null or missing, in records at any depth.

    Values inside arrays and maps stay as they are: a delta replaces those as a whole.
    """
    return _DeltaTypes().run(root)


class _DeltaTypes:
    def __init__(self) -> None:
        self._known: dict[AvroType, AvroType] = {}
        self._queue: list[AvroType] = []

    def run(self, root: AvroType) -> AvroType:
        made = self._mentioned(root)
        while self._queue:
            record = self._queue.pop()
            self._known[record].fields = self._fields(record)
        return made

    def _mentioned(self, record: AvroType) -> AvroType:
        if record not in self._known:
            # Known before its fields are made: a record may contain itself
            # (test_a_delta_schema_of_a_record_that_contains_itself).
            self._known[record] = _empty(record)
            self._queue.append(record)
        return self._known[record]

    def _fields(self, record: AvroType) -> tuple[AvroField, ...]:
        return tuple(
            AvroField(field.name, self._optional(field.type), field.aliases) for field in record.fields
        )

    def _optional(self, part: AvroType) -> AvroType:
        branches = part.branches if part.kind == "union" else (part,)
        others = [self._part(branch) for branch in branches if branch.kind != "null"]
        return AvroType("union", branches=(AvroType("null"), *others))

    def _part(self, part: AvroType) -> AvroType:
        if part.kind == "reference":
            return AvroType("reference", target=self._mentioned(part.itself))
        if part.kind != "record":
            return part
        made = self._known[part] = _empty(part)
        made.fields = self._fields(part)
        return made


def _empty(record: AvroType) -> AvroType:
    return AvroType("record", name=record.name, aliases=record.aliases, is_delta=True)


def fields_at(root: AvroType, paths: Sequence[str]) -> FieldTree:
    """Return the fields at paths; raise `bad header` for a path that the reader schema doesn't have."""
    return field_tree(paths, partial(_check_path, root))


def _check_path(root: AvroType, path: Path) -> None:
    candidates = [root]
    for step in path.steps:
        # A path through a union is valid if any branch has it.
        candidates = [inner for part in candidates for inner in _inner(part, step)]
    if not candidates:
        raise SowlineError(
            "bad header", f"expected paths of fields that the reader schema has, got {str(path)[:100]}"
        )


def _inner(part: AvroType, step: object) -> list[AvroType]:
    """Return the types that a step leads to: the type of a field, or of a map's values."""
    part = part.itself
    match part.kind:
        case "union":
            return [inner for branch in part.branches for inner in _inner(branch, step)]
        case "record":
            return [field.type for field in part.fields if field.name == step]
        case "map" if isinstance(step, str):
            return [part.of]
    return []


def kept(document: dict[str, Any], tree: FieldTree) -> dict[str, Any]:
    """Return the fields of a record that a tree names."""
    done: dict[str, Any] = {}
    rest = [(document, tree, done)]
    while rest:
        fields, wanted, out = rest.pop()
        for name, value in fields.items():
            if name in wanted:
                below = wanted[name]
                out[name] = value
                if below is not None and isinstance(value, dict):
                    out[name] = {}
                    rest.append((value, below, out[name]))
    return done


def paths_of(root: AvroType, body: dict[str, Any]) -> tuple[str, ...]:
    """Return the paths that a body changes: the fields inside objects that are records, else whole fields.

    An object without fields changes nothing, unless it can be a map, or a record that has none.
    """
    paths: list[str] = []
    rest: list[tuple[tuple[str, ...], list[AvroType], Any]] = [((), [root], body)]
    while rest:
        steps, types, value = rest.pop()
        if _is_descended(types, value):
            below = [
                ((*steps, name), [inner for part in types for inner in _inner(part, name)], item)
                for name, item in value.items()
            ]
            rest.extend(reversed(below))
        elif steps:
            paths.append(str(Path(steps)))
    return tuple(paths)


def _is_descended(types: list[AvroType], value: Any) -> bool:
    """Whether a delta names the fields inside a value rather than the value."""
    if not isinstance(value, dict):
        return False
    branches = [branch.itself for part in types for branch in part.branches or (part,)]
    # An empty map is a value. The path of an empty record would set the whole record, filled with defaults
    # (test_a_delta_of_an_empty_object_changes_nothing).
    if not value:
        return not any(
            branch.kind == "map" or (branch.kind == "record" and not branch.fields) for branch in branches
        )
    records = [branch for branch in branches if branch.kind == "record" and branch.fields]
    if any(branch.logical == "duration" for branch in branches):
        # A duration is an object too, but is replaced as a whole (test_a_delta_of_a_duration_or_a_record).
        records = [record for record in records if value.keys() <= {field.name for field in record.fields}]
    return bool(records)
