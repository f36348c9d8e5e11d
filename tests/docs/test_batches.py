"""What awaits something awaits it for many records at once: a wait for each of them is most of a loop's work."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.docs.test_comments import PRODUCT, ROOT
from tests.docs.test_privates import tree_of

RECORD = re.compile(r"(change|record|event|delivery|command|write|row|body|noted|message|received)")
"""A variable that stands for one of the things of which a topic has millions."""

EXCEPTIONS = {
    "gateway/sowline_gateway/subscriptions/node_flow.py": "a message of a node may have to wait for one client",
    "gateway/sowline_gateway/subscriptions/replacement.py": "a message of a node may have to wait for one client",
    "sowline/client/connection.py": "a message may have to wait for room in one of the caller's streams",
}
"""Modules in which each message is awaited, with the reason."""

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Loop = ast.For | ast.AsyncFor | ast.While | Comprehension


def names_of(loop: Loop) -> Iterator[str]:
    """Yield the variables that have another value in each turn of a loop."""
    if isinstance(loop, ast.While):
        targets: list[ast.expr] = [
            node.target for node in ast.walk(loop.test) if isinstance(node, ast.NamedExpr)
        ]
    elif isinstance(loop, Comprehension):
        targets = [part.target for part in loop.generators]
    else:
        targets = [loop.target]
    for target in targets:
        yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))


def awaits(loop: Loop) -> Iterator[int]:
    """Yield the lines of a loop that await something, without functions that it defines."""
    waiting: list[ast.AST] = [loop] if isinstance(loop, Comprehension) else [*loop.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Await):
            yield node.lineno
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def awaited_one_by_one(tree: ast.AST) -> list[int]:
    """Return the lines of a module that await something for one record."""
    return sorted(
        {
            line
            for loop in ast.walk(tree)
            if isinstance(loop, Loop) and any(map(RECORD.fullmatch, names_of(loop)))
            for line in awaits(loop)
        }
    )


def test_nothing_is_awaited_for_each_record() -> None:
    """But in the few modules on the list, each of which does."""
    paths = [path for package in PRODUCT for path in sorted((ROOT / package).rglob("*.py"))]
    found = {str(path.relative_to(ROOT)): awaited_one_by_one(tree_of(path)) for path in paths}
    wrong = [f"{name}:{line}" for name, lines in found.items() if name not in EXCEPTIONS for line in lines]
    assert not wrong, "expected one await for many records at\n" + "\n".join(wrong)
    assert EXCEPTIONS.keys() == {name for name, lines in found.items() if lines}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("    for change in changes:\n        await put(change)", 1),
        (
            "    for number, (key, record) in enumerate(records):\n        if key:\n            await put(record)",
            1,
        ),
        ("    while (change := source.next) is not None:\n        await put(change)", 1),
        ("    async for received in messages:\n        await put(received)", 1),
        ("    return [await answer_of(command) for command in commands]", 1),
        ("    return {key: change for key, change in held if await is_due(change)}", 1),
        ("    return [one for part in parts for one in await all_of(part)]", 0),
        ("    for batch in batches:\n        await put_all(batch)", 0),
        ("    for change in changes:\n        put(change)\n    await sent()", 0),
        ("    for start in range(0, len(changes), 100):\n        await put_all(changes[start:])", 0),
    ],
)
def test_what_is_found(text: str, count: int) -> None:
    """An await in a loop over records, in whatever form; not one for a portion of them."""
    assert len(awaited_one_by_one(ast.parse(f"async def f():\n{text}\n"))) == count
