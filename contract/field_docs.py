"""Reads the docstrings of the fields of classes: the string literals behind them in the source."""

import ast
import inspect
import re
import textwrap
from functools import cache

_LINK = re.compile(r"\[([^\]\[]+)\]\([^)]+\)")


@cache
def docs_of(cls: type) -> dict[str, str]:
    """Return the docstring of each field of a class, those of its bases included, as one line of Markdown."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith(("contract.", "sowline.")):
            found |= _own_docs(base)
    return found


def _own_docs(cls: type) -> dict[str, str]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, behind in zip(tree.body, tree.body[1:], strict=False):
        match field, behind:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
    return found


def without_links(markdown: str) -> str:
    """Return a docstring for readers of other files: the links of docs/api.md lead nowhere there."""
    return _LINK.sub(r"\1", markdown)
