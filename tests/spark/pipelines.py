"""Declared pipelines in tests: run on the session that tests share, or as processes of their own; what they write."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from sowline_ingest.job import Job
from tests.spark.log import read_log

Write = Callable[[str], Path]
"""Writes the file of a pipeline."""

SOURCE = 'sources:\n  lines: {directory: INPUT, format: json, schema: "id STRING, ratio DOUBLE"}\nkey: id\n'
"""The smallest pipeline, of lines of JSON in the directory of its sources."""


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


def commands(kafka: str, log: str) -> list[tuple[str, str, Any, str]]:
    """Return the commands: name, source and sequence, body."""
    return [
        (
            record.headers.get("sow.command", "publish"),
            record.key,
            json.loads(record.value or b"null"),
            f"{record.headers['sow.publisher']}@{record.headers['sow.sequence']}",
        )
        for record in read_log(kafka, log)
    ]


def letters(kafka: str, log: str) -> list[tuple[str, bytes | None, str]]:
    """Return the dead letters: key, value and reason."""
    found = read_log(kafka, f"{log}.dead")
    return sorted((record.key, record.value, record.headers["sow.reason"]) for record in found)


def send(kafka: str, topic: str, *records: tuple[str | None, Any]) -> None:
    """Write JSON records into one partition."""
    producer = Producer({"bootstrap.servers": kafka})
    for key, value in records:
        body = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
        producer.produce(topic, body, key, partition=0, headers=[("trace", b"t1")])
    producer.flush()
