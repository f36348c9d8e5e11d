"""Applies a delta to a record, both as canonical JSON, by the paths of elements."""

from typing import Final

import msgspec

from sowline.codecs.errors import bad_message
from sowline.codecs.schemaless import excerpt
from sowline.codecs.xml.nodes import TEXT, is_element
from sowline.errors import SowlineError
from sowline.model.merge import DEPTH_MAX

_OBJECT: Final = ord("{")
_ARRAY: Final = ord("[")

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_write = msgspec.json.Encoder().encode


def merged(body: bytes, delta: bytes) -> bytes:
    """Return a record after a delta; raise `bad message` if their roots differ, and `too deep`.

    Objects are merged member by member, other values are replaced. A text in the delta replaces only the text of an
    element that is an object, and an object in the delta keeps the text of an element that was a text.
    """
    root, changed = _root(body), _root(delta)
    if root != changed:
        raise bad_message(f"expected a delta with the root element {excerpt(root)}, got {excerpt(changed)}")
    return _merged(body, delta, DEPTH_MAX)


def _root(document: bytes) -> str:
    return next(filter(is_element, _members(document)), "")


def _merged(old: bytes | msgspec.Raw, delta: bytes | msgspec.Raw, depth: int) -> bytes:
    # As in `merge`: whether a delta is refused must not depend on the stack of the caller.
    if not depth:
        raise SowlineError(
            "too deep", f"expected at most {DEPTH_MAX} levels of nested elements to merge, got more"
        )
    members = _members(old)
    for name, value in _members(delta).items():
        before = members.get(name)
        members[name] = value if before is None else msgspec.Raw(_value(before, value, depth))
    return _write(members)


def _value(before: msgspec.Raw, now: msgspec.Raw, depth: int) -> bytes | msgspec.Raw:
    kinds = memoryview(before)[0], memoryview(now)[0]
    if _ARRAY in kinds or _OBJECT not in kinds:
        return now
    if kinds == (_OBJECT, _OBJECT):
        return _merged(before, now, depth - 1)
    if kinds[0] == _OBJECT:
        return _write({**_members(before), TEXT: now})
    return _write({TEXT: before, **_members(now)})
