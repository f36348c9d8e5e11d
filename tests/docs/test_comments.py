"""Comments and docstrings of the product name tests that show what goes wrong without a line: those tests exist."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = (
    "contract",
    "fanout",
    "gateway",
    "ingest",
    "materializer",
    "query_service",
    "sowline",
    "views",
)

_TEST = re.compile(r"\btest_\w+")
_DEFINED = re.compile(r"def (test_\w+)\(")


def named(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the tests that the comments and texts of a module name, with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            for name in _TEST.findall(token.string):
                yield token.start[0], name


def test_tests_that_are_named_exist() -> None:
    """By the name of the function, or of the file."""
    files = list((ROOT / "tests").rglob("*.py"))
    there = {path.stem for path in files}
    there |= {name for path in files for name in _DEFINED.findall(path.read_text())}
    modules = [path for package in PRODUCT for path in sorted((ROOT / package).rglob("*.py"))]
    found = [(path, line, name) for path in modules for line, name in named(path)]
    assert len(found) > 30
    missing = [f"{path.relative_to(ROOT)}:{line}: {name}" for path, line, name in found if name not in there]
    assert not missing, "\n".join(missing)
