"""Reads reason codes from the code: the codes that it raises, and the messages that go with each."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.docs.prose import PRODUCT

ROOT = Path(__file__).parents[2]


@cache
def raised() -> dict[str, list[re.Pattern[str]]]:
    """Return the codes that the product raises, each with a pattern for every message that goes with it."""
    trees = [
        ast.parse(path.read_text()) for package in PRODUCT for path in sorted((ROOT / package).rglob("*.py"))
    ]
    constants = {name: value for tree in trees for name, value in _constants(tree)}
    found: dict[str, list[re.Pattern[str]]] = defaultdict(list)
    for tree in trees:
        for reason, message in _errors(tree):
            for code in _codes(reason, constants):
                found[code].append(re.compile(_pattern(message), re.DOTALL))
    return found


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the texts that have a name in a module."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                if isinstance(target, ast.Name) and isinstance(node.value.value, str):
                    yield target.id, node.value.value


def _errors(tree: ast.Module) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the reason and the message of each error that a module makes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and len(node.args) == 2:
            called = ast.unparse(node.func)
            if called in ("SowlineError", "super().__init__"):
                yield node.args[0], node.args[1]


def _codes(reason: ast.expr, constants: dict[str, str]) -> list[str]:
    if isinstance(reason, ast.Constant) and isinstance(reason.value, str):
        return [reason.value]
    if isinstance(reason, ast.Name) and reason.id in constants:
        return [constants[reason.id]]
    if isinstance(reason, ast.IfExp):
        return _codes(reason.body, constants) + _codes(reason.orelse, constants)
    return []


def _pattern(message: ast.expr) -> str:
    """Return what matches a message: what is inserted may be anything."""
    if isinstance(message, ast.Constant):
        return re.escape(str(message.value))
    if isinstance(message, ast.JoinedStr):
        return "".join(map(_pattern, message.values))
    return ".*"
