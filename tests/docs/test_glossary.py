"""The vocabulary: the words that docs/glossary.md retires are in no identifier and in no text."""

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
CONTRIBUTING = ROOT / ".github" / "CONTRIBUTING.md"
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

_SECOND_MEANING = re.compile(
    r"[.;:] (In|On|Of|At|As|For|Where|With) [^.]*?[,:]|[.;] On [^.]* also |, and one of "
)
"""How a row would begin another meaning: with the context in which the word has it."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def retired(column: str) -> dict[str, str]:
    """Return the words of one of the two tables, each with what to use instead."""
    _, _, table = CONTRIBUTING.read_text().partition(f"| {column} | use instead |\n")
    rows = table.partition("\n\n")[0].splitlines()[1:]
    found: dict[str, str] = {}
    for row in rows:
        words, instead = row.strip("|").split("|")
        found |= dict.fromkeys(re.findall(r"`([^`]+)`", words), instead.strip())
    return found


def terms() -> Iterator[tuple[str, str]]:
    """Yield each term with its meaning."""
    _, _, table = GLOSSARY.read_text().partition("| word | meaning |\n|---|---|\n")
    for row in table.partition("\n\n")[0].splitlines():
        words, meaning = row.strip("|").split(" | ", 1)
        for word in words.split(","):
            yield word.strip(), meaning.strip()


def files(directories: tuple[str, ...], suffixes: set[str]) -> Iterator[Path]:
    """Yield our own files below some directories, and those at the top."""
    found = [path for name in directories for path in (ROOT / name).rglob("*")]
    for path in sorted([*found, *ROOT.glob("*.*")]):
        own = THIRD_PARTY not in path.parents and path not in {CONTRIBUTING, Path(__file__)}
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


_QUOTED_OR_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|`(?:\\.|[^`\\])*`", re.DOTALL)


def other_identifiers(source: str) -> Iterator[tuple[int, str]]:
    """Yield each name of a Rust or TypeScript source with its line: comments and strings are left out."""
    bare = _QUOTED_OR_COMMENT.sub(lambda found: "\n" * found[0].count("\n"), source)
    for number, line in enumerate(bare.splitlines(), 1):
        for name in re.findall(r"[A-Za-z_]\w*", line):
            yield number, name


def words_of(identifier: str) -> set[str]:
    """Return the words of a name: `_PlaceOf` has `place` and `of`."""
    return {word.lower() for word in _WORD.findall(identifier)}


def classes(path: Path) -> Iterator[str]:
    """Yield the names of the classes at the top level of a module that others may use."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def test_a_term_has_one_meaning() -> None:
    """One row for each. Another meaning needs a term of its own, such as `message group`."""
    words = Counter(word.lower() for word, _ in terms())
    assert {
        "gateway",
        "node",
        "shard",
        "stream",
        "snapshot",
        "step",
        "outbox",
        "lifecycle",
        "window",
    } <= words.keys()
    assert {word: count for word, count in words.items() if count > 1} == {}
    assert {word: meaning for word, meaning in terms() if _SECOND_MEANING.search(meaning)} == {}


@pytest.mark.parametrize(
    "meaning",
    [
        "the *records* of one instant: [a query](api.md). In aggregation, records with equal values of some fields",
        "the latest merged *body* of a *key*. Where Kafka is meant, a Kafka record",
        "a *topic* that is computed from others. In a client: what a *subscription* shows",
        "what is written to the *log*: `publish`. On a connection also what a client requests: [the APIs](api.md)",
        "a service, and one of the subscriptions that `topics.yaml` gives it",
    ],
)
def test_another_meaning_is_found(meaning: str) -> None:
    """In rows that once had two."""
    assert _SECOND_MEANING.search(meaning)


def test_a_term_in_a_meaning_has_a_row() -> None:
    """A term in italics; some are in the plural."""
    words = {word.lower() for word, _ in terms()}
    linked = {term.lower() for _, meaning in terms() for term in re.findall(r"\*([^*`]+)\*", meaning)}
    singular = {term: {term, term.removesuffix("s"), term.removesuffix("ies") + "y"} for term in linked}
    assert {term for term in linked if not singular[term] & words} == set()


@pytest.mark.parametrize(
    ("directories", "suffixes", "names_of"),
    [
        (SOURCES, {".py"}, identifiers),
        (("native", "clients"), {".rs", ".ts", ".tsx"}, other_identifiers),
    ],
)
def test_no_identifier_has_a_retired_word(
    directories: tuple[str, ...], suffixes: set[str], names_of: Callable[[str], Iterator[tuple[int, str]]]
) -> None:
    """Of our modules in Python, Rust and TypeScript, tests included."""
    words = retired("retired in identifiers")
    assert {"place", "told", "door"} <= words.keys()
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}: expected {words[word]}, got {word}"
        for path in files(directories, suffixes)
        for line, name in names_of(path.read_text())
        for word in sorted(words_of(name) & words.keys())
    ]
    assert not found, "\n".join(found)


def test_names_of_another_language() -> None:
    """What is quoted or commented is no name, and the lines stay."""
    source = 'let a = "place"; // place\n/* told\n*/ fn b() { `door` }'
    assert list(other_identifiers(source)) == [(1, "let"), (1, "a"), (3, "fn"), (3, "b")]


def test_native_is_the_rust_core() -> None:
    """A topic's own message type is `typed` in code; its media type and `format=native` are known to clients."""
    services = (
        "gateway",
        "query_service/sowline_query_service/query",
        "query_service/sowline_query_service/server",
    )
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in files(("sowline/serving", *services), {".py"})
        for line, name in identifiers(path.read_text())
        if "native" in words_of(name) and name != "NATIVE"
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
