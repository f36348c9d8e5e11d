"""`pipeline validate` compares a file with the running system, and shows what its first rows would become."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from sowline.client.client import Client
from sowline_ingest.__main__ import main
from tests.integration.services import system

PAGE = Path(__file__).parents[2] / "docs" / "pipeline-file.md"


class Target(NamedTuple):
    """A running system with one topic, and a directory with rows for it."""

    topic: str
    environment: dict[str, str]
    rows: Path


@pytest.fixture(scope="module")
def target(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A topic with one record, and three rows: one that is right, one that fails its check, and one without a key."""
    name, directory = f"t{uuid.uuid4().hex[:12]}", tmp_path_factory.mktemp("validate")
    topics = [{"name": name, "key": "/id", "partitions": 2}]
    with system(kafka, directory, topics) as made:
        services = [made.service(one).start() for one in ("materializer", "query_service")]
        for service in services:
            service.wait_ready()
        with Client(services[1].url, kafka=kafka) as client:
            client.publish(name, {"id": 1, "status": "open"}, wait=True)
        rows = directory / "in"
        rows.mkdir()
        lines = [{"id": 2, "stattus": "open"}, {"id": 3}, {"stattus": "x"}]
        (rows / "a.json").write_text("".join(json.dumps(line) + "\n" for line in lines) + "{\n")
        yield Target(name, {"SOWLINE_CONFIG": str(made.config), "SOWLINE_URL": services[1].url}, rows)


def write_file(target: Target, tmp_path: Path, fields: Mapping[str, str]) -> Path:
    """Write the file of a pipeline with these fields."""
    lines = {
        "name": "load",
        "topic": target.topic,
        "key": "id",
        "checkpoint": f"{tmp_path}/checkpoint",
        "sources": f"{{lines: {{directory: {target.rows}, format: json, schema: 'id INT, stattus STRING'}}}}",
        "checks": "[{expect: stattus IS NOT NULL, message: no status}]",
        **fields,
    }
    file = tmp_path / "load.yaml"
    file.write_text("".join(f"{name}: {text}\n" for name, text in lines.items()))
    return file


def validated(target: Target, tmp_path: Path, **fields: str) -> subprocess.CompletedProcess[str]:
    """Validate a pipeline with these fields, in a process of its own."""
    file = write_file(target, tmp_path, fields)
    command = [sys.executable, "-m", "sowline", "pipeline", "validate", file.name]
    environment = {**os.environ, **target.environment}
    return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=120)


@pytest.mark.long
def test_a_sample_of_the_rows(target: Target, tmp_path: Path) -> None:
    """Rows are counted by what they would become, with a message for each reason, and a note about a field."""
    done = validated(target, tmp_path)
    shown = PAGE.read_text().partition("$ sowline pipeline validate load.yaml\n")[2].partition("\n```")[0]
    using, *lines = shown.splitlines()
    assert using.startswith("sowline: using ")
    assert done.stdout.splitlines() == lines
    assert done.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["load.yaml"]


def test_a_problem_is_one_line(target: Target, tmp_path: Path) -> None:
    """With the line of the file, and without a stack trace, also where Spark finds it."""
    done = validated(target, tmp_path, transforms='[{where: "condition = 1"}]')
    assert (done.returncode, done.stdout) == (1, "")
    # Java itself prints these.
    notes = ("Picked up ", "WARNING: Using incubator modules")
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith(notes)]
    problem = "A column, variable, or function parameter with name `condition`"
    assert line.startswith(f"load.yaml, line 7: transforms.0.where: {problem}")


@pytest.mark.parametrize(
    ("fields", "options", "code", "output"),
    [
        ({"topic": "ordrs"}, [], 1, "load.yaml, line 2: topic: expected a topic of"),
        ({"key": "stattus"}, [], 1, "load.yaml, line 3: key: expected the key of the topic in"),
        ({"topic": "ordrs"}, ["--offline"], 0, "load.yaml: ok\n"),
    ],
)
@pytest.mark.usefixtures("spark")
def test_the_system_is_asked_but_with_offline(
    target: Target,
    kafka: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fields: dict[str, str],
    options: list[str],
    code: int,
    output: str,
) -> None:
    """For its topics and their keys; these runs share the session of the tests."""
    monkeypatch.chdir(tmp_path)
    for name, value in {**target.environment, "SOWLINE_KAFKA": kafka}.items():
        monkeypatch.setenv(name, value)
    file = write_file(target, tmp_path, fields)
    done = CliRunner().invoke(main, ["validate", file.name, *options], catch_exceptions=False)
    assert (done.exit_code, len(done.output.splitlines())) == (code, 1)
    assert done.output.startswith(output)
