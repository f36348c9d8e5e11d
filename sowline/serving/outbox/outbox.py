"""The messages that wait for one client. It is bounded, because a sender can wait until it has drained."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

from sowline.serving.backlogs import Backlogs
from sowline.serving.flag import Flag
from sowline.serving.outbox.frame_batching import FrameBatching
from sowline.serving.outbox.message_order import MessageOrder

FRAME_MESSAGES_MAX = 200
FRAME_BYTES = 128 * 1024

WAITING_SHARES_MAX = 2
"""No more commands are read while more than this many times `bytes_max` waits for the end of a group."""


class Outbox:
    """The messages for one client, in the order in which they are sent.

    Above `bytes_max` it is full, and its subscriptions stop being live. The share of `backlogs` may lower that limit.
    Only one group is open at a time; until it ends, only acknowledgements and heartbeats are sent in between.
    """

    # Among thousands of clients an outbox has left the processor's cache when its next message arrives. The fewer
    # objects it consists of, the fewer must be fetched again.
    __slots__ = (
        "_backlogs",
        "_between_groups",
        "_bytes_max",
        "_counted",
        "_drained",
        "_filled",
        "_frame_batching",
        "_group",
        "_order",
        "_write",
        "has_binary",
        "sent",
        "sent_bytes",
    )

    is_typed = False
    """Whether it makes binary frames of messages with records, which takes time."""

    def __init__(
        self, bytes_max: int, frame_batching: FrameBatching | None = None, backlogs: Backlogs | None = None
    ) -> None:
        self._bytes_max = bytes_max
        self._backlogs = backlogs
        self._frame_batching = FrameBatching() if frame_batching is None else frame_batching
        self._order = MessageOrder()
        self._filled = Flag()
        self._write = self._filled.set
        self._drained = Flag(is_set=True)
        self._group = asyncio.Lock()
        """Held by the group that is being sent."""
        self.sent = 0
        """Messages taken for frames so far."""
        self.sent_bytes = 0
        """Bytes of these messages."""
        self._between_groups = Flag(is_set=True)
        self._counted = 0
        """Bytes that `backlogs` counts for this outbox."""
        self.has_binary = False
        """Whether some of its messages may be binary frames."""

    def written_by(self, write: Callable[[], None]) -> None:
        """Call `write` whenever messages wait in an outbox that was empty; it takes them with `take_now`.

        Without this, messages are taken with `take`.
        """
        self._write = write

    @property
    def unsent_bytes(self) -> int:
        """Bytes of the messages that wait for the client or for the end of a group."""
        return self._order.ready_bytes + self._order.waiting_bytes

    @property
    def bytes_max(self) -> int:
        """Bytes that may wait for the client."""
        own, backlogs = self._bytes_max, self._backlogs
        return own if backlogs is None or own < (share := backlogs.share) else share

    @property
    def is_blocked(self) -> bool:
        """Whether it was filled, and its client has not read half of it since: queries wait for that."""
        return not self._drained.is_set()

    @property
    def has_turn(self) -> bool:
        """Whether a message outside of a group may be put without a wait: `wait_turn` would return at once."""
        return self._drained.is_set() and not self._order.is_open

    @property
    def full(self) -> bool:
        """Whether the client is slower than what is sent to it."""
        return self.unsent_bytes > self.bytes_max

    def put(self, message: bytes, of: Iterable[str] = ()) -> None:
        """Put an acknowledgement or a heartbeat; `of` are the subscriptions or queries that it is about.

        It does not wait for the end of an open group, unless another message of these waits.
        """
        was_empty = self._order.ready is None
        self._order.put(message, of)
        self._note(was_empty=was_empty)

    def put_behind(self, message: bytes, of: Iterable[str]) -> None:
        """Put a message of these subscriptions, or an answer to these queries, after a group that is open."""
        was_empty = self._order.ready is None
        self._order.put_behind(message, of)
        self._note(was_empty=was_empty)

    def put_all_behind(self, messages: list[bytes], of: Sequence[Iterable[str]]) -> None:
        """Put messages as `put_behind` does; `of` has the subscriptions of each."""
        was_empty = self._order.ready is None
        self._order.put_all_behind(messages, of)
        self._note(was_empty=was_empty)

    def put_in_group(self, message: bytes) -> None:
        """Put a message of the group that is being sent."""
        was_empty = self._order.ready is None
        self._order.put_in_group(message)
        self._between_groups.clear()
        self._note(was_empty=was_empty)

    @contextlib.asynccontextmanager
    async def group(self) -> AsyncIterator[None]:
        """Wait until no other group is being sent, and end the group after the block.

        The caller puts its messages with `put_in_group`. If the block fails, the error message follows directly after
        the messages of the group.
        """
        await self._group.acquire()
        try:
            await self.wait_drained()
            yield
        except BaseException:
            # One turn later: the caller first puts the error, before the messages that waited for the group's end
            # (test_a_group_that_fails_ends_with_its_error).
            asyncio.get_running_loop().call_soon(self._end_group)
            raise
        self._end_group()

    def _end_group(self) -> None:
        assert self._group.locked(), "a group that ends was begun"
        was_empty = self._order.ready is None
        self._order.end_group()
        self._note(was_empty=was_empty)
        self._between_groups.set()
        self._group.release()

    def _note(self, *, was_empty: bool) -> None:
        """Wake the writer after the first message, and note whether the outbox is filled."""
        self._count()
        if was_empty and self._order.ready is not None:
            self._frame_batching.add(self._write)
        # Without the bytes that wait for the end of a group: a group that waited for them to drain would never end
        # (test_what_waits_for_the_end_of_a_group_does_not_hold_it_up).
        if self._order.ready_bytes > self.bytes_max:
            self._drained.clear()

    def _count(self) -> None:
        if self._backlogs is not None:
            now = self._order.ready_bytes + self._order.waiting_bytes
            self._backlogs.unsent_bytes += now - self._counted
            self._counted = now

    def close(self) -> None:
        """Note that its client has left: what waits for it no longer counts."""
        if self._backlogs is not None:
            self._backlogs.unsent_bytes -= self._counted
            assert self._backlogs.unsent_bytes >= 0, "what leaves was counted"
            # Tasks of the client may still put messages: counted now, they would stay in the sum forever
            # (test_what_is_put_after_the_client_has_left_does_not_count).
            self._backlogs = None

    async def take(self) -> list[bytes]:
        """Wait for messages, and return those for the next frame."""
        await self._filled.wait()
        taken = self.take_now()
        # Only then: what did not fit into this frame would wait until another message comes
        # (test_a_frame_has_a_largest_count_and_size).
        if self._order.ready is None:
            self._filled.clear()
        return taken

    def take_now(self) -> list[bytes]:
        """Return the messages for the next frame; none if none wait."""
        order = self._order
        if order.ready is None:
            return []
        waiting_bytes = order.ready_bytes
        taken = order.take(FRAME_MESSAGES_MAX, FRAME_BYTES)
        assert taken, "what is ready is taken"
        self.sent += len(taken)
        self.sent_bytes += waiting_bytes - order.ready_bytes
        self._count()
        # Half, so that one wait is for many messages: just below the limit, each frame would wake all senders
        # (test_a_full_outbox_has_drained_once_it_is_half_empty).
        if not self._drained.is_set() and order.ready_bytes <= self.bytes_max // 2:
            self._drained.set()
        return taken

    async def wait_drained(self) -> None:
        """Wait until a filled outbox is half empty; return at once if it was not filled."""
        await self._drained.wait()

    async def wait_turn(self) -> None:
        """Wait, before a message outside of a group, until a filled outbox is half empty and no group is open."""
        await self._drained.wait()
        # Again after each wait: the next group may have started, or the outbox may be filled again.
        while self._order.is_open:
            await self._between_groups.wait()
            await self._drained.wait()

    async def wait_room(self) -> None:
        """Wait until there is room for the answers to more commands, which may be about an open group."""
        await self._drained.wait()
        while self._order.is_open and self._order.waiting_bytes > WAITING_SHARES_MAX * self.bytes_max:
            await self._between_groups.wait()
            await self._drained.wait()
