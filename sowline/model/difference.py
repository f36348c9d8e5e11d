"""What a change did to a record, as a delta: its key fields and the fields that changed, with their exact text.

Objects are compared field by field, arrays and all other values whole. The order of fields, whitespace and
the escapes of strings make no difference. Of numbers, integers are the same if they are the same integer, and
all others if they have the same text: 1, 1.0 and 1.00 differ, as they do to readers who keep precision.
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
"""How long the paths of removed fields may be, all in all, before the record is sent whole."""

Names = tuple[str, ...]
Keys = tuple[Names, ...]
"""The names that lead to each key field, as `TopicDefinition.key_paths` has them."""

_KeyTree = dict[str, "_KeyTree"]
"""The key fields by the names that lead to them; a field that is a key holds nothing."""

_OBJECT = ord("{")

_WRITABLE = re.compile(r"[^/\]]+")
"""The names that a path can hold."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read = msgspec.json.Decoder(float_hook=lambda text: msgspec.Raw(text.encode())).decode
_write = msgspec.json.Encoder().encode
_write_sorted = msgspec.json.Encoder(order="sorted").encode


class ChangeDelta(NamedTuple):
    """What to tell of a change to those who hold the record before it.

    `body` is a JSON object: the key fields and the changed fields, in the order of the new record. `changed`
    tells whether any field changed, appeared or was removed. A key field can do so too: 1 and "1" are one
    key, and a key field of a document may be absent. `removed` are the paths of
    fields that the record had and has no more. Merging `body` into the record before, as `merge` does, and
    taking out `removed`, in either order, gives the new record.

    With `whole`, `body` is the new record itself, to be sent as a full message: not every change can be told
    as a delta (see `difference` and `union`). A sender that conflates it with later deltas sends it whole again.
    """

    body: bytes
    changed: bool
    removed: tuple[str, ...] = ()
    whole: bool = False


class _Untellable(Exception):
    """The change can't be told as a delta."""


def difference(previous: bytes, body: bytes, keys: Keys, select: Select | None = None) -> ChangeDelta:
    """Return what changed from one body of a record to the next.

    Both are JSON objects known to be valid, of at most 500 levels. With a select list, what it leaves out of
    either is not compared and not sent, key fields included. Objects are compared down to the `DEPTH_MAX`
    levels that `merge` goes down; key fields below are not sent.

    The new record is whole where something changed below those levels, where a field was removed that no path
    can name (its name or one above it is empty, or holds `/` or `]`), or where the paths of removed fields
    exceed `REMOVED_CHARS_MAX`.
    """
    if select is not None:
        previous, body = select.apply(previous), select.apply(body)
    comparison = _Comparison()
    try:
        fields = comparison.compare(previous, body, _key_tree(keys), ())
    except _Untellable:
        return ChangeDelta(body, True, whole=True)
    return ChangeDelta(_write(fields), comparison.changed, tuple(comparison.removed))


def union(first: ChangeDelta, second: ChangeDelta, body: bytes, select: Select | None = None) -> ChangeDelta:
    """Return what to tell of two changes that follow each other; `body` is the record after both.

    All fields that either delta names are sent as `body` has them, also those that are again what they were.
    The select list is the one that both deltas were made with. The record is whole where either delta is, and
    where an object stands at a place that held another value or nothing in between: what the object before
    that had, neither delta tells.
    """
    now = (body if select is None else select.apply(body)).lstrip()
    if first.whole or second.whole:
        return ChangeDelta(now, True, whole=True)
    try:
        fields = _named(msgspec.Raw(now), [msgspec.Raw(first.body), msgspec.Raw(second.body)])
        removed = (*_still_removed(first.removed, now), *second.removed)
        if sum(map(len, removed)) > REMOVED_CHARS_MAX:
            raise _Untellable
    except _Untellable:
        return ChangeDelta(now, True, whole=True)
    return ChangeDelta(_write(fields), first.changed or second.changed, removed)


class _Comparison:
    """What was found so far while two bodies are compared."""

    __slots__ = ("changed", "removed", "removed_chars")

    def __init__(self) -> None:
        self.changed = False
        self.removed: list[str] = []
        self.removed_chars = 0

    def compare(
        self, before: bytes | msgspec.Raw, now: bytes | msgspec.Raw, keys: _KeyTree, names: Names
    ) -> dict[str, Any]:
        """Return the part to send of the object that `names` lead to; raises `_Untellable`.

        It calls only itself, once per level, and not below those that `merge` goes down.
        """
        if len(names) == DEPTH_MAX:
            if not _same(before, now):
                raise _Untellable
            return {}
        fields = _fields(now)
        fields_before = fields if before == now else _fields(before)
        sent: dict[str, Any] = {}
        added = 0
        for name, value in fields.items():
            old = fields_before.get(name)
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
        if len(fields_before) > len(fields) - added:
            self._remove_missing(fields_before, fields, names)
        return sent

    def _remove_missing(self, before: Iterable[str], now: Container[str], names: Names) -> None:
        for name in before:
            if name not in now:
                self._remove((*names, name))

    def _remove(self, names: Names) -> None:
        if not all(map(_WRITABLE.fullmatch, names)):
            raise _Untellable
        path = str(Path(names))
        self.removed_chars += len(path)
        if self.removed_chars > REMOVED_CHARS_MAX:
            raise _Untellable
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
    """Whether two texts are one value."""
    if before == now:
        return True
    try:
        return _write_sorted(_read(before)) == _write_sorted(_read(now))
    except msgspec.ValidationError:
        # An integer of more digits than Python reads: then only the same text is surely the same value.
        return False


def _named(now: msgspec.Raw, deltas: list[msgspec.Raw]) -> Any:
    """What the deltas, or what they have at one place, name of a value; raises `_Untellable`.

    It calls only itself, once per level: a body has up to 500, and Python's stack takes a thousand in all.
    """
    if now == deltas[0] or not _is_object(now):
        return now
    if not all(map(_is_object, deltas)):
        raise _Untellable
    fields_of_deltas = [_fields(delta) for delta in deltas]
    names = set().union(*fields_of_deltas)
    named = {}
    for name, value in _fields(now).items():
        if name in names:
            named[name] = _named(value, [fields[name] for fields in fields_of_deltas if name in fields])
    return named


def _still_removed(paths: tuple[str, ...], now: bytes) -> Iterator[str]:
    """Those of the paths whose field is absent from an object that is there; raises `_Untellable`.

    Where the object is gone or replaced as well, a path or a value above says so.
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
        elif _is_object(fields[name]):
            raise _Untellable


def _object_at(
    names: Names, objects: dict[Names, dict[str, msgspec.Raw] | None]
) -> dict[str, msgspec.Raw] | None:
    """The fields of the object that the names lead to, None if there is none; kept in `objects`."""
    if names not in objects:
        value = (_object_at(names[:-1], objects) or {}).get(names[-1])
        objects[names] = _fields(value) if value is not None and _is_object(value) else None
    return objects[names]
