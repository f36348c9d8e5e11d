"""Where and why a body is not valid under a JSON Schema."""

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, unquote

import jsonschema_rs

from sowline.codecs.json_schema.compiled import SCHEMA_DEPTH_MAX, CompiledSchema, same_draft
from sowline.codecs.json_schema.values import SHOWN_CHARS_MAX, is_deeper, sentence, shown
from sowline.model.json_pointer import part_at
from sowline.model.path import Step

_WHY_STEPS_MAX: Final = 32

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
"""Keywords that test one value and contain no schemas."""

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


class Diagnosis:
    """Finds the error in bodies that a schema refuses."""

    def __init__(self, schema: CompiledSchema) -> None:
        self._schema = schema
        self._parts: dict[str, jsonschema_rs.Validator] = {}

    def why(self, document: dict[str, Any]) -> tuple[tuple[Step, ...], str, bool]:
        """Return where an invalid body is wrong, the validator's sentence, and whether a required field is missing.

        The validator's own errors take time exponential in the depth of a body where a schema has alternatives
        (test_errors_of_alternatives). Its plain verdicts do not, so they lead to the value.
        """
        value: Any = document
        path: tuple[Step, ...] = ()
        pointer, schema = "", self._schema.counted(self._schema.document)
        # Bounded, because references may lead back to the same value.
        for _ in range(_WHY_STEPS_MAX):
            found = self._wrong_below(pointer, schema, value)
            if found is None:
                break
            pointer, schema, value, steps = found
            path += steps
        return path, *_wrong_here(schema, value, self._schema.document)

    def _wrong_below(
        self, pointer: str, schema: dict[str, Any], value: Any
    ) -> tuple[str, dict[str, Any], Any, tuple[Step, ...]] | None:
        """Return the first subschema that its value doesn't fit, with the value; None if all values fit."""
        if _is_wrong_here(schema, value, self._schema.document):
            return None
        for below, inner, steps in _applied(schema, value):
            at = pointer + below if below[:1] != "#" else below[1:]
            target = part_at(self._schema.document, unquote(at))
            if isinstance(target, dict) and not self._fits(at, inner):
                return at, self._schema.counted(target), inner, steps
        return None

    def _fits(self, pointer: str, value: Any) -> bool:
        """Return whether a value is valid under a part of the schema, or whether that part can't be tested alone."""
        if pointer not in self._parts:
            part = same_draft({"$ref": f"{self._schema.where}#{pointer}"}, self._schema.document)
            try:
                self._parts[pointer] = self._schema.compiled(part)
            # A `$ref` inside a schema with its own `$id` leads elsewhere from here: the message stops above it
            # (test_schemas_with_names_within).
            except (ValueError, jsonschema_rs.ReferencingError):
                return True
        return self._parts[pointer].is_valid(value)


def _applied(schema: dict[str, Any], value: Any) -> Iterator[tuple[str, Any, tuple[Step, ...]]]:
    """Yield the parts that a value must fit, as a pointer (from the root if it begins with `#`) and the value."""
    reference = schema.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        yield reference, value, ()
    for number in range(len(schema.get("allOf", ()))):
        yield f"/allOf/{number}", value, ()
    if isinstance(value, dict):
        yield from _applied_to_fields(schema, value)
    # With `prefixItems` or `patternProperties`, several schemas may apply to a value: the message stops above it.
    if isinstance(value, list) and isinstance(schema.get("items"), dict) and "prefixItems" not in schema:
        for number, inner in enumerate(value):
            yield "/items", inner, (number,)


def _applied_to_fields(
    schema: dict[str, Any], value: dict[str, Any]
) -> Iterator[tuple[str, Any, tuple[Step, ...]]]:
    properties = schema.get("properties", {})
    for name in properties:
        if name in value:
            # `~` first: otherwise the one of each `~1` would be escaped again (test_invalid).
            escaped = quote(name.replace("~", "~0").replace("/", "~1"), safe="")
            yield f"/properties/{escaped}", value[name], (name,)
    if isinstance(schema.get("additionalProperties"), dict) and "patternProperties" not in schema:
        for name, inner in value.items():
            if name not in properties:
                yield "/additionalProperties", inner, (name,)


def _is_wrong_here(schema: dict[str, Any], value: Any, document: dict[str, Any]) -> bool:
    return bool(_missing(schema, value)) or not _own(schema, document).is_valid(value)


def _wrong_here(schema: dict[str, Any], value: Any, document: dict[str, Any]) -> tuple[str, bool]:
    """Return the error in a value, apart from the values in it, and whether it is a missing field."""
    missing = _missing(schema, value)
    if missing:
        return f"it has no {shown(missing)}, which is required", True
    if not is_deeper(value, SCHEMA_DEPTH_MAX):  # the validator reports no error for such a value
        try:
            _own(schema, document).validate(value)
        except jsonschema_rs.ValidationError as error:
            return f"{sentence(error)}: got {shown(value)}", False
    keywords = ", ".join(sorted(schema.keys() - _ASSERTIONS - _ANNOTATIONS))
    return f"it is not valid under {keywords[:SHOWN_CHARS_MAX]}: got {shown(value)}", False


def _missing(schema: dict[str, Any], value: Any) -> str:
    required = schema.get("required", ()) if isinstance(value, dict) else ()
    return next((name for name in required if name not in value), "")


def _own(schema: dict[str, Any], document: dict[str, Any]) -> jsonschema_rs.Validator:
    """Return a validator of a schema's keywords for the value itself, without those for the values in it."""
    own = {keyword: schema[keyword] for keyword in schema if keyword in _ASSERTIONS}
    if schema.get("additionalProperties") is False:
        own["additionalProperties"] = False
        # The names count, not their schemas: without them, every field would be named as the error (test_invalid).
        for keyword in ("properties", "patternProperties"):
            own[keyword] = {name: {} for name in schema.get(keyword, ())}
    return jsonschema_rs.validator_for(
        same_draft(own, document), mask="it", pattern_options=jsonschema_rs.RegexOptions(), offline=True
    )
