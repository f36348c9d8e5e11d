"""A real schema registry: Apicurio's, as a process of the tests, with its state in memory."""

import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sowline.runtime.child_process import bound_to_parent
from sowline.runtime.jars import JarSet, cache_directory, retrieve
from sowline.runtime.java import find_java
from sowline.runtime.ports import HOST, free_port
from tests.waiting import wait_for

NAME = "apicurio-registry-app"
VERSION = "2.6.13.Final"


@dataclass(frozen=True)
class _Archive(JarSet):
    """The registry's archive, which holds all its jars, and its own jar."""

    def ivy_xml(self) -> str:
        ((org, name, rev),) = self.modules
        return (
            "<ivy-module version='2.0' xmlns:m='http://ant.apache.org/ivy/maven'>"
            "<info organisation='sowline' module='jars'/><configurations><conf name='default'/></configurations>"
            f"<dependencies><dependency org='{org}' name='{name}' rev='{rev}' conf='default' transitive='false'>"
            f"<artifact name='{name}' type='jar'/>"
            f"<artifact name='{name}' type='tar.gz' ext='tar.gz' m:classifier='all'/>"
            "</dependency></dependencies></ivy-module>"
        )


ARCHIVE = _Archive(f"{NAME}-{VERSION}", (("io.apicurio", NAME, VERSION),))


class RegistryServer:
    """A registry that runs. Confluent's API is at `url`; `directory` gets its log."""

    def __init__(self, directory: Path) -> None:
        """Start it and wait until it is ready: about 10 s. Raise `no jars` if Maven Central can't be reached."""
        runner = _unpacked() / f"{NAME}-{VERSION}-runner.jar"
        port = free_port()
        self.url = f"http://{HOST}:{port}/apis/ccompat/v7"
        self._ready = f"http://{HOST}:{port}/health/ready"
        java = [str(find_java()), "-XX:TieredStopAtLevel=1", "-Xmx512m"]
        settings = [f"-Dquarkus.http.host={HOST}", f"-Dquarkus.http.port={port}"]
        self._log = directory / f"registry-{port}.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                bound_to_parent([*java, *settings, "-jar", str(runner)]),
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            wait_for(self._is_ready, f"the registry to be ready: {self._log}")
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, f"the registry ended:\n{self._log.read_text()[-2000:]}"
        try:
            with urllib.request.urlopen(self._ready, timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


@contextmanager
def schema_registry() -> Iterator[RegistryServer]:
    """Yield a registry without schemas."""
    with tempfile.TemporaryDirectory(prefix="sowline-registry-") as directory:
        server = RegistryServer(Path(directory))
        try:
            yield server
        finally:
            server.kill()


def _unpacked() -> Path:
    """Return the directory with the registry's jars; fetch and unpack them once per user."""
    jars = retrieve(ARCHIVE)
    target = cache_directory() / "registry" / ARCHIVE.name
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as half:
            with tarfile.open(jars[0].parent / f"{ARCHIVE.name}-all.tar.gz") as archive:
                archive.extractall(Path(half, "whole"), filter="data")
            with suppress(OSError):  # another process was faster
                Path(half, "whole").rename(target)
    return target
