"""Connects readers of changes topics with Kafka: gets their events, sets their targets, and checks their topics."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import structlog
from confluent_kafka import OFFSET_END, Consumer, Message, TopicPartition

from sowline.changes.changes_reader import ChangesReader, ChangesReplaced, Phase, incomplete
from sowline.changes.progress import ChangesId
from sowline.config.kafka_options import KafkaConfig
from sowline.config.topic_definition import TopicDefinition, by_changes
from sowline.kafka.admin import Cluster, is_answered
from sowline.kafka.clients import (
    REPORT_ENDS,
    Behind,
    assign_more,
    of_many,
    plain_consumer,
    poll_batch,
    raising,
    wake_fetchers,
)
from sowline.kafka.cluster_answer import ClusterAnswer, RepeatedQuestion
from sowline.kafka.leaderless import KafkaPartition, Leaderless, why_it_waits
from sowline.kafka.topic_settings import compaction_lag_ms

log = structlog.get_logger()

ChangesPartition = tuple[str, int]
"""The name of a changes topic and the number of one of its partitions."""

Readers = dict[ChangesPartition, ChangesReader]

AlsoNeeded = Callable[[int], Iterable[KafkaPartition]]
"""Returns the partitions of other topics without whose leaders a partition of this number can't be processed."""


def nothing_else(number: int) -> Iterable[KafkaPartition]:
    """Return no partition: that of the changes is enough."""
    return ()


LOOK_SECONDS = 3.0
"""The interval at which Kafka is asked whether the topics are the same. A replaced topic is noticed within 5 s."""


