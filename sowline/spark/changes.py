"""The changes of a topic as a streaming frame: the record before and after each change, and the difference."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, VariantType

from sowline.config.settings import read_settings
from sowline.model.bookmark import NOW, named_bookmark
from sowline.spark.broker import connected
from sowline.spark.changes_topic import ChangesTopic, names_of, offsets_json
from sowline.spark.events import (
    bookmark_text,
    events,
    is_again,
    is_behind,
    is_change,
    kafka_options,
    timestamp_of,
)
from sowline.spark.loading import is_ended
from sowline.spark.moment import read_positions
from sowline.spark.row_json import row_json
from sowline.spark.schema import CORRUPT, fields_of

EARLIEST = "earliest"
LATEST = "latest"


def read_changes(
    spark: SparkSession,
    topic: str,
    *,
    schema: str | StructType | None = None,
    start: str = EARLIEST,
    kafka: str | None = None,
    log: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return a stream of the changes of a topic, one row each; docs/spark.md describes the columns.

    - `start`: a bookmark, to get every change after it; `latest`; or `earliest`, for all that the topic still has: at
      least the newest change of each record, perhaps one that was written `again`.
    - `schema`: the schema of the records, as DDL or a type; by default it is inferred from some of the newest.
    - `kafka`, `options`: where Kafka is (`SOWLINE_KAFKA`), and further settings of its Java clients.
    - `log`: the topic's log, if its name differs from the topic's.

    Events that a stalled owner of an ended era has written are left out. A stream recognizes them only in the eras
    that it knows, so it fails where a new era begins; restarted from its checkpoint, it continues.

    Raises SowlineError: `invalid topic`, `invalid bookmark`, `behind` if the bookmark has not been reached yet,
    `bookmark_expired` if a change after it is gone, `not supported` for a schema.
    """
    kafka, options = kafka or read_settings().kafka, options or {}
    with connected(spark, kafka, options) as broker:
        changes = ChangesTopic(spark, broker, names_of(broker, topic, log), kafka, options)
        fields = fields_of(spark, schema, changes)
        offsets, wanted = _beginning(changes, start)
        counts = _counts(changes)
    reader = spark.readStream.format("kafka").options(**kafka_options(kafka, changes.name, options, offsets))
    return _rows(events(reader.load()).where(counts).where(is_change() & wanted), fields, changes.log)


def _counts(changes: ChangesTopic) -> Column:
    """Whether an event was not written by an owner of an ended era; fails the stream at an era that began since."""
    # Reading a whole topic is expensive, and without a second era there is no ended one.
    has_eras = any(position.era for position in changes.held.values())
    facts = changes.load_facts() if has_eras else {}
    latest = F.lit(0)
    for number, of in facts.items():
        era = max((era for era, _ in of.eras), default=0)
        latest = F.when(F.col("partition") == number, era).otherwise(latest)
    sentence = (
        f"a new era of {changes.name} [%s] began: start the stream again, to continue from its checkpoint"
    )
    stop = F.raise_error(F.format_string(sentence, F.col("partition"))).cast("boolean")
    return F.when(F.col("rank_era") > latest, stop).otherwise(~is_ended(facts))


def _beginning(changes: ChangesTopic, start: str) -> tuple[str, Column]:
    """Return the Kafka offsets to start at, and which of the changes from there on are wanted."""
    if start == EARLIEST:
        # After compaction, an event that was written again may be the only event of its record.
        return EARLIEST, F.lit(True)
    if start == LATEST or named_bookmark(start) == NOW:
        # An event that was written again repeats an old change: it is no news to a stream that begins after that.
        return LATEST, ~is_again()
    positions = read_positions(start, changes.log, changes.partitions)
    assert positions is not None, "now is the latest"
    past = changes.past_position(positions)
    return offsets_json(changes.name, past.offsets), ~is_again() & is_behind(positions, F.col("position"))


def _rows(events: DataFrame, fields: StructType, log: str) -> DataFrame:
    parsed = events.withColumns(
        {"now": F.from_json("body", fields), "was": F.from_json("previous", fields)}
    ).withColumn("differ", _differ(fields))
    position = ("partition", "position.era", "position.offset", "position.index")
    return parsed.select(
        "sow_key",
        F.col("was").alias("before"),
        F.col("now").alias("after"),
        _delta(fields).alias("delta"),
        F.col("differ").alias("changed"),
        "op",
        "reason",
        timestamp_of("time").alias("time"),
        bookmark_text(log, F.col("position")).alias("bookmark"),
        F.struct(*position).alias("position"),
        "correlation",
        timestamp_of("expires").alias("expires"),
        "last",
        F.timestamp_millis("stamp").alias("written"),
    )


def _differ(fields: StructType) -> Column:
    """Return the names of the fields that differ; null for an event that was written again: it does not show them."""
    names = [F.when(~_same(field), F.lit(field.name)) for field in fields if field.name != CORRUPT]
    there = F.array_compact(F.array(*names)) if names else F.array().cast("array<string>")
    return F.when(~is_again(), there)


def _same(field: StructField) -> Column:
    was, now = (_field(record, field) for record in ("was", "now"))
    if _is_incomparable(field.dataType):
        was, now = (row_json([value.alias("value")]) for value in (was, now))
    return was.eqNullSafe(now)


def _delta(fields: StructType) -> Column:
    """Return the changed fields with their new values; null if the record is gone or the change is unknown."""
    now = [
        F.when(F.array_contains("differ", field.name), _field("now", field)).alias(field.name)
        for field in fields
    ]
    return F.when(F.col("now").isNotNull() & ~is_again(), F.struct(*now))


def _field(record: str, field: StructField) -> Column:
    return F.col(record).getField(field.name)


def _is_incomparable(type: DataType) -> bool:
    """Whether a type is or has a MAP or a VARIANT, which Spark does not compare."""
    if isinstance(type, MapType | VariantType):
        return True
    if isinstance(type, ArrayType):
        return _is_incomparable(type.elementType)
    return isinstance(type, StructType) and any(_is_incomparable(field.dataType) for field in type)
