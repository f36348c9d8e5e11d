"""Merging a delta into a JSON body by path, without touching the text of what it does not name."""

import msgspec

from sowline.errors import SowlineError

DEPTH_MAX = 200

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_write = msgspec.json.Encoder().encode


def merge(old: bytes, delta: bytes) -> bytes:
    """Return `old` with the fields of `delta` laid over it; both are JSON objects already checked to be valid.

    Objects merge field by field; arrays and all other values are replaced whole; an explicit null sets null.
    A field that `delta` does not name keeps its exact text, numbers included. Raises `too deep` beyond
    `DEPTH_MAX` levels of objects to merge.
    """
    return _merge(old, delta, DEPTH_MAX)


def _merge(old: bytes, delta: bytes, depth: int) -> bytes:
    if not depth:
        raise SowlineError("too deep", f"expected at most {DEPTH_MAX} levels of nested objects to merge")
    merged = _fields(old)
    for name, value in _fields(delta).items():
        before = merged.get(name)
        if before is not None and _is_object(value) and _is_object(before):
            merged[name] = msgspec.Raw(_merge(bytes(before), bytes(value), depth - 1))
        else:
            merged[name] = value
    return bytes(_write(merged))


def _is_object(value: msgspec.Raw) -> bool:
    return memoryview(value)[0] == ord("{")
