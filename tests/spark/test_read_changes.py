"""The changes of a topic as a stream."""

from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from sowline.errors import SowlineError
from sowline.language.emodb.writes import Writes
from sowline.model.bookmark import format_position
from sowline.model.position import Position, before_the_log
from sowline.spark import read_changes
from tests.spark.changes import Story, Written, again
from tests.spark.conftest import Collect

SCHEMA = "id STRING, n INT"


def names_of(rows: list[Row]) -> list[str]:
    """Return the positions of changes as their bookmarks have them."""
    return [row["bookmark"].rpartition("@")[2] for row in rows]


def test_columns(spark: SparkSession, kafka: str, prefix: str, collect: Collect) -> None:
    """A row has the record before and after, what differs, and what the change says of itself."""
    written = Written(kafka, f"{prefix}orders")
    story = Story()
    new = story.change(
        3, "a", b'{"id":"a","n":1,"to":{"city":"Rome"},"m":{"x":1},"l":[1,2]}', correlation="c7"
    )
    story.change(
        4, "a", b'{"id":"a","n":2,"to":{"city":"Bern"},"m":{"x":1},"l":[1,2]}', expires=new.time + 500
    )
    story.change(5, "a", b'{"id":"a","n":2,"m":{"x":2},"l":[1,2],"other":7}', nth=1, last=False)
    story.change(5, "b", b'{"id":"b","n":"many"}', nth=2)
    story.change(6, "a", None)
    story.change(7, "b", None, key_text="b", writes=Writes(2, "0" * 32, 0, 1, 1))
    story.progress(9)
    written.write(*story.events)
    schema = (
        "id STRING, n INT, to STRUCT<city: STRING>, m MAP<STRING, INT>, l ARRAY<INT>, _corrupt_record STRING"
    )
    frame = read_changes(spark, written.log, schema=schema, kafka=kafka)
    rows = collect(frame)
    assert names_of(rows) == ["3", "4", "5.1", "5.2", "6", "7"]
    first, second, third, misfit, gone, document = rows
    record = Row(id="a", n=1, to=Row(city="Rome"), m={"x": 1}, l=[1, 2], _corrupt_record=None)
    assert (first.before, first.after, first.delta) == (None, record, record)
    assert first.changed == ["id", "n", "to", "m", "l"]
    assert (first.op, first.reason, first.correlation, first.expires, first["last"]) == (
        "publish", None, "c7", None, True,
    )  # fmt: skip
    assert first.bookmark == format_position(written.log, 0, new.position)
    assert first.position == Row(partition=0, era=0, offset=3, index=0)
    assert (first.sow_key, third["last"]) == ("a", False)
    assert (second.before, second.changed) == (record, ["n", "to"])
    assert second.delta.asDict() == dict.fromkeys(second.delta.asDict()) | {"n": 2, "to": Row(city="Bern")}
    assert (third.changed, third.delta.to, third.delta.m, third.after.to) == (
        ["to", "m"],
        None,
        {"x": 2},
        None,
    )
    assert (misfit.after.id, misfit.after.n) == ("b", None)
    assert misfit.after._corrupt_record == '{"id":"b","n":"many"}'
    assert misfit.changed == ["id"]
    assert (gone.after, gone.delta, gone.op, gone.reason) == (None, None, "delete", "deleted")
    assert (document.after, document.op) == (None, "delete")
    assert (gone.before, gone.changed) == (third.after, ["id", "n", "m", "l"])
    spans = [(second.expires - first.time).total_seconds(), (second.time - first.time).total_seconds()]
    assert spans == [0.5, 0.001]
    assert "Python" not in frame._jdf.queryExecution().toString()


