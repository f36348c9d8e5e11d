"""Infers a TypeScript interface from a sample of records, and prints what is common to all interfaces."""

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

INTEGER_MAX = 2**53 - 1
"""JavaScript's `Number.MAX_SAFE_INTEGER`: a number can't hold every integer beyond it."""

LEVELS_MAX = 32
"""Levels of objects and arrays that a type describes; values that are nested deeper are `unknown`."""

NAMES_MAX = 32
"""If objects have more field names than this, the names may be arbitrary, as those of a map are."""

_KINDS = {
    str: "string",
    Decimal: "number",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
    type(None): "null",
}
"""The kind of a JSON value by its Python type. Integers are decimals, because `int` refuses very long ones."""

_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
"""A field name that TypeScript needs no quotes for."""

LONG_INTEGERS = (
    'Integers beyond 2^53 are rounded. With integers: "bigint" they are bigint, with "text" string.'
)
"""The comment on a field with such integers. Their type depends on an option of the client."""


class InferredType(NamedTuple):
    """The type of a sample of values: the union of what is given here, or `unknown` if nothing is.

    - `scalars`: the kinds of the values that are neither objects nor arrays.
    - `members`: the fields of objects, by name.
    - `items`: the type of the elements of arrays.
    - `has_long_integers`: whether a value, or an element of an array, is an integer beyond 2^53.
    """

    scalars: frozenset[str] = frozenset()
    members: "tuple[InferredMember, ...] | None" = None
    items: "InferredType | None" = None
    has_long_integers: bool = False


class InferredMember(NamedTuple):
    """A field of objects. Without a name it stands for every field of objects with arbitrary names."""

    name: str | None
    type: InferredType
    is_optional: bool = False


def typescript_of(topic: str, name: str, bodies: Sequence[bytes]) -> str:
    """Return a module with the interface of a topic's records, inferred from the bodies of some; at least one."""
    noun = "record" if len(bodies) == 1 else "records"
    (interface,) = _union(inferred([parsed(body) for body in bodies]), "")
    return (
        f"// Inferred by `sowline types` from a sample: {len(bodies):,} {noun} of the topic {topic}.\n"
        "// Records that are not in the sample may have other fields, and values of other types.\n\n"
        f"export interface {name} {interface}\n"
    )


def parsed(body: bytes) -> Any:
    """Return a JSON body as values that `inferred` takes."""
    return json.loads(body, parse_int=Decimal)


def inferred(values: Sequence[Any], levels: int = LEVELS_MAX) -> InferredType:
    """Return the type that all of the values have. It does not depend on their order, nor on that of fields."""
    if not levels:
        return InferredType()
    by_kind = defaultdict(list)
    for value in values:
        by_kind[_kind(value)].append(value)
    objects, arrays = by_kind.pop("object", []), by_kind.pop("array", [])
    items = inferred([item for array in arrays for item in array], levels - 1) if arrays else None
    return InferredType(
        frozenset(by_kind),
        _members(objects, levels - 1) if objects else None,
        items,
        any(map(_is_long_integer, values)) or (items is not None and items.has_long_integers),
    )


def _kind(value: Any) -> str:
    return _KINDS[type(value)]


def _is_long_integer(value: Any) -> bool:
    return isinstance(value, Decimal) and abs(value) > INTEGER_MAX


def _members(objects: Sequence[Mapping[str, Any]], levels: int) -> tuple[InferredMember, ...]:
    fields = defaultdict(list)
    for one in objects:
        for name, value in one.items():
            fields[name].append(value)
    if _has_arbitrary_names(fields, len(objects)):
        every = [value for values in fields.values() for value in values]
        return (InferredMember(None, inferred(every, levels)),)
    return tuple(
        InferredMember(name, inferred(values, levels), is_optional=len(values) < len(objects))
        for name, values in sorted(fields.items())
    )


def _has_arbitrary_names(fields: Mapping[str, Sequence[Any]], objects: int) -> bool:
    """Return whether fields are entries of a map: many names, none in every object, and one kind of values.

    Objects without fields are maps too: `{}` is a type that has every value but null.
    """
    if not fields:
        return True
    kinds = {_kind(value) for values in fields.values() for value in values}
    is_in_all = any(len(values) == objects for values in fields.values())
    return len(fields) > NAMES_MAX and not is_in_all and len(kinds - {"null"}) <= 1


def _object(members: Sequence[InferredMember], indent: str) -> str:
    inner = f"{indent}  "
    lines = ["{"]
    for member in members:
        if member.type.has_long_integers:
            lines.append(f"{inner}/** {LONG_INTEGERS} */")
        lines.append(f"{inner}{_field(member)}: {' | '.join(_union(member.type, inner))};")
    return "\n".join([*lines, f"{indent}}}"])


def _field(member: InferredMember) -> str:
    if member.name is None:
        return ANY_NAME
    return f"{field_name(member.name)}{'?' if member.is_optional else ''}"


ANY_NAME = "[name: string]"
"""Replaces the names of fields that may be arbitrary."""


def field_name(name: str) -> str:
    """Return the name of a field as TypeScript needs it: with quotes if it is not an identifier."""
    return name if _NAME.fullmatch(name) else literal(name)


def literal(value: Any) -> str:
    """Return the type that has only this JSON value. A text with a lone surrogate or a line separator is escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)


def array_of(items: Sequence[str]) -> str:
    """Return the type of an array whose elements have one of these types."""
    return f"{items[0]}[]" if len(items) == 1 else f"({' | '.join(items)})[]"


def _union(type: InferredType, indent: str) -> list[str]:
    """Return the parts of a union, always in the same order."""
    parts: list[str] = [kind for kind in ("string", "number", "boolean") if kind in type.scalars]
    if type.members is not None:
        parts.append(_object(type.members, indent))
    if type.items is not None:
        parts.append(array_of(_union(type.items, indent)))
    if "null" in type.scalars:
        parts.append("null")
    return parts or ["unknown"]
