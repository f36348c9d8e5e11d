"""What is installed: names, dependencies, and what runs without the packages of the services.

`tests/distribution/` installs it, into environments that have nothing else.
"""

import importlib.metadata
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from sowline import __version__
from sowline.runtime.programs import SERVER, Program

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({SERVER!r}));"
"""The begin of a program that can't import the packages of the services."""
NO_SERVER = (
    f"no server: expected the packages of the services, but {', '.join(SERVER)} can't be imported: install them"
    " with pip install 'sowline[server]', or in a clone pip install '.[server]'\n"
)
SERVICES = (
    Program.MATERIALIZER,
    Program.QUERY_SERVICE,
    Program.GATEWAY,
    Program.FANOUT,
    Program.VIEWS,
)
READING = ("topics", "sow", "subscribe", "sow-and-subscribe", "timeline", "explain", "types", "top")


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program that can't import the packages of the services."""
    command = [sys.executable, "-c", WITHOUT + program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_only_names_of_ours_are_installed() -> None:
    """A package `views` or `gateway` would hide a user's own, or be hidden by it."""
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert len(packages) > 5
    assert all(Path(package).name.startswith("sowline") for package in packages)
    assert all((ROOT / package / "py.typed").exists() for package in packages)


def test_the_native_core_has_types(tmp_path: Path) -> None:
    """Its module is Rust alone: the wheel has a stub, with the names and parameters of the module."""
    pytest.importorskip("sowline_native")
    files = {str(path) for path in importlib.metadata.files("sowline-native") or ()}
    assert {"sowline_native/py.typed", "sowline_native/__init__.pyi"} <= files
    (left := tmp_path / "left").write_text(
        "sowline_native.sowline_native\n"
    )  # the library within the package
    command = [sys.executable, "-m", "mypy.stubtest", "--ignore-disjoint-bases", "--allowlist", str(left)]
    stubs = os.environ | {"MYPYPATH": str(ROOT / "native")}
    done = subprocess.run(
        [*command, "sowline_native"], cwd=tmp_path, env=stubs, capture_output=True, text=True
    )
    assert done.returncode == 0, f"native/sowline_native.pyi: expected the module's names: {done.stdout}"


def test_a_reader_installs_little() -> None:
    """What the client and the command need; the extra `server` has the rest."""
    assert len(PROJECT["project"]["dependencies"]) <= 14


def test_the_client_needs_no_package_of_services() -> None:
    """Each name that `sowline` offers."""
    done = run("import sowline; print(*(getattr(sowline, name) for name in sowline.__all__))")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", READING)
def test_a_command_that_sends_requests_needs_none(name: str) -> None:
    """It reports that no service answers, and nothing else."""
    words = {"topics": (), "top": (), "timeline": ("orders", "1")}.get(name, ("orders",))
    program = f"from sowline.cli import main; main([{name!r}, *sys.argv[1:], '--url', 'http://127.0.0.1:1'])"
    done = run(program, *words)
    assert done.returncode == (0 if name == "top" else 1)
    assert "127.0.0.1:1" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "name", ["up", "materializer", "query-service", "gateway", "views", "fanout", "dump"]
)
def test_a_service_without_its_packages(name: str, tmp_path: Path) -> None:
    """One sentence has the command that installs them, and the exit code is that of wrong usage."""
    config = tmp_path / "topics.yaml"
    config.write_text("topics: [{name: orders, key: /id}]")
    words = ["orders"] if name == "dump" else ["--config", str(config)]
    done = run(f"from sowline.cli import main; main([{name!r}, *sys.argv[1:]])", *words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", NO_SERVER)


@pytest.mark.parametrize(
    "words",
    [*([program] for program in SERVICES), [Program.MATERIALIZER, "dump", "orders"]],
    ids="-".join,
)
def test_a_program_without_its_packages(words: list[str]) -> None:
    """It ends with the same sentence as its command."""
    done = run("import runpy; runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)", *words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", NO_SERVER)


@pytest.mark.parametrize("program", [Program.MATERIALIZER, Program.VIEWS])
def test_a_directory_with_names_of_ours(program: Program, tmp_path: Path) -> None:
    """A service that starts in a user's directory imports nothing of it."""
    for name in ("views.py", "gateway/__init__.py", "sowline/__init__.py", "structlog.py", f"{program}.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("raise SystemExit('the module of the user runs')")
    done = subprocess.run(
        program.command(),
        cwd=tmp_path,
        env={"SOWLINE_CONFIG": "nowhere.yaml", "SOWLINE_LOG": "json"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "nowhere.yaml" in done.stdout + done.stderr
    assert "of the user" not in done.stdout + done.stderr


def test_all_packages_are_of_one_version() -> None:
    """A release has one version: of Python's distributions, the npm package, the chart and the code."""
    native = tomllib.loads((ROOT / "native" / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((ROOT / "helm" / "sowline" / "Chart.yaml").read_text())
    npm = json.loads((ROOT / "clients" / "typescript" / "package.json").read_text())
    cargo = tomllib.loads((ROOT / "native" / "Cargo.toml").read_text())["package"]
    found = {one["version"] for one in (PROJECT["project"], native, chart, npm, cargo)}
    assert found == {__version__}
    assert PROJECT["project"]["optional-dependencies"]["native"] == [f"sowline-native=={__version__}"]


@pytest.mark.needs("make")
@pytest.mark.parametrize(("native", "wheel"), [("yes", True), ("no", False)])
def test_what_a_release_builds(native: str, wheel: bool, tmp_path: Path) -> None:
    """Each kind of package has a directory; without Rust there is no native wheel."""
    command = ["make", "-n", "packages", f"OUT={tmp_path}", f"NATIVE={native}"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for kind in ("python", "npm", "chart", "sbom"):
        assert f"{tmp_path}/{kind}" in shown.replace('"', "")
    assert ("--wheel native" in shown) is wheel
    assert "--sdist native" in shown
