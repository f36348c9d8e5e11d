"""Messages that an iterator has taken together, and the position after each of them. Pure."""

from sowline.subscriptions.position_tracker import PositionTracker
from sowline.wire.client_message import Message


class TakenBatch:
    """Messages that were taken together, and the position after each of them."""

    def __init__(self, messages: list[Message], before: PositionTracker | None) -> None:
        self.messages = messages
        self._position = before
        self._noted = 0

    def bookmark_after(self, count: int) -> str | None:
        """Return the bookmark after the first `count` messages; None if nothing could resume from it."""
        for message in self.messages[self._noted : count]:
            self._noted += 1
            if message.reset:
                self._position = None
            elif self._position is not None:
                self._position.note(message)
        return None if self._position is None else self._position.bookmark
