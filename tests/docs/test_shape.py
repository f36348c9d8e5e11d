"""Modules, classes and functions stay small enough to be read in one go."""

import ast
import importlib.util
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from itertools import product
from pathlib import Path

import grimp
import pytest

from tests.docs.test_comments import PRODUCT, ROOT
from tests.docs.test_privates import tree_of

FILE_LINES_MAX = 450
CLASS_LINES_MAX = 300
FUNCTION_LINES_MAX = 70
PUBLIC_METHODS_MAX = 12
BOOLEANS_MAX = 3
"""Attributes of one object that are true at one time and false at another; more of them are a life without a name."""

WIDE = {
    "Cluster": "has a method for each question to Kafka's admin interface, and nothing between them",
    "RocksStore": "is the whole protocol of a store",
    "Rows": "is all that replicas and indexes may do with the columns of records",
    "ServedTopics": "hears from the follower, the loader and the sampler, and answers queries and listeners",
    "WebSocketConnection": "has the callbacks that asyncio names, and those that a subclass fills in",
    "_EmodbTreeBuilder": "has a method for each rule of its grammar",
    "_FilterTreeBuilder": "has a method for each rule of its grammar",
}
"""Classes that have more public methods, each with its reason."""

MADE = {"frames.ts": "is made by `python -m contract`"}
"""Files that nobody writes or reads in one go."""

MODULES = [path for name in PRODUCT for path in sorted((ROOT / name).rglob("*.py"))]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def lines_of(node: ast.ClassDef | Function) -> int:
    """Return how long something is."""
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def functions_of(one: ast.ClassDef) -> list[Function]:
    """Return what a class defines."""
    return [node for node in one.body if isinstance(node, Function)]


def public_methods(one: ast.ClassDef) -> list[str]:
    """Return the names that users of a class call; what they only read is an attribute to them."""
    names = (
        (function.name, {ast.unparse(decorator).rpartition(".")[2] for decorator in function.decorator_list})
        for function in functions_of(one)
    )
    return [
        name
        for name, decorators in names
        if not name.startswith("_") and not decorators & {"property", "cached_property", "setter"}
    ]


def changing_booleans(one: ast.ClassDef) -> set[str]:
    """Return the attributes that methods set to true or false after construction."""
    return {
        target.attr
        for function in functions_of(one)
        if function.name != "__init__"
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and node.value and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, bool)
        for target in node.targets
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"
    }


def too_large(path: Path) -> Iterator[str]:
    """Yield what of a module is above a limit."""
    if (count := path.read_text().count("\n")) > FILE_LINES_MAX:
        yield f"it has {count} lines"
    for node in ast.walk(tree_of(path)):
        if isinstance(node, Function) and lines_of(node) > FUNCTION_LINES_MAX:
            yield f"{node.name} has {lines_of(node)} lines"
        if not isinstance(node, ast.ClassDef):
            continue
        if lines_of(node) > CLASS_LINES_MAX:
            yield f"{node.name} has {lines_of(node)} lines"
        if node.name not in WIDE and len(methods := public_methods(node)) > PUBLIC_METHODS_MAX:
            yield f"{node.name} has {len(methods)} public methods"
        if len(booleans := changing_booleans(node)) > BOOLEANS_MAX:
            yield f"{node.name} has the booleans {', '.join(sorted(booleans))}"


def test_shape() -> None:
    """No module, class or function is above its limit."""
    found = [f"{path.relative_to(ROOT)}: {what}" for path in MODULES for what in too_large(path)]
    assert not found, "\n".join(found)


def test_no_test_module_is_too_long() -> None:
    """Tests have subjects too: who looks for one finds it by the name of its file."""
    suffixes = ("*.py", "*.ts", "*.rs", "*.java")
    directories = (
        "tests",
        "bench",
        "examples",
        "clients/typescript/src",
        "clients/typescript/test",
        "native/src",
    )
    found = {
        str(path.relative_to(ROOT)): count
        for directory, suffix in product(directories, suffixes)
        for path in sorted((ROOT / directory).rglob(suffix))
        if not {"node_modules", "target"} & set(path.parts) and path.name not in MADE
        if (count := path.read_text(encoding="utf-8").count("\n")) > FILE_LINES_MAX
    }
    assert not found


def test_the_exceptions_are_some() -> None:
    """A class that has become small is no exception any more."""
    wide = {
        node.name
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef) and len(public_methods(node)) > PUBLIC_METHODS_MAX
    }
    assert wide == set(WIDE)


