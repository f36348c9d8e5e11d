"""Samples where the logs end, in a separate thread, so that a query service knows its lag.

`sowline_query_service.replica.log_end` makes the lag of the samples.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import structlog
from confluent_kafka import KafkaException

from sowline.config.kafka_options import KafkaConfig
from sowline.config.shard import WHOLE, Shard
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.kafka.admin import Cluster
from sowline.kafka.clients import holds_records, written_at
from sowline.kafka.cluster_answer import ClusterAnswer
from sowline.kafka.retriable import is_away
from sowline.wire.node_queries import SAMPLE_SECONDS, sampled_at_once
from sowline_query_service.replica.log_end import OpenTransaction, Reached

log = structlog.get_logger()

ANSWER_SECONDS_MAX = 10.0
READ_SECONDS_MAX = 1.0
POLL_SECONDS = 0.01

HOLE_OFFSETS_MAX = 1000
"""The log's last offsets are read, to find out whether they hold records, only if they are few."""

LogPartition = tuple[str, int]


class LogEndSample(NamedTuple):
    """Where the logs ended at a time, or later; `at` is in seconds of the monotonic clock.

    `reached` is what the replicas had at that time, of each partition whose end is known, and `transactions` those
    that are open in a log.
    """

    at: float
    ends: Mapping[LogPartition, int]
    topic_ids: Mapping[str, str]
    reached: Mapping[LogPartition, Reached]
    transactions: Mapping[LogPartition, OpenTransaction] = MappingProxyType({})


class LogTurns:
    """Chooses the logs of each sample: those that were asked for, then those whose last sample is the oldest.

    To ask for the ends of thousands of idle partitions twice a second would take a third of a core. Pure.
    """

    def __init__(self, partitions: Mapping[str, int]) -> None:
        self._partitions = partitions
        self._turn = deque(partitions)
        self._at_once = sampled_at_once(sum(partitions.values()))

    def add(self, log_name: str, partitions: int) -> None:
        """Sample a log, too."""
        assert log_name not in self._partitions, "a log is added once"
        self._partitions = {**self._partitions, log_name: partitions}
        self._turn.append(log_name)
        assert len(self._turn) == len(self._partitions), "each log has its turn"

    def remove(self, log_name: str) -> None:
        """Sample a log no more."""
        self._partitions = {name: count for name, count in self._partitions.items() if name != log_name}
        self._turn.remove(log_name)
        assert len(self._turn) == len(self._partitions), "each log has its turn"

    def next(self, asked: Iterable[str]) -> list[str]:
        """Return the logs of the next sample; `asked` are those that readers wait for."""
        chosen, count = dict.fromkeys(asked), 0
        for log in [log for log in self._turn if log not in chosen]:
            # The last log may be too large for the sample: without it, a turn of large logs would take too long.
            if count >= self._at_once:
                break
            count += self._partitions[log]
            chosen[log] = None
        # What was sampled goes to the end: each log comes as often as the others (test_many_logs_come_in_turn).
        self._turn = deque([*(log for log in self._turn if log not in chosen), *chosen])
        assert len(self._turn) == len(self._partitions), "each log has its turn"
        return list(chosen)


