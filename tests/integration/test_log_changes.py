"""A log that is not left alone: partitions are added, or its start goes.

`tests/unit/materializer/partition/test_recovery.py` has one that is replaced.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import NewPartitions
from structlog.testing import capture_logs

from sowline.kafka.admin import ensure_topics
from sowline.kafka.clients import exact_producer
from sowline.model.position import Position
from sowline_materializer.service import Materializer
from tests.integration.recovery_rig import PARTITIONS, Rig
from tests.waiting import SECONDS_MAX, wait_for

EXTRA = PARTITIONS
"""The number of the partition that is added."""


@pytest.fixture
def rig(kafka: str, prefix: str, tmp_path: Path) -> Rig:
    """A topic of the test's own, with something of everything on its log."""
    rig = Rig(kafka, f"{prefix}log", tmp_path / "sow")
    soon = {"topic.metadata.refresh.interval.ms": "300"}
    rig.settings = rig.settings.model_copy(update={"kafka_options": soon})
    ensure_topics(rig.settings.kafka_client, rig.topics)
    rig.write()
    return rig


def add_a_partition(rig: Rig) -> None:
    """Add one to the log, and write records to it: good ones, a repeat and a bad one."""
    rig.admin.create_partitions([NewPartitions(rig.topic.log, EXTRA + 1)])[rig.topic.log].result(SECONDS_MAX)
    wait_for(
        lambda: len(rig.admin.list_topics(rig.topic.log, 10).topics[rig.topic.log].partitions) == EXTRA + 1,
        "the partition to be there",
    )
    producer = exact_producer(rig.settings.kafka_client)
    about = [("sow.publisher", b"late"), ("sow.sequence", b"1")]
    for id in range(10, 30):
        producer.produce(rig.topic.log, b'{"id":%d,"late":true}' % id, None, EXTRA, headers=list(about))
    producer.produce(rig.topic.log, b'{"id":10,"late":false}', None, EXTRA, headers=list(about))
    producer.produce(rig.topic.log, b"{", None, EXTRA)
    assert producer.flush(SECONDS_MAX) == 0


def late(rig: Rig) -> set[str]:
    """Return the key texts of the records that were written to the added partition, as the owners hold them."""
    states = [rig.state(partition)[0] for partition in range(PARTITIONS)]
    return {r.key_text for state in states for r in state.values() if r.body and b'"late":true' in r.body}


def check_whole(rig: Rig) -> None:
    """Every record of the added partition is where it belongs, and the bad one among the dead letters."""
    assert late(rig) == {str(id) for id in range(10, 30)}
    rig.check()
    assert rig.state(EXTRA)[0] == {}
    dead = [message.key() for message in rig.messages(rig.topic.kafka.dead, 0)]
    assert f"{EXTRA}@21".encode() in dead


@contextmanager
def running(rig: Rig) -> Iterator[Materializer]:
    """Run worker after worker, as the service does."""
    stop = threading.Event()
    materializer = Materializer(rig.settings, rig.topics, stop)
    thread = threading.Thread(target=materializer.run)
    thread.start()
    try:
        yield materializer
    finally:
        stop.set()
        thread.join(SECONDS_MAX)
    assert not thread.is_alive()


def positions(materializer: Materializer) -> dict[int, int]:
    """Return the offset of the last record that was applied, by partition."""
    now = {} if materializer._worker is None else materializer._statistics().positions
    return {topic_partition[1]: Position.parse(at).offset for topic_partition, at in now.items()}


def settle(rig: Rig, materializer: Materializer, count: int) -> None:
    """Wait until so many partitions are read to their ends, with all that was forwarded meanwhile."""

    def settled() -> bool:
        ends = rig.cluster.newest_ends(rig.topic.log, range(count))
        return positions(materializer) == {partition: end - 1 for partition, end in ends.items()}

    wait_for(settled, "all to be applied")


def test_partitions_are_added(rig: Rig) -> None:
    """The number of the definition stays; what lands in the new ones is forwarded, under a worker and before one."""
    with capture_logs() as logs, running(rig) as materializer:
        settle(rig, materializer, PARTITIONS)
        add_a_partition(rig)
        settle(rig, materializer, EXTRA + 1)
    check_whole(rig)
    assert 3 in [line["partitions"] for line in logs if line["event"] == "partitions beyond the definition's"]
    before = rig.cluster.ends(rig.topic.log, range(PARTITIONS))
    with running(rig) as materializer:
        settle(rig, materializer, EXTRA + 1)
    assert rig.cluster.ends(rig.topic.log, range(PARTITIONS)) == before, "nothing is forwarded twice"
    check_whole(rig)


def test_a_start_that_was_applied_is_not_missed(rig: Rig) -> None:
    """A log that is cut below the position goes on in its era, and what comes later is applied."""
    rig.work()
    state = [rig.state(partition)[0] for partition in range(PARTITIONS)]
    for partition in range(PARTITIONS):
        rig.cut_log(partition, rig.state(partition)[1].next_offset - 2)
    assert rig.work().stopped == {}
    assert [rig.state(partition)[0] for partition in range(PARTITIONS)] == state
    rig.write(12)
    assert rig.work().stopped == {}
    for partition in range(PARTITIONS):
        records, checkpoint = rig.state(partition)
        assert checkpoint.position.era == 0
        assert rig.compacted(partition) == records != state[partition]


def test_every_record_of_a_log_ends_somewhere(rig: Rig) -> None:
    """What was cut away unseen apart, each is applied, a repeat, or a dead letter: none goes without a word."""
    rig.work()
    rig.write(12)
    begin = {partition: rig.state(partition)[1].next_offset for partition in range(PARTITIONS)}
    rig.cut_log(0, begin[0] + 10)
    rig.accept_loss = True
    now = rig.work()
    assert now.stopped == {}
    for partition in range(PARTITIONS):
        records, checkpoint = rig.state(partition)
        assert checkpoint.position.era == (1 if partition == 0 else 0)
        assert rig.compacted(partition) == records
    bad = {(p, r.offset) for p in range(PARTITIONS) for r in rig.log(p) if r.value == b"{"}
    letters = {message.key() for message in rig.messages(rig.topic.kafka.dead, 0)}
    assert bad
    assert {f"{partition}@{offset}".encode() for partition, offset in bad} <= letters
