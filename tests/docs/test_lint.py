"""Ruff's rules are all on, but for a few. Each of these is still needed, and says why it is off.

`ruff check` refuses the rest, also a `noqa` that is not needed any more.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.docs.test_comments import ROOT

RULES = ROOT / ".ci" / "ruff.toml"
"""The file that pyproject.toml extends; its patterns of files begin in its own directory."""
IGNORED_MAX = 30
"""The rules and families that are off everywhere."""

CODE = r"[A-Z]+[0-9]*"
GLOBAL = "ignore"

_ENTRY = re.compile(rf'^\s*"({CODE})",(?:  # (.+))?$')
_LINE = re.compile(rf'^("[^"]+"|ignore) = \["({CODE})"\](?:  # (.+))?$')
_LIST = re.compile(r'^("[^"]+"|ignore) = \[$')
_FOUND = re.compile(rf"^(.+?):\d+:\d+: ({CODE}) ")
_NOQA = re.compile(r"#\s*(?:ruff:|flake8:)?\s*noqa\b.*", re.IGNORECASE)
_EXPLAINED = re.compile(rf"# noqa: {CODE}(, {CODE})* - \S.*")


class Off(NamedTuple):
    """A rule or a family that is off in some files."""

    files: str
    code: str
    reason: str


def config() -> dict[str, Any]:
    """Return the settings for ruff's rules."""
    found: dict[str, Any] = tomllib.loads(RULES.read_text())["lint"]
    return found


def off_in(text: str) -> Iterator[Off]:
    """Yield what is off, one entry a line, with what the comment in that line says."""
    files = ""
    for line in text.splitlines():
        if opened := _LIST.match(line):
            files = opened[1].strip('"')
        elif line == "]":
            files = ""
        elif alone := _LINE.match(line):
            yield Off(alone[1].strip('"'), alone[2], alone[3] or "")
        elif files and (entry := _ENTRY.match(line)):
            yield Off(files, entry[1], entry[2] or "")


@cache
def off() -> tuple[Off, ...]:
    """Return what is off here."""
    return tuple(off_in(RULES.read_text()))


def test_all_rules_are_on() -> None:
    """A new version of ruff brings its new rules along; at most 30 rules or families are off everywhere."""
    assert config()["select"] == ["ALL"], "ruff.toml: expected all rules; turn single ones off in `ignore`"
    count = len(config()["ignore"])
    assert count <= IGNORED_MAX, f"ruff.toml: expected at most {IGNORED_MAX} entries in `ignore`, got {count}"


def test_each_rule_that_is_off_says_why() -> None:
    """Each stands in a line of its own, with a comment about this code, or is off as another that says why."""
    known = {(GLOBAL, code) for code in config()["ignore"]}
    known |= {(files, code) for files, codes in config()["per-file-ignores"].items() for code in codes}
    missing = known - {(one.files, one.code) for one in off()}
    assert not missing, f"ruff.toml: expected each rule in a line of its own: {sorted(missing)}"
    bare = [one.code for one in off() if not is_explained(one, off())]
    assert not bare, f'ruff.toml: expected a reason, as in `"CODE",  # why it is off here`, for {bare}'


def is_explained(one: Off, others: Iterable[Off]) -> bool:
    """Whether it has a reason: a sentence, or the code of another that has one."""
    if named := re.fullmatch(rf"as `({CODE})`", one.reason):
        return any((other.files, other.code) == (one.files, named[1]) and other != one for other in others)
    return len(one.reason.split()) > 2


def found_by(codes: Iterable[str]) -> set[tuple[str, str]]:
    """Return files and rules of what ruff would find if nothing was off."""
    command = [sys.executable, "-m", "ruff", "check", "--output-format", "concise", "--exit-zero"]
    options = ["--select", ",".join(codes), "--config", "lint.per-file-ignores = {}"]
    lines = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {(match[1], match[2]) for line in lines.splitlines() if (match := _FOUND.match(line))}


def is_in(path: str, files: str) -> bool:
    """Whether a pattern of ruff's matches the path of a file."""
    files = files.removeprefix("../")
    if "{" not in files:
        return files == GLOBAL or fnmatch(path, files)
    before, _, rest = files.partition("{")
    names, _, after = rest.partition("}")
    return any(fnmatch(path, before + name + after) for name in names.split(","))


def needless(offs: Sequence[Off], found: set[tuple[str, str]]) -> list[Off]:
    """Return what is off although its rule finds nothing, or nothing that is not off everywhere."""
    everywhere = tuple(one.code for one in offs if one.files == GLOBAL)
    here = {(path, code) for path, code in found if not code.startswith(everywhere)}
    return [
        one
        for one in offs
        if not any(
            code.startswith(one.code) and is_in(path, one.files)
            for path, code in (found if one.files == GLOBAL else here)
        )
    ]


def test_what_is_off_is_needed() -> None:
    """A rule that finds nothing any more is on again: take its line out of .ci/ruff.toml."""
    found = [f"{one.code} ({one.files})" for one in needless(off(), found_by({one.code for one in off()}))]
    assert not found, f"ruff.toml: expected rules that find something; take these out: {', '.join(found)}"


def unexplained(text: str) -> list[str]:
    """Return the comments that switch rules off in a line or a file without a code, or without a reason."""
    return [
        found[0]
        for line in text.splitlines()
        if (found := _NOQA.search(line)) and '"' not in found[0] and not _EXPLAINED.fullmatch(found[0])
    ]


def modules() -> list[Path]:
    """Return all modules of the repository."""
    command = [sys.executable, "-m", "ruff", "check", "--show-files"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [Path(line) for line in lines if line.endswith(".py")]


def test_each_exception_in_a_line_says_why() -> None:
    """A `noqa` is written as `# noqa: CODE - why this line is an exception`."""
    paths = modules()
    assert len(paths) > 1000
    found = [f"{path.relative_to(ROOT)}: {one}" for path in paths for one in unexplained(path.read_text())]
    assert not found, "\n".join([*found, "expected `# noqa: CODE - why this line is an exception`"])


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("x = 1  # noqa: E731 - it is short", 0),
        ("x = 1  # noqa: E731, B008 - it is short", 0),
        ("x = 1  # noqa", 1),
        ("x = 1  # noqa: E731", 1),
        ("x = 1  # noqa: E731 (it is short)", 1),
        ("# ruff: noqa: E731", 1),
        ("x = 1  # why", 0),
    ],
)
def test_what_is_an_unexplained_exception(line: str, count: int) -> None:
    """It has no code, no reason, or is for the whole file."""
    assert len(unexplained(line)) == count


def test_what_is_an_unexplained_rule() -> None:
    """It has no reason, or refers to a rule that is on."""
    text = """ignore = [
  "A001",  # these are the words of messages
  "A002",  # as `A001`
  "B",
  "C",  # as `D1`
]
"{a,b}/**" = ["S101"]  # they make their own checks
"""
    given = list(off_in(text))
    assert [one.code for one in given] == ["A001", "A002", "B", "C", "S101"]
    assert [one.code for one in given if not is_explained(one, given)] == ["B", "C"]
    assert needless(given, {("b/c.py", "S101"), ("d.py", "A001"), ("d.py", "A002"), ("d.py", "B9")}) == [
        given[3]
    ]
    assert needless(given[4:], {("d.py", "S101")}) == given[4:]
