"""The runner of a view: follows the changes of its source as a member of a consumer group, and writes partial states.

It needs no committed offsets. A message that is written again changes nothing, because the owner of the view's
partition compares positions of the source (`sowline_materializer.core.views`).
"""

import threading
import time
from collections.abc import Sequence
from types import ModuleType

import structlog
from confluent_kafka import Message, TopicPartition

from sowline.changes.changes_reader import Phase
from sowline.config.settings import VIEWS, Settings
from sowline.config.topic_definition import TopicDefinition
from sowline.kafka.changes_driver import ChangesPartition
from sowline.kafka.messages import event_of
from sowline.kafka.retriable import commit, committed
from sowline.kafka.runner import Runner
from sowline_views.core.generations import next_generation
from sowline_views.core.joined_tables import JoinedTable
from sowline_views.core.outgoing import Outgoing
from sowline_views.core.source_partition import NO_TABLES, SourcePartition, take_joined
from sowline_views.output import PartialsOutput
from sowline_views.tables import JoinedTopics

log = structlog.get_logger()

SNAPSHOT_MESSAGES = 100
"""Messages of a snapshot that are written before the next poll: a group member must poll in time."""

POLL_SECONDS = 0.2
POLL_SECONDS_MAX = 10.0
"""How long one event may take before the next poll."""

JOIN_POLL_SECONDS = 0.01
"""With joins, two consumers are read in turn."""

GROUP_SHOWN_MAX = 200
"""Characters of a group's key text in the log."""

PROGRESS_SECONDS = 0.5
"""How often a source partition's position is reported to partitions of the view that it does not change."""


