"""The health endpoints and the metrics endpoint that every service has."""

import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol

import uvicorn
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sowline.runtime import descriptors
from sowline.runtime.connections import Connections
from sowline.runtime.http_server import ACCEPTED_A_TURN, HttpProtocol, HttpServer, listening
from sowline.version import __version__


class ServiceHealth(Protocol):
    """The health of a service. Each check returns None, or a sentence that describes the problem."""

    def not_started(self) -> str | None:
        """Return what start-up still waits for, such as recovery or the load of a replica; None once started."""

    def not_ready(self) -> str | None:
        """Return why the service should get no work now; None if it is ready."""

    def not_alive(self) -> str | None:
        """Return why only a restart can help; None if the service is alive."""

    def metrics(self) -> Iterable[Metric]:
        """Yield the service's metrics, read from its statistics."""


class _Metrics(Collector):
    def __init__(self, service: ServiceHealth) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "sowline_ready", "Whether the service should get work", value=_not_ready(self._service) is None
        )
        yield from self._service.metrics()


def _not_ready(service: ServiceHealth) -> str | None:
    return service.not_started() or service.not_ready()


def nothing() -> str | None:
    """Return None: there is no note."""
    return None


def no_details() -> dict[str, Any]:
    """Return no further fields."""
    return {}


PATHS = ("/startupz", "/readyz", "/healthz", "/status", "/metrics")
"""The paths of requests that are always answered, even if the limit of concurrent requests is reached."""


def health_routes(
    service: ServiceHealth,
    note: Callable[[], str | None] = nothing,
    details: Callable[[], dict[str, Any]] = no_details,
) -> list[Route]:
    """Return the routes `/startupz`, `/readyz`, `/healthz`, `/status` and `/metrics` of a service.

    `note` returns a problem that does not stop the service, or None: a response with status 200 contains it.
    `details` returns further fields for `/status`.
    """
    registry = CollectorRegistry()
    registry.register(_Metrics(service))
    version = {"Sowline-Version": __version__}

    def answer(why: str | None) -> Response:
        if why is None:
            message = note()
            return JSONResponse(
                {"status": "ok"} | ({} if message is None else {"message": message}), headers=version
            )
        return JSONResponse({"status": "unavailable", "message": why}, 503, version)

    async def startupz(request: Request) -> Response:
        return answer(service.not_started())

    async def readyz(request: Request) -> Response:
        return answer(_not_ready(service))

    async def healthz(request: Request) -> Response:
        return answer(service.not_alive())

    async def status(request: Request) -> Response:
        state = {
            "version": __version__,
            "started": service.not_started() is None,
            "ready": _not_ready(service) is None,
            "alive": service.not_alive() is None,
            "descriptors": {"max": descriptors.limit(), "open": descriptors.in_use()},
        }
        return JSONResponse(state | details(), headers=version)

    async def metrics(request: Request) -> Response:
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    answers = (startupz, readyz, healthz, status, metrics)
    return [Route(f"/{endpoint.__name__}", endpoint) for endpoint in answers]


class HealthServer:
    """Serves a service's health and metrics from its own thread."""

    def __init__(
        self,
        service: ServiceHealth,
        host: str,
        port: int,
        details: Callable[[], dict[str, Any]] = no_details,
        note: Callable[[], str | None] = nothing,
    ) -> None:
        """Serve them at an address; `details` and `note` are those of `health_routes`."""
        app = Starlette(routes=health_routes(service, note, details))
        connections = Connections(descriptors.share_out(descriptors.limit(), 0))
        config = uvicorn.Config(
            app,
            backlog=ACCEPTED_A_TURN,
            http=partial(HttpProtocol, connections=connections),  # type: ignore[arg-type]
            ws="none",
            # uvicorn's own configuration would write plain text between the lines of JSON.
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
        )
        self._server = HttpServer(config, connections)
        self._connections = connections
        self._address = host, port
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)

    def start(self) -> None:
        """Start to answer requests; raise `no port` if the port is taken."""
        self._listening = listening(*self._address, self._connections)
        self._thread.start()

    def _run(self) -> None:
        self._server.run(sockets=[self._listening])

    def stop(self) -> None:
        """Stop the server, and wait until it has stopped (at most 5 seconds)."""
        self._server.should_exit = True
        self._thread.join(5)
