"""Writes TypeScript types for the JSON Schema of the frames. It knows the keywords that this schema uses."""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

_HEAD = """\
// The frames of Sowline's WebSocket API, as types.
// Made by `python -m contract` from docs/protocol/frames.schema.json: change the Python types, not this file.
"""
_LINE_CHARS_MAX = 116
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_BASIC = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
    "object": "Record<string, unknown>",
}
_PREFIX = re.compile(r"\^([a-z_]+=)")
"""A pattern that only requires a beginning, as those of options do."""


def typescript(schema: Mapping[str, Any]) -> str:
    """Return a module with an exported type for each definition of a schema."""
    return "\n".join([_HEAD, *(_definition(name, one) for name, one in schema["$defs"].items())])


def _definition(name: str, schema: Mapping[str, Any]) -> str:
    if "properties" not in schema:
        return "".join([*_comment(schema, ""), _alias(name, _type(schema))])
    required = schema["required"]
    lines = [*_comment(schema, ""), f"export interface {name} {{\n"]
    for field, one in schema["properties"].items():
        key = field if _NAME.fullmatch(field) else json.dumps(field)
        lines += [*_comment(one, "  "), f"  {key}{'' if field in required else '?'}: {_type(one)};\n"]
    return "".join([*lines, "}\n"])


def _alias(name: str, text: str) -> str:
    line = f"export type {name} = {text};\n"
    return line if len(line) <= _LINE_CHARS_MAX else line.replace(" = ", " = | ", 1).replace(" | ", "\n  | ")


def _comment(schema: Mapping[str, Any], indent: str) -> Iterator[str]:
    if text := schema.get("description"):
        lines = textwrap.wrap(text, _LINE_CHARS_MAX - len(indent) - 6, break_long_words=False)
        if len(lines) == 1:
            yield f"{indent}/** {text} */\n"
        else:
            yield "".join([f"{indent}/**\n", *(f"{indent} * {line}\n" for line in lines), f"{indent} */\n"])


def _type(schema: Mapping[str, Any]) -> str:
    match schema:
        case {"$ref": reference}:
            return str(reference).rpartition("/")[2]
        case {"const": value}:
            return json.dumps(value)
        case {"enum": values}:
            return " | ".join(map(json.dumps, values))
        case {"anyOf": parts}:
            return " | ".join(dict.fromkeys(map(_type, parts)))
        case {"type": "array", "items": items}:
            inner = _type(items)
            return f"({inner})[]" if " | " in inner else f"{inner}[]"
        case {"type": "object", "additionalProperties": dict(inner)}:
            return f"Record<string, {_type(inner)}>"
        case {"type": "string", "pattern": str(pattern)} if found := _PREFIX.fullmatch(pattern):
            return f"`{found[1]}${{string}}`"
        case {"type": str(kind)}:
            return _BASIC[kind]
    raise ValueError(f"expected a schema of a known kind, got {schema}")
