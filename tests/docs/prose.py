"""The prose of the project: pages, docstrings, comments and messages, cut into sentences, and the rules for them.

`python -m tests.docs.prose [PATH …]` lists what breaks a rule, and how long and how readable the sentences are.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.docs.pages import PAGES

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
CHANGELOG = "docs/changelog.md"
WORDS_MAX = 35
PASSIVES_MAX = 2

CODE = "`code`"
"""Stands for a code span, so that it counts as one word."""

_WORD = re.compile(r"[A-Za-z0-9][\w'’/.-]*")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[A-Z`\"'(\[])|(?<=[;:])\s*\n\s*\n")
_ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|etc|vs|cf)\.", re.IGNORECASE)
_PASSIVE = re.compile(
    r"\b(?:is|are|was|were|be|been|being)\s+(?:\w+ly\s+|not\s+)?"
    r"(?:\w+ed|made|sent|read|written|kept|held|lost|given|taken|begun|known|found|left|put|cut|set|seen|shown|built)\b"
)
_DOUBLE_BACKTICKS = re.compile(r"``?[^`]+``?")


class Sentence(NamedTuple):
    """A sentence, and where it stands."""

    path: str
    line: int
    kind: str
    text: str

    @property
    def words(self) -> list[str]:
        """Its words; a code span is one."""
        return _WORD.findall(self.text)


class Rule(NamedTuple):
    """What is refused, and what to write instead."""

    name: str
    pattern: re.Pattern[str]
    instead: str
    is_of_pages: bool = False
    """Whether it holds for pages only: in docstrings it still has exceptions."""


RULES = (
    Rule(
        "inverted opener",
        re.compile(r"^Of (?:a|an|the|each|every|all|one|what|those|several|many)\b[^,]*,"),
        "name the subject first",
    ),
    Rule(
        "nominal relative",
        re.compile(
            r"\b(?:what (?:is|was|are|were) (?:said|there|told|to be)|what comes of)\b", re.IGNORECASE
        ),
        "name the thing",
    ),
    Rule(
        "private dialect",
        re.compile(
            r"\b(?:is let be|are let be|oftener|for good|no oftener|at the most|so long as it takes|of no use)\b",
            re.IGNORECASE,
        ),
        "use the standard phrase: ignored, more often, permanently, at most, useless",
    ),
    Rule(
        "so many",
        re.compile(
            r"\b(?:at most|after|every|only the first|by) so (?:many|much)\b|\bso (?:many|much) (?:as|of)\b"
        ),
        "name the number: `limit` records, this many, up to 10",
    ),
    Rule(
        "such … as",
        re.compile(r"\bsuch (?!as\b|an?\b)[\w-]+(?: [\w-]+){0,4} as\b", re.IGNORECASE),
        "write like, or name the thing",
    ),
    Rule(
        "fronted object",
        re.compile(
            r"^Of (?:an?|the|its|these|them|each|every|both)\b[^,:]*:|[;:] of (?:an?|the|its|these|them|each|both)\b"
        ),
        "begin with the subject",
        is_of_pages=True,
    ),
    Rule(
        "nominal opener",
        re.compile(r"^What (?:a|an|the|is|was|it|they|you|one)\b[^?]*[^?]$"),
        "begin with a noun: the records that …",
        is_of_pages=True,
    ),
    Rule(
        "empty there",
        re.compile(
            r"\b(?:all|what|whatever|those|that) (?:that )?there (?:is|are|was|were)\b", re.IGNORECASE
        ),
        "use exists, or name the things",
        is_of_pages=True,
    ),
    Rule(
        "of its own",
        re.compile(r"\bof (?:its|their) own\b(?! log)", re.IGNORECASE),
        "write its own …",
        is_of_pages=True,
    ),
    Rule(
        "goes on",
        re.compile(r"\b(?:goes|go|went|going) on\b(?! to\b)", re.IGNORECASE),
        "write continues",
        is_of_pages=True,
    ),
    Rule(
        "chain of",
        re.compile(r"(?:\bof (?:\w+ ){1,3}){3}"),
        "use a possessive, a compound or a verb",
        is_of_pages=True,
    ),
)

WORDS_OF_PAGES_MAX = 96_000
"""The words of README, docs and decisions without code; a page that grows makes another one shorter."""


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a paragraph in their order."""
    text = _ABBREVIATIONS.sub(lambda match: match[0].replace(".", ""), " ".join(text.split()))
    return [part.strip() for part in _SENTENCE_END.split(text) if _WORD.search(part)]


def _plain(token: Token) -> str:
    """Return the text of an inline token without markup."""
    parts = []
    for child in token.children or ():
        if child.type == "text":
            parts.append(child.content)
        elif child.type == "code_inline":
            parts.append(CODE)
        elif child.type in ("softbreak", "hardbreak"):
            parts.append(" ")
    return "".join(parts)


