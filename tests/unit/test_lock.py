"""uv.lock is the lock of this pyproject.toml, and takes files from nowhere but PyPI."""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = tomllib.loads((ROOT / "uv.lock").read_text())
PACKAGES = LOCK["package"]
ADVICE = "run .venv/bin/uv lock, and commit uv.lock"

Wanted = tuple[str, frozenset[str], str | None, SpecifierSet]
"""A name, its extras, the extra of ours that it is for, and the versions that will do."""


def of_project(requirements: Iterable[str], extra: str | None = None) -> set[Wanted]:
    """Return what requirements of pyproject.toml ask for."""
    asked = map(Requirement, requirements)
    return {(one.name, frozenset(one.extras), extra, one.specifier) for one in asked}


def of_lock(requirements: list[dict[str, Any]]) -> set[Wanted]:
    """Return what the lock says that pyproject.toml asks for."""
    return {
        (
            one["name"],
            frozenset(one.get("extras", ())),
            one["marker"].split("'")[1] if "marker" in one else None,
            SpecifierSet(one.get("specifier", "")),
        )
        for one in requirements
    }


def group(name: str) -> list[str]:
    """Return the requirements of a dependency group, with those of the groups that it includes."""
    found: list[str] = []
    for one in PROJECT["dependency-groups"][name]:
        found += group(one["include-group"]) if isinstance(one, dict) else [one]
    return found


def test_it_is_of_this_project() -> None:
    """Every requirement is in it as pyproject.toml has it, and no other."""
    (ours,) = [package for package in PACKAGES if package["name"] == PROJECT["project"]["name"]]
    wanted = of_project(PROJECT["project"]["dependencies"])
    for extra, requirements in PROJECT["project"]["optional-dependencies"].items():
        wanted |= of_project(requirements, extra)
    # The native core has a directory instead of a version: uv takes it from this repository.
    native = {one for one in wanted if one[0] == "sowline-native"}
    by_directory = {(name, extras, extra, SpecifierSet()) for name, extras, extra, _ in native}
    assert of_lock(ours["metadata"]["requires-dist"]) == wanted - native | by_directory, ADVICE
    locked = ours["metadata"]["requires-dev"]
    assert locked.keys() == PROJECT["dependency-groups"].keys(), ADVICE
    for name in PROJECT["dependency-groups"]:
        assert of_lock(locked[name]) == of_project(group(name)), ADVICE


def test_it_takes_no_version_of_the_last_days() -> None:
    """A malicious release is usually found within days; an update of the lock takes what is a week old."""
    assert PROJECT["tool"]["uv"]["exclude-newer"] == "7 days"
    assert LOCK["options"]["exclude-newer-span"] == "P7D", ADVICE


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package["name"])
def test_everything_comes_from_the_public_registry(package: dict[str, Any]) -> None:
    """With a hash for each file. A lock that was made behind a mirror would name that."""
    if package["source"] in ({"editable": "."}, {"directory": "native"}):
        return  # ours
    assert package["source"] == {"registry": "https://pypi.org/simple"}
    files = [*package.get("wheels", []), *filter(None, [package.get("sdist")])]
    assert files
    for file in files:
        assert file["url"].startswith("https://files.pythonhosted.org/packages/")
        assert file["hash"].startswith("sha256:")
