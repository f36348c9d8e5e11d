"""The tools that tests need beyond what `make set-up` installs: how each is found, and how it is installed.

A test names them, `@pytest.mark.needs("kcat")`. Where one is missing, the test is left out; in CI it fails, if
`python -m tests.tools` (`make test-tools`) can install the tool.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from sowline.errors import SowlineError
from sowline.runtime.jars import cache_directory
from sowline.runtime.java import find_java

NODE_MIN = 20
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


class Tool(NamedTuple):
    """A tool: what it is needed for, whether it is there, and what installs it, if anything can."""

    purpose: str
    is_there: Callable[[], bool]
    install: Callable[[], None] | None
    by_hand: str
    """What a person can do where it can't be installed."""


def own_directory() -> Path:
    """Return where tools are kept that are no Debian packages."""
    return cache_directory() / "go-bin"


def extend_path() -> None:
    """Let tools be found that `make test-tools` has installed; those that are on PATH anyway come first."""
    own, path = str(own_directory()), os.environ.get("PATH", "")
    if own not in path.split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join(filter(None, (path, own)))


def program(*names: str) -> Callable[[], bool]:
    """Return a check that one of these programs is on PATH."""
    return lambda: any(map(shutil.which, names))


@cache
def has_compiler() -> bool:
    """Whether there is a Java that runs source files."""
    try:
        modules = subprocess.run([find_java(), "--list-modules"], capture_output=True, text=True, check=True)
    except SowlineError:
        return False
    return "jdk.compiler@" in modules.stdout


@cache
def has_node() -> bool:
    """Whether there are npm and a Node that the TypeScript client runs on."""
    if not (shutil.which("npm") and shutil.which("node")):
        return False
    version = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout
    return int(version.removeprefix("v").partition(".")[0] or 0) >= NODE_MIN


@cache
def can_mount() -> bool:
    """Whether a disk in memory can be mounted."""
    with tempfile.TemporaryDirectory() as directory:
        mount = ["mount", "-t", "tmpfs", "tmpfs", directory]
        mounted = shutil.which("mount") and subprocess.run(mount, capture_output=True).returncode == 0
        if mounted:
            subprocess.run(["umount", "-l", directory], check=True)
        return bool(mounted)


def as_root(*command: str) -> None:
    """Run a command as root; it must succeed."""
    _run("env", "DEBIAN_FRONTEND=noninteractive", *command, sudo=os.geteuid() != 0)


@cache
def _update_lists() -> None:
    as_root("apt-get", "update", "-qq")


def debian(package: str) -> Callable[[], None]:
    """Return what installs a package of Debian or Ubuntu."""

    def install() -> None:
        _update_lists()
        as_root("apt-get", "install", "-qq", "-y", "--no-install-recommends", package)

    return install


def go_module(module: str) -> Callable[[], None]:
    """Return what builds a program of a Go module."""

    def install() -> None:
        _run("env", f"GOBIN={own_directory()}", "go", "install", module)

    return install


def promtool() -> None:
    """Install it out of Debian's package of Prometheus: the package itself would bring a service."""
    _update_lists()
    with tempfile.TemporaryDirectory() as directory:
        _run("apt-get", "download", "-qq", "prometheus", directory=directory)
        (package,) = map(str, Path(directory).glob("prometheus_*.deb"))
        _run("dpkg-deb", "--extract", package, directory)
        own_directory().mkdir(parents=True, exist_ok=True)
        shutil.copy2(Path(directory, "usr/bin/promtool"), own_directory())


TOOLS = {
    "make": Tool("the commands of the Makefile", program("make"), debian("make"), "the package make"),
    "curl": Tool("examples of pages", program("curl"), debian("curl"), "the package curl"),
    "kcat": Tool("publishing without Sowline", program("kcat"), debian("kcat"), "the package kcat"),
    "openssl": Tool("a Kafka with TLS", program("openssl"), debian("openssl"), "the package openssl"),
    "chromium": Tool("the console", program(*CHROMIUM), debian("chromium"), "Chromium or Chrome"),
    "javac": Tool(
        "publishing from Java",
        has_compiler,
        debian("default-jdk-headless"),
        "a JDK 17 or 21 with its compiler",
    ),
    "node": Tool("the TypeScript client", has_node, None, "Node 20 or newer with npm, by https://nodejs.org"),
    "cargo": Tool("the native core", program("cargo"), None, "Rust 1.88 or newer, by https://rustup.rs"),
    "go": Tool("helm, kubeconform and schemas", program("go"), None, "Go 1.26 or newer"),
    "helm": Tool(
        "the chart", program("helm"), go_module("helm.sh/helm/v3/cmd/helm@v3.22.0"), "Helm 3; it needs Go"
    ),
    "kubeconform": Tool(
        "the chart",
        program("kubeconform"),
        go_module("github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0"),
        "kubeconform; it needs Go",
    ),
    "promtool": Tool("alerts", program("promtool"), promtool, "promtool, a part of Prometheus"),
    "mount": Tool(
        "a disk that is full", can_mount, None, "run the tests as root, where root may mount disks"
    ),
}
"""By their names, in an order in which they can be installed."""


def missing(names: Iterable[str]) -> list[str]:
    """Return which of these tools are not there, in the order of `TOOLS`."""
    wanted = set(names)
    if unknown := wanted - TOOLS.keys():
        raise ValueError(f"expected tools that tests/tools.py knows, got {', '.join(sorted(unknown))}")
    return [name for name in TOOLS if name in wanted and not TOOLS[name].is_there()]


def report(missing_of_tests: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines that name what is missing, given the tools that each test lacks."""
    left_out = [names for names in missing_of_tests if names]
    if not left_out:
        return []
    counts = Counter(name for names in left_out for name in names)
    tools = ", ".join(f"{name} ({counts[name]})" for name in TOOLS if name in counts)
    advice = (
        "" if all(TOOLS[name].install is None for name in counts) else "; `make test-tools` installs them"
    )
    return [f"tests that lack a tool: {len(left_out)}, left out: {tools}{advice}"]


def install(names: Iterable[str]) -> int:
    """Install what is missing of these tools, say what became of each, and return the exit code."""
    failed = False
    for name in missing(names):
        tool = TOOLS[name]
        if tool.install is None:
            print(f"test-tools: can't install {name} ({tool.purpose}): {tool.by_hand}", flush=True)
            continue
        print(f"test-tools: installing {name} ({tool.purpose})", flush=True)
        why = _failure(tool)
        if why:
            failed = True
            print(f"test-tools: could not install {name}: {why}; install by hand: {tool.by_hand}", flush=True)
    if not failed:
        print("test-tools: everything is there that can be installed", flush=True)
    return int(failed)


def _failure(tool: Tool) -> str:
    assert tool.install is not None
    try:
        tool.install()
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        return str(error)
    has_compiler.cache_clear()
    return "" if tool.is_there() else "it was installed, but is not found"


def _run(*command: str, sudo: bool = False, directory: str | None = None) -> None:
    subprocess.run([*(["sudo"] if sudo else []), *command], check=True, cwd=directory)


if __name__ == "__main__":
    extend_path()
    sys.exit(install(TOOLS))
