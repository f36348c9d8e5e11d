"""The codec of message type `json-schema`: JSON that is valid under the reader schema, byte for byte as it came.

- The reader schema decides alone. A payload's own schema is not looked at: JSON needs none to be read.
- Drafts 4, 6, 7, 2019-09 and 2020-12, by `$schema`; without one, 2020-12.
- `$ref` finds the schema itself and `Schema.references`, by name or `$id`. Nothing is fetched.
- `format` is not asserted: what a format accepts changes with the version of a library, and a replay must not.
- Patterns run in time linear in the text. Those that need backtracking, like look-ahead, are `bad schema`.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, unquote, urljoin

import jsonschema_rs
import msgspec
import orjson

from sowline.codecs.codec import NO_MESSAGE_TYPE
from sowline.codecs.schema import MessagePayload, Schema
from sowline.errors import SowlineError
from sowline.model.body import read_object
from sowline.model.merge import DEPTH_MAX, merge
from sowline.model.nesting import NESTING_MAX
from sowline.model.path import Path, PathError, Step, parse_path

_BASE: Final = "json-schema:///"
_STACK_STEPS_MAX: Final = 32_000
"""Steps of validation that fit twice into a stack of 8 MiB."""

_DEPTH_MIN: Final = 64
_SCHEMA_DEPTH_MAX: Final = 200
_WHY_STEPS_MAX: Final = 32
_SHOWN_CHARS_MAX: Final = 200

_SAME_VALUE: Final = frozenset(
    {
        "$ref",
        "$dynamicRef",
        "$recursiveRef",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "dependentSchemas",
        "dependencies",
    }
)
"""Keywords whose schemas apply to the same value."""

_ASSERTIONS: Final = frozenset(
    {
        "type",
        "enum",
        "const",
        "multipleOf",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "maxProperties",
        "minProperties",
        "required",
        "dependentRequired",
    }
)
"""Keywords that look at one value and contain no schemas."""

_ANNOTATIONS: Final = frozenset(
    {
        "$schema",
        "$id",
        "id",
        "$comment",
        "$defs",
        "definitions",
        "title",
        "description",
        "default",
        "examples",
    }
)

_OLD: Final = (jsonschema_rs.Draft4Validator, jsonschema_rs.Draft6Validator, jsonschema_rs.Draft7Validator)

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_write = msgspec.json.Encoder().encode

_Paths = dict[str, "_Paths | None"]
"""The fields that paths name, by level; None for the whole value."""


class JsonSchemaCodec:
    """Checks JSON under a JSON Schema."""

    message_type = NO_MESSAGE_TYPE

    def __init__(self, reader: Schema) -> None:
        """Compile a schema; raise `bad schema` if it is not valid, or not one of objects."""
        self._reader = reader
        self._document = _parsed(reader.text, "the schema")
        texts = {name: _parsed(text, f"the schema {name}") for name, text in reader.references}
        try:
            self._where, self._registry = _registry(self._document, texts)
            self._validator = self._compiled(self._document, self._where)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise _bad_schema(f"expected a valid JSON Schema: {_sentence(error)}") from error
        if "object" not in _types(self._document):
            raise _bad_schema(f"expected a schema of objects, got {_shown(self._document.get('type'))}")
        self._is_alone = isinstance(self._validator, _OLD)
        self._parts: dict[str, jsonschema_rs.Validator] = {}
        self._depth_max = _depth_max([self._document, *texts.values()])

    def read(self, payload: MessagePayload, writer: Schema) -> bytes:
        """Return the payload; raise `bad message` if it is not an object that the reader schema describes."""
        self._check(payload.data)
        return payload.data

    def read_delta(self, payload: MessagePayload, writer: Schema, fields: Sequence[str] | None) -> bytes:
        """Return the payload, or only its fields at the paths; a path that it does not have gives nothing.

        A delta is not whole, so the schema is not asked: `completed` is, about what it makes of a record.
        """
        _object(payload.data)
        return payload.data if fields is None else _only(payload.data, _paths(tuple(fields)))

    def write(self, body: bytes) -> bytes:
        """Return the body; raise `bad message` if the reader schema does not describe it."""
        self._check(body)
        return body

    def write_delta(self, body: bytes) -> tuple[bytes, tuple[str, ...]]:
        """Return the body, and no paths: JSON itself shows what it changes."""
        _object(body)
        return body, ()

    def merged(self, body: bytes, delta: bytes) -> bytes:
        """Return the JSON of a record with the fields of a delta merged into it."""
        return merge(body, delta)

    def completed(self, body: bytes) -> bytes:
        """Return the body; raise `incomplete record` if what is wrong first is that a required field is missing."""
        self._check(body, missing="incomplete record")
        return body

    def upgraded(self, body: bytes) -> bytes:
        """Return the body: the JSON of all reader schemas is the same."""
        return body

    def described(self) -> dict[str, Any]:
        """Return the schema, in its own draft; those to which it refers are within."""
        if not self._reader.references:
            return _parsed(self._reader.text, "the schema")
        bundled: dict[str, Any] = jsonschema_rs.bundle(
            self._document, registry=self._registry, base_uri=self._where, offline=True
        )
        return bundled

    def check_reads(self, earlier: Schema) -> None:
        """Raise `incompatible schema` unless it is proved that all records of an earlier schema are valid.

        Proved are, for example: fewer required fields, wider types, enums and bounds, new optional fields. Not proved
        are schemas of other drafts, and most changes within recursive schemas and of patterns. Records are taken not
        to have fields that their schema does not name and this one does.
        """
        if earlier == self._reader:
            return
        before = JsonSchemaCodec(earlier)
        try:
            # Bundled, because two schemas that find different texts under one name are not compared.
            described = self.described()
            covers = _canonical(described).covers(_canonical(_without_new(before.described(), described)))
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise _incompatible(f"which can't be decided: {_sentence(error)}") from error
        if covers != jsonschema_rs.canonical.Containment.YES:
            undecided = covers == jsonschema_rs.canonical.Containment.UNKNOWN
            raise _incompatible("which can't be decided" if undecided else "but it refuses some of them")

    def _check(self, body: bytes, missing: str = "bad message") -> None:
        document = _object(body)
        if body.count(b"{") + body.count(b"[") > self._depth_max and _is_deeper(document, self._depth_max):
            raise _bad_message(f"expected at most {self._depth_max} levels of objects and arrays, got more")
        if not self._validator.is_valid(document):
            path, message, is_missing = self._why(document)
            raise SowlineError(
                missing if is_missing else "bad message",
                f"expected what the schema describes at {Path(path) if path else '/'}, but {message}",
            )

    def _why(self, document: dict[str, Any]) -> tuple[tuple[Step, ...], str, bool]:
        """Return where an invalid body is wrong, the validator's sentence, and whether a required field is missing.

        The validator's own errors take time exponential in the depth of a body where a schema has alternatives
        (test_errors_of_alternatives). Its plain verdicts do not, so they lead to the value.
        """
        value: Any = document
        path: tuple[Step, ...] = ()
        pointer, schema = "", self._counted(self._document)
        for _ in range(_WHY_STEPS_MAX):
            found = self._wrong_below(pointer, schema, value)
            if found is None:
                break
            pointer, schema, value, steps = found
            path += steps
        return path, *_wrong_here(schema, value, self._document)

    def _wrong_below(
        self, pointer: str, schema: dict[str, Any], value: Any
    ) -> tuple[str, dict[str, Any], Any, tuple[Step, ...]] | None:
        """Return the first schema within a schema, and the value it is for, that do not fit; None if all do."""
        if _is_wrong_here(schema, value, self._document):
            return None
        for below, inner, steps in _applied(schema, value):
            at = pointer + below if below[:1] != "#" else below[1:]
            target = _at(self._document, at)
            if isinstance(target, dict) and not self._fits(at, inner):
                return at, self._counted(target), inner, steps
        return None

    def _counted(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return what counts of a schema: up to draft 7, only `$ref` if there is one."""
        return {"$ref": schema["$ref"]} if self._is_alone and "$ref" in schema else schema

    def _fits(self, pointer: str, value: Any) -> bool:
        """Return whether a value is valid under a part of the schema, or that part can't be asked alone."""
        if pointer not in self._parts:
            part = _same_draft({"$ref": f"{self._where}#{pointer}"}, self._document)
            try:
                self._parts[pointer] = self._compiled(part)
            except (ValueError, jsonschema_rs.ReferencingError):
                return True
        return self._parts[pointer].is_valid(value)

    def _compiled(self, document: dict[str, Any], where: str | None = None) -> jsonschema_rs.Validator:
        return jsonschema_rs.validator_for(
            document,
            registry=self._registry,
            base_uri=where,
            mask="it",
            validate_formats=False,
            pattern_options=jsonschema_rs.RegexOptions(),
            offline=True,
        )


