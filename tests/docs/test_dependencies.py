"""The page of dependencies has each that pyproject.toml names, and pyproject.toml names each that we import."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from tests.docs.pages import rows_of, text_of

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
BASE_MAX = 14
COLUMNS = ("package", "purpose", "why this one", "maintainer", "what would be lost")
COMPANIONS = {"py4j": "pyspark", "pydantic-core": "pydantic", "opentelemetry-api": "opentelemetry-sdk"}
"""Packages that are imported, but can't be had without another, of one version."""


def names_of(requirements: Iterable[str]) -> list[str]:
    """Return the packages of requirements, sorted, each once."""
    return sorted({Requirement(one).name for one in requirements})


def declared() -> list[str]:
    """Return the runtime and the optional dependencies."""
    optional = PROJECT["project"]["optional-dependencies"].values()
    return names_of([*PROJECT["project"]["dependencies"], *(one for extra in optional for one in extra)])


def imported() -> Iterator[str]:
    """Yield the modules from elsewhere that the packages of the wheel import."""
    ours = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    for path in (path for package in ours for path in (ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names = [node.module]
            else:
                continue
            tops = {name.partition(".")[0] for name in names}
            yield from tops - {*(package.rpartition("/")[2] for package in ours), *sys.stdlib_module_names}


def test_the_page_has_every_dependency_and_no_other() -> None:
    """Each with its five cells filled."""
    rows = rows_of("docs/dependencies.md", *COLUMNS)
    assert sorted(row[0] for row in rows) == declared()
    assert [row for row in rows if len(row) != len(COLUMNS) or not all(row)] == []


def test_a_client_installs_little() -> None:
    """Each dependency of the client is one of every program that uses it."""
    assert len(PROJECT["project"]["dependencies"]) <= BASE_MAX


def test_what_is_installed_together_is_in_one_table() -> None:
    """As they are in pyproject.toml."""
    _, base, services, optional, _ = text_of("docs/dependencies.md").split("\n## ")
    extras = PROJECT["project"]["optional-dependencies"]
    required = names_of(PROJECT["project"]["dependencies"])
    assert re.findall(r"^\| `(\S+)`", base, re.MULTILINE) == required
    assert re.findall(r"^\| `(\S+)`", services, re.MULTILINE) == names_of(extras["server"])
    assert not set(required) & set(re.findall(r"^\| `(\S+)`", services + optional, re.MULTILINE))


def test_what_is_imported_is_declared_and_the_other_way_round() -> None:
    """Nothing is used that comes only because another package needs it, and nothing is declared that is not used."""
    distributions = packages_distributions()
    found = set()
    for module in imported():
        of = {re.sub(r"[-_.]+", "-", name).lower() for name in distributions[module]}
        of = {COMPANIONS.get(name, name) for name in of}
        assert of & set(declared()), f"{module} is imported, but none of {sorted(of)} is declared"
        found |= of
    # Our own native core is imported by name, where it is installed (sowline.runtime.native).
    assert set(declared()) - {"sowline-native"} <= found
