"""The clients of the benchmarks: what they take for an answer, and for the next message."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from bench.listeners import Listeners

ACCEPTED = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
SECONDS_MAX = 20.0


@pytest.mark.parametrize("frames", [["connect", "subscribe"], ["connect\nsubscribe"]])
def test_answers_and_messages_share_frames_or_not(frames: list[str]) -> None:
    """A request may have two answers; all messages of a frame count."""
    answers = [_frame(text.encode()) for text in frames]
    with _connected(answers, (b"connect", b"subscribe")) as (listeners, server):
        server.sendall(_frame(_record(0) + b"\n" + _record(1)) + _frame(_record(2)))
        listeners.reached(3, SECONDS_MAX)
        assert listeners.counts() == [3]


def test_a_lost_message() -> None:
    """The numbers of a record's messages have no gap."""
    with _connected([], ()) as (listeners, server):
        server.sendall(_frame(_record(0)) + _frame(_record(2)))
        with pytest.raises(AssertionError, match="expected message 1"):
            listeners.reached(2, SECONDS_MAX)


def _record(number: int) -> bytes:
    return b'{"order":7,"sent":1.5,"number":%d}' % number


def _frame(text: bytes) -> bytes:
    return b"\x81%c%b" % (len(text), text)


@contextmanager
def _connected(
    answers: Sequence[bytes], expected: tuple[bytes, ...]
) -> Iterator[tuple[Listeners, socket.socket]]:
    """Connect one client to a server that refuses a request before it has accepted; lend both ends."""
    accepted: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_accept, args=(server, answers, accepted))
        thread.start()
        listeners = Listeners(server.getsockname()[1], [b"{}"], expected)
        thread.join()
    with accepted[0]:
        yield listeners, accepted[0]
        listeners.close()


def _accept(server: socket.socket, answers: Sequence[bytes], accepted: list[socket.socket]) -> None:
    client, _ = server.accept()
    accepted.append(client)
    if not client.recv(4096).endswith(b"\r\n\r\n"):
        client.close()
        return
    client.sendall(ACCEPTED)
    client.recv(4096)
    client.sendall(b"".join(answers))
