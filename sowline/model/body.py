"""The body of a record or of a message: one JSON object."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
import orjson

from sowline.errors import SowlineError
from sowline.model.json_parts import Part
from sowline.model.nesting import NESTING_MAX, check_nesting

_PIECE_LEVELS: Final = 200
"""Below the 254 levels that orjson writes."""
_SHOWN_LETTERS: Final = 20
"""How much of a text that is no JSON its message has."""


def read_object(body: bytes) -> dict[str, object]:
    """Return the parsed body; raise `not json`, `not an object` or `too deep`."""
    try:
        document: Part = orjson.loads(body)
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
    if "invalid literal" in error.msg:
        # orjson tells a word by its first letter: of "this", it says that it expected "true".
        return f"expected {expected}, got {text.decode()[error.pos :][:_SHOWN_LETTERS]!r} at {where}"
    return f"expected {expected}: {error}"


def write_body(document: Any, default: Callable[[Any], Any] | None = None, option: int = 0) -> bytes:
    """Return a parsed body as JSON, at any nesting depth; `default` and `option` are those of orjson.

    A record nests up to `NESTING_MAX` levels, and orjson writes fewer. So whatever writes the bodies of records again
    uses this function (tests/unit/sowline/model/test_body.py::test_bodies_are_written_by_one_function).
    """
    try:
        return _trimmed(orjson.dumps(document, default, option))
    except orjson.JSONEncodeError:
        # Versions of orjson word the error of depth differently. Any other error is raised again by a piece
        # (test_what_is_no_json_is_refused_at_any_depth).
        if not isinstance(document, dict | list):
            raise
    return _written_in_pieces(document, default, option)


def trimmed_json(value: Any) -> bytes:
    """Return a value as JSON that may be kept, or wait in a queue: in exactly as many bytes as it has."""
    return _trimmed(orjson.dumps(value))


def _trimmed(text: bytes) -> bytes:
    # The result of orjson keeps the whole buffer that it was written into: 4 KiB for the key of a group. So 100,000
    # groups took 440 MiB where 90 were counted (test_json_that_is_kept_takes_no_more_than_its_bytes).
    return b"%b" % text


def _written_in_pieces(document: Any, default: Callable[[Any], Any] | None, option: int) -> bytes:
    # From the deepest piece of 200 levels up, each piece becomes text for the one above. A document may be shared,
    # so that happens in a copy.
    document = copied(document, lambda part: part)
    tops: list[Any] = [document]
    slots: list[tuple[Any, Any, Any]] = []
    for top in tops:
        for container, key, below in _containers_at(top):
            slots.append((container, key, below))
            tops.append(below)
    for container, key, below in reversed(slots):
        container[key] = orjson.Fragment(orjson.dumps(below, default, option))
    return _trimmed(orjson.dumps(document, default, option))


def copied(document: Any, leaf: Callable[[Any], Any]) -> Any:
    """Return a copy of a document's objects and arrays, at any nesting depth, with `leaf` of everything else."""
    copies: list[Any] = [[document]]
    for copy in copies:
        for key, part in _pairs(copy):
            if type(part) in (dict, list):
                copy[key] = part.copy()
                copies.append(copy[key])
            else:
                copy[key] = leaf(part)
    return copies[0][0]


def _pairs(container: dict[Any, Any] | list[Any]) -> list[tuple[Any, Any]]:
    return list(container.items() if isinstance(container, dict) else enumerate(container))


def _containers_at(top: Any) -> list[tuple[Any, Any, Any]]:
    """Return the objects and arrays `_PIECE_LEVELS` below one, each with the container and the key that it is at."""
    level: list[tuple[Any, Any, Any]] = [(None, None, top)]
    for _ in range(_PIECE_LEVELS):
        level = [
            (container, key, part)
            for _, _, container in level
            for key, part in _pairs(container)
            if type(part) in (dict, list)
        ]
    return level


def _kind(value: object) -> str:
    kinds: dict[type, str] = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")
