"""Whether a client may be sent changes."""

from sowline.serving.flag import Flag
from sowline.serving.outbox.outbox import Outbox


class ClientGate:
    """Whether a client may be sent changes: its subscription has begun, is not paused, and its outbox has room."""

    __slots__ = ("_going", "outbox")

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self._going = Flag()

    @property
    def is_open(self) -> bool:
        """Whether changes are sent, as far as there is room."""
        return self._going.is_set()

    def open(self) -> None:
        """Let changes pass."""
        self._going.set()

    def shut(self) -> None:
        """Let no more changes pass, from now on."""
        self._going.clear()

    async def wait_opened(self) -> None:
        """Wait until changes are sent, as far as there is room."""
        await self._going.wait()

    async def wait(self) -> None:
        """Wait until a message may be sent."""
        while True:
            await self._going.wait()
            # The client may pause while a message waits for room, so the flag counts again after the wait
            # (test_a_message_waits_for_room_and_for_the_client).
            await self.outbox.wait_turn()
            if self._going.is_set():
                return
