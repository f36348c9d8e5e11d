"""Makes JSON Schemas of the structs that describe the protocol."""

import re
from types import ModuleType
from typing import Any

import msgspec

from contract.field_docs import docs_of, without_links

Schema = dict[str, Any]

_SUFFIX = re.compile("(Message|Report|Object)$")


def schema_name(struct: type) -> str:
    """Return the name of a struct in descriptions: without the suffix that keeps class names apart in Python."""
    return _SUFFIX.sub("", struct.__name__)


def schemas_of(module: ModuleType, base: str) -> dict[str, Schema]:
    """Return the schemas of the structs in a module by name, without bases; `base` is where references lead."""
    structs = [
        one for one in vars(module).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)
    ]
    described = {schema_name(struct): struct for struct in structs if not struct.__subclasses__()}
    _, components = msgspec.json.schema_components(described.values(), ref_template="{name}")
    found = {_SUFFIX.sub("", name): schema for name, schema in components.items()}
    for name, struct in described.items():
        docs = docs_of(struct)
        for field in msgspec.structs.fields(struct):
            found[name]["properties"][field.encode_name]["description"] = without_links(docs[field.name])
    return {name: _tidied(schema, base) for name, schema in sorted(found.items())}


def _tidied(schema: Any, base: str) -> Any:
    """Return a schema with whole references, without titles, and with a constant where one value is possible."""
    if isinstance(schema, list):
        return [_tidied(part, base) for part in schema]
    if not isinstance(schema, dict):
        return schema
    tidied: Schema = {}
    for key, value in schema.items():
        match key, value:
            case "properties", dict():
                tidied[key] = {name: _tidied(part, base) for name, part in value.items()}
            case "title", str():
                pass
            case "$ref", str():
                tidied[key] = base + _SUFFIX.sub("", value)
            case "enum", [only]:
                tidied["const"] = only
            case _:
                tidied[key] = _tidied(value, base)
    return tidied
