"""The cost of an overload to clients that do not cause it: from a publish to a subscriber, by kind of overload.

Traffic at a steady rate goes to `orders`, and a subscriber with a separate connection takes it. Messages of 4 KB
always go to `flood`, even when nothing overloads the services: the overload is measured, not that traffic. Each kind
is measured right after a quiet time of the same run, and in the same services, which have small limits, so that
clients reach them within seconds. A process per role: Kafka, the services, the traffic, and the clients that overload
them. Those are of lower priority (`nice`): on few cores the generator of the load would else starve what is measured.
"""

import contextlib
import json
import os
import select
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.client import HTTPException
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from confluent_kafka import Producer

from bench.frames import HANDSHAKE
from bench.table import table
from bench.traffic import Lags, Traffic, system
from sowline.runtime.local_kafka import LocalKafka

TOPICS = "topics: [{name: orders, key: /id}, {name: flood, key: /id}, {name: crowd, key: /id}]"
LIMITS = {"SOWLINE_BACKLOG_BYTES_MAX": 1 << 20, "SOWLINE_RESULT_RECORDS_MAX": 15_000}
RATE = 200
SECONDS = 5.0
SETTLE_SECONDS = 4.0
"""Until clients that do not read have filled what may wait for them, and what the sockets hold."""

FLOOD_RATE = 200
FLOOD_KEYS = 100
BODY_BYTES = 4000
LARGE_RECORDS = 20_000
"""The records of the topic `crowd`: more than a result may have."""

CROWD = 1000
MANY = 200
SLOW_SECONDS = 0.1
SLOW_BYTES = 4096
"""The bytes that a slow client reads at a time: a twentieth of those that it is sent."""

NICE = 10

Stopped = Callable[[float], bool]
"""Waits this many seconds; returns whether the overload should end."""


class Kind(NamedTuple):
    """A kind of overload: what its clients do until they are stopped, and how long before it is at its worst."""

    name: str
    work: Callable[[str, Stopped], None]
    settle_seconds: float = 0.0


def run(records: int, runs: int) -> str:
    """Measure each kind after a quiet time; return the table."""
    with (
        TemporaryDirectory() as directory,
        _environment(LIMITS),
        LocalKafka(Path(directory) / "kafka") as kafka,
        system(kafka.bootstrap, Path(directory), TOPICS) as url,
        _process(_flood, kafka.bootstrap),
        Traffic(kafka.bootstrap, "orders", url, RATE) as traffic,
    ):
        _fill(kafka.bootstrap)
        traffic.settle()
        measured = {kind: [_pair(traffic, kind, url) for _ in range(runs)] for kind in KINDS}
    return report(measured)


def report(measured: Mapping[Kind, list[tuple[Lags, Lags]]]) -> str:
    """Return the table of medians: without an overload, with it, and how many times as long."""
    rows = []
    for kind, pairs in measured.items():
        cells = [kind.name]
        for name in ("p50", "p99"):
            progress_timer, loaded = (median(getattr(pair[side], name) for pair in pairs) for side in (0, 1))
            cells += [f"{progress_timer:.1f}", f"{loaded:.1f}", f"{loaded / progress_timer:.1f}"]
        rows.append(cells)
    headings = ["overload", "p50 ms before", "during", "ratio", "p99 ms before", "during", "ratio"]
    return table(headings, rows)


def _pair(traffic: Traffic, kind: Kind, url: str) -> tuple[Lags, Lags]:
    """Return the lags without an overload, and with one."""
    traffic.settle()
    progress_timer = traffic.fresh(SECONDS)
    with _process(kind.work, url):
        time.sleep(kind.settle_seconds)
        loaded = traffic.fresh(SECONDS)
    print(f"{kind.name}: {progress_timer} without, {loaded} with", flush=True)
    return progress_timer, loaded


@contextmanager
def _environment(settings: Mapping[str, object]) -> Iterator[None]:
    """Give settings to the services that are started in the block."""
    os.environ.update({name: str(value) for name, value in settings.items()})
    try:
        yield
    finally:
        for name in settings:
            del os.environ[name]


@contextmanager
def _process(work: Callable[[str, Stopped], None], where: str) -> Iterator[None]:
    """Work in another process, until the end of the block."""
    context = get_context("spawn")
    stop, begun = context.Event(), context.Event()
    process = context.Process(target=_work, args=(work, where, begun, stop), daemon=True)
    process.start()
    begun.wait()
    try:
        yield
    finally:
        stop.set()
        process.join()


def _work(work: Callable[[str, Stopped], None], where: str, begun: Event, stop: Event) -> None:
    os.nice(NICE)
    begun.set()
    work(where, stop.wait)


