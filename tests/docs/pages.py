"""What the pages hold that can be run: fenced blocks, and how each says that it is to be run.

A comment before a block may say that it is not, `<!-- not run: needs a cluster -->`, with a reason that a reader
would accept, or where it is, `<!-- run by tests/spark/test_docs.py::test_example -->`. A comment that begins with a
language is a block that readers don't see: what a shown one needs before it.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
PAGES = [
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", ".github/*.md", "docs/**/*.md")
    for path in sorted(ROOT.glob(pattern))
]
HIDDEN = ("console", "json", "python", "yaml")

_COMMENT = re.compile(r"<!--\s*(.*?)\s*-->", re.DOTALL)
_REASON = re.compile(r"(not run|run by):?\s+(.*)", re.DOTALL)


class Block(NamedTuple):
    """A block of a page. `excuse` is why it is not run, `elsewhere` the test that runs it: both empty for most."""

    page: str
    section: str
    line: int
    language: str
    text: str
    hidden: bool = False
    excuse: str = ""
    elsewhere: str = ""

    @property
    def location(self) -> str:
        """Where it stands, for the reader of an error."""
        return f"{self.page}:{self.line}"


def tracked(*patterns: str) -> list[str]:
    """Return the files of the repository that match, by their path below the root; all without a pattern."""
    listed = ["git", "ls-files", "--", *patterns]
    return subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def text_of(page: str) -> str:
    """Return the text of a page, by its path below the root."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page in their order, hidden ones among them."""
    return list(_blocks(page, MarkdownIt("commonmark").parse(text_of(page))))


def _blocks(page: str, tokens: list[Token]) -> Iterator[Block]:
    section, reasons = "", {"not run": "", "run by": ""}
    for before, token in zip([None, *tokens], tokens, strict=False):
        line = token.map[0] + 1 if token.map else 0
        if before is not None and before.type == "heading_open":
            section = token.content
        elif token.type == "html_block":
            for comment in _COMMENT.findall(token.content):
                language, _, text = comment.partition("\n")
                if about := _REASON.match(comment):
                    reasons[about[1]] = " ".join(about[2].split())
                elif language in HIDDEN and text:
                    yield Block(page, section, line, language, f"{text}\n", hidden=True)
        elif token.type in ("fence", "code_block"):
            language = token.info if token.type == "fence" else "indented"
            yield Block(
                page, section, line, language, token.content, False, reasons["not run"], reasons["run by"]
            )
            reasons = {"not run": "", "run by": ""}


def rows_of(page: str, *headings: str) -> list[list[str]]:
    r"""Return the rows of all tables of a page with these headings; a cell that is all code is what is in it.

    As in any table, `\|` is a bar; and `␀` stands for the character that no text shows.
    """
    found: list[list[str]] = []
    in_table = False
    for line in text_of(page).splitlines():
        inner = line.removeprefix("|").removesuffix("|").replace(r"\|", "\0")
        cells = [cell.strip().replace("\0", "|") for cell in inner.split("|")]
        if not line.startswith("|"):
            in_table = False
        elif tuple(cells) == headings:
            in_table = True
        elif in_table and not cells[0].startswith("---"):
            found.append([re.sub(r"^`([^`]*)`$", r"\1", cell).replace("␀", "\0") for cell in cells])
    assert found, f"{page} has no table with the headings {headings}"
    return found
