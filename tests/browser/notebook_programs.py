"""Programs that show notebooks. Each is installed at its first run, in an environment of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sowline.runtime.child_process import bound_to_parent
from sowline.runtime.jars import cache_directory
from tests.integration.services import http_status
from tests.waiting import wait_for


def notebook_program(name: str, requirement: str) -> Path:
    """Return the program of this name, of a package in this version."""
    directory = cache_directory() / "notebooks" / requirement
    found = directory / "bin" / name
    if not found.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(directory)], check=True)
        subprocess.run([str(directory / "bin" / "pip"), "install", "-q", requirement], check=True)
    return found


@contextmanager
def running_program(
    command: list[str], variables: Mapping[str, str], log: Path, health: str
) -> Iterator[None]:
    """Run a program in the directory of its log until the end of the block, which begins once `health` answers."""
    with log.open("w") as output:
        process = subprocess.Popen(
            bound_to_parent(command),
            env=os.environ | variables,
            cwd=log.parent,
            stdout=output,
            stderr=output,
        )
    try:
        wait_for(lambda: http_status(health) == 200, log.stem)
        yield
    finally:
        process.terminate()
        process.wait(60)