def of_page(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a page: paragraphs, list items and cells of tables, but no code."""
    tokens = MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8"))
    heading, line = False, 1
    for token in tokens:
        line = token.map[0] + 1 if token.map else line
        if token.type in ("heading_open", "heading_close"):
            heading = token.type == "heading_open"
        elif token.type == "inline" and not heading:
            for sentence in sentences_of(_plain(token)):
                yield Sentence(_name(path), line, "page", sentence)


def of_module(path: Path) -> Iterator[Sentence]:
    """Yield the sentences of a module: docstrings, comments of whole lines, and messages of errors and the log."""
    source = path.read_text(encoding="utf-8")
    for line, kind, text in (
        *_docstrings(ast.parse(source)),
        *_comments(source),
        *_messages(ast.parse(source)),
    ):
        for paragraph in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", text):
            if not _is_code(paragraph):
                for sentence in sentences_of(_DOUBLE_BACKTICKS.sub(CODE, paragraph)):
                    yield Sentence(_name(path), line, kind, sentence)


def _is_code(paragraph: str) -> bool:
    return all(line.startswith("    ") for line in paragraph.splitlines() if line.strip())


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield docstrings, those behind an assignment included."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", ()) if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                value = statement.value.value
                if isinstance(value, str):
                    yield statement.lineno, "docstring", value


def _comments(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield comments; lines that follow one another are one text."""
    first, last, lines = 0, -1, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or token.string.startswith(("#!", "# type:", "# noqa", "# pragma")):
            continue
        if token.start[0] != last + 1 and lines:
            yield first, "comment", "\n".join(lines)
            lines = []
        if not lines:
            first = token.start[0]
        last = token.start[0]
        lines.append(token.string.lstrip("# "))
    if lines:
        yield first, "comment", "\n".join(lines)


_REPORTERS = {
    "info",
    "warning",
    "error",
    "exception",
    "echo",
    "CounterMetricFamily",
    "GaugeMetricFamily",
    "Field",
    "Finding",
    "option",
}


def _messages(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield the texts that a raised exception or a call that reports something to a person has as arguments."""
    raised = {id(node.exc) for node in ast.walk(tree) if isinstance(node, ast.Raise)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (id(node) in raised or _reports(node.func)):
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                if (text := _text(argument)) and " " in text:
                    yield argument.lineno, "message", text


def _reports(called: ast.expr) -> bool:
    name = (
        called.attr
        if isinstance(called, ast.Attribute)
        else called.id
        if isinstance(called, ast.Name)
        else ""
    )
    return name in _REPORTERS or name.endswith("Error")


def _text(node: ast.AST) -> str:
    """Return the text of a literal; what an f-string inserts is one word."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or CODE for part in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return ""


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def pages() -> list[Path]:
    """Return our pages; the changelog lists what was, in the words of its time."""
    return [ROOT / page for page in PAGES if page != CHANGELOG]


def words_of_pages() -> int:
    """Return how many words README, docs and decisions have, tables included and code blocks left out.

    The changelog is left out, too: it only grows.
    """
    paths = {ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - {ROOT / CHANGELOG}
    texts = [path.read_text(encoding="utf-8") for path in paths]
    prose = " ".join(re.sub(r"```.*?```", "", text, flags=re.DOTALL) for text in texts)
    return sum(1 for word in prose.split() if re.search(r"[A-Za-z0-9]", word))


def modules() -> list[Path]:
    """Return the modules of the product."""
    return [path for package in PRODUCT for path in sorted((ROOT / package).rglob("*.py"))]


def sentences(paths: Iterable[Path]) -> Iterator[Sentence]:
    """Yield the sentences of pages and modules."""
    for path in paths:
        yield from of_page(path) if path.suffix == ".md" else of_module(path)


def faults(sentence: Sentence) -> Iterator[str]:
    """Yield what is wrong with a sentence, each with what to do."""
    where = f"{sentence.path}:{sentence.line}"
    if (words := len(sentence.words)) > WORDS_MAX:
        yield f"{where}: {words} words, expected at most {WORDS_MAX}; split: {sentence.text}"
    if len(_PASSIVE.findall(sentence.text)) > PASSIVES_MAX:
        yield f"{where}: more than {PASSIVES_MAX} passives; name who acts: {sentence.text}"
    for rule in RULES:
        if rule.is_of_pages and sentence.kind != "page":
            continue
        if match := rule.pattern.search(sentence.text):
            yield f"{where}: {rule.name}, {match[0]!r}; {rule.instead}: {sentence.text}"


def syllables(word: str) -> int:
    """Return about how many syllables a word has: groups of vowels, without a silent `e` at the end."""
    groups = len(re.findall(r"[aeiouy]+", word.lower()))
    return max(1, groups - (word.lower().endswith("e") and not word.lower().endswith("le") and groups > 1))


def summary(found: Sequence[Sentence]) -> str:
    """Return how many words and sentences there are, how long these are, and the Flesch reading ease."""
    lengths = sorted(len(sentence.words) for sentence in found)
    words = [word for sentence in found for word in sentence.words]
    ease = 206.835 - 1.015 * mean(lengths) - 84.6 * sum(map(syllables, words)) / len(words)
    return (
        f"{len(words):,} words, {len(found):,} sentences, {mean(lengths):.1f} words each"
        f" (p95 {lengths[int(0.95 * (len(lengths) - 1))]}, max {lengths[-1]}), reading ease {ease:.0f}"
    )


def main(paths: Sequence[str]) -> int:
    """List the faults of some pages and modules, or of all, with a summary of each kind."""
    chosen = [Path(path).resolve() for path in paths] or [*pages(), *modules()]
    files = [one for path in chosen for one in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    found = list(sentences(files))
    wrong = [fault for sentence in found for fault in faults(sentence)]
    print("\n".join(wrong))
    for kind in sorted({sentence.kind for sentence in found}):
        print(f"{kind}: {summary([sentence for sentence in found if sentence.kind == kind])}")
    print(f"faults: {len(wrong)}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
