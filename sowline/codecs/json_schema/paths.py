"""The fields that the paths of a delta name, with their exact text."""

from functools import lru_cache

import msgspec

from sowline.codecs.errors import bad_message
from sowline.model.merge import DEPTH_MAX
from sowline.model.path import PathError, Step, parse_path

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_write = msgspec.json.Encoder().encode

_Paths = dict[str, "_Paths | None"]
"""The fields that paths name, by level; None for the whole value."""


def only_fields(body: bytes, fields: tuple[str, ...]) -> bytes:
    """Return an object with only its fields at the paths; raise `bad message` for a path that names none."""
    return _only(body, _paths(fields))


@lru_cache(1000)
def _paths(fields: tuple[str, ...]) -> _Paths:
    root: _Paths = {}
    for field in fields:
        try:
            steps = parse_path(field).steps
        except PathError as error:
            raise bad_message(error.message) from error
        if len(steps) > DEPTH_MAX:
            raise bad_message(f"expected a path of at most {DEPTH_MAX} names, got {len(steps)}")
        node: _Paths | None = root
        for step in steps[:-1]:
            node = None if node is None else node.setdefault(_name(step, field), {})
        # Otherwise, a shorter path names the whole value already.
        if node is not None:
            node[_name(steps[-1], field)] = None
    return root


def _name(step: Step, field: str) -> str:
    if not isinstance(step, str):
        raise bad_message(
            f"expected the path of a field that a delta changes, got {field!r} with a subscript"
        )
    return step


def _only(body: bytes | msgspec.Raw, paths: _Paths) -> bytes:
    """Return an object with only the fields at the paths, each with its exact text."""
    kept: dict[str, msgspec.Raw] = {}
    for name, value in _fields(body).items():
        if name not in paths:
            continue
        below = paths[name]
        if below is None:
            kept[name] = value
        # Another value has no fields, and a path that the payload lacks adds nothing (test_delta_fields).
        elif memoryview(value)[0] == ord("{"):
            kept[name] = msgspec.Raw(_only(value, below))
    return _write(kept)
