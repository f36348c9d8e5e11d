"""The fate of a finished run's rows: waits until queries see them, and counts the rows that were refused.

A row that Spark refused is counted by the run itself. The materializer may refuse more, such as a record that is too
large. Its dead letters carry the publisher of the row, which names the pipeline.
"""

import threading
import time
from collections.abc import Mapping
from typing import Any

import structlog
from pyspark.sql import functions as F

from sowline.client.client import Client
from sowline.errors import SowlineError
from sowline.spark.broker import Offsets, connected
from sowline.spark.changes_topic import offsets_json
from sowline.spark.events import header_text, kafka_options, kafka_rows
from sowline_ingest.job import Job
from sowline_ingest.progress import SECONDS_BETWEEN_LINES

LOOK_SECONDS = 0.2

log = structlog.get_logger()


class DeadLetterCount:
    """Counts the dead letters of a pipeline that the materializer writes from now on."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._starts = self._ends()

    def _ends(self) -> Offsets:
        log = self._job.log
        assert log.dead is not None, "a declared pipeline has a topic of dead letters"
        with connected(self._job.spark, log.kafka, log.options) as broker:
            return broker.ends(log.dead, broker.partitions(log.dead))

    def by_reason(self) -> dict[str, int]:
        """Return the number of dead letters so far, by reason."""
        log, ends = self._job.log, self._ends()
        assert log.dead is not None, "a declared pipeline has a topic of dead letters"
        options = kafka_options(log.kafka, log.dead, log.options, offsets_json(log.dead, self._starts))
        options["endingOffsets"] = offsets_json(log.dead, ends)
        letters = kafka_rows(self._job.spark, options).where(
            # With the slash: the pipeline `shop` must not count the letters of `shop2/raw/0`.
            F.startswith(header_text("sow.publisher"), F.lit(f"{log.publisher}/"))
        )
        counts = letters.groupBy(header_text("sow.reason").alias("reason")).count().collect()
        return {row["reason"]: row["count"] for row in counts}


def wait_until_applied(
    connection: Mapping[str, Any], topic: str, written: float, stop: threading.Event
) -> None:
    """Wait until queries of a service see everything that the log had at the time `written`.

    The time is one of `time.monotonic`. Raise `invalid topic` if the service doesn't have the topic, and any error
    of its client. Return early if `stop` is set. Log every few seconds how far behind the queries are.
    """
    reported = time.monotonic()
    with Client(**connection) as client:
        while not stop.wait(LOOK_SECONDS):
            # Taken before the request: the service measures its lag later, so the lag covers the time `written`.
            seconds_max = time.monotonic() - written
            found = {one["name"]: one for one in client.topics()["topics"]}
            if topic not in found:
                raise SowlineError(
                    "invalid topic",
                    f"expected a query service with the topic {topic}, to wait for, got {', '.join(found) or 'none'}",
                )
            seconds = found[topic]["lag_seconds"]
            if seconds is not None and seconds < seconds_max:
                return
            if time.monotonic() - reported >= SECONDS_BETWEEN_LINES:
                reported = time.monotonic()
                log.info("waits until queries see the rows", lag=found[topic]["lag"])
