"""The runner of a fanout: writes a configured subscription to a Kafka topic.

It follows the changes of its topic as a member of a consumer group. Each committed offset carries the position up to
which messages were written, the digest of the fanout's definition, and the id of the changes topic. With the position
the runner recognizes repeats of old changes. A new fanout starts with the records that match now. So does a fanout
whose changes topic was deleted and created again.
"""

import socket
import threading
from collections.abc import Iterator, Sequence

import structlog
from confluent_kafka import Message, TopicPartition

from sowline.changes.change import Change
from sowline.changes.changes_reader import ChangesMissing, ChangesReader, Phase, Verdict
from sowline.config.fanouts import FanoutDefinition
from sowline.config.settings import FANOUTS, Settings
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.kafka.clients import read_range
from sowline.kafka.leader_watch import needing_leader
from sowline.kafka.messages import event_of, headers_of
from sowline.kafka.retriable import commit, committed
from sowline.kafka.runner import Runner
from sowline.language.filter import Metadata, compile_filter, require_deterministic
from sowline.model.position import Position
from sowline.runtime.tracing import TraceSpan, begin
from sowline.subscriptions.engine.subscription import ChangeView, Subscription, require_sent_before
from sowline_fanout.load import Load
from sowline_fanout.message import OutputMessage, ReaderState
from sowline_fanout.output import FanoutOutput
from sowline_fanout.typed_values import TypedValues

log = structlog.get_logger()

LOAD_STEP = 10_000
"""Records of a load that are read or written before the next poll: a group member must poll in time."""


