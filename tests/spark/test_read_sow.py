"""The State of the World as a frame."""

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from sowline.changes.change import Change
from sowline.changes.event import Event
from sowline.client.client import Client
from sowline.config.kafka_names import KafkaNames
from sowline.errors import SowlineError
from sowline.model.position import Position
from sowline.spark import read_sow, sow
from sowline.spark.broker import connected
from sowline.spark.changes_topic import ChangesTopic
from tests.integration.services import system
from tests.property.keys import HOSTILE
from tests.spark.changes import HOUR, Story, Written, again
from tests.waiting import clock_reaches

SCHEMA = "id STRING, n INT"

State = dict[str, tuple[int, str | None]]


def body(key: str, n: int) -> bytes:
    """Return the body of a record."""
    return b'{"id":"%s","n":%d}' % (key.encode(), n)


def state_of(frame: DataFrame) -> State:
    """Return the records of a frame by SOW key, each with the position of its last change."""
    rows = frame.collect()
    assert all(row["id"] == row["_sow_key"] for row in rows)
    assert len(rows) == len({row["_sow_key"] for row in rows})
    return {row["id"]: (row["n"], _position(row["_updated_at"])) for row in rows}


def _position(bookmark: str | None) -> str | None:
    return None if bookmark is None else bookmark.rpartition("-orders:")[2]


def test_a_field_that_is_there_twice(spark: SparkSession, kafka: str, prefix: str) -> None:
    """The last one counts, in objects too, as for every other reader."""
    written = Written(kafka, f"{prefix}orders", partitions=1)
    story = Story()
    story.change(0, "a", b'{"id":"b","n":1,"o":{"x":1,"x":2},"n":2,"o":{"x":3,"x":4},"id":"a"}')
    story.progress(1)
    written.write(*story.events)
    frame = read_sow(spark, written.log, schema=f"{SCHEMA}, o STRUCT<x: INT>", kafka=kafka)
    assert [(row["id"], row["n"], row["o"]["x"]) for row in frame.collect()] == [("a", 2, 4)]


def test_keys_that_publishers_gave(spark: SparkSession, kafka: str, prefix: str) -> None:
    """Whatever they hold, they are read as they were given."""
    written = Written(kafka, f"{prefix}orders")
    story = Story()
    for offset, key in enumerate(HOSTILE):
        story.change(offset, key, b'{"n":%d}' % offset)
    written.write(*story.events)
    frame = read_sow(spark, written.log, schema="n INT", kafka=kafka)
    assert {row["_sow_key"]: row["n"] for row in frame.collect()} == {
        key: offset for offset, key in enumerate(HOSTILE)
    }


def test_newest_of_each_record(spark: SparkSession, kafka: str, prefix: str) -> None:
    """The newest change counts, whatever lies behind it on the topic; what is deleted is not there."""
    written = Written(kafka, f"{prefix}orders", partitions=2)
    story = Story()
    old = [story.change(0, "a", body("a", 1)), story.change(1, "b", body("b", 1)), story.change(2, "c", None)]
    story.change(3, "a", body("a", 2))
    gone = story.change(4, "b", None)
    kept = story.change(10, "c", body("c", 10), nth=2)
    story.progress(11)
    written.write(*story.events, *old, again(kept), again(gone))
    replaced = Story()
    replaced.change(700, "d", body("d", 1))
    replaced.change(701, "e", body("e", 1))
    replaced.era = 1
    replaced.change(0, "d", body("d", 2))
    written.write(*replaced.events, partition=1)
    frame = read_sow(spark, written.log, schema=SCHEMA, kafka=kafka)
    assert state_of(frame) == {"a": (2, "0@3"), "c": (10, "0@10.2"), "d": (2, "1@1/0"), "e": (1, "1@701")}
    times = {
        row["_sow_key"]: row["ms"]
        for row in frame.selectExpr("_sow_key", "unix_millis(_time) AS ms").collect()
    }
    assert times["c"] == kept.time
    assert frame.columns == ["id", "n", "_sow_key", "_updated_at", "_time"]
    plan = frame._jdf.queryExecution().toString()
    assert "Python" not in plan
    assert "KafkaRelation" in plan


