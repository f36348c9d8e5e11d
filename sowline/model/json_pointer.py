"""JSON pointers (RFC 6901): the part of a document that a text like `/$defs/Order` names."""

import re
from typing import Any

from sowline.model.json_parts import Part

_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")
"""An index of an array: RFC 6901 allows no other digits and no leading zeros."""


def part_at(document: Any, pointer: str) -> Any:
    """Return the part of a JSON document at a pointer; None if the document has no such part."""
    part: Part = document
    for step in pointer.split("/")[1:]:
        # In this order: `~01` stands for the name `~1`. With `~0` first it would become a slash
        # (test_a_pointer_names_a_part_or_nothing).
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(part, list):
            part = part[int(name)] if _INDEX.fullmatch(name) and int(name) < len(part) else None
        else:
            part = part.get(name) if isinstance(part, dict) else None
    return part
