"""The progress of a pipeline: rows written and refused over all its runs, and its speed."""

import json
import time
from collections.abc import Callable
from typing import Any

import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from sowline.commands.pipeline_row import REFUSED
from sowline.errors import SowlineError
from sowline.spark.hadoop import Directory

OBSERVED = "sowline"
SECONDS_BETWEEN_LINES = 5.0

log = structlog.get_logger()


def observed(rows: DataFrame) -> DataFrame:
    """Return the rows, counted as they pass."""
    return rows.observe(OBSERVED, F.count(F.lit(1)).alias("rows"), F.count_if(REFUSED).alias(REFUSED))


class BatchProgress:
    """Adds up the counts of a query's micro-batches.

    The sums are stored with the query's checkpoint; a crash may lose the last ones. `log_records` returns the number
    of records in the log. `rows_expected` is the number of rows in all, if it is known.
    """

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: str,
        log_records: Callable[[], int],
        rows_expected: int | None = None,
    ) -> None:
        self._kept = Directory(spark, checkpoint).sub("progress")
        self._expected = rows_expected
        self._log_records = log_records
        self._log_began = log_records()
        self.sums: dict[str, int] = {"rows": 0, REFUSED: 0} | json.loads(self._kept.read("sums") or "{}")
        self._before = self.sums["rows"]
        self._commands_before: int = self.sums["rows"] - self.sums[REFUSED]
        self._began = self._reported = time.monotonic()
        self._batch = -1
        self._log_grew = 0

    def look(self, query: StreamingQuery, *, is_last: bool = False) -> None:
        """Add the counts of new micro-batches. Log them every few seconds, if anything was written."""
        # `lastProgress` first: `recentProgress` makes a hundred objects, which took a tenth of a core on each call.
        last = query.lastProgress
        is_new = last is not None and last["batchId"] > self._batch
        new = [one for one in query.recentProgress if one["batchId"] > self._batch] if is_new else []
        for progress in new:
            self._batch = progress["batchId"]
            self._add(progress["observedMetrics"].get(OBSERVED))
        if new:
            self._kept.write("sums", json.dumps(self.sums))
        now = time.monotonic()
        if is_last or now - self._reported >= SECONDS_BETWEEN_LINES:
            self._reported = now
            before, self._log_grew = self._log_grew, self._grown()
            if is_last or self._log_grew > before:
                log.info("finished" if is_last else "written", **self._figures(now - self._began))

    @property
    def commands(self) -> int:
        """The number of commands that this run has written: its rows except those that it refused."""
        return self.sums["rows"] - self.sums[REFUSED] - self._commands_before

    def _add(self, counted: Any) -> None:
        if counted is not None:
            self.sums["rows"] += counted["rows"]
            self.sums[REFUSED] += counted[REFUSED]

    def _grown(self) -> int:
        try:
            return self._log_records() - self._log_began
        except SowlineError:  # Kafka is away; the rows wait for it
            return self._log_grew

    def _figures(self, seconds: float) -> dict[str, int]:
        rows = self.sums["rows"]
        speed = (rows - self._before) / max(seconds, 0.001)
        figures = {**self.sums, "rows_per_second": round(speed), "log_grew": self._log_grew}
        if self._expected is not None:
            figures["of"] = self._expected
            if speed:
                figures["seconds_left"] = round(max(0, self._expected - rows) / speed)
        return figures
