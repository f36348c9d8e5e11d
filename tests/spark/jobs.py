"""How many jobs Spark runs."""

import uuid
from collections.abc import Callable

from pyspark.sql import SparkSession


def jobs_of(spark: SparkSession, work: Callable[[], object]) -> int:
    """Return how many jobs Spark runs for something."""
    group = uuid.uuid4().hex
    spark.sparkContext.setJobGroup(group, "")
    try:
        work()
    finally:
        spark.sparkContext.setJobGroup("", "")
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))
