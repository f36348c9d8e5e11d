"""The thread that reads the changes topics and hands the events, in batches, to the event loop of the replicas.

The replicas decide what to do with an event (`sowline_query_service.replica.partition_replica`). They find gaps, too:
a gap ends the service, because a replica without the missing changes would answer wrongly. So does a changes topic
that was deleted and created again.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import structlog

from sowline.config.kafka_options import KafkaConfig
from sowline.config.shard import WHOLE, Shard
from sowline.config.topic_definition import TopicDefinition
from sowline.kafka.admin import Cluster
from sowline.kafka.changes_driver import AssignedChanges
from sowline.serving.cooperative import StepSize
from sowline_query_service.topics.followed_partitions import FollowedPartitions, Replicas

log = structlog.get_logger()


class TopicFollower:
    """Reads the partitions of changes topics from their start, or from a snapshot, then follows them.

    It makes all its calls in the event loop, one after another. `failed(error)` reports that following has ended.
    """

    def __init__(
        self,
        kafka: KafkaConfig,
        topics: Sequence[TopicDefinition],
        replicas: Replicas,
        failed: Callable[[BaseException], None],
        workers: str = "",
        native: ModuleType | None = None,
        shard: Shard = WHOLE,
    ) -> None:
        """Follow the shard's partitions of topics once it starts.

        `native` is the module of the native core, if that reads plain changes.
        """
        self._kafka = kafka
        self._failed = failed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pace = StepSize()
        cluster = Cluster(kafka, self._stop)
        self._changes = AssignedChanges(cluster, topics, self._stop)
        self.partitions = FollowedPartitions(
            topics, cluster, self._changes, replicas, self.in_loop, self._stop, workers, native, shard
        )
        self.behind = self._changes.behind
        """The number of events in Kafka that were not handed over yet."""

    def start(self) -> None:
        """Start to read; call it in the event loop that takes the batches."""
        assert self._loop is None, "it starts once"
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """Stop reading, and wait for the thread to end, for ten seconds at most."""
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as error:
            # Report any error. If the thread ended silently, the service would keep answering with old records
            # (test_a_kafka_that_refuses_for_good).
            log.error("following ended", why=repr(error))
            self.in_loop(self._failed, error)

    def _follow(self) -> None:
        changes = self._changes
        self.partitions.begin()
        changes.assign(self._kafka)
        try:
            while not self._stop.is_set():
                self.partitions.turn(changes.poll(self._pace.records, 0.2))
        finally:
            changes.close()

    def in_loop(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Call a function in the event loop, wait until it has returned, and return its result; None at the end."""
        # At most one batch is in flight. Without the wait, a thread that reads faster than the loop applies would
        # fill the memory with batches during a load.
        done = threading.Event()
        results: list[Any] = []
        errors: list[BaseException] = []

        def call() -> None:
            began = time.monotonic()
            try:
                results.append(function(*arguments))
            except BaseException as error:
                # The loop's handler logs it. This thread ends the service, because the batch may be half applied.
                errors.append(error)
                raise
            finally:
                self._pace.note(time.monotonic() - began)
                done.set()

        assert self._loop is not None, "it has started"
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop has ended: there is nothing left to report to
            self._stop.set()
            return None
        while not done.wait(0.5) and not self._stop.is_set():
            pass
        if errors:
            raise errors[0]
        return results[0] if results else None
