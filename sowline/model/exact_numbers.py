"""JSON for people and their programs: integers of any size stay integers, where services calculate with doubles."""

from typing import Any

import msgspec
import orjson

from sowline.model.body import copied, write_body

_INT64_MIN, _UINT64_MAX = -(2**63), 2**64 - 1

_decode = msgspec.json.Decoder().decode


def read_exact(text: bytes) -> Any:
    """Return the parsed JSON; raise `orjson.JSONDecodeError` for any other text.

    It is what `orjson.loads` returns, in about the same time, except for integers beyond 64 bits, which orjson
    reads as doubles (test_every_value_is_read_as_python_reads_it).
    """
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # A number without bounds, or a caller that has no stack left. In any other case this raises, too.
        return orjson.loads(text)


def write_exact(value: Any) -> bytes:
    """Return a value as JSON, as `write_body` does, with integers of any size."""
    try:
        return write_body(value)
    except orjson.JSONEncodeError:
        return write_body(copied(value, _as_text))


def _as_text(part: Any) -> Any:
    """Return an integer beyond 64 bits as its digits, which orjson writes as they are; anything else unchanged."""
    is_long = type(part) is int and not _INT64_MIN <= part <= _UINT64_MAX
    return orjson.Fragment(str(part)) if is_long else part
