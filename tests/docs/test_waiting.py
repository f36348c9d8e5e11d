"""Tests wait for conditions, end in time, and pass in any order."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import waiting
from tests.docs.test_comments import ROOT
from tests.docs.test_privates import tree_of

WAITING = "tests/waiting.py"
OWN = "tests/docs/test_waiting.py"
SECONDS_MAX = 120

SLEEPERS = {
    "tests/integration/command_line.py": "a program without our modules interrupts its child many times",
}
"""Modules that sleep by themselves, or whose programs do, each with its reason."""

LONGER = {
    "tests/browser/marimo_checks.py": "installs marimo where that has not been done yet",
    "tests/browser/test_landing_page.py": "the demo with Spark, watched in a browser",
    "tests/clients/test_typescript_views.py": "as many steps as the caller wants",
    "tests/distribution/checks.py": "downloads and installs all that a release depends on",
    "tests/models/checks.py": "runs the seeds whose traces it replays",
    "tests/simulation/test_logs.py": "a dozen worlds, one after the other",
    "tests/simulation/test_simulation.py": "waits for the runs of all tests of the module, on all cores",
    "tests/spark/test_cluster.py": "starts a Spark cluster",
    "tests/spark/test_demo.py": "the demo, whose Spark starts and ends",
    "tests/spark/test_docs.py": "a page whose pipelines start Sparks of their own",
    "tests/spark/test_exactly_once.py": "kills Spark again and again",
    "tests/spark/test_flights_pipeline.py": "starts a Spark of its own",
    "tests/spark/test_lake.py": "starts a Spark of its own for each kind of table",
    "tests/unit/sowline/runtime/test_native.py": "compiles all crates where that has not been done yet",
    "tests/upgrades/checks.py": "installs the version before",
    "tests/upgrades/rolling.py": "replaces six processes under load, and back",
}
"""Modules with tests that may take longer than others, each with its reason. Properties have the time to shrink."""

IN_ORDER = {
    "tests/docs/test_pages.py": "all pages read and write the topics of one system",
}
"""Modules whose tests run from the top to the end, each with its reason."""

SHUFFLED = ("tests/unit/sowline/serving/test_query_slots.py", "tests/docs/test_boundaries.py")
"""Of two suites: modules with more tests than could come in the same order by chance."""

OPTIONS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
MODULES = {str(path.relative_to(ROOT)): path for path in sorted((ROOT / "tests").rglob("*.py"))}


SLEEPERS_IN_TYPESCRIPT = {"clients/typescript/test/fakeSocket.ts": "waits until a socket is there"}
"""Modules of the client's tests that set a timer, each with its reason: all others have the clock of a test."""

SLEEP = re.compile(
    r"\b(sleep|setTimeout|setInterval|wait_for_timeout|waitForTimeout)\(|\bEvent\(\)\.wait\(\s*[^)\s]|\bAtomics\.wait\("
)
"""What sleeps in the text of a program, in Python or JavaScript."""


def is_endless(node: ast.AST) -> bool:
    """Whether this waits for an event that no other code has, so that it is never set."""
    match node:
        case ast.Call(func=ast.Attribute(attr="wait", value=ast.Call(func=made))):
            return ast.unparse(made).rpartition(".")[2] in ("Condition", "Event")
    return False


def is_short(node: ast.AST) -> bool:
    """Whether this is a number of seconds below one: nothing that a test waits for comes so soon on every machine."""
    return isinstance(node, ast.Constant) and isinstance(node.value, float) and 0 < node.value < 1


def polled(tree: ast.AST) -> set[int]:
    """Return the lines of waits that are the condition of a loop: it ends with the event, whatever the seconds."""
    loops = (node.test for node in ast.walk(tree) if isinstance(node, ast.While))
    return {inner.lineno for test in loops for inner in ast.walk(test) if isinstance(inner, ast.Call)}


