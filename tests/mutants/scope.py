"""Which modules are mutated, and which tests are to refuse their mutants."""

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Names the contract of pyproject.toml that lists the pure packages.
PURE = "pure packages"

# Property tests by what they test: a module, or a directory of modules. They run after the unit tests.
PROPERTY = {
    "sowline/groups": ["test_groups.py"],
    "fanout/engine/matching": ["test_matching.py"],
    "fanout/engine/page.py": ["test_page.py"],
    "fanout/engine/subscription.py": ["test_subscriptions.py"],
    "materializer/core": ["test_core_model.py", "test_supplied_model.py", "test_transient_model.py"],
    "materializer/core/documents.py": ["test_documents.py"],
    "sowline/serving/authorization/entitlements.py": ["test_entitled.py"],
    "query_service/index": ["test_index_access_paths.py"],
    "query_service/replica/history.py": ["test_history.py"],
    "query_service/replica/timeline.py": ["test_timeline.py"],
    "sowline/emodb": ["test_document.py"],
    "sowline/expressions/enrichment.py": ["test_enrichment_model.py"],
    "sowline/filter/functions": ["test_filter_functions.py"],
    "sowline/model/difference.py": ["test_difference.py"],
    "sowline/protocol/changes_loader.py": ["test_loaders.py"],
}


def modules(paths: Iterable[str] = ()) -> list[str]:
    """Return the modules below paths, all of the pure packages if there are none, as paths from the root."""
    below = list(paths) or [package.replace(".", "/") for package in _pure_packages()]
    return sorted({module for path in below for module in _modules(path.rstrip("/"))})


def tests(module: str) -> list[str]:
    """Return the tests of a module's name; if there are none, those of its package, or of the one above."""
    path = Path("tests/unit", module)
    own = path.with_name(f"test_{path.name}")
    while not (ROOT / own).exists():
        own = own.parent
    return [str(own), *(f"tests/property/{test}" for test in _property_tests(module))]


def _property_tests(module: str) -> Iterator[str]:
    for path, names in PROPERTY.items():
        if module == path or module.startswith(f"{path}/"):
            yield from names


def _pure_packages() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (pure,) = (contract for contract in contracts if contract["name"].startswith(PURE))
    return list(pure["source_modules"])


def _modules(path: str) -> Iterator[str]:
    found = ROOT / path
    if not found.exists():
        raise FileNotFoundError(f"expected a module or a directory of modules, got {path}")
    files = [found] if found.is_file() else found.rglob("*.py")
    yield from (str(file.relative_to(ROOT)) for file in files)
