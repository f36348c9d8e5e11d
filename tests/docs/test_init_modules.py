"""The `__init__.py` of a package says what it is for and what it exports: code stands in modules with a subject."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_lint import modules

ROOT = Path(__file__).parents[2]


def misplaced(source: str) -> Iterator[str]:
    """Yield what an `__init__.py` has besides a docstring, imports and a complete `__all__`."""
    body = ast.parse(source).body
    if not body or ast.get_docstring(ast.Module(body, [])) is None:
        yield "no docstring"
    imported: set[str] = set()
    exported: set[str] = set()
    for node in body[1:]:
        statements = node.body if isinstance(node, ast.If) and _is_type_checking(node) else [node]
        for one in statements:
            if isinstance(one, ast.ImportFrom):
                imported |= {alias.asname or alias.name for alias in one.names}
            elif isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "__all__":
                exported |= set(ast.literal_eval(one.value))
            elif not isinstance(one, ast.Import):
                yield f"line {one.lineno}: {ast.unparse(one).splitlines()[0]}"
    for name in sorted((imported - {"TYPE_CHECKING", "__getattr__"}) ^ exported):
        yield f"{name}: expected it to be imported and in `__all__`"


def _is_type_checking(node: ast.If) -> bool:
    """Whether a block is only for type checkers, or only for others."""
    return ast.unparse(node.test) in ("TYPE_CHECKING", "not TYPE_CHECKING") and not node.orelse


def test_they_only_export() -> None:
    """A reader of a package finds its names there, and their code in the module that each comes from."""
    paths = [path for path in modules() if path.name == "__init__.py"]
    assert len(paths) >= 20
    found = [f"{path.relative_to(ROOT)}: {one}" for path in paths for one in misplaced(path.read_text())]
    assert not found, "\n".join([*found, "expected a docstring, imports and `__all__`: move the rest"])


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('"""A."""\n', []),
        ('"""A."""\nfrom a import b\n__all__ = ["b"]\n', []),
        ('"""A."""\nif TYPE_CHECKING:\n    from a import b\n__all__ = ["b"]\n', []),
        ("", ["no docstring"]),
        ('"""A."""\nfrom a import b\n', ["b: expected it to be imported and in `__all__`"]),
        ('"""A."""\n__all__ = ["b"]\n', ["b: expected it to be imported and in `__all__`"]),
        ('"""A."""\nX = 1\n', ["line 2: X = 1"]),
        ('"""A."""\nif TYPE_CHECKING:\n    X = 1\n', ["line 3: X = 1"]),
        ('"""A."""\nif a:\n    import b\n', ["line 2: if a:"]),
        ('"""A."""\ndef f():\n    pass\n', ["line 2: def f():"]),
    ],
)
def test_what_is_misplaced(source: str, found: list[str]) -> None:
    """Code, a name that is imported but not exported, or a missing docstring."""
    assert list(misplaced(source)) == found