def test_after_a_bookmark(spark: SparkSession, kafka: str, prefix: str, collect: Collect) -> None:
    """A stream begins with the change after its bookmark, whatever old events come again behind it."""
    written = Written(kafka, f"{prefix}orders", partitions=2)
    written.append(9)
    story = Story()
    changes = [story.change(number, "ab"[number % 2], b'{"id":"x","n":%d}' % number) for number in range(6)]
    written.write(
        *changes[2:4], changes[2], again(changes[3]), *changes[4:], again(changes[5]), story.progress(8)
    )
    other = Story()
    other.change(4, "c", b'{"id":"c","n":4}')
    written.write(*other.events, partition=1)

    def after(*positions: Position) -> DataFrame:
        return read_changes(spark, written.log, start=written.at(*positions), schema=SCHEMA, kafka=kafka)

    rows = collect(after(Position(0, 3), Position(0, -1)))
    assert names_of(rows) == ["4", "5", "4"]
    assert [row.position.partition for row in rows] == [0, 0, 1]
    with pytest.raises(SowlineError, match="0@0 are no longer kept") as error:
        after(Position(0, 0), Position(0, 4))
    assert error.value.reason == "bookmark_expired"
    with pytest.raises(SowlineError, match=r"\[1\] to be at 5, but it is at 4") as error:
        after(Position(0, 3), Position(0, 5))
    assert error.value.reason == "behind"
    with pytest.raises(SowlineError, match="a bookmark like"):
        read_changes(spark, written.log, start="yesterday", schema=SCHEMA, kafka=kafka)


def _collect(rows: list[Row], batch: DataFrame, _: int) -> None:
    rows.extend(batch.collect())


def test_beginnings(spark: SparkSession, kafka: str, prefix: str, tmp_path: Path) -> None:
    """`earliest` has what compaction has left, also as it was written again; `latest` is what comes from now on."""
    written = Written(kafka, f"{prefix}orders")
    story = Story()
    kept = story.change(0, "a", b'{"id":"a","n":1}')
    written.write(again(kept), story.progress(1))
    found: dict[str, list[Row]] = {"earliest": [], "latest": []}
    queries = []
    for start, rows in found.items():
        frame = read_changes(spark, written.log, start=start, schema=SCHEMA, kafka=kafka)
        writer = frame.writeStream.foreachBatch(partial(_collect, rows))
        queries.append(writer.option("checkpointLocation", str(tmp_path / start)).start())
        queries[-1].processAllAvailable()
    written.write(again(kept), story.change(2, "a", b'{"id":"a","n":2}'))
    for query in queries:
        query.processAllAvailable()
        query.stop()
    assert [(row.op, row.after.n) for row in found["earliest"]] == [
        ("again", 1),
        ("again", 1),
        ("publish", 2),
    ]
    assert [(row.op, row.after.n) for row in found["latest"]] == [("publish", 2)]
    first = found["earliest"][0]
    assert (first.before, first.delta, first.changed) == (None, None, None)


def test_repeats(spark: SparkSession, kafka: str, prefix: str, collect: Collect) -> None:
    """What a stalled owner has written once more comes under the bookmark that it had, by which it is dropped."""
    written = Written(kafka, f"{prefix}orders")
    story = Story()
    changes = [story.change(number, "a", b'{"id":"a","n":%d}' % number) for number in range(3)]
    written.write(*changes, *changes[:2], story.change(3, "a", None))
    frame = read_changes(spark, written.log, schema=SCHEMA, kafka=kafka)
    assert names_of(collect(frame)) == ["0", "0", "1", "1", "2", "3"]
    once = frame.withWatermark("written", "1 hour").dropDuplicatesWithinWatermark(["sow_key", "bookmark"])
    assert names_of(collect(once)) == ["0", "1", "2", "3"]


def test_a_log_that_begins_in_a_later_era(
    spark: SparkSession, kafka: str, prefix: str, collect: Collect
) -> None:
    """From the start, nothing is missing; after a bookmark of the log before it, everything is."""
    written = Written(kafka, f"{prefix}orders")
    story = Story(era=1, after=before_the_log(1))
    story.progress(-1)
    for offset in (0, 1):
        story.change(offset, "a", b'{"id":"a"}')
    written.write(*story.events)
    read = partial(read_changes, spark, written.log, schema=SCHEMA, kafka=kafka)
    assert names_of(collect(read(start=written.at(before_the_log())))) == ["1/0", "1/1"]
    with pytest.raises(SowlineError) as error:
        read(start=written.at(Position(0, 0)))
    assert error.value.reason == "bookmark_expired"
