"""The runner: a configured subscription, written to a Kafka topic of its own.

It follows the changes of its topic as a member of a consumer group. With each committed offset goes the
position up to which messages were written, so that a repeat of old changes stays a repeat, and the digest of
the fanout that they were written for. A new fanout begins with the records that match now.
"""

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from msgspec.structs import replace

from fanout.message import Holding, Written, fanout_headers
from fanout.subscription import MATCH, OOF, Delivery, Sighting, Subscription, require_told_before
from fanout.telling import Deltas, Form, Told, account, selected, tell
from sowline.change import DELETE, DELETED, Change, Event, fit_header, read_event
from sowline.cluster import Cluster
from sowline.command import Headers
from sowline.errors import SowlineError
from sowline.filter import About, compile_filter, require_deterministic
from sowline.following import Verdict, verdict
from sowline.kafka import Behind, exact_producer, plain_consumer, poll_batch, raising, read_range
from sowline.position import Position, before_the_log
from sowline.settings import FANOUTS, Settings
from sowline.topics import FanoutDefinition, TopicDefinition
from sowline.tracing import Span, begin

log = structlog.get_logger()

SOW = "sow"
BATCH_MAX = 1000
LOAD_STEP = 10_000
"""Records of a load that are looked at, or written, before the next poll: the group must hear of a member in time."""

REFUSALS = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)
"""Why Kafka does not take a message, however often it is written."""


@dataclass
class Following:
    """Where a fanout stands in one partition. While `load_end` is not reached, only the newest of each key counts."""

    position: Position | None
    next_offset: int
    load_end: int | None = None
    newest: dict[bytes, Change] = field(default_factory=dict)
    writing: Iterator[None] | None = None
    """Writes what was loaded, a step each time it is asked."""

    @property
    def is_loaded(self) -> bool:
        """Whether all that was there at the start is read, and not yet written."""
        return self.load_end is not None and self.next_offset >= self.load_end


