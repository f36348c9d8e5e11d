"""More entries in the lists of a YAML file, whose comments and layout stay as they are. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import yaml

from sowline.errors import SowlineError


def with_entries(text: str, lists: Mapping[str, Sequence[Any]]) -> tuple[str, list[str]]:
    """Return the text with entries at the beginning of its lists, and the parts that were inserted.

    A list that the file doesn't have is added. Raise `bad request` if the file is not a mapping with lists.
    """
    try:
        given = yaml.safe_load(text) or {}
        wanted = {**given, **{name: [*entries, *(given.get(name) or ())] for name, entries in lists.items()}}
        found, parts = _inserted(text, lists)
        if yaml.safe_load(found) == wanted and without_entries(found, parts) == text:
            return found, parts
    except (yaml.YAMLError, TypeError, ValueError):
        pass
    raise SowlineError(
        "bad request", f"expected YAML with room for more {', '.join(lists)}, got another layout"
    )


def without_entries(text: str, parts: Sequence[str]) -> str:
    """Return a text without parts that were inserted; raise `bad request` if one is not there once."""
    for part in parts:
        if text.count(part) != 1:
            raise SowlineError(
                "bad request", f"expected {part!r} once in the file, got it {text.count(part)} times"
            )
        text = text.replace(part, "")
    return text


def _inserted(text: str, lists: Mapping[str, Sequence[Any]]) -> tuple[str, list[str]]:
    parts = []
    for name, entries in lists.items():
        lines = [orjson.dumps(entry).decode() for entry in entries]
        node = _list(text, name)
        if node is None:
            at, part = len(text), f"{name}:\n" + "".join(f"  - {line}\n" for line in lines)
            if text and not text.endswith("\n"):
                part = f"\n{part}"
        elif node.flow_style:
            at, part = node.start_mark.index + 1, "".join(f"{line}, " for line in lines)
        else:
            indent = " " * node.start_mark.column
            at = node.start_mark.index - node.start_mark.column
            part = "".join(f"{indent}- {line}\n" for line in lines)
        text = text[:at] + part + text[at:]
        parts.append(part)
    return text, parts


def _list(text: str, name: str) -> yaml.SequenceNode | None:
    top = yaml.compose(text, Loader=yaml.SafeLoader)
    for key, value in top.value if isinstance(top, yaml.MappingNode) else ():
        if key.value == name:
            if not isinstance(value, yaml.SequenceNode):
                # A second list of this name would be added at the end.
                raise TypeError(f"expected a list of {name}, got another value")
            return value
    return None
