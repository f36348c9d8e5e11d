"""The port of a service: the one that it was given, or a sentence that says why not."""

import socket
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from urllib.request import urlopen

import pytest
from prometheus_client.metrics_core import Metric

from sowline.errors import SowlineError
from sowline.health import HealthServer
from sowline.process import listener
from sowline.stack import _free_port

HOST = "127.0.0.1"


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


def test_a_port_that_is_taken_is_said_to_be(taken: int) -> None:
    """Whoever wants it: the whole system, or a service of its own."""
    wanting: list[Callable[[], object]] = [
        partial(listener, HOST, taken),
        partial(_free_port, HOST, taken),
        HealthServer(Well(), HOST, taken).start,
    ]
    for take in wanting:
        with pytest.raises(SowlineError, match=f"free port at {HOST}:{taken}, got: Address already") as error:
            take()
        assert error.value.reason == "no port"


def test_a_service_answers_at_its_port() -> None:
    """Until it stops; then another may have it."""
    port = _free_port(HOST)
    for _ in range(2):
        server = HealthServer(Well(), HOST, port)
        server.start()
        with urlopen(f"http://{HOST}:{port}/readyz", timeout=10) as answer:
            assert answer.status == 200
        server.stop()
