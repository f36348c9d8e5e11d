"""Code that holds state asserts what must be true of it where the state is left and entered.

A wrong count or a position that moves back is then found at the change that makes it, and not in a record that a
reader gets hours later. What users send is never asserted: it is refused with an error.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.docs.test_comments import ROOT
from tests.docs.test_privates import tree_of

ASSERTS_MIN = 0.5
"""Asserts for each function that changes state."""

STATEFUL = (
    "fanout/sowline_fanout",
    "gateway/sowline_gateway/nodes",
    "gateway/sowline_gateway/subscriptions",
    "materializer/sowline_materializer/core",
    "materializer/sowline_materializer/partition",
    "materializer/sowline_materializer/standby",
    "materializer/sowline_materializer/store",
    "query_service/sowline_query_service/index",
    "query_service/sowline_query_service/live",
    "query_service/sowline_query_service/replica",
    "query_service/sowline_query_service/snapshots",
    "query_service/sowline_query_service/subscriptions",
    "query_service/sowline_query_service/topics",
    "sowline/changes",
    "sowline/serving/outbox",
    "sowline/subscriptions",
    "views/sowline_views/core",
)
"""The packages that hold records, positions, or what a subscriber was sent, with the packages in them."""


def packages_of(names: Iterable[str], root: Path = ROOT) -> list[str]:
    """Return packages and all that are in them: each has its own share, so that none hides behind a larger one."""
    directories = {path.parent for name in names for path in (root / name).rglob("*.py")}
    return sorted(str(path.relative_to(root)) for path in directories)


PACKAGES = packages_of(STATEFUL)

MUTATORS = {
    "add",
    "append",
    "clear",
    "commit",
    "discard",
    "extend",
    "pop",
    "popleft",
    "put",
    "remove",
    "update",
}
"""Methods that change what they are called on."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _own_nodes(function: Function) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those of functions in it."""
    nodes: list[ast.AST] = [*function.body]
    while nodes:
        node = nodes.pop()
        yield node
        if not isinstance(node, Function | ast.Lambda):
            nodes += ast.iter_child_nodes(node)


def _is_part(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute | ast.Subscript)


def _sets(node: ast.AST) -> bool:
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            return any(_is_part(part) for target in targets for part in ast.walk(target))
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return any(map(_is_part, ast.walk(target)))
        case ast.Call(func=ast.Attribute(attr=name, value=changed)):
            return name in MUTATORS and _is_part(changed)
    return False


def changes_state(function: Function) -> bool:
    """Whether a function sets or deletes an attribute or an item, or calls a mutator of one."""
    return any(map(_sets, _own_nodes(function)))


def functions_and_asserts(text: str) -> tuple[int, int]:
    """Return the number of functions of a module that change state, and the number of its asserts."""
    nodes = list(ast.walk(ast.parse(text)))
    functions = [node for node in nodes if isinstance(node, Function) and changes_state(node)]
    return len(functions), sum(isinstance(node, ast.Assert) for node in nodes)


@pytest.mark.parametrize("package", PACKAGES)
def test_state_is_asserted(package: str) -> None:
    """At least one assert for every two functions that change state."""
    counts = [functions_and_asserts(path.read_text()) for path in sorted((ROOT / package).glob("*.py"))]
    functions, asserts = (sum(column) for column in zip(*counts, strict=True))
    assert asserts >= ASSERTS_MIN * functions, (
        f"{package}: expected {ASSERTS_MIN} asserts for each of {functions} functions, got {asserts}"
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_an_assert_says_what_is_true(package: str) -> None:
    """A log shows this sentence, without the values."""
    bare = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / package).glob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Assert) and node.msg is None
    ]
    assert not bare, "\n".join(f"{one}: expected a message: say what is true" for one in bare)


def test_packages_within_packages_are_measured(tmp_path: Path) -> None:
    """A package has a share of its own, wherever it is; a directory without modules is none."""
    for module in ("a/m.py", "a/b/c/m.py", "d/m.py"):
        (tmp_path / module).parent.mkdir(parents=True)
        (tmp_path / module).touch()
    assert packages_of(["a"], tmp_path) == ["a", "a/b/c"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f(self):\n    return self.x\n", False),
        ("def f(self):\n    x = self.x\n    x.append(1)\n", False),
        ("def f(self):\n    self.x.get(1)\n", False),
        ("def f(self):\n    def g():\n        self.x = 1\n", False),
        ("def f(self):\n    self.x += 1\n", True),
        ("def f(self):\n    x, self.y = 1, 2\n", True),
        ("def f(self):\n    del self.x[1]\n", True),
        ("async def f(self):\n    if x:\n        self.x.append(1)\n", True),
    ],
)
def test_what_changes_state(text: str, found: bool) -> None:
    """Attributes and items, also within branches; not the names of a function alone."""
    (function,) = ast.parse(text).body
    assert isinstance(function, Function)
    assert changes_state(function) is found


def test_asserts_are_counted_with_the_functions() -> None:
    """Those of a module count, too: they compare constants once, on import."""
    text = "assert A < B\ndef f(self):\n    assert self.x, 'some'\n    self.x = 1\ndef g():\n    return 1\n"
    assert functions_and_asserts(text) == (1, 2)
