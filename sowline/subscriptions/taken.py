"""The messages that the subscriber of a query or subscription has taken, and those that wait for it. Pure."""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

import msgspec

from sowline.subscriptions.ask import Ask
from sowline.subscriptions.inbox import Inbox
from sowline.subscriptions.position_tracker import PositionTracker
from sowline.wire.client_message import Message


class Holding(Enum):
    """The part of a group or of the changes that the subscriber has taken."""

    NOTHING = "nothing"
    PART = "part"
    """Part of a group, or the whole group of a request that was replaced since."""
    WHOLE = "whole"
    """All records at a position, from which the subscription can resume."""
    VOID = "void"
    """Records that are no longer valid, until the next group has ended."""
    RENEWED = "renewed"
    """The same, and the next group was requested: it replaces everything."""


class ServedRequest(NamedTuple):
    """A request, and the number of replacements by the service before it."""

    replacements: int
    ask: Ask


class Taken:
    """The messages that came, in order, and how far its subscriber has taken them."""

    def __init__(self, ask: Ask) -> None:
        self.served = ServedRequest(0, ask)
        """The request that the service serves."""
        self.shown: ServedRequest | None = None
        """The request whose whole group the subscriber has taken."""
        self.holding = Holding.NOTHING
        self.inbox = Inbox()
        self.before_batch: PositionTracker | None = None
        """The position before the last batch of several messages; None if nothing could resume from it."""
        self._position = PositionTracker()
        self._groups_of_before = 0

    @property
    def bookmark(self) -> str | None:
        """The bookmark to resume from, after the last message that was taken. None until a group has ended."""
        return self._position.bookmark if self.is_whole else None

    @property
    def is_whole(self) -> bool:
        """Whether the subscription can resume from what was taken."""
        return self.holding is Holding.WHOLE

    @property
    def is_void(self) -> bool:
        """Whether what was taken is no longer valid."""
        return self.holding in (Holding.VOID, Holding.RENEWED)

    @property
    def begins_again(self) -> bool:
        """Whether the next request begins again, because the subscriber has not taken a whole group yet."""
        # The end of the earlier group waits. If the subscriber took it while the second one comes, it would continue
        # from there in the middle of that one (postponed_with_a_group_that_waits.jsonl).
        return self.holding in (Holding.NOTHING, Holding.PART)

    def end_bookmark(self) -> str:
        """Return the bookmark after the last message that waits."""
        position = self._position.copy()
        for message in self.inbox:
            position.note(message)
        return position.bookmark

    # what the service sends

    def begin_at(self, bookmark: str | None) -> None:
        """Begin at a bookmark, without a group."""
        assert not self.is_whole, "who holds the whole continues from there"
        self._position = PositionTracker(bookmark)
        self._become_whole()

    def replace(self, ask: Ask) -> None:
        """Note that the service has replaced the request. Waiting messages belong to the previous one."""
        self.served = ServedRequest(self.served.replacements + 1, ask)
        assert not ask.is_query, "a query is never replaced"
        if not ask.has_no_group:
            if self.is_whole:
                self.holding = Holding.PART
            # A group of the previous request may still wait: its end must not make the subscription whole, at records
            # that the new request does not have (test_a_replacement_has_a_group_of_its_own).
            self._groups_of_before = sum(message.command == "group_end" for message in self.inbox)
        elif not self.is_void:
            self._become_whole()

    def begin_group(self, messages: Iterable[Message]) -> Iterable[Message]:
        """Return the messages that begin a group; one that was requested because all was void replaces everything."""
        if self.holding is not Holding.RENEWED:
            return messages
        self.holding = Holding.VOID
        return [msgspec.structs.replace(message, reset=True) for message in messages]

    # without the service

    def drop_waiting(self, *, make_void: bool) -> None:
        """Drop what was not taken; with `make_void`, what was taken is no longer valid either."""
        self.inbox.drop()
        self._groups_of_before = 0
        if make_void:
            self.holding = Holding.VOID
            self.inbox.clear()

    def renew(self) -> None:
        """Note that a group was requested that replaces everything."""
        assert self.is_void, "a group that replaces everything follows what is void"
        self.holding = Holding.RENEWED

    # what the subscriber takes

    def take(self, messages_max: int) -> list[Message]:
        """Return the next messages, up to the next `group_end`; the position moves after them."""
        messages: list[Message] = []
        if messages_max > 1:
            self.before_batch = self._position.copy() if self.is_whole else None
        waiting, note = self.inbox.waiting, self._position.note
        while waiting:
            message = waiting[0]
            if message.is_silent:
                # It only moves the bookmark on: the subscriber does not get it.
                note(waiting.popleft())
                continue
            if len(messages) >= messages_max:
                break
            messages.append(waiting.popleft())
            note(message)
            if message.reset and self.holding is not Holding.RENEWED:
                self.holding = Holding.VOID
            if message.command == "group_end":
                self._note_group()
                break
        assert len(messages) <= messages_max, "a subscriber gets no more than it takes"
        if messages:
            self.inbox.is_in_step = messages[-1].more
            if self.holding is Holding.NOTHING:
                self.holding = Holding.PART
        return messages

    def _note_group(self) -> None:
        if self._groups_of_before:
            self._groups_of_before -= 1
            assert self._groups_of_before >= 0, "a count of groups is never negative"
        elif self.holding is not Holding.RENEWED:
            self._become_whole()

    def _become_whole(self) -> None:
        self.holding = Holding.WHOLE
        self.shown = self.served
