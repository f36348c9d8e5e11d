"""A rate limit for rows that are written to Kafka; the tasks that write them keep it."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

PAUSES_PER_SECOND = 20


def paced(frame: DataFrame, rows_per_second: float) -> DataFrame:
    """Return the frame so that each of its tasks yields at most this many rows a second, a few at a time."""
    rows = max(1, round(rows_per_second / PAUSES_PER_SECOND))
    pause_ms = max(1, round(rows / rows_per_second * 1000))
    # Ids count up from a multiple of 2**33 in each task. The sleep answers null; its condition is always true.
    pause = (
        f"CASE WHEN pmod(monotonically_increasing_id() & {2**33 - 1}, {rows}) = {rows - 1}"
        f" THEN java_method('java.lang.Thread', 'sleep', {pause_ms}L) END"
    )
    return frame.where(F.expr(f"coalesce({pause}, 'slept') <> ''"))
