"""The TypeScript client as tests use it: installed and built once, whatever number of processes needs it."""

import fcntl
import hashlib
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.services import Service, system

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "clients" / "typescript"
STAMP = PACKAGE / "build" / "built"
"""The fingerprint of what was built last."""


def run(*command: str, cwd: Path = PACKAGE) -> str:
    """Run a command, and return what it prints; fail with that if the command fails."""
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout[-8000:]}"
    return done.stdout


def npm(*arguments: str) -> str:
    """Run npm in the package."""
    return run("npm", "--no-audit", "--no-fund", "--no-update-notifier", *arguments)


def build() -> None:
    """Install what the lock file names, and build the package, unless that was done for these sources."""
    STAMP.parent.mkdir(exist_ok=True)
    with (STAMP.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fingerprint = "\n".join(_fingerprints())
        if STAMP.exists() and STAMP.read_text() == fingerprint:
            return
        npm("ci")
        npm("run", "build")
        STAMP.write_text(fingerprint)


def sources() -> list[Path]:
    """Return the modules of the package."""
    return sorted((PACKAGE / "src").rglob("*.ts"))


def _fingerprints() -> Iterator[str]:
    for path in (PACKAGE / "package-lock.json", PACKAGE / "tsconfig.json", *sources()):
        yield f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}"


@contextmanager
def served_topic(kafka: str, directory: Path) -> Iterator[tuple[Service, str]]:
    """Lend a query service and its topic, which has no records."""
    name = f"t{uuid.uuid4().hex[:12]}-orders"
    with system(kafka, directory, [{"name": name, "key": ["/id"], "partitions": 2}]) as made:
        services = [made.service(module).start() for module in ("materializer", "query_service")]
        for one in services:
            one.wait_ready()
        yield services[1], name
