"""The thread that reads the changes topics and hands them, batch by batch, to the replicas' loop."""

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

import structlog
from confluent_kafka import Message, TopicPartition

from query_service.pace import Pace
from query_service.replica import Placed, whole_records
from sowline.change import Progress, read_event
from sowline.cluster import Cluster
from sowline.kafka import REPORT_ENDS, KafkaConfig, plain_consumer, poll_batch
from sowline.topics import TopicDefinition

log = structlog.get_logger()

Place = tuple[str, int]
"""The name of a changes topic and the number of one of its partitions."""

Batches = dict[Place, list[Placed]]


class Follower:
    """Reads whole changes topics from their start and goes on as they grow.

    `take(batches)` is called in the event loop, one call after another, each with what arrived; the batches
    of a partition end where a log record's changes end. `loaded(places)` is called in the loop once a
    partition has been read to the end that was seen at the start, and has said how far it got: where the
    changes are being written again, that comes last.
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
        self._loading: dict[Place, int] = {}
        self._ended: set[Place] = set()
        self._telling = {
            (topic.changes, p) for topic in topics if topic.has_sow for p in range(topic.partitions)
        }
        self._unsaid: set[Place] = set()
        self._said: set[Place] = set()
        self._pace = Pace()

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
        cluster = Cluster(self._kafka)
        starts = {}
        for topic in self._topics:
            partitions = range(topic.partitions)
            starts.update(
                {(topic.changes, p): at for p, at in cluster.starts(topic.changes, partitions).items()}
            )
            self._loading |= {
                (topic.changes, p): end for p, end in cluster.ends(topic.changes, partitions).items()
            }
        consumer = plain_consumer(self._kafka, REPORT_ENDS)
        try:
            consumer.assign([TopicPartition(*place, offset) for place, offset in starts.items()])
            while not self._stop.is_set():
                messages = poll_batch(consumer, self._pace.records, 0.2, self._on_end)
                if messages:
                    self._hand_over(messages)
                if self._loading:
                    self._report_loaded(messages)
        finally:
            consumer.close()

    def _hand_over(self, messages: list[Message]) -> None:
        batches: Batches = {}
        for message in messages:
            place = (message.topic() or "", message.partition() or 0)
            event = read_event(message.key() or b"", message.value(), message.headers())  # type: ignore[arg-type]
            batches.setdefault(place, []).append(Placed(message.offset() or 0, event))
        if self._loading:
            self._note_progress(batches)
        whole = {place: self._whole(place, events) for place, events in batches.items()}
        self._call(self._take, {place: events for place, events in whole.items() if events})

    def _note_progress(self, batches: Batches) -> None:
        """Note which partitions have said how far they got, and which have changes and have not."""
        for place, events in batches.items():
            if any(isinstance(placed.event, Progress) for placed in events):
                self._said.add(place)
        self._unsaid |= batches.keys() & self._telling
        self._unsaid -= self._said

    def _whole(self, place: Place, events: list[Placed]) -> list[Placed]:
        """Return what may be shown now, and hold back the changes of a log record that has not ended."""
        whole, self._held_back[place] = whole_records([*self._held_back[place], *events])
        return whole

    def _on_end(self, topic: str, partition: int, offset: int) -> None:
        self._ended.add((topic, partition))

    def _report_loaded(self, messages: list[Message]) -> None:
        """Say which partitions were read to the end seen at the start, or to where they end now."""
        reached = {(m.topic() or "", m.partition() or 0): (m.offset() or 0) + 1 for m in messages}
        done = [
            place
            for place, end in self._loading.items()
            if (place in self._ended or reached.get(place, -1) >= end) and place not in self._unsaid
        ]
        for place in done:
            del self._loading[place]
        if done:
            self._call(self._loaded, done)

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
