"""Find positions in a changes topic: the current one, a past one, and whether all changes since then exist.

Compaction removes changes, and a stalled worker may have written old ones again. So a position is never derived
from the order of Kafka's offsets. The changes after a position are complete if each change is there that another
event names as its predecessor.
"""

import json
import time
from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sowline.codecs.resolutions import Resolutions, reader_key
from sowline.codecs.schema import Schema
from sowline.config.kafka_names import KafkaNames, default_log
from sowline.errors import SowlineError
from sowline.model.bookmark import Positions, format_position
from sowline.model.position import Position, before_the_log, invalid_bookmark
from sowline.spark.broker import Broker, Offsets
from sowline.spark.events import (
    INDEX_MAX,
    events,
    is_again,
    is_behind,
    is_change,
    kafka_options,
    kafka_rows,
    read_position,
)
from sowline.spark.loading import NOTHING_READ, Facts, load_facts

CLOCKS_MS = 60_000
"""How far the clocks of Kafka, the materializer and Spark may differ."""

TAIL = 1000
"""Events to read at the end of a partition to find its position."""

_READER = reader_key("").decode()


class PastPosition(NamedTuple):
    """A past state: its position in each partition, and the Kafka offsets from which all newer changes follow.

    `first_written` is when the first change after it was written (ms), None if there is none.
    """

    positions: Positions
    offsets: Offsets
    first_written: int | None


