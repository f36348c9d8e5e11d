"""Computes deltas between two bodies of a record: the key fields and the changed fields, with their exact text.

Open this module to learn what delta subscribers receive. Objects are compared field by field, arrays and all other
values as a whole. The order of fields, whitespace and string escapes make no difference. Integers are equal if they
have the same value, other numbers only if they have the same text. So 1, 1.0 and 1.00 differ, as they do for readers
that keep the precision.
"""

import re
from collections.abc import Container, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from sowline.model.merge import DEPTH_MAX
from sowline.model.path import Path, parse_path
from sowline.model.select import Select

REMOVED_CHARS_MAX = 64 * 1024
"""The maximum length of the paths of removed fields together. Beyond it, the whole record is sent."""

Names = tuple[str, ...]
Keys = tuple[Names, ...]
"""The path of each key field as names, as in `TopicDefinition.key_paths`."""

_KeyTree = dict[str, "_KeyTree"]
"""The key fields as a tree of names; a key field is an empty dict."""

_OBJECT = ord("{")

_WRITABLE = re.compile(r"[^/\]]+")
"""The names that a path can contain."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read = msgspec.json.Decoder(float_hook=lambda text: msgspec.Raw(text.encode())).decode
_write = msgspec.json.Encoder().encode
_write_sorted = msgspec.json.Encoder(order="sorted").encode


class ChangeDelta(NamedTuple):
    """The content of a delta message, for subscribers that hold the previous record.

    `body` is a JSON object with the key fields and the changed fields, in the order of the new record. `changed` is
    whether any field changed, was added or was removed. Key fields can change too: 1 and "1" are one key, and a
    document need not contain its key fields. `removed` are the paths of the removed fields. Merging `body` into the
    previous record (with `merge`) and removing `removed`, in either order, gives the new record.

    With `whole`, `body` is the new record, to be sent as a full message, because a delta can't express the change
    (see `difference` and `union`). If a sender conflates it with later deltas, the result is whole again.
    """

    body: bytes
    changed: bool
    removed: tuple[str, ...] = ()
    whole: bool = False


class _NoDelta(Exception):
    """A delta can't express the change."""


def difference(previous: bytes, body: bytes, keys: Keys, select: Select | None = None) -> ChangeDelta:
    """Return the delta between two successive bodies of a record.

    Both bodies are valid JSON objects of at most 500 levels. With a select list, the fields that it leaves out are
    neither compared nor sent, key fields included. Objects are compared down to `DEPTH_MAX` levels, as in `merge`;
    key fields below are not sent.

    The delta is `whole` if something changed below those levels, or if the paths of the removed fields exceed
    `REMOVED_CHARS_MAX`. It is also `whole` if a removed field has no path, because its name, or a name above it, is
    empty or contains `/` or `]`.
    """
    if select is not None:
        previous, body = select.apply(previous), select.apply(body)
    comparison = _Comparison()
    try:
        fields = comparison.compare(previous, body, _key_tree(keys), ())
    except _NoDelta:
        return ChangeDelta(body, True, whole=True)
    return ChangeDelta(_write(fields), comparison.changed, tuple(comparison.removed))


def union(first: ChangeDelta, second: ChangeDelta, body: bytes, select: Select | None = None) -> ChangeDelta:
    """Return one delta for two successive changes; `body` is the record after both.

    The delta has all fields that either delta names, with their values in `body`, even if those equal the original
    values. `select` is the select list with which both deltas were made. The delta is `whole` if either delta is. It
    is also `whole` if a field was an object, then another value or absent, and is an object again: neither delta has
    the fields of the first object, so they could not be removed.
    """
    now = (body if select is None else select.apply(body)).lstrip()
    if first.whole or second.whole:
        return ChangeDelta(now, True, whole=True)
    try:
        fields = _named(msgspec.Raw(now), [msgspec.Raw(first.body), msgspec.Raw(second.body)])
        removed = (*_still_removed(first.removed, now), *second.removed)
        if sum(map(len, removed)) > REMOVED_CHARS_MAX:
            raise _NoDelta
    except _NoDelta:
        return ChangeDelta(now, True, whole=True)
    return ChangeDelta(_write(fields), first.changed or second.changed, removed)


