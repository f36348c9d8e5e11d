"""The runner of a fanout: writes a configured subscription to a Kafka topic.

It follows the changes of its topic as a member of a consumer group. Each committed offset carries the position up to
which messages were written, the digest of the fanout's definition, and the id of the changes topic. With the position
the runner recognizes repeats of old changes. A new fanout starts with the records that match now. So does a fanout
whose changes topic was deleted and created again.
"""

import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import structlog
from confluent_kafka import Consumer, Message, TopicPartition

from sowline.changes.change import Change, ChangesId, Event
from sowline.changes.changes_loader import LoadProgress, Phase, Verdict, incomplete, is_of, verdict
from sowline.config.fanouts import FanoutDefinition
from sowline.config.settings import FANOUTS, Settings
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.kafka.admin import Cluster, compaction_lag_ms
from sowline.kafka.clients import Behind, member_consumer, poll_batch, raising, read_range
from sowline.kafka.messages import event_of, headers_of
from sowline.kafka.retriable import commit, committed
from sowline.language.filter import Metadata, compile_filter, require_deterministic
from sowline.model.position import Position, before_the_log
from sowline.runtime.tracing import TraceSpan, begin
from sowline.subscriptions.engine.subscription import ChangeView, Subscription, require_sent_before
from sowline_fanout.load import Load
from sowline_fanout.message import OutputMessage, ReaderState
from sowline_fanout.output import FanoutOutput
from sowline_fanout.typed_values import TypedValues

log = structlog.get_logger()

BATCH_MAX = 1000
LOAD_STEP = 10_000
"""Records of a load that are read or written before the next poll: a group member must poll in time."""

LOOK_SECONDS = 1.0
"""Interval at which a load that waits for its topic to be filled checks that the topic is still the same."""


class TopicReplaced(Exception):
    """The changes topic was deleted and created again, so committed offsets are void."""


@dataclass
class Following:
    """The state of a fanout in one partition of the changes topic; with a `load`, it loads first."""

    topic_id: str
    next_offset: int
    position: Position | None = None
    load: Load | None = None
    writing: Iterator[None] | None = None
    """Writes the messages of the load, one step for each `next`."""
    phase: Phase = Phase.COMPLETE


