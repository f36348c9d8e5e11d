"""Makes TypeScript interfaces from the JSON Schema of a topic's records."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from sowline.cli.typescript import (
    ANY_NAME,
    INTEGER_MAX,
    LEVELS_MAX,
    LONG_INTEGERS,
    array_of,
    field_name,
    literal,
)
from sowline.model.json_pointer import part_at

Node = dict[str, Any] | bool
"""A schema, or a part of one that is a schema itself."""

_PLAIN: Final = {
    "string": "string",
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
    "null": "null",
}
_OF_OBJECTS: Final = ("properties", "required", "additionalProperties", "patternProperties")
_OF_ARRAYS: Final = ("items", "prefixItems")
_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords that map names to schemas."""

_VALUES: Final = ("const", "enum", "default", "examples")
"""Keywords whose content is no schema."""

_BASE: Final = "json-schema:///"
"""The URI from which the references of a schema without an id lead to those that were bundled with it."""

_UNION: Final = ("anyOf", "oneOf")
_OPEN: Final = f"{ANY_NAME}: unknown;"


def typescript_of_schema(topic: str, name: str, schema: Mapping[str, Any]) -> str:
    """Return a module with the interface of a topic's records, and of all types in their schema.

    `schema` is a JSON Schema, in draft 2020-12 or an earlier one. Every record has the interface. What TypeScript
    can't express, such as patterns and bounds, is left out.
    """
    return (
        f"// Made by `sowline types` from the reader schema of the topic {topic}.\n"
        "// Every record of the topic has this type.\n\n"
        f"{_Module(name, json.loads(json.dumps(schema))).text()}"
    )


class _Document:
    """The parts of a schema, by the names that references use. Each part is a separate object."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._named: dict[str, Any] = {_BASE: schema}
        self._bases: dict[int, str] = {}
        self._keys: dict[int, str] = {}
        waiting = [(schema, _BASE, "")]
        while waiting:
            part, base, key = waiting.pop()
            base = self._take(part, base)
            self._bases[id(part)], self._keys[id(part)] = base, key
            waiting += [(one, base, name) for name, one in _parts(part)]

    def _take(self, part: Mapping[str, Any], base: str) -> str:
        """Note what a part calls itself; return the base of the references within."""
        if isinstance(own := part.get("$id"), str):
            base = _joined(base, own)
            self._named.setdefault(base, part)
        if isinstance(anchor := part.get("$anchor"), str):
            self._named.setdefault(f"{base}#{anchor}", part)
        return base

    def target(self, part: Mapping[str, Any]) -> Node | None:
        """Return the target of a part: None if it refers to nothing, True if that is not in the schema."""
        reference = "#" if part.get("$recursiveRef") == "#" else part.get("$ref")
        if not isinstance(reference, str):
            return None
        base = self._bases[id(part)]
        url, fragment = urldefrag(reference)
        url = _joined(base, url)
        if fragment and not fragment.startswith("/"):
            found = self._named.get(f"{url}#{fragment}")
        else:
            found = part_at(self._named.get(url), unquote(fragment))
        return found if isinstance(found, dict) else True

    def words(self, part: Mapping[str, Any]) -> list[str]:
        """Return the words in the name of a part: first those of its short name, then all."""
        key = self._keys[id(part)]
        is_file = "/" in key or key.endswith(".json")
        short = key.rpartition("/")[2].partition(".")[0] if is_file else key.rpartition(".")[2]
        return [_capitalized(short), _capitalized(key)]


def _parts(part: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the schemas that are directly within another one, with their names."""
    for keyword, content in part.items():
        if keyword in _VALUES:
            continue
        if isinstance(content, list):
            named = [(str(number), one) for number, one in enumerate(content)]
        else:
            named = list(content.items()) if keyword in _MAPS else [(keyword, content)]
        yield from ((name, one) for name, one in named if isinstance(one, dict))