class LogEnds:
    """Samples the ends of the logs twice a second: all of them, or many in turn, and requested ones at once.

    `reached` returns what the replicas have applied, and `unapplied` the offsets between that and the sampled ends,
    both of some logs. `take` is called with each sample, and `take_hole` with each range of offsets without records,
    both in the event loop.
    """

    def __init__(
        self,
        kafka: KafkaConfig,
        topics: Sequence[TopicDefinition],
        reached: Callable[[Iterable[str]], Mapping[LogPartition, Reached]],
        unapplied: Callable[[Iterable[str]], Mapping[LogPartition, range]],
        take: Callable[[LogEndSample], None],
        take_hole: Callable[[LogPartition, range], None],
        shard: Shard = WHOLE,
    ) -> None:
        self._kafka = kafka
        self._shard = shard
        self._partitions = {topic.log: list(shard.partitions(topic)) for topic in topics}
        self._turns = LogTurns({log_name: len(numbers) for log_name, numbers in self._partitions.items()})
        self._asked: deque[str] = deque()
        self._due: deque[Callable[[], None]] = deque()
        """Changes of the logs, for the thread."""
        self._reached = reached
        self._unapplied = unapplied
        self._take = take
        self._take_hole = take_hole
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="log ends", daemon=True)
        self._refused = ""
        self._before: dict[LogPartition, range] = {}
        self._with_records: dict[LogPartition, int] = {}
        """The first offset that is not applied, by partition, if records are known to follow."""
        self._committed: dict[LogPartition, int] = {}
        """The ends of what is committed, in the last sample of each log."""
        self._newest: dict[LogPartition, int] = {}
        """The ends of all records, in the last sample of each log."""
        self._open: dict[LogPartition, OpenTransaction] = {}

    def start(self) -> None:
        """Begin to sample; call it in the event loop that is to get the samples."""
        assert self._loop is None, "it starts once"
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for the thread."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(ANSWER_SECONDS_MAX)

    def sample_soon(self, logs: Iterable[str]) -> None:
        """Take a sample of these logs now."""
        self._asked.extend(logs)
        self._wake.set()

    def add(self, topic: TopicDefinition) -> None:
        """Sample the log of a topic, too."""
        self._due.append(partial(self._add, topic))

    def _add(self, topic: TopicDefinition) -> None:
        assert topic.log not in self._partitions, "a log is added once"
        self._partitions[topic.log] = numbers = list(self._shard.partitions(topic))
        self._turns.add(topic.log, len(numbers))

    def remove(self, log_name: str) -> None:
        """Sample a log no more."""
        self._due.append(partial(self._remove, log_name))

    def _remove(self, log_name: str) -> None:
        self._turns.remove(log_name)
        for number in self._partitions.pop(log_name):
            for known in (self._before, self._with_records, self._committed, self._newest, self._open):
                known.pop((log_name, number), None)

    def _run(self) -> None:
        cluster, due = Cluster(self._kafka, self._stop), 0.0
        while not self._stop.is_set():
            # Before the requests are taken: one that comes in between wakes the thread again. In the other order it
            # would wait for the next sample.
            self._wake.clear()
            while self._due:
                self._due.popleft()()
            logs = self._take_asked()
            if time.monotonic() >= due:
                due = time.monotonic() + SAMPLE_SECONDS
                logs = self._turns.next(logs)
            try:
                self._sample(cluster, logs)
                self._look_into_transactions()
                self._look_for_holes(logs)
                self._refused = ""
            except (KafkaException, SowlineError) as error:
                self._note_refusal(error)
            self._wake.wait(max(0.0, due - time.monotonic()))

    def _take_asked(self) -> list[str]:
        """Return the logs that were asked for since the last sample."""
        asked: dict[str, None] = {}
        while self._asked:
            asked[self._asked.popleft()] = None
        return [log_name for log_name in asked if log_name in self._partitions]

    def _note_refusal(self, error: Exception) -> None:
        """Log once why Kafka does not report the ends. Queries are still answered; the lag is then not known."""
        if isinstance(error, KafkaException) and is_away(error):
            return
        if str(error) != self._refused:
            self._refused = str(error)
            log.warning("the lag behind the log is not known", why=str(error))

    def _sample(self, cluster: Cluster, logs: Sequence[str]) -> None:
        # The positions and the time are read before the request: the ends in its answer are at least as new. In the
        # other order, a record that was appended after the positions were read could count as applied.
        reached, at = self._reached(logs), time.monotonic()
        partitions = ((log_name, number) for log_name in logs for number in self._partitions[log_name])
        answer = cluster.ask(partitions, uncommitted=True)
        if self._wait_answered(answer):
            gone = answer.gone()
            topic_ids, committed, newest = answer.topic_ids(gone), answer.ends(gone), answer.newest_ends()
            self._note_transactions(committed, newest)
            # A log that is deleted, or a partition without a leader, must not hide the lag of all others
            # (test_a_partition_whose_end_is_not_known_hides_no_other).
            known = {one: of for one, of in reached.items() if one in newest and one[0] in topic_ids}
            self._call(self._take, LogEndSample(at, newest, topic_ids, known, dict(self._open)))

    def _note_transactions(self, committed: dict[LogPartition, int], newest: dict[LogPartition, int]) -> None:
        """Note where what is committed ends before records that were there at the last sample already."""
        # The two ends of one sample come from two requests. Records may be written in between, so one sample proves
        # nothing.
        for partition, offset in committed.items():
            before = self._open.pop(partition, None)
            if offset < self._newest.get(partition, 0):
                is_known = before is not None and before.offset == offset
                self._open[partition] = before if before and is_known else OpenTransaction(offset)
        self._committed.update(committed)
        self._newest.update(newest)

    def _look_into_transactions(self) -> None:
        """Read when an open transaction began, one at a time."""
        for partition, one in self._open.items():
            if one.written is None:
                written = written_at(self._kafka, *partition, one.offset, READ_SECONDS_MAX)
                self._open[partition] = one._replace(written=written)
                return

    def _wait_answered(self, answer: ClusterAnswer) -> bool:
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while not answer.is_answered and time.monotonic() < deadline and not self._stop.is_set():
            time.sleep(POLL_SECONDS)
        return answer.is_answered

    def _look_for_holes(self, logs: Sequence[str]) -> None:
        """Read the last offsets of a log that seems to be behind and has not moved since its last sample."""
        before, unapplied = self._before, self._unapplied(logs)
        self._before = {**before, **unapplied}
        for partition, all_offsets in unapplied.items():
            start, stop = all_offsets.start, all_offsets.stop
            has_stopped = partition in before and before[partition].start == start
            # Nothing after an open transaction can be read.
            offsets = range(start, min(stop, self._committed.get(partition, stop)))
            is_known = self._with_records.get(partition) == start
            if not has_stopped or is_known or not 0 < len(offsets) <= HOLE_OFFSETS_MAX:
                continue
            has_records = holds_records(self._kafka, *partition, offsets, READ_SECONDS_MAX)
            if has_records:
                self._with_records[partition] = offsets.start
            elif has_records is False:
                self._call(self._take_hole, partition, offsets)
            # One at a time: when a materializer of many partitions stops, samples must not wait for all of them.
            return

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        assert self._loop is not None, "it has started"
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop has ended, and the service with it
            self._stop.set()
