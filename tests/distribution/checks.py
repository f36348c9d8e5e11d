"""The distribution as users install it: a wheel, an sdist and a directory, each in environments that had nothing.

`make test-all` runs this. Packages come from the index that pip uses. It takes minutes, so
`make test` has `tests/unit/test_distribution.py` alone.
"""

import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BASE_BYTES_MAX = 50_000_000
DEPENDENCIES_MAX = 14
TOPICS = """\
topics: [{name: orders, key: [/id]}]
views: [{name: open, from: orders, filter: "/status = 'open'"}]
"""
PIPELINE = """\
name: orders
topic: orders
checkpoint: checkpoint
sources: {drops: {directory: drops, format: csv, header: true, schema: "id BIGINT, status STRING"}}
key: id
"""
ADDED = """
import importlib.metadata, json
ours = importlib.metadata.distribution("sowline")
names = {path.parts[0] for path in ours.files if path.parts[0] not in ("..", ours._path.name)}
print(json.dumps({"names": sorted(names), "requires": ours.requires}))
"""
CLIENT = """
import sys
from sowline import Client
with Client(sys.argv[1]) as client:
    client.publish("orders", {"id": 2, "status": "open"}, wait=True)
    print(sorted(one.data["id"] for one in client.sow("orders") if one.command == "sow"))
    with client.local_view("orders") as view:
        print(sorted(one["id"] for one in view.values()))
"""


class Environment:
    """A new environment of Python in which only Sowline is installed, and what it asks for."""

    def __init__(self, directory: Path, requirement: str) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
        self._bin = directory / "bin"
        pip = [sys.executable, "-m", "pip", "--python", str(self._bin / "python"), "install", "--quiet"]
        subprocess.run([*pip, requirement], cwd=directory, check=True)
        self.packages = next(directory.glob("lib/python*/site-packages"))

    def command(self, program: str, *arguments: object) -> list[str]:
        """Return a command of the environment."""
        return [str(self._bin / program), *map(str, arguments)]

    def run(self, program: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment to its end."""
        return subprocess.run(self.command(program, *arguments), capture_output=True, text=True, **options)


@pytest.fixture(scope="module", params=["wheel", "sdist", "directory"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is installed, made of the files that git knows."""
    made = tmp_path_factory.mktemp(request.param)
    clone, archive = made / "clone", made / "clone.tar"
    subprocess.run(["git", "archive", "-o", archive, "HEAD"], cwd=ROOT, check=True)
    with tarfile.open(archive) as files:
        files.extractall(clone, filter="data")
    if request.param == "directory":
        return clone
    build = Environment(made / "build", "hatchling>=1.27")
    done = build.run("python", "-m", "hatchling", "build", "-t", request.param, "-d", made, cwd=clone)
    assert done.returncode == 0, done.stderr
    (found,) = [path for path in made.glob("sowline-*") if path.is_file()]
    return found


@pytest.fixture(scope="module")
def base(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment of a program that reads and publishes."""
    return Environment(tmp_path_factory.mktemp("base"), str(source))


@pytest.fixture(scope="module")
def server(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment of services."""
    return Environment(tmp_path_factory.mktemp("server"), f"sowline[server] @ {source.as_uri()}")


@contextmanager
def stack(server: Environment, directory: Path) -> Iterator[dict[str, Any]]:
    """Run `sowline up` in a directory that has modules with names of ours; yield where everything is."""
    (directory / "topics.yaml").write_text(TOPICS)
    for name in ("views.py", "gateway/__init__.py"):
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("raise SystemExit('the module of the user runs')")
    command = server.command("sowline", "up", "--port", "0", "--shards", "2")
    process = subprocess.Popen(
        command, cwd=directory, stdout=subprocess.PIPE, text=True, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    lines: list[str] = []
    try:
        for line in process.stdout:
            lines.append(line)
            if line.startswith('{"kafka"'):
                break
        else:
            pytest.fail("".join(lines))
        yield json.loads(line)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def size_of(directory: Path) -> int:
    """Return the bytes of the installed files below a directory, without the bytecode that Python makes of them."""
    return sum(
        path.stat().st_size for path in directory.rglob("*") if path.is_file() and path.suffix != ".pyc"
    )


def test_names_and_size(base: Environment) -> None:
    """Only `sowline` and the packages of its services are ours; the base is small."""
    added = json.loads(base.run("python", "-c", ADDED).stdout)
    assert "sowline" in added["names"]
    assert all(name.startswith("sowline") for name in added["names"])
    required = [one for one in added["requires"] if "extra ==" not in one]
    size = size_of(base.packages)
    print(f"base: {size / 1e6:.1f} MB, {len(required)} direct dependencies, {added['names']}")
    assert len(required) <= DEPENDENCIES_MAX
    assert size <= BASE_BYTES_MAX


def test_a_system(base: Environment, server: Environment, tmp_path: Path) -> None:
    """Services of one environment serve a client and the commands of the other."""
    print(f"server: {size_of(server.packages) / 1e6:.1f} MB")
    (tmp_path / "topics.yaml").write_text(TOPICS)
    refused = base.run("sowline", "up", cwd=tmp_path)
    assert (refused.returncode, refused.stderr.partition(":")[0]) == (2, "no server")
    with stack(server, tmp_path) as system:
        url = ("--url", system["url"])
        publish = base.run("sowline", "publish", "orders", '{"id": 1, "status": "open"}', "--wait", *url)
        assert publish.returncode == 0, publish.stderr
        done = base.run("python", "-c", CLIENT, system["url"], cwd=tmp_path.parent)
        assert (done.returncode, done.stdout) == (0, "[1, 2]\n[1, 2]\n"), done.stderr
        for command in (
            "topics",
            "sow orders",
            "explain orders",
            "timeline orders 1",
            "types orders",
            "top",
        ):
            read = base.run("sowline", *command.split(), *url)
            assert read.returncode == 0, f"{command}: {read.stderr}"
            assert read.stdout


def test_a_pipeline(source: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """`spark-submit` runs one, from an environment with services and Spark."""
    if source.suffix != ".whl":
        return  # What is installed is the same for all three (test_names_and_size), and Spark is 400 MB.
    both = Environment(tmp_path_factory.mktemp("spark"), f"sowline[server,spark] @ {source.as_uri()}")
    with stack(both, tmp_path) as system:
        (tmp_path / "drops").mkdir()
        (tmp_path / "drops" / "a.csv").write_text("id,status\n1,open\n2,gone\n")
        (tmp_path / "orders.yaml").write_text(PIPELINE)
        given = os.environ | {"SOWLINE_KAFKA": system["kafka"]}
        submit = ("pipeline", "submit", "orders.yaml", "--once", "--", "--master", "local[1]")
        done = both.run("sowline", *submit, cwd=tmp_path, env=given)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout.splitlines()[-1])["rows"] == 2, done.stdout