class ViewRunner(Runner[PartialsOutput]):
    """Writes the partial states of one view until the service stops."""

    def __init__(
        self,
        settings: Settings,
        topic: TopicDefinition,
        source: TopicDefinition,
        stop: threading.Event,
        joined: Sequence[JoinedTable] = (),
        native: ModuleType | None = None,
    ) -> None:
        """Prepare to compute `topic`, a view, from the changes of `source`, and of the topics that it joins."""
        output = PartialsOutput(settings.kafka_client, topic, stop)
        # A generation takes in all of the joined topics.
        needed = [(one.topic.changes, number) for one in joined for number in range(one.topic.partitions)]
        super().__init__(settings, f"{VIEWS}{topic.name}", source, output, stop, lambda number: needed)
        self._topic = topic
        self._native = native
        self._partitions: dict[int, SourcePartition] = {}
        self._joined = JoinedTopics(settings.kafka_client, self._cluster, joined, stop) if joined else None
        self._joined_ends: dict[int, dict[ChangesPartition, int]] = {}
        """By source partition, the ends of the joined topics when its generation began."""
        assert topic.view is not None
        self._interval_seconds = topic.view.interval_ms / 1000
        """Seconds for which the changes of a conflated topic are merged; 0 in a view."""
        self._flushed_at = self._polled_at = 0.0

    def _turn(self) -> None:
        is_busy = self._advance_loads()
        # Before the next poll, which `_take_joined` may make. A partition that is lost and assigned again in between
        # would take these for the last events of its new load. A snapshot without states would then end its groups
        # (test_what_was_read_before_a_partition_came_back_is_not_of_its_new_load).
        self._take(self._poll(0.0 if is_busy else self._poll_seconds()))
        self._take_joined()
        self._warn_of_large_states()

    def _poll(self, seconds: float) -> list[Message]:
        self._polled_at = time.monotonic()
        return super()._poll(seconds)

    def _close(self) -> None:
        super()._close()
        if self._joined is not None:
            self._joined.close()

    def waiting(self) -> str | None:
        """Return a sentence that names the partitions that can't be loaded yet; None if there are none."""
        waits = super().waiting()
        return self._joined.waiting() if waits is None and self._joined is not None else waits

    # loads and snapshots

    def _advance_loads(self) -> bool:
        """End the loads that are complete, and send the next messages of snapshots; return whether more are left."""
        for number, partition in self._partitions.items():
            if partition.reader.phase is Phase.COMPLETE and self._has_joined(number):
                # The snapshot is of one position, and is sent step by step.
                self._changes.pause((self._source.changes, number))
                self._changes.follow((self._source.changes, number))
                partition.end_load()
            elif partition.is_sending_snapshot:
                self._output.send(partition.take_snapshot(SNAPSHOT_MESSAGES))
                if not partition.is_sending_snapshot:
                    self._changes.resume((self._source.changes, number))
        return any(one.is_sending_snapshot for one in self._partitions.values())

    # joins

    def _begin_generations(self, numbers: Sequence[int]) -> dict[int, int]:
        """Begin the next generation of each of these source partitions, and return them.

        Kafka refuses the commit of a member that has lost the partition. So no two members have one generation, and
        the newest one belongs to the owner.
        """
        if self._joined is None or not numbers:
            return dict.fromkeys(numbers, 0)
        consumer, changes = self._changes.consumer, self._source.changes
        found = committed(consumer, [TopicPartition(changes, number) for number in numbers])
        claimed = {one.partition: one.metadata for one in found}
        now = time.time()
        generations = {number: next_generation(claim, now) for number, claim in claimed.items()}
        commit(
            consumer, [TopicPartition(changes, number, 0, str(own)) for number, own in generations.items()]
        )
        # An earlier owner's messages reflect nothing after these ends. The new owner must not show less.
        self._joined_ends |= dict.fromkeys(numbers, self._joined.ends())
        if not all(claimed.values()):
            # The group may be deleted again at once: the next owner must find nothing of a second that is not over
            # (test_joins_continue_after_their_consumer_group_is_gone).
            self._stop.wait(max(generations.values()) - time.time())
        return generations

    def _has_joined(self, number: int) -> bool:
        """Whether the tables have everything from before the generation of a source partition began."""
        return self._joined is None or self._joined.have_reached(self._joined_ends[number])

    def _take_joined(self) -> None:
        """Take the changes of joined topics, and write the states that they change."""
        # A snapshot is of one position. It may still be read from the states that a change would touch.
        if self._joined is None or any(one.is_sending_snapshot for one in self._partitions.values()):
            return
        for event in self._joined.events():
            try:
                for _, messages in take_joined(event, self._joined.tables, self._partitions.values()):
                    self._output.send(messages)
                    self._stay_member()
                    if self._stop.is_set():
                        return
            except Exception as error:
                error.add_note(f"the change of {event.log} [{event.partition}] at {event.position}")
                raise

    def _stay_member(self) -> None:
        """Poll during long work on one event: Kafka takes the partitions of a member that does not."""
        if time.monotonic() - self._polled_at < POLL_SECONDS_MAX:
            return
        # No event of the source may be applied in between: the states have half of a change.
        held = list(self._changes.readers)
        for partition in held:
            self._changes.pause(partition)
        self._take(self._poll(0.0))
        for partition in held:
            self._changes.resume(partition)

    # a batch

    def _take(self, messages: list[Message]) -> None:
        """Write the states that a batch changes."""
        made: list[Outgoing] = []
        for message in messages:
            number, offset = message.partition() or 0, message.offset() or 0
            if (partition := self._partitions.get(number)) is not None:
                try:
                    made += partition.take(event_of(message), offset)
                except Exception as error:
                    error.add_note(f"{self._source.changes} [{number}] at offset {offset}")
                    raise
        self._output.send(made)
        also_idle = time.monotonic() - self._flushed_at >= (self._interval_seconds or PROGRESS_SECONDS)
        if also_idle:
            self._flushed_at = time.monotonic()
        if also_idle or not self._interval_seconds:
            for partition in self._partitions.values():
                self._output.send(partition.flush(also_idle=also_idle))

    def _warn_of_large_states(self) -> None:
        # A GROUP_CONCAT of all records grows with each of them, and each writes it again: the log gets gigabytes
        # before the limit stops the view.
        for number, partition in self._partitions.items():
            if (large := partition.take_large_state()) is not None:
                log.warning(
                    "view has a large state",
                    view=self._topic.name,
                    partition=number,
                    group=large.key[:GROUP_SHOWN_MAX],
                    bytes=large.bytes,
                    bytes_max=large.bytes_max,
                )

    def _poll_seconds(self) -> float:
        """Return for how many seconds a poll waits for the next change."""
        if self._joined is not None:
            return JOIN_POLL_SECONDS
        if not self._interval_seconds:
            return POLL_SECONDS
        return min(POLL_SECONDS, max(0.0, self._flushed_at + self._interval_seconds - time.monotonic()))

    # partitions come and go

    def _opened(self, numbers: Sequence[int]) -> None:
        """Begin to load partitions."""
        joined, source = self._joined, self._source
        generations = self._begin_generations(numbers)
        self._changes.load(source.changes, numbers)
        for number in numbers:
            self._partitions[number] = SourcePartition(
                self._topic,
                number,
                source.partitions,
                self._changes.readers[source.changes, number],
                NO_TABLES if joined is None else joined.tables,
                generations[number],
                source.log,
                self._native,
            )
            log.info("view loads its source", view=self._topic.name, source=source.name, partition=number)

    def _closed(self, number: int) -> None:
        self._partitions.pop(number).close()
