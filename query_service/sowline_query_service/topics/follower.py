"""The thread that reads the changes topics and hands the events, in batches, to the event loop of the replicas.

The replicas decide what to do with an event (`sowline_query_service.replica.partition_replica`). They find gaps, too:
a gap ends the service, because a replica without the missing changes would answer wrongly.
"""

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from types import ModuleType
from typing import Any, cast

import structlog
from confluent_kafka import Consumer, Message, TopicPartition

from sowline.changes.change import ChangesId
from sowline.changes.changes_loader import LoadProgress, Phase, incomplete, is_of
from sowline.config.kafka_options import KafkaConfig
from sowline.config.shard import WHOLE, Shard
from sowline.config.topic_definition import TopicDefinition, by_changes
from sowline.errors import SowlineError
from sowline.kafka.admin import Cluster, await_answer, compaction_lag_ms
from sowline.kafka.clients import REPORT_ENDS, Behind, of_many, plain_consumer, poll_batch
from sowline.serving.cooperative import StepSize
from sowline_query_service.replica.partition_replica import whole_records
from sowline_query_service.replica.plain_run import EventAtOffset, PlainRun, Portion
from sowline_query_service.topics.message_reader import ChangesPartition, MessageReader, Portions, is_plain

log = structlog.get_logger()

Batches = Mapping[ChangesPartition, Sequence[Portion]]

InLoop = Callable[..., Any]
"""Calls a function with arguments in the event loop, waits for it, and returns its result."""

Restore = Callable[[TopicDefinition, int, str, range, InLoop], int | None]
"""Restores a partition of a topic from its snapshot, given the id and the offsets of its changes topic. Returns the
offset to follow from; None if the partition must be loaded."""

LOOK_SECONDS = 1.0
"""Interval at which a load that waits for its topic to be filled checks that the topic is still the same."""


def no_snapshot(*partition: object) -> None:
    """Restore nothing."""


