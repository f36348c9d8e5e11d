"""A real standalone cluster of Spark on this machine: a master, and a worker that has nothing but a Java."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pyspark

from sowline.runtime.java import find_java
from sowline.runtime.ports import HOST, free_port
from tests.waiting import wait_for

SPARK_HOME = Path(pyspark.__file__).parent
SECONDS_TO_START_MAX = 120.0
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that does not run for long."""


@contextmanager
def standalone(directory: Path) -> Iterator[str]:
    """Lend a cluster with one core for executors, as the URL of its master; its logs stay in the directory."""
    port, page = free_port(), free_port()
    url = f"spark://{HOST}:{port}"
    at_master = ["--host", HOST, "--port", str(port), "--webui-port", str(page)]
    at_worker = ["--host", HOST, "--cores", "1", "--memory", "1g", "--work-dir", str(directory / "work")]
    with (
        _daemon(directory, "master.Master", *at_master),
        _daemon(directory, "worker.Worker", *at_worker, "--webui-port", str(free_port()), url),
    ):
        _wait_for_worker(page, directory)
        yield url


@contextmanager
def _daemon(directory: Path, name: str, *arguments: str) -> Iterator[None]:
    """Run one, killed at the end. What it starts, executors that is, finds neither a Python nor Sowline."""
    java = find_java().resolve()
    environment = {
        "JAVA_HOME": str(java.parents[1]),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": HOST,
        "PATH": str(_programs(directory / "bin")),
    }
    command = [str(java), *QUICK.split(), "-Xmx256m", "-cp", f"{SPARK_HOME}/jars/*"]
    with (directory / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"org.apache.spark.deploy.{name}", *arguments],
            env=environment,
            cwd=directory,
            stdout=log,
            stderr=log,
        )
        with process:
            try:
                yield
            finally:
                process.kill()


def _programs(directory: Path) -> Path:
    """Return a directory with all that Spark calls of a system."""
    directory.mkdir(exist_ok=True)
    for name in ("rm", "chmod"):
        link, found = directory / name, shutil.which(name)
        if not link.exists() and found:
            link.symlink_to(found)
    return directory


def _wait_for_worker(page: int, directory: Path) -> None:
    def has_worker() -> bool:
        try:
            with urlopen(f"http://{HOST}:{page}/json/", timeout=5) as answer:
                # A master serves its pages one by one: until it has /json, / answers, in HTML.
                is_json = answer.headers.get_content_subtype() == "json"
                return is_json and bool(json.load(answer)["aliveworkers"])
        except URLError:
            return False

    try:
        wait_for(has_worker, "a worker", SECONDS_TO_START_MAX)
    except AssertionError as error:
        logs = "\n".join(log.read_text() for log in sorted(directory.glob("*.log")))
        raise AssertionError(f"{error}:\n{logs}") from None
