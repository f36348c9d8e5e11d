"""The order of one connection's messages: nothing comes between the begin and the end of a group. Pure.

Messages of subscriptions and answers to other queries wait while a group is open. Acknowledgements and heartbeats
pass it, but never a message of the same subscription.
"""

from collections import deque
from collections.abc import Iterable


class MessageOrder:
    """Messages that are ready to be sent, in order, and messages that wait for the end of the open group."""

    def __init__(self) -> None:
        self.ready: deque[bytes] = deque()
        self._waiting: deque[bytes] = deque()
        self._waiting_of: set[str] = set()
        """The subscriptions and queries of which something waits."""
        self.ready_bytes = 0
        self.waiting_bytes = 0
        self.is_open = False
        """Whether a group has begun and not ended."""

    def put(self, message: bytes, of: Iterable[str] = ()) -> None:
        """Put an acknowledgement or a heartbeat; `of` are the subscriptions or queries that it is about."""
        if self._waiting_of and not self._waiting_of.isdisjoint(of):
            self._wait(message, of)
        else:
            self._send(message)

    def put_behind(self, message: bytes, of: Iterable[str]) -> None:
        """Put a message of subscriptions, or an answer: behind the group, if one is open."""
        if self.is_open:
            self._wait(message, of)
        else:
            self._send(message)

    def put_in_group(self, message: bytes) -> None:
        """Put a message of the group, which is open from then on."""
        self.is_open = True
        self._send(message)

    def end_group(self) -> None:
        """Let what has waited for the end of the group be sent."""
        self.is_open = False
        self.ready.extend(self._waiting)
        self.ready_bytes += self.waiting_bytes
        self._waiting.clear()
        self._waiting_of.clear()
        self.waiting_bytes = 0

    def pop(self) -> bytes:
        """Take the next message that is ready; there must be one."""
        message = self.ready.popleft()
        self.ready_bytes -= len(message)
        return message

    def _send(self, message: bytes) -> None:
        self.ready.append(message)
        self.ready_bytes += len(message)

    def _wait(self, message: bytes, of: Iterable[str]) -> None:
        self._waiting.append(message)
        self._waiting_of.update(of)
        self.waiting_bytes += len(message)
