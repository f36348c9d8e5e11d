"""JSON values of any depth, and the texts about them in errors."""

from collections.abc import Iterator
from typing import Any, Final

import jsonschema_rs
import orjson

SHOWN_CHARS_MAX: Final = 200


def nodes(roots: list[Any]) -> Iterator[Any]:
    """Yield values and every value in them."""
    pending = list(roots)
    while pending:
        node = pending.pop()
        yield node
        pending.extend(_inner(node))


def _inner(node: Any) -> list[Any]:
    return list(node.values()) if isinstance(node, dict) else node if isinstance(node, list) else []


def is_deeper(document: Any, levels: int) -> bool:
    """Return whether a document has more levels of objects and arrays."""
    # Level by level and not recursive: the document itself decides how deep it nests.
    level: list[Any] = [document]
    for _ in range(levels):
        level = [below for node in level for below in _inner(node) if isinstance(below, dict | list)]
        if not level:
            return False
    return True


def sentence(error: Exception) -> str:
    """Return the text of a validator's error, cut to a length that fits into an answer."""
    text = error.message if isinstance(error, jsonschema_rs.ValidationError) else str(error)
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"


def shown(value: Any) -> str:
    """Return a value as errors show it: its JSON, cut, or only that it is an object or an array."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    text = orjson.dumps(value).decode()
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"
