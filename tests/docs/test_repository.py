"""The root directory is small and explained, and what CONTRIBUTING.md tells people to type works."""

import importlib.util
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import rows_of

ROOT = Path(__file__).parents[2]
GUIDE = ".github/CONTRIBUTING.md"
PAGE = ROOT / GUIDE
ROOT_ENTRIES_MAX = 24
RECIPES_MAX = 20
LINES_MAX = 200
"""Of pyproject.toml and of CONTRIBUTING.md: a page that nobody reads to its end helps nobody."""

RUN = frozenset({"python -m tests.docs.prose docs/kafka.md fanout", "python -m tests.simulation 17"})
"""Commands that a test can afford to run. The others change files, need the network, or take minutes."""


def root_entries() -> set[str]:
    """Return the names of files and directories that Git has in the root."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name.partition("/")[0] for name in done.stdout.split("\0") if name}


def commands() -> list[str]:
    """Return the commands of CONTRIBUTING.md: of its blocks, and those within its text."""
    text = PAGE.read_text()
    found = [
        line for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL) for line in block.splitlines()
    ]
    found = [line.removeprefix("$ ").partition("  #")[0] for line in found if line.startswith("$ ")]
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    spans = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]
    found += [span for span in spans if re.match(r"(make|npm|python -m|\.venv/bin/\S+) ", span + " ")]
    return sorted({one.strip().removeprefix(".venv/bin/") for line in found for one in line.split("&&")})


def problem(command: str) -> str:
    """Return why a command can't work, which is that something that it names is not there; nothing if it can."""
    match shlex.split(command):
        case ["make", *words]:
            return _failure("make", "-n", *words)
        case ["uv", *words]:
            return _failure(sys.executable, "-m", "uv", *words, "--help")
        case ["python", "-m", module, *words]:
            return _problem_of_module(module, [word for word in words if word.startswith("-")])
        case ["npm", "run", script]:
            package = json.loads((ROOT / "clients" / "typescript" / "package.json").read_text())
            return "" if script in package["scripts"] else f"no script {script}"
        case ["npm", "ci" | "pack"]:
            return ""
    return "no program that this test knows"


def _failure(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else ""


def _problem_of_module(module: str, options: list[str]) -> str:
    found = importlib.util.find_spec(module)
    if found is not None and found.submodule_search_locations is not None:
        found = importlib.util.find_spec(f"{module}.__main__")
    if found is None or found.origin is None:
        return f"no module {module}"
    missing = [option for option in options if option not in Path(found.origin).read_text()]
    return f"{module} has no {', '.join(missing)}" if missing else ""


def test_the_root_is_small() -> None:
    """A newcomer sees all of it at once: put a new file into a directory that is there."""
    entries = root_entries()
    assert len(entries) <= ROOT_ENTRIES_MAX, sorted(entries)


def test_each_entry_of_the_root_is_explained() -> None:
    """In the table of packages, which names nothing that is not there."""
    rows = rows_of(GUIDE, "entry", "what it contains, from the top level down")
    named = [name for row in rows for name in re.findall(r"[\w./-]+", row[0])]
    assert {name.partition("/")[0] for name in named} == root_entries()


def test_make_lists_few_commands() -> None:
    """They fit on one screen: what only another one needs is no command."""
    listed = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert 0 < len(listed) <= RECIPES_MAX, listed


@pytest.mark.parametrize("name", [GUIDE, "pyproject.toml"])
def test_it_is_short(name: str) -> None:
    """It can be read to its end."""
    assert len((ROOT / name).read_text().splitlines()) <= LINES_MAX


@pytest.mark.needs("make")
@pytest.mark.parametrize("command", commands())
def test_a_command_works(command: str) -> None:
    """It runs, or what it names is there."""
    assert problem(command) == ""
    if command in RUN:
        words = shlex.split(command.replace("python", shlex.quote(sys.executable), 1))
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_has_commands() -> None:
    """Of each kind, so that the test above tests something."""
    assert len(commands()) >= 18
    assert set(commands()) >= RUN
    assert {shlex.split(one)[0] for one in commands()} == {"make", "python", "npm", "uv"}


@pytest.mark.needs("make")
@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("make tets", "No rule to make target"),
        ("python -m tests.no_such", "no module tests.no_such"),
        ("python -m tests.vendored --erase", "tests.vendored has no --erase"),
        ("npm run consoles", "no script consoles"),
        ("uv locks", "unrecognized subcommand"),
        ("cargo build", "no program that this test knows"),
    ],
)
def test_a_command_that_can_not_work(command: str, why: str) -> None:
    """What it names is not there."""
    assert why in problem(command)
