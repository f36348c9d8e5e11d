"""The mutants of a module, as cosmic-ray makes them."""

import ast
import difflib
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names

from tests.mutants.scope import ROOT


@dataclass(frozen=True, order=True)
class Mutant:
    """One change to one module: an operator of cosmic-ray, applied where it applies for the n-th time."""

    module: str
    line: int
    column: int
    operator: str
    occurrence: int

    @property
    def name(self) -> str:
        """What `--only` takes."""
        return f"{self.module}:{self.line}:{self.column}:{self.operator}:{self.occurrence}"

    def source(self) -> str | None:
        """Return the module's source with the change; None if that is no Python, or only annotations differ."""
        changed = str(mutate_code(_source(self.module), _operators()[self.operator], self.occurrence))
        try:
            return None if _behaviour(changed) == _original_behaviour(self.module) else changed
        except SyntaxError:
            return None

    def difference(self) -> str:
        """Return the lines that change."""
        before, after = _source(self.module).splitlines(), (self.source() or "").splitlines()
        lines = difflib.unified_diff(before, after, lineterm="", n=0)
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def mutants(modules: Iterable[str]) -> list[Mutant]:
    """Return all mutants of some modules."""
    return sorted(mutant for module in modules for mutant in _mutants(module))


def sample(found: Iterable[Mutant], size: int, seed: int) -> list[Mutant]:
    """Choose so many at random, no two at one point of the source: `a + b` alone has eleven mutants."""
    choice = random.Random(seed)
    points = defaultdict(list)
    for mutant in found:
        points[mutant.module, mutant.line, mutant.column].append(mutant)
    order = sorted(points)
    choice.shuffle(order)
    chosen = (choice.choice(points[point]) for point in order)
    effective = (mutant for mutant in chosen if mutant.source() is not None)
    return sorted(mutant for mutant, _ in zip(effective, range(size), strict=False))


def named(name: str) -> Mutant:
    """Return the mutant of a name."""
    for mutant in mutants([name.partition(":")[0]]):
        if mutant.name == name:
            return mutant
    raise ValueError(f"expected the name of a mutant of the sources as they are, got {name}")


def _mutants(module: str) -> Iterator[Mutant]:
    nodes = list(ast_nodes(get_ast(_source(module))))
    for name, operator in _operators().items():
        points = (start for node in nodes for start, _ in operator.mutation_positions(node))
        for occurrence, (line, column) in enumerate(points):
            yield Mutant(module, line, column, name, occurrence)


@cache
def _operators() -> dict[str, Operator]:
    """Return cosmic-ray's operators but the one that changes nothing, and those that want arguments."""
    classes = {name: get_operator(name) for name in operator_names()}
    return {
        name: operator()
        for name, operator in sorted(classes.items())
        if not operator.arguments() and name != "core/NoOp"
    }


@cache
def _source(module: str) -> str:
    return (ROOT / module).read_text()


@cache
def _original_behaviour(module: str) -> str:
    return _behaviour(_source(module))


def _behaviour(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)
