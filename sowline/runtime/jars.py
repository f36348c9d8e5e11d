"""Fetches the jars of Kafka and of Spark's Kafka connector, once per user, with Ivy.

PySpark includes Ivy. If only the services are installed, Ivy's only jar is fetched from Maven Central.
`python -m sowline.runtime.jars` fetches both sets in advance.
"""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

import httpx2

from sowline.errors import SowlineError
from sowline.runtime.java import find_java
from sowline.version import installing

KAFKA_VERSION = "4.3.1"
"""The version of the local broker, unless SOWLINE_KAFKA_VERSION names another one, from 3.9.0 on."""

IVY_JAR = "ivy-2.5.3.jar"
_IVY_URL = f"https://repo1.maven.org/maven2/org/apache/ivy/ivy/2.5.3/{IVY_JAR}"
_IVY_SHA256 = "9502aa5aabf0b1484924a13ef4b5d24f121f7f91aab6768f11cc9d0906c0803b"
_HALF = ".half-"


@dataclass(frozen=True)
class JarSet:
    """Modules with all their dependencies. `name` is the directory in the cache: change it with the other fields."""

    name: str
    modules: tuple[tuple[str, str, str], ...]
    excludes: tuple[tuple[str, str], ...] = ()

    def ivy_xml(self) -> str:
        """Return the Ivy file that requests exactly these modules."""
        modules = (
            f"<dependency org={quoteattr(org)} name={quoteattr(name)} rev={quoteattr(rev)} conf='default'/>"
            for org, name, rev in self.modules
        )
        excludes = (
            f"<exclude org={quoteattr(org)} module={quoteattr(name)}/>" for org, name in self.excludes
        )
        return (
            "<ivy-module version='2.0'><info organisation='sowline' module='jars'/>"
            "<configurations><conf name='default'/></configurations>"
            f"<dependencies>{''.join(modules)}{''.join(excludes)}</dependencies></ivy-module>"
        )


def kafka_of(version: str) -> JarSet:
    """Return the jars of a broker of that version.

    Kafka's jars log through slf4j but depend on no backend for it: without the second module, a broker writes no log.
    """
    modules = (
        ("org.apache.kafka", "kafka_2.13", version),
        ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"),
    )
    return JarSet(f"kafka_2.13-{version}", modules)


# PySpark already contains Hadoop's client jars, which are larger than all others together.
SPARK_CONNECTOR = JarSet(
    "spark-sql-kafka-0-10_2.13-4.0.0",
    (("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.0.0"),),
    excludes=(
        ("org.apache.hadoop", "hadoop-client-api"),
        ("org.apache.hadoop", "hadoop-client-runtime"),
    ),
)


def kafka_jars() -> list[Path]:
    """Return the jars of a Kafka broker, sorted; fetch missing ones (about 50 s)."""
    return retrieve(kafka_of(os.environ.get("SOWLINE_KAFKA_VERSION") or KAFKA_VERSION))


def spark_connector_jars() -> list[Path]:
    """Return the additional jars that Spark needs to read and write Kafka, sorted; fetch missing ones."""
    return retrieve(SPARK_CONNECTOR)


def cache_directory() -> Path:
    """Return this user's cache directory for Sowline; it need not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "sowline"


def retrieve(jar_set: JarSet) -> list[Path]:
    """Return the jars of `jar_set`, sorted; raise `no jars` or `no java`.

    A directory in the cache is always complete. If several processes need it, one fetches and the others wait.
    """
    target = cache_directory() / "jars" / jar_set.name
    if not target.is_dir():
        with _locked(cache_directory() / "jars.lock"):
            # Another process may have fetched them while this one waited for the lock
            # (test_concurrent_callers_fetch_once).
            if not target.is_dir():
                _fill(target, jar_set)
    return sorted(target.glob("*.jar"))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fill(target: Path, jar_set: JarSet) -> None:
    """Fetch into a directory next to `target`, then rename it. Ivy's cache is kept only until this succeeds."""
    java, ivy = find_java(), _ivy_jar()
    target.parent.mkdir(parents=True, exist_ok=True)
    # A run that was killed left an incomplete directory, under a name that is never used as a cache
    # (test_fetch_that_was_killed).
    for left_by_a_killed_run in target.parent.glob(f"{_HALF}*"):
        shutil.rmtree(left_by_a_killed_run)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=_HALF) as half:
        print(f"sowline: fetching the jars of {jar_set.name}, once per user", file=sys.stderr, flush=True)
        _run_ivy(java, ivy, jar_set, Path(half))
        Path(half, "jars").rename(target)
    shutil.rmtree(_ivy_cache(), ignore_errors=True)


