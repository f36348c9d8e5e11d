"""Listens for the clients of a service: within the process's file descriptors, with TLS if configured."""

import asyncio
import os
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import structlog
import uvicorn
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from sowline.config.settings import Settings
from sowline.runtime import descriptors
from sowline.runtime.connections import Connections
from sowline.runtime.http_server import ACCEPTED_A_TURN, HttpServer, listening
from sowline.runtime.websocket_handshake import Handshake
from sowline.serving.access.proxies import read_proxies
from sowline.serving.access.tls import Certified, tls_of
from sowline.serving.app import Server
from sowline.serving.authorization.access_file import LOOPBACK
from sowline.serving.query_slots import QuerySlots, SlotLimits
from sowline.serving.result import QueryLimits
from sowline.serving.window_memory import WindowLimits, WindowMemory

log = structlog.get_logger()

LOOK_SECONDS = 0.1


def query_limits(settings: Settings) -> QueryLimits:
    """Return how much one query may return, and how long it may work."""
    return QueryLimits(settings.result_records_max, settings.result_bytes_max, settings.query_seconds_max)


def view_limits(settings: Settings) -> WindowLimits:
    """Return how much memory live views may take."""
    return WindowLimits(
        settings.view_bytes_max, settings.view_bytes_per_user_max, settings.view_bytes_per_connection_max
    )


def slot_limits(settings: Settings) -> SlotLimits:
    """Return how many queries the service runs at once."""
    return SlotLimits(
        settings.queries_max,
        settings.queries_per_user_max,
        settings.queries_per_connection_max,
        settings.queries_waiting_max,
        settings.query_unread_seconds_max,
    )


class ClientPort:
    """The socket of a service, and its connections."""

    def __init__(self, settings: Settings, usual_port: int) -> None:
        self._settings = settings
        self._usual_port = usual_port
        self._tls = tls_of(settings)
        self._proxies = read_proxies(settings.trusted_proxies)
        self._budget = descriptors.share_out(descriptors.limit(), settings.sessions_max, os.cpu_count() or 1)
        self.connections = Connections(self._budget)

    async def serve(self, server: Server, is_over: Callable[[], bool]) -> None:
        """Serve until `is_over` returns true; then close every session. Raises `no port`."""
        settings = self._settings
        self._note_few_descriptors(server)
        # `to_thread` uses this pool. Its threads read Kafka, each with sockets that the budget counts.
        readers = ThreadPoolExecutor(self._budget.readers, "reader")
        asyncio.get_running_loop().set_default_executor(readers)
        config = uvicorn.Config(
            server.app,
            backlog=ACCEPTED_A_TURN,
            http=partial(Certified, connections=self.connections),  # type: ignore[arg-type]
            ws=Handshake,
            ssl_context_factory=None if self._tls is None else self._secured,
            ws_max_size=settings.frame_bytes_max,
            log_config=None,
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=5,
            # Only with trusted proxies: otherwise a client that guesses tokens could name another address for each
            # guess, and would never be slowed (test_a_client_does_not_choose_its_address).
            proxy_headers=bool(self._proxies),
            forwarded_allow_ips=self._proxies,
        )
        if server.authenticator.is_open and settings.host not in LOOPBACK:
            log.warning("no access file: every client may do everything", host=settings.host)
        http = HttpServer(config, self.connections, settings.request_seconds_max, settings.silent_seconds_max)
        listens = listening(settings.host, settings.port or self._usual_port, self.connections)
        serving = asyncio.create_task(http.serve(sockets=[listens]))
        watching = [asyncio.create_task(server.watch_access())]
        if self._tls is not None:
            watching.append(asyncio.create_task(self._tls.watch()))
        while not (is_over() or serving.done()):  # noqa: ASYNC110 - `is_over` reads what other threads set
            await asyncio.sleep(LOOK_SECONDS)
        for task in watching:
            task.cancel()
        # Before clients know that they are to leave: one that came back at once would be accepted, and lost a moment
        # later without a reason (test_no_client_comes_back_to_a_service_that_stops).
        http.stop_listening()
        server.sessions.close_all()
        http.should_exit = True
        await serving

    def _secured(self, config: uvicorn.Config, usual: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
        assert self._tls is not None
        return self._tls.context

    def _note_few_descriptors(self, server: Server) -> None:
        limit, wanted = self._budget.descriptors_max, self._settings.sessions_max
        if server.sessions.sessions_max < wanted:
            log.warning(
                "fewer sessions than configured",
                sessions=server.sessions.sessions_max,
                configured=wanted,
                why=f"the process may have {limit} descriptors; raise the hard limit (ulimit -Hn)",
            )

    def metrics(self, server: Server, slots: QuerySlots, views: WindowMemory) -> Iterator[Metric]:
        """Yield the metrics of connections, of queries and of access; docs/metrics.md describes each."""
        queries = GaugeMetricFamily(
            "sowline_queries",
            "Queries and snapshots, by whether they run or wait for their turn",
            labels=["state"],
        )
        queries.add_metric(["running"], slots.running)
        queries.add_metric(["waiting"], slots.waiting)
        yield queries
        yield GaugeMetricFamily(
            "sowline_view_bytes", "Estimated memory of all live pages and groups", value=views.nbytes
        )
        yield CounterMetricFamily(
            "sowline_queries_refused", "Queries refused because too many waited", value=slots.refused
        )
        yield CounterMetricFamily(
            "sowline_queries_unread",
            "Queries ended because their clients read nothing while others waited",
            value=slots.ended,
        )
        yield GaugeMetricFamily(
            "sowline_unsent_bytes",
            "Bytes of answers that clients have not read",
            value=server.sessions.backlogs.unsent_bytes,
        )
        yield GaugeMetricFamily("sowline_sessions", "Connected clients", value=len(server.sessions))
        yield CounterMetricFamily(
            "sowline_sessions_refused",
            "Connections refused at the limit",
            value=server.sessions.refused,
        )
        authenticator = server.authenticator
        refused = CounterMetricFamily(
            "sowline_logons_refused", "Refused logons, and refused requests without a logon", labels=["why"]
        )
        for why, times in authenticator.refused.items():
            refused.add_metric([why], times)
        yield refused
        yield CounterMetricFamily(
            "sowline_origins_refused",
            "Requests refused because of their origin or their host name",
            value=server.app.refused,
        )
        yield CounterMetricFamily(
            "sowline_commands_slowed",
            "Times that a user exceeded the command rate and had to wait",
            value=server.rates.slowed,
        )
        yield GaugeMetricFamily(
            "sowline_access_stale",
            "Whether the access file can't be read; the previous one stays in use",
            value=authenticator.is_stale,
        )
        yield GaugeMetricFamily(
            "sowline_certificate_expires_seconds",
            "Expiry time of the TLS certificate, in seconds since 1970; 0 without TLS",
            value=0.0 if self._tls is None else self._tls.expires,
        )
        yield GaugeMetricFamily(
            "sowline_certificate_stale",
            "Whether the TLS files can't be used; the previous ones stay in use",
            value=self._tls is not None and self._tls.is_stale,
        )
