"""The conformance corpus is where the tests look for it, whole, and passed but for what docs/emodb.md lists."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import cases, corpus
from tests.conformance.differences import rules_of
from tests.conformance.run import main

KINDS = {"delta", "condition", "canonical", "parse_error"}
FILES = ("emodb-cases.jsonl", "emodb-sequences.jsonl", "emodb-stream.jsonl")


@pytest.fixture
def directory() -> Path:
    """The corpus, which lies beside the clone or where SOWLINE_CONFORMANCE says."""
    found = corpus()
    if found is None:
        pytest.skip("no conformance corpus beside the clone; SOWLINE_CONFORMANCE names its directory")
    return found


def test_every_case_is_of_a_known_kind_and_has_an_id_of_its_own(directory: Path) -> None:
    """The cases of the corpus are what the tests of the delta language ask."""
    found = list(cases(directory / "emodb-cases.jsonl"))
    assert {case["kind"] for case in found} == KINDS
    assert len({case["id"] for case in found}) == len(found) > 1000


@pytest.mark.parametrize("name", FILES)
def test_every_case_passes_or_is_listed(
    directory: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No case fails that docs/emodb.md doesn't give a reason for."""
    status = main([str(directory / name)])
    assert status == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("case", "rules"),
    [
        ({"kind": "delta", "text": "1", "quirk": ["lenient-number"]}, {"lenient-number"}),
        ({"kind": "stream", "text": "[1] 2", "expect": {"deltas": ["1"]}}, {"text-behind-stream"}),
        ({"kind": "stream", "text": "[1", "expect": {"deltas": [], "error": {}}}, set()),
        ({"kind": "parse_error", "text": "and(+,is(map))"}, {"is-map-is-list"}),
        ({"kind": "condition", "text": "gt(1e400)"}, {"non-finite-number"}),
        ({"kind": "condition", "text": "gt(1.5e100)"}, set()),
    ],
)
def test_a_case_is_about_the_rules_that_it_breaks(case: dict[str, Any], rules: set[str]) -> None:
    """A case without a mark of its own is known by its text."""
    assert rules_of(case) == rules


def test_a_failure_that_is_not_listed_is_reported_by_its_id(tmp_path: Path) -> None:
    """Anyone who runs the corpus sees what failed, and a status that says so."""
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text(
        '{"id":"w1","kind":"delta","input":1,"text":"..","expect":2}\n'
        '{"id":"w2","kind":"unheard of","text":""}\n'
        '{"id":"w3","kind":"condition","input":1,"text":"1","expect":true}\n'
    )
    ran = subprocess.run(
        [sys.executable, "tests/conformance/run.py", str(wrong)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1
    assert [line.split()[:2] for line in ran.stdout.splitlines()[:2]] == [["failed", "w1"], ["failed", "w2"]]
    assert "condition: 1 passed, 0 failed, 0 listed" in ran.stdout


def test_the_variable_comes_before_the_directory_next_to_the_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anyone who keeps the corpus elsewhere says so once."""
    monkeypatch.setenv("SOWLINE_CONFORMANCE", str(tmp_path))
    assert corpus() == tmp_path
    monkeypatch.setenv("SOWLINE_CONFORMANCE", str(tmp_path / "nowhere"))
    assert corpus() is None
