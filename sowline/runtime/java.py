"""Finds a Java that can run both the Kafka broker and Spark 4: JDK 17 or 21."""

import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from sowline.errors import SowlineError

RELEASES = (17, 21)
_ADVICE = "install a JDK 17 or 21 and put it on PATH, or point JAVA_HOME at it"


def find_java() -> Path:
    """Return the path of a `java` of release 17 or 21: `JAVA_HOME/bin/java`, else the first on `PATH`.

    Raise `no java` if there is none. A `JAVA_HOME` without a Java is an error, and `PATH` is not searched: Spark
    would use `JAVA_HOME` in any case.
    """
    java = _candidate(os.environ.get("JAVA_HOME"))
    release = java_release(java)
    if release not in RELEASES:
        came = f"is release {release}" if release else "does not report its release"
        raise SowlineError("no java", f"expected Java 17 or 21, but {java} {came}: {_ADVICE}")
    return java


def _candidate(java_home: str | None) -> Path:
    if java_home:
        java = Path(java_home, "bin", "java")
        if not java.is_file():
            raise SowlineError("no java", f"expected Java 17 or 21, but JAVA_HOME has no {java}: {_ADVICE}")
        return java
    on_path = shutil.which("java")
    if on_path is None:
        raise SowlineError("no java", f"expected Java 17 or 21, but there is no java on PATH: {_ADVICE}")
    return Path(on_path)


@lru_cache
def java_release(java: Path) -> int | None:
    """Return the feature release of `java` (8, 17, 21, …), or None if it does not run or does not report it."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_release(answer.stderr + answer.stdout)


def parse_release(text: str) -> int | None:
    """Return the feature release in the output of `java -version`: 8 for `1.8.0_292`, 17 for `17.0.15`."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found.group(1)) if found else None
