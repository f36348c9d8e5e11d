"""Quix Streams as an entrant: `quix_app.py`, in its own environment, which is made once per user."""

import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.merging import Entrant, Load
from sowline.runtime.jars import cache_directory

PACKAGE = "quixstreams==3.28.1"
APP = Path(__file__).parent / "quix_app.py"


@contextmanager
def quix(load: Load, output: str) -> Iterator[Entrant]:
    """One process, at least once, with an empty store."""
    with tempfile.TemporaryDirectory() as state:
        application = f"quix-{uuid.uuid4().hex}"
        command = [_python(), str(APP), load.bootstrap, load.definition.log, output, state, application]
        yield Entrant([(command, {})], output)


def _python() -> str:
    """Return the Python that has Quix Streams; it gets its environment first if this user has none yet."""
    environment = cache_directory() / "bench" / PACKAGE
    whole = environment / "whole"
    python = environment / "bin" / "python"
    if not whole.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", PACKAGE], check=True)
        whole.touch()
    return str(python)
