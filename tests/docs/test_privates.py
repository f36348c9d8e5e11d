"""Tests use what the users of the code use: they seldom reach for a private name of it.

A test that does shows how something is done, and fails when it is done in another way. The mistakes that the
simulation and the mutants plant are no such tests.
"""

import ast
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from tests.docs.test_comments import PRODUCT, ROOT

CODE = (*PRODUCT, "bench", "examples")

REACHES_MAX = 127
"""The limit only goes down."""

PLANTED = ("tests/mutants/*", "tests/simulation/*mutations.py")
PATCHES = {"setattr", "getattr", "delattr", "hasattr", "patch", "object"}
NOT_OURS = {"_replace", "_fields", "_asdict", "_make", "_gateway", "_jvm", "_source", "_value"}
"""Names of tuples, of Spark and of Kafka's client, and a column of frames."""


def is_private(name: str) -> bool:
    """Whether a name says so."""
    return name.startswith("_") and not name.startswith("__") and name != "_"


@cache
def tree_of(path: Path) -> ast.AST:
    """Return a module's syntax."""
    return ast.parse(path.read_text())


def is_own(node: ast.expr) -> bool:
    """Whether it is the object or the class whose method this is."""
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def defined(tree: ast.AST) -> Iterator[str]:
    """Yield the private names that a module gives to something."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found = name
            case ast.Name(id=name, ctx=ast.Store()):
                found = name
            case ast.Attribute(attr=name, value=value, ctx=ast.Store()) if is_own(value):
                found = name
            case _:
                continue
        if is_private(found):
            yield found


def reaches(tree: ast.AST, theirs: set[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines of a module that reach for private names, of those that are not its own, and for which."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name, value=value) if name in theirs and not is_own(value):
                yield node.lineno, ast.unparse(node)
            case ast.ImportFrom(names=names):
                yield from ((node.lineno, one.name) for one in names if is_private(one.name))
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in PATCHES:
                texts = [one.value for one in node.args if isinstance(one, ast.Constant)]
                named = [one for one in texts if isinstance(one, str) and one.rpartition(".")[2] in theirs]
                yield from ((node.lineno, one) for one in named)


def found() -> list[str]:
    """Return the places where a test reaches for a private name of the product."""
    theirs = {
        name for package in CODE for path in (ROOT / package).rglob("*.py") for name in defined(tree_of(path))
    }
    theirs -= NOT_OURS
    lines = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        name, tree = str(path.relative_to(ROOT)), tree_of(path)
        if not any(fnmatch(name, planted) for planted in PLANTED):
            lines += [f"{name}:{line}: {what}" for line, what in reaches(tree, theirs - set(defined(tree)))]
    return lines


def test_private_names_are_left_alone() -> None:
    """But for the few that are counted."""
    lines = found()
    assert len(lines) <= REACHES_MAX, "\n".join([*lines, f"{len(lines)} reaches for private names"])


if __name__ == "__main__":
    print("\n".join(found()))
