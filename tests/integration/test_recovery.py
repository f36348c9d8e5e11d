"""The sources of recovery on a real Kafka: whatever was lost, a partition ends in the one state of its log."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType

from sowline.changes.change import Change
from sowline.commands.command import LogRecord
from sowline.kafka.admin import ensure_topics
from sowline.kafka.clients import exact_producer
from sowline.model.position import Position
from sowline_materializer.core.batch_state import BatchState
from tests.integration.recovery_rig import (
    BASE,
    PARTITIONS,
    Rig,
    flip_a_byte,
    leave_half_made,
    lose_both,
    lose_changes,
    lose_nothing,
    lose_store,
    truncate_manifest,
)
from tests.waiting import SECONDS_MAX, wait_for


@pytest.fixture
def rig(kafka: str, prefix: str, tmp_path: Path) -> Rig:
    """A topic of the test's own, with something on its log that no worker has seen."""
    rig = Rig(kafka, f"{prefix}source", tmp_path / "sow")
    ensure_topics(rig.settings.kafka_client, rig.topics)
    rig.write()
    producer = exact_producer(rig.settings.kafka_client)
    producer.produce(rig.topic.log, b'{"id":"%s"}' % BASE.encode(), None, 0)
    assert producer.flush(SECONDS_MAX) == 0
    return rig


@pytest.fixture
def worked(rig: Rig) -> Rig:
    """The same after a worker has applied it all and ended, and more was written."""
    rig.work()
    rig.check()
    rig.write(12)
    return rig


@pytest.mark.parametrize(
    "lose",
    [lose_nothing, flip_a_byte, truncate_manifest, leave_half_made, lose_store, lose_changes, lose_both],
)
def test_all_recovery_sources_lead_to_one_state(worked: Rig, lose: Callable[[Rig], None]) -> None:
    """Whatever is lost, the state is that of the log, and so is what the changes load to."""
    lose(worked)
    worked.work()
    worked.check()
    assert worked.state()[1].position.era == 0


def test_damage_is_met_again_and_again(worked: Rig) -> None:
    """A partition recovers from each damage, also from one that follows another."""
    for lose in (flip_a_byte, lose_store, truncate_manifest):
        lose(worked)
        worked.work()
    worked.check()


def test_records_that_are_gone_unseen_stop_their_partition(worked: Rig) -> None:
    """It says which, the others go on, and the worker lives; with `accept_loss` a new era goes on without them."""
    before = worked.state()[0]
    end = worked.cluster.ends(worked.topic.log, [0])[0]
    worked.cut_log(0, end)
    next_offset = worked.state()[1].next_offset
    now = worked.work()
    assert list(now.stopped) == [worked.topic_partition(0)]
    assert f"offsets {next_offset} to {end - 1} are gone" in now.stopped[worked.topic_partition(0)]
    assert "--accept-loss" in now.stopped[worked.topic_partition(0)]
    assert worked.state(1)[0] == worked.made_by_log(1)
    worked.accept_loss = True
    worked.work()
    records, checkpoint = worked.state()
    assert checkpoint.position.era == 1
    kept = {key: record for key, record in records.items() if record.position.era == 0}
    assert BASE in {record.key_text for record in kept.values()}
    assert kept.items() <= before.items()
    assert worked.compacted() == records
    worked.write(24)
    worked.work()
    assert worked.state()[1].position.era == 1
    assert worked.compacted() == worked.state()[0]


