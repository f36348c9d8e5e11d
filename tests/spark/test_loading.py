"""The Spark reads load a changes topic by the rule of `changes_reader`, over random histories too."""

import pytest
from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession

from sowline.changes.change import AGAIN, Change
from sowline.changes.progress import ChangesId, Progress
from sowline.changes.ranking import NewestEvents, RelativeAge
from sowline.changes.wholeness import Wholeness, is_of
from sowline.errors import SowlineError
from sowline.model.position import Position
from sowline.spark import read_changes, read_sow
from sowline.spark.events import events
from sowline.spark.loading import load_facts
from sowline.spark.sow import _newest
from tests.property.histories import TOPIC_ID, History, random_history
from tests.spark.changes import Story, Written, again
from tests.spark.conftest import Collect

HISTORIES = 250
SCHEMA = "id STRING, n INT"


def body(key: str, n: int) -> bytes:
    """Return the body of a record."""
    return b'{"id":"%s","n":%d}' % (key.encode(), n)


LATE = [("a", body("a", 2)), ("b", None), ("c", body("c", 1))]
"""What a stalled owner writes: an update, a deletion and a new record."""

Held = dict[str, tuple[Position, str]]
"""Records by SOW key: position and body."""


def loaded(history: History, start: int) -> tuple[bool, Held]:
    """Load a history by the rule itself: whether it is whole, and what there is."""
    wholeness, newest = Wholeness(str(ChangesId(TOPIC_ID, start))), NewestEvents()
    positions, bodies = dict[bytes, Position](), dict[bytes, bytes | None]()
    for offset, event in history:
        wholeness.saw([event], [offset])
        if not is_of(event, TOPIC_ID):
            continue
        newest.saw(event)
        if not isinstance(event, Change):
            continue
        if newest.relative_age(event, positions.get(event.sow_key)) is RelativeAge.NEWER:
            positions[event.sow_key], bodies[event.sow_key] = event.position, event.body
            newest.keep(event, is_stored=True)
    there = {
        key.decode(): (positions[key], body.decode()) for key, body in bodies.items() if body is not None
    }
    return wholeness.is_whole, there


def frame_of(spark: SparkSession, histories: list[History]) -> DataFrame:
    """Return histories as Kafka records of a topic, each in a partition of its own."""
    rows = []
    for partition, history in enumerate(histories):
        for offset, event in history:
            headers: list[tuple[str, bytes | None]] = []
            value: bytes | None
            if isinstance(event, Progress):
                key, value = event.key, event.value()
            else:
                key, value, headers = event.sow_key, event.value, list(event.headers())
            rows.append((partition, offset, bytearray(key), value and bytearray(value), headers, 0))
    schema = (
        "partition INT, offset BIGINT, key BINARY, value BINARY,"
        " headers ARRAY<STRUCT<key: STRING, value: BINARY>>, ms BIGINT"
    )
    frame = spark.createDataFrame(rows, schema)
    return events(frame.selectExpr("*", "timestamp_millis(ms) AS timestamp"))


@pytest.mark.parametrize("first", [0, HISTORIES])
def test_the_same_rule(spark: SparkSession, first: int) -> None:
    """Of histories with eras, stalled owners, refills and compaction, both find the same records."""
    histories = [random_history(seed) for seed in range(first, first + HISTORIES)]
    frame = frame_of(spark, histories).cache()
    starts = {number: (first + number) % 3 * 2 for number in range(len(histories))}
    facts = load_facts(frame, TOPIC_ID, starts)
    found: list[Held] = [{} for _ in histories]
    for row in _newest(frame, facts).where("body IS NOT NULL").collect():
        position = Position(row["position"]["era"], row["position"]["offset"], row["position"]["index"])
        found[row["partition"]][row["sow_key"]] = position, row["body"]
    whole = 0
    for number, history in enumerate(histories):
        is_whole, there = loaded(history, starts[number])
        whole += is_whole
        seed = first + number
        assert (number in facts and facts[number].is_whole) == is_whole, f"seed {seed}: {history}"
        assert found[number] == there, f"seed {seed}: {history}"
    assert HISTORIES / 10 < whole < HISTORIES * 9 / 10, "both kinds are tried"


@pytest.mark.long
@pytest.mark.parametrize("is_repaired", [False, True])
def test_a_stalled_owner_of_an_ended_era(
    spark: SparkSession, kafka: str, prefix: str, collect: Collect, is_repaired: bool
) -> None:
    """What it updates, deletes or inserts after a later era has begun is in no state and in no stream."""
    written = Written(kafka, f"{prefix}orders")
    story = Story()
    true = [story.change(n, key, body(key, n)) for n, key in enumerate("ab", 50)]
    stalled = Story(after=story.held)
    stalled.records = dict(story.records)
    story.era = 1
    begin = story.progress(9)
    late = [stalled.change(107 + n, key, value) for n, (key, value) in enumerate(LATE)]
    written.write(*true, begin, *late)
    if is_repaired:
        repairs = [replace(again(change), emitted_in=1) for change in true]
        nothing = Change(b"c", None, None, Position(1, -1), Position(1, -1), AGAIN, 7)
        written.write(*repairs, nothing, begin)
    for at in (None, written.at(Position(1, 9))):
        rows = read_sow(spark, written.log, at, schema=SCHEMA, kafka=kafka).collect()
        assert {row["id"]: row["n"] for row in rows} == {"a": 50, "b": 51}
    rows = collect(read_changes(spark, written.log, schema=SCHEMA, kafka=kafka))
    assert [row["after"]["n"] for row in rows if row["op"] != AGAIN] == [50, 51]


def test_a_stream_stops_where_an_era_begins(
    spark: SparkSession, kafka: str, prefix: str, collect: Collect
) -> None:
    """It can't tell a late event of the era before from a change; started again, it can."""
    written = Written(kafka, f"{prefix}orders")
    story = Story()
    written.write(story.change(0, "a", body("a", 1)))
    before = read_changes(spark, written.log, schema=SCHEMA, kafka=kafka)
    story.era = 1
    written.write(story.progress(-1), story.change(0, "a", body("a", 2)))
    with pytest.raises(Exception, match=r"a new era of .* began: start the stream again"):
        collect(before)
    after = read_changes(spark, written.log, schema=SCHEMA, kafka=kafka)
    assert [row["after"]["n"] for row in collect(after)] == [1, 2]


def test_a_refill_is_no_state(spark: SparkSession, kafka: str, prefix: str) -> None:
    """Of a topic that is being filled again nothing is read; its sentence says what to do."""
    written = Written(kafka, f"{prefix}orders")
    story = Story()
    written.write(again(story.change(7, "a", b'{"id":"a","n":1}')))
    for at in (None, written.at(Position(0, 7))):
        with pytest.raises(SowlineError, match="its owner is still filling it again") as error:
            read_sow(spark, written.log, at, schema=SCHEMA, kafka=kafka)
        assert error.value.reason == "changes incomplete"
    written.write(story.progress(7))
    assert read_sow(spark, written.log, schema=SCHEMA, kafka=kafka).count() == 1
