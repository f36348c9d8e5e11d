"""Paths to the fields of a document: `/a/b`, `/data[0]`, `/a/@b`, `[/not an xpath name]`."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from sys import getsizeof
from typing import Any

from sowline.errors import SowlineError
from sowline.model.json_parts import Part

Document = dict[str, Any]
"""A parsed message body. Containers are exactly `dict` and `list`; values of other unknown types are ignored."""

Scalar = bool | int | float | str | None
"""One value; `None` is NULL. An empty string is NULL, so it never appears here."""

Value = Scalar | list[Scalar]
"""The value at a path: a scalar, or a non-empty array of scalars."""

Step = str | int
"""A field's name, or the 0-based number of an array's element."""

SUBSCRIPT_DIGITS_MAX = 9

PATH_STEPS_MAX = 500
"""As many levels as a record can have."""

_NAME = re.compile(r"[@#$]?\w[\w.:\-]*")
_SEGMENT = re.compile(r"/([@#$]?\w[\w.:\-]*)|\[(/[^\]]+)\]|\[([0-9]+)\]")

TEXT_BYTES = 50
"""The memory of an empty text."""


def value_bytes(value: Part) -> int:
    """Return the estimated memory of a value, in bytes."""
    # A sum must lose with a value what it gained with it. Python's own figure of a text is larger once the text was
    # written as UTF-8, so the length counts (test_the_memory_of_a_value_stays_the_same).
    if isinstance(value, str):
        return TEXT_BYTES + len(value) * (1 if value.isascii() else 4)
    if isinstance(value, list):
        return getsizeof(value) + sum(map(value_bytes, value))
    return getsizeof(value)


class PathError(SowlineError):
    """A text is not a path."""

    def __init__(self, message: str) -> None:
        super().__init__("bad path", message)


@dataclass(frozen=True, slots=True)
class Path:
    """Steps from the document's root to a field. `str` gives the text that `parse_path` reads back."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return "".join(_step_text(step) for step in self.steps)

    def find(self, document: Document) -> Any:
        """Return the node at the path, objects included: None if there is none, a list if an array gives several."""
        nodes: list[Any] = [document]
        for step in self.steps:
            nodes = _element(nodes, step) if isinstance(step, int) else _members(nodes, step)
        return nodes[0] if len(nodes) == 1 else nodes or None

    def read(self, document: Document) -> Value:
        """Return the value at the path in the filter language (see `Value`)."""
        return value_of(self.find(document))


def parse_path(text: str) -> Path:
    """Return the path in a text; raise `PathError`."""
    steps: list[Step] = []
    position = 0
    while position < len(text):
        segment = _SEGMENT.match(text, position)
        if segment is None:
            break
        steps.extend(_segment_steps(segment, text))
        position = segment.end()
        # Within the loop: a text of megabytes must not be read to its end.
        if len(steps) > PATH_STEPS_MAX:
            raise PathError(f"expected a path of at most {PATH_STEPS_MAX} steps, got {_excerpt(text)!r}")
    if position < len(text) or not steps or isinstance(steps[0], int):
        raise PathError(
            f"expected a path like /order/qty, /legs[0] or [/any name], got {_excerpt(text)!r}"
            f" (wrong from column {position + 1 if position < len(text) else 1})"
        )
    return Path(tuple(steps))


def _segment_steps(segment: re.Match[str], text: str) -> list[Step]:
    """Return the steps of one segment: a name, a number, or the names of a path in brackets."""
    name, bracketed, number = segment.groups()
    if name is not None:
        return [name]
    if number is not None:
        # Python's `int` refuses more than 4,300 digits by an error of its own (test_an_endless_subscript_is_refused).
        if len(number) > SUBSCRIPT_DIGITS_MAX:
            raise PathError(
                f"expected a subscript of at most {SUBSCRIPT_DIGITS_MAX} digits in {_excerpt(text)!r}, got"
                f" {len(number)}"
            )
        return [int(number)]
    names = bracketed[1:].split("/")
    if "" in names:
        raise PathError(f"expected a name after every / in {_excerpt(text)!r}, got an empty one")
    return list(names)


def _step_text(step: Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f"/{step}" if _NAME.fullmatch(step) else f"[/{step}]"


def _excerpt(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _members(nodes: Iterable[Any], name: str) -> list[Any]:
    """Return the fields called `name` of all objects among the nodes, also of those inside arrays."""
    return [node[name] for node in leaves(nodes) if isinstance(node, dict) and name in node]


def _element(nodes: Iterable[Part], number: int) -> list[Any]:
    """Return the element with this number. A node that is not an array counts as one element, as in XML."""
    elements: list[Any] = []
    for node in nodes:
        elements.extend(node) if isinstance(node, list) else elements.append(node)
    return elements[number : number + 1]


def leaves(nodes: Iterable[Part]) -> Iterator[Any]:
    """Yield all nodes that are not arrays, in order, from arrays of any depth (without recursion)."""
    pending = [iter(nodes)]
    while pending:
        for node in pending[-1]:
            if isinstance(node, list):
                pending.append(iter(node))
                break
            yield node
        else:
            pending.pop()


def value_of(node: Part) -> Value:
    """Return the value of a node of a document: an object, an empty string and an empty array are NULL."""
    if isinstance(node, str):
        return node or None
    if isinstance(node, int | float):
        return node
    if isinstance(node, list):
        return _array(node) or None
    return None


def _array(nodes: list[Any]) -> list[Scalar]:
    # An empty string in an array is NULL, as anywhere else.
    return [None if leaf == "" else leaf for leaf in leaves(nodes) if _is_scalar(leaf)]


def _is_scalar(leaf: object) -> bool:
    return leaf is None or isinstance(leaf, str | int | float)


def reader(path: Path) -> Callable[[Document], Value]:
    """Return a function equal to `path.read`, but faster for the common shapes of paths."""
    first, *rest = path.steps
    if not isinstance(first, str) or not all(isinstance(step, str) for step in rest):
        return path.read
    return _deep_reader(path, first, rest) if rest else _flat_reader(first)


def _flat_reader(name: str) -> Callable[[Document], Value]:
    def read(document: Document) -> Value:
        return value_of(document.get(name))

    return read


def _deep_reader(path: Path, first: str, rest: list[Step]) -> Callable[[Document], Value]:
    def read(document: Document) -> Value:
        node: Any = document.get(first)
        for name in rest:
            if node.__class__ is not dict:
                # Fields inside an array also count: `path.read` finds them. Other values have no fields.
                return path.read(document) if node.__class__ is list else None
            node = node.get(name)
        return value_of(node)

    return read
