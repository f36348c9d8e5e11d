"""A compiled JSON Schema: its document, the documents that it refers to, and validators of its parts."""

from copy import deepcopy
from typing import Any, Final
from urllib.parse import urljoin

import jsonschema_rs
import orjson

from sowline.codecs.errors import bad_schema
from sowline.codecs.json_schema.values import is_deeper, nodes, sentence, shown
from sowline.codecs.schema import Schema
from sowline.model.nesting import NESTING_MAX

_BASE: Final = "json-schema:///"
_STACK_STEPS_MAX: Final = 32_000
"""The number of nested steps of validation: twice as many fit into a stack of 8 MiB."""

_DEPTH_MIN: Final = 64
SCHEMA_DEPTH_MAX: Final = 200

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

_OLD: Final = (jsonschema_rs.Draft4Validator, jsonschema_rs.Draft6Validator, jsonschema_rs.Draft7Validator)


class CompiledSchema:
    """A JSON Schema of objects, with the validator of it."""

    def __init__(self, schema: Schema) -> None:
        """Compile a schema; raise `bad schema` if it is not valid, or not one of objects."""
        self.document = _parsed(schema.text, "the schema")
        texts = {name: _parsed(text, f"the schema {name}") for name, text in schema.references}
        self._is_alone = not texts
        try:
            self.where, self._registry = _registry(self.document, texts)
            self.validator = self.compiled(self.document, self.where)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise bad_schema(f"expected a valid JSON Schema: {sentence(error)}") from error
        if "object" not in _types(self.document):
            raise bad_schema(f"expected a schema of objects, got {shown(self.document.get('type'))}")
        self.depth_max = _depth_max([self.document, *texts.values()])
        """How deep a body may nest."""

    def described(self) -> dict[str, Any]:
        """Return the schema in its own draft; the schemas that it refers to are embedded."""
        if self._is_alone:
            return deepcopy(self.document)  # callers may change what they get (`test_described`)
        bundled: dict[str, Any] = jsonschema_rs.bundle(
            self.document, registry=self._registry, base_uri=self.where, offline=True
        )
        return bundled

    def compiled(self, part: dict[str, Any], where: str | None = None) -> jsonschema_rs.Validator:
        """Return the validator of a schema that may refer to this one."""
        return jsonschema_rs.validator_for(
            part,
            registry=self._registry,
            base_uri=where,
            # The mask replaces the value in errors, which may be large. The regular expressions are those
            # that need linear time (test_patterns_are_linear), and nothing is fetched (test_nothing_is_fetched).
            mask="it",
            validate_formats=False,
            pattern_options=jsonschema_rs.RegexOptions(),
            offline=True,
        )

    def counted(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the keywords that count in a part of the schema: up to draft 7, only `$ref` if it has one."""
        has_only_references = isinstance(self.validator, _OLD) and "$ref" in schema
        return {"$ref": schema["$ref"]} if has_only_references else schema


def _parsed(text: str, what: str) -> dict[str, Any]:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise bad_schema(f"expected {what} as JSON, but: {error}") from error
    if not isinstance(document, dict):
        raise bad_schema(f"expected {what} as a JSON object, got {shown(document)}")
    if is_deeper(document, SCHEMA_DEPTH_MAX):
        raise bad_schema(f"expected at most {SCHEMA_DEPTH_MAX} levels in {what}, got more")
    return document


def _types(document: dict[str, Any]) -> Any:
    # A schema without a type allows objects, too (test_reads_with_references).
    types = document.get("type", "object")
    return types if isinstance(types, list) else [types]


def _registry(
    document: dict[str, Any], texts: dict[str, dict[str, Any]]
) -> tuple[str, jsonschema_rs.Registry]:
    """Return the URI of a schema, and a registry of it and the schemas that it refers to, by name."""
    own = document.get("$id", document.get("id"))
    where = urljoin(_BASE, own.partition("#")[0]) if isinstance(own, str) else ""
    where = where or f"{_BASE}reader"
    resources = {where: document}
    for name, text in texts.items():
        # A `$ref` may contain the name as it is, or resolved against `$id` (test_references_by_id).
        resources[name] = resources[urljoin(where, name)] = text
    draft = getattr(
        jsonschema_rs, jsonschema_rs.validator_cls_for(document).__name__.removesuffix("Validator")
    )
    return where, jsonschema_rs.Registry(list(resources.items()), draft=draft)


def same_draft(part: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a document as a schema of the document's draft."""
    # Without it, a part would be judged by the rules of draft 2020-12 (test_drafts).
    return {"$schema": document["$schema"], **part} if "$schema" in document else part


def _depth_max(documents: list[dict[str, Any]]) -> int:
    """Return how deep a body may nest, so that validation never runs out of stack, whatever the schema.

    At each level, validation may call itself once for every keyword that applies to the same value.
    """
    same_value = 0
    for node in nodes(documents):
        if isinstance(node, dict):
            same_value += sum(_count(node[keyword]) for keyword in _SAME_VALUE & node.keys())
    return max(_DEPTH_MIN, min(NESTING_MAX, _STACK_STEPS_MAX // max(1, same_value)))


def _count(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else 1
