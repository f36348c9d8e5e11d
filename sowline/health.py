"""The three health answers and the metrics, which every service gives over HTTP."""

import threading
from collections.abc import Callable, Iterable
from typing import Protocol

import uvicorn
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sowline import __version__
from sowline.process import listener


class Service(Protocol):
    """What a service says of itself. Each answer is None, or the sentence that says what is not so (yet)."""

    def not_started(self) -> str | None:
        """Say what start-up is still waiting for: recovering state, loading a replica."""

    def not_ready(self) -> str | None:
        """Say why the service should get no work now."""

    def not_alive(self) -> str | None:
        """Say why only a restart can help."""

    def metrics(self) -> Iterable[Metric]:
        """Yield the service's metrics, read from its statistics."""


class _Metrics(Collector):
    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily(
            "sowline_ready", "Whether the service should get work", value=_not_ready(self._service) is None
        )
        yield from self._service.metrics()


def _not_ready(service: Service) -> str | None:
    return service.not_started() or service.not_ready()


def nothing() -> str | None:
    """Have nothing to note."""
    return None


def health_routes(service: Service, note: Callable[[], str | None] = nothing) -> list[Route]:
    """Return the routes `/startupz`, `/readyz`, `/healthz` and `/metrics` of a service.

    `note` is what a service says that goes on all the same: the sentence stands in answers of 200.
    """
    registry = CollectorRegistry()
    registry.register(_Metrics(service))
    version = {"Sowline-Version": __version__}

    def answer(why: str | None) -> Response:
        if why is None:
            said = note()
            return JSONResponse(
                {"status": "ok"} | ({} if said is None else {"message": said}), headers=version
            )
        return JSONResponse({"status": "unavailable", "message": why}, 503, version)

    async def startupz(request: Request) -> Response:
        return answer(service.not_started())

    async def readyz(request: Request) -> Response:
        return answer(_not_ready(service))

    async def healthz(request: Request) -> Response:
        return answer(service.not_alive())

    async def metrics(request: Request) -> Response:
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    answers = (startupz, readyz, healthz, metrics)
    return [Route(f"/{endpoint.__name__}", endpoint) for endpoint in answers]


class HealthServer:
    """Serves a service's health and metrics from a thread of its own."""

    def __init__(self, service: Service, host: str, port: int) -> None:
        app = Starlette(routes=health_routes(service))
        config = uvicorn.Config(app, log_level="warning", access_log=False)
        self._server = uvicorn.Server(config)
        self._address = host, port
        self._thread = threading.Thread(target=self._run, name="health", daemon=True)

    def start(self) -> None:
        """Begin to answer; raises `no port` where the port is taken."""
        self._listening = listener(*self._address)
        self._thread.start()

    def _run(self) -> None:
        self._server.run(sockets=[self._listening])

    def stop(self) -> None:
        """Stop answering, and wait until that is so."""
        self._server.should_exit = True
        self._thread.join(5)
