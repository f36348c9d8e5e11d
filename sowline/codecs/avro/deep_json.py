"""Writes JSON that nests deeper than orjson writes."""

from typing import Any, Final

import orjson

_LEVELS: Final = 200
"""Below the 254 levels that orjson writes."""


def json_bytes(document: dict[str, Any]) -> bytes:
    """Return a document as JSON, at any nesting depth."""
    try:
        return orjson.dumps(document)
    except orjson.JSONEncodeError:
        return _deep(document)


def _deep(document: Any) -> bytes:
    # From the deepest piece of 200 levels up, each piece becomes text for the one above. Defaults are shared by
    # documents, so that happens in a copy.
    document = _copied(document)
    tops: list[Any] = [document]
    slots: list[tuple[Any, Any, Any]] = []
    for top in tops:
        for container, key, below in _containers_at(top):
            slots.append((container, key, below))
            tops.append(below)
    for container, key, below in reversed(slots):
        container[key] = orjson.Fragment(orjson.dumps(below))
    return orjson.dumps(document)


def _copied(document: Any) -> Any:
    copies = [document.copy()]
    for copy in copies:
        for key, part in _pairs(copy):
            if isinstance(part, dict | list):
                copy[key] = part.copy()
                copies.append(copy[key])
    return copies[0]


def _pairs(container: Any) -> list[tuple[Any, Any]]:
    return list(container.items() if isinstance(container, dict) else enumerate(container))


def _containers_at(top: Any) -> list[tuple[Any, Any, Any]]:
    """Return the objects and arrays `_LEVELS` below one, each with the container and the key that it is at."""
    level: list[tuple[Any, Any, Any]] = [(None, None, top)]
    for _ in range(_LEVELS):
        level = [
            (container, key, part)
            for _, _, container in level
            for key, part in _pairs(container)
            if isinstance(part, dict | list)
        ]
    return level