def _run_ivy(java: Path, ivy: Path, jar_set: JarSet, half: Path) -> None:
    """Retrieve the jars into `half/jars`."""
    # Relative paths, because brackets in an absolute path would be part of Ivy's pattern.
    (half / "ivy.xml").write_text(jar_set.ivy_xml(), encoding="utf-8")
    home = f"-Divy.default.ivy.user.dir={_ivy_cache()}"  # not ~/.ivy2: Ivy would use its content as Central's
    command = [
        str(java),
        home,
        "-cp",
        str(ivy),
        "org.apache.ivy.Main",
        *_settings(),
        "-cache",
        str(_ivy_cache()),
    ]
    command += [
        "-ivy",
        "ivy.xml",
        "-confs",
        "default",
        "-retrieve",
        "jars/[artifact]-[revision](-[classifier]).[ext]",
    ]
    result = subprocess.run(
        command, cwd=half, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    # Ivy may report success although it has fetched nothing (test_nothing_fetched).
    if result.returncode != 0 or not any(half.glob("jars/*.jar")):
        raise SowlineError("no jars", _failure(jar_set, result.stdout))


def _ivy_cache() -> Path:
    return cache_directory() / "ivy"


def _settings() -> list[str]:
    """Return Ivy's options for the user's settings file (for a mirror of Maven Central), if there is one."""
    settings = os.environ.get("SOWLINE_IVY_SETTINGS")
    return ["-settings", str(Path(settings).resolve())] if settings else []


def _failure(jar_set: JarSet, log: str) -> str:
    tail = "\n".join(log.splitlines()[-30:])
    return (
        f"expected Ivy to fetch {jar_set.name} from Maven Central, but it failed: check the network and run again,"
        f" or name a mirror's Ivy settings in SOWLINE_IVY_SETTINGS; Ivy said:\n{tail}"
    )


def _ivy_jar() -> Path:
    """Return the Ivy jar in the installed PySpark, else the one in the cache; fetch that once."""
    # Find PySpark without importing it, which would take a second.
    found = importlib.util.find_spec("pyspark")
    roots = found.submodule_search_locations if found and found.submodule_search_locations else []
    for root in roots:
        for jar in sorted(Path(root, "jars").glob("ivy-*.jar")):
            return jar
    jar = cache_directory() / IVY_JAR
    if not jar.is_file():
        content = _fetched_ivy(jar)
        # Renamed once it is whole: what a killed run has written must not pass for the jar.
        jar.with_suffix(_HALF).write_bytes(content)
        jar.with_suffix(_HALF).rename(jar)
    return jar


def _fetched_ivy(jar: Path) -> bytes:
    try:
        answer = httpx2.get(_IVY_URL, timeout=60).raise_for_status()
    except (httpx2.HTTPError, OSError) as error:
        came = str(error) or type(error).__name__
    else:
        if hashlib.sha256(answer.content).hexdigest() == _IVY_SHA256:
            return answer.content
        came = "it has another checksum than Ivy 2.5.3"
    raise SowlineError(
        "no jars",
        f"expected Ivy from {_IVY_URL}, but: {came}; copy {IVY_JAR} from a mirror to {jar.parent},"
        f" or install PySpark, which includes it: {installing('spark')}",
    )


def main() -> int:
    """Fetch both sets and return an exit code; write an error to stderr as one sentence."""
    try:
        kafka_jars()
        spark_connector_jars()
    except SowlineError as error:
        print(f"sowline: {error.message}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
