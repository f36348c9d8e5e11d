"""Encodes canonical JSON as the bytes of an Avro record, without recursion."""

import struct
from collections.abc import Callable
from typing import Any, Final

from sowline.codecs.avro.leaves import parser
from sowline.codecs.avro.misfit import SchemaMisfit, excerpt
from sowline.codecs.avro.types import AvroType

_FLOAT: Final = struct.Struct("<f").pack
_DOUBLE: Final = struct.Struct("<d").pack
_Branch = Callable[[AvroType, Any], int]
_Encode = Callable[[Any], bytes]


class Encoder:
    """Encodes records of one reader schema. `branch` returns the number of a value's branch."""

    def __init__(self, root: AvroType, branch: _Branch) -> None:
        self._root = root
        self._branch = branch
        # The key None is for bytes that are already encoded.
        self._leaves: dict[AvroType | None, _Encode] = {None: bytes}

    def bytes_of(self, document: dict[str, Any]) -> bytes:
        """Return the bytes of canonical JSON; raise SchemaMisfit if a value doesn't fit its union's branch."""
        out = bytearray()
        # A stack of the remaining work: a type and its value, or encoded bytes.
        rest: list[tuple[AvroType | None, Any]] = [(self._root, document)]
        while rest:
            part, value = rest.pop()
            encode = self._leaves.get(part)
            if encode is not None:
                out += encode(value)
            else:
                assert part is not None
                out += self._begun(part.itself, value, rest)
        return bytes(out)

    def _begun(self, part: AvroType, value: Any, rest: list[tuple[AvroType | None, Any]]) -> bytes:
        """Return the first bytes of a value, and add what follows them to the rest."""
        match part.kind:
            case "record":
                rest.extend(_fields(part, value))
            case "array" | "map":
                return _begun_block(part, value, rest)
            case "union":
                number = self._branch(part, value)
                rest.append((part.branches[number], value))
                return varint(number)
            case _:
                self._leaves[part] = _leaf_encoder(part)
                rest.append((part, value))
        return b""


# Branches are compared down to `FIT_DEPTH` levels. A value may fit two of them that far, and only one further
# down. So the encoder checks kinds and names again.


def _fields(record: AvroType, value: Any) -> list[tuple[AvroType | None, Any]]:
    """Return the types and values of a record's fields, last one first."""
    _check_kind(value, dict)
    try:
        fields: list[tuple[AvroType | None, Any]] = [
            (field.type, value[field.name]) for field in reversed(record.fields)
        ]
    except KeyError:
        fields = []
    # A field that the record lacks would silently be left out of the bytes (test_the_encoder_checks_the_branch).
    if len(fields) != len(value) or len(fields) != len(record.fields):
        raise SchemaMisfit(f"the fields of {record}", excerpt(value))
    return fields


def _begun_block(part: AvroType, value: Any, rest: list[tuple[AvroType | None, Any]]) -> bytes:
    _check_kind(value, list if part.kind == "array" else dict)
    rest.append((None, b"\0"))
    if part.kind == "array":
        rest.extend((part.of, item) for item in reversed(value))
    else:
        for key, item in reversed(value.items()):
            rest += ((part.of, item), (None, _sized(key.encode())))
    return varint(len(value)) if value else b""


def _check_kind(value: Any, kind: type) -> None:
    if type(value) is not kind:
        raise SchemaMisfit("an array" if kind is list else "an object", excerpt(value))


def _leaf_encoder(leaf: AvroType) -> _Encode:
    """Return the function from canonical JSON of a type without parts to bytes."""
    parse = parser(leaf)
    match leaf.kind:
        case "null":
            return lambda value: parse(value) or b""
        case "boolean":
            return lambda value: b"\1" if parse(value) else b"\0"
        case "float":
            return lambda value: _FLOAT(parse(value))
        case "double":
            return lambda value: _DOUBLE(parse(value))
        case "string":
            return lambda value: _sized(parse(value).encode())
        case "bytes":
            return lambda value: _sized(parse(value))
        case "fixed":
            return parse
        case "enum":
            numbers = {symbol: varint(number) for number, symbol in enumerate(leaf.symbols)}
            return lambda value: numbers[parse(value)]
    return lambda value: varint(parse(value))


def varint(number: int) -> bytes:
    """Return an integer of 64 bits as Avro encodes it: zigzag, seven bits to a byte."""
    rest = (number << 1) ^ (number >> 63)
    if rest < 128:
        return bytes((rest,))
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _sized(data: bytes) -> bytes:
    return varint(len(data)) + data
