"""The schema of a topic's records: given, or inferred from some of the newest."""

import json
from typing import Any, cast

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sowline.errors import SowlineError
from sowline.spark.changes_topic import ChangesTopic
from sowline.spark.events import is_change

SAMPLE = 1000
"""The number of records from which a schema is inferred."""

CORRUPT = "_corrupt_record"
"""The field that gets the text of a body that does not fit the schema; the name is Spark's."""


def schema_of(spark: SparkSession, given: str | StructType | None, changes: ChangesTopic) -> StructType:
    """Return the given schema, or infer it; raise `not supported` if there are no records yet."""
    if isinstance(given, StructType):
        return given
    if given is not None:
        return cast(StructType, StructType.fromDDL(given))
    each = -(-SAMPLE // changes.partitions)
    newest = {p: max(changes.starts[p], end - each) for p, end in changes.ends.items()}
    inferred = _inferred(spark, changes, newest) or _inferred(spark, changes, changes.starts)
    if inferred is None:
        raise SowlineError(
            "not supported",
            f"expected records in {changes.name} to infer a schema from, got none: give a schema",
        )
    return inferred


def _inferred(spark: SparkSession, changes: ChangesTopic, starts: dict[int, int]) -> StructType | None:
    events = changes.events(starts, changes.ends)
    bodies = events.where(is_change() & F.col("body").isNotNull()).select("body").limit(SAMPLE)
    jvm: Any = spark._jvm
    texts = getattr(bodies._jdf, "as")(jvm.org.apache.spark.sql.Encoders.STRING())
    schema = spark._jsparkSession.read().json(texts).schema()
    found = StructType.fromJson(json.loads(schema.json()))
    return found if found.fields else None
