"""The port of a service, or a sentence that says why not; and what services answer there of themselves."""

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import httpx2
import pytest
from prometheus_client.metrics_core import Metric
from starlette.applications import Starlette

from sowline.config.settings import Settings
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.kafka.runner_service import RunnerState
from sowline.runtime.health import HealthServer, health_routes
from sowline.runtime.ports import free_port
from sowline.runtime.process import listener
from sowline_fanout.service import FanoutService
from sowline_materializer.service import Materializer
from sowline_materializer.worker.counts import Counts, WorkerStatistics
from sowline_query_service.service import QueryService

HOST = "127.0.0.1"
ROOT = Path(__file__).parents[4]


class Well:
    """A service that has nothing to complain of."""

    def not_started(self) -> str | None:
        """Say nothing."""
        return None

    not_ready = not_alive = not_started

    def metrics(self) -> Iterable[Metric]:
        """Have none."""
        return ()


@pytest.fixture
def taken() -> Iterator[int]:
    """A port at which somebody listens."""
    with socket.create_server((HOST, 0)) as other:
        yield other.getsockname()[1]


def test_a_port_that_is_taken_is_reported(taken: int) -> None:
    """By each that binds it: a listener, and a service's health server."""
    wanting: list[Callable[[], object]] = [
        partial(listener, HOST, taken),
        HealthServer(Well(), HOST, taken).start,
    ]
    for take in wanting:
        with pytest.raises(SowlineError, match=f"free port at {HOST}:{taken}, got: Address already") as error:
            take()
        assert error.value.reason == "no port"


def test_a_service_answers_at_its_port() -> None:
    """Until it stops; then another may have it."""
    port = free_port()
    for _ in range(2):
        server = HealthServer(Well(), HOST, port)
        server.start()
        with urlopen(f"http://{HOST}:{port}/readyz", timeout=10) as answer:
            assert answer.status == 200
        server.stop()


class Full(Well):
    """A service that has started and can't work."""

    def not_ready(self) -> str | None:
        """Say why."""
        return "the disk is full"


@pytest.mark.parametrize(("service", "status", "ready"), [(Well(), 200, "1.0"), (Full(), 503, "0.0")])
def test_readiness_is_a_metric_too(service: Well, status: int, ready: str) -> None:
    """Who reads metrics sees what `/readyz` answers."""
    port = free_port()
    server = HealthServer(service, HOST, port)
    server.start()
    try:
        answers = {}
        for path in ("readyz", "metrics"):
            with closing(http.client.HTTPConnection(HOST, port, timeout=10)) as connection:
                connection.request("GET", f"/{path}")
                answer = connection.getresponse()
                answers[path] = answer.status, answer.read().decode()
    finally:
        server.stop()
    assert answers["readyz"][0] == status
    assert f"sowline_ready {ready}\n" in answers["metrics"][1]


class StackProcess(Well):
    """A service that says of each question whether it is so."""

    def __init__(self, *so: bool) -> None:
        self._started, self._ready, self._alive = so

    def not_started(self) -> str | None:
        """Say so."""
        return None if self._started else "it loads"

    def not_ready(self) -> str | None:
        """Say so."""
        return None if self._ready else "it is full"

    def not_alive(self) -> str | None:
        """Say so."""
        return None if self._alive else "it is broken"


@pytest.mark.parametrize(
    ("so", "answers"),
    [
        ((True, True, True), (200, 200, 200)),
        ((False, True, True), (503, 503, 200)),
        ((True, False, True), (200, 503, 200)),
        ((True, True, False), (200, 200, 503)),
    ],
)
async def test_three_questions_have_three_answers(
    so: tuple[bool, bool, bool], answers: tuple[int, int, int]
) -> None:
    """Whether it has begun, should get work, and can go on; only who has not begun should get no work for that."""
    app = Starlette(routes=health_routes(StackProcess(*so)))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://service") as client:
        found = [(await client.get(f"/{path}")).status_code for path in ("startupz", "readyz", "healthz")]
    assert tuple(found) == answers


