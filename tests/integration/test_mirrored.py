"""Logs whose records say where they were first written, and lie: of other logs, by a mirror or by somebody's hand."""

from pathlib import Path

import orjson
import pytest

from sowline.kafka.admin import ensure_topics
from sowline.kafka.clients import exact_producer
from sowline.model.key import partition_of
from sowline.model.position import Position
from tests.integration.recovery_rig import PARTITIONS, Rig
from tests.waiting import SECONDS_MAX

RECORDS = 80


@pytest.fixture
def rig(kafka: str, prefix: str, tmp_path: Path) -> Rig:
    """A topic of the test's own."""
    return made(kafka, f"{prefix}source", tmp_path / "source")


def made(kafka: str, name: str, directory: Path) -> Rig:
    """Return a topic with an empty log."""
    rig = Rig(kafka, name, directory)
    ensure_topics(rig.settings.kafka_client, rig.topics)
    return rig


def write_misplaced(rig: Rig, start: int) -> None:
    """Write records, each to the partition that it does not belong in."""
    producer = exact_producer(rig.settings.kafka_client)
    for id in range(start, start + RECORDS):
        elsewhere = 1 - partition_of(str(id), PARTITIONS)
        producer.produce(rig.topic.log, orjson.dumps({"id": id}), None, elsewhere)
    assert producer.flush(SECONDS_MAX) == 0


def write_origin(rig: Rig, origin: str, id: int) -> None:
    """Write a record to the partition that it belongs in, with an origin in another partition."""
    partition = partition_of(str(id), PARTITIONS)
    producer = exact_producer(rig.settings.kafka_client)
    header = ("sow.origin", origin.format(1 - partition).encode())
    producer.produce(rig.topic.log, orjson.dumps({"id": id}), None, partition, headers=[header])
    assert producer.flush(SECONDS_MAX) == 0


def ids(rig: Rig) -> set[int]:
    """Return which records there are; nobody may work."""
    states = [rig.state(partition)[0] for partition in range(PARTITIONS)]
    return {orjson.loads(record.body)["id"] for state in states for record in state.values() if record.body}


def test_an_origin_of_another_log_does_not_end_forwarding(rig: Rig) -> None:
    """One record, whose offset is far beyond the log's: it is dropped and counted, and all others arrive."""
    for id in range(4):
        write_origin(rig, "AAAA-bbb/CCC+dd111222w:{}@99999999999", id)
    write_misplaced(rig, 100)
    with rig.working() as worker:
        counts = rig.settle(worker).counts
    assert (counts.foreign_copies, counts.repeats, dict(counts.dead)) == (4, 0, {})
    assert ids(rig) == set(range(100, 100 + RECORDS))
    rig.check()


def test_an_origin_without_a_log_is_refused(rig: Rig) -> None:
    """It is a dead letter, which says what was expected, and all others arrive."""
    write_origin(rig, "{}@99999999999", 1)
    write_misplaced(rig, 100)
    with rig.working() as worker:
        counts = rig.settle(worker).counts
    assert dict(counts.dead) == {"bad header": 1}
    assert ids(rig) == set(range(100, 100 + RECORDS))


def test_a_log_mirrored_with_its_headers_is_applied_once(rig: Rig, kafka: str, tmp_path: Path) -> None:
    """Its copies are dropped, its originals forwarded, and so is what is written to the mirror later.

    So it is in whatever order the partitions are applied, from the mirror's log or from its changes.
    """
    write_misplaced(rig, 0)
    rig.work()
    assert ids(rig) == set(range(RECORDS))
    mirror = made(kafka, f"{rig.name}-mirror", tmp_path / "mirror")
    copy_log(rig, mirror)
    with mirror.working() as worker:
        counts = mirror.settle(worker).counts
    assert (counts.foreign_copies, counts.forwards) == (RECORDS, RECORDS)
    assert ids(mirror) == set(range(RECORDS))
    write_misplaced(mirror, 1000)
    mirror.work()
    assert ids(mirror) == {*range(RECORDS), *range(1000, 1000 + RECORDS)}
    mirror.check()


def test_a_log_that_is_replaced_by_its_own_mirror(rig: Rig, kafka: str, tmp_path: Path) -> None:
    """The new log has another id: an era begins, the previous origins count no more, and nothing is lost."""
    write_misplaced(rig, 0)
    rig.work()
    kept = made(kafka, f"{rig.name}-kept", tmp_path / "kept")
    copy_log(rig, kept)
    rig.delete(rig.topic.log)
    ensure_topics(rig.settings.kafka_client, rig.topics)
    copy_log(kept, rig)
    write_misplaced(rig, 1000)
    assert rig.work().stopped == {}
    assert ids(rig) == {*range(RECORDS), *range(1000, 1000 + RECORDS)}
    for partition in range(PARTITIONS):
        checkpoint = rig.state(partition)[1]
        assert checkpoint.position > Position(1, 0)
        assert checkpoint.log_id == rig.cluster.topic_id(rig.topic.log)
        assert rig.compacted(partition) == rig.state(partition)[0]


def copy_log(source: Rig, target: Rig) -> None:
    """Copy each partition of a log as it is, with all headers."""
    producer = exact_producer(target.settings.kafka_client)
    for partition in range(PARTITIONS):
        for record in source.log(partition):
            headers = list(record.headers or [])
            producer.produce(target.topic.log, record.value, record.key, partition, headers=headers)  # type: ignore[arg-type]
    assert producer.flush(SECONDS_MAX) == 0
