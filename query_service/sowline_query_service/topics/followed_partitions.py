"""The partitions that a follower reads: what it hands to the replicas, and when each of their loads is complete.

It has no thread: `turn` takes the messages that were read, and calls the replicas through `in_loop`.
"""

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from types import ModuleType
from typing import Any, NamedTuple, cast

from confluent_kafka import Message

from sowline.changes.changes_reader import ChangesReader, Phase
from sowline.changes.wholeness import is_of
from sowline.config.shard import WHOLE, Shard
from sowline.config.topic_definition import TopicDefinition
from sowline.kafka.admin import Cluster, wait_for_answer
from sowline.kafka.changes_driver import AssignedChanges, ChangesPartition, Readers
from sowline.kafka.leaderless import Leaderless
from sowline_query_service.replica.incomplete_record import IncompleteRecord
from sowline_query_service.replica.plain_run import EventAtOffset, PlainRun, Portion
from sowline_query_service.topics.message_reader import MessageReader, is_plain

Batches = Mapping[ChangesPartition, Sequence[Portion]]

InLoop = Callable[..., Any]
"""Calls a function with arguments in the event loop, waits for it, and returns its result."""

Restore = Callable[[TopicDefinition, int, str, range, InLoop], int | None]
"""Restores a partition of a topic from its snapshot, given the id and the offsets of its changes topic. Returns the
offset to follow from; None if the partition must be loaded."""


def no_snapshot(*partition: object) -> None:
    """Restore nothing."""


class Replicas(NamedTuple):
    """The calls of a follower in the event loop of the replicas.

    `take(batches)` gets the events that arrived; a batch never ends within the changes of one log record. It may
    return partitions to load again from the start of their topic, because changes are missing after their snapshot.
    `loaded(partitions)` gets partitions whose load is complete (`sowline.changes.changes_reader`).
    """

    take: Callable[[Batches], Iterable[ChangesPartition] | None]
    loaded: Callable[[list[ChangesPartition]], None]
    restore: Restore = no_snapshot
    discard: Callable[[ChangesPartition, str, str], None] = no_snapshot