def _flood(kafka: str, stopped: Stopped) -> None:
    """Write the messages that the clients in question are sent."""
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 1})
    began, sent = time.monotonic(), 0
    while not stopped(0.02):
        due = int((time.monotonic() - began) * FLOOD_RATE)
        for number in range(sent, due):
            body = {"id": number % FLOOD_KEYS, "n": number, "text": "x" * BODY_BYTES}
            producer.produce("flood", json.dumps(body).encode(), str(body["id"]))
        sent = due
        producer.poll(0)
    producer.flush()


def _fill(kafka: str) -> None:
    """Write the records of which a result has too many."""
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 5})
    for id in range(LARGE_RECORDS):
        producer.produce("crowd", json.dumps({"id": id, "text": "x" * 200}).encode(), str(id))
    producer.flush()


def _deaf(url: str, stopped: Stopped, clients: int = 1) -> None:
    """Subscribe to the flood, and read nothing."""
    with ExitStack() as stack:
        for _ in range(clients):
            stack.enter_context(contextlib.closing(subscribed(url, "flood")))
        stopped(3600)


def _slow(url: str, stopped: Stopped, clients: int = 1) -> None:
    """Subscribe to the flood, and read a twentieth of it."""
    with ExitStack() as stack:
        made = [stack.enter_context(contextlib.closing(subscribed(url, "flood"))) for _ in range(clients)]
        while not stopped(SLOW_SECONDS):
            _read_some(made)


def _read_some(sockets: list[socket.socket]) -> None:
    for one in select.select(sockets, (), (), 0)[0]:
        one.recv(SLOW_BYTES)


def _many(url: str, stopped: Stopped) -> None:
    """Be many that read nothing, and as many that are slow."""
    with ExitStack() as stack:
        for _ in range(MANY):
            stack.enter_context(contextlib.closing(subscribed(url, "flood")))
        _slow(url, stopped, MANY)


def _crowd(url: str, stopped: Stopped) -> None:
    """Connect at once, all of them, and subscribe."""
    with ExitStack() as stack:
        made = [stack.enter_context(contextlib.closing(_opening(url))) for _ in range(CROWD)]
        for one in made:
            _shake_hands(one)
            _subscribe(one, "crowd")
        stopped(3600)


def _publish(url: str, stopped: Stopped) -> None:
    """Publish through a connection as fast as it takes that: ten times as fast as the services can bear, and more."""
    command = {
        "command": "publish",
        "topic": "crowd",
        "data": {"id": 1, "text": "x" * 200},
        "acks": ["processed"],
    }
    with contextlib.closing(_opening(url)) as made:
        _shake_hands(made)
        made.setblocking(False)
        frame, rest = _frame([command] * 100), b""
        while not stopped(0):
            readable, writable, _ = select.select([made], [made], (), 0.1)
            if readable:
                made.recv(1 << 20)
            if writable:
                rest = (rest or frame)[made.send(rest or frame) :]


def _ask_too_much(url: str, stopped: Stopped) -> None:
    """Ask for a result that is larger than it may be, again and again."""
    while not stopped(0):
        try:
            with urllib.request.urlopen(f"{url}/v1/topics/crowd/sow", b"{}", timeout=30) as answer:
                while answer.read(1 << 20):
                    pass
        except (OSError, HTTPException):
            continue


def subscribed(url: str, topic: str) -> socket.socket:
    """Return a connection that has subscribed to all of a topic, and of which nothing is read yet."""
    made = _opening(url)
    _shake_hands(made)
    _subscribe(made, topic)
    return made


def _opening(url: str) -> socket.socket:
    """Return a connection that asks for a WebSocket, and does not wait for the answer."""
    host, port = url.removeprefix("http://").split(":")
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect((host, int(port)))
    made.sendall(HANDSHAKE)
    return made


def _shake_hands(made: socket.socket) -> None:
    made.recv(4096)


def _subscribe(made: socket.socket, topic: str) -> None:
    made.sendall(_frame({"command": "subscribe", "topic": topic, "sub_id": "s"}))


def _frame(request: Any) -> bytes:
    """Return a text frame as clients send them; masked with zeros, which changes nothing."""
    payload = json.dumps(request).encode().ljust(200)
    return b"\x81\xfe" + len(payload).to_bytes(2, "big") + bytes(4) + payload


KINDS = (
    Kind("one client that reads nothing", _deaf, SETTLE_SECONDS),
    Kind("one client that reads a twentieth of its messages", _slow, SETTLE_SECONDS),
    Kind("1,000 clients that connect at once", _crowd),
    Kind("one that publishes as fast as its connection allows", _publish, 1.0),
    Kind("one that repeatedly requests too large a result", _ask_too_much, 1.0),
    Kind("200 that read nothing, 200 that read a twentieth", _many, SETTLE_SECONDS),
)
