"""The replacements of a subscription that its service has not answered yet, in their order. Pure."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Sending(Enum):
    """Whether a replacement was sent."""

    DUE = "due"
    DONE = "done"
    POSTPONED = "postponed"


@dataclass
class Replacement:
    """A replacement that the service has not answered yet."""

    number: int
    changes: Mapping[str, Any]
    is_paused: bool
    """Whether it begins paused: by its own options, or because its subscriber has paused since."""
    sending: Sending = Sending.DUE


class Replacements:
    """The replacements, sent one by one: each after the answer to the previous one."""

    def __init__(self) -> None:
        self._waiting: deque[Replacement] = deque()
        self._numbered = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def sent(self) -> Replacement | None:
        """The replacement that was sent, and whose answer is due."""
        return self._first(Sending.DONE)

    def is_sent(self, number: int) -> bool:
        """Whether the replacement with this number was sent, and its answer is due."""
        return (sent := self.sent) is not None and sent.number == number

    def add(self, changes: Mapping[str, Any], *, is_paused: bool) -> None:
        """Add a replacement, with the next number."""
        self._numbered += 1
        self._waiting.append(Replacement(self._numbered, changes, is_paused))
        assert self._waiting[0].number + len(self._waiting) - 1 == self._numbered, "numbers follow each other"

    def pause(self, *, is_paused: bool) -> None:
        """Note that the subscriber has paused or resumed since it asked for the replacements."""
        for replacement in self._waiting:
            replacement.is_paused = is_paused

    def send_next(self) -> Replacement | None:
        """Return the replacement to send now, if any."""
        if (due := self._first(Sending.DUE)) is not None:
            due.sending = Sending.DONE
        assert due is None or self.is_sent(due.number), "one replacement is on its way at a time"
        return due

    def postpone(self) -> None:
        """Note that the service could not serve the sent replacement: it is due `again` after a pause."""
        assert self.sent is not None, "only a replacement that was sent is postponed"
        self._waiting[0].sending = Sending.POSTPONED

    def again(self, number: int) -> None:
        """Let the replacement with this number be sent again, if it was postponed."""
        # The pause of an earlier one may end late: it must not shorten the pause of this one.
        if (first := self._first(Sending.POSTPONED)) is not None and first.number == number:
            first.sending = Sending.DUE

    def settle(self) -> None:
        """Remove the first one."""
        assert self.sent is not None, "only a replacement that was sent is answered"
        self._waiting.popleft()

    def detach(self) -> None:
        """Note that the service no longer has any of them."""
        for replacement in self._waiting:
            replacement.sending = Sending.DUE
        assert self.sent is None, "a service that is gone has no replacement"

    def _first(self, sending: Sending) -> Replacement | None:
        return self._waiting[0] if self._waiting and self._waiting[0].sending is sending else None
