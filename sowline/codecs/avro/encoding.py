"""Encodes canonical JSON as the bytes of an Avro record, without recursion."""

import struct
from collections.abc import Callable
from typing import Any, Final

from sowline.codecs.avro.leaves import Convert, parser
from sowline.codecs.avro.types import AvroType

_FLOAT: Final = struct.Struct("<f").pack
_DOUBLE: Final = struct.Struct("<d").pack
_Branch = Callable[[AvroType, Any], int]


class Encoder:
    """Encodes records of one reader schema. `branch` returns the number of the branch that a value is of."""

    def __init__(self, root: AvroType, branch: _Branch) -> None:
        self._root = root
        self._branch = branch
        self._parsers: dict[AvroType, Convert] = {}

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
                    rest.extend((field.type, value[field.name]) for field in reversed(part.fields))
                case "array":
                    rest.append((None, b"\0"))
                    rest.extend((part.of, item) for item in reversed(value))
                    out += varint(len(value)) if value else b""
                case "map":
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
        parse = self._parsers.get(leaf)
        if parse is None:
            parse = self._parsers[leaf] = parser(leaf)
        base = parse(value)
        match leaf.kind:
            case "null":
                return b""
            case "boolean":
                return b"\1" if base else b"\0"
            case "int" | "long":
                return varint(base)
            case "float":
                return _FLOAT(base)
            case "double":
                return _DOUBLE(base)
            case "string":
                return _sized(base.encode())
            case "bytes":
                return _sized(base)
            case "enum":
                return varint(leaf.symbols.index(base))
        return bytes(base)


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
