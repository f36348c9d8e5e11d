"""Declared pipelines in tests: run on the session that tests share, or as processes of their own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from sowline_ingest.job import Job


def run_once(file: Path) -> None:
    """Write what a pipeline's sources have now, with the environment as it is."""
    query = Job(file).start(once=True)
    query.awaitTermination()
    query.stop()


@contextmanager
def pipeline_process(
    file: Path, kafka: str, environment: Mapping[str, str], *options: str
) -> Iterator[subprocess.Popen[str]]:
    """Run a pipeline as a process of its own, and kill it with everything it started at the end."""
    command = [sys.executable, "-m", "sowline", "pipeline", "run", str(file), "--kafka", kafka, *options]
    process = subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    with process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):  # all of them may have ended
                os.killpg(process.pid, signal.SIGKILL)
