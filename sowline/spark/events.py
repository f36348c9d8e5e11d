"""The events of a changes topic as a frame, in Spark SQL: like `sowline.changes.event`, but for whole topics."""

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sowline.changes.change import AGAIN
from sowline.changes.progress import CATCH_UP_KEY, PROGRESS_KEY
from sowline.model.bookmark import Positions
from sowline.model.log_time import TIME_MAX
from sowline.model.position import Position

CHANGE: Final = "change"
PROGRESS: Final = "progress"

INDEX_MAX: Final = 2**63 - 1
"""An index after every change that one log record makes."""

_ABOUT = (
    "position STRING, after STRING, era BIGINT, op STRING, time BIGINT, last BOOLEAN, reason STRING,"
    " expires BIGINT, correlation STRING, emitted_in BIGINT, said_in BIGINT, changes_id STRING"
)


def kafka_options(kafka: str, topic: str, options: Mapping[str, str], starts: str) -> dict[str, str]:
    """Return the options of Spark's Kafka source for committed data of one topic, with headers."""
    return {
        **{f"kafka.{name}": value for name, value in options.items()},
        "kafka.isolation.level": "read_committed",
        "kafka.bootstrap.servers": kafka,
        "subscribe": topic,
        "includeHeaders": "true",
        "startingOffsets": starts,
    }


def kafka_rows(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """Return a batch of Kafka records."""
    return spark.read.format("kafka").options(**options).load()


def events(rows: DataFrame) -> DataFrame:
    """Return the events among the records of a changes topic, one row each.

    `partition`, `stamp` (ms, when it was written), `kind`, `sow_key`, `position` and `after` (structs that sort),
    `body` (text; null for a deleted record or document) and `previous`, and `op`, `time`, `last`, `reason`,
    `expires`, `correlation` as in the header `sow`. `rank_era` is the era in which an event was written, and
    `changes_id` the topic that a progress event describes. A record that is not an event fails the job.
    """
    progress = F.col("key").isin(PROGRESS_KEY, CATCH_UP_KEY)
    about = F.from_json(F.when(progress, F.col("value")).otherwise(_header("sow")).cast("string"), _ABOUT)
    rows = rows.withColumns({"kind": F.when(progress, PROGRESS).otherwise(CHANGE), "about": about})
    era = F.coalesce("about.era", F.lit(0).cast("bigint"))
    no_event = F.format_string(
        "expected a change with a 'sow' header at offset %s of partition %s, got another record",
        F.col("offset"),
        F.col("partition"),
    )
    position = F.coalesce("about.position", F.raise_error(no_event))
    return rows.select(
        "partition",
        F.unix_millis("timestamp").alias("stamp"),
        F.col("offset").alias("kafka_offset"),
        "kind",
        F.col("key").cast("string").alias("sow_key"),
        _position(era, position).alias("position"),
        _relative(era, F.col("about.after")).alias("after"),
        # An empty value is a deleted document or a hidden group (`sowline.changes.change`).
        F.when(F.length("value") > 0, F.col("value").cast("string")).alias("body"),
        _header("sow.previous").cast("string").alias("previous"),
        F.col("about.op").alias("op"),
        F.col("about.time").alias("time"),
        F.coalesce("about.last", F.lit(True)).alias("last"),
        *(F.col(f"about.{name}").alias(name) for name in ("reason", "expires", "correlation", "changes_id")),
        # `said_in` is the name in format 1, of which a compacted topic may keep events
        # (test_an_event_written_again_in_the_first_format_is_read).
        F.coalesce("about.emitted_in", "about.said_in", era).alias("rank_era"),
    )


def timestamp_of(name: str) -> Column:
    """Return a time in ms as a timestamp; one that no date can express as the first or the last one."""
    time = F.col(name)
    return F.timestamp_millis(F.when(time > TIME_MAX, TIME_MAX).when(time < 0, 0).otherwise(time))


def is_change() -> Column:
    """Whether an event is a change, or a change that is written again."""
    return F.col("kind") == CHANGE


def is_again() -> Column:
    """Whether an event is written again, so that compaction keeps it."""
    return F.coalesce(F.col("op") == AGAIN, F.lit(False))


def bookmark_text(log: str, position: Column) -> Column:
    """Return a position as the bookmark of a live message."""
    era, index = position["era"], position["index"]
    return F.concat(
        F.lit(f"{log}:"),
        F.col("partition"),
        F.lit("@"),
        F.when(era > 0, F.concat(era, F.lit("/"))).otherwise(F.lit("")),
        position["offset"],
        F.when(index > 0, F.concat(F.lit("."), index)).otherwise(F.lit("")),
    )


def is_behind(positions: Positions, position: Column) -> Column:
    """Whether a position, which must not be null, is after the position of its partition."""
    per_partition = [
        part for number, held in sorted(positions.items()) for part in (F.lit(number), literal(held))
    ]
    return position > F.create_map(*per_partition)[F.col("partition")]


def literal(position: Position) -> Column:
    """Return a position as a column."""
    return _struct(*(F.lit(part).cast("bigint") for part in position))


def read_position(row: Any) -> Position:
    """Return the position that a row holds."""
    return Position(row["era"], row["offset"], row["index"])


def header_text(name: str) -> Column:
    """Return the last header with this name of a Kafka record, as text; null if it has none."""
    return _header(name).cast("string")


def _header(name: str) -> Column:
    # The last of several equal headers counts for every reader (test_of_a_repeated_header_the_last_counts).
    named = F.filter("headers", lambda header: header["key"] == name)
    return F.try_element_at(named, F.lit(-1))["value"]


def _struct(era: Column, offset: Column, index: Column) -> Column:
    return F.struct(era.alias("era"), offset.alias("offset"), index.alias("index"))


def _position(era: Column, text: Column) -> Column:
    """Return the struct of `offset[.index]`."""
    index = F.coalesce(F.try_element_at(F.split(text, r"\."), F.lit(2)), F.lit("0"))
    return _struct(era, F.split(text, r"\.")[0].cast("bigint"), index.cast("bigint"))


def _relative(era: Column, text: Column) -> Column:
    """Return the struct of `[era/]offset[.index]`; without an era, the event's era applies."""
    own = F.when(text.contains("/"), F.substring_index(text, "/", 1).cast("bigint")).otherwise(era)
    return _position(own, F.substring_index(text, "/", -1))