def _joined(base: str, reference: str) -> str:
    """Return the URI of a reference, without its fragment. `urljoin` joins only URIs of schemes that it knows."""
    scheme, _, rest = base.partition(":")
    url = urldefrag(urljoin(f"http:{rest}", reference)).url
    return url if urlsplit(reference).scheme else f"{scheme}:{url.partition(':')[2]}"


def _capitalized(text: str) -> str:
    words = re.findall(r"[A-Za-z0-9]+", text)
    name = "".join(word[0].upper() + word[1:] for word in words)
    return name if name[:1].isalpha() else f"Type{name}"


class _Module:
    """The declarations of a schema's types: that of records first, then each in the order of its first mention."""

    def __init__(self, name: str, schema: dict[str, Any]) -> None:
        self._document = _Document(schema)
        top = schema
        # Avro's record is one of the definitions, and the schema itself is only a reference to it.
        while set(top) <= {"$ref", "$schema", "$id", "$defs", "definitions", "title"}:
            target = self._document.target(top)
            if not isinstance(target, dict) or target is schema:
                break
            top = target
        self._names = {id(schema): name, id(top): name}
        self._taken = {name}
        self._declared = [top]

    def text(self) -> str:
        """Return all declarations."""
        # Declarations mention further types, which are declared after them.
        return "\n".join(self._declaration(part) for part in self._declared)

    def _declaration(self, part: dict[str, Any]) -> str:
        types = self._union(part, "", LEVELS_MAX)
        name, comment = self._names[id(part)], _comment(part, "")
        if len(types) == 1 and types[0].startswith("{"):
            return f"{comment}export interface {name} {types[0]}\n"
        return f"{comment}export type {name} = {' | '.join(types)};\n"

    def _mention(self, part: dict[str, Any]) -> str:
        if id(part) not in self._names:
            name = next(one for one in _candidates(self._document.words(part)) if one not in self._taken)
            self._taken.add(name)
            self._names[id(part)] = name
            self._declared.append(part)
        return self._names[id(part)]

    def _union(self, part: Node, indent: str, levels: int) -> list[str]:
        """Return the types of which a value has one."""
        if isinstance(part, bool) or not levels:
            return ["never"] if part is False else ["unknown"]
        demands = [one for one in self._demands(part, indent, levels - 1) if one != ["unknown"]]
        if len(demands) <= 1:
            return demands[0] if demands else ["unknown"]
        return [f"({' & '.join(map(_grouped, demands))})"]

    def _demands(self, part: dict[str, Any], indent: str, levels: int) -> Iterator[list[str]]:
        """Yield unions: a value has a type of each."""
        target = self._document.target(part)
        if isinstance(target, dict):
            yield [self._mention(target)]
        if "const" in part:
            yield [literal(part["const"])]
        elif "enum" in part:
            yield _ordered(map(literal, part["enum"]))
        else:
            yield self._own(part, indent, levels)
        for keyword in _UNION:
            if keyword in part:
                yield _ordered(one for each in part[keyword] for one in self._union(each, indent, levels))
        for each in part.get("allOf", ()):
            yield self._union(each, indent, levels)

    def _own(self, part: Mapping[str, Any], indent: str, levels: int) -> list[str]:
        """Return the types that the keyword `type` names; without it, what the other keywords are for."""
        named = part.get("type")
        if named is None:
            of = {"object": _OF_OBJECTS, "array": _OF_ARRAYS}
            named = [kind for kind, keywords in of.items() if any(keyword in part for keyword in keywords)]
            named = named or ["any"]
        return _ordered(
            self._object(part, indent, levels)
            if kind == "object"
            else self._array(part, indent, levels)
            if kind == "array"
            else _PLAIN.get(kind, "unknown")
            for kind in ([named] if isinstance(named, str) else named)
        )

    def _object(self, part: Mapping[str, Any], indent: str, levels: int) -> str:
        inner = f"{indent}  "
        fields, required = part.get("properties", {}), part.get("required", ())
        lines = [
            f"{_comment(field, inner)}{inner}{field_name(name)}{'' if name in required else '?'}:"
            f" {' | '.join(self._union(field, inner, levels))};"
            for name, field in fields.items()
        ]
        lines += [f"{inner}{field_name(name)}: unknown;" for name in required if name not in fields]
        if rest := self._other_fields(part, inner, levels, has_fields=bool(lines)):
            lines.append(f"{inner}{rest}")
        return "\n".join(["{", *lines, f"{indent}}}"])

    def _other_fields(self, part: Mapping[str, Any], indent: str, levels: int, *, has_fields: bool) -> str:
        """Return the line for the fields that the schema does not name; empty if there are none."""
        if "unevaluatedProperties" in part:  # which fields these are depends on the other parts of the schema
            return ""
        others = [*part.get("patternProperties", {}).values(), part.get("additionalProperties", True)]
        allowed = [one for one in others if one is not False]
        if has_fields:
            # In TypeScript, the named fields too would have to have the type of the others.
            return _OPEN if allowed else ""
        types = _ordered(one for each in allowed for one in self._union(each, indent, levels))
        return f"{ANY_NAME}: {' | '.join(types)};"

    def _array(self, part: Mapping[str, Any], indent: str, levels: int) -> str:
        items, others = part.get("items", True), part.get("additionalItems", True)
        first = items if isinstance(items, list) else part.get("prefixItems", ())
        rest = self._union(others if isinstance(items, list) else items, indent, levels)
        if not first:
            return array_of(rest)
        least = part.get("minItems", 0)
        elements = [
            f"{_grouped(self._union(each, indent, levels))}{'' if number < least else '?'}"
            for number, each in enumerate(first)
        ]
        return f"[{', '.join(elements + ([] if rest == ['never'] else [f'...{array_of(rest)}']))}]"


