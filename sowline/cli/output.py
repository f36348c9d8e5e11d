"""Lines for standard output, past Python's own buffer: who reads no more of them keeps no process from ending."""

import os
import select

from sowline.protocol.server_message import one_line
from sowline.runtime.loop_thread import SIGNAL_SECONDS_MAX

WAITING_BYTES_MAX = 64 * 1024


class Output:
    """Lines of JSON that wait to be written together to a file descriptor; what waits at the end is not written."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting = bytearray()

    def put(self, body: bytes) -> None:
        """Put JSON as a line behind the others; they are written where they are many."""
        self._waiting += one_line(body)
        if len(self._waiting) > WAITING_BYTES_MAX:
            self.write()

    def write(self) -> None:
        """Write what waits; raises what interrupts that, also while nobody reads."""
        left, self._waiting = memoryview(self._waiting), bytearray()
        while left:
            left = left[self._write_some(left) :]

    def _write_some(self, text: memoryview) -> int:
        """Write as much as there is room for; return how much that is, 0 after a moment without any."""
        _, writable, _ = select.select([], [self._descriptor], [], SIGNAL_SECONDS_MAX)
        return os.write(self._descriptor, text[: select.PIPE_BUF]) if writable else 0
