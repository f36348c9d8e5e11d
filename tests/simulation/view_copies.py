"""Warm copies of a view's partitions, kept by a worker that owns none of them: the real `Standby`, on played clients.

At rest each copy has caught up and is what the owner holds, byte for byte.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, patch

from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.partition.partition import PartitionId
from sowline_materializer.standby.standby import LOOK_SECONDS, Standby
from sowline_materializer.store.integrity import checkpoint_of
from sowline_materializer.store.interface import Store
from tests.property.view_world import ViewWorld
from tests.property.world import Disk, rocks_in_memory, store_on
from tests.simulation.broker import Written

SECONDS_MAX = 60
"""Of the played clock, after which a copy at rest has caught up."""


class ViewCopies:
    """The copies of all partitions of a view. Each has a `Standby` of its own: here each has its own topic id."""

    def __init__(self, world: ViewWorld, chance: Random) -> None:
        self._world = world
        self._chance = chance
        self._disk: Disk = {}
        self._now = 0.0
        self._standbys: list[Standby] = []

    def patched(self) -> list[AbstractContextManager[Any]]:
        """Return what must be entered before anything is done."""
        clock = SimpleNamespace(monotonic=lambda: self._now)
        return [
            patch("sowline_materializer.standby.standby.time", clock),
            patch("sowline_materializer.standby.warm_copy.time", clock),
            patch("sowline_materializer.standby.standby.log", Mock()),
            patch("sowline_materializer.standby.warm_copy.log", Mock()),
            patch("sowline_materializer.standby.warm_copy.RocksStore", rocks_in_memory(self._disk)),
            patch(
                "sowline_materializer.standby.warm_copy.delete_store", lambda path: self._disk.pop(path, None)
            ),
        ]

    def start(self) -> None:
        """Start to make the copies."""
        log, count = self._world.definition.log, self._world.definition.partitions
        for number in range(count):
            consumer, cluster = Consumer(self._world, number), Cluster(self._world, number)
            with (
                patch(
                    "sowline_materializer.standby.standby.plain_consumer", lambda *given, made=consumer: made
                ),
                patch("sowline_materializer.standby.standby.Cluster", lambda *given, made=cluster: made),
            ):
                standby = Standby({}, {log: self._world.definition}, self._path)
            standby.cover((log, other) for other in range(count) if other != number)
            self._standbys.append(standby)

    def _path(self, partition_id: PartitionId) -> Path:
        disk = self._disk

        class PlayedPath(PurePosixPath):
            def rename(self, target: PurePosixPath) -> None:
                disk[target] = disk.pop(self)  # type: ignore[index, call-overload]

        return PlayedPath(f"copy {partition_id[1]}")  # type: ignore[return-value]

    def work(self) -> None:
        """Let a little time pass, in which some of the copies are worked on."""
        self._now += self._chance.choice((0.0, 0.3, 2.0))
        for number, standby in enumerate(self._standbys):
            if self._chance.random() < 0.4:
                standby.work(0.0)
                self._compare(number, standby)

    def _compare(self, number: int, standby: Standby) -> None:
        """Compare a copy that follows with an owner that is at the same position."""
        owner = self._world.stage2.owners.get(number)
        if not standby.statistics().warm or owner is None:
            return
        store = store_on(self._disk, self._path((self._world.definition.log, number)))
        copied, held = checkpoint_of(store), owner.checkpoint
        is_same = copied.position == held.position and (copied.complete, copied.changes_id) == (
            True,
            held.changes_id,
        )
        if is_same and not copied.stale_keys and not held.stale_keys:
            self._check(number, store, copied)

    def _check(self, number: int, store: Store, copied: Checkpoint) -> None:
        found, held = self._world.lines(number, store, copied), self._world.own_lines(number)
        assert found == held, f"expected {held} in the copy, got {found}"

    def check(self) -> None:
        """Bring each copy up to date: a worker that starts with it would take part now. Compare it with the owner."""
        for number, standby in enumerate(self._standbys):
            # Another changes topic that ends where the old one did shows only when the cluster is asked
            # (test_a_copy_at_rest_is_of_the_changes_there_are).
            self._now += 2 * LOOK_SECONDS
            standby.work(0.0)
            until = self._now + SECONDS_MAX
            while standby.work(1.0) or not self._is_whole(standby):
                self._now += 0.5
                assert self._now < until, f"the copy of partition {number} does not catch up"
            store = standby.take_over((self._world.definition.log, number))
            assert store is not None, "a copy that has caught up can be handed over"
            self._check(number, store, Checkpoint.decode(store.checkpoint() or b""))

    @staticmethod
    def _is_whole(standby: Standby) -> bool:
        return standby.has_caught_up and standby.statistics().warm == 1


class Consumer:
    """A consumer that reads the changes of one partition."""

    def __init__(self, world: ViewWorld, number: int) -> None:
        self._changes = world.stage2.changes[number]
        self._partition_id = world.definition.changes, number
        self._next: int | None = None
        self._end_reported: int | None = None

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read from there on."""
        (at,) = partitions
        assert (at.topic, at.partition) == self._partition_id
        self._next, self._end_reported = (0 if at.offset == OFFSET_BEGINNING else at.offset), None

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Read no more."""
        self._next = None

    def consume(self, count: int, timeout: float) -> list[Written]:
        """Return the next messages, or what there is to say in their stead."""
        if self._next is None:
            return []
        if self._next > self._changes.end:
            self._next = None
            return [self._error(KafkaError.OFFSET_OUT_OF_RANGE, 0)]
        ahead = [one for one in self._changes.held if one.at >= self._next][:count]
        messages = [
            Written(self._partition_id, one.at, 0, one.name, one.body, one.headers()) for one in ahead
        ]
        self._next = messages[-1].at + 1 if messages else max(self._next, self._changes.end)
        if not messages and self._end_reported != self._next:
            self._end_reported = self._next
            return [self._error(KafkaError._PARTITION_EOF, self._next)]
        return messages

    def _error(self, code: int, at: int) -> Written:
        return Written(self._partition_id, at, wrong=KafkaError(code))

    def get_watermark_offsets(self, partition: TopicPartition, *, cached: bool) -> tuple[int, int]:
        """Return where the partition begins and ends."""
        return 0, self._changes.end


class Cluster:
    """What a cluster answers about one changes partition."""

    def __init__(self, world: ViewWorld, number: int) -> None:
        self._changes = world.stage2.changes[number]
        self._log = world.definition.log

    def topic_id(self, name: str) -> str:
        """Return the id of the changes topic, which is another one for each partition here; or that of the log."""
        return "log" if name == self._log else f"changes {self._changes.since}"

    def starts(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return where partitions begin."""
        return dict.fromkeys(partitions, 0)

    def ask(self, partitions: Iterable[PartitionId], *, starts: object) -> SimpleNamespace:
        """Answer at once."""
        asked = list(partitions)
        ids = {name: self.topic_id(name) for name, _ in asked}
        begin, ends = dict.fromkeys(asked, 0), dict.fromkeys(asked, self._changes.end)
        return SimpleNamespace(
            is_answered=True,
            gone=frozenset,
            topic_ids=lambda but: ids,
            starts=lambda but: begin,
            ends=lambda but: ends,
        )