def test_record_that_has_not_ended(spark: SparkSession, kafka: str, prefix: str) -> None:
    """Of a log record whose changes are not all written yet, none is shown."""
    written = Written(kafka, f"{prefix}orders")
    written.append(4)
    story = Story()
    for number, key in enumerate("abc"):
        story.change(number, key, body(key, 1))
    story.change(3, "a", None, last=False)
    story.change(3, "b", None, nth=1, last=False)
    written.write(*story.events)
    assert set(state_of(read_sow(spark, written.log, schema=SCHEMA, kafka=kafka))) == {"a", "b", "c"}
    with pytest.raises(SowlineError, match="0@3 is not yet"):
        read_sow(spark, written.log, datetime.now(UTC), schema=SCHEMA, kafka=kafka)
    written.write(story.change(3, "c", None, nth=2))
    assert state_of(read_sow(spark, written.log, schema=SCHEMA, kafka=kafka)) == {}


def random_story(random: random.Random, changes: int) -> Story:
    """Return a story of a few records that come, change and go, some of them several in one log record."""
    story = Story()
    offset = nth = 0
    for number in range(changes):
        key = random.choice("abcdefg")
        offset, nth = (offset, nth + 1) if random.random() < 0.2 else (offset + random.randint(1, 3), 0)
        gone = story.records.get(key) is not None and random.random() < 0.3
        story.change(offset, key, None if gone else body(key, number), nth)
    return story


def model_at(changes: list[Change], past: Position) -> dict[str, int]:
    """Return what each record was at a place."""
    state = {change.sow_key.decode(): change.body for change in changes if change.position <= past}
    return {key: int(of.rpartition(b":")[2][:-1]) for key, of in state.items() if of is not None}


def compacted(changes: list[Change], count: int) -> list[Change]:
    """Return the changes without those of the first `count` that another one of them has replaced."""
    newest = {change.sow_key: change for change in changes[:count]}
    return [change for change in changes[:count] if newest[change.sow_key] is change] + changes[count:]


def test_bookmarks(spark: SparkSession, kafka: str, prefix: str) -> None:
    """A past state is what every record was then, though what it was made of is gone, and old events come again."""
    written = Written(kafka, f"{prefix}orders")
    chance = random.Random(7)
    changes: list[Change] = [event for event in random_story(chance, 60).events if isinstance(event, Change)]
    kept = compacted(changes, 30)
    assert len(kept) < 55
    repeated = [*kept[:45], *kept[20:40], again(kept[10]), *kept[45:]]
    written.write(*repeated)

    def at(past: Position) -> DataFrame:
        return read_sow(spark, written.log, written.at(past), schema=SCHEMA, kafka=kafka)

    for number in (29, 48, 59):
        past = changes[number].position
        found = {key: n for key, (n, _) in state_of(at(past)).items()}
        assert found == model_at(changes, past), f"after {number}"
    with pytest.raises(SowlineError, match=r"min\.compaction\.lag\.ms") as error:
        at(changes[12].position)
    assert error.value.reason == "bookmark_expired"


def test_last_change_of_a_past_record(spark: SparkSession, kafka: str, prefix: str) -> None:
    """A past record tells its last change where that is still there, and nothing where it is gone."""
    written = Written(kafka, f"{prefix}orders")
    story = Story()
    lost = story.change(0, "a", body("a", 1))
    story.change(1, "b", body("b", 1))
    cut = story.change(2, "c", body("c", 1))
    for key in "abc":
        story.change(5, key, body(key, 2), nth="abc".index(key), last=key == "c")
    written.write(*(event for event in story.events if event is not lost))
    frame = read_sow(spark, written.log, written.at(cut.position), schema=SCHEMA, kafka=kafka)
    assert state_of(frame) == {"a": (1, None), "b": (1, "0@1"), "c": (1, "0@2")}
    assert frame.where("_time IS NULL").count() == 1


