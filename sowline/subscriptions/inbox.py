"""The messages of a subscription that its subscriber has not taken yet: whole steps only. Pure."""

from collections import deque
from collections.abc import Iterable, Iterator

from sowline.wire.client_message import Message


class Inbox:
    """Messages in order. Those of a step can be taken once the step is whole."""

    def __init__(self) -> None:
        self.waiting: deque[Message] = deque()
        """The messages that can be taken."""
        self._unfinished: list[Message] = []
        self.is_in_step = False
        """Whether the subscriber has taken part of a step."""

    def __len__(self) -> int:
        return len(self.waiting)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.waiting)

    def add(self, messages: Iterable[Message], more: bool) -> None:
        """Add messages; with `more`, the next ones belong to the same step."""
        if more or self._unfinished:
            self._unfinished += messages
            if more:
                return
            messages, self._unfinished = self._unfinished, []
        assert not self._unfinished, "only whole steps can be taken"
        self.waiting.extend(messages)

    def insert(self, message: Message) -> None:
        """Add a message that belongs to no step, before a step that is not whole."""
        # Behind the step, it would be dropped with it when the connection is lost. The service sends the step again,
        # but not this message (test_a_message_of_no_step_comes_before_an_unfinished_one).
        self.waiting.append(message)

    def drop_unfinished(self) -> None:
        """Drop a step that is not whole: the service sends it again."""
        self._unfinished.clear()

    def drop(self) -> None:
        """Drop everything, except for the rest of a step of which the subscriber has taken part."""
        kept: deque[Message] = deque()
        # Without the rest, the subscriber would hold half of a step, a state that never was
        # (test_the_rest_of_a_step_is_kept).
        while self.is_in_step and self.waiting:
            kept.append(self.waiting.popleft())
            if not kept[-1].more:
                break
        self._unfinished.clear()
        self.waiting = kept
        assert self.is_in_step or not kept, "all that is kept is the rest of a step"

    def clear(self) -> None:
        """Drop everything."""
        self.waiting.clear()
        self._unfinished.clear()
        self.is_in_step = False
