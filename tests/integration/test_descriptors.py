"""Few file descriptors: sessions are refused with a reason, and health is answered whatever holds the others."""

import json
import socket
import ssl
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from sowline.config.credentials import Credentials
from sowline.runtime.descriptors import share_out
from tests.integration.certificates import Authority
from tests.integration.services import Service, System, http_refusal, http_status, http_text, system
from tests.integration.wire import Wire
from tests.waiting import wait_for

LIMIT = 256
WITH_FEW = ("sh", "-c", f'ulimit -Sn 64 && ulimit -Hn {LIMIT} && exec "$@"', "sh")
"""Starts a command with a soft limit of 64 and a hard one of LIMIT."""

SESSIONS_MAX = share_out(LIMIT, 10_000).sessions
SECONDS = 2.0
HALF_A_BODY = b"POST /v1/topics/orders/sow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
HALF_A_HEAD = b"GET /v1/topics HTTP/1.1\r\nHost: local"
KEPT_ALIVE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Few(NamedTuple):
    """Services that may have few descriptors, a topic, and one that a test fills."""

    system: System
    topic: str
    filled: str
    worker: Service
    query: Service

    @property
    def status(self) -> dict[str, Any]:
        """What `/status` of the query service says."""
        message: dict[str, Any] = json.loads(http_text(f"{self.query.url}/status"))
        return message


@pytest.fixture(scope="module")
def few(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Few]:
    """One of each, with a soft limit that they raise."""
    topic = f"t{uuid.uuid4().hex[:12]}-few"
    topics = [{"name": name, "key": "/id"} for name in (topic, f"{topic}-filled")]
    with system(kafka, tmp_path_factory.mktemp("few"), topics) as made:
        worker = made.service("materializer").start(WITH_FEW)
        query = made.service("query_service").start(WITH_FEW)
        for service in (worker, query):
            service.wait_ready()
        yield Few(made, topic, f"{topic}-filled", worker, query)


def is_well(service: Service) -> bool:
    """Whether a service answers all that probes and monitoring ask for, each over a connection of its own."""
    return all(
        http_status(f"{service.url}/{path}") == 200 for path in ("healthz", "readyz", "metrics", "status")
    )


def open_socket(stack: ExitStack, service: Service, sent: bytes = b"") -> socket.socket:
    """Open a connection that stays until the stack is left, and send something."""
    made = stack.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=60))
    with suppress(ConnectionError):
        made.sendall(sent)
    return made


def test_sessions_leave_descriptors_for_the_rest(few: Few) -> None:
    """With the limit raised there are so many sessions, all of them served; each further one is refused as busy."""
    wait_for(lambda: few.status["sessions"]["open"] == 0, "the sessions of other tests to be gone")
    assert few.status["descriptors"]["max"] == LIMIT
    refused_before = few.status["sessions"]["refused"]
    sessions = {"max": SESSIONS_MAX, "configured": 10_000, "open": 0, "refused": refused_before}
    assert few.status["sessions"] == sessions
    entries = [json.loads(line) for line in few.query.log.splitlines()]
    assert [one["sessions"] for one in entries if one["event"] == "fewer sessions than configured"] == [
        SESSIONS_MAX
    ]
    url, more = few.query.url.replace("http", "ws") + "/v1", 30
    with ExitStack() as stack:
        clients = [Wire(stack.enter_context(connect(url))) for _ in range(SESSIONS_MAX)]
        for client in clients:
            client.send("subscribe", topic=few.topic, bookmark="epoch", sub_id="s")
        for _ in range(more):
            with pytest.raises(InvalidStatus) as refused, connect(url):
                pass
            answer = refused.value.response
            assert (answer.status_code, json.loads(answer.body or b"")["reason"]) == (503, "busy")
            assert is_well(few.query)
        few.system.write(few.topic, {"id": 1})
        assert {client.receive()["data"]["id"] for client in clients} == {1}
        assert few.query.descriptors < LIMIT
        assert few.status["sessions"]["refused"] - refused_before == more
    wait_for(lambda: few.status["sessions"]["open"] == 0, "all to be gone")
    with connect(url):
        assert few.status["sessions"]["open"] == 1


@pytest.mark.parametrize("sent", [b"", HALF_A_HEAD, HALF_A_BODY, KEPT_ALIVE])
def test_connections_that_wait_give_way(few: Few, sent: bytes) -> None:
    """However many connections send nothing, or half a request, or are kept alive: of every service."""
    url = few.query.url.replace("http", "ws") + "/v1"
    for service in (few.query, few.worker):
        with ExitStack() as stack:
            for number in range(2 * LIMIT):
                open_socket(stack, service, sent)
                assert number % 50 or is_well(service), service.log[-2000:]
            assert is_well(service)
            assert service.descriptors <= LIMIT
            with suppress(ConnectionError), connect(url) as client:
                assert client.ping()
    assert "out of system resource" not in few.query.log + few.worker.log