def sleeps(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of a module that sleep, or that are programs which do."""
    conditions = polled(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="wait"), args=args, keywords=named) if (
                any(map(is_short, [*args, *(one.value for one in named)])) and node.lineno not in conditions
            ):
                yield node.lineno
            case ast.Call(
                func=ast.Name(id="sleep" | "wait_for_timeout")
                | ast.Attribute(attr="sleep" | "wait_for_timeout")
            ):
                yield node.lineno
            case ast.ImportFrom(names=names) if any(one.name == "sleep" and one.asname for one in names):
                yield node.lineno
            case ast.Call(args=[first, *_]) if is_endless(node) or is_endless(first):
                yield node.lineno
            case ast.Call(keywords=[_, *_]) if is_endless(node):
                yield node.lineno
            case ast.Constant(value=str(text)) if SLEEP.search(text):
                yield node.lineno


def marks(tree: ast.AST, name: str) -> bool:
    """Whether a module gives a mark to tests."""
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == name)
    return any(ast.unparse(node.value) == "pytest.mark" for node in found)


def test_only_the_helpers_sleep() -> None:
    """All others wait with them: for a condition, for turns of the loop, for a time on the clock."""
    found = {
        name: lines
        for name, path in MODULES.items()
        if name not in (WAITING, OWN) and (lines := [*sleeps(tree_of(path))])
    }
    wrong = [f"{name}:{line}" for name, lines in found.items() if name not in SLEEPERS for line in lines]
    assert not wrong, (
        f"expected no sleep: wait with a helper of {WAITING} (`until`, `loop_turns`…) in\n" + "\n".join(wrong)
    )
    assert found.keys() == SLEEPERS.keys(), "take what does not sleep any more off the list SLEEPERS"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("time.sleep(1)", 1),
        ("async def f():\n    await asyncio.sleep(0)", 1),
        ("sleep(2)", 1),
        ("P = 'import time; time.sleep(60)'", 1),
        ("from time import sleep as nap", 1),
        ("threading.Event().wait(0.5)", 1),
        ("Event().wait(timeout=0.5)", 1),
        ("async def f():\n    await asyncio.wait_for(asyncio.Event().wait(), 1)", 1),
        ("page.wait_for_timeout(1500)", 1),
        ("P = 'await new Promise((done) => setTimeout(done, 5))'", 1),
        ("P = f'while not {path}: threading.Event().wait(0.1)'", 1),
        ("ended.wait(0.5)", 1),
        ("async def f():\n    await asyncio.wait([task], timeout=0.05)", 1),
        ("while not ended.wait(0.5):\n    look()", 0),
        ("ended.wait(5)\nsetTimeout(1)\nP = 'setTimeout'", 0),
        ("async def f():\n    await asyncio.Event().wait()", 0),
        ("patch('time.sleep')\nasleep(1)\nwait_for(x, 'sleep')", 0),
    ],
)
def test_what_is_a_sleep(text: str, found: int) -> None:
    """A call by any of its names, a wait for what can't happen, and both in a program's text; not the name alone."""
    assert len([*sleeps(ast.parse(text))]) == found


def test_only_a_helper_of_the_client_sleeps() -> None:
    """The tests of the TypeScript client have timers of their own, which they move on."""
    paths = (ROOT / "clients/typescript/test").rglob("*.ts*")
    found = {str(path.relative_to(ROOT)) for path in paths if SLEEP.search(path.read_text())}
    assert sorted(found) == sorted(SLEEPERS_IN_TYPESCRIPT)


@pytest.mark.parametrize(("mark", "listed"), [("timeout", LONGER), ("random_order", IN_ORDER)])
def test_exceptions_have_a_reason(mark: str, listed: dict[str, str]) -> None:
    """A module with more time, or with an order, is on a list that says why; no other is."""
    runner = "tests/conftest.py"
    found = {
        name for name, path in MODULES.items() if name not in (runner, OWN) and marks(tree_of(path), mark)
    }
    assert sorted(found) == sorted(listed), (
        f"expected pytest.mark.{mark} in these modules alone, each with a reason"
    )
    assert all(listed.values())


def test_every_test_ends() -> None:
    """Within the limit of all, unless its module says otherwise; a wait ends before, and says for what."""
    assert OPTIONS["timeout"] == SECONDS_MAX
    assert waiting.SECONDS_MAX < SECONDS_MAX


HANGS = """
import threading
import pytest

ENDED = threading.Event()

@pytest.fixture
def hangs():
    yield
    ENDED.wait()

@pytest.mark.timeout(1)
def test_one():
    try:
        ENDED.wait()
    finally:
        ENDED.wait()

@pytest.mark.timeout(1)
def test_two(hangs):
    assert False
"""


@pytest.mark.parametrize(("test", "function"), [("test_one", "test_one"), ("test_two", "hangs")])
def test_no_test_hangs_a_run(tmp_path: Path, test: str, function: str) -> None:
    """If the end of a test that was interrupted hangs, the process ends, and says where each thread was."""
    module = tmp_path / "test_hanging.py"
    module.write_text(HANGS)
    run = (
        "import pytest; from tests import hanging; hanging.GRACE_SECONDS = 1.0;"
        f"pytest.main(['{module}::{test}', '--rootdir', '{tmp_path}', '-p', 'tests.hanging'])"
    )
    done = subprocess.run([sys.executable, "-c", run], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert re.search(rf"test_hanging.py\", line \d+ in {function}", done.stderr), done.stderr


def collected(seed: int) -> tuple[list[str], list[str]]:
    """Return the modules and the tests of a run with a seed, which it prints."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", *SHUFFLED]
    done = subprocess.run([*command, f"--random-order-seed={seed}"], cwd=ROOT, capture_output=True, text=True)
    assert f"Using --random-order-seed={seed}" in done.stdout, done.stdout + done.stderr
    found = {kind: re.findall(rf"<{kind} (.+)>", done.stdout) for kind in ("Module", "Function", "Coroutine")}
    return found["Module"], found["Function"] + found["Coroutine"]


def test_tests_of_a_module_run_in_random_order() -> None:
    """Without an option, in the order that the seed decides; the modules keep theirs."""
    assert "--random-order" in OPTIONS["addopts"].split(), "expected pytest to shuffle in every run"
    modules, tests = collected(1)
    assert modules == [Path(name).name for name in SHUFFLED]
    assert collected(1) == (modules, tests)
    others, shuffled = collected(2)
    assert others == modules
    assert (sorted(shuffled), shuffled == tests) == (sorted(tests), False)
