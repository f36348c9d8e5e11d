"""The query service as a process: the follower thread, the replicas' loop and the server in it."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Iterable, Iterator

import structlog
import uvicorn
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from query_service.backend import Backend
from query_service.follower import Batches, Follower
from query_service.hub import Hub
from query_service.query import Limits
from query_service.server import Server
from query_service.state import State
from sowline.cluster import ensure_topics
from sowline.errors import SowlineError
from sowline.process import listener
from sowline.settings import Settings
from sowline.topics import Topics

log = structlog.get_logger()

USUAL_PORT = 8080


class QueryService:
    """Holds the State of the World of a set of topics and answers for it until told to stop."""

    def __init__(self, settings: Settings, topics: Topics) -> None:
        self._settings = settings
        self._topics = topics
        self._state = State(
            topics,
            settings.ring_changes_max,
            settings.index_bytes_max,
            settings.ring_bytes_max,
            settings.history_bytes_max,
        )
        for topic in self._state.topics.values():
            topic.about = topic.about._replace(instance=socket.gethostname(), group=settings.group)
        self._hub = Hub()
        limits = Limits(settings.result_records_max, settings.result_bytes_max, settings.query_seconds_max)
        backend = Backend(self._state, self._hub, settings.kafka_client, limits)
        self._publishing = backend.publishing
        self._server = Server(settings, backend, self)
        self._state.on_changes = self._hub.on_changes

    async def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set or the state breaks; then close every session. Raises `no port`."""
        async with self._following():
            config = uvicorn.Config(
                self._server.app,
                ws="websockets-sansio",
                ws_max_size=self._settings.frame_bytes_max,
                ws_per_message_deflate=False,
                ws_ping_timeout=None,  # a client that reads slowly answers late; one that is gone, TCP tells
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=5,
            )
            server = _Quiet(config)
            listening = listener(self._settings.host, self._settings.port or USUAL_PORT)
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            while not stop.is_set() and not self._state.broken and not serving.done():
                await asyncio.sleep(0.1)
            await self._server.close_sessions()
            server.should_exit = True
            await serving
        if self._state.broken:
            raise SowlineError("replica broken", self._state.broken)

    @contextlib.asynccontextmanager
    async def _following(self) -> AsyncIterator[None]:
        kafka = self._settings.kafka_client
        await asyncio.to_thread(ensure_topics, kafka, self._topics)
        follower = Follower(kafka, self._topics.topics, self._take, self._state.loaded, self._state.failed)
        follower.start()
        try:
            yield
        finally:
            await self._publishing.close()
            await asyncio.to_thread(follower.stop)

    def _take(self, batches: Batches) -> None:
        self._state.take(batches)
        self._publishing.take(batches)

    def not_started(self) -> str | None:
        """Say which topics are still being loaded."""
        loading = self._state.loading
        return f"loading {', '.join(loading)}" if loading else None

    def not_ready(self) -> str | None:
        """Say why no client should come here."""
        return self._state.broken

    def not_alive(self) -> str | None:
        """Say why only a restart can help."""
        return self._state.broken

    def metrics(self) -> Iterable[Metric]:
        """Yield the metrics; docs/metrics.md describes each."""
        records = GaugeMetricFamily("sowline_records", "Records in the State of the World", labels=["topic"])
        for name, topic in self._state.topics.items():
            records.add_metric([name], topic.size)
        yield records
        yield GaugeMetricFamily(
            "sowline_index_bytes", "Estimated memory of all indexes", value=self._state.memory.nbytes
        )
        yield from self._history_metrics()
        yield GaugeMetricFamily("sowline_sessions", "Connected clients", value=self._server.sessions)
        yield GaugeMetricFamily("sowline_subscriptions_live", "Live subscriptions", value=self._hub.live)
        yield CounterMetricFamily(
            "sowline_replica_changes", "Changes applied to the replica", value=self._state.changes_applied
        )
        yield CounterMetricFamily(
            "sowline_messages_sent", "Live messages put into clients' outboxes", value=self._hub.messages_sent
        )

    def _history_metrics(self) -> Iterator[Metric]:
        states = GaugeMetricFamily(
            "sowline_history_states",
            "Former states of records that a topic's history keeps",
            labels=["topic"],
        )
        oldest = GaugeMetricFamily(
            "sowline_history_oldest_seconds",
            "The time back to which a topic can be asked for, in seconds since 1970",
            labels=["topic"],
        )
        for name, topic in self._state.topics.items():
            if topic.histories:
                states.add_metric([name], sum(history.states for history in topic.histories))
                oldest.add_metric([name], max(history.floor for history in topic.histories) / 1000)
        yield states
        yield oldest
        histories = self._state.histories
        yield GaugeMetricFamily(
            "sowline_history_bytes", "Estimated memory of all histories", value=histories.nbytes
        )
        yield CounterMetricFamily(
            "sowline_history_dropped",
            "Former states that went before their time, for want of memory",
            value=histories.dropped,
        )


class _Quiet(uvicorn.Server):
    """A server that leaves the signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield


def serve(settings: Settings, topics: Topics, stop: threading.Event) -> None:
    """Run the query service until `stop` is set."""
    asyncio.run(QueryService(settings, topics).run(stop))