@pytest.mark.long
def test_a_worker_with_too_many_partitions(few: Few, tmp_path: Path) -> None:
    """It says so, and tries again, with no more descriptors than before; with a higher limit it goes on."""
    topic = f"t{uuid.uuid4().hex[:12]}-many"
    with system(few.system.kafka, tmp_path, [{"name": topic, "key": "/id", "partitions": 32}]) as made:
        worker = made.service("materializer").start(WITH_FEW)
        for tries in (1, 2, 3):
            wait_for(lambda tries=tries: worker.log.count("too few descriptors") == tries, "a try")
            assert "are too few" in http_refusal(f"{worker.url}/readyz")
            assert [http_status(f"{worker.url}/{path}") for path in ("healthz", "status")] == [200, 200]
            assert worker.descriptors < 100
        assert worker.stop() == 0
        worker.start().wait_ready()
        made.write(topic, *({"id": number} for number in range(100)))
        query = made.service("query_service").start().wait_ready()
        made.wait_settled(query.url, topic)
        assert query.metric("sowline_records") == 100
        assert "is damaged" not in worker.log


def test_answers_that_no_client_reads_leave_health(few: Few) -> None:
    """Requests whose answers are not taken make way for the next ones: their connections are cut."""
    few.system.write(few.filled, *({"id": number, "text": "x" * 10_000} for number in range(200)))
    query = few.system.service("query_service", query_unread_seconds_max=0.1).start(WITH_FEW).wait_ready()
    few.system.wait_settled(query.url, few.filled)
    ask = f"POST /v1/topics/{few.filled}/sow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{{}}".encode()
    with ExitStack() as stack:
        for number in range(LIMIT):
            made = open_socket(stack, query, ask)
            assert made.recv(12) == b"HTTP/1.1 200"
            assert number % 50 or is_well(query)
        assert is_well(query)
        # The last ones keep what they hold, because no request waits for it.
        assert few._replace(query=query).status["connections"]["open"] < LIMIT // 4
    query.stop()
    assert "Traceback" not in query.log


def test_half_a_request_is_given_up(few: Few) -> None:
    """After `SOWLINE_REQUEST_SECONDS_MAX` the answer is 408, and the connection ends; a silent one just ends."""
    query = few.system.service("query_service", request_seconds_max=0.5).start().wait_ready()
    with ExitStack() as stack:
        for sent, answer in (
            (HALF_A_HEAD, b"HTTP/1.1 408 "),
            (HALF_A_BODY, b"HTTP/1.1 408 "),
            (KEPT_ALIVE + HALF_A_BODY, b"HTTP/1.1 200 "),
            (b"", b""),
        ):
            made = open_socket(stack, query, sent)
            got = b"".join(iter(lambda made=made: made.recv(4096), b""))  # type: ignore[misc]
            assert got.startswith(answer), got
            if sent.endswith(HALF_A_BODY):
                assert json.loads(got.splitlines()[-1])["reason"] == "request timeout"
    query.stop()
    assert [line for line in query.log.splitlines() if not line.startswith("{")] == []
    assert "Traceback" not in query.log


def test_tls_that_is_not_begun_gives_way(few: Few, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Connections that never secure themselves do not keep a probe out."""
    authority = Authority(tmp_path_factory.mktemp("pki"))
    query = few.system.service("query_service", tls_cert=authority.vouch("service")).start(WITH_FEW)
    trusted = Credentials(None, authority.file).tls()

    def answers() -> bool:
        assert query.running, query.log
        try:
            with urlopen(
                query.url.replace("http", "https") + "/healthz", timeout=5, context=trusted
            ) as answer:
                return bool(answer.status == 200)
        except HTTPError as error:
            error.close()
            return False
        except (OSError, ssl.SSLError):
            return False

    wait_for(answers, "the service to answer")
    with ExitStack() as stack:
        for number in range(2 * LIMIT):
            open_socket(stack, query)
            assert number % 50 or answers()
        assert answers()
    query.stop()
    assert [line for line in query.log.splitlines() if not line.startswith("{")] == []


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: +5\r\n",
        b"Host: localhost\r\n",
    ],
)
def test_a_request_whose_end_is_doubtful(few: Few, headers: bytes) -> None:
    """It is refused with 400, and what follows on the connection is not read: a proxy may see another end."""
    checkpoint = b"POST /v1/topics/none/sow HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n"
    for service in (few.query, few.worker):
        with ExitStack() as stack:
            made = open_socket(
                stack, service, checkpoint + b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
            )
            got = b"".join(iter(lambda made=made: made.recv(4096), b""))  # type: ignore[misc]
        assert got.count(b"HTTP/1.1 ") == 1
        assert got.startswith(b"HTTP/1.1 400 "), got
        assert json.loads(got.splitlines()[-1])["reason"] == "bad request"
