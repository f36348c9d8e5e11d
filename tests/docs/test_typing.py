"""What type checkers and editors show of the public names: the types of results, without `Any`.

`make lint` runs mypy and pyright over `tests/typing/`, where each `assert_type` states the type of a result. These
tests find the methods without one.
"""

import ast
import importlib
import inspect
import json
import pathlib
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa
import pytest

import sowline
from sowline import emodb, spark
from sowline.client.grid_widget import GridWidget
from sowline.client.messages import Messages
from tests.docs.test_comments import ROOT

MODULES = (sowline, emodb, spark)
"""The modules that the pages import in users' programs; their `__all__` is what is public."""

ANY = {
    "Condition.matches": "takes a JSON value, of which each kind is right",
    "Condition.matches_about": "takes a JSON value, of which each kind is right",
    "Delta.apply": "takes and returns a JSON value, of which each kind is right",
    "Message.data": "is a dict, or bytes if the request has format=native: of both, each program would need a cast",
    "same": "takes JSON values, of which each kind is right",
}
"""Public names with `Any` in their signatures, each with its reason. The values of a mapping may be any JSON."""

UNSTATED = {
    "Ask": "is what a caller makes and passes on; its methods are for the client",
}
"""Public classes whose methods need no line in `tests/typing/`, each with its reason."""

TYPINGS = ROOT / ".ci" / "typings"
"""Types of libraries that have none, or leave some out."""

TYPED = sorted((ROOT / "tests" / "typing").glob("*.py"))


def public() -> dict[str, Any]:
    """Return the public classes and functions, and what iterates over messages."""
    named = {name: getattr(module, name) for module in MODULES for name in module.__all__}
    found = {name: one for name, one in named.items() if inspect.isclass(one) or inspect.isfunction(one)}
    return found | {"Messages": Messages}