class Runner:
    """Writes one fanout until the service stops."""

    def __init__(
        self,
        settings: Settings,
        fanout: FanoutDefinition,
        source: TopicDefinition,
        stop: threading.Event,
        values: TypedValues | None = None,
    ) -> None:
        """Prepare to write a fanout; `values` makes the values if they are not JSON."""
        self._fanout = fanout
        self._source = source
        self._values = values
        self._stop = stop
        self._kafka = settings.kafka_client
        self._cluster = Cluster(self._kafka, stop)
        self._subscription = _subscription(fanout)
        self._about = Metadata(topic=source.name, instance=socket.gethostname(), group=settings.group)
        self._output = FanoutOutput(settings.kafka_client, fanout, source, values)
        self._consumer = member_consumer(
            settings.kafka_client, f"{settings.group}{FANOUTS}{fanout.name}", settings.session_timeout_ms
        )
        self._partitions: dict[int, Following] = {}
        self._spans: list[TraceSpan] = []
        self.assigned = False
        self._behind = Behind()
        self._look_at = 0.0

    def run(self) -> None:
        """Follow the changes until the service stops. Raise if it can't continue without losing messages.

        After `TopicReplaced`, `KafkaException` or `RegistryAway` a new runner can continue from the committed
        offsets.
        """
        self._consumer.subscribe(
            [self._source.changes],
            on_assign=raising(self._on_assign),
            on_revoke=raising(self._on_revoke),
            on_lost=raising(self._on_revoke),
        )
        try:
            while not self._stop.is_set():
                is_loaded = self._look_at_loads()
                messages = poll_batch(self._consumer, BATCH_MAX, 0.0 if is_loaded else 0.2, self._on_end)
                if messages or is_loaded:
                    self._write(messages)
                self._behind.look(self._consumer, self._reached)
        finally:
            self._output.close()
            self._consumer.close()

    def _on_end(self, topic: str, number: int, offset: int) -> None:
        # There may be no events at the last offsets before the end. Without this, a fanout that has everything would
        # be reported as behind.
        following = self._partitions.get(number)
        if following is not None:
            following.next_offset = max(offset, following.next_offset)
            if following.load is not None:
                following.load.progress.at_end(offset)

    def _reached(self) -> list[TopicPartition]:
        """Return the next offset of each of its partitions."""
        changes = self._source.changes
        return [TopicPartition(changes, number, one.next_offset) for number, one in self._partitions.items()]

    @property
    def messages(self) -> int:
        """The number of messages written to the fanout's topic."""
        return self._output.messages

    @property
    def behind(self) -> int | None:
        """The number of events in its partitions that were not processed yet; None while that is unknown."""
        return self._behind.total(self._source.changes, list(self._partitions)) if self.assigned else None

    def waiting(self) -> str | None:
        """Return a sentence that names the partitions that can't be loaded yet; None if there are none."""
        numbers = [n for n, one in list(self._partitions.items()) if one.phase is Phase.INCOMPLETE]
        return incomplete(self._source.changes, numbers) if numbers else None

    # loading

    def _look_at_loads(self) -> bool:
        """Update the phases of the loads; return whether a complete one is to be written."""
        now = time.monotonic()
        for number, following in self._partitions.items():
            if following.load is None or following.writing is not None:
                continue
            following.phase = following.load.phase(now)
            # Compaction may have removed events below the target, because of newer events of their keys behind it.
            # Only a load up to the current end has them all.
            if following.phase is Phase.LATE:
                log.warning(
                    "loading takes long; continuing to the current end",
                    topic=self._source.name,
                    partition=number,
                )
                self._aim(number, following.load)
            elif following.phase is Phase.INCOMPLETE and now >= self._look_at:
                self._look_at = now + LOOK_SECONDS
                self._require_topic(following)
        return any(one.load is not None and one.phase is Phase.COMPLETE for one in self._partitions.values())

    def _aim(self, number: int, load: Load) -> None:
        end = self._cluster.ends(self._source.changes, [number])[number]
        load.progress.aim(end, time.monotonic())

    def _require_topic(self, following: Following) -> None:
        """Raise `TopicReplaced` if the changes topic was deleted and created again."""
        if self._cluster.topic_id(self._source.changes) != following.topic_id:
            raise TopicReplaced(f"{self._source.changes} was deleted and created again")

    # a batch

    def _write(self, messages: list[Message]) -> None:
        """Write the messages of the changes, wait until Kafka has them, then commit the offsets."""
        for message in messages:
            following = self._partitions.get(message.partition() or 0)
            if following is not None:
                try:
                    self._take(message, following)
                except Exception as error:
                    error.add_note(
                        f"{self._source.changes} [{message.partition()}] at offset {message.offset()}"
                    )
                    raise
        for number, following in self._partitions.items():
            if following.load is not None and following.phase is Phase.COMPLETE:
                self._write_load(number, following, following.load)
        # Write before commit. If the fanout committed first and died, its readers would never get these messages. In
        # this order they are written again, and readers drop repeats by their bookmarks (test_killed_fanout).
        if not self._output.flush(self._stop.is_set):
            return
        # `flush` also returns when messages have failed. Committed, they would never be written again
        # (test_a_message_that_is_refused_stops_it).
        self._output.require_written()
        self._commit()
        for span in self._spans:
            span.end({"fanout": self._fanout.name})
        self._spans.clear()

    def _take(self, message: Message, following: Following) -> None:
        event = event_of(message)
        offset = message.offset() or 0
        following.next_offset = max(offset + 1, following.next_offset)
        if following.load is not None:
            following.load.take(event, offset)
        elif is_of(event, following.topic_id):
            self._follow(message.partition() or 0, event, following)

    def _follow(self, number: int, event: Event, following: Following) -> None:
        held = following.position or before_the_log()
        judged = verdict(event, held)
        # Changes between the committed position and this event are gone, usually because the fanout was stopped for
        # longer than Kafka keeps them. Readers would never learn of them, so stop and let an operator decide. If the
        # topic is a new one, a new runner loads it instead.
        if judged is Verdict.GAP:
            self._require_topic(following)
            raise SowlineError(
                "gap",
                f"fanout {self._fanout.name} is at {held} in partition {number}, but the changes after that were "
                "deleted: delete its consumer group, and it starts again with the current records",
            )
        if judged is Verdict.TAKE:
            following.position = event.position
            if isinstance(event, Change):
                delivery = self._subscription.on_change(
                    ChangeView(event, self._about, f"{self._source.log}:{number}")
                )
                if delivery is not None:
                    self._output.send(number, event, delivery, self._traced(number, event))

    def _traced(self, number: int, change: Change) -> str | None:
        """Start the span of a message if its change is part of a trace; return the context to send with it."""
        if change.traceparent is None:
            return None
        span = begin("fanout", self._source.name, change.traceparent, (number, str(change.position)))
        if span is None:
            return change.traceparent
        self._spans.append(span)
        return span.traceparent

    def _write_load(self, number: int, following: Following, load: Load) -> None:
        """Write the next step of a complete load. The partition is paused until all of it is written."""
        changes = TopicPartition(self._source.changes, number)
        if following.writing is None:
            # The writer iterates over the load, which changes that arrive meanwhile would alter.
            self._consumer.pause([changes])
            following.writing = self._loaded(number, load)
        if next(following.writing, self) is self:
            following.writing = None
            # Otherwise nothing was written, and the load continues until it reaches `emitted_up_to`.
            if load.position >= load.emitted_up_to:
                following.position, following.load = load.position, None
            self._consumer.resume([changes])

    def _loaded(self, number: int, load: Load) -> Iterator[None]:
        """Write the messages of a load in steps; none if a previous run wrote messages from beyond its end."""
        # Read first what a previous run wrote. It was killed during its load, and a record that it wrote no longer
        # matches: readers need an `oof` for it (test_load_that_was_cut_short).
        holding = ReaderState() if self._values is None else ReaderState(self._values.merged)
        for messages in self._written_before(number):
            for message in messages:
                holding.take(message.key() or b"", self._read(message))
            yield
        load.emitted_up_to = holding.position or load.emitted_up_to
        # A previous run wrote messages from beyond the end of this load. Written now, its records would replace newer
        # ones at the readers. The load continues instead.
        if load.position < load.emitted_up_to:
            return
        for count, (change, delivery) in enumerate(
            load.messages(self._subscription, self._about, holding.bodies), 1
        ):
            self._output.send(number, change, delivery)
            if count % LOAD_STEP == 0:
                yield

    def _read(self, message: Message) -> OutputMessage:
        read = OutputMessage.read(message.value(), headers_of(message) or [])
        return read if self._values is None else self._values.read(read)

    def _written_before(self, number: int) -> Iterator[list[Message]]:
        """Read all messages that a partition of the fanout's topic has."""
        one = [number]
        start = self._cluster.starts(self._fanout.output, one)[number]
        end = self._cluster.ends(self._fanout.output, one)[number]
        return read_range(self._kafka, self._fanout.output, number, start, end, LOAD_STEP)

    def _commit(self) -> None:
        # Nothing is committed during a load. A runner that starts after a crash finds no offset, and loads again from
        # the start; the offset of half a load would lose the rest (test_load_that_was_cut_short).
        done = [
            TopicPartition(
                self._source.changes,
                number,
                following.next_offset,
                f"{following.position} {self._fanout.digest} {following.topic_id}",
            )
            for number, following in self._partitions.items()
            if following.load is None and following.position is not None
        ]
        if done:
            commit(self._consumer, done)

    # partitions come and go

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        found = committed(consumer, partitions)
        topic_id = self._cluster.topic_id(self._source.changes)
        self._partitions |= {one.partition: self._opened(one, topic_id) for one in found}
        starts = [
            TopicPartition(one.topic, one.partition, self._partitions[one.partition].next_offset)
            for one in found
        ]
        consumer.incremental_assign(starts)
        self.assigned = True

    def _opened(self, committed: TopicPartition, topic_id: str) -> Following:
        """Return where to start: after the committed position, or with a load of the changes topic with this id."""
        start = self._cluster.starts(committed.topic, [committed.partition])[committed.partition]
        if committed.offset >= 0 and committed.metadata:
            position, digest, committed_id = (*committed.metadata.split(" "), "", "")[:3]
            self._require_same(digest)
            # A committed offset is valid only in the topic that it was committed for. In a new one it would skip
            # events that the fanout never saw. Where the head of a topic was deleted, Kafka refuses it.
            if committed_id in ("", topic_id) and committed.offset >= start:
                return Following(topic_id, committed.offset, Position.parse(position))
            log.warning(
                "the changes topic was deleted and created again: loading it",
                fanout=self._fanout.name,
                partition=committed.partition,
            )
        else:
            log.info("new fanout started", fanout=self._fanout.name, partition=committed.partition)
        lag_seconds = compaction_lag_ms(self._source) / 1000
        changes_id = str(ChangesId(topic_id, start))
        load = Load(topic_id, LoadProgress(changes_id, lag_seconds, self._source.has_sow))
        self._aim(committed.partition, load)
        return Following(topic_id, start, load=load, phase=Phase.READING)

    def _require_same(self, digest: str) -> None:
        """Raise if deltas would be of records or fields that readers never received."""
        # The filter changes from north to south. A record in the south is updated: readers would get a delta of a
        # record that they do not hold (test_switched_deltas).
        if self._fanout.delta and digest and digest != self._fanout.digest:
            raise SowlineError(
                "definition changed",
                f"fanout {self._fanout.name} has another filter, select list, message type or schema than before, and"
                " its readers could not apply the deltas. Restore them in topics.yaml, or give the fanout another"
                " name",
            )

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            following = self._partitions.pop(one.partition, None)
            # The partition was paused while its load was written, and may come back to this runner.
            if following is not None and following.writing is not None:
                consumer.resume([one])


def _subscription(fanout: FanoutDefinition) -> Subscription:
    """Return the subscription of a fanout; raise `FilterError` if its filter is not allowed there."""
    filter = compile_filter(fanout.filter)
    subscription = Subscription(filter, fanout.reading.oof, fanout.delta, fanout.reading.no_redundant)
    where = f"the filter of fanout {fanout.name}"
    if subscription.looks_back or subscription.no_redundant:
        require_sent_before(filter, where)
    else:
        require_deterministic(filter, where)
    return subscription