class FollowedPartitions:
    """The shard's partitions of topics, from their starts or snapshots on.

    A transient topic starts empty with the service, so its earlier changes are void. If no member of the group
    `workers` owns one of its partitions at the start, that is loaded once a worker has opened it and written an
    event.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the parts that a service is wired from
        self,
        topics: Sequence[TopicDefinition],
        cluster: Cluster,
        changes: AssignedChanges,
        replicas: Replicas,
        in_loop: InLoop,
        stop: threading.Event,
        workers: str = "",
        native: ModuleType | None = None,
        shard: Shard = WHOLE,
    ) -> None:
        """`native` is the module of the native core, if that reads plain changes."""
        self._topics = topics
        self._cluster = cluster
        self._changes = changes
        self._replicas = replicas
        self._in_loop = in_loop
        self._stop = stop
        self._workers = workers
        self._shard = shard
        self._reader = MessageReader(native)
        self._plain = {topic.changes for topic in topics if is_plain(topic)}
        self._incomplete: defaultdict[ChangesPartition, IncompleteRecord] = defaultdict(IncompleteRecord)
        self._unopened: dict[ChangesPartition, int] = {}
        """The end offset of each partition of a transient topic that no worker owned at the start."""
        self._without_snapshot: set[ChangesPartition] = set()
        """The partitions to load again from the start of their topic."""
        self._due: deque[Callable[[], None]] = deque()
        """Changes of the definitions, for the next turn."""

    def begin(self) -> None:
        """Begin to load all partitions that have a leader, from their snapshots if they have some."""
        begun: list[tuple[TopicDefinition, Readers]] = []
        for topic in self._topics:
            numbers = list(self._shard.partitions(topic))
            if (readers := self._prepared(topic, numbers)) is not None:
                self._changes.take(topic, numbers, readers)
                begun.append((topic, readers))
        for topic, readers in begun:
            self._restore(topic, readers)

    # Any thread may call these: it waits for Kafka, while the follower goes on with the other topics.

    def add(self, topic: TopicDefinition) -> None:
        """Follow a new topic, which the replicas have, from the next turn on."""
        numbers = list(self._shard.partitions(topic))
        if (readers := self._prepared(topic, numbers)) is not None:
            self._restore(topic, readers)
            self._due.append(partial(self._join, topic, numbers, readers))

    def redefine(self, topic: TopicDefinition, redefined: Callable[[], None]) -> None:
        """Follow a topic by another definition; `redefined` is called in the event loop between two batches."""
        self._due.append(partial(self._change, topic, redefined))

    def remove(self, topic: TopicDefinition, removed: Callable[[], None]) -> None:
        """Stop following a topic; `removed` is called in the event loop once nothing of it will follow."""
        self._due.append(partial(self._leave, topic, removed))

    def wait_for_turn(self) -> None:
        """Wait until the changes of definitions that were requested before have taken effect."""
        done = threading.Event()
        self._due.append(done.set)
        while not done.wait(0.5) and not self._stop.is_set():
            pass

    def _prepared(self, topic: TopicDefinition, numbers: Sequence[int]) -> Readers | None:
        """Return new readers of those partitions that have a leader; None if the service stops."""
        prepared: list[Readers] = []
        if not wait_for_answer(lambda: prepared.append(self._changes.prepared(topic, numbers)), self._stop):
            return None
        [readers] = prepared
        return readers if self._find_unopened(topic, readers) else None

    def _join(self, topic: TopicDefinition, numbers: Sequence[int], readers: Readers) -> None:
        assert topic.changes not in self._plain, "a topic is followed once"
        if is_plain(topic):
            self._plain.add(topic.changes)
        self._changes.add(topic, numbers, readers)

    def _change(self, topic: TopicDefinition, redefined: Callable[[], None]) -> None:
        # Before the replicas know it: a partition that has a history now takes no runs.
        self._plain.discard(topic.changes)
        self._in_loop(redefined)
        if is_plain(topic):
            self._plain.add(topic.changes)

    def _leave(self, topic: TopicDefinition, removed: Callable[[], None]) -> None:
        self._plain.discard(topic.changes)
        for partition in self._changes.remove(topic):
            self._incomplete.pop(partition, None)
            self._unopened.pop(partition, None)
            self._without_snapshot.discard(partition)
        assert all(name != topic.changes for name, _ in self._unopened), "nothing of it is waited for"
        self._in_loop(removed)

    # the follower's thread

    def turn(self, messages: Sequence[Message]) -> None:
        """Hand over what was read, and report the loads that it completes; raise `ChangesReplaced`."""
        if messages:
            for partition in self._hand_over(messages):
                self._load_again(partition)
        if not self._stop.is_set():
            self._changes.look()
            self._begin_come()
            self._leave_old_snapshots()
            self._report_loaded()
        while self._due and not self._stop.is_set():
            self._due.popleft()()

    def _begin_come(self) -> None:
        """Begin to load the awaited partitions that have a leader now."""
        for topic, readers in self._changes.come():
            if self._find_unopened(topic, readers):
                self._restore(topic, readers)
                self._changes.read(readers)

    def _restore(self, topic: TopicDefinition, readers: Readers) -> None:
        for partition, reader in readers.items():
            if partition in self._without_snapshot:
                self._without_snapshot.remove(partition)
            elif not self._stop.is_set():
                offsets = range(reader.next_offset, reader.target)
                offset = self._replicas.restore(topic, partition[1], reader.topic_id, offsets, self._in_loop)
                if offset is not None:
                    reader.begin_with_snapshot(offset)

    def _leave_old_snapshots(self) -> None:
        """Load partitions that have followed from their snapshots for too long."""
        for partition, reader in list(self._changes.loading.items()):
            # What it has is of use until the topic can be read.
            if reader.phase is Phase.MISSING and partition not in self._changes.leaderless:
                self._in_loop(self._replicas.discard, partition, "old", "following from it takes too long")
                self._load_again(partition)

    def _load_again(self, partition: ChangesPartition) -> None:
        """Load a partition from the start of its topic, instead of following from its snapshot."""
        self._incomplete.pop(partition, None)
        self._without_snapshot.add(partition)
        self._changes.load_again(partition)
        assert partition in self._changes.awaited, "it is loaded before it is followed"

    def _find_unopened(self, topic: TopicDefinition, readers: Readers) -> bool:
        """Note the end of each partition that no worker owns; a worker that opens it writes after that.

        Return whether Kafka answered before the service stops.
        """
        if not topic.starts_empty:
            return True
        owned: set[tuple[str, int]] = set()
        # The readers have the ends already. If the owners came first: a partition has no owner, a worker opens it and
        # writes its event, and the end includes that event. The load would wait for another one.
        if not wait_for_answer(lambda: owned.update(self._cluster.owned(self._workers)), self._stop):
            return False
        self._unopened |= {
            one: reader.target for one, reader in readers.items() if (topic.log, one[1]) not in owned
        }
        return True

    def _has_opened(self, partition: ChangesPartition) -> bool:
        """Whether a worker has opened the partition, and all its events are applied here."""
        end, reader = self._unopened.get(partition), self._changes.readers[partition]
        return end is None or (reader.next_offset > end and not self._incomplete[partition])

    def _hand_over(self, messages: Sequence[Message]) -> Iterable[ChangesPartition]:
        """Hand over the events in messages; return the partitions to load again."""
        readers = self._changes.readers
        loaded = [one for one, reader in self._changes.loading.items() if not reader.has_snapshot]
        plain = [partition for partition in loaded if partition[0] in self._plain]
        portions = self._reader.read(messages, plain)
        for partition, found in portions.items():
            _note_seen(readers[partition], found)
        ours = {partition: _ours(readers[partition], found) for partition, found in portions.items()}
        whole = {
            partition: self._incomplete[partition].complete(found)
            for partition, found in ours.items()
            if found
        }
        again: Iterable[ChangesPartition] | None = self._in_loop(
            self._replicas.take, {partition: found for partition, found in whole.items() if found}
        )
        return again or ()

    def _report_loaded(self) -> None:
        """Report the partitions whose load is complete."""
        # `_has_opened`: the end of a transient topic that no worker has opened proves nothing. Its records are of the
        # previous run, and become void when a worker opens it (test_a_transient_topic_without_an_owner).
        done = [
            partition
            for partition, reader in self._changes.loading.items()
            if reader.phase is Phase.COMPLETE and self._has_opened(partition)
        ]
        if done:
            # The topic may have been replaced after its id was looked up and before the first fetch. Then the offset
            # of a snapshot names another event of the new topic. And an owner that has not noticed writes there, as
            # the only event, that the load is complete (test_example, seeds 23 and 704947).
            wait_for_answer(partial(self._changes.require_same, done), self._stop)
        for partition in done:
            self._unopened.pop(partition, None)
            self._changes.follow(partition)
        if done:
            self._in_loop(self._replicas.loaded, done)

    @property
    def is_native(self) -> bool:
        """Whether the native core reads plain changes."""
        return self._reader.is_native

    def waiting(self) -> str | None:
        """Return a sentence that names the partitions that can't be loaded yet, and why; None if there are none."""
        sentences = [one for one in [self._changes.waiting()] if one is not None]
        loading = dict(self._changes.loading)
        incomplete = {partition for partition, one in loading.items() if one.phase is Phase.INCOMPLETE}
        if unopened := sorted(self._unopened.keys() - incomplete):
            listed = ", ".join(f"{changes} [{number}]" for changes, number in unopened)
            sentences.append(
                f"waiting for {listed}: a transient topic starts empty when a materializer opens it. Start a"
                " materializer if none is running"
            )
        return "; ".join(sentences) or None

    @property
    def leaderless(self) -> Leaderless:
        """The partitions of changes topics that have no leader in Kafka."""
        return self._changes.leaderless

    def topic_id(self, changes: str) -> str:
        """Return Kafka's id of a changes topic, as it was when its load began; empty if it is not followed."""
        # A copy, made in one step: the follower's thread may add or remove a topic meanwhile.
        readers = list(self._changes.readers.items())
        return next((one.topic_id for (name, _), one in readers if name == changes), "")


def _note_seen(reader: ChangesReader, portions: list[Portion]) -> None:
    """Note what was read of a partition."""
    if reader.is_loading:
        for kind, found in groupby(portions, type):
            if kind is PlainRun:
                for run in cast("Iterable[PlainRun]", found):
                    reader.saw_plain(run.changes)
            else:
                offsets, events = zip(*cast("Iterable[EventAtOffset]", found), strict=True)
                reader.saw(events, offsets)
    last = portions[-1]
    reader.read_up_to(1 + (last.last_offset if isinstance(last, PlainRun) else last.offset))


def _ours(reader: ChangesReader, portions: list[Portion]) -> list[Portion]:
    # An owner that has not noticed a replaced changes topic reports positions of the old one. They would complete
    # the load of a topic that is still being filled (test_the_word_of_an_owner_that_knows_another_topic).
    return [one for one in portions if isinstance(one, PlainRun) or is_of(one.event, reader.changes_id)]