@pytest.mark.parametrize("hole", ["change", "last change", "original"])
def test_holes(spark: SparkSession, kafka: str, prefix: str, hole: str) -> None:
    """Where a change after the bookmark is gone, by whatever event that shows, the bookmark has expired."""
    written = Written(kafka, f"{prefix}orders")
    story = Story()
    cut = story.change(0, "a", body("a", 1))
    lost = story.change(1, "b", body("b", 1))
    makers: dict[str, Callable[[], list[Event]]] = {
        "change": lambda: [cut, story.change(2, "c", body("c", 1))],
        "last change": lambda: [cut, story.progress(4)],
        "original": lambda: [cut, again(lost), story.progress(1)],
    }
    written.write(*makers[hole]())
    with pytest.raises(SowlineError) as error:
        read_sow(spark, written.log, written.at(cut.position), schema=SCHEMA, kafka=kafka)
    assert error.value.reason == "bookmark_expired"


def test_times(spark: SparkSession, kafka: str, prefix: str) -> None:
    """At a time, each partition stands behind what its log had taken by then, once that is applied."""
    written = Written(kafka, f"{prefix}orders")
    before = _instant()
    written.append(2)
    between = _instant()
    written.append(2)
    story = Story()
    for offset in range(4):
        story.change(offset, "a" if offset % 2 else "b", body("a" if offset % 2 else "b", offset))
    written.write(*story.events)

    def at(ms: int) -> State:
        return state_of(read_sow(spark, written.log, _time_text(ms), schema=SCHEMA, kafka=kafka))

    assert at(before) == {}
    assert at(between) == {"b": (0, "0@0"), "a": (1, "0@1")}
    assert at(_instant()) == {"b": (2, "0@2"), "a": (3, "0@3")}
    written.append()
    with pytest.raises(SowlineError, match="0@4 is not yet") as error:
        at(_instant())
    assert error.value.reason == "behind"
    with pytest.raises(SowlineError, match="a past time"):
        at(_instant() + HOUR)


def test_a_time_with_an_open_transaction(spark: SparkSession, kafka: str, prefix: str) -> None:
    """What it hides may be of that time: the state is not known before the transaction ends."""
    written = Written(kafka, f"{prefix}orders")
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": f"{written.log}-forwards"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(written.log, b"{}", partition=0)
    assert producer.flush(30) == 0
    written.append(2)
    with pytest.raises(SowlineError, match="0@0 is not yet") as error:
        read_sow(spark, written.log, _time_text(_instant()), schema=SCHEMA, kafka=kafka)
    assert error.value.reason == "behind"
    producer.abort_transaction(30)


def _time_text(ms: int) -> str:
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03}Z"


def _instant() -> int:
    """Return a time that is after all that was, and before all that will be."""
    clock_reaches(time.time() + 0.02)
    now = round(time.time() * 1000)
    clock_reaches(time.time() + 0.02)
    return now


