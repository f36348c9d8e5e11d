"""Ten thousand WebSocket clients with one key each, at the least CPU time a message: raw sockets and one epoll.

A listener takes no message apart. It checks that the frames are whole and that the numbers of its record follow each
other without a gap, and notes how long each message took.
"""

import re
import select
import socket
import threading
import time
from collections.abc import Iterator

from bench.frames import HANDSHAKE, frame_of_client
from sowline.runtime.ports import HOST

CONNECTING_MAX = 500
"""Handshakes at once."""

ACKNOWLEDGED = (b'"status":"success"',)
"""The fields of the answer to a request."""

WAIT_SECONDS = 0.1
RECEIVED_BYTES_MAX = 256 * 1024

_MEDIUM = 126
_MARKS = re.compile(rb'"sent":([0-9.]+),"number":([0-9]+)')
"""In a record: when it was published, on the clock of all processes, and its number among those of its key."""


class _Listener:
    """One client: its socket, the beginning of a frame that is not whole yet, and how many messages it has."""

    __slots__ = ("is_answered", "messages", "receive", "request", "rest", "socket")

    def __init__(self, connection: socket.socket, request: bytes) -> None:
        self.socket = connection
        self.request: bytes | None = request
        """Its request; None once it is sent."""
        self.receive = connection.recv
        self.rest = b""
        self.messages = 0
        self.is_answered = False


class Listeners:
    """Clients that count their messages, in their own thread. `close` ends it.

    A client that is disconnected, or gets another message than the next one of its record, fails `reached`.
    """

    def __init__(self, port: int, requests: list[bytes], answers: tuple[bytes, ...] = ACKNOWLEDGED) -> None:
        """Open a connection for each request, and return once all have their answer.

        `answers` are parts of the messages that answer one request, in their order.
        """
        self._answers = answers
        self._epoll = select.epoll()
        self._all: dict[int, _Listener] = {}
        self._is_over = False
        self._failed: Exception | None = None
        self.messages = 0
        self.seconds: list[float] = []
        self.last = 0.0
        for start in range(0, len(requests), CONNECTING_MAX):
            some = [self._connected(port, request) for request in requests[start : start + CONNECTING_MAX]]
            while not all(listener.is_answered for listener in some):
                self._take_ready()
        self._thread = threading.Thread(target=self._run, name="listeners", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """Count from zero; call it while no messages arrive."""
        self.messages, self.seconds = 0, []
        for listener in self._all.values():
            listener.messages = 0

    def reached(self, messages: int, seconds_max: float) -> None:
        """Wait until this many messages have arrived; raise the failure, or an error if they do not arrive."""
        deadline = time.monotonic() + seconds_max
        while self.messages < messages and self._failed is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"expected {messages} messages, got {self.messages}")
            time.sleep(0.005)
        if self._failed is not None:
            raise self._failed

    def counts(self) -> list[int]:
        """Return how many messages each client has, in the order of the requests."""
        return [listener.messages for listener in self._all.values()]

    def close(self) -> None:
        """Close all connections."""
        self._is_over = True
        self._thread.join()
        for listener in self._all.values():
            listener.socket.close()
        self._epoll.close()

    def _connected(self, port: int, request: bytes) -> _Listener:
        connection = socket.create_connection((HOST, port))
        connection.sendall(HANDSHAKE)
        connection.setblocking(False)
        listener = self._all[connection.fileno()] = _Listener(connection, request)
        self._epoll.register(connection, select.EPOLLIN)
        return listener

    def _run(self) -> None:
        try:
            while not self._is_over:
                self._take_ready()
        except Exception as error:
            self._failed = error

    def _take_ready(self) -> None:
        for descriptor, _ in self._epoll.poll(WAIT_SECONDS):
            listener = self._all[descriptor]
            data = listener.receive(RECEIVED_BYTES_MAX)
            if not data:
                raise ConnectionError("the server closed a connection")
            if listener.rest:
                data = listener.rest + data
            if listener.is_answered:
                self._take(listener, data)
            elif listener.request is not None:
                _ask(listener, listener.request, data)
                listener.is_answered = listener.request is None and not self._answers
            else:
                _take_answer(listener, data, self._answers)

    def _take(self, listener: _Listener, data: bytes) -> None:
        now, end = time.monotonic(), 0
        for start, end in _frames(data):
            for mark in _MARKS.finditer(data, start, end):
                sent, number = mark.groups()
                if int(number) != listener.messages:
                    raise AssertionError(f"expected message {listener.messages} of a record, got {number!r}")
                listener.messages += 1
                self.seconds.append(now - float(sent))
                self.messages += 1
                self.last = now
        listener.rest = data[end:]


def _ask(listener: _Listener, request: bytes, data: bytes) -> None:
    """Take the handshake, and send the request after it: some servers refuse an earlier one."""
    if not data.endswith(b"\r\n\r\n"):
        listener.rest = data
        return
    if not data.startswith(b"HTTP/1.1 101"):
        raise ConnectionError(f"expected a WebSocket, got {data!r}")
    listener.socket.sendall(frame_of_client(request))
    listener.request, listener.rest = None, b""


def _take_answer(listener: _Listener, data: bytes, answers: tuple[bytes, ...]) -> None:
    """Take the messages that answer the request."""
    frames = list(_frames(data))
    messages = [message for start, end in frames for message in data[start:end].splitlines()]
    if any(part not in message for part, message in zip(answers, messages, strict=False)):
        raise AssertionError(f"expected {answers}, got {messages}")
    if len(messages) < len(answers):
        listener.rest = data
        return
    if len(messages) > len(answers) or frames[-1][1] < len(data):
        raise AssertionError(f"expected nothing behind {answers}, got {data!r}")
    listener.is_answered, listener.rest = True, b""


def _frames(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of the text of each whole frame."""
    at = 0
    while len(data) - at >= 2:
        size, start = data[at + 1], at + 2
        if size >= _MEDIUM:
            start += 2 if size == _MEDIUM else 8
            size = int.from_bytes(data[at + 2 : start], "big")
        at = start + size
        if at > len(data):
            return
        yield start, at
