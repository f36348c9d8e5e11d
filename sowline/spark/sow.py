"""The State of the World of a topic as a batch frame: now, at a past time, or at a bookmark."""

import time
from collections.abc import Mapping
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sowline.changes.changes_reader import incomplete
from sowline.config.settings import read_settings
from sowline.errors import SowlineError
from sowline.spark.broker import connected
from sowline.spark.changes_topic import CLOCKS_MS, ChangesTopic, PastPosition, names_of
from sowline.spark.events import bookmark_text, is_again, is_behind, is_change, timestamp_of
from sowline.spark.loading import Facts, is_ended, rank
from sowline.spark.moment import read_moment
from sowline.spark.schema import fields_of


def read_sow(
    spark: SparkSession,
    topic: str,
    at: str | datetime | None = None,
    *,
    schema: str | StructType | None = None,
    kafka: str | None = None,
    log: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the records of a topic as they are at this call, or as they were `at` a bookmark or time.

    One row per record: its fields, `_sow_key`, and the `_updated_at` (a bookmark) and `_time` of its last change.
    Both are null for a past record if that change is gone.

    - `at`: the bookmark of a group's end, or a time with its zone: each partition is as it was at that time.
    - `schema`: the schema of the records, as DDL or a type; by default it is inferred from some of the newest.
    - `kafka`, `options`: where Kafka is (`SOWLINE_KAFKA`), and further settings of its Java clients.
    - `log`: the topic's log, if its name differs from the topic's.

    The frame may be used repeatedly as long as the changes topic is sure to keep its events; after that it fails.
    Raises SowlineError: `invalid topic`, `invalid bookmark`, `behind` if the bookmark has not been reached yet,
    `bookmark_expired` if changes since then are gone, `changes incomplete` if the changes topic is empty or is being
    filled again, `not supported` for a schema.
    """
    kafka, options = kafka or read_settings().kafka, options or {}
    with connected(spark, kafka, options) as broker:
        changes = ChangesTopic(spark, broker, names_of(broker, topic, log), kafka, options)
        called = round(time.time() * 1000)
        moment = None if at is None else read_moment(at, changes.log, changes.partitions)
        facts = _whole(changes)
        fields = fields_of(spark, schema, changes)
        if moment is None:
            state = _newest(changes.events(changes.starts, changes.ends), facts)
            kept = _while_kept(state, called + changes.lag_ms, changes.name)
            return _records(kept, fields, changes.log)
        past = changes.past_position_at(moment) if isinstance(moment, int) else changes.past_position(moment)
        state = _state_at(changes.events(changes.starts, None), past, facts)
        return _records(_kept(state, changes, past, called), fields, changes.log)


def _whole(changes: ChangesTopic) -> dict[int, Facts]:
    """Return the facts of a load; raise `changes incomplete` if some of the state is missing."""
    facts = changes.load_facts()
    missing = [number for number, of in facts.items() if not of.is_whole]
    if missing:
        raise SowlineError("changes incomplete", incomplete(changes.name, missing))
    return facts


def _newest(events: DataFrame, facts: Mapping[int, Facts]) -> DataFrame:
    """Return the newest state of each record, deleted records included."""
    newest = F.max_by(F.struct(*_STATE), rank()).alias("state")
    return (
        events.where(is_change() & ~is_ended(facts))
        .groupBy("partition", "sow_key")
        .agg(newest)
        .select(*_KEY, "state.*")
    )


_KEY = ("partition", "sow_key")
_STATE = ("body", "position", "time")


def _state_at(events: DataFrame, past: PastPosition, facts: Mapping[int, Facts]) -> DataFrame:
    """Return the state of each record at a position, absent records included.

    A change contains the previous body, so the first change after the position shows the state at it.
    """
    behind = is_behind(past.positions, F.col("position"))
    last = F.max_by(F.when(~behind, F.struct(*_STATE)), F.when(~behind, rank()))
    order = F.when(behind, F.struct("position", is_again().alias("again")))
    following = F.min_by(F.when(behind, F.struct("previous", is_again().alias("again"))), order)
    found = (
        events.where(is_change() & ~is_ended(facts))
        .groupBy(*_KEY)
        .agg(last.alias("last"), following.alias("next"))
    )
    untouched = F.col("next").isNull() | F.col("next.again")
    body = F.when(untouched, F.col("last.body")).otherwise(F.col("next.previous"))
    same = F.col("last.body").eqNullSafe(body)
    return found.select(
        *_KEY,
        body.alias("body"),
        *(F.when(same, F.col(f"last.{name}")).alias(name) for name in ("position", "time")),
    )


def _kept(state: DataFrame, changes: ChangesTopic, past: PastPosition, called: int) -> DataFrame:
    """Return a past state that fails once it may be incomplete."""
    first = called if past.first_written is None else min(past.first_written, called)
    if first + changes.lag_ms - CLOCKS_MS > called:
        return _while_kept(state, first + changes.lag_ms, changes.name)
    # Compaction may begin at any moment, so the state is read at once: if all changes are present afterwards, they
    # were then.
    read = state.localCheckpoint()
    changes.require_whole(past)
    if time.time() * 1000 > called + changes.lag_ms - CLOCKS_MS:
        raise SowlineError(
            "bookmark_expired", f"reading {changes.name} took longer than it keeps every change"
        )
    return read


def _while_kept(state: DataFrame, until: int, name: str) -> DataFrame:
    """Return the state, readable only as long as compaction keeps the events that it is made from.

    Spark returns the rows of a group only after it has read all events, so the clock is checked after the last event.
    """
    until -= CLOCKS_MS
    now = "CAST(java_method('java.lang.System', 'currentTimeMillis') AS BIGINT)"
    sentence = f"bookmark_expired: {name} may have lost what this frame was made from; read it again"
    return state.where(F.expr(f"CASE WHEN {now} <= {until} THEN true ELSE raise_error('{sentence}') END"))


def _records(state: DataFrame, fields: StructType, log: str) -> DataFrame:
    """Return the rows of existing records."""
    parsed = F.from_json("body", fields)
    there = state.where(F.col("body").isNotNull()).withColumn("record", parsed)
    return there.select(
        "record.*",
        F.col("sow_key").alias("_sow_key"),
        bookmark_text(log, F.col("position")).alias("_updated_at"),
        timestamp_of("time").alias("_time"),
    )
