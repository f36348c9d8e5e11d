"""The query service as a process: the follower thread, the replicas' loop and the server in it."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

import structlog
import uvicorn
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from query_service.access.file import LOOPBACK
from query_service.access.tls import Certified, tls_of
from query_service.backend import Backend
from query_service.follower import Batches, Follower
from query_service.hub import Hub
from query_service.listening import ACCEPTED_A_TURN, Accepting, listening
from query_service.query import Limits
from query_service.server import Server
from query_service.state import State
from sowline.cluster import await_topics
from sowline.errors import SowlineError
from sowline.reach import Reach
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
            settings.timeline_bytes_max,
        )
        for topic in self._state.topics.values():
            topic.about = topic.about._replace(instance=socket.gethostname(), group=settings.group)
        self._hub = Hub()
        limits = Limits(settings.result_records_max, settings.result_bytes_max, settings.query_seconds_max)
        backend = Backend(self._state, self._hub, settings.kafka_client, limits)
        self._publishing = backend.publishing
        self._reach = Reach(settings.kafka_client, topics.topics[0].log)
        self._tls = tls_of(settings)
        self._server = Server(settings, backend, self, self._reach.lost)
        self._state.on_changes = self._hub.on_changes

    async def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set or the state breaks; then close every session. Raises `no port`."""
        self._reach.start()
        async with self._following(stop) as following:
            config = uvicorn.Config(
                self._server.app,
                backlog=ACCEPTED_A_TURN,
                http=Certified,
                ws="websockets-sansio",
                ssl_context_factory=None if self._tls is None else self._secured,
                ws_max_size=self._settings.frame_bytes_max,
                ws_per_message_deflate=False,
                ws_ping_timeout=None,  # a client that reads slowly answers late; one that is gone, TCP tells
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=5,
            )
            if self._server.guard.is_open and self._settings.host not in LOOPBACK:
                log.warning("anybody may come in", host=self._settings.host, why="there is no access file")
            server = _Quiet(config)
            listens = listening(self._settings.host, self._settings.port or USUAL_PORT)
            serving = asyncio.create_task(server.serve(sockets=[listens]))
            watching = [asyncio.create_task(self._server.watch_access())]
            if self._tls is not None:
                watching.append(asyncio.create_task(self._tls.watch()))
            while not (stop.is_set() or self._state.broken or serving.done() or _has_failed(following)):
                await asyncio.sleep(0.1)
            for task in watching:
                task.cancel()
            await self._server.close_sessions()
            server.should_exit = True
            await serving
            if _has_failed(following):
                following.result()
        if self._state.broken:
            raise SowlineError("replica broken", self._state.broken)

    def _secured(self, config: uvicorn.Config, usual: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
        assert self._tls is not None
        return self._tls.context

    @contextlib.asynccontextmanager
    async def _following(self, stop: threading.Event) -> AsyncIterator["asyncio.Task[bool]"]:
        """Follow the changes, as soon as Kafka answers; lends what begins that, which may raise `bad topic`."""
        kafka = self._settings.kafka_client
        follower = Follower(kafka, self._topics.topics, self._take, self._state.loaded, self._state.failed)
        self._state.lags = follower.behind.places
        beginning = asyncio.create_task(self._begin(follower, stop))
        try:
            yield beginning
        finally:
            stop.set()
            await asyncio.wait([beginning])
            await self._publishing.close()
            if not _has_failed(beginning) and beginning.result():
                await asyncio.to_thread(follower.stop)

    async def _begin(self, follower: Follower, stop: threading.Event) -> bool:
        is_there = await asyncio.to_thread(await_topics, self._settings.kafka_client, self._topics, stop)
        if is_there:
            follower.start()
        return is_there

    def _take(self, batches: Batches) -> None:
        self._state.take(batches)
        self._publishing.take(batches)

    def not_started(self) -> str | None:
        """Say which topics are still being loaded."""
        loading = self._state.loading
        return self._reach.lost() or f"loading {', '.join(loading)}" if loading else None

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
        yield from self._reach.metrics()
        yield GaugeMetricFamily(
            "sowline_index_bytes", "Estimated memory of all indexes", value=self._state.memory.nbytes
        )
        yield from self._history_metrics()
        yield from self._timeline_metrics()
        yield GaugeMetricFamily("sowline_sessions", "Connected clients", value=self._server.sessions)
        yield CounterMetricFamily(
            "sowline_sessions_refused",
            "Connections refused, because there were too many",
            value=self._server.refused_sessions,
        )
        yield from self._door_metrics()
        yield GaugeMetricFamily("sowline_subscriptions_live", "Live subscriptions", value=self._hub.live)
        yield CounterMetricFamily(
            "sowline_replica_changes", "Changes applied to the replica", value=self._state.changes_applied
        )
        yield CounterMetricFamily(
            "sowline_messages_sent", "Live messages put into clients' outboxes", value=self._hub.messages_sent
        )
        yield CounterMetricFamily(
            "sowline_subscriptions_fell_behind",
            "How often a subscription was no longer live, because its client was too slow",
            value=self._hub.fell_behind,
        )
        yield from self._lag_metrics()

    def _door_metrics(self) -> Iterator[Metric]:
        guard = self._server.guard
        refused = CounterMetricFamily(
            "sowline_logons_refused", "Logons and requests without one that were refused", labels=["why"]
        )
        for why, times in guard.refused.items():
            refused.add_metric([why], times)
        yield refused
        yield CounterMetricFamily(
            "sowline_origins_refused",
            "Requests refused that came from pages which may not ask, or by a name that is not this machine's",
            value=self._server.app.refused,
        )
        yield CounterMetricFamily(
            "sowline_commands_slowed",
            "How often somebody sent more commands than allowed, and had to wait",
            value=self._server.rates.slowed,
        )
        yield GaugeMetricFamily(
            "sowline_access_stale",
            "Whether the access file has changed to one that can't be read",
            value=guard.is_stale,
        )
        yield GaugeMetricFamily(
            "sowline_certificate_expires_seconds",
            "When the certificate of TLS ends, in seconds since 1970; 0 without TLS",
            value=0.0 if self._tls is None else self._tls.expires,
        )
        yield GaugeMetricFamily(
            "sowline_certificate_stale",
            "Whether the files of TLS have changed to some that can't be used",
            value=self._tls is not None and self._tls.is_stale,
        )

    def _lag_metrics(self) -> Iterator[Metric]:
        behind = GaugeMetricFamily(
            "sowline_replica_behind_changes", "Changes that the replica has not applied yet", labels=["topic"]
        )
        newest = GaugeMetricFamily(
            "sowline_replica_newest_timestamp_seconds",
            "The log time of the newest change that the replica has, in seconds since 1970",
            labels=["topic"],
        )
        for name, topic in self._state.topics.items():
            if (lag := self._state.lag(topic)) is not None:
                behind.add_metric([name], lag)
            if topic.changed_time:
                newest.add_metric([name], topic.changed_time / 1000)
        yield behind
        yield newest
        yield self._state.delays.family(
            "sowline_append_to_delivery_seconds",
            "From a change's append to the log until it was put into clients' outboxes",
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

    def _timeline_metrics(self) -> Iterator[Metric]:
        writes = GaugeMetricFamily(
            "sowline_timeline_writes", "Writes to documents that their timelines tell", labels=["topic"]
        )
        for name, topic in self._state.topics.items():
            if topic.definition.documents:
                writes.add_metric([name], sum(timeline.writes for timeline in topic.timelines))
        yield writes
        timelines = self._state.timelines
        yield GaugeMetricFamily(
            "sowline_timeline_bytes", "Estimated memory of all timelines", value=timelines.nbytes
        )
        yield CounterMetricFamily(
            "sowline_timeline_dropped",
            "Writes that went before their time, for want of memory",
            value=timelines.dropped,
        )


def _has_failed(task: "asyncio.Task[bool]") -> bool:
    return task.done() and task.exception() is not None


class _Quiet(Accepting):
    """A server that leaves the signals to the process."""

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield


def serve(settings: Settings, topics: Topics, stop: threading.Event) -> None:
    """Run the query service until `stop` is set."""
    asyncio.run(QueryService(settings, topics).run(stop))
