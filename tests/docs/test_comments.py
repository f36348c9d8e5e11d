"""Comments and docstrings of the product name tests that show what goes wrong without a line: those tests exist."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

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

COMMENTS_MIN = {
    "fanout": 5.0,
    "gateway": 4.0,
    "materializer": 4.0,
    "query_service": 4.25,
    "sowline/changes": 5.5,
    "sowline/check": 2.2,
    "sowline/codecs": 4.3,
    "sowline/commands": 4.5,
    "sowline/kafka": 4.0,
    "sowline/model": 4.0,
    "sowline/registry": 4.0,
    "sowline/serving": 3.7,
    "sowline/subscriptions": 4.0,
    "views": 4.5,
}
"""Packages that records depend on: lines of comments for each 100 lines of code. Deleting reasons lowers it."""

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


def comments_of(text: str) -> tuple[int, int]:
    """Return the number of lines of comments that stand alone, and of all lines that are not empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    comments = [
        token
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and token.line.strip().startswith("#")
    ]
    return len(comments), len(lines)


@pytest.mark.parametrize("package", COMMENTS_MIN)
def test_reasons_are_kept(package: str) -> None:
    """What a line prevents is not seen in it: anyone who changes it needs the reason, and the test that shows it."""
    counts = [comments_of(path.read_text()) for path in sorted((ROOT / package).rglob("*.py"))]
    comments, lines = (sum(column) for column in zip(*counts, strict=True))
    share = 100 * comments / lines
    assert share >= COMMENTS_MIN[package], f"{package}: expected {COMMENTS_MIN[package]}, got {share:.2f}"


def test_which_comments_are_counted() -> None:
    """Whole lines of them; neither the end of a line of code nor a text."""
    assert comments_of('x = 1  # one\n\n# two\n# three\ny = """\n# four\n"""\n') == (2, 6)