class _Comparison:
    """The changes found so far while two bodies are compared."""

    __slots__ = ("changed", "removed", "removed_chars")

    def __init__(self) -> None:
        self.changed = False
        self.removed: list[str] = []
        self.removed_chars = 0

    def compare(
        self, before: bytes | msgspec.Raw, now: bytes | msgspec.Raw, keys: _KeyTree, names: Names
    ) -> dict[str, Any]:
        """Return the fields to send of the object at the path `names`; raise `_NoDelta`.

        The method recurses once per level, down to `DEPTH_MAX` levels.
        """
        if len(names) == DEPTH_MAX:
            if not _same(before, now):
                raise _NoDelta
            return {}
        fields = _fields(now)
        fields_before = fields if before == now else _fields(before)
        sent: dict[str, Any] = {}
        added = 0
        for name, value in fields.items():
            old = fields_before.get(name)
            # Equal texts are equal values, so most fields need no parsing.
            if value == old and name not in keys:
                continue
            if old is not None and _is_object(value) and _is_object(old):
                inner = self.compare(old, value, keys.get(name, {}), (*names, name))
                if inner:
                    sent[name] = inner
                continue
            added += old is None
            is_key = keys.get(name) == {} and not _is_object(value)
            differs = old is None or not _same(old, value)
            if is_key or differs:
                sent[name] = value
                self.changed = self.changed or differs
        # Most updates remove nothing: counting is cheaper than looking for each earlier field.
        if len(fields_before) > len(fields) - added:
            self._remove_missing(fields_before, fields, names)
        return sent

    def _remove_missing(self, before: Iterable[str], now: Container[str], names: Names) -> None:
        for name in before:
            if name not in now:
                self._remove((*names, name))

    def _remove(self, names: Names) -> None:
        if not all(map(_WRITABLE.fullmatch, names)):
            raise _NoDelta
        path = str(Path(names))
        self.removed_chars += len(path)
        if self.removed_chars > REMOVED_CHARS_MAX:
            raise _NoDelta
        self.removed.append(path)
        self.changed = True


@lru_cache(maxsize=1024)
def _key_tree(keys: Keys) -> _KeyTree:
    root: _KeyTree = {}
    for names in keys:
        node = root
        for name in names:
            node = node.setdefault(name, {})
    return root


def _is_object(value: msgspec.Raw) -> bool:
    return memoryview(value)[0] == _OBJECT


def _same(before: bytes | msgspec.Raw, now: bytes | msgspec.Raw) -> bool:
    """Return whether two JSON texts are the same value."""
    if before == now:
        return True
    try:
        return _write_sorted(_read(before)) == _write_sorted(_read(now))
    except msgspec.ValidationError:
        # Python does not read integers with this many digits. Then only equal texts are certain to be equal.
        return False


def _named(now: msgspec.Raw, deltas: list[msgspec.Raw]) -> Any:
    """Return the part of a value that the deltas name (all have a value at the same path); raise `_NoDelta`.

    The function recurses once per level: a body has up to 500 levels, and Python's stack allows a thousand calls.
    """
    if now == deltas[0] or not _is_object(now):
        return now
    # {"o": {"a": 1, "b": 2}} becomes {"o": 5}, then {"o": {"b": 2}}. A subscriber that merges the last object keeps
    # "a", which no delta removes (test_an_object_that_was_something_else_in_between_makes_a_union_whole).
    if not all(map(_is_object, deltas)):
        raise _NoDelta
    fields_of_deltas = [_fields(delta) for delta in deltas]
    names: set[str] = set()
    names.update(*fields_of_deltas)
    named: dict[str, Any] = {}
    for name, value in _fields(now).items():
        if name in names:
            named[name] = _named(value, [fields[name] for fields in fields_of_deltas if name in fields])
    return named


def _still_removed(paths: tuple[str, ...], now: bytes) -> Iterator[str]:
    """Yield the paths whose field is still absent while its parent is an object; raise `_NoDelta`.

    If the parent was removed or replaced too, another path, or a value above, already covers it.
    """
    if not paths:
        return
    objects: dict[Names, dict[str, msgspec.Raw] | None] = {(): _fields(now)}
    for path in paths:
        *above, name = map(str, parse_path(path).steps)
        fields = _object_at(tuple(above), objects)
        if fields is None:
            continue
        if name not in fields:
            yield path
        # The same as in `_named`, with the object absent in between instead of replaced by another value.
        elif _is_object(fields[name]):
            raise _NoDelta


def _object_at(
    names: Names, objects: dict[Names, dict[str, msgspec.Raw] | None]
) -> dict[str, msgspec.Raw] | None:
    """Return the fields of the object at a path, None if there is no object there; cache them in `objects`."""
    if names not in objects:
        value = (_object_at(names[:-1], objects) or {}).get(names[-1])
        objects[names] = _fields(value) if value is not None and _is_object(value) else None
    return objects[names]