def methods_of(one: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a class, but for those that libraries define."""
    for name in dir(one):
        found = inspect.getattr_static(one, name)
        function = found.fget if isinstance(found, property) else found
        ours = getattr(function, "__module__", None) or ""
        if not name.startswith("_") and inspect.isfunction(function) and ours.startswith("sowline"):
            yield name, function


def signatures() -> dict[str, Any]:
    """Return all that is called or read, by its name."""
    found = {}
    for name, one in public().items():
        if inspect.isfunction(one):
            found[name] = one
            continue
        found |= {f"{name}.{method}": function for method, function in methods_of(one)}
        if inspect.isfunction(one.__init__):
            found[f"{name}.__init__"] = one.__init__
    return found


def hints_of(function: Any) -> dict[str, Any]:
    """Return the types of a function's arguments and of its result; those of extras are imported late."""
    return get_type_hints(function, localns={"pa": pa, "GridWidget": GridWidget})


def has_any(type: object) -> bool:
    """Whether a type is `Any` or made from it, but for the values of mappings."""
    parts = get_args(type)
    if inspect.isclass(origin := get_origin(type)) and issubclass(origin, Mapping):
        parts = parts[:1]
    return type is Any or any(has_any(list(part) if isinstance(part, list) else part) for part in parts)


def stated(tree: ast.AST) -> Iterator[str]:
    """Yield the functions, and the methods by class, of whose results a module asserts the type."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        classes = {one.arg: ast.unparse(one.annotation) for one in function.args.args if one.annotation}
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "assert_type":
                yield from _named(call.args[0], classes)


def _named(expression: ast.expr, classes: dict[str, str]) -> Iterator[str]:
    for node in ast.walk(expression):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{classes.get(node.value.id)}.{node.attr}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


def test_each_result_has_a_type_that_is_stated() -> None:
    """A method without a line may return anything to an editor, and no checker tells."""
    results = {
        name
        for name, one in signatures().items()
        if hints_of(one).get("return") is not type(None) and not name.endswith(".__init__")
    }
    assert len(results) > 40
    missing = sorted(results - {name for path in TYPED for name in stated(ast.parse(path.read_text()))})
    left = {name.partition(".")[0] for name in missing}
    found = [name for name in missing if name.partition(".")[0] not in UNSTATED]
    assert not found, f"expected assert_type in tests/typing/ for each of {found}, got none: add it"
    assert set(UNSTATED) <= left, (
        f"remove {sorted(set(UNSTATED) - left)} from UNSTATED: its methods have lines"
    )


def test_public_signatures_have_no_any() -> None:
    """Without it, a checker finds wrong arguments, and an editor completes results."""
    found = {
        name for name, one in signatures().items() if any(has_any(hint) for hint in hints_of(one).values())
    }
    assert found == set(ANY), (
        f"expected a type in each of {sorted(found - set(ANY))}, got Any: name the type;"
        f" and remove {sorted(set(ANY) - found)} from ANY"
    )


def unknown_to(owner: Any, body: list[ast.stmt]) -> Iterator[str]:
    """Yield what a stub says that its module or class does not have."""
    for one in body:
        match one:
            case ast.ClassDef(name) | ast.FunctionDef(name) if not hasattr(owner, name):
                yield name
            case ast.ClassDef(name):
                yield from unknown_to(getattr(owner, name), one.body)
            case ast.FunctionDef(name):
                yield from unknown_parameters(getattr(owner, name), one.args)
            case ast.AnnAssign(ast.Name(name)) if not hasattr(owner, name):
                # Objects may have what their class has not.
                is_set = f"self.{name} = " in inspect.getsource(owner)
                if not is_set and name not in inspect.get_annotations(owner):
                    yield name


def unknown_parameters(function: Any, stated: ast.arguments) -> Iterator[str]:
    """Yield parameters that a function does not take; a property takes none."""
    if isinstance(function, property):
        return
    taken = inspect.signature(function).parameters
    takes_all = any(one.kind is one.VAR_KEYWORD for one in taken.values())
    for one in (*stated.args, *stated.kwonlyargs):
        if one.arg not in taken and one.arg != "cls" and not takes_all:
            yield f"{function.__name__}({one.arg})"


@pytest.mark.parametrize(
    ("type", "found"),
    [
        (Any, True),
        (list[Any], True),
        (dict[str, Any], False),
        (dict[str, Any] | None, False),
        (str | Any, True),
        (dict[Any, str], True),
        (str, False),
    ],
)
def test_what_has_any(type: object, found: bool) -> None:
    """Values of dicts are those of JSON."""
    assert has_any(type) is found


def test_statements_are_found() -> None:
    """By the class that a parameter has."""
    text = "async def f(c: Client):\n    assert_type(await c.sow('t'), M)\n    assert_type(read(c), D)\n    c.flush()"
    assert set(stated(ast.parse(text))) == {"Client.sow", "read"}


def test_modules_without_strict_types_are_needed(tmp_path: Path) -> None:
    """A module that has become clean is left out no more."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["basedpyright"]
    left_out = {str(ROOT / one): one for one in settings["ignore"]}
    project = tmp_path / "pyrightconfig.json"
    # Without the project's list, and for these modules alone.
    given = {**settings, "include": list(left_out), "ignore": [], "venvPath": str(ROOT)}
    project.write_text(json.dumps(given))
    command = [sys.executable, "-m", "basedpyright", "--project", str(project), "--outputjson"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    faulty = {one["file"] for one in json.loads(done.stdout)["generalDiagnostics"]}
    clean = sorted(name for path, name in left_out.items() if path not in faulty)
    assert not clean, f"expected errors of strict types in {clean}, got none: remove it from pyproject.toml"


@pytest.mark.parametrize(
    "stub", sorted(TYPINGS.rglob("*.pyi")), ids=lambda path: str(path.relative_to(TYPINGS))
)
def test_the_types_of_a_library_are_of_what_it_has(stub: Path) -> None:
    """Each name in `.ci/typings` is one of the library, and each function takes the parameters that it has there."""
    name = ".".join(stub.relative_to(TYPINGS).with_suffix("").parts).removesuffix(".__init__")
    unknown = list(unknown_to(importlib.import_module(name), ast.parse(stub.read_text()).body))
    assert not unknown, f"expected names of the library in {stub}, got {unknown}"


def test_what_a_library_does_not_have_is_found() -> None:
    """A function, a parameter, and an attribute."""
    stub = "def gone(): ...\nclass PurePath:\n  left: int\n  name: str\n  def match(self, shape: str) -> bool: ..."
    assert list(unknown_to(pathlib, ast.parse(stub).body)) == ["gone", "left", "match(shape)"]
