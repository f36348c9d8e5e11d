"""The vocabulary: the words that docs/glossary.md retires are in no identifier and in no text."""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
SOURCES = (
    "bench",
    "contract",
    "deploy",
    "examples",
    "fanout",
    "ingest",
    "materializer",
    "query_service",
    "gateway",
    "sowline",
    "tests",
    "views",
)
TEXTS = (*SOURCES, "docs", "helm", ".ci", ".github")
TEXT_SUFFIXES = {".css", ".html", ".js", ".md", ".py", ".toml", ".yaml", ".yml"}
THIRD_PARTY = ROOT / "sowline" / "serving" / "console" / "vendor"

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def retired(column: str) -> dict[str, str]:
    """Return the words of one of the two tables, each with what to use instead."""
    _, _, table = GLOSSARY.read_text().partition(f"| {column} | use instead |\n")
    rows = table.partition("\n\n")[0].splitlines()[1:]
    found: dict[str, str] = {}
    for row in rows:
        words, instead = row.strip("|").split("|")
        found |= dict.fromkeys(re.findall(r"`([^`]+)`", words), instead.strip())
    return found


def files(directories: tuple[str, ...], suffixes: set[str]) -> Iterator[Path]:
    """Yield our own files below some directories, and those at the top."""
    found = [path for name in directories for path in (ROOT / name).rglob("*")]
    for path in sorted([*found, *ROOT.glob("*.*")]):
        own = THIRD_PARTY not in path.parents and path not in {GLOSSARY, Path(__file__)}
        if own and path.suffix in suffixes and "node_modules" not in path.parts:
            yield path


def identifiers(source: str) -> Iterator[tuple[int, str]]:
    """Yield each name of a module with its line, those in the braces of f-strings included."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string
        elif token.type == tokenize.STRING and "f" in token.string[:2].lower():
            for braces in re.findall(r"\{[^{}]*\}", token.string):
                for name in re.findall(r"[A-Za-z_]\w*", braces):
                    yield token.start[0], name


def words_of(identifier: str) -> set[str]:
    """Return the words of a name: `_PlaceOf` has `place` and `of`."""
    return {word.lower() for word in _WORD.findall(identifier)}


def classes(path: Path) -> Iterator[str]:
    """Yield the names of the classes at the top level of a module that others may use."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def test_no_identifier_has_a_retired_word() -> None:
    """Of our Python modules, tests included."""
    words = retired("retired in identifiers")
    assert {"place", "told", "door"} <= words.keys()
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}: expected {words[word]}, got {word}"
        for path in files(SOURCES, {".py"})
        for line, name in identifiers(path.read_text())
        for word in sorted(words_of(name) & words.keys())
    ]
    assert not found, "\n".join(found)


def test_no_file_is_named_by_a_retired_word() -> None:
    """Modules, tests and pages alike."""
    words = retired("retired in identifiers")
    found = [
        str(path.relative_to(ROOT))
        for path in files(TEXTS, TEXT_SUFFIXES)
        if words_of(path.stem) & words.keys()
    ]
    assert not found


def test_no_text_has_a_retired_phrase() -> None:
    """Code, comments, messages and pages."""
    phrases = retired("retired in text")
    assert {"anew", "whoever", "put right"} <= phrases.keys()
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, phrases))})\b", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: expected {phrases[match.lower()]}, got {match}"
        for path in files(TEXTS, TEXT_SUFFIXES)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for match in pattern.findall(line)
    ]
    assert not found, "\n".join(found)


def test_a_class_name_has_one_meaning() -> None:
    """Two classes of one name in different packages have to be told apart by every reader."""
    homes: dict[str, list[str]] = defaultdict(list)
    for path in files(tuple(name for name in SOURCES if name not in {"bench", "examples", "tests"}), {".py"}):
        for name in classes(path):
            homes[name].append(str(path.relative_to(ROOT)))
    assert not {name: paths for name, paths in homes.items() if len(paths) > 1}


@pytest.mark.parametrize(
    ("identifier", "words"),
    [
        ("_PlaceOf", {"place", "of"}),
        ("replaced", {"replaced"}),
        ("said_in", {"said", "in"}),
        ("SOWKey", {"sow", "key"}),
    ],
)
def test_words_of_an_identifier(identifier: str, words: set[str]) -> None:
    """Split at underscores and at capitals."""
    assert words_of(identifier) == words
