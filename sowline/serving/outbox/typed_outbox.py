"""The outbox of a client, for its queries and subscriptions with `format=native`."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from sowline.serving.outbox.outbox import Outbox
from sowline.serving.typed_records.messages import TypedMessages


class TypedOutbox(Outbox):
    """Takes messages in JSON, and puts them into the outbox of the client as binary frames.

    All typed subscriptions of a client have the same one. So they share messages with each other, and none with
    subscriptions that get JSON.
    """

    __slots__ = ("_outbox", "_typed")

    is_typed = True

    def __init__(self, outbox: Outbox, messages: TypedMessages) -> None:
        """Note in the client's outbox that some of its messages are binary from now on."""
        self._outbox = outbox
        self._typed = messages
        # Or its frames would be sent as texts, which they are not (test_what_has_no_record_stays_as_it_is).
        outbox.has_binary = True

    @property
    def unsent_bytes(self) -> int:
        """Bytes of the messages that wait for the client or for the end of a group."""
        return self._outbox.unsent_bytes

    @property
    def bytes_max(self) -> int:
        """Bytes that may wait for the client."""
        return self._outbox.bytes_max

    @property
    def full(self) -> bool:
        """Whether the client is slower than what is sent to it."""
        return self._outbox.full

    @property
    def has_turn(self) -> bool:
        """Whether a message outside of a group may be put without a wait."""
        return self._outbox.has_turn

    @property
    def is_blocked(self) -> bool:
        """Whether it was filled, and its client has not read half of it since."""
        return self._outbox.is_blocked

    def put(self, message: bytes, of: Iterable[str] = ()) -> None:
        """Put an acknowledgement or a heartbeat, which is JSON."""
        self._outbox.put(message, of)

    def put_behind(self, message: bytes, of: Iterable[str]) -> None:
        """Put a message of subscriptions after a group that is open."""
        self._outbox.put_behind(self._typed.of(message), of)

    def put_all_behind(self, messages: list[bytes], of: Sequence[Iterable[str]]) -> None:
        """Put messages of subscriptions after a group that is open."""
        self._outbox.put_all_behind([self._typed.of(message) for message in messages], of)

    def put_in_group(self, message: bytes) -> None:
        """Put a message of the group that is being sent."""
        self._outbox.put_in_group(self._typed.of(message))

    @asynccontextmanager
    async def group(self) -> AsyncIterator[None]:
        """Wait until no other group is being sent to the client, and end the group after the block."""
        async with self._outbox.group():
            yield

    async def wait_drained(self) -> None:
        """Wait until a filled outbox is half empty."""
        await self._outbox.wait_drained()

    async def wait_turn(self) -> None:
        """Wait until a filled outbox is half empty and no group is open."""
        await self._outbox.wait_turn()

    async def wait_room(self) -> None:
        """Wait until there is room for the answers to more commands."""
        await self._outbox.wait_room()
