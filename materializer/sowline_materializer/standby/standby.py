"""Warm copies of the partitions that a worker does not own, so that a takeover costs only the tail of the changes.

The worker's own thread works on them between its batches, for a limited time. No store is used by two threads, and no
owner waits for a copy. The copies have their own consumer, which is in no group.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType

import structlog
from confluent_kafka import OFFSET_BEGINNING, KafkaError, Message, TopicPartition

from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import TopicDefinition, by_changes
from sowline.errors import SowlineError
from sowline.kafka.admin import Cluster
from sowline.kafka.clients import REPORT_ENDS, of_many, plain_consumer
from sowline.kafka.cluster_answer import ClusterAnswer, RepeatedQuestion
from sowline.kafka.messages import event_of
from sowline.kafka.retriable import RESTART_ERRORS
from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.partition.kafka_partition import changes_id
from sowline_materializer.partition.partition import PartitionId
from sowline_materializer.standby.statistics import StandbyStatistics
from sowline_materializer.standby.warm_copy import ReadEvent, WarmCopy
from sowline_materializer.store.rocksdb import RocksStore

log = structlog.get_logger()

PORTION_MESSAGES_MAX = 100
"""Changes applied between two checks of the clock."""

LOOK_SECONDS = 1.0
"""Interval at which Kafka is asked whether the changes topics are still the same."""

RETRY_SECONDS = 10.0
"""Time after which a failed copy is started again."""

PATIENCE_SECONDS = 0.05
"""How long a question to Kafka is repeated: once. The worker's own partitions wait meanwhile, and the copy is started
again anyway."""

QUEUE_KBYTES = 16 * 1024
"""How much may be fetched ahead, for all copies together."""

_FAILURES = (*RESTART_ERRORS, SowlineError, ValueError, LookupError, TypeError, OSError)
"""The errors of a disk, an event or Kafka by which a copy may fail. The worker continues without the copy."""


class Standby:
    """The copies of one worker. Only `statistics` may be called from another thread."""

    def __init__(
        self,
        kafka: KafkaConfig,
        definitions: Mapping[str, TopicDefinition],
        path: Callable[[PartitionId], Path],
        native: ModuleType | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        self._native = native
        self._definitions = definitions
        self._by_changes = by_changes(definitions.values())
        self._path = path
        # With the usual patience, one partition without a leader would hold up those that the worker owns for most of
        # the time: it is asked about again and again (test_a_copy_that_waits_for_a_leader_holds_up_no_owner).
        self._cluster = Cluster(kafka, stop, PATIENCE_SECONDS)
        ahead = {"queued.max.messages.kbytes": QUEUE_KBYTES}
        partitions = sum(definition.partitions for definition in definitions.values())
        self._consumer = plain_consumer(kafka, {**REPORT_ENDS, **ahead, **of_many(partitions)})
        self._copies: dict[PartitionId, WarmCopy] = {}
        self._assigned: set[PartitionId] = set()
        self._checking: deque[PartitionId] = deque()
        self._waiting: dict[PartitionId, float] = {}
        self._held: dict[PartitionId, RocksStore] = {}
        self._damaged: set[PartitionId] = set()
        self._ends: dict[PartitionId, int] = {}
        self._takeovers = 0
        self._question = RepeatedQuestion(LOOK_SECONDS)

    # which partitions

    def cover(self, owned: Iterable[PartitionId]) -> None:
        """Keep a copy of every partition that is not among the owned ones; they are started one after the other."""
        self._by_changes = by_changes(self._definitions.values())
        for definition in self._definitions.values():
            for number in range(definition.partitions):
                self._waiting.setdefault((definition.log, number), 0.0)
        for partition_id in (*owned, *self._copies):
            self._waiting.pop(partition_id, None)
        assert not self._waiting.keys() & self._copies.keys(), "a copy that is there does not wait"

    def hold(self, partition_id: PartitionId, store: RocksStore) -> None:
        """Keep the store of a partition that moves away as a copy; start later, because Kafka may be unavailable."""
        assert partition_id not in self._copies, "a partition has one copy"
        assert partition_id not in self._held, "a partition has one copy"
        self._held[partition_id] = store
        self._waiting[partition_id] = 0.0

    def end_copies(self, logs: Collection[str]) -> None:
        """Close the copies of logs whose definitions change; `cover` starts those that are still wanted."""
        for partition_id in [one for one in self._copies if one[0] in logs]:
            copy = self._copies[partition_id]
            self._forget(partition_id)
            copy.close()
        for partition_id in [one for one in self._held if one[0] in logs]:
            self._held.pop(partition_id).close()
        self._waiting = {one: at for one, at in self._waiting.items() if one[0] not in logs}

    def take_over(self, partition_id: PartitionId) -> RocksStore | None:
        """End the copy of a partition that this worker owns from now on; return its store, open and checked.

        Return None if there is none: then nothing of it is open.
        """
        self._waiting.pop(partition_id, None)
        assert not (partition_id in self._held and partition_id in self._copies), "a partition has one copy"
        copy = self._copies.get(partition_id)
        if copy is None:
            return self._held.pop(partition_id, None)
        # Before the copy is forgotten, because the end of its changes is forgotten with it.
        is_warm, behind = copy.is_warm, self._behind(partition_id)
        self._forget(partition_id)
        store = copy.hand_over()
        if is_warm:
            self._takeovers += 1
            log.info("took over a warm copy", topic=partition_id[0], partition=partition_id[1], behind=behind)
        return store

    @property
    def has_caught_up(self) -> bool:
        """Whether each working copy has applied all changes up to some moment."""
        now = time.monotonic()
        return all(at > now for at in self._waiting.values()) and all(
            copy.has_caught_up for copy in self._copies.values()
        )

    def close(self) -> None:
        """Close all copies; their state stays on disk."""
        for copy in self._copies.values():
            copy.close()
        for store in self._held.values():
            store.close()
        self._copies.clear()
        self._held.clear()
        self._consumer.close()

    # the work

    def work(self, seconds: float) -> bool:
        """Work on the copies for about this time; return whether more work is waiting."""
        deadline = time.monotonic() + seconds
        while is_busy := self._work_on():
            if time.monotonic() >= deadline:
                break
        return is_busy

    def _work_on(self) -> bool:
        self._look()
        begun = self._begin_next()
        checked = self._check_next()
        return self._take_in() or checked or begun

    def _look(self) -> None:
        """Check where the changes begin and end, and whether a topic was deleted and created again, which its offsets
        may not show.
        """
        if self._copies or self._question.is_pending:
            self._question.look(time.monotonic(), self._ask, self._found)

    def _ask(self) -> ClusterAnswer:
        changes = [self._changes(partition_id) for partition_id in self._copies]
        return self._cluster.ask(changes, starts=changes)

    def _found(self, asked: ClusterAnswer) -> None:
        # The copies of a deleted topic wait; check the others (test_a_changes_topic_that_is_gone_hides_no_other).
        gone = asked.gone()
        ids, starts, ends = asked.topic_ids(gone), asked.starts(gone), asked.ends(gone)
        for partition_id, copy in list(self._copies.items()):
            topic, _ = changes = self._changes(partition_id)
            self._ends[partition_id] = max(ends.get(changes, 0), self._ends.get(partition_id, 0))
            definition = self._definitions[partition_id[0]]
            if changes in starts and not copy.is_of(changes_id(definition, ids[topic], starts[changes])):
                self._ends.pop(partition_id)
                self._tried(partition_id, partial(copy.reload, "the changes topic was replaced"))
                self._moved(partition_id)

    def _begin_next(self) -> bool:
        if not self._waiting:
            return False
        now = time.monotonic()
        partition_id = next((partition_id for partition_id, at in self._waiting.items() if at <= now), None)
        if partition_id is None:
            return False
        del self._waiting[partition_id]
        self._begin(partition_id, self._held.pop(partition_id, None))
        return True

    def _begin(self, partition_id: PartitionId, store: RocksStore | None) -> None:
        assert partition_id not in self._copies, "a partition has one copy"
        definition = self._definitions[partition_id[0]]
        path, topic_id = self._path(partition_id), partial(self._topic_id, partition_id)
        copy = WarmCopy(definition, partition_id[1], path, topic_id, store, self._native)
        self._copies[partition_id] = copy
        self._tried(partition_id, lambda: copy.begin(partition_id in self._damaged))
        # A copy that has failed is gone, and waits for its next start.
        if partition_id in self._copies:
            self._go_on(partition_id)

    def _topic_id(self, partition_id: PartitionId, topic: str) -> str:
        """Return Kafka's id of a topic, or which changes a partition has."""
        found, definition = self._cluster.topic_id(topic), self._definitions[partition_id[0]]
        if topic != definition.changes:
            return found
        number = partition_id[1]
        return changes_id(definition, found, self._cluster.starts(topic, [number])[number])

    def _go_on(self, partition_id: PartitionId) -> None:
        """Check the copy, or read the changes that it needs next."""
        assert partition_id not in self._assigned, "the changes of a partition are read from one offset on"
        offset = self._copies[partition_id].reads_from
        if offset is None:
            self._checking.append(partition_id)
        else:
            # Kafka may have deleted offset 0: from the beginning, it delivers the first event that it has.
            at = TopicPartition(*self._changes(partition_id), offset or OFFSET_BEGINNING)
            self._consumer.incremental_assign([at])
            self._assigned.add(partition_id)

    def _read_no_more(self, partition_id: PartitionId) -> None:
        if partition_id in self._assigned:
            self._assigned.remove(partition_id)
            self._consumer.incremental_unassign([TopicPartition(*self._changes(partition_id))])

    def _check_next(self) -> bool:
        if not self._checking:
            return False
        partition_id = self._checking[0]
        copy = self._copies[partition_id]
        if self._tried(partition_id, copy.check):
            self._checking.popleft()
            self._go_on(partition_id)
        return True

    def _take_in(self) -> bool:
        messages = self._consumer.consume(PORTION_MESSAGES_MAX, 0)
        batches: dict[PartitionId, list[Message]] = {}
        for message in messages:
            # An error of the whole client names no topic (test_an_error_about_no_topic_is_logged).
            if (definition := self._by_changes.get(message.topic() or "")) is not None:
                batches.setdefault((definition.log, message.partition() or 0), []).append(message)
            elif (error := message.error()) is not None:
                log.warning("Kafka reported an error", why=str(error))
        for partition_id, batch in batches.items():
            if partition_id in self._copies:
                self._take_batch(partition_id, batch)
        return bool(messages)

    def _take_batch(self, partition_id: PartitionId, messages: list[Message]) -> None:
        """Apply the messages of one partition: changes, then a report of its end or of an error."""
        copy = self._copies[partition_id]
        self._ends[partition_id] = end = self._end(partition_id)
        changes = [message for message in messages if message.error() is None]
        if changes and not self._tried(
            partition_id, lambda: copy.take([_written(one) for one in changes], end)
        ):
            self._moved(partition_id)
            return
        # After the changes: a report of the end is about a copy that has applied them.
        for message in messages:
            if not self._tried(partition_id, partial(self._judge, copy, message)):
                self._moved(partition_id)
                return

    def _judge(self, copy: WarmCopy, message: Message) -> bool:
        error = message.error()
        if error is None:
            return True
        if error.code() == KafkaError._PARTITION_EOF:
            return copy.ended(message.offset() or 0)
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            copy.reload("the changes topic does not reach so far")
            return False
        log.warning("Kafka reported an error", why=str(error))
        return True

    def _moved(self, partition_id: PartitionId) -> None:
        """Read a copy's changes from elsewhere, if it is still there."""
        if partition_id in self._copies:
            self._read_no_more(partition_id)
            self._go_on(partition_id)

    def _tried(self, partition_id: PartitionId, act: Callable[[], bool | None]) -> bool:
        """Act on a copy, and return its answer. A copy that fails is started again later."""
        try:
            return bool(act())
        except _FAILURES as error:
            log.warning("warm copy failed", topic=partition_id[0], partition=partition_id[1], why=str(error))
            if isinstance(error, StoreDamaged):
                self._damaged.add(partition_id)
            copy = self._copies[partition_id]
            self._forget(partition_id)
            copy.close()
            self._waiting[partition_id] = time.monotonic() + RETRY_SECONDS
            return False

    def _forget(self, partition_id: PartitionId) -> None:
        del self._copies[partition_id]
        self._read_no_more(partition_id)
        if partition_id in self._checking:
            self._checking.remove(partition_id)
        assert partition_id not in self._checking, "it is in line for its check once"
        self._ends.pop(partition_id, None)

    def _changes(self, partition_id: PartitionId) -> tuple[str, int]:
        return self._definitions[partition_id[0]].changes, partition_id[1]

    # for the worker and the metrics

    def _end(self, partition_id: PartitionId) -> int:
        _, end = self._consumer.get_watermark_offsets(
            TopicPartition(*self._changes(partition_id)), cached=True
        )
        return max(0, end)

    def _behind(self, partition_id: PartitionId) -> int:
        return max(0, self._ends.get(partition_id, 0) - self._copies[partition_id].next_offset)

    def statistics(self) -> StandbyStatistics:
        """Return the statistics of the copies; safe to call from any thread."""
        # A copy: the worker's thread may begin or end a warm copy at the same time.
        copies = dict(self._copies)
        warm = sum(copy.is_warm for copy in copies.values())
        behind = {
            partition_id: max(0, self._ends.get(partition_id, 0) - copy.next_offset)
            for partition_id, copy in copies.items()
        }
        return StandbyStatistics(warm, behind, self._takeovers)


def _written(message: Message) -> ReadEvent:
    return ReadEvent(message.offset() or 0, event_of(message))