class Runner:
    """Writes one fanout until told to stop."""

    def __init__(
        self, settings: Settings, fanout: FanoutDefinition, source: TopicDefinition, stop: threading.Event
    ) -> None:
        self._fanout = fanout
        self._source = source
        self._stop = stop
        self._kafka = settings.kafka_client
        self._cluster = Cluster(self._kafka)
        self._form = Form.of(fanout.reading, delta=fanout.delta)
        self._subscription = _subscription(fanout)
        self._about = About(topic=source.name, instance=socket.gethostname(), group=settings.group)
        self._producer = exact_producer(settings.kafka_client, source.log_bytes_max, error_cb=self._on_error)
        self._consumer = plain_consumer(
            settings.kafka_client,
            {
                "enable.partition.eof": True,
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": settings.session_timeout_ms,
                "heartbeat.interval.ms": max(300, settings.session_timeout_ms // 6),
            },
            f"{settings.group}{FANOUTS}{fanout.name}",
        )
        self._partitions: dict[int, Following] = {}
        self._spans: list[Span] = []
        self._refused: KafkaError | None = None
        self._failed: KafkaError | None = None
        """Why this producer can write no more, or has lost a message; a new one may do."""
        self.assigned = False
        self._behind = Behind()
        self.messages = 0

    def run(self) -> None:
        """Follow until told to stop; raises where going on would lose something."""
        self._consumer.subscribe(
            [self._source.changes],
            on_assign=raising(self._on_assign),
            on_revoke=raising(self._on_revoke),
            on_lost=raising(self._on_revoke),
        )
        try:
            while not self._stop.is_set():
                is_loaded = any(following.is_loaded for following in self._partitions.values())
                messages = poll_batch(self._consumer, BATCH_MAX, 0.0 if is_loaded else 0.2, self._on_end)
                if messages or is_loaded:
                    self._write(messages)
                self._behind.look(self._consumer, self._reached)
        finally:
            self._producer.purge()
            self._consumer.close()

    def _on_end(self, topic: str, number: int, offset: int) -> None:
        following = self._partitions.get(number)
        if following is not None:
            following.next_offset = max(offset, following.next_offset)

    def _reached(self) -> list[TopicPartition]:
        """Return which offset of each of its partitions is next."""
        changes = self._source.changes
        return [TopicPartition(changes, number, one.next_offset) for number, one in self._partitions.items()]

    @property
    def behind(self) -> int | None:
        """Events of its partitions' changes that are in Kafka and not written yet; None while that is not known."""
        places = self._behind.places
        known = [places.get((self._source.changes, number)) for number in list(self._partitions)]
        return sum(filter(None, known)) if self.assigned and None not in known else None

    # a batch

    def _write(self, messages: list[Message]) -> None:
        """Write what the changes lead to, wait for Kafka to have it, then commit how far that is."""
        for message in messages:
            following = self._partitions.get(message.partition() or 0)
            if following is not None:
                self._take(message, following)
        for number, following in self._partitions.items():
            if following.is_loaded:
                self._write_load(number, following)
        while self._producer.flush(0.5):
            if self._stop.is_set():
                return
        self._check_written()
        self._commit()
        for span in self._spans:
            span.end({"fanout": self._fanout.name})
        self._spans.clear()

    def _check_written(self) -> None:
        """Raise unless Kafka has all that was written: for good where it refused a message, else to begin again.

        What was written since the last commit is written once more then, which its bookmarks tell.
        """
        if self._refused is not None:
            raise SowlineError(
                "not written", f"Kafka refused a message of fanout {self._fanout.name}: {self._refused}"
            )
        if self._failed is not None:
            raise KafkaException(self._failed)

    def _take(self, message: Message, following: Following) -> None:
        event = read_event(message.key() or b"", message.value(), message.headers())  # type: ignore[arg-type]
        following.next_offset = max((message.offset() or 0) + 1, following.next_offset)
        if following.load_end is not None:
            _load(event, following)
        else:
            self._follow(message.partition() or 0, event, following)

    def _follow(self, number: int, event: Event, following: Following) -> None:
        held = following.position or before_the_log()
        judged = verdict(event, held)
        if judged is Verdict.GAP:
            raise SowlineError(
                "gap",
                f"fanout {self._fanout.name} stands at {held} in partition {number}, and what follows is gone: "
                "delete its consumer group, and it begins again with the records as they are",
            )
        if judged is Verdict.TAKE:
            following.position = event.position
            if isinstance(event, Change):
                delivery = self._subscription.on_change(
                    Sighting(event, self._about, f"{self._source.log}:{number}")
                )
                if delivery is not None:
                    self._send(number, event, delivery, self._traced(number, event))

    def _traced(self, number: int, change: Change) -> str | None:
        """Begin the span of a message, if its change is part of a trace; return what goes on with the message."""
        if change.traceparent is None:
            return None
        span = begin("fanout", self._source.name, change.traceparent, (number, str(change.position)))
        if span is None:
            return change.traceparent
        self._spans.append(span)
        return span.traceparent

    def _write_load(self, number: int, following: Following) -> None:
        """Write the next of the records that match. The partition stands still until all are written."""
        place = TopicPartition(self._source.changes, number)
        if following.writing is None:
            self._consumer.pause([place])
            following.writing = self._loaded(number, following)
        if next(following.writing, self) is self:
            following.newest.clear()
            following.load_end = following.writing = None
            self._consumer.resume([place])

    def _loaded(self, number: int, following: Following) -> Iterator[None]:
        """Write the records that match, a step at a time.

        What an earlier load has written that was cut short, and does not match any more, goes out of focus.
        """
        holding = Holding()
        for messages in self._written_before(number):
            for message in messages:
                headers = message.headers() or []
                holding.take(message.key() or b"", Written.read(message.value(), headers))  # type: ignore[arg-type]
            yield
        due = sorted(self._due_after_load(following, holding.bodies), key=lambda pair: pair[0].position)
        for place, (change, delivery) in enumerate(due, 1):
            self._send(number, change, delivery)
            if place % LOAD_STEP == 0:
                yield

    def _due_after_load(
        self, following: Following, written: dict[bytes, bytes]
    ) -> Iterator[tuple[Change, Delivery]]:
        """Yield a `sow` for each record that matches, and an `oof` for what was written and does not any more.

        What was written and is gone may have no deletion of its own any more: then its `oof` has no place.
        """
        nowhere = before_the_log()
        vanished = {key: Change(key, None, None, nowhere, nowhere, DELETE, 0) for key in written}
        for key, change in (vanished | following.newest).items():
            if change.body is not None and Sighting(change, self._about).matches_now(
                self._subscription.filter
            ):
                yield change, Delivery(SOW, change.body, known=change.known)
            elif key in written and change.body is not None:
                yield change, Delivery(OOF, change.body, MATCH, known=change.known)
            elif key in written and change.previous is not None:
                yield change, Delivery(OOF, change.previous, DELETED, known=change.known)
            elif key in written:
                yield replace(change, position=nowhere), Delivery(OOF, written[key], DELETED)

    def _written_before(self, number: int) -> Iterator[list[Message]]:
        """Read what readers of the fanout's topic hold already."""
        one = [number]
        start = self._cluster.starts(self._fanout.output, one)[number]
        end = self._cluster.ends(self._fanout.output, one)[number]
        return read_range(self._kafka, self._fanout.output, number, start, end, LOAD_STEP)

    def _send(self, number: int, change: Change, delivery: Delivery, traceparent: str | None = None) -> None:
        """Write what a delivery is to the fanout's readers, unless it is an update that they need not hear of."""
        told = tell(change.sow_key, delivery, self._form, Deltas(self._source.key_paths), change.time)
        if told is not None and told.removed and not fit_header(told.removed):
            told = told._replace(body=selected(delivery.body, self._form), removed=None)
        if told is not None:
            intrinsics = account(self._source.name, self._form, told)
            headers = fanout_headers(self._source, number, change, told, intrinsics, traceparent)
            self._produce(number, told, headers)

    def _produce(self, number: int, told: Told, headers: Headers) -> None:
        while True:
            try:
                self._producer.produce(
                    self._fanout.output,
                    told.body,
                    told.sow_key,
                    number,
                    self._on_delivery,
                    headers=headers,  # type: ignore[arg-type]
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self.messages += 1

    def _commit(self) -> None:
        done = [
            TopicPartition(
                self._source.changes,
                number,
                following.next_offset,
                f"{following.position} {self._fanout.digest}",
            )
            for number, following in self._partitions.items()
            if following.load_end is None and following.position is not None
        ]
        if done:
            self._consumer.commit(offsets=done, asynchronous=False)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() in REFUSALS:
            self._refused = self._refused or error
        elif error is not None:
            self._failed = self._failed or error

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._failed = self._failed or error

    # partitions come and go

    def _on_assign(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        committed = consumer.committed(places, timeout=30) if places else []
        for place in committed:
            if place.error is not None:
                raise KafkaException(place.error)
        self._partitions |= {place.partition: self._opened(place) for place in committed}
        starts = [
            TopicPartition(place.topic, place.partition, self._partitions[place.partition].next_offset)
            for place in committed
        ]
        consumer.incremental_assign(starts)
        self.assigned = True

    def _opened(self, place: TopicPartition) -> Following:
        if place.offset >= 0 and place.metadata:
            position, _, digest = place.metadata.partition(" ")
            self._require_same(digest)
            return Following(Position.parse(position), place.offset)
        one = [place.partition]
        start = self._cluster.starts(place.topic, one)[place.partition]
        end = self._cluster.ends(place.topic, one)[place.partition]
        log.info("a new fanout begins", fanout=self._fanout.name, partition=place.partition)
        return Following(None, start, load_end=end)

    def _require_same(self, digest: str) -> None:
        """Raise where a delta would be of a record, or of fields, that readers were never told of."""
        if self._fanout.delta and digest and digest != self._fanout.digest:
            raise SowlineError(
                "definition changed",
                f"fanout {self._fanout.name} was written with another filter or select list, and a delta needs"
                " readers that hold what this one shows: restore them in topics.yaml, or give it another name",
            )

    def _on_revoke(self, consumer: Consumer, places: list[TopicPartition]) -> None:
        for place in places:
            following = self._partitions.pop(place.partition, None)
            if following is not None and following.writing is not None:
                consumer.resume([place])


def _subscription(fanout: FanoutDefinition) -> Subscription:
    """The subscription that a fanout is configured to be; raises what its filter may not have."""
    filter = compile_filter(fanout.filter)
    subscription = Subscription(filter, fanout.reading.oof, fanout.delta, fanout.reading.no_redundant)
    where = f"the filter of fanout {fanout.name}"
    if subscription.looks_back or subscription.no_redundant:
        require_told_before(filter, where)
    else:
        require_deterministic(filter, where)
    return subscription


def _load(event: Event, following: Following) -> None:
    """Keep the newest change of each key, and the newest position."""
    following.position = max(event.position, following.position or event.position)
    if isinstance(event, Change):
        held = following.newest.get(event.sow_key)
        if held is None or held.position < event.position:
            following.newest[event.sow_key] = event