TOPICS = parse_topics("topics: [{name: orders, key: /id}]\nfanouts: [{name: late, topic: orders}]\n")


def answers(service: Any) -> tuple[str | None, str | None, str | None]:
    """Return what a service answers to the three questions."""
    started = service.not_started()
    return started, started or service.not_ready(), service.not_alive()


def test_a_materializer_has_begun_when_its_partitions_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Later it is not ready while it opens others; nothing is mended by beginning it again."""
    service = Materializer(Settings(), TOPICS, threading.Event())
    waits = "waiting for partitions from the group"
    assert answers(service) == (waits, waits, None)
    look = WorkerStatistics(Counts(), {}, {}, {}, [("orders", 0), ("orders", 1)])
    worker = SimpleNamespace(assigned=False, statistics=lambda: look)
    monkeypatch.setattr(service, "_worker", worker)
    opens = "recovering orders [0], orders [1]"
    assert answers(service) == (opens, opens, None)
    worker.assigned = True
    assert answers(service) == (None, opens, None)
    look.opening.clear()
    assert answers(service) == (None, None, None)
    look.stopped["orders", 0] = "records are gone"
    assert answers(service) == (None, "orders [0]: records are gone", None)


def test_a_query_service_has_begun_when_its_topics_are_loaded() -> None:
    """One whose replica is broken gets no work, and is mended by beginning it again."""
    service = QueryService(Settings(), TOPICS)
    assert answers(service) == ("loading orders", "loading orders", None)
    for topic in service._state.topics.values():
        for partition in topic.partitions.values():
            partition.loaded()
    assert answers(service) == (None, None, None)
    service._state.broken = "a change is missing"
    assert answers(service) == (None, "a change is missing", "a change is missing")


def test_a_fanout_service_has_begun_when_each_has_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that stopped is not waited for; it makes the service unready, and stays so after a new start."""
    service = FanoutService(Settings(), TOPICS, threading.Event())
    waits = "waiting for partitions: late"
    assert answers(service) == (waits, waits, None)
    runner = SimpleNamespace(assigned=True, waiting=lambda: None)
    runners = service.runners["late"]
    runners.latest = runner  # type: ignore[assignment]
    assert answers(service) == (None, None, None)
    runner.waiting = lambda: "waiting for orders.changes [0]"
    assert answers(service) == (None, "late: waiting for orders.changes [0]", None)
    runners.move(RunnerState.STOPPED, "what follows is gone")
    assert answers(service) == (None, "late: what follows is gone", None)


HUNGRY = """
import os, resource, sys
from urllib.request import urlopen
from sowline.runtime.health import HealthServer
from tests.unit.sowline.runtime.test_health import HOST, Well

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
server = HealthServer(Well(), HOST, int(sys.argv[1]))
server.start()
urlopen(f"http://{HOST}:{sys.argv[1]}/healthz").close()
taken = []
try:
    while True:
        taken.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    print("none left", flush=True)
sys.stdin.read()
server.stop()
"""
"""A service of which something has taken all descriptors."""


def test_health_is_answered_when_there_are_no_descriptors() -> None:
    """One request after the other, each over a connection of its own, also while others wait for nothing."""
    port = free_port()
    with subprocess.Popen(
        [sys.executable, "-c", HUNGRY, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "none left\n"
        with ExitStack() as stack:
            for number in range(20):
                if number % 3 == 2:
                    stack.enter_context(socket.create_connection((HOST, port), timeout=10))
                with urlopen(f"http://{HOST}:{port}/healthz", timeout=10) as answer:
                    assert answer.status == 200
            with urlopen(f"http://{HOST}:{port}/status", timeout=10) as answer:
                assert json.load(answer)["descriptors"]["max"] == 100
        _, output = process.communicate("", timeout=30)
        assert (process.returncode, output) == (0, "")