def test_an_unforeseen_exception_stops_its_partition(worked: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops before the record, the others go on, and a worker without the fault continues there."""
    # The native core would apply the record.
    worked.settings = worked.settings.model_copy(update={"core": "python"})
    fails_at = worked.cluster.ends(worked.topic.log, [0])[0] + 5
    worked.write(24)
    begin = BatchState.begin

    def failing(state: BatchState, record: LogRecord) -> None:
        if (state.partition, record.offset) == (0, fails_at):
            raise TypeError("nobody foresaw this")
        begin(state, record)

    with monkeypatch.context() as patched:
        patched.setattr(BatchState, "begin", failing)
        now = worked.work()
        assert list(now.stopped) == [worked.topic_partition(0)]
        assert f"the log record at offset {fails_at}, got TypeError" in now.stopped[worked.topic_partition(0)]
        assert worked.state()[1].next_offset == fails_at
        assert worked.state(1)[0] == worked.made_by_log(1)
    assert worked.work().stopped == {}
    worked.check()


def test_a_log_without_its_begin_is_no_recovery_source(worked: Rig) -> None:
    """With the store and the changes gone too, the partition says so and stops."""
    lose_both(worked)
    worked.cut_log(0, 5)
    now = worked.work()
    assert "begins at offset 5" in now.stopped[worked.topic_partition(0)]
    worked.accept_loss = True
    assert worked.work().stopped == {}


def test_a_replaced_log_begins_an_era(rig: Rig) -> None:
    """The state is kept, what the new log says comes on top, and a later load knows both."""
    rig.work()
    before = [rig.state(partition)[0] for partition in range(PARTITIONS)]
    rig.delete(rig.topic.log)
    rig.work()
    for partition in range(PARTITIONS):
        records, checkpoint = rig.state(partition)
        assert (records, checkpoint.position) == (before[partition], Position(1, -1))
    rig.write(40)
    rig.work()
    after = [rig.state(partition) for partition in range(PARTITIONS)]
    lose_store(rig)
    rig.work()
    for partition in range(PARTITIONS):
        records, checkpoint = rig.state(partition)
        assert (records, checkpoint.position, checkpoint.origins) == (
            after[partition][0],
            after[partition][1].position,
            after[partition][1].origins,
        )
        assert checkpoint.position.era == 1


def stale(rig: Rig) -> list[Change]:
    """Return the oldest change of each key of partition 0."""
    oldest: dict[bytes, Change] = {}
    for event in rig.changes(0):
        if isinstance(event, Change):
            oldest.setdefault(event.sow_key, event)
    return list(oldest.values())


def write_stale(rig: Rig) -> None:
    """Write the oldest changes once more, as a worker does that was thought dead."""
    producer = exact_producer(rig.settings.kafka_client)
    for change in stale(rig):
        producer.produce(rig.topic.changes, change.body, change.sow_key, 0, headers=change.headers())  # type: ignore[arg-type]
    assert producer.flush(SECONDS_MAX) == 0


def test_stale_owner_writes_are_put_right_by_a_live_owner(rig: Rig) -> None:
    """The owner sees the jump in its offsets and writes the newest of each key again."""
    with rig.working() as worker:
        rig.settle(worker)
        write_stale(rig)
        rig.write(12)
        rig.settle(worker)
        wait_for(lambda: worker.statistics().counts.stale_owner_writes, "stale-owner writes to be seen")
    rig.check()


@pytest.mark.parametrize("lose", [lose_nothing, lose_store])
def test_stale_owner_writes_are_put_right_by_the_next_owner(rig: Rig, lose: Callable[[Rig], None]) -> None:
    """Written while nobody was there, they are found at the next open, on either recovery source."""
    rig.work()
    write_stale(rig)
    assert rig.compacted() != rig.made_by_log()
    lose(rig)
    rig.work()
    rig.check()


def test_a_log_gets_its_append_time(kafka: str, prefix: str, tmp_path: Path) -> None:
    """A log that somebody made with the producers' times is set to the broker's. What it has moves no log time."""
    rig = Rig(kafka, f"{prefix}time", tmp_path)
    config = {"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": str(2**63 - 1)}
    new = NewTopic(rig.topic.log, PARTITIONS, 1, config=config)
    rig.admin.create_topics([new])[rig.topic.log].result(SECONDS_MAX)
    wait_for(lambda: rig.topic.log in rig.admin.list_topics(timeout=10).topics, "the topic to be known")
    now = time.time_ns() // 1_000_000
    producer = Producer({"bootstrap.servers": kafka})
    for producers_time in (now - 5000, 1000 * now, 2 * now):
        producer.produce(rig.topic.log, b"{}", partition=0, timestamp=producers_time)
    assert producer.flush(SECONDS_MAX) == 0
    ensure_topics(rig.settings.kafka_client, rig.topics)
    resource = ConfigResource(ResourceType.TOPIC, rig.topic.log)

    def time_type() -> str:
        found = rig.admin.describe_configs([resource])[resource].result(SECONDS_MAX)
        return str(found["message.timestamp.type"].value)

    wait_for(lambda: time_type() == "LogAppendTime", "the setting to be known")
    rig.write()
    types = [message.timestamp()[0] for message in rig.messages(rig.topic.log, 0)]
    assert (types[:3], set(types[3:])) == ([1, 1, 1], {2})
    with ExitStack() as stack:
        rig.settle(stack.enter_context(rig.working()))
    rig.check()
    assert now - 60_000 < rig.state()[1].time < now + 3_600_000
    refused = [
        dict(message.headers() or [])["sow.reason"] for message in rig.messages(rig.topic.kafka.dead, 0)
    ]
    assert refused.count(b"bad time") == 1
