"""What is named `wait` waits, what ends in `_now` doesn't, and `statistics` reads.

A caller in the event loop, or under a lock, goes by its name.
"""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.docs.test_asserts import changes_state
from tests.docs.test_comments import ROOT
from tests.docs.test_names import MODULES, Function
from tests.docs.test_privates import tree_of

WAIT = re.compile(r"_?wait(_|$)")
NOW = re.compile(r"_(now|nowait)$")
STATISTICS = re.compile(r"_?statistics$")

BLOCKS = re.compile(r"_?(wait|join|result|poll|sleep|acquire|next_of)(_|$)")
"""Names of what blocks until something is there; `next_of` takes from a queue so that a signal can end it."""


def name_of(call: ast.Call) -> str:
    """Return the last part of the name of what is called, or nothing."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def waits(function: Function) -> bool:
    """Whether a function awaits something, calls something that blocks, or looks again and again."""
    return any(
        isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith | ast.While)
        or (isinstance(node, ast.Call) and BLOCKS.match(name_of(node)))
        for node in ast.walk(function)
    )


def is_empty(function: Function) -> bool:
    """Whether there is only a docstring: a protocol, or one of several kinds, which has nothing to wait for."""
    return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in function.body)


def broken_waits(tree: ast.AST) -> Iterator[str]:
    """Yield what is wrong with functions that are named as waits, or as what never waits."""
    for node in ast.walk(tree):
        if not isinstance(node, Function):
            continue
        is_async = isinstance(node, ast.AsyncFunctionDef)
        if WAIT.match(node.name) and not (waits(node) or (is_async and is_empty(node))):
            yield f"{node.name}: expected a wait, got a function that returns at once"
        if NOW.search(node.name) and (is_async or waits(node)):
            yield f"{node.name}: expected a function that returns at once, got one that waits"


def test_what_is_named_a_wait_waits() -> None:
    """What does something now does it without a wait."""
    found = [f"{path.relative_to(ROOT)}: {what}" for path in MODULES for what in broken_waits(tree_of(path))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def wait_seconds(self, now):\n    return self.x - now\n", 1),
        ("def _wait(self, message):\n    self.waiting.append(message)\n", 1),
        ("async def wait_left(self):\n    self.left.set()\n", 1),
        ("async def wait_left(self):\n    await self.left.wait()\n", 0),
        ("async def wait_for_replica(self):\n    'Wait.'\n", 0),
        ("def wait_ended(self):\n    self.thread.join()\n", 0),
        ("def wait_ready(ask):\n    while not ask():\n        pass\n", 0),
        ("def waiting(self):\n    return self.x\n", 0),
        ("def take_now(self):\n    return self.x.pop()\n", 0),
        ("def take_now(self):\n    self.ready.wait()\n", 1),
        ("async def put_nowait(self):\n    self.x = 1\n", 1),
    ],
)
def test_which_waits_are_broken(text: str, found: int) -> None:
    """Those that return at once, and those that ought to."""
    assert len(list(broken_waits(ast.parse(text)))) == found


def is_frozen(one: ast.ClassDef) -> bool:
    """Whether nobody can set a field of an instance of a class."""
    bases = [ast.unparse(base) for base in one.bases]
    calls = [node for node in one.decorator_list if isinstance(node, ast.Call)]
    keywords = [*one.keywords, *(keyword for call in calls for keyword in call.keywords)]
    return "NamedTuple" in bases or any(ast.unparse(keyword) == "frozen=True" for keyword in keywords)


def broken_statistics(tree: ast.AST, frozen: frozenset[str]) -> Iterator[str]:
    """Yield what is wrong with the `statistics` of the classes of a module, given the names of frozen classes."""
    owners = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    methods = [(owner, node) for owner in owners for node in owner.body if isinstance(node, Function)]
    for function in (node for node in ast.walk(tree) if isinstance(node, Function)):
        if STATISTICS.match(function.name) and all(function is not method for _, method in methods):
            yield f"{function.name}: expected a method"
    for owner, method in methods:
        if not STATISTICS.match(method.name):
            continue
        answer = "nothing" if method.returns is None else ast.unparse(method.returns)
        if re.sub(r"^tuple\[(\w+), \.\.\.\]$", r"\1", answer) not in frozen:
            yield f"{owner.name}.{method.name}: expected a frozen class, got {answer}"
        changing = {other.name for one, other in methods if one is owner and changes_state(other)}
        called = {ast.unparse(node.func) for node in ast.walk(method) if isinstance(node, ast.Call)}
        if changes_state(method) or called & {f"self.{name}" for name in changing}:
            yield f"{owner.name}.{method.name}: expected a method that reads, got a change of state"


def test_statistics_are_read() -> None:
    """They are a method that changes nothing, and what it returns can't be changed."""
    classes = [node for path in MODULES for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]
    frozen = frozenset(one.name for one in classes if is_frozen(one))
    found = [
        f"{path.relative_to(ROOT)}: {what}"
        for path in MODULES
        for what in broken_statistics(tree_of(path), frozen)
    ]
    assert not found, "\n".join(found)


METHOD = "@dataclass(frozen=True)\nclass Seen: ...\nclass C:\n    def statistics(self)"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (METHOD + " -> Seen:\n        return Seen()\n", 0),
        (METHOD + " -> tuple[Seen, ...]:\n        return (Seen(),)\n", 0),
        (METHOD + " -> list[Seen]:\n        return [Seen()]\n", 1),
        (METHOD + " -> dict[str, int]:\n        return {}\n", 1),
        (METHOD + " -> Seen:\n        self.x = 1\n        return Seen()\n", 1),
        (
            METHOD
            + " -> Seen:\n        self.renew()\n        return Seen()\n    def renew(self):\n        self.x = 1\n",
            1,
        ),
        ("def statistics() -> Seen:\n    return Seen()\n", 1),
    ],
)
def test_which_statistics_are_broken(text: str, found: int) -> None:
    """Those that no method returns, those that can be changed, and those whose reading changes something."""
    tree = ast.parse(text)
    frozen = frozenset(one.name for one in ast.walk(tree) if isinstance(one, ast.ClassDef) and is_frozen(one))
    assert len(list(broken_statistics(tree, frozen))) == found
