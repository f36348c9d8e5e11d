"""`sowline pipeline`: it hands all that it is given to the pipelines' own command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sowline.cli import main as sowline
from sowline_ingest.__main__ import main

WRONG = "name: a b\ntopic: orders\nsources:\n  raw: {kafka: k, format: json}\nkey: id\ncheckpoint: var\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with two problems, named as a person would."""
    (tmp_path / "my.yaml").write_text(WRONG)
    monkeypatch.chdir(tmp_path)
    return "my.yaml"


def test_a_pipeline_is_another_program(file: str) -> None:
    """Its problems come out as that has printed them, with its exit code."""
    command = [sys.executable, "-m", "sowline", "pipeline", "validate", file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert [line.partition(": expected")[0] for line in done.stderr.splitlines()] == [
        "my.yaml, line 1: name",
        "my.yaml, line 4: sources.raw.schema",
    ]


@pytest.mark.parametrize(
    "given", [["--help"], ["-h"], ["validate", "--", "-x"], ["run", "a", "--once=1"], []]
)
def test_every_argument_is_handed_on(given: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also help, options and what is unknown."""
    seen: list[list[str]] = []
    monkeypatch.setattr(os, "execve", lambda _path, arguments, _environment: seen.append(arguments))
    assert CliRunner().invoke(sowline, ["pipeline", *given]).exit_code == 0
    assert seen == [[sys.executable, "-P", "-m", "sowline_ingest", *given]]


def test_problems_as_json(file: str) -> None:
    """For programs, each with its line, its place and its reason."""
    done = CliRunner().invoke(main, ["validate", file, "--json"])
    problems = json.loads(done.stdout)
    assert done.exit_code == 1
    assert [(one["file"], one["line"], one["where"]) for one in problems] == [
        (file, 1, "name"),
        (file, 4, "sources.raw.schema"),
    ]
    assert problems[0]["reason"].startswith("expected a name of up to 100")


def test_what_a_pipeline_does_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """For programs; without it the same as lines for a person."""
    explanation = {
        "pipeline": "shop",
        "publishers": ["shop/a/<partition>", "shop/b/<partition>"],
        "log": "orders",
        "dead": "orders.dead",
        "checkpoint": "var/shop",
        "rows": {"id": "string", "qty": "bigint"},
    }
    plan = {"plan": "== Physical Plan =="}
    monkeypatch.setattr(
        "sowline_ingest.explain.explain", lambda file, *, with_plan: explanation | (plan if with_plan else {})
    )
    done = CliRunner().invoke(main, ["explain", "any.yaml", "--json"])
    assert json.loads(done.stdout) == explanation
    done = CliRunner().invoke(main, ["explain", "any.yaml", "--plan"])
    assert done.stdout.splitlines() == [
        "pipeline   shop",
        "publisher  shop/a/<partition>, shop/b/<partition>",
        "log        orders",
        "dead       orders.dead",
        "checkpoint var/shop",
        "rows",
        "  id string",
        "  qty bigint",
        "== Physical Plan ==",
    ]


def test_a_missing_file_is_reported_as_missing(file: str) -> None:
    """Like every other failure of a command."""
    done = CliRunner().invoke(main, ["validate", "other.yaml"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("bad configuration: expected the file of a pipeline at other.yaml: ")