def decisions(function: Function) -> int:
    """Return how many ways lead through a function, as ruff counts them."""
    kinds = (
        ast.If | ast.For | ast.AsyncFor | ast.While | ast.ExceptHandler | ast.comprehension | ast.match_case
    )
    return 1 + sum(isinstance(node, kinds) for node in ast.walk(function))


def share(values: list[int], percent: int) -> int:
    """Return the value that so many percent of the values do not exceed."""
    return sorted(values)[len(values) * percent // 100]


def test_most_functions_and_modules_are_small() -> None:
    """The limits are for the largest ones. A reader meets the others: half of them fit into one look."""
    functions = [node for path in MODULES for node in ast.walk(tree_of(path)) if isinstance(node, Function)]
    lengths = [lines_of(one) for one in functions]
    assert share(lengths, 50) <= 7
    assert share(lengths, 90) <= 20
    assert share(lengths, 99) <= 40
    assert share(list(map(decisions, functions)), 90) <= 5
    files = [path.read_text().count("\n") for path in MODULES if path.name != "__init__.py"]
    assert share(files, 50) <= 150
    assert share(files, 90) <= 300


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("def f():\n    return 1\n", 1),
        ("def f():\n    if a:\n        return 1\n    elif b:\n        return 2\n", 3),
        (
            "def f():\n    for a in b:\n        try:\n            g()\n        except E:\n            pass\n",
            3,
        ),
        ("def f():\n    return [a for a in b]\n", 2),
    ],
)
def test_what_is_a_decision(text: str, count: int) -> None:
    """Branches, loops, and errors that are caught."""
    (function,) = ast.parse(text).body
    assert isinstance(function, Function)
    assert decisions(function) == count


def test_tests_are_short() -> None:
    """Half of them have at most 12 lines, nine of ten at most 30."""
    lengths = sorted(
        lines_of(node)
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, Function) and node.name.startswith("test_")
    )
    assert lengths[len(lengths) // 2] <= 12
    assert lengths[len(lengths) * 9 // 10] <= 30


METHODS = "".join(f"    def m{n}(self):\n        self.b{n} = False\n" for n in range(13))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x = 1\n" * 451, ["it has 451 lines"]),
        ("def f():\n" + "    x = 1\n" * 70, ["f has 71 lines"]),
        ("class C:\n" + "    x = 1\n" * 300, ["C has 301 lines"]),
        (f"class C:\n{METHODS}", ["C has 13 public methods", "C has the booleans b0, b1"]),
        (f"class Rows:\n{METHODS}", ["Rows has the booleans b0, b1"]),
    ],
)
def test_what_is_found(text: str, found: list[str], tmp_path: Path) -> None:
    """Each limit is one that something can exceed."""
    (module := tmp_path / "m.py").write_text(text)
    assert [one[: len(known)] for one, known in zip(too_large(module), found, strict=True)] == found


PACKAGES = (
    "sowline",
    "sowline_fanout",
    "sowline_gateway",
    "sowline_ingest",
    "sowline_materializer",
    "sowline_query_service",
    "sowline_views",
)
WORLD = {
    *("confluent_kafka", "rocksdict", "pyspark", "py4j"),
    *("asyncio", "anyio", "concurrent", "queue", "threading", "time", "random", "secrets"),
    *(
        "socket",
        "ssl",
        "select",
        "starlette",
        "uvicorn",
        "websockets",
        "h11",
        "httpx2",
        "mcp",
        "opentelemetry",
    ),
    *("subprocess", "signal", "resource", "fcntl", "termios", "tty", "tempfile", "shutil"),
}
"""What a pure module does not import, not even by others: `.ci/importlinter.ini` names the packages that are pure."""

PURE_SHARE_MIN = 0.5


def test_half_of_the_code_is_pure() -> None:
    """A rule that needs no Kafka, no clock and no event loop stands where it can be tested without them."""
    graph = grimp.build_graph(*PACKAGES, include_external_packages=True)
    assert graph.modules >= WORLD, "what no module imports any longer is no part of the world"
    impure = WORLD.union(*(graph.find_downstream_modules(name) for name in WORLD))
    ours = {name for name in graph.modules if name.partition(".")[0] in PACKAGES}
    assert share_of_lines(ours - impure, ours) >= PURE_SHARE_MIN


def share_of_lines(some: AbstractSet[str], of: AbstractSet[str]) -> float:
    """Return how much of the lines of modules some of them have."""
    sizes = {name: code_lines(name) for name in of}
    return sum(sizes[name] for name in some) / sum(sizes.values())


def code_lines(name: str) -> int:
    """Return the number of a module's lines that are not empty."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return sum(1 for line in Path(spec.origin).read_text().splitlines() if line.strip())