class ChangesTopic:
    """The changes topic of one log, at the time when this is created. Raises `invalid topic` if it is missing."""

    def __init__(
        self, spark: SparkSession, broker: Broker, names: KafkaNames, kafka: str, options: Mapping[str, str]
    ) -> None:
        self._spark = spark
        self._broker = broker
        self._kafka = kafka
        self._options = options
        self._names = names
        self.log = names.log
        self.name = names.changes
        self.partitions = broker.partitions(self.name)
        self._topic_id = broker.topic_id(self.name)
        self.starts = broker.starts(self.name, self.partitions)
        self.lag_ms = int(broker.setting(self.name, "min.compaction.lag.ms"))
        ends = broker.ends(self.name, self.partitions)
        tail = self.events({p: max(self.starts[p], end - TAIL) for p, end in ends.items()}, ends)
        # By position, not by offset: the last event may be an old one that was written again.
        newest = F.max_by(F.struct("position", "last"), "position")
        found = tail.groupBy("partition").agg(newest.alias("newest")).collect()
        newest_of = {row["partition"]: row["newest"] for row in found}
        self.held = {
            p: read_position(newest_of[p]["position"]) if p in newest_of else before_the_log()
            for p in range(self.partitions)
        }
        cut_short = [p for p, row in newest_of.items() if not row["last"]]
        self.ends = self._whole(ends, cut_short)
        # A log record whose changes are not all written counts as not applied (test_record_that_has_not_ended).
        self._next = {p: held.offset + (p not in cut_short) for p, held in self.held.items()}

    def _whole(self, ends: Offsets, cut_short: list[int]) -> Offsets:
        """Return the ends without the changes of log records that are incomplete."""
        if not cut_short:
            return ends
        records = {p: self.held[p]._replace(nth=-1) for p in range(self.partitions)}
        # From the start: one log record may have made more changes than the tail holds.
        ending = self.events(self.starts, ends).where(F.col("partition").isin(cut_short))
        of_record = ending.where(is_change() & is_behind(records, F.col("position")))
        found = of_record.groupBy("partition").agg(F.min("kafka_offset").alias("first")).collect()
        return ends | {row["partition"]: row["first"] for row in found}

    def load_facts(self) -> dict[int, Facts]:
        """Read the whole topic once, and return what its events show about a load, by partition."""
        found = load_facts(self.events(self.starts, self.ends), self._topic_id, self.starts)
        return {number: found.get(number, NOTHING_READ) for number in range(self.partitions)}

    def events(self, starts: Offsets, ends: Offsets | None) -> DataFrame:
        """Return the events between Kafka offsets; without `ends` up to the end at the time of reading."""
        more = {"endingOffsets": "latest" if ends is None else offsets_json(self.name, ends)}
        options = kafka_options(self._kafka, self.name, self._options, offsets_json(self.name, starts))
        return events(kafka_rows(self._spark, options | more))

    def reader_schema(self) -> Schema | None:
        """Return the reader schema that was added to `<log>.schemas` last; None for a JSON topic."""
        name = self._names.schema_log
        if not self._broker.has(name):
            return None
        starts = offsets_json(name, self._broker.starts(name, self._broker.partitions(name)))
        entries = kafka_rows(self._spark, kafka_options(self._kafka, name, self._options, starts))
        is_reader = F.startswith(F.col("key").cast("string"), F.lit(_READER))
        newest = entries.where(is_reader).orderBy(F.desc("timestamp"), F.desc("offset"))
        for row in newest.select("key", "value").collect():
            key, value = bytes(row["key"]), row["value"]
            schemas = Resolutions()
            schemas.add(key, None if value is None else bytes(value))
            reader = schemas.reader(key.decode(errors="replace").removeprefix(_READER))
            if reader is not None:
                return reader
        return None

    # past positions

    def past_position(self, positions: Positions) -> PastPosition:
        """Find the state at a bookmark.

        Raises `bookmark_expired` if changes after it are gone, `behind` if it has not been reached yet, and `invalid
        bookmark` if the topic has not had its era.
        """
        for number, position in positions.items():
            if position > self.held[number]:
                self._refuse_ahead(number, position)
        return self._proven(positions, self._written_since(positions))

    def _refuse_ahead(self, number: int, position: Position) -> None:
        held = self.held[number]
        if position.era > held.era:
            raise invalid_bookmark(
                f"expected a position that {self.name} [{number}] has reached, got {position}: its era is {held.era}."
                " Was the topic created again since?"
            )
        raise SowlineError(
            "behind",
            f"expected {self.name} [{number}] to be at {position}, but it is at {held}: wait and try again",
        )

    def past_position_at(self, moment: int) -> PastPosition:
        """Find the state at a time (ms): in each partition the last position whose time is not after it.

        Raises as `past_position`, and `invalid bookmark` for a time in the future.
        """
        if moment >= time.time() * 1000:
            raise invalid_bookmark(f"expected a past time, got {_utc(moment)}")
        starts = self._broker.starts(self.log, self.partitions)
        newest = self._broker.newest_ends(self.log, self.partitions)
        ends = self._broker.ends(self.log, self.partitions)
        later = self._broker.since(self.log, dict.fromkeys(range(self.partitions), moment + 1))
        firsts = {p: ends[p] if offset is None else offset for p, offset in later.items()}
        positions = {p: self._before(p, first, starts[p], moment) for p, first in firsts.items()}
        # `since` does not see the records after the first one of an open transaction, however old they are
        # (test_a_time_with_an_open_transaction).
        for p, offset in later.items():
            if offset is None and ends[p] < newest[p]:
                self._refuse_unapplied(p, ends[p])
        self._require_applied(firsts)
        return self._proven(positions, dict.fromkeys(range(self.partitions), moment))

    def _before(self, number: int, first: int, log_start: int, moment: int) -> Position:
        """Return the position after all changes that the log records before the offset `first` have made."""
        era = self.held[number].era
        if first > log_start:
            return Position(era, first - 1, INDEX_MAX)
        if first == 0 and era == 0:
            return before_the_log()
        raise SowlineError(
            "bookmark_expired",
            f"the log {self.log} [{number}] begins at offset {log_start}, after {_utc(moment)}: the state before"
            " can't be known; ask for a later time",
        )

    def _require_applied(self, firsts: Offsets) -> None:
        """Raise `behind` if a log record before these offsets has not been applied yet."""
        if all(self._next[p] >= first for p, first in firsts.items()):
            return
        # Offsets between may belong to no record, but to the marks of transactions: only a record can be unapplied.
        ends = {p: max(self._next[p], first) for p, first in firsts.items()}
        left = self._log_records(self._next, ends).limit(1).collect()
        if left:
            (record,) = left
            self._refuse_unapplied(record["partition"], record["offset"])

    def _refuse_unapplied(self, number: int, offset: int) -> NoReturn:
        raise SowlineError(
            "behind",
            f"expected the log {self.log} to be applied up to that time, but {number}@{offset} is not yet: wait and"
            " try again",
        )

    def _log_records(self, starts: Offsets, ends: Offsets) -> DataFrame:
        options = kafka_options(self._kafka, self.log, self._options, offsets_json(self.log, starts))
        return kafka_rows(self._spark, options | {"endingOffsets": offsets_json(self.log, ends)})

    def _written_since(self, positions: Positions) -> dict[int, int]:
        """Return when the log took the record at each position, if it still holds it: changes are never older."""
        starts, ends = (ask(self.log, self.partitions) for ask in (self._broker.starts, self._broker.ends))
        held = {
            p: at.offset
            for p, at in positions.items()
            if at.era == self.held[p].era and starts[p] <= at.offset < ends[p]
        }
        if not held:
            return {}
        first, last = ends | held, ends | {p: min(at + TAIL, ends[p]) for p, at in held.items()}
        records = self._log_records(first, last).groupBy("partition")
        times = records.agg(F.min_by(F.unix_millis("timestamp"), "offset").alias("time")).collect()
        return {row["partition"]: row["time"] for row in times}

    def _proven(self, positions: Positions, since: Mapping[int, int]) -> PastPosition:
        """Return the state with the offset from which all changes after it are present, or the start of the topic."""
        # The whole topic is read only if the changes near the time do not suffice: a clock may have been wrong.
        near = self._offsets_since(since)
        missing: list[int] = []
        for offsets in [near, self.starts] if near != self.starts else [near]:
            missing, first_written = self._missing(positions, offsets)
            if not missing:
                return PastPosition(positions, offsets, first_written)
        lost = format_position(self.log, missing[0], positions[missing[0]])
        raise SowlineError(
            "bookmark_expired",
            f"the changes after {lost} are no longer kept one by one: {self.name} keeps every change for"
            f" {self.lag_ms / 60_000:g} min (min.compaction.lag.ms, which the topic's resume_window sets)",
        )

    def _offsets_since(self, since: Mapping[int, int]) -> Offsets:
        found = self._broker.since(self.name, {p: ms - CLOCKS_MS for p, ms in since.items()}) if since else {}
        # The offset may be beyond the end, at a change of an incomplete log record.
        ends = {
            p: self.ends[p] if offset is None else min(offset, self.ends[p]) for p, offset in found.items()
        }
        return self.starts | ends

    def require_whole(self, past: PastPosition) -> None:
        """Raise `bookmark_expired` if a change after the state is gone by now."""
        self._proven(past.positions, {})

    def _missing(self, positions: Positions, offsets: Offsets) -> tuple[list[int], int | None]:
        """Return the partitions that lack a change after the positions, and when the first one there was written."""
        # A log that was dropped and defined again begins in a later era. Its first change follows from the start.
        from_start = [p for p, at in positions.items() if at == before_the_log()]
        is_first = F.col("partition").isin(from_start) & (F.col("after.offset") == -1) & ~is_again()
        entries = F.explode(F.array(_entry("position", ~is_again()), _entry("after", is_first)))
        # An event that was written again has the position of its change, not of the later write.
        found = (
            self.events(offsets, self.ends)
            .withColumn("after", F.when(is_again(), F.col("position")).otherwise(F.col("after")))
            .select("partition", "stamp", "kind", entries.alias("entry"))
            .where(is_change() | ~F.col("entry.here"))
            .select("partition", "stamp", "entry.*")
            .where(is_behind(positions, F.col("position")))
            .groupBy("partition", "position")
            .agg(F.max("here").alias("here"), F.min(F.when(F.col("here"), F.col("stamp"))).alias("stamp"))
            .groupBy("partition")
            .agg(F.bool_and("here").alias("whole"), F.min("stamp").alias("stamp"))
            .collect()
        )
        stamps = [row["stamp"] for row in found if row["stamp"] is not None]
        return sorted(row["partition"] for row in found if not row["whole"]), min(stamps, default=None)


def names_of(broker: Broker, topic: str, log: str | None) -> KafkaNames:
    """Return the names of a topic's Kafka topics; those of a view if Kafka has the log of one and no other topic.

    `log` is the topic's log, if its name differs from the topic's.
    """
    names, view = KafkaNames.of_log(log or default_log(topic)), KafkaNames.of_view(topic)
    may_be_view = log in (None, view.log) and broker.has(view.log)
    return view if may_be_view and not (broker.has(names.log) and broker.has(names.changes)) else names


def _entry(position: str, here: Column) -> Column:
    return F.struct(F.col(position).alias("position"), here.alias("here"))


def offsets_json(topic: str, offsets: Offsets) -> str:
    """Return offsets in the form of Spark's Kafka source."""
    return json.dumps({topic: {str(partition): offset for partition, offset in offsets.items()}})


def _utc(moment: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment / 1000))