class FanoutRunner(Runner[FanoutOutput]):
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
        output = FanoutOutput(settings.kafka_client, fanout, source, values, stop)
        super().__init__(
            settings,
            f"{FANOUTS}{fanout.name}",
            source,
            output,
            stop,
            # What a partition writes goes to the output's partition of the same number.
            lambda number: [(fanout.output, number)],
        )
        self._fanout = fanout
        self._values = values
        self._kafka = settings.kafka_client
        self._subscription = _subscription(fanout)
        self._about = Metadata(topic=source.name, instance=socket.gethostname(), group=settings.group)
        self._loads: dict[int, Load] = {}
        self._writing: dict[int, Iterator[None]] = {}
        """By partition: writes the messages of its load, one step for each `next`."""
        self._spans: list[TraceSpan] = []

    def _turn(self) -> None:
        is_loaded = any(one.phase is Phase.COMPLETE for one in self._changes.loading.values())
        messages = self._poll(0.0 if is_loaded else 0.2)
        if messages or is_loaded:
            self._write(messages)

    # a batch

    def _write(self, messages: list[Message]) -> None:
        """Write the messages of the changes, wait until Kafka has them, then commit the offsets."""
        for message in messages:
            number = message.partition() or 0
            if (reader := self._changes.readers.get((self._source.changes, number))) is not None:
                try:
                    self._take(number, reader, message)
                except Exception as error:
                    error.add_note(f"{self._source.changes} [{number}] at offset {message.offset()}")
                    raise
        for (_, number), reader in list(self._changes.loading.items()):
            if reader.phase is Phase.COMPLETE:
                self._write_load(number, reader)
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

    def _take(self, number: int, reader: ChangesReader, message: Message) -> None:
        event = event_of(message)
        try:
            judged = reader.take(event, message.offset() or 0)
        except ChangesMissing as gap:
            # Changes between the committed position and this event are gone, usually because the fanout was stopped
            # for longer than Kafka keeps them. Readers would never learn of them, so stop and let an operator decide.
            # If the topic is a new one, a new runner loads it instead.
            self._changes.require_same([(self._source.changes, number)])
            raise SowlineError(
                "gap",
                f"fanout {self._fanout.name} is at {reader.position} in partition {number}, but the changes after"
                " that were deleted: delete its consumer group, and it starts again with the current records",
            ) from gap
        if judged is Verdict.LOAD:
            self._loads[number].take(event)
        elif judged is Verdict.TAKE and isinstance(event, Change):
            seen = ChangeView(event, self._about, f"{self._source.log}:{number}")
            if (delivery := self._subscription.on_change(seen)) is not None:
                assert number not in self._writing, "no change overtakes the load before it"
                self._output.send(number, event, delivery, self._begin_span(number, event))

    def _begin_span(self, number: int, change: Change) -> str | None:
        """Start the span of a message if its change is part of a trace; return the context to send with it."""
        if change.traceparent is None:
            return None
        span = begin("fanout", self._source.name, change.traceparent, (number, str(change.position)))
        if span is None:
            return change.traceparent
        assert span.traceparent, "a span that was begun has a context to send"
        self._spans.append(span)
        return span.traceparent

    def _write_load(self, number: int, reader: ChangesReader) -> None:
        """Write the next step of a complete load. The partition is paused until all of it is written."""
        partition = self._source.changes, number
        if number not in self._writing:
            # The writer iterates over the load, which changes that arrive in the meantime would alter.
            assert number in self._loads, "only a partition with a load is written from one"
            self._changes.pause(partition)
            self._writing[number] = self._loaded(number, reader)
        if next(self._writing[number], self) is self:
            del self._writing[number]
            # Otherwise nothing was written, and the load continues.
            if reader.has_reached_required:
                assert reader.phase is Phase.COMPLETE, "a partition is followed once its load is complete"
                self._changes.follow(partition)
                del self._loads[number]
            self._changes.resume(partition)

    def _loaded(self, number: int, reader: ChangesReader) -> Iterator[None]:
        """Write the messages of a load in steps; none if a previous run wrote messages from beyond its end."""
        # Read first what a previous run wrote. It was killed during its load, and a record that it wrote no longer
        # matches: readers need an `oof` for it (test_load_that_was_cut_short).
        holding = ReaderState() if self._values is None else ReaderState(self._values.merged)
        for messages in self._written_before(number):
            for message in messages:
                holding.take(message.key() or b"", self._read(message))
            yield
        reader.required_position = holding.position or reader.required_position
        # A previous run wrote messages from beyond the end of this load. Written now, its records would replace newer
        # ones at the readers. The load continues instead.
        if not reader.has_reached_required:
            return
        load = self._loads[number]
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
        idle = needing_leader(self._kafka, {(self._fanout.output, number)})
        return read_range(self._kafka, self._fanout.output, number, start, end, LOAD_STEP, idle)

    def _commit(self) -> None:
        # Nothing is committed during a load. A runner that starts after a crash finds no offset, and loads again from
        # the start; the offset of half a load would lose the rest (test_load_that_was_cut_short).
        done = [
            TopicPartition(
                *partition,
                reader.next_offset,
                f"{reader.position} {self._fanout.digest} {reader.topic_id}",
            )
            for partition, reader in self._changes.readers.items()
            if not reader.is_loading
        ]
        assert all(one.partition not in self._writing for one in done), "nothing is committed during a load"
        if done:
            commit(self._changes.consumer, done)

    # partitions come and go

    def _opened(self, numbers: Sequence[int]) -> None:
        """Continue after the committed positions of partitions, or load them."""
        self._require_all_partitions()
        changes = self._source.changes
        topic_id, starts = self._cluster.topic_id(changes), self._cluster.starts(changes, numbers)
        for one in committed(self._changes.consumer, [TopicPartition(changes, n) for n in numbers]):
            reader = self._resumed(one, starts[one.partition], topic_id)
            if reader is not None:
                assert one.partition not in self._loads, "a partition is loaded or followed"
                self._changes.follow_after(one.partition, reader)
            else:
                self._changes.load(changes, [one.partition])
                self._loads[one.partition] = Load()

    def _resumed(self, committed: TopicPartition, start: int, topic_id: str) -> ChangesReader | None:
        """Return the reader that continues after a committed position of the topic with this id; None to load it."""
        if committed.offset < 0 or not committed.metadata:
            log.info("new fanout started", fanout=self._fanout.name, partition=committed.partition)
            return None
        position, digest, committed_id = (*committed.metadata.split(" "), "", "")[:3]
        self._require_same(digest)
        # A committed offset is valid only in the topic that it was committed for. In a new one it would skip
        # events that the fanout never saw. Where the head of a topic was deleted, Kafka refuses it.
        if committed_id in ("", topic_id) and committed.offset >= start:
            return ChangesReader.after(Position.parse(position), committed.offset, topic_id)
        log.warning(
            "the changes topic was deleted and created again: loading it",
            fanout=self._fanout.name,
            partition=committed.partition,
        )
        return None

    def _require_all_partitions(self) -> None:
        """Raise if readers hold records of partitions that the source no longer has: nothing would end them."""
        output, partitions = self._fanout.output, self._source.partitions
        beyond = range(partitions, self._cluster.partitions(output))
        if not beyond:
            return
        starts, ends = self._cluster.starts(output, beyond), self._cluster.ends(output, beyond)
        if held := [number for number in beyond if starts[number] < ends[number]]:
            raise SowlineError(
                "bad topic",
                f"expected no messages beyond the {partitions} partitions of {self._source.name} in {output}, found"
                f" some in partition {held[0]}: it had more before it was dropped. Drop fanout {self._fanout.name}"
                " too, or give it another name",
            )

    def _closed(self, number: int) -> None:
        self._loads.pop(number, None)
        self._writing.pop(number, None)

    def _require_same(self, digest: str) -> None:
        """Raise if readers keep records or fields by another definition."""
        # The filter changes from north to south. A record in the south is updated: readers would get a delta of a
        # record that they do not hold (test_switched_deltas).
        if self._fanout.fixed_digest and digest and digest != self._fanout.digest:
            raise SowlineError(
                "definition changed",
                f"expected the filter, select list, message type and schema of fanout {self._fanout.name} as"
                " before, got others, by which its readers keep no records. Restore them in topics.yaml, or give the"
                " fanout another name",
            )


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
