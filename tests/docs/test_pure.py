"""What is named pure in `.ci/importlinter.ini` also asks no clock, chance or file by another way.

A module that imports `datetime` for its types may not call `datetime.now`: the contracts can't tell the two apart.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest
from importlinter.api import read_configuration

from tests.docs.test_comments import ROOT
from tests.docs.test_privates import tree_of
from tests.docs.test_shape import PACKAGES, share_of_lines
from tests.mutants.scope import directory

SHARE_MIN = 0.475
"""Of the lines of the product. What leaves a contract, or grows outside of them, lowers it."""

OUTSIDE = re.compile(
    r"(datetime|date)\.(now|today|utcnow)|os\.(urandom|environ|getenv)|uuid[14]|uuid\.uuid[14]|open|input"
    r"|subprocess\.\w+|.+\.(read_text|write_text|write_bytes|mkdir|iterdir|unlink|glob|stat|exists|is_file)"
)
"""What is used to learn of, or to change, something outside of the process."""

EXCEPTIONS = {
    "sowline/codecs/protobuf/built_in_imports.py": "reads the schemas that protobuf itself comes with",
    "sowline/codecs/protobuf/compiled.py": "runs the compiler of schemas, which reads and writes files",
    "sowline/config/schema_fields.py": "reads the schema files that a topic names",
    "sowline/config/settings.py": "reads the environment of the process",
    "sowline/config/topics.py": "reads the environment of the process",
    "sowline/config/yaml_file.py": "reads the file that its caller names",
    "sowline/language/filter/functions/clock.py": "has the two sources of the functions that ask for them",
}
"""Modules that do, each with its reason."""


def named() -> list[str]:
    """Return the packages and modules that the two contracts name."""
    contracts = read_configuration(str(ROOT / ".ci" / "importlinter.ini"))["contracts_options"]
    lists = [one["source_modules"] for one in contracts if one["id"] in ("pure", "pure-modules")]
    assert len(lists) == 2
    return [name for names in lists for name in names]


def files_of(name: str) -> list[Path]:
    """Return the modules of a package, or the one of that name."""
    path = ROOT / directory(name)
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def outside(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of a module that reach outside of the process."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call | ast.Attribute):
            used = ast.unparse(node.func if isinstance(node, ast.Call) else node)
            if OUTSIDE.fullmatch(used) and (isinstance(node, ast.Call) or used == "os.environ"):
                yield node.lineno


def test_pure_modules_reach_for_nothing_outside() -> None:
    """But those on the list, each of which does."""
    paths = {path for name in named() for path in files_of(name)}
    found = {str(path.relative_to(ROOT)): [*outside(tree_of(path))] for path in paths}
    wrong = [f"{name}:{line}" for name, lines in found.items() if name not in EXCEPTIONS for line in lines]
    assert not wrong, "expected time, chance and files to be passed in at\n" + "\n".join(wrong)
    assert EXCEPTIONS.keys() == {name for name, lines in found.items() if lines}


def test_about_half_of_the_product_is_named() -> None:
    """So that it stays pure: `test_half_of_the_code_is_pure` alone lets a module take the place of another."""
    modules = grimp.build_graph(*PACKAGES).modules
    names = named()
    pure = {one for one in modules if any(one == name or one.startswith(f"{name}.") for name in names)}
    assert share_of_lines(pure, modules) >= SHARE_MIN


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("now = datetime.now(UTC)", 1),
        ("seed = os.urandom(10)", 1),
        ("text = Path(name).read_text()", 1),
        ("level = os.environ.get('LEVEL')", 1),
        ("settings = Settings(**os.environ)", 1),
        ("day = datetime.fromtimestamp(ms, UTC)", 0),
        ("value = reader.read_bytes()", 0),
    ],
)
def test_what_reaches_outside(text: str, count: int) -> None:
    """Clocks, chance, files, the environment; not what only has the type of one."""
    assert len([*outside(ast.parse(text))]) == count
