"""The State of the World that a query service holds: the replicas of its topics, and their listeners."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import ModuleType

import structlog

from sowline.changes.change import Change
from sowline.changes.changes_reader import ChangesMissing
from sowline.config.shard import WHOLE, Shard
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import Topics
from sowline.kafka.changes_driver import ChangesPartition
from sowline.language.filter.metadata import Metadata
from sowline.model.bookmark import Positions
from sowline.model.position import Position
from sowline.runtime.metrics import Latencies
from sowline_query_service.index.budget import Memory
from sowline_query_service.index.rows import Block
from sowline_query_service.replica.history import Histories
from sowline_query_service.replica.log_end import Reached
from sowline_query_service.replica.partition_replica import RING_BYTES_MAX, Head
from sowline_query_service.replica.plain_run import events_of
from sowline_query_service.replica.timeline import Timelines
from sowline_query_service.topics.followed_partitions import Batches
from sowline_query_service.topics.log_ends import LogEndSample, LogPartition
from sowline_query_service.topics.topic_state import TopicState

log = structlog.get_logger()

OnChanges = Callable[[TopicState, int, Position, list[Change]], None]
"""Called with a topic, a partition's number, its position before the changes, and the changes."""


class _DeclaredIndexes:
    """Makes the indexes that definitions name, each topic's in a task."""

    def __init__(self) -> None:
        self._making: set[asyncio.Task[None]] = set()

    def make(self, topic: TopicState) -> None:
        """Begin to make those of a topic, if it is loaded."""
        declared = topic.definition.declared
        if not topic.loading and (declared.indexes or declared.hash_indexes):
            task = asyncio.get_running_loop().create_task(topic.indexes.make_declared())
            self._making.add(task)
            task.add_done_callback(self._made)

    def _made(self, task: asyncio.Task[None]) -> None:
        assert task in self._making, "it was begun here"
        self._making.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("declared indexes could not be made", why=repr(error))