class ChangesDriver:
    """The readers of partitions of changes topics, and the consumer that reads for them."""

    consumer: Consumer

    def __init__(self, cluster: Cluster, topics: Iterable[TopicDefinition], stop: threading.Event) -> None:
        self.readers: Readers = {}
        self.loading: Readers = {}
        """The readers that are loading."""
        self.awaited: set[ChangesPartition] = set()
        """The partitions that get a reader once they have a leader: nobody else knows where they begin and end."""
        self.leaderless: Leaderless = {}
        """The partitions that were last found without a leader, of those that are needed. Other threads read it, so
        it is replaced and never changed."""
        self._paused: set[ChangesPartition] = set()
        self.behind = Behind()
        """The number of events in Kafka that were not read yet."""
        self._cluster = cluster
        self._topics = by_changes(topics)
        self._stop = stop
        self._question = RepeatedQuestion(LOOK_SECONDS)

    # which partitions

    def load(self, changes: str, numbers: Iterable[int]) -> None:
        """Create readers that load partitions from their start up to their present end."""
        self._take(self._made(self._topics[changes], list(numbers)))

    def _made(self, topic: TopicDefinition, numbers: Sequence[int]) -> Readers:
        """Return new readers of a topic's partitions. It waits for Kafka, and changes nothing."""
        changes = topic.changes
        starts = self._cluster.starts(changes, numbers)
        topic_id = self._cluster.topic_id(changes)
        found = {(changes, number): _new_reader(topic, topic_id, offset) for number, offset in starts.items()}
        self._aim(found, changes, numbers)
        return found

    def _needed(self, partition: ChangesPartition) -> Iterable[KafkaPartition]:
        """Return the partitions of Kafka that must have a leader before a partition gets a reader."""
        return (partition,)

    def _await(self, partitions: Iterable[ChangesPartition]) -> None:
        self.awaited.update(partitions)
        # A pending answer does not have them.
        self._question.forget()

    def _note_leaderless(self, leaderless: Leaderless) -> None:
        needed = {one for of in (*self.readers, *self.awaited) for one in self._needed(of)}
        found = {one: brokers for one, brokers in leaderless.items() if one in needed}
        for topic, number in sorted(found.keys() - self.leaderless.keys()):
            why = why_it_waits({(topic, number): found[topic, number]})
            log.warning("partition waits for a leader", topic=topic, partition=number, why=why)
        self.leaderless = found

    def _take(self, readers: Readers) -> None:
        self.readers |= readers
        self.loading |= readers
        # A pending answer may have the id of the topic before it was replaced: the new reader would take itself for
        # one of a topic that is gone (test_an_answer_that_was_asked_for_before_a_load_does_not_count).
        self._question.forget()

    def _aim(self, readers: Readers, changes: str, numbers: Iterable[int]) -> None:
        now = time.monotonic()
        for number, end in self._cluster.ends(changes, numbers).items():
            readers[changes, number].aim(end, now)

    def follow(self, partition: ChangesPartition) -> None:
        """End a complete load."""
        self.loading.pop(partition).follow()

    def pause(self, partition: ChangesPartition) -> None:
        """Pause reading a partition; its load waits."""
        self._paused.add(partition)
        self.consumer.pause([TopicPartition(*partition)])

    def resume(self, partition: ChangesPartition) -> None:
        """Resume reading a partition that was paused."""
        if partition in self._paused:
            self._paused.remove(partition)
            self.consumer.resume([TopicPartition(*partition)])
            wake_fetchers(self.consumer)

    def starts(self, partitions: Iterable[ChangesPartition]) -> list[TopicPartition]:
        """Return where the readers of partitions read next."""
        return [TopicPartition(*partition, self.readers[partition].next_offset) for partition in partitions]

    # reading

    def poll(self, records_max: int, seconds: float) -> list[Message]:
        """Return the messages that have arrived, waiting for the first only; raise permanent errors."""
        return poll_batch(self.consumer, records_max, seconds, self._on_end)

    def _on_end(self, topic: str, number: int, offset: int) -> None:
        # There may be no events at the last offsets before the end. Without this, a reader that has everything would
        # be reported as behind.
        if (reader := self.readers.get((topic, number))) is not None:
            reader.at_end(offset)

    def look(self) -> None:
        """Update the phases of the loads, and set new targets where they need one; raise `ChangesReplaced`.

        Everything that was read must be applied before.
        """
        self._look_at_topics()
        now = time.monotonic()
        for (changes, number), reader in self.loading.items():
            is_halted = (changes, number) in self._paused or (changes, number) in self.leaderless
            if not is_halted and reader.look(now) is Phase.AIMING:
                # Compaction may have removed `K@5` before this load read it, because `K@9` after the original end
                # replaced it. Only a load up to the current end has K (test_a_load_that_takes_long_goes_on).
                log.warning(
                    "loading takes long; continuing to the current end", topic=changes, partition=number
                )
                # Once: a partition that has just lost its leader must not hold up the others
                # (test_a_load_without_a_leader_gets_no_new_target).
                is_answered(partial(self._aim, self.readers, changes, [number]))
        self.behind.look(self.consumer, lambda: self.starts(self.readers))

    def _look_at_topics(self) -> None:
        """Ask for the ids and leaders of the topics without waiting; take the answer to the last question."""
        if self.readers or self.awaited or self._question.is_pending:
            self._question.look(time.monotonic(), self._ask, self._learn)

    def _ask(self) -> ClusterAnswer:
        needed = (one for of in (*self.readers, *self.awaited) for one in self._needed(of))
        return self._cluster.ask(topics={topic for topic, _ in needed})

    def _learn(self, asked: ClusterAnswer) -> None:
        # A topic that is gone may be created again, with another id.
        gone = asked.gone()
        self._note_leaderless(asked.leaderless(gone))
        ids = asked.topic_ids(gone)
        for (changes, _), reader in self.readers.items():
            _require_same(changes, reader, ids.get(changes))

    def require_same(self, partitions: Iterable[ChangesPartition]) -> None:
        """Raise `ChangesReplaced` if one of these topics was deleted and created again since its readers began."""
        ids: dict[str, str] = {}
        for partition in partitions:
            changes = partition[0]
            if changes not in ids:
                ids[changes] = self._cluster.topic_id(changes)
            _require_same(changes, self.readers[partition], ids[changes])

    def waiting(self) -> str | None:
        """Return a sentence that names the partitions that can't be loaded yet, or have lost their leader; None if
        there are none.

        Safe to call from any thread.
        """
        names: dict[str, list[int]] = defaultdict(list)
        leaderless = self.leaderless
        # A copy, made in one step: the thread that reads may end a load meanwhile.
        for (changes, number), reader in list(self.loading.items()):
            if reader.phase is Phase.INCOMPLETE and (changes, number) not in leaderless:
                names[changes].append(number)
        sentences = [incomplete(changes, names[changes]) for changes in sorted(names)]
        return "; ".join([*sentences, *([why_it_waits(leaderless)] if leaderless else [])]) or None


def _new_reader(topic: TopicDefinition, topic_id: str, start: int) -> ChangesReader:
    lag_seconds = compaction_lag_ms(topic) / 1000
    return ChangesReader(str(ChangesId(topic_id, start)), lag_seconds, topic.has_sow)


