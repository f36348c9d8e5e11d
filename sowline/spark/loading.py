"""The rule of loading a changes topic as Spark SQL expressions: which events count, and whether any are missing.

It is the rule of `sowline.changes.changes_reader`, for whole topics at once. `tests/spark/test_loading.py` checks
over random histories that both agree.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from sowline.changes.progress import UNFILLED
from sowline.spark.broker import Offsets
from sowline.spark.events import PROGRESS, is_again, is_change


class Facts(NamedTuple):
    """The facts that the events of one partition show about a load that has read all of them.

    `is_whole` is that of `sowline.changes.wholeness.Wholeness`. `eras` are the eras that began in the partition, each
    with the offset of its first event; era 0 begins before all.
    """

    is_whole: bool
    eras: tuple[tuple[int, int], ...]


NOTHING_READ = Facts(is_whole=False, eras=())
"""Nothing is known about an empty partition."""


def load_facts(events: DataFrame, topic_id: str, starts: Offsets) -> dict[int, Facts]:
    """Read the events of a changes topic with this id once; return the facts of each partition that has events.

    `starts` are the offsets at which its partitions begin: above 0, the head of one was deleted.
    One task sorts the events of a partition: without bodies they are a few bytes each.
    """
    order = Window.partitionBy("partition").orderBy("kafka_offset")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    counts = is_change() | _is_of(topic_id)
    read = events.select(
        "partition", "kafka_offset", "kind", "position", "after", "op", "changes_id", "rank_era"
    )
    noted = read.withColumns(
        {
            "newest": F.max(F.when(counts, F.col("position"))).over(before),
            "era": F.coalesce(F.max(F.when(counts, F.col("rank_era"))).over(before), F.lit(0)),
            "follows": F.col("kafka_offset") == F.row_number().over(order) - 1,
        }
    )
    found = noted.groupBy("partition").agg(
        F.max(F.when(_is_in_group(), F.col("kafka_offset"))).alias("in_group"),
        F.max(F.when(_is_word(topic_id, starts), F.col("kafka_offset"))).alias("word"),
        F.collect_list(
            F.when(counts & (F.col("rank_era") > F.col("era")), F.struct("rank_era", "kafka_offset"))
        ).alias("eras"),
    )
    return {
        row["partition"]: Facts(
            row["word"] is not None and (row["in_group"] is None or row["in_group"] < row["word"]),
            tuple(sorted((era["rank_era"], era["kafka_offset"]) for era in row["eras"])),
        )
        for row in found.collect()
    }


def _is_of(topic_id: str) -> Column:
    """Whether an event may describe the topic with this id."""
    return F.substring_index(_changes_id(), "@", 1).isin("", UNFILLED, topic_id)


def _changes_id() -> Column:
    """Return which changes a progress event describes, as a `ChangesId`."""
    return F.coalesce(F.col("changes_id"), F.lit(""))


def _is_in_group() -> Column:
    """Whether an event shows that events of its owner are missing, which are yet to be written again."""
    is_newer = F.col("newest").isNull() | (F.col("position") > F.col("newest"))
    has_gap = F.col("follows") & (F.col("newest").isNull() | (F.col("after") > F.col("newest")))
    # As for all readers (sowline/changes/wholeness.py): an owner that fills the topic again says so.
    is_unfilled = (F.col("kind") == PROGRESS) & _is_newest() & (_changes_id() == UNFILLED)
    return (is_change() & is_newer & (is_again() | has_gap)) | is_unfilled


def _is_newest() -> Column:
    """Whether an event reaches the newest position before it."""
    return F.col("newest").isNull() | (F.col("position") >= F.col("newest"))


def _is_word(topic_id: str, starts: Offsets) -> Column:
    """Whether an event shows that everything before it is present."""
    start = F.lit(0)
    for number, offset in starts.items():
        start = F.when(F.col("partition") == number, F.lit(offset)).otherwise(start) if offset else start
    known = F.regexp_extract(_changes_id(), "@([0-9]+)$", 1)
    reaches = F.when(known == "", start == 0).otherwise(known.try_cast("bigint") >= start)
    is_filled = (_changes_id() != UNFILLED) & reaches
    return (F.col("kind") == PROGRESS) & _is_newest() & _is_of(topic_id) & is_filled


def is_ended(facts: Mapping[int, Facts]) -> Column:
    """Whether the owner of an ended era wrote an event after a later era had begun: it does not count."""
    begun = [
        F.struct(F.lit(partition).alias("partition"), F.lit(era).alias("era"), F.lit(offset).alias("offset"))
        for partition, of in facts.items()
        for era, offset in of.eras
    ]
    if not begun:
        return F.lit(False)
    return F.exists(
        F.array(*begun),
        lambda of: (
            (of["partition"] == F.col("partition"))
            & (of["era"] > F.col("rank_era"))
            & (of["offset"] < F.col("kafka_offset"))
        ),
    )


def rank() -> Column:
    """Return the rank of an event; the event with the highest rank of its key counts."""
    return F.struct("rank_era", "position")