def _parsed(text: str, what: str) -> dict[str, Any]:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise _bad_schema(f"expected {what} as JSON, but: {error}") from error
    if not isinstance(document, dict):
        raise _bad_schema(f"expected {what} as a JSON object, got {_shown(document)}")
    if _is_deeper(document, _SCHEMA_DEPTH_MAX):
        raise _bad_schema(f"expected at most {_SCHEMA_DEPTH_MAX} levels in {what}, got more")
    return document


def _types(document: dict[str, Any]) -> Any:
    types = document.get("type", "object")
    return types if isinstance(types, list) else [types]


def _registry(
    document: dict[str, Any], texts: dict[str, dict[str, Any]]
) -> tuple[str, jsonschema_rs.Registry]:
    """Return the URI of a schema, and a registry of it and of those to which it refers, by name."""
    own = document.get("$id", document.get("id"))
    where = urljoin(_BASE, own.partition("#")[0]) if isinstance(own, str) else ""
    where = where or f"{_BASE}reader"
    resources = {where: document}
    for name, text in texts.items():
        resources[name] = resources[urljoin(where, name)] = text
    draft = getattr(
        jsonschema_rs, jsonschema_rs.validator_cls_for(document).__name__.removesuffix("Validator")
    )
    return where, jsonschema_rs.Registry(list(resources.items()), draft=draft)


