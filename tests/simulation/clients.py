"""Stand-ins for the clients of `confluent_kafka`: just what the services use of them, in front of the played broker.

Which process a client belongs to is told by its `bootstrap.servers`.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from logging import DEBUG
from types import ModuleType
from typing import Any

from confluent_kafka import (
    OFFSET_END,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from sowline.commands.command import Headers
from sowline.kafka.clients import read_range
from sowline.kafka.fetched_ids import FetchedIds
from tests.simulation.broker import Broker, Group, Part, PartitionId, Written
from tests.simulation.process import Process
from tests.simulation.strands import pause

PROCESSES: dict[str, Process] = {}
"""Those of the simulation that runs, by their names."""


def process_of(config: Mapping[str, Any]) -> Process:
    """Return the process that a client is made in."""
    return PROCESSES[config["bootstrap.servers"]]


class Consumer:
    """A consumer: of a group's partitions, or of those it is told to read."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._process = process_of(config)
        self._broker: Broker = self._process.broker
        self._chance = self._process.chance
        self._life = self._process.life
        self._reports_ends = "enable.partition.eof" in config
        self._reads_committed = config["isolation.level"] == "read_committed"
        logger = config["logger"]
        self._fetched = logger if isinstance(logger, FetchedIds) else None
        self._group: Group | None = None
        self._callbacks: dict[str, Callable[..., None]] = {}
        self._has_assignment = False
        self._positions: dict[PartitionId, int] = {}
        self._parts: dict[PartitionId, Part] = {}
        """The partitions that it knows: not those of a topic that was made again, until it learns the new id."""
        self._fetching: set[PartitionId] = set()
        self._lost: set[PartitionId] = set()
        self._paused: set[PartitionId] = set()
        self._ended: set[PartitionId] = set()
        self._highs: dict[PartitionId, int] = {}
        self._unaware = 0
        self._repeats = 0

    # what reads

    def assign(self, partition_ids: list[TopicPartition]) -> None:
        """Read these partitions from their offsets."""
        self._positions = {(one.topic, one.partition): one.offset for one in partition_ids}
        self._parts = {partition_id: self._broker.parts[partition_id] for partition_id in self._positions}

    def seek(self, partition_id: TopicPartition) -> None:
        """Read a partition from another offset."""
        self._positions[partition_id.topic, partition_id.partition] = partition_id.offset
        self._begin_again((partition_id.topic, partition_id.partition))

    def _begin_again(self, partition_id: PartitionId) -> None:
        for known in (self._ended, self._fetching, self._lost):
            known.discard(partition_id)

    def poll(self, seconds: float) -> Written | None:
        """Return the next message, an error or the sign of an end; None where nothing came in time."""
        self._process.boundary("poll")
        pause()
        self._process.boundary("polled")
        self._rebalance()
        self._positions = {
            partition_id: max(0, at - self._repeats) for partition_id, at in self._positions.items()
        }
        self._repeats = 0
        if self._chance.random() < 0.15 and not self._broker.is_calm:
            return None
        return self._next()

    def consume(self, limit: int, seconds: float) -> list[Written]:
        """Return what else is there."""
        self._rebalance()
        usual = (50,) if self._broker.is_calm else (0, 0, 1, 2, 3, 5, 8, 50)
        wanted = min(limit, self._chance.choice(usual))
        found: list[Written] = []
        while len(found) < wanted and (message := self._next()) is not None:
            found.append(message)
        return found

    def _next(self) -> Written | None:
        partition_ids = [partition_id for partition_id in self._positions if partition_id not in self._paused]
        self._chance.shuffle(partition_ids)
        for partition_id in partition_ids:
            if (message := self._next_of(partition_id)) is not None:
                return message
        return None

    def _next_of(self, partition_id: PartitionId) -> Written | None:
        part, position = self._broker.parts[partition_id], self._positions[partition_id]
        if part is not self._parts[partition_id]:
            if self._fetched is None:
                return Written(partition_id, position, wrong=KafkaError(KafkaError._AUTO_OFFSET_RESET))
            if not self._broker.is_calm and self._chance.random() < 0.5:
                return self._fetched_ahead(partition_id)
            self._learn(self._fetched, partition_id[0])
        if self._fetched is not None and position > part.end:
            return self._out_of_range(partition_id)
        self._highs[partition_id] = part.end
        self._fetching.add(partition_id)
        end = part.stable if self._reads_committed else part.end
        message = part.first_from(position)
        if message is not None and message.at < end:
            self._positions[partition_id] = message.at + 1
            self._ended.discard(partition_id)
            return message
        if self._reports_ends and partition_id not in self._ended:
            self._ended.add(partition_id)
            return Written(partition_id, end, wrong=KafkaError(KafkaError._PARTITION_EOF))
        return None

    def _fetched_ahead(self, partition_id: PartitionId) -> Written | None:
        """Return a record of a topic that is there no more, which was fetched before; None if there is none."""
        part = self._parts[partition_id]
        message = part.first_from(self._positions[partition_id]) if partition_id in self._fetching else None
        if message is None or message.at >= part.stable:
            return None
        self._positions[partition_id] = message.at + 1
        return message

    def _learn(self, fetched: FetchedIds, topic: str) -> None:
        """Learn that a topic was made again. Fetching continues at the same offsets."""
        for partition_id in [one for one in self._parts if one[0] == topic]:
            known, part = self._parts[partition_id], self._broker.parts[partition_id]
            if known is not part:
                ids = f"{topic}-{known.generation} to {topic}-{part.generation}"
                fetched.log(DEBUG, "%s %s %s", "METADATA", "", f"Topic {topic} changed id from {ids}")
                self._parts[partition_id] = part
                self._ended.discard(partition_id)

    def _out_of_range(self, partition_id: PartitionId) -> Written | None:
        """Report once that there is no such offset. Nothing is fetched until an offset is assigned."""
        if partition_id in self._lost:
            return None
        self._lost.add(partition_id)
        return Written(
            partition_id, self._positions[partition_id], wrong=KafkaError(KafkaError._AUTO_OFFSET_RESET)
        )

    def go_back(self, records: int) -> None:
        """Deliver some records once more, from the next poll on: what it returns goes with what is consumed then."""
        self._repeats = records

    def position(self, partition_ids: list[TopicPartition]) -> list[TopicPartition]:
        """Return where it reads on in each of these partitions."""
        return [
            TopicPartition(one.topic, one.partition, self._positions[one.topic, one.partition])
            for one in partition_ids
        ]

    def get_watermark_offsets(self, partition_id: TopicPartition, cached: bool) -> tuple[int, int]:
        """Return the ends of a partition as they were when it was last read."""
        return 0, self._highs.get((partition_id.topic, partition_id.partition), -1001)

    # the group

    def subscribe(self, topics: list[str], **callbacks: Callable[..., None]) -> None:
        """Join the group."""
        self._callbacks = callbacks
        group = self._process.group
        assert group is not None
        self._group = group
        if self._fetched is not None:
            self._parts = {one: part for one, part in self._broker.parts.items() if one[0] in topics}
        self._process.consumer = self
        group.join(self)

    def miss(self, polls: int) -> None:
        """Be given up by the group, and hear of it only so many polls later."""
        assert self._group is not None
        self._group.leave(self)
        self._unaware = polls

    def _rebalance(self) -> None:
        group = self._group
        if group is None:
            return
        if self not in group.members:
            self._unaware -= 1
            if self._unaware < 0:
                self._let_go(list(self._positions), "on_lost")
                group.join(self)
            return
        leaving = [
            partition_id for partition_id in self._positions if group.target.get(partition_id) is not self
        ]
        if leaving:
            self._let_go(leaving, "on_revoke")
        free = [p for p, member in group.target.items() if member is self and group.owners.get(p) is None]
        if free or not self._has_assignment:
            self._has_assignment = True
            group.owners |= dict.fromkeys(free, self)
            self._callbacks["on_assign"](self, [TopicPartition(*partition_id) for partition_id in free])

    def _let_go(self, partition_ids: list[PartitionId], how: str) -> None:
        assert self._group is not None
        for partition_id in partition_ids:
            del self._positions[partition_id]
        if partition_ids:
            self._callbacks[how](self, [TopicPartition(*partition_id) for partition_id in partition_ids])
        for partition_id in partition_ids:
            if self._group.owners.get(partition_id) is self:
                del self._group.owners[partition_id]

    def assignment(self) -> list[TopicPartition]:
        """Return none: this client never pauses partitions by itself, so no fetch has to be woken."""
        return []

    def incremental_assign(self, partition_ids: list[TopicPartition]) -> None:
        """Read these partitions too."""
        for one in partition_ids:
            partition_id = one.topic, one.partition
            part = self._broker.parts[partition_id]
            self._positions[partition_id] = part.end if one.offset == OFFSET_END else one.offset
            if self._fetched is None:
                self._parts[partition_id] = part
            self._highs[partition_id] = -1001
            self._paused.discard(partition_id)
            self._begin_again(partition_id)

    def incremental_unassign(self, partition_ids: list[TopicPartition]) -> None:
        """Let these partitions go, without the group."""
        for one in partition_ids:
            del self._positions[one.topic, one.partition]

    def pause(self, partition_ids: list[TopicPartition]) -> None:
        """Read these no more."""
        self._paused |= {(one.topic, one.partition) for one in partition_ids}

    def resume(self, partition_ids: list[TopicPartition]) -> None:
        """Read these again."""
        self._paused -= {(one.topic, one.partition) for one in partition_ids}

    def committed(self, partition_ids: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        """Return what the group has committed."""
        assert self._group is not None
        self._process.boundary("committed")
        found = []
        for one in partition_ids:
            offset, metadata = self._group.commits.get((one.topic, one.partition), (OFFSET_INVALID, ""))
            found.append(TopicPartition(one.topic, one.partition, offset, metadata))
        return found

    def commit(self, offsets: list[TopicPartition], asynchronous: bool) -> None:
        """Commit offsets for the group, which refuses them from a consumer that it has given up."""
        assert self._group is not None
        self._process.boundary("commit")
        if self not in self._group.members:
            raise KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION))
        for one in offsets:
            self._group.commits[one.topic, one.partition] = one.offset, one.metadata or ""
        self._process.boundary("committed")

    def close(self) -> None:
        """Leave the group."""
        if self._group is None or self._life != self._process.life or self._process.is_dead:
            return
        self._let_go(list(self._positions), "on_revoke")
        self._group.leave(self)


