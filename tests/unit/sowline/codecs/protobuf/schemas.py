"""Schemas of Protobuf, for the tests of the modules that read them."""

from sowline.codecs.schema import Schema


def proto_schema(fields: str, syntax: str = "proto3", message: str = "") -> Schema:
    """Return a schema of these declarations."""
    return Schema("protobuf", f'syntax = "{syntax}"; {fields}', (), message)


def record_schema(fields: str, syntax: str = "proto3") -> Schema:
    """Return the schema of a message R with these fields."""
    return proto_schema(f"{fields}".join(["message R { ", " }"]), syntax)


def schema_with(fields: str, below: str) -> Schema:
    """Return the schema of a message R with these fields, and what follows it."""
    return proto_schema(f"message R {{ {fields} }} {below}")


ENUM = " enum E { A = 0; B = 1; }"

INNER = " message I { int32 a = 1; } message J { string a = 1; }"
