"""Which modules are mutated, and which tests are to refuse their mutants."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from importlinter.api import read_configuration

ROOT = Path(__file__).parents[2]
# The contract of `.ci/importlinter.ini` that lists the pure packages.
PURE = "pure"

# Property tests by what they test: a module, or a directory of modules. They run after the unit tests.
PROPERTY = {
    "sowline/language/groups": ["test_groups.py"],
    "sowline/subscriptions/engine/matching": ["test_matching.py"],
    "sowline/subscriptions/engine/page.py": ["test_page.py"],
    "sowline/subscriptions/engine/subscription.py": ["test_subscriptions.py"],
    "materializer/sowline_materializer/core": [
        "test_core_model.py",
        "test_supplied_model.py",
        "test_transient_model.py",
    ],
    "materializer/sowline_materializer/core/documents.py": ["test_documents.py"],
    "sowline/serving/authorization/entitlements.py": ["test_entitled.py"],
    "query_service/sowline_query_service/index": ["test_index_access_paths.py"],
    "query_service/sowline_query_service/replica/history.py": ["test_history.py"],
    "query_service/sowline_query_service/replica/timeline.py": ["test_timeline.py"],
    "sowline/language/emodb": ["test_document.py"],
    "sowline/language/expressions/enrichment.py": ["test_enrichment_model.py"],
    "sowline/language/filter/functions": ["test_filter_functions.py"],
    "sowline/model/difference.py": ["test_difference.py"],
    "sowline/changes/changes_reader.py": ["test_loaders.py", "test_reader.py"],
    "sowline/changes/ranking.py": ["test_loaders.py"],
    "sowline/changes/wholeness.py": ["test_loaders.py"],
}

# Unit tests by the module that they test, beside the file of its name, which would be too long with them.
FURTHER = {
    "materializer/sowline_materializer/core/views.py": ["test_view_loads.py"],
    "query_service/sowline_query_service/replica/partition_replica.py": ["test_ring_limits.py"],
    "sowline/check/judge/reads.py": ["test_read_changes.py"],
}


def modules(paths: Iterable[str] = ()) -> list[str]:
    """Return the modules below paths, all of the pure packages if there are none, as paths from the root."""
    below = list(paths) or [directory(package) for package in pure_packages()]
    return sorted({module for path in below for module in _modules(path.rstrip("/"))})


def pure_packages() -> list[str]:
    """Return the packages and modules that the contract keeps Kafka, RocksDB, clocks and chance out of."""
    contracts = read_configuration(str(ROOT / ".ci" / "importlinter.ini"))["contracts_options"]
    (pure,) = (contract for contract in contracts if contract["id"] == PURE)
    return list(pure["source_modules"])


def directory(package: str) -> str:
    """Return where a package or module is, from the root; that of a service is in the service's directory."""
    path = re.sub(r"^sowline_(\w+)", r"\1/sowline_\1", package).replace(".", "/")
    return path if (ROOT / path).is_dir() else f"{path}.py"


def dotted(module: str) -> str:
    """Return the name by which a module is imported, by its path from the root."""
    path = re.sub(r"^(\w+)/sowline_\1\b", r"sowline_\1", module)
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def own_test(module: str) -> Path:
    """Return the test file of a module's name, from the root; it may not exist."""
    path = Path("tests/unit", re.sub(r"^(\w+)/sowline_\1\b", r"\1", module))
    return path.with_name(f"test_{path.name}")


def tests(module: str) -> list[str]:
    """Return the tests of a module's name and its further ones; if there are none, those of a package above it."""
    own = own_test(module)
    further = [str(own.with_name(test)) for test in FURTHER.get(module, ())]
    while not (ROOT / own).exists():
        own = own.parent
    return [str(own), *further, *(f"tests/property/{test}" for test in _property_tests(module))]


def _property_tests(module: str) -> Iterator[str]:
    for path, names in PROPERTY.items():
        if module == path or module.startswith(f"{path}/"):
            yield from names


def _modules(path: str) -> Iterator[str]:
    found = ROOT / path
    if not found.exists():
        raise FileNotFoundError(f"expected a module or a directory of modules, got {path}")
    files = [found] if found.is_file() else found.rglob("*.py")
    yield from (str(file.relative_to(ROOT)) for file in files)
