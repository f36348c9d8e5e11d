"""Select lists: choose which fields of a body a reader gets. Pure. The fields keep their exact text.

`[-/,+/id,+/pocket/left]` is a list of directives: `+` sends a field and all fields below it, `-` leaves them out. `/`
is the whole body. The most specific directive that covers a field decides. A field without a directive is sent. If a
field has two directives, the first counts. A select list never adds fields.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, TypedDict

import msgspec

from sowline.errors import SowlineError
from sowline.model.path import Path, PathError, parse_path

DIRECTIVES_MAX = 256
SELECT_CHARS_MAX = 64 * 1024

_PART = re.compile(r"(?:[^\[,]|\[[^\]]*\]?)+")
"""The text of one directive, between commas. A name in brackets may contain commas."""

_OBJECT, _ARRAY = b"{["

_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_write = msgspec.json.Encoder().encode

Names = tuple[str, ...]

Flat = tuple[bool, list[tuple[str, bool]]]
"""Whether fields are sent that no directive names, and the named top-level fields, each with whether it is sent."""


class _Node:
    """A field that a directive names, or that contains such a field.

    `sent` is whether the field is sent; `fields` has the nodes of the fields below it.
    """

    __slots__ = ("_read", "fields", "sent")

    def __init__(self, sent: bool) -> None:
        self.sent = sent
        self.fields: dict[str, _Node] = {}
        self._read: Callable[[bytes | msgspec.Raw], dict[str, msgspec.Raw]] | None = None

    def read(self, value: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
        """Return the fields of an object. The decoder skips most fields that are not sent."""
        # Make the decoder only when an object is read: a list may name many fields that no body has.
        if self._read is None:
            self._read = msgspec.json.Decoder(_all() if self.sent else _only(self.fields)).decode
        return self._read(value)


def _all() -> Any:
    """Return the type of dicts with all fields of an object."""
    return dict[str, msgspec.Raw]


def _only(names: Iterable[str]) -> Any:
    """Return the type of dicts with only the fields of these names."""
    # msgspec does not find fields of a `TypedDict` whose names are not ASCII. With such names, read all fields
    # (test_names_are_any_text).
    fields = dict.fromkeys(names, msgspec.Raw)
    return TypedDict("fields", fields, total=False) if all(map(str.isascii, fields)) else _all()  # type: ignore[operator]


class Select:
    """A select list. Immutable; lists with the same directives are equal. `text` is the canonical text."""

    __slots__ = ("_directives", "_root", "text")

    text: str

    def __init__(self, directives: dict[Names, bool]) -> None:
        """Make a list from directives: the path of each field as names, and whether it is sent."""
        self._directives = directives
        self._root = _Node(True)
        # The shortest paths first: a directive also applies to the fields below, unless a more specific one differs.
        for names, sent in sorted(directives.items(), key=lambda directive: len(directive[0])):
            node = self._root
            for name in names:
                node = node.fields.setdefault(name, _Node(node.sent))
            node.sent = sent
        self.text = f"[{','.join(_directive_text(*directive) for directive in sorted(directives.items()))}]"

    @property
    def flat(self) -> Flat | None:
        """The list, if its directives name only top-level fields."""
        if any(len(names) > 1 for names in self._directives):
            return None
        named = [(names[0], sent) for names, sent in self._directives.items() if names]
        return self._root.sent, named

    def apply(self, body: bytes) -> bytes:
        """Return the body without the fields that are not sent; `{}` if none is sent.

        `body` is a valid JSON object of at most 500 levels. The list also applies to the fields of objects in arrays.
        An object or array that loses all its content is left out too. One that was empty before is treated like any
        other value.
        """
        selected = _selected(body.lstrip(), self._root)
        return b"{}" if selected is None else bytes(selected)

    def keeps(self, path: Path) -> bool:
        """Return whether a value at the path is sent; a subscript stands for any element."""
        return self._sends(step for step in path.steps if isinstance(step, str))

    def _sends(self, names: Iterable[str]) -> bool:
        node = self._root
        for name in names:
            if name not in node.fields:
                break
            node = node.fields[name]
        return node.sent

    def __or__(self, other: "Select") -> "Select":
        """Return the list that sends the fields that either list sends."""
        named = {*self._directives, *other._directives}
        return Select({names: self._sends(names) or other._sends(names) for names in named})

    def __and__(self, other: "Select") -> "Select":
        """Return the list that sends the fields that both lists send."""
        named = {*self._directives, *other._directives}
        return Select({names: self._sends(names) and other._sends(names) for names in named})

    def __repr__(self) -> str:
        return f"Select({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Select) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def _selected(value: bytes | msgspec.Raw, node: _Node) -> bytes | msgspec.Raw | None:
    """Return the part of a value that is sent, as JSON; None if nothing is sent.

    The function recurses once per level: a body has up to 500 levels, and Python's stack allows a thousand calls.
    """
    opening = memoryview(value)[0] if node.fields else None
    kept: Any
    if opening == _OBJECT:
        held: Any = node.read(value)
        kept = {}
        for name, inner in held.items():
            below = node.fields.get(name)
            selected = _selected(inner, below) if below is not None else inner if node.sent else None
            if selected is not None:
                kept[name] = selected
    elif opening == _ARRAY:
        held = _elements(value)
        kept = []
        for inner in held:
            selected = _selected(inner, node)
            if selected is not None:
                kept.append(selected)
    else:
        return value if node.sent else None
    # It was empty before, so it has lost nothing (test_what_was_empty_before_is_a_value).
    if not held:
        return value if node.sent else None
    return msgspec.Raw(_write(kept)) if kept else None


def parse_select(text: str) -> Select:
    """Return the select list in a text such as `[-/,+/id,+/a/b]`; raise `invalid options`."""
    listed = text.strip()
    if len(listed) > SELECT_CHARS_MAX:
        raise _invalid(f"expected a select list of at most {SELECT_CHARS_MAX} characters, got {len(listed)}")
    parts = [part for part in _PART.findall(listed[1:-1]) if part.strip()]
    if not parts or not (listed.startswith("[") and listed.endswith("]")):
        raise _invalid(f"expected a select list like [-/,+/id], got {listed[:60]!r}")
    if len(parts) > DIRECTIVES_MAX:
        raise _invalid(f"expected a select list of at most {DIRECTIVES_MAX} fields, got {len(parts)}")
    directives: dict[Names, bool] = {}
    for part in parts:
        directives.setdefault(*_directive(part.strip()))
    return Select(directives)


def _directive(text: str) -> tuple[Names, bool]:
    sign, path = text[:1], text[1:]
    if sign not in ("+", "-"):
        raise _invalid(f"expected + or - before a field of the select list, got {text[:60]!r}")
    if path == "/":
        return (), sign == "+"
    try:
        steps = parse_path(path).steps
    except PathError as error:
        raise _invalid(f"{error.message}, in the select list") from None
    names = tuple(step for step in steps if isinstance(step, str))
    if len(names) < len(steps):
        raise _invalid(f"expected a field of the select list without a subscript, got {path[:60]!r}")
    return names, sign == "+"


def _directive_text(names: Names, sent: bool) -> str:
    return f"{'+' if sent else '-'}{Path(names) if names else '/'}"


def _invalid(message: str) -> SowlineError:
    return SowlineError("invalid options", message)