def test_offsets_of_bookmarks(spark: SparkSession, kafka: str, prefix: str) -> None:
    """What comes after a bookmark is looked for where it must be, and from the start where clocks were wrong."""
    written = Written(kafka, f"{prefix}orders", has_hole=False)
    written.append(10)
    story = Story()
    changes = [story.change(offset, "a", body("a", offset)) for offset in range(8)]
    written.write(*changes[:4], written=round(time.time() * 1000) - 2 * HOUR)
    written.write(*changes[4:])
    with connected(spark, kafka, {}) as broker:
        topic = ChangesTopic(spark, broker, KafkaNames.of_log(written.log), kafka, {})
        assert topic.held == {0: Position(0, 7)}
        assert topic.past_position({0: Position(0, 5)}).offsets == {0: 5}
        early = topic.past_position({0: Position(0, 2)})
        assert early.offsets == {0: 0}
        assert early.first_written == pytest.approx(time.time() * 1000 - 2 * HOUR, abs=60_000)
        assert topic.past_position({0: Position(0, 7)}).first_written is None
        for past, reason in [(Position(0, 8), "behind"), (Position(1, 0), "invalid bookmark")]:
            with pytest.raises(SowlineError) as error:
                topic.past_position({0: past})
            assert error.value.reason == reason
    # Compaction may take these changes at any moment: the state is read at once.
    frame = read_sow(spark, written.log, written.at(Position(0, 2)), schema=SCHEMA, kafka=kafka)
    assert "ExistingRDD" in frame._jdf.queryExecution().toString()
    assert state_of(frame) == {"a": (2, "0@2")}


def test_frame_that_outlives_its_events(
    spark: SparkSession, kafka: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the changes topic may have lost what a frame is made from, the frame fails."""
    written = Written(kafka, f"{prefix}orders")
    written.write(Story().change(0, "a", body("a", 1)))
    monkeypatch.setattr(sow, "CLOCKS_MS", HOUR + 1000)
    frame = read_sow(spark, written.log, schema=SCHEMA, kafka=kafka)
    with pytest.raises(PySparkException, match=r"bookmark_expired: .* read it again"):
        frame.collect()


def test_what_is_no_topic(spark: SparkSession, kafka: str, prefix: str) -> None:
    """A topic that is not there is named, with where it was looked for; one that holds something else fails."""
    with pytest.raises(SowlineError, match=f"{prefix}a.b.changes at {kafka}") as error:
        read_sow(spark, f"{prefix}a/b", kafka=kafka)
    assert error.value.reason == "invalid topic"
    written = Written(kafka, f"{prefix}orders")
    with pytest.raises(SowlineError, match="give a schema"):
        read_sow(spark, "orders", log=written.log, kafka=kafka)
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(f"{written.log}.changes", b"{}", b"a")
    producer.flush()
    with pytest.raises(PySparkException, match="a change with a 'sow' header at offset 2 of partition 0"):
        read_sow(spark, written.log, schema=SCHEMA, kafka=kafka)


@pytest.mark.long
def test_behind_a_materializer(spark: SparkSession, kafka: str, prefix: str, tmp_path: Path) -> None:
    """A frame holds what a query returns: now, and at the bookmark of an earlier one."""
    name = f"{prefix}orders"
    with system(kafka, tmp_path, [{"name": name, "key": ["/id"], "partitions": 2}]) as made:
        made.create_topics()
        services = [made.service("materializer").start(), made.service("query_service").start()]
        url = [service.wait_ready().url for service in services][1]

        def query() -> tuple[dict[str | None, tuple[str, int, str | None]], str | None]:
            made.wait_settled(url, name)
            with Client(url) as client:
                *records, end = [message for message in client.sow(name) if message.command != "group_begin"]
            found = {one.sow_key: (one.data["id"], one.data["n"], one.updated_at) for one in records}
            return found, end.bookmark

        def frame(at: str | None = None) -> dict[str, tuple[str, int, str]]:
            rows = read_sow(spark, name, at, schema=SCHEMA, kafka=kafka).collect()
            return {row["_sow_key"]: (row["id"], row["n"], row["_updated_at"]) for row in rows}

        made.write(name, *({"id": f"{number}", "n": number % 7} for number in range(40)))
        before, bookmark = query()
        publisher = made.publisher()
        publisher.sow_delete(name, filter="/n = 3")
        for number in range(30, 50):
            publisher.delta_publish(name, {"id": f"{number}", "n": number})
        publisher.flush()
        after, _ = query()
        assert len(after) > len(before) > 0
        assert frame() == after
        assert frame(bookmark) == before
