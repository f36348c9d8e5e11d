"""The process of the query service: the follower thread, and the event loop with the replicas and the server."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Iterable
from typing import Any

import structlog
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from sowline.config.settings import WORKERS, Settings
from sowline.config.topics import Topics
from sowline.errors import SowlineError
from sowline.kafka.admin import wait_for_topics
from sowline.kafka.changes_driver import ChangesPartition
from sowline.kafka.definitions_follower import DefinitionsFollower
from sowline.kafka.health import KafkaHealth
from sowline.kafka.leaderless import leaderless_metric, why_it_waits
from sowline.language.emodb import use_native
from sowline.native import Core
from sowline.runtime.native import native_core, panic_metric
from sowline.serving.client_port import ClientPort, query_limits, slot_limits, view_limits
from sowline.serving.query_slots import QuerySlots
from sowline.serving.window_memory import WindowMemory
from sowline_query_service.context import ServiceContext
from sowline_query_service.live.dispatcher import Dispatcher
from sowline_query_service.redefinitions import TopicRedefinitions
from sowline_query_service.server.server import server_of
from sowline_query_service.snapshots.snapshots import Snapshots
from sowline_query_service.topics.followed_partitions import Batches, Replicas
from sowline_query_service.topics.follower import TopicFollower
from sowline_query_service.topics.log_ends import LogEnds
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_metrics import topic_metrics

log = structlog.get_logger()

USUAL_PORT = 8080


class QueryService:
    """Holds the State of the World of a set of topics and serves it until it is stopped."""

    def __init__(self, settings: Settings, topics: Topics) -> None:
        native = native_core(settings.core)
        self.core: Core = "python" if native is None else "native"
        self._settings = settings
        self._topics = topics
        use_native(native)
        self._state = ServedTopics(
            topics,
            settings.ring_changes_max,
            settings.index_bytes_max,
            settings.ring_bytes_max,
            settings.history_bytes_max,
            settings.timeline_bytes_max,
            native,
            settings.shard,
        )
        self._state.describe(socket.gethostname(), settings.group)
        self._dispatcher = Dispatcher()
        self._slots = QuerySlots(slot_limits(settings))
        self._views = WindowMemory(view_limits(settings))
        context = ServiceContext(
            self._state,
            self._dispatcher,
            settings.kafka_client,
            query_limits(settings),
            self._slots,
            self._views,
        )
        self._destination = context.destination
        self._writer = context.writes.writer
        self._snapshots = Snapshots.open(settings, self._state)
        self._follower = TopicFollower(
            settings.kafka_client,
            topics.topics,
            Replicas(self._take, self._state.loaded, self._snapshots.restore, self._state.discard_snapshot),
            self._state.failed,
            settings.group + WORKERS,
            native,
            settings.shard,
        )
        self._log_ends = LogEnds(
            settings.kafka_client,
            topics.topics,
            self._state.reached,
            self._state.unapplied,
            self._state.take_log_ends,
            self._state.take_hole,
            settings.shard,
        )
        self._state.sample_soon = self._log_ends.sample_soon
        self._kafka_health = KafkaHealth(settings.kafka_client, topics.topics[0].log)
        self._client_port = ClientPort(settings, USUAL_PORT)
        self._server = server_of(
            settings, context, self, self._note, self._client_port.connections, self._details
        )
        self._state.listen(self._dispatcher.on_changes)
        redefinitions = TopicRedefinitions(
            self._state,
            self._dispatcher,
            self._follower,
            self._log_ends,
            self._server.sessions.clients.end_subscriptions_to,
            context.typed_messages,
        )
        self._stopping = threading.Event()
        self._definitions = DefinitionsFollower(
            settings, topics, self._stopping, redefinitions.take, log_differences=redefinitions.differences
        )

    async def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set or the state breaks; then close every session. Raises `no port`."""
        self._kafka_health.start()
        async with self._following(stop) as following:
            await self._client_port.serve(
                self._server, lambda: stop.is_set() or bool(self._state.broken) or _has_failed(following)
            )
            if _has_failed(following):
                following.result()
        if self._state.broken:
            raise SowlineError("replica broken", self._state.broken)

    @contextlib.asynccontextmanager
    async def _following(self, stop: threading.Event) -> AsyncIterator["asyncio.Task[bool]"]:
        """Follow the changes during the block; yield the task that starts this once Kafka answers.

        The task may raise `bad topic`.
        """
        follower = self._follower
        self._state.unread_changes = follower.behind.lags
        beginning = asyncio.create_task(self._begin(follower, stop))
        try:
            yield beginning
        finally:
            stop.set()
            self._stopping.set()
            # It may be starting the follower at this moment, and a thread that starts after the stop would never end.
            await asyncio.wait([beginning])
            await self._writer.close()
            if not _has_failed(beginning) and beginning.result():
                # In a thread: the follower's last call may still wait for this event loop.
                await asyncio.to_thread(follower.stop)
                await asyncio.to_thread(self._definitions.join)
                await asyncio.to_thread(self._log_ends.stop)
            await asyncio.to_thread(self._snapshots.stop)

    async def _begin(self, follower: TopicFollower, stop: threading.Event) -> bool:
        is_there = await asyncio.to_thread(wait_for_topics, self._settings.kafka_client, self._topics, stop)
        if is_there:
            follower.start()
            self._log_ends.start()
            self._snapshots.start(follower.partitions.topic_id)
            self._definitions.start()
        return is_there

    def _take(self, batches: Batches) -> list[ChangesPartition]:
        # The replicas first: a client that learns of an outcome must find the effect of its command.
        again = self._state.take(batches)
        self._destination.take(batches)
        return again

    def not_started(self) -> str | None:
        """Return which topics are still being loaded; None if all are loaded."""
        loading = self._state.loading
        if not loading:
            return None
        return (
            self._kafka_health.lost()
            or self._follower.partitions.waiting()
            or f"loading {', '.join(loading)}"
        )

    def not_ready(self) -> str | None:
        """Return why no client should use this service; None if it is ready."""
        return self._state.broken

    def not_alive(self) -> str | None:
        """Return why only a restart can help; None if the service works."""
        return self._state.broken

    def _note(self) -> str | None:
        """Return what does not stop the service: Kafka is away or lacks leaders, or definitions are not in effect."""
        leaderless = self._follower.partitions.leaderless
        notes = [why_it_waits(leaderless) if leaderless else None, self._definitions.note()]
        return self._kafka_health.lost() or "; ".join(filter(None, notes)) or None

    def _details(self) -> dict[str, Any]:
        """Return the details of `/status`: the core, the topics that are being loaded, and the definitions."""
        unavailable = [name for name, topic in self._state.topics.items() if topic.loading]
        return {"core": self.core, "unavailable": unavailable} | self._definitions.details()

    def metrics(self) -> Iterable[Metric]:
        """Yield the metrics; docs/metrics.md describes each."""
        yield from topic_metrics(self._state)
        yield from self._definitions.metrics()
        yield self._core_metric()
        yield panic_metric()
        yield from self._kafka_health.metrics()
        yield leaderless_metric(len(self._follower.partitions.leaderless))
        yield GaugeMetricFamily(
            "sowline_index_bytes", "Estimated memory of all indexes", value=self._state.memory.nbytes
        )
        yield from self._snapshots.metrics()
        yield from self._client_port.metrics(self._server, self._slots, self._views)
        yield GaugeMetricFamily(
            "sowline_subscriptions_live", "Live subscriptions", value=self._dispatcher.live
        )
        yield CounterMetricFamily(
            "sowline_messages_sent",
            "Live messages put into clients' outboxes",
            value=self._dispatcher.messages_sent,
        )
        yield CounterMetricFamily(
            "sowline_subscriptions_fell_behind",
            "Times that a subscription left live delivery because its client was too slow",
            value=self._dispatcher.fell_behind,
        )

    def _core_metric(self) -> Metric:
        topics = self._state.topics.values()
        native = sum(topic.plain_partitions for topic in topics) if self._follower.partitions.is_native else 0
        cores = GaugeMetricFamily(
            "sowline_core_partitions", "Partitions whose plain changes a core loads", labels=["core"]
        )
        cores.add_metric(["native"], native)
        cores.add_metric(["python"], sum(len(topic.partitions) for topic in topics) - native)
        return cores


def _has_failed(task: "asyncio.Task[bool]") -> bool:
    return task.done() and task.exception() is not None


def serve(settings: Settings, topics: Topics, stop: threading.Event) -> None:
    """Run the query service until `stop` is set."""
    service = QueryService(settings, topics)
    log.info("loads changes", core=service.core)
    asyncio.run(service.run(stop))
