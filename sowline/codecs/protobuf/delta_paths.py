"""The paths of the fields that a delta names."""

from collections.abc import Sequence
from functools import partial

from google.protobuf.descriptor import Descriptor

from sowline.codecs.field_tree import FieldTree, field_tree
from sowline.codecs.protobuf.fields import is_nested, message_of
from sowline.codecs.protobuf.unknown import UNKNOWN, is_field_number
from sowline.errors import SowlineError
from sowline.model.path import Path, Step


def fields_at(message: Descriptor, paths: Sequence[str]) -> FieldTree:
    """Return the fields of a message that paths name; raise `bad header` if it does not have them.

    A path like `/@unknown/7` names an unknown field by its number, whether the message has it or not.
    """
    return field_tree(paths, partial(_check_path, message))


def _check_path(message: Descriptor, path: Path) -> None:
    owner: Descriptor | None = message
    for number, step in enumerate(path.steps):
        if owner is not None and step == UNKNOWN and _is_unknown(path.steps[number + 1 :]):
            return
        field = owner.fields_by_name.get(step) if owner is not None and isinstance(step, str) else None
        if field is None:
            raise SowlineError("bad header", f"expected a path to a field of {message.full_name}, got {path}")
        owner = message_of(field) if is_nested(field) else None


def _is_unknown(steps: Sequence[Step]) -> bool:
    """Return whether steps below `UNKNOWN` name all unknown fields, or one."""
    if not steps:
        return True
    return len(steps) == 1 and isinstance(steps[0], str) and is_field_number(steps[0])
