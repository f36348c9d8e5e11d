"""What `python -m ingest` says of a pipeline's file."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ingest.__main__ import main

WRONG = "name: a b\ntopic: orders\nsources:\n  raw: {kafka: k, format: json}\nkey: id\ncheckpoint: var\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with two problems, named as a person would."""
    (tmp_path / "my.yaml").write_text(WRONG)
    monkeypatch.chdir(tmp_path)
    return "my.yaml"


def test_each_problem_is_a_line(file: str) -> None:
    """On standard error, in the order of the file."""
    done = CliRunner().invoke(main, ["validate", file])
    assert (done.exit_code, done.stdout) == (1, "")
    assert [line.partition(": expected")[0] for line in done.stderr.splitlines()] == [
        "my.yaml, line 1: name",
        "my.yaml, line 4: sources.raw.schema",
    ]


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


def test_a_missing_file_is_said_to_be_missing(file: str) -> None:
    """Like every other failure of a command."""
    done = CliRunner().invoke(main, ["validate", "other.yaml"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("bad configuration: expected the file of a pipeline at other.yaml: ")