Report = Callable[[KafkaError | None, Written], None]


class Producer:
    """An idempotent producer: of each partition's messages a prefix has arrived, whatever happens."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._process = process_of(config)
        self._broker: Broker = self._process.broker
        self._chance = self._process.chance
        self._on_error: Callable[[KafkaError], None] = config["error_cb"]
        self._queues: dict[PartitionId, deque[tuple[Any, Report | None]]] = {}
        self._reports: list[Callable[[], None]] = []
        self._is_broken = False
        self._process.producers.append(self)

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        report: Report | None,
        on_delivery: None = None,
        timestamp: int = 0,
        headers: Headers | None = None,
    ) -> None:
        """Queue a message; some of what is queued may go out at once."""
        self._process.boundary("produce")
        if self._is_broken:
            raise KafkaException(KafkaError(KafkaError._FATAL, "broken", True))
        if self._broker.is_refusing and self._chance.random() < 0.1:
            raise BufferError
        partition_id = topic, partition
        self._queues.setdefault(partition_id, deque()).append(((key, value, headers), report))
        if not self._broker.is_refusing and self._chance.random() < 0.2:
            self._send(partition_id)

    def deliver(self) -> None:
        """Send what is queued, as a producer does by itself after a while."""
        while self._queues and not self._broker.is_refusing and not self._is_broken:
            self._send(next(iter(self._queues)))

    def _send(self, partition_id: PartitionId) -> None:
        (key, value, headers), report = self._queues[partition_id].popleft()
        if not self._queues[partition_id]:
            del self._queues[partition_id]
        self._broker.writer = self._process.name
        written = self._broker.append(partition_id, key, value, headers)
        self._broker.writer = ""
        if report is not None:
            self._reports.append(partial(report, None, written))

    def poll(self, seconds: float) -> int:
        """Give reports, and wait where there is time for that."""
        if seconds:
            pause()
        self._process.boundary("reports")
        return self._give_reports()

    def flush(self, seconds: float) -> int:
        """Send what is queued, and return how much is left."""
        self._process.boundary("flush")
        if self._broker.is_refusing and self._queues:
            pause()
        while self._queues and not self._broker.is_refusing:
            self._send(self._chance.choice(list(self._queues)))
            self._process.boundary("sent")
        self._give_reports()
        self._process.boundary("flushed")
        return len(self._queues) + len(self._reports)

    def _give_reports(self) -> int:
        reports, self._reports = self._reports, []
        for report in reports:
            report()
        return len(reports)

    def purge(self, *, in_flight: bool = True) -> None:
        """Drop what is queued."""
        self._queues.clear()

    def fail(self) -> None:
        """Break for good: whatever is queued has failed."""
        self._is_broken = True
        error = KafkaError(KafkaError._FATAL, "broken", True)
        self._reports.append(partial(self._on_error, error))
        for partition_id, queue in self._queues.items():
            failed = Written(partition_id, -1001)
            self._reports += [partial(report, error, failed) for _, report in queue if report is not None]
        self._queues.clear()

    def crash(self) -> None:
        """Die with the process: of each partition's messages some may arrive, now or later."""
        for partition_id, queue in self._queues.items():
            sent = [message for message, _ in queue][: self._chance.randint(0, len(queue))]
            if self._chance.random() < 0.5:
                for message in sent:
                    self._broker.append(partition_id, *message)
            elif sent:
                self._broker.late.append(deque((partition_id, message) for message in sent))
        self._queues.clear()


def read_by_python(native: ModuleType, *given: Any, **named: Any) -> Iterator[list[Any]]:
    """Read what the native reader would: that one does not see a Kafka that is simulated."""
    return read_range(*given, **named)
