"""Transient topics on a real Kafka: what is left of them when the service starts."""

import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from sowline.changes.change import RESET, Change
from sowline.changes.progress import PROGRESS_KEY
from sowline.client.publisher import Publisher
from sowline.kafka.admin import ensure_topics
from sowline.model.bookmark import format_time
from sowline_materializer.worker.assignment import StartPhase
from sowline_materializer.worker.worker import Worker, group_of
from tests.integration.recovery_rig import PARTITIONS, Rig, lose_nothing, lose_store
from tests.waiting import wait_for


class Transient(Rig):
    """A topic that is transient, and workers that know whether the service starts."""

    def worker(self, stop: threading.Event) -> Worker:
        """Return a worker of a process of its own."""
        starting = StartPhase(self.cluster, group_of(self.settings), self.topics.topics)
        return Worker(self.settings, self.topics, stop, starting)

    def publish(self, *ids: int) -> None:
        """Publish records."""
        with closing(Publisher(self.settings.kafka_client, self.topics)) as publisher:
            for number in ids:
                publisher.publish(self.topic.name, {"id": number})

    def ids(self) -> list[int]:
        """Return which records the stores hold; nobody may have them open."""
        records = [record for partition in range(PARTITIONS) for record in self.state(partition)[0].values()]
        return sorted(orjson.loads(record.body)["id"] for record in records if record.body is not None)

    def check_changes(self) -> None:
        """The changes, compacted to the last of each key, load to the same records."""
        for partition in range(PARTITIONS):
            live = {k: r for k, r in self.state(partition)[0].items() if r.body is not None}
            assert {k: r for k, r in self.compacted(partition).items() if r.body is not None} == live


@pytest.fixture
def rig(kafka: str, prefix: str, tmp_path: Path) -> Transient:
    """A topic with records, applied and some not applied yet."""
    rig = Transient(kafka, f"{prefix}brief", tmp_path / "sow")
    ensure_topics(rig.settings.kafka_client, rig.topics)
    rig.publish(1, 2, 3, 4)
    rig.work()
    rig.publish(5, 6)
    return rig


@pytest.mark.parametrize("lose", [lose_nothing, lose_store])
def test_a_service_that_starts_begins_with_nothing(rig: Transient, lose: Callable[[Rig], None]) -> None:
    """Followers are told that each record is gone; what is written from then on is there."""
    rig.define("durability: transient, recovery_point: now")
    lose(rig)
    with rig.working() as worker:
        wait_for(lambda: len(worker.statistics().positions) == PARTITIONS, "the partitions to be opened")
        rig.publish(7)
        rig.settle(worker)
    assert rig.ids() == [7]
    rig.check_changes()
    ends = [e for p in range(PARTITIONS) for e in rig.changes(p) if isinstance(e, Change) and e.op == RESET]
    assert len(ends) == 4
    assert {end.reason for end in ends} == {"deleted"}
    assert PROGRESS_KEY not in {end.sow_key for end in ends}


def test_a_service_may_begin_at_a_time(rig: Transient) -> None:
    """What was written since then is applied, and nothing of what was before."""
    time = max(record.time for p in range(PARTITIONS) for record in rig.log(p)) + 1
    wait_for(lambda: datetime.now(UTC).timestamp() * 1000 > time, "the time")
    rig.publish(8, 9)
    point = format_time(datetime.fromtimestamp(time / 1000, UTC))
    rig.define(f"durability: transient, recovery_point: {point}")
    rig.work()
    assert rig.ids() == [8, 9]
    rig.check_changes()


def test_a_partition_that_moves_keeps_its_records(rig: Transient) -> None:
    """The service has started once; a second worker takes over what there is."""
    rig.define("durability: transient, recovery_point: now")
    with ExitStack() as stack:
        first = stack.enter_context(rig.working())
        wait_for(lambda: len(first.statistics().positions) == PARTITIONS, "the partitions to be opened")
        rig.publish(7, 8, 9, 10)
        rig.settle(first)
        directory = rig.settings.data_dir.with_name("other")
        rig.settings = rig.settings.model_copy(update={"data_dir": directory})
        second = stack.enter_context(rig.working())
        wait_for(lambda: len(second.statistics().positions) == 1, "a partition to move")
        wait_for(lambda: len(first.statistics().positions) == 1, "a partition to be let go")
        (moved,) = second.statistics().positions
        held = (
            second._owned.partitions[moved].checkpoint.records
            + first._owned.partitions[rig.topic_partition(1 - moved[1])].checkpoint.records
        )
        assert held == 4