class ServedTopics:
    """All topics of a query service. Everything here happens in the event loop."""

    def __init__(
        self,
        topics: Topics,
        ring_changes_max: int,
        index_bytes_max: int = 1 << 30,
        ring_bytes_max: int = RING_BYTES_MAX,
        history_bytes_max: int = 1 << 30,
        timeline_bytes_max: int = 1 << 30,
        native: ModuleType | None = None,
        shard: Shard = WHOLE,
    ) -> None:
        """Hold topics without records. `native` is the module of the native core, if memo indexes are to use it."""
        self.shard = shard
        self._about = Metadata()
        self.memory = Memory(index_bytes_max)
        self.histories = Histories(history_bytes_max)
        self.timelines = Timelines(timeline_bytes_max)
        self._new_topic = partial(
            TopicState,
            ring_changes_max=ring_changes_max,
            ring_bytes_max=ring_bytes_max,
            memory=self.memory,
            histories=self.histories,
            timelines=self.timelines,
            native=native,
            shard=shard,
        )
        self.topics: dict[str, TopicState] = {}
        self.definitions: dict[str, TopicDefinition] = {}
        """The definitions of the topics, by their names: the present ones, also when they change."""
        self._by_changes: dict[str, TopicState] = {}
        self._by_log: dict[str, TopicState] = {}
        for definition in topics.topics:
            self.add(definition)
        self._awaited = set(self.topics)
        """The topics that the service has had, or that it needs for its start."""
        self._declared = _DeclaredIndexes()
        self._moved = asyncio.Event()
        self._sampled = asyncio.Event()
        self.unread_changes: Mapping[ChangesPartition, int] = {}
        """The events in Kafka that are not applied here yet, by partition; the follower keeps it up to date."""
        self.sample_soon: Callable[[Iterable[str]], None] = lambda logs: None
        """Requests a sample of the ends of some logs before it is due."""
        self.delays = Latencies()
        """Delays from the log append of a batch's oldest change until the listener was called."""
        self.broken: str | None = None
        self.snapshots_discarded: Counter[str] = Counter()
        """The number of snapshots that could not be used, by reason."""
        self._on_changes: OnChanges = lambda topic, partition, before, changes: None

    def add(self, definition: TopicDefinition) -> None:
        """Add a topic, without records; it is loading."""
        assert definition.name not in self.topics, "a topic is added once"
        topic = self._new_topic(definition)
        topic.metadata = self._about._replace(topic=definition.name)
        self.topics[definition.name] = self._by_changes[definition.changes] = topic
        self._by_log[definition.log] = topic
        self.definitions[definition.name] = definition
        assert len(self._by_changes) == len(self._by_log) == len(self.topics), "a topic has its own log"

    def describe(self, instance: str, group: str) -> None:
        """Set what filters on metadata find about this service, in all topics."""
        self._about = Metadata(instance=instance, group=group)
        for name, topic in self.topics.items():
            topic.metadata = self._about._replace(topic=name)

    def redefine(self, definition: TopicDefinition) -> None:
        """Take another definition of a topic."""
        topic = self.topics[definition.name]
        assert topic.definition.changes == definition.changes, "what is defined again keeps its changes"
        assert self._by_log[definition.log] is topic, "what is defined again keeps its log"
        topic.redefine(definition)
        self.definitions[definition.name] = definition
        self._declared.make(topic)

    def remove(self, definition: TopicDefinition) -> None:
        """Remove a topic, once nothing reads it any more."""
        del (
            self.definitions[definition.name],
            self._by_changes[definition.changes],
            self._by_log[definition.log],
        )
        self.topics.pop(definition.name).close()
        assert len(self._by_changes) == len(self._by_log) == len(self.topics), "a topic has its own log"
        self._awaited.discard(definition.name)

    def log_of(self, changes: str) -> str:
        """Return the log of the topic with these changes."""
        return self._by_changes[changes].definition.log

    def listen(self, on_changes: OnChanges) -> None:
        """Set the listener, which is called with every batch of changes at the instant it is applied."""
        self._on_changes = on_changes

    def changes_behind(self, topic: TopicState) -> int | None:
        """Return how many events of the changes topic are not applied here yet; None while that is unknown."""
        name = topic.definition.changes
        known = [
            self.unread_changes[name, number]
            for number in topic.partitions
            if (name, number) in self.unread_changes
        ]
        return sum(known) if len(known) == len(topic.partitions) else None

    def reached(self, logs: Iterable[str]) -> dict[LogPartition, Reached]:
        """Return what each partition of some logs has reached that is loaded. Any thread may call this."""
        return {
            (log_name, number): partition.reached
            for log_name, topic in self._of_logs(logs)
            for number, partition in topic.partitions.items()
            if not partition.loading
        }

    def unapplied(self, logs: Iterable[str]) -> dict[LogPartition, range]:
        """Return the offsets of some logs between what is applied and the newest sampled ends; as `reached` does."""
        return {
            (log_name, number): topic.log_ends[number].unapplied(partition.reached)
            for log_name, topic in self._of_logs(logs)
            for number, partition in topic.partitions.items()
            if not partition.loading
        }

    def _of_logs(self, logs: Iterable[str]) -> Iterator[tuple[str, TopicState]]:
        """Yield the topics of logs; a log whose topic was just removed may still be sampled once."""
        for log_name in logs:
            if (topic := self._by_log.get(log_name)) is not None:
                yield log_name, topic

    def take_log_ends(self, sample: LogEndSample) -> None:
        """Take where the logs end: what the lag is measured from."""
        for (log_name, number), reached in sample.reached.items():
            topic = self._by_log.get(log_name)
            if topic is None:
                continue
            # The progress events that name its log are deleted by age, and the lag would never be known
            # (test_a_topic_without_a_sow_learns_its_log_from_kafka).
            if not topic.definition.has_sow:
                topic.partitions[number].take_log(sample.topic_ids[log_name])
            topic.log_ends[number].note(
                sample.at,
                sample.ends[log_name, number],
                sample.topic_ids[log_name],
                reached,
                sample.transactions.get((log_name, number)),
            )
        self._sampled.set()
        self._sampled = asyncio.Event()

    async def wait_for_news(self, topics: Iterable[TopicState], seconds_max: float) -> None:
        """Request a sample of the ends of these logs; wait for a sample or for changes, at most for this time."""
        self.sample_soon(topic.definition.log for topic in topics)
        waits = [asyncio.ensure_future(event.wait()) for event in (self._sampled, self._moved)]
        try:
            await asyncio.wait(waits, timeout=seconds_max, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def take_hole(self, partition: LogPartition, offsets: range) -> None:
        """Note offsets of a log that hold no record, and don't count as lag."""
        log_name, number = partition
        if (topic := self._by_log.get(log_name)) is not None:
            topic.log_ends[number].note_hole(offsets.start, offsets.stop)

    @property
    def changes_applied(self) -> int:
        """The number of changes applied since the topics were loaded."""
        return sum(topic.changes_applied for topic in self.topics.values())

    @property
    def loading(self) -> list[str]:
        """The names of the topics that are not loaded yet, without those that were added while the service runs."""
        # A new topic would otherwise make a service that answers for all others unready
        # (test_a_new_topic_leaves_the_service_ready).
        return [name for name in self.topics if name in self._awaited and self.topics[name].loading]

    def take(self, batches: Batches) -> list[ChangesPartition]:
        """Apply the batches of the follower. Each is one instant, and the listener is called within it.

        Return the partitions that have to be loaded again, from the start of their topic: changes are missing after
        the snapshot that they began with.
        """
        if self.broken:
            return []
        again: list[ChangesPartition] = []
        for (changes_topic, number), portions in batches.items():
            topic = self._by_changes[changes_topic]
            partition = topic.partitions[number]
            if partition.loading and not partition.is_restored:
                partition.load(portions)
                continue
            before = partition.held
            try:
                changes = partition.apply(events_of(portions))
            except ChangesMissing as gap:
                if partition.loading:
                    # Nobody has seen a record of it yet (test_a_gap_behind_a_snapshot_discards_it).
                    self.discard_snapshot((changes_topic, number), "gap", str(gap))
                    again.append((changes_topic, number))
                    continue
                # A change is missing, and the records may be wrong from now on. Apply nothing more, and report it:
                # only a restart loads the partition again.
                self.broken = f"{changes_topic} [{number}]: {gap}"
                log.error("gap in the changes", topic=changes_topic, partition=number, why=str(gap))
                return again
            assert partition.held >= before, "a partition does not go back"
            assert not changes or changes[-1].position <= partition.held, "what was applied is held"
            topic.indexes.keep_up()
            # No await between `apply` and the listener. A subscription that became live in between would be at the
            # new position without these changes (test_what_happens_meanwhile_comes_too).
            if changes and not partition.loading:
                self._on_changes(topic, number, before, changes)
                self.delays.note(time.time() - changes[0].time / 1000)
        self._keep_within_memory()
        self._moved.set()
        # Not cleared but replaced: the event that was set wakes all that wait now, and nobody who comes later.
        self._moved = asyncio.Event()
        return again

    def restore_block(self, partition: ChangesPartition, block: Block) -> None:
        """Add records of a snapshot to a partition that has none yet."""
        topic, number = self._by_changes[partition[0]], partition[1]
        assert topic.partitions[number].loading, "a snapshot comes before all changes"
        topic.rows.restore(block, number)

    def restored(self, partition: ChangesPartition, head: Head, index: list[tuple[Position, int]]) -> None:
        """Note that all records of a snapshot were added: the partition follows from it."""
        topic = self._by_changes[partition[0]]
        topic.rows.free_replaced()
        topic.partitions[partition[1]].restore(head, index)

    def discard_snapshot(self, partition: ChangesPartition, reason: str, why: str) -> None:
        """Remove what a partition has of its snapshot, so that it can be loaded; log why, and count the reason."""
        topic, number = self._by_changes[partition[0]], partition[1]
        log.warning("snapshot discarded", topic=topic.definition.name, partition=number, why=why)
        self.snapshots_discarded[reason] += 1
        topic.partitions[number].begin_again()
        assert topic.partitions[number].loading, "without its snapshot it is loaded"

    def _keep_within_memory(self) -> None:
        if _drops_for_the_first_time(self.histories):
            log.warning(
                "history is dropped early: history_bytes_max is too small", bytes=self.histories.nbytes
            )
        if _drops_for_the_first_time(self.timelines):
            log.warning(
                "timelines are dropped early: timeline_bytes_max is too small", bytes=self.timelines.nbytes
            )

    def loaded(self, partitions: list[ChangesPartition]) -> None:
        """Note that the load of partitions is complete."""
        # `take` has applied nothing more since: their last events are missing.
        if self.broken:
            return
        for changes_topic, number in partitions:
            topic = self._by_changes[changes_topic]
            topic.partitions[number].loaded()
            assert not topic.partitions[number].loading, "what is loaded is followed"
            self.sample_soon([topic.definition.log])
            if not topic.loading:
                self._awaited.add(topic.definition.name)
                self._declared.make(topic)

    def failed(self, error: BaseException) -> None:
        """Note that the follower has ended; only a restart can help."""
        self.broken = f"following the changes ended: {error!r}"

    async def wait_moved(self) -> None:
        """Wait until something is applied."""
        await self._moved.wait()

    async def wait_until_reached(self, topic: TopicState, wanted: Positions, seconds: float) -> bool:
        """Wait until every partition has reached the wanted positions; return whether they have in time."""
        return await self.wait_until(
            lambda: all(topic.partitions[p].held >= position for p, position in wanted.items()), seconds
        )

    async def wait_until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait until `holds` is true, checked after each applied batch; return whether it is in time."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True


def _drops_for_the_first_time(kept: Histories | Timelines) -> bool:
    """Keep them within their memory limit; return whether they had to drop something, and never before."""
    # Once memory is short, each batch of changes drops something: a line for each would bury all other lines
    # (test_want_of_memory_for_histories_is_reported_once).
    had_memory = not kept.dropped
    return kept.keep_within() > 0 and had_memory
