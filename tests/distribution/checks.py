"""What a release publishes, as users install it: each package in environments that had nothing.

`make test-all` runs this, and so does the release itself, on what it is about to publish (in PACKAGES).
What packages depend on comes from the index that pip uses. It takes minutes, so `make test` has
`tests/unit/test_distribution.py` alone.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sowline import __version__
from tests.distribution.newcomer import PAGE, Newcomer, follow
from tests.docs.pages import blocks_of
from tests.docs.terminal import commands_of

pytestmark = pytest.mark.timeout(420)

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


BROWSER = """
import { connect } from "sowline";
import { WebSocket } from "ws";
const client = connect(process.argv[2], { WebSocket });
await client.opened;
console.log((await client.publish("orders", { id: 3, status: "open" })).outcome);
await client.close();
"""


class Environment:
    """A new environment of Python in which only Sowline is installed, and what it asks for."""

    def __init__(self, directory: Path, *requirements: str) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
        self.bin = directory / "bin"
        pip = [sys.executable, "-m", "pip", "--python", str(self.bin / "python"), "install", "--quiet"]
        subprocess.run([*pip, *requirements], cwd=directory, check=True)
        self.packages = next(directory.glob("lib/python*/site-packages"))

    def command(self, program: str, *arguments: object) -> list[str]:
        """Return a command of the environment."""
        return [str(self.bin / program), *map(str, arguments)]

    def run(self, program: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment to its end."""
        return subprocess.run(self.command(program, *arguments), capture_output=True, text=True, **options)


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make packages` builds: the directory that PACKAGES names has it already."""
    if given := os.environ.get("PACKAGES"):
        return (ROOT / given).resolve()
    made = tmp_path_factory.mktemp("packages")
    subprocess.run(["make", "packages", f"OUT={made}"], cwd=ROOT, check=True)
    return made


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that git knows."""
    made = tmp_path_factory.mktemp("clone")
    archive = made.with_suffix(".tar")
    subprocess.run(["git", "archive", "-o", archive, "HEAD"], cwd=ROOT, check=True)
    with tarfile.open(archive) as files:
        files.extractall(made, filter="data")
    return made


CLONE, NPM_PACKAGE = (f"tests/distribution/checks.py::test_the_{name}" for name in ("clone", "npm_package"))


def commands_for(page: str, test: str) -> list[str]:
    """Return the commands of each block of a page that a test here runs."""
    blocks = [block.text for block in blocks_of(page) if block.elsewhere == test]
    return ["\n".join(command.text for command in commands_of(text)) for text in blocks]


def one_of(directory: Path, pattern: str) -> Path:
    """Return the one file that matches."""
    (found,) = directory.glob(pattern)
    return found


SOURCES = {"wheel": "sowline-*.whl", "sdist": "sowline-*.tar.gz"}


@pytest.fixture(scope="module", params=[*SOURCES, "directory"])
def source(request: pytest.FixtureRequest, packages: Path, clone: Path) -> Path:
    """What is installed."""
    pattern = SOURCES.get(request.param)
    return clone if pattern is None else one_of(packages / "python", pattern)


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


def test_each_package_has_types(packages: Path) -> None:
    """Without `py.typed`, type checkers of users take all that a package has as unknown."""
    wheels = [zipfile.Path(wheel) for wheel in (packages / "python").glob("*.whl")]
    found = [path for wheel in wheels for path in wheel.iterdir() if path.is_dir()]
    modules = [path for path in found if not path.name.endswith((".dist-info", ".libs"))]
    assert len(modules) >= 7
    assert [path.name for path in modules if not (path / "py.typed").exists()] == []
    native = [path for path in modules if path.name == "sowline_native"]
    assert all((path / "__init__.pyi").exists() for path in native)


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


@pytest.fixture(scope="module")
def released(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment of services with the native core, both of which pip finds by their names."""
    found = ("--find-links", str(packages / "python"), f"sowline[server,native]=={__version__}")
    return Environment(tmp_path_factory.mktemp("released"), *found)


def test_the_tutorial(released: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader who follows it literally sees what it shows; nothing of the clone or of this user is there.

    Only Kafka's jars are those of this user's cache: another test fetches them into an empty one.
    """
    home, cache = tmp_path / "home", Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home.mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    variables = {"HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "SOWLINE_CORE": "native"}
    variables["XDG_CACHE_HOME"] = str(cache)
    newcomer = Newcomer(released.bin, variables)
    with contextlib.ExitStack() as ending:
        ending.callback(newcomer.stop)
        ending.callback(newcomer.close)
        assert follow(newcomer) > 15, PAGE


def test_kafka_without_spark(released: Environment, tmp_path: Path) -> None:
    """An environment without PySpark fetches what a local Kafka needs, into an empty cache."""
    assert not list(released.packages.glob("pyspark*"))
    given = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    program = "from sowline.runtime.jars import kafka_jars; print(len(kafka_jars()))"
    done = released.run("python", "-c", program, env=given)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30


def test_the_native_sdist(packages: Path, tmp_path: Path) -> None:
    """Where there is no wheel, pip builds the native core, which then runs."""
    built = Environment(tmp_path, str(one_of(packages / "python", "sowline_native-*.tar.gz")))
    assert built.run("python", "-c", "import sowline_native").returncode == 0


@pytest.mark.needs("node")
def test_the_npm_package(released: Environment, packages: Path, tmp_path: Path) -> None:
    """In an empty project, it writes to the services of the same release."""
    package = str(one_of(packages / "npm", "*.tgz"))
    (install,) = {
        text for page in ("docs/install.md", "docs/typescript.md") for text in commands_for(page, NPM_PACKAGE)
    }
    for command in (
        install.replace(f"../sowline/clients/typescript/sowline-{__version__}.tgz", package),
        "npm install ws@8",
    ):
        subprocess.run(["sh", "-ec", command], cwd=tmp_path, check=True)
    assert (tmp_path / "node_modules" / "sowline" / "dist" / "index.js").exists()
    (tmp_path / "write.mjs").write_text(BROWSER)
    with stack(released, tmp_path) as system:
        done = subprocess.run(
            ["node", "write.mjs", system["url"]], cwd=tmp_path, capture_output=True, text=True
        )
        assert (done.returncode, done.stdout) == (0, "applied\n"), done.stderr


@pytest.mark.needs("helm")
def test_the_chart(packages: Path) -> None:
    """The package renders with the least that must be given."""
    chart = one_of(packages / "chart", "*.tgz")
    topics = 'config={"topics": [{"name": "orders", "key": ["/id"]}]}'
    given = ["--set", "kafka.bootstrap=kafka:9092", "--set-json", topics]
    done = subprocess.run(
        ["helm", "template", "sowline", chart, "--kube-version=1.36", *given], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "kind: StatefulSet" in done.stdout


def test_bills_of_materials(packages: Path) -> None:
    """One for each registry; that of Python has each direct dependency."""
    found = {path.name: json.loads(path.read_text()) for path in (packages / "sbom").glob("*.json")}
    assert {one["bomFormat"] for one in found.values()} == {"CycloneDX"}
    named = {component["name"] for component in found["sowline-python.json"]["components"]}
    assert {"httpx2", "rocksdict", "pyspark"} <= named
    assert "sowline-npm.json" in found


def test_the_clone(clone: Path, tmp_path: Path) -> None:
    """The commands of docs/install.md, in their order, in a clone and an empty environment."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    given = os.environ | {"PATH": f"{tmp_path / 'venv' / 'bin'}:{os.environ['PATH']}"}
    blocks = commands_for("docs/install.md", CLONE)
    assert len(blocks) == 3
    assert commands_for("docs/typescript.md", CLONE) == blocks[-1:]
    for lines in blocks:
        done = subprocess.run(["sh", "-ec", lines], cwd=clone, env=given, capture_output=True, text=True)
        assert done.returncode == 0, f"{lines}\n{done.stdout}{done.stderr}"
    assert one_of(clone / "clients" / "typescript", "sowline-*.tgz").stat().st_size > 10_000
    asked = "import sowline_native, uvicorn, sowline_query_service"
    assert subprocess.run(["python", "-c", asked], env=given).returncode == 0


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