class TopicFollower:
    """Reads the partitions of changes topics from their start, or from a snapshot, then follows them.

    It makes all its calls in the event loop, one after another. `take(batches)` gets the events that arrived; a batch
    never ends within the changes of one log record. It may return partitions to load again from the start of their
    topic, because changes are missing after their snapshot. `loaded(partitions)` gets partitions whose load is
    complete (`sowline.changes.changes_loader`). `failed(error)` reports that following has ended.

    A transient topic starts empty with the service, so its earlier changes are void. If no member of the group
    `workers` owns one of its partitions at the start, that is loaded once a worker has opened it and written an
    event.
    """

    def __init__(
        self,
        kafka: KafkaConfig,
        topics: Sequence[TopicDefinition],
        take: Callable[[Batches], Iterable[ChangesPartition] | None],
        loaded: Callable[[list[ChangesPartition]], None],
        failed: Callable[[BaseException], None],
        workers: str = "",
        native: ModuleType | None = None,
        restore: Restore = no_snapshot,
        discard: Callable[[ChangesPartition, str, str], None] = no_snapshot,
        shard: Shard = WHOLE,
    ) -> None:
        """Follow the shard's partitions of topics once it starts.

        `native` is the module of the native core, if that reads plain changes.
        """
        self._shard = shard
        self._restore = restore
        self._discard = discard
        self._kafka = kafka
        self._topics = topics
        self._take = take
        self._loaded = loaded
        self._failed = failed
        self._workers = workers
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reader = MessageReader(native)
        self._plain = {topic.changes for topic in topics if is_plain(topic)}
        self._held_back: Portions = defaultdict(list)
        self._starts: dict[ChangesPartition, int] = {}
        self._loading: dict[ChangesPartition, LoadProgress] = {}
        self._restored: set[ChangesPartition] = set()
        """The partitions that follow from a snapshot, as long as their load lasts."""
        self._incomplete: frozenset[ChangesPartition] = frozenset()
        self._unopened: dict[ChangesPartition, int] = {}
        """The end offset of each partition of a transient topic that no worker owned at the start."""
        self._look_at = 0.0
        self._topic_ids: dict[str, str] = {}
        self._pace = StepSize()
        self._assigned: list[TopicPartition] = []
        self.behind = Behind()
        """The number of events in Kafka that were not handed over yet."""

    def start(self) -> None:
        """Start to read; call it in the event loop that takes the batches."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Stop reading, and wait for the thread to end, for ten seconds at most."""
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as error:
            # Report any error. If the thread ended silently, the service would keep answering with old records
            # (test_a_kafka_that_refuses_for_good).
            log.error("following ended", why=repr(error))
            self._in_loop(self._failed, error)

    def _follow(self) -> None:
        self._cluster = Cluster(self._kafka, self._stop)
        for topic in self._topics:
            await_answer(partial(self._look_up, topic), self._stop)
        for topic in self._topics:
            for number in self._shard.partitions(topic):
                self._begin_with_snapshot(topic, number)
        consumer = plain_consumer(self._kafka, {**REPORT_ENDS, **of_many(len(self._starts))})
        try:
            self._assigned = [
                TopicPartition(*partition, offset) for partition, offset in self._starts.items()
            ]
            consumer.assign(self._assigned)
            while not self._stop.is_set():
                messages = poll_batch(consumer, self._pace.records, 0.2, self._on_end)
                if messages:
                    for partition in self._hand_over(messages):
                        self._load_again(consumer, partition)
                if self._stop.is_set():
                    break
                if self._loading:
                    self._leave_old_snapshots(consumer)
                    self._report_loaded()
                self.behind.look(consumer, partial(self._reached, consumer))
        finally:
            consumer.close()

    def _begin_with_snapshot(self, topic: TopicDefinition, number: int) -> None:
        partition = (topic.changes, number)
        if self._stop.is_set():
            return
        offsets = range(self._starts[partition], self._loading[partition].target)
        topic_id = self._topic_ids[topic.changes]
        offset = self._restore(topic, number, topic_id, offsets, self._in_loop)
        if offset is not None:
            self._starts[partition] = offset
            self._loading[partition].begin_at(offset)
            self._restored.add(partition)

    def _leave_old_snapshots(self, consumer: Consumer) -> None:
        """Load partitions that have followed from their snapshots for too long."""
        # Kafka was away for an hour, say. Compaction may have removed the last event of a record that was deleted
        # before that (test_a_snapshot_that_is_followed_for_too_long).
        if self._restored and not self._stop.is_set():
            now = time.monotonic()
            for partition in [one for one in self._restored if self._loading[one].has_aged(now)]:
                self._in_loop(self._discard, partition, "old", "following from it takes too long")
                self._load_again(consumer, partition)

    def _load_again(self, consumer: Consumer, partition: ChangesPartition) -> None:
        """Load a partition from the start of its topic, instead of following from its snapshot."""
        changes, number = partition
        topic = by_changes(self._topics)[changes]
        self._restored.remove(partition)
        self._held_back[partition] = []
        await_answer(partial(self._look_up_partition, topic, number), self._stop)
        if not self._stop.is_set():
            consumer.seek(TopicPartition(changes, number, self._starts[partition]))

    def _look_up_partition(self, topic: TopicDefinition, number: int) -> None:
        """Note the start and the end of one partition."""
        self._begin_at(topic, self._cluster.starts(topic.changes, [number]))
        self._aim(topic.changes, [number])

    def _reached(self, consumer: Consumer) -> list[TopicPartition]:
        """Return the consumer's offset in each partition."""
        # Before a consumer has read from a partition, it reports a negative offset: take the start offset then.
        positions = consumer.position(self._assigned)
        return [
            max(pair, key=lambda found: found.offset) for pair in zip(self._assigned, positions, strict=True)
        ]

    def _look_up(self, topic: TopicDefinition) -> None:
        """Note the start, the end and the topic id of the changes of a topic."""
        changes, partitions = topic.changes, self._shard.partitions(topic)
        starts = self._cluster.starts(changes, partitions)
        self._topic_ids[changes] = self._cluster.topic_id(changes)
        self._begin_at(topic, starts)
        if topic.starts_empty:
            self._find_unopened(topic)
        self._aim(changes, partitions)

    def _begin_at(self, topic: TopicDefinition, starts: Mapping[int, int]) -> None:
        """Note the offsets at which partitions start, where their loads begin."""
        lag, topic_id = compaction_lag_ms(topic) / 1000, self._topic_ids[topic.changes]
        for number, offset in starts.items():
            self._starts[topic.changes, number] = offset
            self._loading[topic.changes, number] = LoadProgress(
                str(ChangesId(topic_id, offset)), lag, topic.has_sow
            )

    def _find_unopened(self, topic: TopicDefinition) -> None:
        """Note the end of each partition that no worker owns; a worker that opens it writes after that."""
        # Read the ends first. If the owners came first: a partition has no owner, a worker opens it and writes its
        # event, and the end includes that event. The load would wait for another one.
        ends = self._cluster.ends(topic.changes, self._shard.partitions(topic))
        owned = self._cluster.owned(self._workers)
        self._unopened |= {
            (topic.changes, number): end for number, end in ends.items() if (topic.log, number) not in owned
        }

    def _has_opened(self, partition: ChangesPartition) -> bool:
        """Whether a worker has opened the partition, and all its events are applied here."""
        end = self._unopened.get(partition)
        return end is None or (self._loading[partition].next_offset > end and not self._held_back[partition])

    def _aim(self, changes: str, partitions: Iterable[int]) -> None:
        """Set the current ends of partitions as the targets of their loads."""
        now = time.monotonic()
        for number, end in self._cluster.ends(changes, partitions).items():
            self._loading[changes, number].aim(end, now)

    def _hand_over(self, messages: list[Message]) -> Iterable[ChangesPartition]:
        """Hand over the events in messages; return the partitions to load again."""
        loaded = self._loading.keys() - self._restored
        plain = [partition for partition in loaded if partition[0] in self._plain]
        portions = self._reader.read(messages, plain)
        for partition in portions.keys() & self._loading.keys():
            self._note_seen(self._loading[partition], portions[partition])
        ours = {partition: self._ours(partition, found) for partition, found in portions.items()}
        whole = {partition: self._whole(partition, found) for partition, found in ours.items() if found}
        again: Iterable[ChangesPartition] | None = self._in_loop(
            self._take, {partition: found for partition, found in whole.items() if found}
        )
        return again or ()

    @staticmethod
    def _note_seen(load: LoadProgress, portions: list[Portion]) -> None:
        for kind, found in groupby(portions, type):
            if kind is PlainRun:
                for run in cast(Iterable[PlainRun], found):
                    load.saw_plain(run.changes)
                    load.read_up_to(run.last_offset + 1)
            else:
                offsets, events = zip(*cast(Iterable[EventAtOffset], found), strict=True)
                load.saw(events, offsets)
                load.read_up_to(offsets[-1] + 1)

    def _ours(self, partition: ChangesPartition, portions: list[Portion]) -> list[Portion]:
        # An owner that has not noticed a replaced changes topic reports positions of the old one. They would complete
        # the load of a topic that is still being filled (test_the_word_of_an_owner_that_knows_another_topic).
        topic_id = self._topic_ids[partition[0]]
        return [one for one in portions if isinstance(one, PlainRun) or is_of(one.event, topic_id)]

    def _whole(self, partition: ChangesPartition, portions: list[Portion]) -> list[Portion]:
        """Return the events to hand over; hold back the changes of a log record that is not complete yet."""
        # A delete by filter makes many changes of one log record. If the batch ended within them, a query would see
        # half of the command.
        whole, self._held_back[partition] = whole_records([*self._held_back[partition], *portions])
        return whole

    def _on_end(self, topic: str, partition: int, offset: int) -> None:
        if (load := self._loading.get((topic, partition))) is not None:
            load.at_end(offset)

    def _report_loaded(self) -> None:
        """Report the partitions whose load is complete, and set a new target for those that took too long."""
        now = time.monotonic()
        phases = {partition: load.phase(now) for partition, load in self._loading.items()}
        for (changes, number), phase in phases.items():
            if phase is Phase.LATE:
                # Compaction may have removed `K@5` before this load read it, because `K@9` behind the original end
                # replaced it. Only a load up to the current end has K (test_a_load_that_takes_long_goes_on).
                log.warning(
                    "loading takes long; continuing to the current end", topic=changes, partition=number
                )
                await_answer(partial(self._aim, changes, [number]), self._stop)
        self._incomplete = frozenset(
            partition for partition, phase in phases.items() if phase is Phase.INCOMPLETE
        )
        if (self._incomplete or self._restored) and now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._require_same_topics(self._incomplete | self._restored)
        # `_has_opened`: the end of a transient topic that no worker has opened proves nothing. Its records are of the
        # previous run, and become void when a worker opens it (test_a_transient_topic_without_an_owner).
        done = [
            partition
            for partition, phase in phases.items()
            if phase is Phase.COMPLETE and self._has_opened(partition)
        ]
        # The topic may have been replaced after its id was looked up and before the first fetch. The offset of the
        # snapshot names another event of the new topic (test_example, seed 23).
        self._require_same_topics(self._restored.intersection(done))
        for partition in done:
            del self._loading[partition]
            self._restored.discard(partition)
            self._unopened.pop(partition, None)
        if done:
            self._in_loop(self._loaded, done)

    def _require_same_topics(self, partitions: Iterable[ChangesPartition]) -> None:
        """Raise if the topic of a partition was deleted and created again since its load began."""
        for changes in {changes for changes, _ in partitions}:
            await_answer(partial(self._require_same_topic, changes), self._stop)

    def _require_same_topic(self, changes: str) -> None:
        # The progress events of the new topic name its id, so this load would wait forever
        # (test_a_topic_that_is_replaced_while_it_is_waited_for).
        if self._cluster.topic_id(changes) != self._topic_ids[changes]:
            raise SowlineError(
                "changes replaced",
                f"{changes} was deleted and created again while it was loaded. Start again",
            )

    @property
    def is_native(self) -> bool:
        """Whether the native core reads plain changes."""
        return self._reader.is_native

    def waiting(self) -> str | None:
        """Return a sentence that names the partitions that can't be loaded yet, and why; None if there are none."""
        names: dict[str, list[int]] = defaultdict(list)
        for changes, number in self._incomplete:
            names[changes].append(number)
        sentences = [incomplete(changes, names[changes]) for changes in sorted(names)]
        if unopened := sorted(self._unopened.keys() - self._incomplete):
            listed = ", ".join(f"{changes} [{number}]" for changes, number in unopened)
            sentences.append(
                f"waiting for {listed}: a transient topic starts empty when a materializer opens it. Start a"
                " materializer if none is running"
            )
        return "; ".join(sentences) or None

    def topic_id(self, changes: str) -> str:
        """Return Kafka's id of a changes topic, as it was when its load began."""
        return self._topic_ids[changes]

    def _in_loop(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Call a function in the event loop, wait until it has returned, and return its result; None at the end."""
        # At most one batch is in flight. Without the wait, a thread that reads faster than the loop applies would
        # fill the memory with batches during a load.
        done = threading.Event()
        results: list[Any] = []
        errors: list[BaseException] = []

        def call() -> None:
            began = time.monotonic()
            try:
                results.append(function(*arguments))
            except BaseException as error:
                # The loop's handler logs it. This thread ends the service, because the batch may be half applied.
                errors.append(error)
                raise
            finally:
                self._pace.note(time.monotonic() - began)
                done.set()

        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop has ended: there is nothing left to report to
            self._stop.set()
            return None
        while not done.wait(0.5) and not self._stop.is_set():
            pass
        if errors:
            raise errors[0]
        return results[0] if results else None
