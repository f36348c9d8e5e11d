"""Writes lines to standard output without Python's buffer, so that a reader that stops reading can't keep the process
alive.
"""

import os
import select

from sowline.runtime.loop_thread import SIGNAL_SECONDS_MAX
from sowline.wire.server_message import one_line

WAITING_BYTES_MAX = 64 * 1024


class Output:
    """Lines of JSON that wait to be written together to a file descriptor; at the end of the process, the rest is
    dropped.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting = bytearray()

    def put(self, body: bytes) -> None:
        """Add JSON as a line; many lines are written together."""
        self._waiting += one_line(body)
        if len(self._waiting) > WAITING_BYTES_MAX:
            self.write()

    def write(self) -> None:
        """Write the waiting lines; raise whatever interrupts that, also while the output is not being read."""
        left, self._waiting = memoryview(self._waiting), bytearray()
        while left:
            left = left[self._write_some(left) :]

    def _write_some(self, text: memoryview) -> int:
        """Write as much as the output accepts; return how much that is, 0 if it accepts nothing for a moment."""
        # A writable pipe accepts this many bytes at once. A larger write could block, and a signal that another
        # thread receives would not end it (test_signal_while_the_pipe_is_full).
        _, writable, _ = select.select([], [self._descriptor], [], SIGNAL_SECONDS_MAX)
        return os.write(self._descriptor, text[: select.PIPE_BUF]) if writable else 0