def _require_same(changes: str, reader: ChangesReader, topic_id: str | None) -> None:
    # The progress events of a new topic name its id: a load would wait forever for one with the old id, and a reader
    # that follows would never advance in a partition without changes
    # (test_a_topic_that_is_replaced_while_it_is_followed).
    if topic_id is not None:
        reader.note_topic(topic_id)
        if reader.phase is Phase.REPLACED:
            raise ChangesReplaced(changes)


class AssignedChanges(ChangesDriver):
    """Reads partitions that its user chooses: `load` them, then `assign`, and `read` those that come later."""

    def __init__(self, cluster: Cluster, topics: Iterable[TopicDefinition], stop: threading.Event) -> None:
        super().__init__(cluster, topics, stop)
        self._asked_at = 0.0
        self._come: Readers = {}
        """New readers of awaited partitions."""

    def load(self, changes: str, numbers: Iterable[int]) -> None:
        """Create readers that load partitions; those without a leader are awaited."""
        numbers = list(numbers)
        self.take(self._topics[changes], numbers, self.prepared(self._topics[changes], numbers))

    def prepared(self, topic: TopicDefinition, numbers: Iterable[int]) -> Readers:
        """Return new readers of those of a topic's partitions that have a leader.

        Any thread may call this: it waits for Kafka, and changes nothing.
        """
        leaderless = self._cluster.leaderless([topic.changes])
        led = [number for number in numbers if (topic.changes, number) not in leaderless]
        return self._made(topic, led) if led else {}

    def take(self, topic: TopicDefinition, numbers: Iterable[int], readers: Readers) -> None:
        """Take the readers that were prepared for these partitions, and await the others."""
        self._take(readers)
        self._await({(topic.changes, number) for number in numbers} - readers.keys())

    def _ask(self) -> ClusterAnswer:
        self._asked_at = time.monotonic()
        topics = {changes for changes, _ in (*self.readers, *self.awaited)}
        return self._cluster.ask(self.awaited, starts=self.awaited, topics=topics)

    def _learn(self, asked: ClusterAnswer) -> None:
        super()._learn(asked)
        gone = asked.gone()
        ids, starts, ends = asked.topic_ids(gone), asked.starts(gone), asked.ends(gone)
        for partition in self.awaited & starts.keys() & ends.keys():
            changes = partition[0]
            self._come[partition] = reader = _new_reader(
                self._topics[changes], ids[changes], starts[partition]
            )
            reader.aim(ends[partition], self._asked_at)

    def come(self) -> Iterator[tuple[TopicDefinition, Readers]]:
        """Yield the topics of awaited partitions that have a leader now, with their new readers, to be read."""
        come, self._come = self._come, {}
        for changes in {changes for changes, _ in come}:
            yield self._topics[changes], {one: reader for one, reader in come.items() if one[0] == changes}

    def assign(self, kafka: KafkaConfig) -> None:
        """Begin to read the partitions of all readers. Call `close`."""
        self.consumer = plain_consumer(kafka, {**REPORT_ENDS, **of_many(len(self.readers))})
        self.consumer.incremental_assign(self.starts(self.readers))

    def close(self) -> None:
        """Stop reading."""
        self.consumer.close()

    def add(self, topic: TopicDefinition, numbers: Iterable[int], readers: Readers) -> None:
        """Read a topic, too, by readers that were prepared; the other partitions are read on."""
        self._topics[topic.changes] = topic
        self.take(topic, numbers, readers)
        self._assign_more(readers)

    def read(self, readers: Readers) -> None:
        """Read awaited partitions, which have come; the other partitions are read on."""
        assert readers.keys() <= self.awaited, "only what is awaited comes"
        self.awaited -= readers.keys()
        self._take(readers)
        self._assign_more(readers)

    def _assign_more(self, readers: Readers) -> None:
        if readers:
            assign_more(self.consumer, self.starts(readers))

    def remove(self, topic: TopicDefinition) -> list[ChangesPartition]:
        """Read no more of a topic; return the partitions that were read."""
        removed = [partition for partition in self.readers if partition[0] == topic.changes]
        self._drop(removed)
        self.awaited = {one for one in self.awaited if one[0] != topic.changes}
        self._come = {one: reader for one, reader in self._come.items() if one[0] != topic.changes}
        self._note_leaderless(self.leaderless)
        self._topics.pop(topic.changes, None)
        return removed

    def load_again(self, partition: ChangesPartition) -> None:
        """Load a partition from its start instead of following it. It is awaited, and may have lost its leader."""
        self._drop([partition])
        self._await([partition])

    def _drop(self, partitions: Sequence[ChangesPartition]) -> None:
        self.consumer.incremental_unassign([TopicPartition(*partition) for partition in partitions])
        wake_fetchers(self.consumer)
        for partition in partitions:
            del self.readers[partition]
            self.loading.pop(partition, None)
            self._paused.discard(partition)
            self.behind.lags.pop(partition, None)
        self._question.forget()


