"""The paths of the fields that a delta names, as a tree."""

from collections.abc import Callable, Sequence

from sowline.errors import SowlineError
from sowline.model.path import Path, PathError, parse_path

FieldTree = dict[str, "FieldTree | None"]
"""Fields by their names: None for a field named as a whole, else the fields in it."""


def field_tree(paths: Sequence[str], check: Callable[[Path], None]) -> FieldTree:
    """Return the tree of paths like `/customer/name`; `check` raises for a path that no record has.

    Raise `bad header` for a text that is not a path.
    """
    tree: FieldTree = {}
    for text in paths:
        try:
            path = parse_path(text)
        except PathError as error:
            raise SowlineError("bad header", f"expected paths of fields: {error.message}") from None
        check(path)
        _add(tree, [str(step) for step in path.steps])
    return tree


def _add(tree: FieldTree, names: list[str]) -> None:
    *above, last = names
    for name in above:
        below = tree.setdefault(name, {})
        if below is None:
            # The whole field is named too: with fields below it, the delta would leave its other fields as they are
            # (test_a_whole_field_has_all_fields_in_it).
            return
        tree = below
    tree[last] = None
