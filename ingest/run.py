"""Runs a declared pipeline until it ends or is stopped."""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from ingest.definition import load_pipeline
from ingest.job import Job
from ingest.progress import BatchProgress
from sowline.errors import SowlineError
from sowline.runtime.process import set_up_logs, stop_signal

POLL_SECONDS = 0.5
CHARACTERS_MAX = 2000
GIVES_WAY = 19
"""How much the priority of a pipeline with a limit is lowered, so that other processes get a core at once."""
_RAISED = re.compile(r"^(?:: )?[A-Za-z_][\w.]*(?:Error|Exception): ", re.MULTILINE)
"""The line of a Python or Java stack trace that has the error."""

OnRunning = Callable[[Mapping[str, Any]], None]


def run(
    file: Path, *, once: bool = False, rows_per_second: float | None = None, on_running: OnRunning
) -> dict[str, int]:
    """Run a pipeline until it is stopped, or with `once` until the available input is written.

    `on_running` is called with what runs, as soon as it does. Return the `rows` and `refused` of all runs so far. A
    pipeline with a limit has the lowest priority of the machine. Raises SowlineError: `bad configuration`, `invalid
    topic`, `no kafka`, `pipeline failed`.
    """
    set_up_logs()
    if rows_per_second or load_pipeline(file, os.environ).rows_per_second:
        os.nice(GIVES_WAY)  # before there is a JVM, which inherits it
    try:
        return _run(Job(file, rows_per_second=rows_per_second), once, on_running)
    except (Py4JError, PySparkException) as error:
        raise SowlineError("pipeline failed", cause(str(error))) from error


def _run(job: Job, once: bool, on_running: OnRunning) -> dict[str, int]:
    stop = (
        stop_signal()
    )  # From here on, a signal stops the query. While a session is starting, a signal ends the process.
    expected = job.rows_expected() if once else None
    progress = BatchProgress(job.spark, job.pipeline.checkpoint, job.log_records, expected)
    query = job.start(once=once)
    on_running({"running": job.pipeline.name, "log": job.pipeline.log_topic, **progress.sums})
    # A signal can't call Spark in the middle of a call to Spark, so it only sets the event.
    while query.isActive and not stop.wait(POLL_SECONDS):
        progress.look(query)
    failure = query.exception()
    query.stop()
    progress.look(query, is_last=True)
    if failure is not None:
        raise SowlineError("pipeline failed", cause(str(failure)))
    return progress.sums


def cause(text: str) -> str:
    """Return the error of a query, without the stack traces of Python and Java."""
    head = text.partition("=== Streaming Query ===")[0]
    raised = list(_RAISED.finditer(head))
    rest = head[raised[-1].end() :] if raised else head
    lines = [line.strip() for line in rest.splitlines() if not line.strip().startswith(("at ", "..."))]
    return " ".join(" ".join(lines).split())[:CHARACTERS_MAX]
