"""Warm copies of the partitions that a worker does not own, so that taking one over costs only its changes' tail.

The worker's own thread works on them, between its batches and no longer than it is told: a store is never used by two
threads, and no owner waits for a copy. They are read with a consumer beside the worker's, which is in no group.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import structlog
from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, Message, TopicPartition

from materializer.damage import DiskFull, StoreDamaged, StoreInUse
from materializer.partition_copy import PartitionCopy, Written
from materializer.recovery import as_event
from materializer.starting import Place
from materializer.store import RocksStore
from sowline.cluster import Asked, Cluster
from sowline.errors import SowlineError
from sowline.kafka import REPORT_ENDS, KafkaConfig, plain_consumer
from sowline.topics import TopicDefinition

log = structlog.get_logger()

PORTION = 100
"""Changes that are taken in between two looks at the clock."""

CHECK_PORTION = 1000
"""Entries of a store that are checked between two looks at the clock."""

LOOK_SECONDS = 1.0
"""How often Kafka is asked whether the changes topics are still the same."""

RETRY_SECONDS = 10.0
"""After so long a copy that could not go on is begun anew."""

QUEUE_KBYTES = 16 * 1024
"""What may be fetched ahead, of all copies together."""

_FAILURES = (
    StoreDamaged,
    DiskFull,
    StoreInUse,
    SowlineError,
    KafkaException,
    ValueError,
    LookupError,
    TypeError,
    OSError,
)
"""What a copy may fail of: its disk, an event that is none, Kafka. The worker goes on without the copy."""


@dataclass(frozen=True)
class StandbyStatistics:
    """A look at the copies: how many are warm, how many changes each has yet to take in, how many were taken over."""

    warm: int = 0
    behind: Mapping[Place, int] = field(default_factory=dict)
    takeovers: int = 0


class Standby:
    """The copies of one worker. Only `statistics` may be called from another thread."""

    def __init__(
        self, kafka: KafkaConfig, definitions: Mapping[str, TopicDefinition], path: Callable[[Place], Path]
    ) -> None:
        self._definitions = definitions
        self._path = path
        self._cluster = Cluster(kafka)
        ahead = {"queued.max.messages.kbytes": QUEUE_KBYTES}
        self._consumer = plain_consumer(kafka, {**REPORT_ENDS, **ahead})
        self._copies: dict[Place, PartitionCopy] = {}
        self._assigned: set[Place] = set()
        self._checking: deque[Place] = deque()
        self._waiting: dict[Place, float] = {}
        self._held: dict[Place, RocksStore] = {}
        self._damaged: set[Place] = set()
        self._ends: dict[Place, int] = {}
        self._takeovers = 0
        self._asked: Asked | None = None
        self._look_at = 0.0

    # which partitions

    def cover(self, owned: Iterable[Place]) -> None:
        """Keep a copy of every partition that is not among the owned ones; they are begun one after the other."""
        for definition in self._definitions.values():
            for number in range(definition.partitions):
                self._waiting.setdefault((definition.log, number), 0.0)
        for place in (*owned, *self._copies):
            self._waiting.pop(place, None)

    def hold(self, place: Place, store: RocksStore) -> None:
        """Go on with the store of a partition that moves away; not at once, for Kafka may be away, too."""
        self._held[place] = store
        self._waiting[place] = 0.0

    def take_over(self, place: Place) -> RocksStore | None:
        """End the copy of a partition that this worker owns from now on; returns its store, open and checked.

        None where there is none to hand over: then nothing of it is open.
        """
        self._waiting.pop(place, None)
        copy = self._copies.get(place)
        if copy is None:
            return self._held.pop(place, None)
        is_warm, behind = copy.is_warm, self._behind(place)
        self._forget(place)
        store = copy.hand_over()
        if is_warm:
            self._takeovers += 1
            log.info("took over a warm copy", topic=place[0], partition=place[1], behind=behind)
        return store

    @property
    def has_caught_up(self) -> bool:
        """Whether each copy that can go on has taken in all that there was at some moment."""
        now = time.monotonic()
        return all(at > now for at in self._waiting.values()) and all(
            copy.has_caught_up for copy in self._copies.values()
        )

    def close(self) -> None:
        """Let go of all copies; what they hold stays on disk."""
        for copy in self._copies.values():
            copy.close()
        for store in self._held.values():
            store.close()
        self._copies.clear()
        self._held.clear()
        self._consumer.close()

    # the work

    def work(self, seconds: float) -> bool:
        """Work on the copies for about so long; returns whether there is more to do at once."""
        deadline = time.monotonic() + seconds
        while is_busy := self._work_on():
            if time.monotonic() >= deadline:
                break
        return is_busy

    def _work_on(self) -> bool:
        self._look()
        begun = self._begin_next()
        checked = self._check_next()
        return self._take_in() or checked or begun

    def _look(self) -> None:
        """Look where the changes end, and whether a topic was deleted and made again: its offsets may not tell."""
        now = time.monotonic()
        if self._asked is None and self._copies and now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._asked = self._cluster.ask([self._changes(place) for place in self._copies])
        elif self._asked is not None and self._asked.is_answered:
            asked, self._asked = self._asked, None
            try:
                self._found(asked.topic_ids(), asked.ends())
            except KafkaException as error:
                log.warning("Kafka complains", why=str(error))

    def _found(self, ids: Mapping[str, str], ends: Mapping[tuple[str, int], int]) -> None:
        for place, copy in list(self._copies.items()):
            topic, _ = changes = self._changes(place)
            self._ends[place] = max(ends.get(changes, 0), self._ends.get(place, 0))
            if topic in ids and not copy.is_of(ids[topic]):
                self._ends.pop(place)
                self._tried(place, partial(copy.reload, "the changes topic was replaced"))
                self._moved(place)

    def _begin_next(self) -> bool:
        if not self._waiting:
            return False
        now = time.monotonic()
        place = next((place for place, at in self._waiting.items() if at <= now), None)
        if place is None:
            return False
        del self._waiting[place]
        self._begin(place, self._held.pop(place, None))
        return True

    def _begin(self, place: Place, store: RocksStore | None) -> None:
        definition = self._definitions[place[0]]
        copy = PartitionCopy(definition, place[1], self._path(place), self._cluster.topic_id, store)
        self._copies[place] = copy
        self._tried(place, lambda: copy.begin(place in self._damaged))
        if place in self._copies:
            self._go_on(place)

    def _go_on(self, place: Place) -> None:
        """Check the copy, or read the changes from where it needs them."""
        offset = self._copies[place].reads_from
        if offset is None:
            self._checking.append(place)
        else:
            at = TopicPartition(*self._changes(place), offset or OFFSET_BEGINNING)
            self._consumer.incremental_assign([at])
            self._assigned.add(place)

    def _read_no_more(self, place: Place) -> None:
        if place in self._assigned:
            self._assigned.remove(place)
            self._consumer.incremental_unassign([TopicPartition(*self._changes(place))])

    def _check_next(self) -> bool:
        if not self._checking:
            return False
        place = self._checking[0]
        copy = self._copies[place]
        if self._tried(place, lambda: copy.check(CHECK_PORTION)):
            self._checking.popleft()
            self._go_on(place)
        return True

    def _take_in(self) -> bool:
        messages = self._consumer.consume(PORTION, 0)
        batches: dict[Place, list[Message]] = {}
        for message in messages:
            place = (message.topic() or "").removesuffix(".changes"), message.partition() or 0
            batches.setdefault(place, []).append(message)
        for place, batch in batches.items():
            if place in self._copies:
                self._take_batch(place, batch)
        return bool(messages)

    def _take_batch(self, place: Place, messages: list[Message]) -> None:
        """Take in what has arrived of one partition: changes, and word of its end or of an error behind them."""
        copy = self._copies[place]
        self._ends[place] = end = self._end(place)
        changes = [message for message in messages if message.error() is None]
        if changes and not self._tried(place, lambda: copy.take([_written(one) for one in changes], end)):
            self._moved(place)
            return
        for message in messages:
            if not self._tried(place, partial(self._judge, copy, message)):
                self._moved(place)
                return

    def _judge(self, copy: PartitionCopy, message: Message) -> bool:
        error = message.error()
        if error is None:
            return True
        if error.code() == KafkaError._PARTITION_EOF:
            return copy.ended(message.offset() or 0)
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            copy.reload("the changes topic does not reach so far")
            return False
        log.warning("Kafka complains", why=str(error))
        return True

    def _moved(self, place: Place) -> None:
        """Read a copy's changes from elsewhere, if it is still there."""
        if place in self._copies:
            self._read_no_more(place)
            self._go_on(place)

    def _tried(self, place: Place, act: Callable[[], bool | None]) -> bool:
        """Do something with a copy, and tell whether it says yes; one that can't go on is begun anew later."""
        try:
            return bool(act())
        except _FAILURES as error:
            log.warning("a copy can't go on", topic=place[0], partition=place[1], why=str(error))
            if isinstance(error, StoreDamaged):
                self._damaged.add(place)
            copy = self._copies[place]
            self._forget(place)
            copy.close()
            self._waiting[place] = time.monotonic() + RETRY_SECONDS
            return False

    def _forget(self, place: Place) -> None:
        del self._copies[place]
        self._read_no_more(place)
        if place in self._checking:
            self._checking.remove(place)
        self._ends.pop(place, None)

    def _changes(self, place: Place) -> tuple[str, int]:
        return self._definitions[place[0]].changes, place[1]

    # what others may know

    def _end(self, place: Place) -> int:
        _, end = self._consumer.get_watermark_offsets(TopicPartition(*self._changes(place)), cached=True)
        return max(0, end)

    def _behind(self, place: Place) -> int:
        return max(0, self._ends.get(place, 0) - self._copies[place].next_offset)

    def statistics(self) -> StandbyStatistics:
        """Return a look at the copies; safe from any thread."""
        copies = dict(self._copies)
        warm = sum(copy.is_warm for copy in copies.values())
        behind = {
            place: max(0, self._ends.get(place, 0) - copy.next_offset) for place, copy in copies.items()
        }
        return StandbyStatistics(warm, behind, self._takeovers)


def _written(message: Message) -> Written:
    return Written(message.offset() or 0, as_event(message))
