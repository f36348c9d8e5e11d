"""Each module of the pure packages has a test file of its own name, where a reader looks for its tests.

`make coverage` runs each of these files alone (`tests/alone.py`) and holds what it runs of its module.
"""

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.docs.test_privates import tree_of
from tests.mutants.scope import ROOT, modules, own_test


def has_behavior(module: str) -> bool:
    """Whether a module has something to run: a function that does something."""
    return any(_does_something(node) for node in ast.walk(tree_of(ROOT / module)))


def _does_something(node: ast.AST) -> bool:
    if isinstance(node, ast.Lambda):
        return True
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not all(map(_is_text, node.body))


def _is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a docstring or `...`."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def mapped(paths: Iterable[str] = ()) -> list[str]:
    """Return the modules that need a test file, below paths or all."""
    return [one for one in modules(paths) if not one.endswith("/__init__.py") and has_behavior(one)]


def test_each_module_has_its_test_file() -> None:
    """At the same path below `tests/unit/`, so that a reader finds what a module does and who tests it."""
    missing = [one for one in mapped() if not (ROOT / own_test(one)).exists()]
    assert not missing, "\n".join(f"{one}: expected {own_test(one)}: write it" for one in missing)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("LIMIT = 3\n", False),
        ('class C(Protocol):\n    def f(self) -> int:\n        """Return it."""\n', False),
        ("class C(Protocol):\n    def f(self) -> int: ...\n", False),
        ('def f():\n    """Return it."""\n    return 1\n', True),
        ("class C:\n    async def f(self):\n        raise NotImplementedError\n", True),
        ("double = lambda x: 2 * x\n", True),
    ],
)
def test_what_has_behavior(text: str, found: bool, tmp_path: Path) -> None:
    """Names, types and constants have none: nothing of them runs."""
    (module := tmp_path / "m.py").write_text(text)
    assert has_behavior(str(module)) is found
