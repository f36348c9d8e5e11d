"""Encodes canonical JSON as the bytes of an Avro record, without recursion."""

import struct
from collections.abc import Callable
from typing import Any, Final

from sowline.codecs.avro.leaves import parser
from sowline.codecs.avro.misfit import Misfit, excerpt
from sowline.codecs.avro.types import AvroType

_FLOAT: Final = struct.Struct("<f").pack
_DOUBLE: Final = struct.Struct("<d").pack
_Branch = Callable[[AvroType, Any], int]
_Encode = Callable[[Any], bytes]


class Encoder:
    """Encodes records of one reader schema. `branch` returns the number of the branch that a value is of."""

    def __init__(self, root: AvroType, branch: _Branch) -> None:
        self._root = root
        self._branch = branch
        self._leaves: dict[AvroType, _Encode] = {}

    def bytes_of(self, document: dict[str, Any]) -> bytes:
        """Return the bytes of canonical JSON."""
        out = bytearray()
        # A stack of what remains: a type and its value, or bytes that are ready.
        rest: list[tuple[AvroType | None, Any]] = [(self._root, document)]
        while rest:
            part, value = rest.pop()
            if part is None:
                out += value
                continue
            part = part.itself
            match part.kind:
                case "record":
                    _check_names(part, value)
                    rest.extend((field.type, value[field.name]) for field in reversed(part.fields))
                case "array":
                    _check_kind(value, list)
                    rest.append((None, b"\0"))
                    rest.extend((part.of, item) for item in reversed(value))
                    out += varint(len(value)) if value else b""
                case "map":
                    _check_kind(value, dict)
                    rest.append((None, b"\0"))
                    for key, item in reversed(value.items()):
                        rest += ((part.of, item), (None, _sized(key.encode())))
                    out += varint(len(value)) if value else b""
                case "union":
                    number = self._branch(part, value)
                    out += varint(number)
                    rest.append((part.branches[number], value))
                case _:
                    out += self._leaf(part, value)
        return bytes(out)

    def _leaf(self, leaf: AvroType, value: Any) -> bytes:
        encode = self._leaves.get(leaf)
        if encode is None:
            encode = self._leaves[leaf] = _leaf_encoder(leaf)
        return encode(value)


# A value may fit two branches of a union as far as they are compared, and only one of them further down.


def _check_names(record: AvroType, value: Any) -> None:
    _check_kind(value, dict)
    if len(value) != len(record.fields) or not all(field.name in value for field in record.fields):
        raise Misfit(f"the fields of {record}", excerpt(value))


def _check_kind(value: Any, kind: type) -> None:
    if type(value) is not kind:
        raise Misfit("an array" if kind is list else "an object", excerpt(value))


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
