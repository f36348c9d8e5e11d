"""What the console shows as the changes between two schemas, computed by its own module in Node."""

import json
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import pytest

from tests.clients.typescript import ROOT, run

pytestmark = pytest.mark.needs("node")

MODULE = ROOT / "sowline" / "serving" / "console" / "changes.js"
PROGRAM = """
import * as module from %s;
console.log(JSON.stringify(%s.map((given) => module.%s(...given))));
"""


@lru_cache(None)
def common(before: str, after: str) -> int:
    """Return the length of the longest common subsequence."""
    if not before or not after:
        return 0
    if before[0] == after[0]:
        return 1 + common(before[1:], after[1:])
    return max(common(before[1:], after), common(before, after[1:]))


Lines = list[list[str]]


def asked(function: str, cases: Sequence[Sequence[Any]]) -> list[Lines]:
    """Return what a function of the module answers, for each list of arguments."""
    program = PROGRAM % (json.dumps(MODULE.as_uri()), json.dumps(cases), function)
    found: list[Lines] = json.loads(run("node", "--input-type=module", "--eval", program, cwd=ROOT))
    return found


def changes(cases: list[tuple[str, str]]) -> list[Lines]:
    """Return the marked lines of each pair of texts; each character is a line."""
    return asked("lineChanges", [(list(before), list(after)) for before, after in cases])


def test_changes_are_exact_and_least() -> None:
    """Of all pairs of short texts: both can be read from the marked lines, and no common line is shown as changed."""
    texts = ["".join(text) for length in range(5) for text in product("ab", repeat=length)]
    cases = [*product(texts, texts), ("abcdef", "xbcyf"), ("aXbYc", "aYbXc")]
    for (before, after), lines in zip(cases, changes(cases), strict=True):
        assert "".join(line for mark, line in lines if mark != "+") == before
        assert "".join(line for mark, line in lines if mark != "-") == after
        assert sum(mark == " " for mark, _ in lines) == common(before, after)


def test_texts_that_are_too_large_to_compare() -> None:
    """All the old lines come before all the new ones, between what both begin and end with."""
    before, after = f"{'a' * 3000}b", f"a{'c' * 3000}b"
    (lines,) = changes([(before, after)])
    assert lines == [[" ", "a"], *[["-", "a"]] * 2999, *[["+", "c"]] * 3000, [" ", "b"]]


def test_only_lines_near_changes_are_shown() -> None:
    """One mark stands for all lines between two changes, and before the first and after the last."""
    lines = [[mark, str(number)] for number, mark in enumerate("    +  - --     ")]
    same = [" ", "a"]
    (shown, none, few) = asked("nearChanges", [(lines, 1), ([same] * 9, 3), ([same, ["-", "b"]], 3)])
    assert [mark for mark, _ in shown] == ["…", " ", "+", " ", " ", "-", " ", "-", "-", " ", "…"]
    assert [line for _, line in shown] == ["", "3", "4", "5", "6", "7", "8", "9", "10", "11", ""]
    assert none == [["…", ""]]
    assert few == [same, ["-", "b"]]
