"""Runs a declared pipeline until it ends or is stopped."""

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import structlog
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from sowline.errors import SowlineError
from sowline.runtime.process import set_up_logs, stop_signal
from sowline_ingest.applied import DeadLetterCount, wait_until_applied
from sowline_ingest.definition import load_pipeline
from sowline_ingest.job import Job
from sowline_ingest.progress import BatchProgress

POLL_SECONDS = 0.5
CHARACTERS_MAX = 2000
GIVES_WAY = 19
"""How much the priority of a pipeline with a limit is lowered, so that other processes get a core at once."""
_RAISED = re.compile(r"^(?:: )?[A-Za-z_][\w.]*(?:Error|Exception): ", re.MULTILINE)
"""The line of a Python or Java stack trace that has the error."""

log = structlog.get_logger()

OnRunning = Callable[[Mapping[str, Any]], None]


def run(
    file: Path,
    *,
    once: bool = False,
    rows_per_second: float | None = None,
    on_running: OnRunning,
    wait_at: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Run a pipeline until it is stopped, or with `once` until the available input is written.

    `on_running` is called with the running query as soon as it runs. Return the `rows` and `refused` of all runs so
    far, and the Kafka topics that they are in. A pipeline with a limit has the lowest priority of the machine.

    With `wait_at`, the arguments of a client, a run with `once` also waits until the queries of that service see its
    rows. The result then has `applied` and `dead` of this run, and the `reasons` of dead letters.

    Raise SowlineError: `bad configuration`, `invalid topic`, `no kafka`, `pipeline failed`, or a client error.
    """
    set_up_logs()
    log.info("starts Spark", file=str(file))
    # A micro-batch is read and sorted at full speed before its rows are written at the limited rate: that would take
    # the cores from the services of the machine (test_a_limit_lowers_the_priority).
    if rows_per_second or load_pipeline(file, os.environ).rows_per_second:
        os.nice(GIVES_WAY)  # before there is a JVM, which inherits it
    try:
        return _run(Job(file, rows_per_second=rows_per_second), once, on_running, wait_at)
    except (Py4JError, PySparkException) as error:
        raise SowlineError("pipeline failed", cause(str(error))) from error


def _run(job: Job, once: bool, on_running: OnRunning, wait_at: Mapping[str, Any] | None) -> dict[str, Any]:
    # From here on, a signal stops the query. While a session is starting, a signal ends the process.
    stop = stop_signal()
    expected = job.rows_expected() if once else None
    progress = BatchProgress(job.spark, job.pipeline.checkpoint, job.log_records, expected)
    # Before the query starts: the dead letters of earlier runs are then below these offsets, and those of this run
    # are not.
    letters = None if wait_at is None else DeadLetterCount(job)
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
    outcome = {**progress.sums, "log": job.log.topic, "dead_letters": job.log.dead}
    if wait_at is None or letters is None:
        return outcome
    wait_until_applied(wait_at, job.pipeline.topic, time.monotonic(), stop)
    reasons = letters.by_reason()
    dead = sum(reasons.values())
    return outcome | {"applied": progress.commands - dead, "dead": dead, "reasons": reasons}


def cause(text: str) -> str:
    """Return the error of a query, without the stack traces of Python and Java."""
    head = text.partition("=== Streaming Query ===")[0]
    raised = list(_RAISED.finditer(head))
    rest = head[raised[-1].end() :] if raised else head
    lines = [line.strip() for line in rest.splitlines() if not line.strip().startswith(("at ", "..."))]
    return " ".join(" ".join(lines).split())[:CHARACTERS_MAX]
