"""Lines for standard output."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from types import FrameType

import pytest

from sowline.cli.output import WAITING_BYTES_MAX, Output


class Interrupted(Exception):
    """What the signal raises."""


class Pipe:
    """A pipe; reading it waits for nothing."""

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)

    def read(self) -> bytes:
        """Return what there is to read."""
        try:
            return os.read(self._reading, WAITING_BYTES_MAX)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        """Close both ends."""
        os.close(self._reading)
        os.close(self.writing)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """A pipe, closed behind the test."""
    with closing(Pipe()) as made:
        yield made


def test_lines_are_written_together(pipe: Pipe) -> None:
    """They wait until they are to be written; each is one line, and is written once."""
    output = Output(pipe.writing)
    output.put(b'{"a":1}')
    output.put(b'{\n"a": 2\r\n}')
    assert pipe.read() == b""
    output.write()
    assert pipe.read() == b'{"a":1}\n{ "a": 2  }\n'
    output.write()
    assert pipe.read() == b""


def test_many_lines_do_not_wait(pipe: Pipe) -> None:
    """Lines that are many are written as they come, at the pace at which they are read."""
    output, read = Output(pipe.writing), bytearray()
    lines = [b'{"number":%06d}' % number for number in range(20_000)]
    text = b"".join(line + b"\n" for line in lines)

    def put_all() -> None:
        for line in lines:
            output.put(line)

    putting = threading.Thread(target=put_all)
    putting.start()
    while putting.is_alive():
        read += pipe.read()
    read += pipe.read()
    assert len(text) - WAITING_BYTES_MAX - len(lines[0]) <= len(read) < len(text)
    output.write()
    assert read + pipe.read() == text


def test_signal_while_the_pipe_is_full(pipe: Pipe) -> None:
    """It ends the wait for a reader, also where another thread was given it."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    output, before = Output(pipe.writing), signal.signal(signal.SIGUSR1, interrupt)
    os.write(pipe.writing, b"x" * 65_536)
    output.put(b"1")
    thread = threading.Timer(0.05, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGUSR1))
    thread.start()
    try:
        with pytest.raises(Interrupted):
            output.write()
    finally:
        signal.signal(signal.SIGUSR1, before)
