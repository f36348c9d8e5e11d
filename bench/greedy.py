"""The cost of greedy clients to a service: its slowest answer to a probe, and its peak memory next to its bound.

Each kind has its own query service with 200,000 records, or the service that computes views. The clients work in a
process of lower priority, so that the load they make does not keep the service from its core.
"""

import contextlib
import json
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from confluent_kafka import Producer

from bench.frames import HANDSHAKE
from bench.overload import Stopped, _frame, _process
from bench.service import Running, metric, running, until
from bench.table import table
from sowline.config.settings import Settings
from sowline.runtime.local_kafka import LocalKafka

MIB = 1 << 20
RECORDS = 200_000
LEFT, RIGHT = 60, 9_000
TOPICS = """
topics:
  - {name: crowd, key: /id}
  - {name: accounts, key: /id}
  - {name: trades, key: /id}
views:
  - name: joined
    from: accounts
    join: [{topic: trades, on: "/g = /g", as: trade, multiply: true}]
    grouping: [/g, /trade/h]
    projection: [/g, /trade/h, COUNT(1) AS /n]
"""
PROBE_SECONDS = 0.05
MEASURED_SECONDS = 15.0
QUERIES = 16
"""Queries that run at once of one address, as the setting `queries_per_user_max` is."""

SETTINGS = Settings()
ANSWERS = QUERIES * (62 * RECORDS + 2 * MIB) + SETTINGS.backlogs_bytes_max
"""The bytes of queries that run, and of answers that clients have not read."""

VIEWS = SETTINGS.view_bytes_per_connection_max * 3
"""The bytes of live views of one connection: the limit, half as much again that the estimate may err, and as much
while views are filled."""


SUBSCRIPTIONS = SETTINGS.backlog_bytes_max + 10_000 * 20 * 1024
"""The bytes of subscriptions, and of answers that the client has not read."""


class Kind(NamedTuple):
    """A kind of greedy clients, and the memory that it may take by the documentation, in addition to the records."""

    name: str
    work: str
    bound: int


def run(records: int, runs: int) -> str:
    """Measure each kind once; return the table."""
    rows = []
    with (
        TemporaryDirectory() as directory,
        LocalKafka(Path(directory) / "kafka") as kafka,
    ):
        config = Path(directory) / "topics.yaml"
        config.write_text(TOPICS)
        environment = {
            "SOWLINE_KAFKA": kafka.bootstrap,
            "SOWLINE_CONFIG": str(config),
            "SOWLINE_DATA_DIR": f"{directory}/state",
        }
        with running("materializer", environment) as worker:
            until(worker.has_started)
            _fill(kafka.bootstrap)
            for kind in KINDS:
                rows.append(_measured(kind, environment))
                print(*rows[-1], sep=" | ", flush=True)
            with running("views", environment) as views:
                until(views.has_started)
                before = views.usage().rss_bytes_max
                with _probed(views) as worst:
                    _multiply(kafka.bootstrap)
                    time.sleep(MEASURED_SECONDS)
                name = f"a join with {LEFT} × {RIGHT:,} rows (the service `views`)"
                bound = SETTINGS.join_bytes_max
                rows.append(_row(name, worst, before, views.usage().rss_bytes_max, bound))
    return table(["greedy clients", "slowest `/healthz`, s", "MiB before", "peak, MiB", "bound, MiB"], rows)


def _measured(kind: Kind, environment: dict[str, str]) -> list[str]:
    with running("query_service", environment) as service:
        until(service.has_started)
        until(lambda: metric(service.url, "sowline_records") >= RECORDS)
        before = service.usage().rss_bytes_max
        with _probed(service) as worst, _process(globals()[kind.work], service.url):
            time.sleep(MEASURED_SECONDS)
        return _row(kind.name, worst, before, service.usage().rss_bytes_max, kind.bound)


def _row(name: str, worst: list[float], before: int, peak: int, bound: int) -> list[str]:
    return [
        name,
        f"{max(worst):.2f}",
        f"{before / MIB:,.0f}",
        f"{peak / MIB:,.0f}",
        f"{(before + bound) / MIB:,.0f}",
    ]