class MemberChanges(ChangesDriver):
    """Reads the partitions of one topic that a consumer group gives to this member."""

    def __init__(
        self,
        consumer: Consumer,
        cluster: Cluster,
        topic: TopicDefinition,
        stop: threading.Event,
        also_needed: AlsoNeeded = nothing_else,
    ) -> None:
        super().__init__(cluster, [topic], stop)
        self.consumer = consumer
        self._changes = topic.changes
        self._also_needed = also_needed
        self.is_member = False
        """Whether the group has assigned its partitions, which may be none."""

    def _needed(self, partition: ChangesPartition) -> Iterable[KafkaPartition]:
        return (partition, *self._also_needed(partition[1]))

    def join(self, opened: Callable[[Sequence[int]], None], closed: Callable[[int], None]) -> None:
        """Join the group.

        `opened` is called with added partitions, and makes their readers; `closed` with each removed partition. An
        added partition that needs a leader is awaited instead.
        """

        def on_assign(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            given = [(one.topic, one.partition) for one in partitions]
            lacking = self._await_leaders(given)
            opened([number for _, number in given if number not in lacking])
            led = self.starts(one for one in given if one[1] not in lacking)
            # Nobody knows yet where it begins. It has to be assigned all the same, because the group may revoke it.
            others = [TopicPartition(self._changes, number, OFFSET_END) for number in lacking]
            assign_more(consumer, [*led, *others])
            for number in lacking:
                self.pause((self._changes, number))
            self.is_member = True

        def on_revoke(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            for one in partitions:
                partition = one.topic, one.partition
                self.awaited.discard(partition)
                # The group may assign it to this member again, which would then find it paused.
                self.resume(partition)
                if self.readers.pop(partition, None) is not None:
                    self.loading.pop(partition, None)
                    closed(one.partition)
            self._note_leaderless(self.leaderless)

        self.consumer.subscribe(
            [self._changes],
            on_assign=raising(on_assign),
            on_revoke=raising(on_revoke),
            on_lost=raising(on_revoke),
        )

    def _await_leaders(self, partitions: Sequence[ChangesPartition]) -> list[int]:
        """Await those of these partitions that need a leader which is missing, and return their numbers."""
        needed = {one for partition in partitions for one in self._needed(partition)}
        leaderless = self._cluster.leaderless({topic for topic, _ in needed})
        lacking = [one for one in partitions if not leaderless.keys().isdisjoint(self._needed(one))]
        self._await(lacking)
        self._note_leaderless({**self.leaderless, **leaderless})
        return [number for _, number in lacking]

    def come(self) -> list[int]:
        """Return the awaited partitions that have all their leaders again; give them readers, then `read` them."""
        come = [one for one in self.awaited if self.leaderless.keys().isdisjoint(self._needed(one))]
        self.awaited.difference_update(come)
        return [number for _, number in come]

    def read(self, numbers: Iterable[int]) -> None:
        """Read partitions that have come, by their new readers."""
        for start in self.starts((self._changes, number) for number in numbers):
            self.consumer.seek(start)
            self.resume((start.topic, start.partition))

    def close(self) -> None:
        """Leave the group."""
        self.consumer.close()
        # It refers to this object by its callbacks. The threads of this object's clients would stay until Python
        # looks for such cycles (test_many_changes_leave_nothing_behind).
        del self.consumer

    def follow_after(self, number: int, reader: ChangesReader) -> None:
        """Follow a partition from a known position."""
        self.readers[self._changes, number] = reader
        self._question.forget()

    @property
    def total_behind(self) -> int | None:
        """The number of events in its partitions that were not read yet; None while that is unknown."""
        numbers = [number for _, number in list(self.readers)]
        return self.behind.total(self._changes, numbers) if self.is_member else None
