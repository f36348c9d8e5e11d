"""Merges a delta into a JSON body, and removes fields by path. All other fields keep their exact text."""

from collections.abc import Iterable
from typing import Any

import msgspec

from sowline.errors import SowlineError
from sowline.model.path import parse_path

DEPTH_MAX = 200

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_write = msgspec.json.Encoder().encode


def merge(old: bytes, delta: bytes) -> bytes:
    """Return `old` with the fields of `delta` merged into it; both are valid JSON objects.

    Objects are merged field by field. Arrays and all other values are replaced as a whole. An explicit null sets
    null. A field that `delta` does not name keeps its exact text, numbers included. Raise `too deep` if more than
    `DEPTH_MAX` levels of objects would have to be merged.
    """
    return _merge(old, delta, DEPTH_MAX)


def _merge(old: bytes, delta: bytes, depth: int) -> bytes:
    # Python's stack is limited, and the free part of it depends on the caller. The result of a log record must not:
    # every replay has to refuse the same deltas (test_merging_has_a_depth).
    if not depth:
        raise SowlineError(
            "too deep", f"expected at most {DEPTH_MAX} levels of nested objects to merge, got more"
        )
    merged, changed = _fields(old), _fields(delta)
    if (
        delta.count(b"{") == 1
    ):  # The common case: no field of the delta is an object, so each replaces the old one.
        merged.update(changed)
        return bytes(_write(merged))
    for name, value in changed.items():
        before = merged.get(name)
        if before is not None and _is_object(value) and _is_object(before):
            merged[name] = msgspec.Raw(_merge(bytes(before), bytes(value), depth - 1))
        else:
            merged[name] = value
    return bytes(_write(merged))


def _is_object(value: msgspec.Raw) -> bool:
    return memoryview(value)[0] == ord("{")


def take_out(body: bytes, paths: Iterable[str]) -> bytes:
    """Return a valid JSON object without the fields at the paths; all other fields keep their exact text."""
    root: dict[Any, Any] = {}
    for path in paths:
        # None stands for a field that is removed as a whole: of `/a` and `/a/b`, only `/a` counts, in either order
        # (test_fields_are_taken_out).
        node: dict[Any, Any] | None = root
        *above, last = parse_path(path).steps
        for name in above:
            node = None if node is None else node.setdefault(name, {})
        if node is not None:
            node[last] = None
    return bytes(_without(body, root)) if root else body


def _without(body: bytes | msgspec.Raw, gone: dict[Any, Any]) -> bytes:
    """Return the object without the fields marked None in `gone`. It recurses once per level of a path."""
    fields = _fields(body)
    for name, below in gone.items():
        if below is None:
            fields.pop(name, None)
        elif name in fields and _is_object(fields[name]):
            fields[name] = msgspec.Raw(_without(fields[name], below))
    return _write(fields)
