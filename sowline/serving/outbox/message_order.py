"""The order of one connection's messages: keeps the messages of a group together. Pure.

Messages of subscriptions and answers to other queries wait while a group is open. Acknowledgements and heartbeats do
not wait, unless a message of the same subscription or query waits.
"""

from collections.abc import Iterable, Sequence


class MessageOrder:
    """Messages that are ready to be sent, in order, and messages that wait for the end of the open group."""

    __slots__ = ("_waiting", "_waiting_of", "is_open", "ready", "ready_bytes", "waiting_bytes")

    def __init__(self) -> None:
        self.ready: list[bytes] | None = None
        """The messages to send, the oldest first; None if there are none."""
        self._waiting: list[bytes] | None = None
        self._waiting_of: set[str] | None = None
        """The subscriptions and queries with waiting messages."""
        self.ready_bytes = 0
        self.waiting_bytes = 0
        self.is_open = False
        """Whether a group is open."""

    def put(self, message: bytes, of: Iterable[str] = ()) -> None:
        """Put an acknowledgement or a heartbeat; `of` are the subscriptions or queries that it is about."""
        # A change of subscription s waits for the end of a group; s ends. Its acknowledgement must not overtake the
        # change: the client would get a message of a subscription that it has ended
        # (test_an_acknowledgement_passes_a_group_of_which_nothing_waits).
        if self._waiting_of is not None and not self._waiting_of.isdisjoint(of):
            self._hold_back(message, of)
        else:
            self._send(message)

    def put_behind(self, message: bytes, of: Iterable[str]) -> None:
        """Put a message of subscriptions, or an answer; if a group is open, it waits for the end of the group."""
        if self.is_open:
            self._hold_back(message, of)
        else:
            self._send(message)

    def put_all_behind(self, messages: list[bytes], of: Sequence[Iterable[str]]) -> None:
        """Put messages as `put_behind` does; `of` has the subscriptions of each."""
        if self.is_open:
            for message, names in zip(messages, of, strict=True):
                self._hold_back(message, names)
            return
        assert len(of) == len(messages), "each message is for some subscriptions"
        if self.ready is None:
            # A copy: what comes later is put into it (test_the_list_of_a_caller_stays_as_it_is).
            self.ready = list(messages)
        else:
            self.ready += messages
        self.ready_bytes += sum(map(len, messages))

    def put_in_group(self, message: bytes) -> None:
        """Put a message of a group; the group is then open."""
        self.is_open = True
        self._send(message)

    def end_group(self) -> None:
        """Close the group; the messages that waited are ready to be sent."""
        self.is_open = False
        for message in self._waiting or ():
            self._send(message)
        assert (self._waiting is None) is (self.waiting_bytes == 0), "the bytes are those of what waits"
        self._waiting = self._waiting_of = None
        self.waiting_bytes = 0

    def take(self, messages_max: int, bytes_max: int) -> list[bytes]:
        """Remove and return the next ready messages: up to these numbers of messages and bytes."""
        ready = self.ready
        if ready is None:
            return []
        if len(ready) <= messages_max and self.ready_bytes <= bytes_max:
            self.ready, self.ready_bytes = None, 0
            return ready
        count = size = 0
        # The last message may exceed the limit: one that is larger by itself would never be sent
        # (test_a_message_larger_than_a_frame_goes_by_itself).
        while count < min(len(ready), messages_max) and size < bytes_max:
            size += len(ready[count])
            count += 1
        # Not an empty list: the next message would not be taken for the first, and nobody would send it
        # (test_a_frame_may_take_the_last_message_beyond_its_size).
        self.ready = ready[count:] or None
        self.ready_bytes -= size
        assert count > 0, "a frame takes one message at least"
        assert (self.ready is None) is (self.ready_bytes == 0), "the bytes are those of what is left"
        return ready[:count]

    def _send(self, message: bytes) -> None:
        if self.ready is None:
            self.ready = [message]
        else:
            self.ready.append(message)
        self.ready_bytes += len(message)

    def _hold_back(self, message: bytes, of: Iterable[str]) -> None:
        if self._waiting is None or self._waiting_of is None:
            self._waiting, self._waiting_of = [], set()
        assert self.is_open, "only during a group a message waits"
        self._waiting.append(message)
        self._waiting_of.update(of)
        self.waiting_bytes += len(message)
