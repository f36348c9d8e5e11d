"""Whether all records of an earlier JSON Schema are valid under a later one."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs

from sowline.codecs.errors import incompatible_schema
from sowline.codecs.json_schema.compiled import CompiledSchema
from sowline.codecs.json_schema.values import nodes, sentence
from sowline.errors import SowlineError


def check_reads(later: CompiledSchema, earlier: CompiledSchema) -> None:
    """Raise `incompatible schema` unless all records of an earlier schema are proved valid.

    The proof covers, for example, fewer required fields, wider types, enums and bounds, and new optional fields. It
    doesn't cover schemas of other drafts, nor most changes of patterns or inside recursive schemas. It assumes that
    records have no fields that only the later schema names.
    """
    try:
        # Bundled, because two schemas that find different texts under one name are not compared.
        described = later.described()
        covers = _canonical(described).covers(_canonical(_without_new(earlier.described(), described)))
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise _incompatible(f"which can't be decided: {sentence(error)}") from error
    if covers != jsonschema_rs.canonical.Containment.YES:
        undecided = covers == jsonschema_rs.canonical.Containment.UNKNOWN
        raise _incompatible("which can't be decided" if undecided else "but it refuses some of them")


def _canonical(document: dict[str, Any]) -> jsonschema_rs.CanonicalSchema:
    # The options of the validator: with formats asserted, the proof would be about other rules than those that
    # records have to keep.
    return jsonschema_rs.canonicalize(
        document, validate_formats=False, pattern_options=jsonschema_rs.RegexOptions(), offline=True
    )


def _without_new(earlier: dict[str, Any], later: dict[str, Any]) -> Any:
    """Return an earlier schema that excludes the fields which only the later one names.

    This assumption isn't made for an object whose other fields have a schema: it names every field.
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
    for node in nodes([document]):
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


def _incompatible(why: str) -> SowlineError:
    return incompatible_schema(
        f"expected a schema under which all records of the earlier one are valid, {why}"
    )
