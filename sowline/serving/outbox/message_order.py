"""The order of one connection's messages: keeps the messages of a group together. Pure.

Messages of subscriptions and answers to other queries wait while a group is open. Acknowledgements and heartbeats do
not wait, unless a message of the same subscription or query waits.
"""

from collections import deque
from collections.abc import Iterable


class MessageOrder:
    """Messages that are ready to be sent, in order, and messages that wait for the end of the open group."""

    def __init__(self) -> None:
        self.ready: deque[bytes] = deque()
        self._waiting: deque[bytes] = deque()
        self._waiting_of: set[str] = set()
        """The subscriptions and queries with waiting messages."""
        self.ready_bytes = 0
        self.waiting_bytes = 0
        self.is_open = False
        """Whether a group is open."""

    def put(self, message: bytes, of: Iterable[str] = ()) -> None:
        """Put an acknowledgement or a heartbeat; `of` are the subscriptions or queries that it is about."""
        # A change of subscription s waits for the end of a group; s ends. Its acknowledgement must not overtake the
        # change: the client would get a message of a subscription that it has ended.
        if self._waiting_of and not self._waiting_of.isdisjoint(of):
            self._wait(message, of)
        else:
            self._send(message)

    def put_behind(self, message: bytes, of: Iterable[str]) -> None:
        """Put a message of subscriptions, or an answer; if a group is open, it waits for the end of the group."""
        if self.is_open:
            self._wait(message, of)
        else:
            self._send(message)

    def put_in_group(self, message: bytes) -> None:
        """Put a message of a group; the group is then open."""
        self.is_open = True
        self._send(message)

    def end_group(self) -> None:
        """Close the group; the messages that waited are ready to be sent."""
        self.is_open = False
        self.ready.extend(self._waiting)
        self.ready_bytes += self.waiting_bytes
        self._waiting.clear()
        self._waiting_of.clear()
        self.waiting_bytes = 0

    def pop(self) -> bytes:
        """Remove and return the next ready message; there must be one."""
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