@contextmanager
def _probed(service: Running) -> Iterator[list[float]]:
    """Ask for the health of a service again and again during the block; lend the seconds that each answer took."""
    taken, stop = [0.0], threading.Event()

    def probe() -> None:
        while not stop.wait(PROBE_SECONDS):
            began = time.monotonic()
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(f"{service.url}/healthz", timeout=60) as answer,
            ):
                answer.read()
            taken.append(time.monotonic() - began)

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        yield taken
    finally:
        stop.set()
        thread.join()


def _fill(kafka: str) -> None:
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 5, "queue.buffering.max.messages": RECORDS})
    for id in range(RECORDS):
        fields = {f"f{number}": id * (number + 7919) % RECORDS for number in range(5)}
        body = json.dumps({"id": id, **fields, "name": f"name {id}", "text": "x" * 100})
        producer.produce("crowd", body.encode(), str(id))
        producer.poll(0)
    producer.flush()


def _multiply(kafka: str) -> None:
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 5})
    for topic, count in (("trades", RIGHT), ("accounts", LEFT)):
        for id in range(count):
            producer.produce(topic, json.dumps({"id": id, "g": 1, "h": id % 100}).encode(), str(id))
    producer.flush()


def _connected(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect((host, int(port)))
    return made


def _unread(url: str, head: str, body: bytes, stopped: Stopped) -> None:
    """Send a request on 200 connections, and read nothing of the answers."""
    with ExitStack() as stack:
        for _ in range(200):
            made = stack.enter_context(contextlib.closing(_connected(url)))
            made.sendall(
                f"{head} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
            )
        stopped(3600)


def _streams(url: str, stopped: Stopped) -> None:
    _unread(url, "GET /v1/topics/crowd/subscribe?command=sow_and_subscribe", b"", stopped)


def _posts(url: str, stopped: Stopped) -> None:
    _unread(url, "POST /v1/topics/crowd/sow", b"{}", stopped)


def _asked(url: str, requests: list[dict[str, object]], stopped: Stopped) -> None:
    """Send requests on one WebSocket, and read the answers."""
    with contextlib.closing(_connected(url)) as made:
        made.sendall(HANDSHAKE)
        made.recv(4096)
        for start in range(0, len(requests), 100):
            made.sendall(_frame(requests[start : start + 100]))
        made.settimeout(0.2)
        while not stopped(0):
            with contextlib.suppress(TimeoutError):
                made.recv(1 << 20)


def _pages(url: str, stopped: Stopped) -> None:
    page = {"command": "sow_and_subscribe", "topic": "crowd", "top_n": 5, "skip_n": 0}
    orders = [
        f"/f{number % 5} {('ASC', 'DESC')[number // 5 % 2]}, /f{number // 10 % 5}, /id"
        for number in range(50)
    ]
    orders += [order.replace("/id", "/name") for order in orders]
    _asked(url, [{**page, "sub_id": str(n), "order_by": order} for n, order in enumerate(orders)], stopped)


def _subscriptions(url: str, stopped: Stopped) -> None:
    one = {"command": "subscribe", "topic": "crowd"}
    _asked(url, [{**one, "sub_id": str(n), "filter": f"/id = {n}"} for n in range(10_000)], stopped)


def _grouped(url: str, projection: str, stopped: Stopped) -> None:
    options = f"grouping=[/id],projection=[/id,{projection}]" if "COUNT" in projection else projection
    one = {"command": "sow_and_subscribe", "topic": "crowd", "options": options}
    _asked(url, [{**one, "sub_id": str(n), "filter": f"/id >= {n}"} for n in range(5)], stopped)


def _groups(url: str, stopped: Stopped) -> None:
    _grouped(url, "COUNT(1) AS /n", stopped)


def _concat(url: str, stopped: Stopped) -> None:
    _grouped(url, "grouping=[/none],projection=[/none,GROUP_CONCAT(/name) AS /names]", stopped)


KINDS = (
    Kind("200 `sow_and_subscribe` as event streams, without reading", "_streams", ANSWERS),
    Kind("200 `POST …/sow`, without reading", "_posts", ANSWERS),
    Kind("100 pages of 5, each in its own order, on one connection", "_pages", VIEWS),
    Kind("10,000 subscriptions on one connection", "_subscriptions", SUBSCRIPTIONS),
    Kind("5 times 200,000 groups, of which 100,000 are allowed", "_groups", VIEWS),
    Kind("5 times `GROUP_CONCAT` of all records", "_concat", VIEWS),
)