def _candidates(words: Sequence[str]) -> Iterator[str]:
    """Yield names for a type, the best first."""
    yield from words
    number = 2
    while True:
        yield f"{words[0]}{number}"
        number += 1


def _ordered(types: Iterable[str]) -> list[str]:
    """Return a union without repeats, null as its last part."""
    parts = list(dict.fromkeys(types))
    if "unknown" in parts:
        return ["unknown"]
    some = [one for one in parts if one not in ("null", "never")]
    return some + ["null"] * ("null" in parts) or ["never"]


def _grouped(types: Sequence[str]) -> str:
    return types[0] if len(types) == 1 else f"({' | '.join(types)})"


def _comment(part: Node, indent: str) -> str:
    """Return the comment before a field or a declaration, with the end of its line; empty if there is none."""
    about = part.get("description", "") if isinstance(part, dict) else ""
    # A description with `*/` would end the comment, and the rest of its text would be code.
    words = " ".join(about.split()).replace("*/", "*\\/") if isinstance(about, str) else ""
    sentences = [f"{words}." if words and words[-1].isalnum() else words]
    if _has_long_integers(part, LEVELS_MAX):
        sentences.append(LONG_INTEGERS)
    text = " ".join(filter(None, sentences))
    return f"{indent}/** {text} */\n" if text else ""


def _has_long_integers(part: Node, levels: int) -> bool:
    """Return whether a value, an element of an array or the value of a map may be an integer beyond 2^53."""
    if isinstance(part, bool) or not levels:
        return False
    kinds = part.get("type")
    if "integer" in (kinds if isinstance(kinds, list) else [kinds]) and any(
        abs(part.get(bound, 0)) > INTEGER_MAX for bound in ("minimum", "maximum")
    ):
        return True
    within = [one for keyword in (*_UNION, "allOf", "prefixItems") for one in part.get(keyword, ())]
    items = part.get("items", True)
    within += items if isinstance(items, list) else [items]
    if not part.get("properties"):
        within += [part.get("additionalProperties", True), *part.get("patternProperties", {}).values()]
    return any(_has_long_integers(one, levels - 1) for one in within)
