"""Tests name the tools that they need; what is missing is reported at the start, and can be installed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tools

ROOT = Path(__file__).parents[2]
NEEDS_PROMTOOL = "tests/docs/test_monitoring.py::test_alerts_fire_when_they_should"

# What the installers are played by: each call is written down, and what it would have installed is there afterwards.
APT_GET = """#!/bin/sh
case "$*" in *"$FAILS"*) [ -n "$FAILS" ] && exit 100;; esac
echo "apt-get $*" >> "$LOG"
program() { printf '#!/bin/sh\n%s\n' "$2" > "$BIN/$1"; chmod +x "$BIN/$1"; }
for last; do :; done
case "$*" in
    download*) touch prometheus_1.deb;;
    *default-jdk-headless) program java 'if [ "$1" = -version ]; then echo "version \\"17.0.1\\""; fi
echo jdk.compiler@17';;
    install*) program "$last";;
esac
"""
GO = """#!/bin/sh
echo "go $*" >> "$LOG"; name="${2##*/}"
mkdir -p "$GOBIN"; cp "$0" "$GOBIN/${name%@*}"
"""
DPKG_DEB = '#!/bin/sh\nmkdir -p "$3/usr/bin"; cp "$0" "$3/usr/bin/promtool"\n'
SUDO = '#!/bin/sh\nexec "$@"\n'


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine that has none of the tools, but Go and a Debian's installers."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, script in {"apt-get": APT_GET, "dpkg-deb": DPKG_DEB, "go": GO, "sudo": SUDO}.items():
        (programs / name).write_text(script)
        (programs / name).chmod(0o755)
    for name in ("env", "touch", "mkdir", "cp", "chmod"):
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    given = {"PATH": programs, "BIN": programs, "LOG": tmp_path / "log", "XDG_CACHE_HOME": tmp_path / "cache"}
    return {name: str(path) for name, path in given.items()} | {
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
    }


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module of Python in the root of the clone."""
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_all_tools_are_installed(bare: dict[str, str]) -> None:
    """Each with what it comes from; a second run has nothing to do."""
    done = run(bare, "tests.tools")
    assert done.returncode == 0, done.stdout + done.stderr
    calls = Path(bare["LOG"]).read_text().splitlines()
    assert [" ".join(word for word in call.split() if not word.startswith("-")) for call in calls] == [
        "apt-get update",
        *(f"apt-get install {name}" for name in ("make", "curl", "kcat", "openssl", "chromium")),
        "apt-get install default-jdk-headless",
        "go install helm.sh/helm/v3/cmd/helm@v3.22.0",
        "go install github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0",
        "apt-get download prometheus",
    ]
    again = run(bare, "tests.tools").stdout.splitlines()
    assert [line for line in again if not re.search("can't install (mount|cargo|node)", line)] == [
        "test-tools: everything is there that can be installed"
    ]


def test_what_could_not_be_installed_is_named(bare: dict[str, str]) -> None:
    """With what to do by hand; all others are installed, and the exit code is 1."""
    done = run(bare | {"FAILS": "kcat"}, "tests.tools")
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if "could not install" in line]
    assert line.startswith("test-tools: could not install kcat: ")
    assert line.endswith("; install by hand: the package kcat")
    assert (Path(bare["BIN"]) / "chromium").exists()


def test_without_an_installer(bare: dict[str, str]) -> None:
    """A machine that is no Debian gets a list of what to install by hand."""
    for name in ("apt-get", "go"):
        (Path(bare["BIN"]) / name).unlink()
    done = run(bare, "tests.tools")
    assert done.returncode == 1
    named = re.findall(r"could not install (\w+): .*; install by hand: ", done.stdout)
    assert named == [name for name, tool in tools.TOOLS.items() if tool.install is not None]
    assert "test-tools: can't install go (helm, kubeconform and schemas): Go 1.26 or newer" in done.stdout


def test_a_tool_that_is_not_found_afterwards(bare: dict[str, str]) -> None:
    """An installer that ends well has installed nothing, for all that."""
    (Path(bare["BIN"]) / "apt-get").write_text("#!/bin/sh\n")
    done = run(bare, "tests.tools")
    assert "could not install kcat: it was installed, but is not found;" in done.stdout
    assert done.returncode == 1


def test_the_report_counts_tests() -> None:
    """All that lack something, and for each tool those that lack it."""
    assert tools.report([[], ["go", "helm"], ["helm"], ["mount"]]) == [
        "tests that lack a tool: 3, left out: go (1), helm (2), mount (1); `make test-tools` installs them"
    ]
    assert tools.report([["mount"], []]) == ["tests that lack a tool: 1, left out: mount (1)"]
    assert tools.report([[], []]) == []


def test_only_known_tools_can_be_named() -> None:
    """A mark that names another tool is an error, not a test that always runs."""
    with pytest.raises(ValueError, match=r"expected tools that tests/tools.py knows, got kcta"):
        tools.missing(["helm", "kcta"])


@pytest.mark.parametrize("name", tools.TOOLS)
def test_every_tool_is_needed(name: str) -> None:
    """Some test names it."""
    others = (
        path for path in (ROOT / "tests").rglob("*.py") if path.name not in ("tools.py", "test_tools.py")
    )
    assert any(f'"{name}"' in path.read_text() for path in others)


@pytest.mark.parametrize(("processes", "ci"), [("0", {"CI": "true"}), ("1", {})], ids=["ci", "processes"])
def test_pytest_reports_at_its_start(processes: str, ci: dict[str, str], bare: dict[str, str]) -> None:
    """Before the first test, also where other processes run them. In CI what can be installed must be there."""
    done = run(bare | ci, "pytest", "-n", processes, "-p", "no:cacheprovider", NEEDS_PROMTOOL)
    report = "tests that lack a tool: 1, left out: promtool (1); `make test-tools` installs them"
    lines = done.stdout.splitlines()
    (last,) = [number for number, line in enumerate(lines) if line.endswith("[100%]")]
    assert report in lines[:last]
    assert "needs promtool: promtool, a part of Prometheus" in done.stdout
    assert ("1 error" in lines[-1], "1 skipped" in lines[-1]) == (bool(ci), not ci)
    assert done.returncode == len(ci)


def test_own_tools_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They are looked for behind what PATH has, and their directory is added once."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/bin")
    for _ in range(2):
        tools.extend_path()
        assert os.environ["PATH"] == f"/bin:{tmp_path}/sowline/go-bin"
