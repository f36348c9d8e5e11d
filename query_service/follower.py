"""The thread that reads the changes topics and hands them, batch by batch, to the replicas' loop."""

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import structlog
from confluent_kafka import Consumer, Message, TopicPartition

from query_service.pace import Pace
from query_service.replica import Placed, whole_records
from sowline.change import read_event
from sowline.cluster import Cluster, await_answer, compaction_lag_ms
from sowline.following import Wholeness, is_of
from sowline.kafka import REPORT_ENDS, Behind, KafkaConfig, plain_consumer, poll_batch
from sowline.topics import TopicDefinition

log = structlog.get_logger()

Place = tuple[str, int]
"""The name of a changes topic and the number of one of its partitions."""

Batches = dict[Place, list[Placed]]


class Aim(NamedTuple):
    """Where a partition ended, and when that was seen, in seconds of a clock that does not jump."""

    end: int
    seen_at: float


class Follower:
    """Reads whole changes topics from their start and goes on as they grow.

    `take(batches)` is called in the event loop, one call after another, each with what arrived; the batches
    of a partition end where a log record's changes end. `loaded(places)` is called in the loop once a
    partition has been read to the end that was seen at the start, and has said how far it got: where the
    changes are being written again, that comes last.

    Compaction goes on meanwhile. It removes an event only for a newer one of its key that is older than the topic's
    lag. If the newer one is before the end that was seen, it is read, too. If not, it was written after that end was
    seen, so the removal was later than that by more than the lag: what was read sooner lacks nothing. A load that
    takes longer goes on to the end as it is by then, and so on; of each key the newest counts, so what was missed
    is made good by what it was removed for. To read a partition to its very end takes no time, and lacks nothing.
    Half of the lag is counted with, for clocks differ.
    """

    def __init__(
        self,
        kafka: KafkaConfig,
        topics: Sequence[TopicDefinition],
        take: Callable[[Batches], None],
        loaded: Callable[[list[Place]], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._kafka = kafka
        self._topics = topics
        self._take = take
        self._loaded = loaded
        self._failed = failed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._held_back: Batches = defaultdict(list)
        self._starts: dict[Place, int] = {}
        self._loading: dict[Place, Aim] = {}
        self._lags = {topic.changes: compaction_lag_ms(topic) / 1000 for topic in topics}
        self._ended: set[Place] = set()
        self._topic_ids: dict[str, str] = {}
        self._wholeness: dict[Place, Wholeness] = {}
        self._unsaid: set[Place] = set()
        self._pace = Pace()
        self._assigned: list[TopicPartition] = []
        self.behind = Behind()
        """Events that are in Kafka and not handed over yet."""

    def start(self) -> None:
        """Begin to read; call it in the event loop that shall be handed the batches."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Stop reading, and wait until that is so."""
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as error:
            log.error("following ended", why=repr(error))
            self._call(self._failed, error)

    def _follow(self) -> None:
        self._cluster = Cluster(self._kafka)
        for topic in self._topics:
            await_answer(partial(self._look_up, topic), self._stop)
        consumer = plain_consumer(self._kafka, REPORT_ENDS)
        try:
            self._assigned = [TopicPartition(*place, offset) for place, offset in self._starts.items()]
            consumer.assign(self._assigned)
            while not self._stop.is_set():
                messages = poll_batch(consumer, self._pace.records, 0.2, self._on_end)
                if messages:
                    self._hand_over(messages)
                if self._loading:
                    self._report_loaded(messages)
                self.behind.look(consumer, partial(self._reached, consumer))
        finally:
            consumer.close()

    def _reached(self, consumer: Consumer) -> list[TopicPartition]:
        """Return where a consumer stands in each partition, which it does not know itself before it has read."""
        places = consumer.position(self._assigned)
        return [
            max(pair, key=lambda place: place.offset) for pair in zip(self._assigned, places, strict=True)
        ]

    def _look_up(self, topic: TopicDefinition) -> None:
        """Find out where the changes of a topic begin and end, and which Kafka topic they are in."""
        changes, partitions = topic.changes, range(topic.partitions)
        starts = self._cluster.starts(changes, partitions)
        self._starts |= {(changes, number): offset for number, offset in starts.items()}
        topic_id = self._topic_ids[changes] = self._cluster.topic_id(changes)
        if topic.has_sow:
            self._wholeness |= {(changes, number): Wholeness(topic_id) for number in partitions}
        self._aim(changes, partitions)

    def _aim(self, changes: str, partitions: Iterable[int]) -> None:
        """Load partitions up to the ends that they have now."""
        now = time.monotonic()
        for number, end in self._cluster.ends(changes, partitions).items():
            self._loading[changes, number] = Aim(end, now)

    def _hand_over(self, messages: list[Message]) -> None:
        batches: Batches = {}
        for message in messages:
            place = (message.topic() or "", message.partition() or 0)
            event = read_event(message.key() or b"", message.value(), message.headers())  # type: ignore[arg-type]
            batches.setdefault(place, []).append(Placed(message.offset() or 0, event))
        if self._loading:
            self._note_wholeness(batches)
        batches = {place: ours for place, events in batches.items() if (ours := self._ours(place, events))}
        if self._loading:
            self._note_progress(batches)
        whole = {place: self._whole(place, events) for place, events in batches.items()}
        self._call(self._take, {place: events for place, events in whole.items() if events})

    def _ours(self, place: Place, events: list[Placed]) -> list[Placed]:
        topic_id = self._topic_ids[place[0]]
        return [placed for placed in events if is_of(placed.event, topic_id)]

    def _note_wholeness(self, batches: Batches) -> None:
        for place in batches.keys() & self._wholeness.keys():
            offsets, events = zip(*batches[place], strict=True)
            self._wholeness[place].saw(events, offsets)

    def _note_progress(self, batches: Batches) -> None:
        """Note which partitions have events, and are yet to say how far these go."""
        for place in batches.keys() & self._wholeness.keys():
            if self._wholeness[place].is_whole:
                self._unsaid.discard(place)
            else:
                self._unsaid.add(place)

    def _whole(self, place: Place, events: list[Placed]) -> list[Placed]:
        """Return what may be shown now, and hold back the changes of a log record that has not ended."""
        whole, self._held_back[place] = whole_records([*self._held_back[place], *events])
        return whole

    def _on_end(self, topic: str, partition: int, offset: int) -> None:
        self._ended.add((topic, partition))

    def _report_loaded(self, messages: list[Message]) -> None:
        """Say which partitions were read to the end seen at the start, or to where they end now."""
        reached = {(m.topic() or "", m.partition() or 0): (m.offset() or 0) + 1 for m in messages}
        there = [
            place
            for place, aim in self._loading.items()
            if (place in self._ended or reached.get(place, -1) >= aim.end) and place not in self._unsaid
        ]
        late = [place for place in there if place not in self._ended and self._is_late(place)]
        for changes, number in late:
            log.warning("the load took long, and goes on", topic=changes, partition=number)
            await_answer(partial(self._aim, changes, [number]), self._stop)
        done = [place for place in there if place not in late]
        for place in done:
            del self._loading[place]
        if done:
            self._call(self._loaded, done)

    def _is_late(self, place: Place) -> bool:
        """Tell whether an end was seen so long ago that compaction may have been at work before it."""
        return time.monotonic() - self._loading[place].seen_at > self._lags[place[0]] / 2

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        """Call in the event loop and wait for it: what is on its way is never more than one batch."""
        done = threading.Event()

        def call() -> None:
            began = time.monotonic()
            try:
                function(*arguments)
            finally:
                self._pace.note(time.monotonic() - began)
                done.set()

        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop has ended: there is nobody left to tell
            self._stop.set()
            return
        while not done.wait(0.5) and not self._stop.is_set():
            pass