def _same_draft(part: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": document["$schema"], **part} if "$schema" in document else part


def _object(body: bytes) -> dict[str, Any]:
    try:
        return read_object(body)
    except SowlineError as error:
        raise _bad_message(error.message) from error


def _depth_max(documents: list[dict[str, Any]]) -> int:
    """Return how deep a body may nest, so that validation never runs out of stack, whatever the schema.

    At each level, validation may call itself once for every keyword that applies to the same value.
    """
    same_value = 0
    for node in _nodes(documents):
        if isinstance(node, dict):
            same_value += sum(_count(node[keyword]) for keyword in _SAME_VALUE & node.keys())
    return max(_DEPTH_MIN, min(NESTING_MAX, _STACK_STEPS_MAX // max(1, same_value)))


def _count(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else 1


def _nodes(roots: list[Any]) -> Iterator[Any]:
    pending = list(roots)
    while pending:
        node = pending.pop()
        yield node
        pending.extend(_inner(node))


def _inner(node: Any) -> list[Any]:
    return list(node.values()) if isinstance(node, dict) else node if isinstance(node, list) else []


def _is_deeper(document: Any, levels: int) -> bool:
    """Return whether a document has more levels of objects and arrays."""
    level: list[Any] = [document]
    for _ in range(levels):
        level = [below for node in level for below in _inner(node) if isinstance(below, dict | list)]
        if not level:
            return False
    return True


def _applied(schema: dict[str, Any], value: Any) -> Iterator[tuple[str, Any, tuple[Step, ...]]]:
    """Yield the parts that a value has to fit: a pointer, from the root if it begins with `#`; and the value."""
    reference = schema.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        yield reference, value, ()
    for number in range(len(schema.get("allOf", ()))):
        yield f"/allOf/{number}", value, ()
    if isinstance(value, dict):
        yield from _applied_to_fields(schema, value)
    if isinstance(value, list) and isinstance(schema.get("items"), dict) and "prefixItems" not in schema:
        for number, inner in enumerate(value):
            yield "/items", inner, (number,)


def _applied_to_fields(
    schema: dict[str, Any], value: dict[str, Any]
) -> Iterator[tuple[str, Any, tuple[Step, ...]]]:
    properties = schema.get("properties", {})
    for name in properties:
        if name in value:
            escaped = quote(name.replace("~", "~0").replace("/", "~1"), safe="")
            yield f"/properties/{escaped}", value[name], (name,)
    if isinstance(schema.get("additionalProperties"), dict) and "patternProperties" not in schema:
        for name, inner in value.items():
            if name not in properties:
                yield "/additionalProperties", inner, (name,)


def _at(document: dict[str, Any], pointer: str) -> Any:
    """Return the part of a document at a JSON pointer of a URI; None if there is none."""
    node: Any = document
    for step in unquote(pointer).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(name)
        else:
            node = (
                node[int(name)]
                if isinstance(node, list) and name.isdecimal() and int(name) < len(node)
                else None
            )
    return node


def _is_wrong_here(schema: dict[str, Any], value: Any, document: dict[str, Any]) -> bool:
    return bool(_missing(schema, value)) or not _own(schema, document).is_valid(value)


def _wrong_here(schema: dict[str, Any], value: Any, document: dict[str, Any]) -> tuple[str, bool]:
    """Return what is wrong with a value, apart from what it contains, and whether that is a missing field."""
    missing = _missing(schema, value)
    if missing:
        return f"it has no {_shown(missing)}, which is required", True
    if not _is_deeper(value, _SCHEMA_DEPTH_MAX):  # of such a value, the validator makes no error
        try:
            _own(schema, document).validate(value)
        except jsonschema_rs.ValidationError as error:
            return f"{_sentence(error)}: got {_shown(value)}", False
    keywords = ", ".join(sorted(schema.keys() - _ASSERTIONS - _ANNOTATIONS))
    return f"it is not valid under {keywords[:_SHOWN_CHARS_MAX]}: got {_shown(value)}", False


def _missing(schema: dict[str, Any], value: Any) -> str:
    required = schema.get("required", ()) if isinstance(value, dict) else ()
    return next((name for name in required if name not in value), "")


def _own(schema: dict[str, Any], document: dict[str, Any]) -> jsonschema_rs.Validator:
    """Return a validator of what a schema says about a value itself, and not about what it contains."""
    own = {keyword: schema[keyword] for keyword in schema if keyword in _ASSERTIONS}
    if schema.get("additionalProperties") is False:
        own["additionalProperties"] = False
        for keyword in ("properties", "patternProperties"):
            own[keyword] = {name: {} for name in schema.get(keyword, ())}
    return jsonschema_rs.validator_for(
        _same_draft(own, document), mask="it", pattern_options=jsonschema_rs.RegexOptions(), offline=True
    )


@lru_cache(1000)
def _paths(fields: tuple[str, ...]) -> _Paths:
    root: _Paths = {}
    for field in fields:
        try:
            steps = parse_path(field).steps
        except PathError as error:
            raise _bad_message(error.message) from error
        if len(steps) > DEPTH_MAX:
            raise _bad_message(f"expected a path of at most {DEPTH_MAX} names, got {len(steps)}")
        node: _Paths | None = root
        for step in steps[:-1]:
            node = None if node is None else node.setdefault(_name(step, field), {})
        if node is not None:
            node[_name(steps[-1], field)] = None
    return root


def _name(step: Step, field: str) -> str:
    if not isinstance(step, str):
        raise _bad_message(
            f"expected the path of a field that a delta changes, got {field!r} with a subscript"
        )
    return step


def _only(body: bytes | msgspec.Raw, paths: _Paths) -> bytes:
    """Return an object with only the fields at the paths, each with its exact text."""
    kept: dict[str, msgspec.Raw] = {}
    for name, value in _fields(body).items():
        if name not in paths:
            continue
        below = paths[name]
        if below is None:
            kept[name] = value
        elif memoryview(value)[0] == ord("{"):
            kept[name] = msgspec.Raw(_only(value, below))
    return _write(kept)


def _canonical(document: dict[str, Any]) -> jsonschema_rs.CanonicalSchema:
    return jsonschema_rs.canonicalize(
        document, validate_formats=False, pattern_options=jsonschema_rs.RegexOptions(), offline=True
    )


def _without_new(earlier: dict[str, Any], later: dict[str, Any]) -> Any:
    """Return an earlier schema that excludes the fields which only the later one names.

    Nothing is assumed of an object whose other fields have a schema: any name is named there.
    """
    named = _names(earlier)

    def without(old: Any, new: Any) -> Any:
        if not isinstance(old, dict) or not isinstance(new, dict):
            return old
        changed = {name: without(part, new.get(name)) for name, part in old.items()}
        properties, more = old.get("properties"), new.get("properties")
        is_map = "patternProperties" in old or isinstance(old.get("additionalProperties"), dict)
        if isinstance(properties, dict) and isinstance(more, dict) and not is_map:
            fresh = sorted(more.keys() - named)
            changed["properties"] = {**changed["properties"], **{name: {"not": {}} for name in fresh}}
        return changed

    return without(earlier, later)


def _names(document: dict[str, Any]) -> set[str]:
    """Return all names of fields in a schema: several of its parts may be about one object."""
    names: set[str] = set()
    for node in _nodes([document]):
        if isinstance(node, dict):
            for keyword in (
                "properties",
                "required",
                "dependentRequired",
                "dependentSchemas",
                "dependencies",
            ):
                names.update(_field_names(node.get(keyword)))
    return names


def _field_names(value: Any) -> Iterator[str]:
    """Yield the names that a keyword has: as keys, in a list, or in lists under keys."""
    if isinstance(value, dict):
        yield from value
        for below in value.values():
            yield from _field_names(below if isinstance(below, list) else None)
    elif isinstance(value, list):
        yield from (name for name in value if isinstance(name, str))


def _sentence(error: Exception) -> str:
    text = error.message if isinstance(error, jsonschema_rs.ValidationError) else str(error)
    return text if len(text) <= _SHOWN_CHARS_MAX else f"{text[:_SHOWN_CHARS_MAX]}…"


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    text = orjson.dumps(value).decode()
    return text if len(text) <= _SHOWN_CHARS_MAX else f"{text[:_SHOWN_CHARS_MAX]}…"


def _bad_message(message: str) -> SowlineError:
    return SowlineError("bad message", message)


def _bad_schema(message: str) -> SowlineError:
    return SowlineError("bad schema", message)


def _incompatible(why: str) -> SowlineError:
    return SowlineError(
        "incompatible schema",
        f"expected a schema under which all records of the earlier one are valid, {why}",
    )
