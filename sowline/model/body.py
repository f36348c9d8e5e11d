"""The body of a record or of a message: one JSON object."""

import msgspec
import orjson

from sowline.errors import SowlineError
from sowline.model.nesting import NESTING_MAX, check_nesting


def read_object(body: bytes) -> dict[str, object]:
    """Return the parsed body; raise `not json`, `not an object` or `too deep`."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise SowlineError("not json", why_not_json(body, error)) from error
    if not isinstance(document, dict):
        raise SowlineError("not an object", f"expected a JSON object, got {_kind(document)}")
    if len(body) > 2 * NESTING_MAX:  # each level takes two brackets
        check_nesting(body)
    return document


def why_not_json(text: bytes, error: Exception, expected: str = "a JSON object") -> str:
    """Return the message for a text that is not valid JSON: what was expected, what came, and what to do.

    `error` is the exception that orjson or msgspec raised.
    """
    try:
        text.decode()
    except UnicodeDecodeError as found:
        byte, at = text[found.start], found.start
        return f"expected {expected} in UTF-8, got the byte 0x{byte:02x} at offset {at}: encode the text as UTF-8"
    if not isinstance(error, orjson.JSONDecodeError | msgspec.ValidationError):
        # msgspec reports half of a surrogate pair as truncated text; orjson names it.
        try:
            orjson.loads(text)
        except orjson.JSONDecodeError as found:
            error = found
    if not isinstance(error, orjson.JSONDecodeError):
        return f"expected {expected}: {error}"
    where = f"line {error.lineno}, column {error.colno}"
    if "surrogate" in error.msg:
        pair = "\\ud83d\\ude00"
        return f"expected {expected}, got half of a surrogate pair at {where}: write both halves, like {pair}"
    if "infinity" in error.msg:
        return f"expected {expected}, got a number too large for a double at {where}: write it as a string"
    return f"expected {expected}: {error}"


def _kind(value: object) -> str:
    kinds = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")
