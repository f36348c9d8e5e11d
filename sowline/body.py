"""The body of a record or of a message: one JSON object."""

import orjson

from sowline.errors import SowlineError
from sowline.nesting import NESTING_MAX, check_nesting


def read_object(body: bytes) -> dict[str, object]:
    """Parse a body; raises `not json`, `not an object` or `too deep`."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise SowlineError("not json", f"expected a JSON object: {error}") from error
    if not isinstance(document, dict):
        raise SowlineError("not an object", f"expected a JSON object, got {_kind(document)}")
    if len(body) > 2 * NESTING_MAX:  # each level takes two brackets
        check_nesting(body)
    return document


def _kind(value: object) -> str:
    kinds = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")
