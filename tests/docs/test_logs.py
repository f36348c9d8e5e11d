"""The page of log events has each of them as it is made in the code: its name, its level and its fields."""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.docs.metric_names import ROOT

PACKAGES = ("sowline", "materializer", "query_service", "gateway", "fanout", "views", "ingest")
LEVELS = {name: name for name in ("debug", "info", "warning", "error", "critical")} | {"exception": "error"}
LOGGERS = ("log", "self._log")
BOUND = {"self._log": frozenset({"topic", "partition"})}
ANY_FIELDS = frozenset({"…"})


class Event(NamedTuple):
    """A kind of line in a log."""

    name: str
    level: str
    fields: frozenset[str]


def is_a_log(called: ast.Attribute) -> bool:
    """Tell whether a method that is called is one that logs."""
    return called.attr in LEVELS and ast.unparse(called.value) in LOGGERS


def calls() -> Iterator[tuple[str, ast.Call, ast.Attribute]]:
    """Yield each place at which something is logged."""
    for path in (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = node.func
            if isinstance(called, ast.Attribute) and is_a_log(called):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node, called


def texts(expression: ast.expr) -> list[object]:
    """Return the texts that an expression can be, where those stand in it; None for whatever else."""
    if isinstance(expression, ast.IfExp):
        return [*texts(expression.body), *texts(expression.orelse)]
    return [expression.value if isinstance(expression, ast.Constant) else None]


def events() -> set[Event]:
    """Return the events that the code has."""
    found = set()
    for _, call, called in calls():
        named = {str(word.arg) for word in call.keywords}
        fields = ANY_FIELDS if "None" in named else BOUND.get(ast.unparse(called.value), frozenset()) | named
        found |= {Event(str(name), LEVELS[called.attr], fields) for name in texts(call.args[0])}
    return found


def described() -> list[Event]:
    """Return the events that the page has."""
    rows = re.findall(
        r"^\| `([^`]+)` \| (\w+) \|([^|]*)\|", (ROOT / "docs" / "logs.md").read_text(), re.MULTILINE
    )
    return [Event(name, level, frozenset(re.findall(r"[\w…]+", fields))) for name, level, fields in rows]


def test_an_event_has_a_fixed_name() -> None:
    """What changes from line to line is in fields, so that events can be counted and searched for."""
    wrong = [
        location
        for location, call, _ in calls()
        if not all(isinstance(name, str) for name in texts(call.args[0]))
    ]
    assert wrong == []


def test_one_name_has_one_meaning() -> None:
    """Wherever an event is logged, its level and its fields are the same."""
    found = events()
    assert len({event.name for event in found}) == len(found)


def test_every_event_is_described() -> None:
    """And no other."""
    assert set(described()) == events()
