"""The machine that leads a subscription or query through its lifecycle, for its subscriber: events in, actions out.

It knows no connection, no clock and no event loop. The code that runs it translates frames, pauses and calls into
events, and carries out the actions in their order. A client runs one over its connection; a service that subscribes
at another service can do the same.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from sowline.errors import SowlineError
from sowline.subscriptions.ask import Ask
from sowline.subscriptions.inbox import Inbox
from sowline.subscriptions.lifecycle import (
    LEGAL,
    Accepted,
    Action,
    Again,
    Answer,
    Arrived,
    AskLater,
    ConnectionMade,
    Event,
    Fail,
    Give,
    Holding,
    NotProven,
    NotReplaced,
    Over,
    Refused,
    Replace,
    ReplaceBy,
    Replaced,
    Send,
    SendAsk,
    Settled,
    Signal,
    Started,
    State,
    Take,
    read_event,
    written,
)
from sowline.subscriptions.position_tracker import PositionTracker
from sowline.subscriptions.table import Legal
from sowline.wire.client_message import Message

PAUSE, RESUME, PROVE, LEAVE = "pause", "resume", "prove", "leave"
"""What `Send` sends."""

RECORDED_MAX = 1000
"""The last events that a machine with a record keeps."""

_ACCEPTED = (State.SNAPSHOT, State.CATCHING_UP, State.LIVE)
_SERVED = (State.ASKED, *_ACCEPTED)
_UNANSWERED = (State.UNSENT, State.ASKED, State.POSTPONED, State.SNAPSHOT)
_IS_VOID = (Holding.VOID, Holding.RENEWED)


class ShownGroup(NamedTuple):
    """The request whose whole group the subscriber has taken, and the number of replacements before it."""

    replacements: int
    ask: Ask


class Sending(Enum):
    """How far the sending of a replacement is."""

    DUE = "due"
    DONE = "done"
    POSTPONED = "postponed"


@dataclass
class Replacement:
    """A replacement that the service has not answered yet."""

    number: int
    changes: Mapping[str, Any]
    sending: Sending = Sending.DUE


class ClientMachine:
    """One subscription or query; `handle` is the only way to change it.

    After a lost connection, a subscription resumes after the last message that its subscriber has taken. A query that
    has given messages fails with `disconnected`; one that has given none is sent again.

    If the connection is lost before the service has answered a replacement, the old subscription resumes and is
    replaced then. If it is lost before the subscriber has taken the new group, or within a group that replaces
    everything it holds, the subscription starts with a whole group: there is no position to continue from.
    """

    def __init__(self, ask: Ask, *, record: bool = False) -> None:
        self.ask = ask
        """The request that the service serves."""
        self.state = State.UNSENT
        self.holding = Holding.NOTHING
        self.inbox = Inbox()
        self.is_paused = ask.is_paused
        """Whether the subscriber wants no messages for now."""
        self.is_held = False
        """Whether the service was paused because too many messages wait."""
        self.wants_proof = False
        """Whether a checksum was requested, and did not come yet."""
        self.replacements = 0
        """The number of replacements by the service."""
        self.shown: ShownGroup | None = None
        self.error: SowlineError | None = None
        self._end = ""
        self._position = PositionTracker()
        self._pending: deque[Replacement] = deque()
        self._numbered = 0
        self._groups_of_before = 0
        self._record: deque[Event] | None = deque(maxlen=RECORDED_MAX) if record else None

    # what it is asked

    @property
    def bookmark(self) -> str | None:
        """The bookmark to resume from, after the last message that was taken. None until a group has ended."""
        return self._position.bookmark if self.holding is Holding.WHOLE else None

    @property
    def is_over(self) -> bool:
        """Whether the service sends nothing more."""
        return self.state in (State.ENDED, State.FAILED)

    @property
    def is_being_replaced(self) -> bool:
        """Whether a replacement has no answer yet."""
        return bool(self._pending)

    @property
    def is_owed(self) -> bool:
        """Whether an answer is expected, for which its subscriber may wait before it takes messages."""
        # Who holds the whole already waits for no answer, however long its service is away: the other streams of its
        # client keep their limit (test_who_holds_the_whole_is_owed_nothing).
        is_awaited = self.state in _UNANSWERED and self.holding is not Holding.WHOLE
        return not self.is_over and (is_awaited or bool(self._pending) or self.wants_proof)

    @property
    def recorded(self) -> list[Any]:
        """The last events as `replayed` takes them; empty without a record."""
        return list(self._record or ())

    def __repr__(self) -> str:
        about = f"<{type(self).__name__} {self.state.value}, holds {self.holding.value}, at {self.bookmark}"
        return "\n  ".join([about, *(msgspec.json.encode(line).decode() for line in self.recorded)]) + ">"

    # what happens

    def handle(self, event: Event) -> list[Action]:
        """Take an event, and return what to do about it.

        A message or answer that is not legal ends the subscription with `bad message`. Any other event that is not
        legal changes nothing, and raises why.
        """
        if self._record is not None:
            # As it is written down, without bodies: a record of a thousand batches would hold all of their records.
            self._record.append(written(event))
        row = event.row
        if row not in LEGAL:
            return self._refuse(event)
        match LEGAL[row][self.state]:
            case Legal.ACTS:
                return _EFFECTS[row](self, event)
            case Legal.IS_PASSED_OVER:
                return []
        return self._refuse(event)

    def _refuse(self, event: Event) -> list[Action]:
        legal = ", ".join(row for row, states in LEGAL.items() if states[self.state] is Legal.ACTS)
        got = f"expected one of {legal} while it is {self.state.value}, got {event.row}"
        if isinstance(event, Answer) or event is Signal.COMPLETED:
            return [*self._sent(LEAVE), *self._come_to_end(SowlineError("bad message", got))]
        if isinstance(event, Replace):
            raise self.error or SowlineError("disconnected", "expected a subscription that has not ended")
        raise SowlineError("internal", got)

    # the connection

    def _connect(self, event: ConnectionMade) -> list[Action]:
        """Drop the messages that were not taken, and resume."""
        if self.ask.is_query and self.holding is not Holding.NOTHING:
            lost = "the connection was lost while the query ran; run it again"
            return self._come_to_end(SowlineError("disconnected", lost))
        self.inbox.drop()
        self._groups_of_before = 0
        self._detach()
        has_begun = self.holding is Holding.WHOLE or bool(self.ask.bookmark)
        if event.rights_changed and has_begun and not self.ask.is_query:
            self.holding = Holding.VOID
            self.inbox.clear()
        return self._begin()

    def _lose(self, _: Signal) -> list[Action]:
        self.state = State.UNSENT
        return []

    def _fail(self, event: Fail) -> list[Action]:
        return self._come_to_end(SowlineError(event.reason, event.message))

    def _detach(self) -> None:
        """Forget what the service had of it."""
        self.is_held = False
        self.inbox.drop_unfinished()
        for replacement in self._pending:
            replacement.sending = Sending.DUE

    def _begin(self) -> list[Action]:
        self.state = State.ASKED
        return [SendAsk(self._going_on()), *(self._sent(PROVE) if self.wants_proof else ())]

    def _going_on(self) -> Ask:
        """Return the request that continues after the last message that was taken, or that waits."""
        if self.ask.is_query:
            return self.ask
        ask = self.ask.paused(self.is_paused)
        if self.holding in _IS_VOID:
            self.holding = Holding.RENEWED
            return ask.afresh(self._end)
        if self.holding is not Holding.WHOLE:
            return ask
        position = self._position.copy()
        for message in self.inbox:
            position.note(message)
        return ask.going_on(position.bookmark, self._end)

    def _ask_again(self, event: Again) -> list[Action]:
        if self.state is State.POSTPONED:
            return [] if event.number else self._begin()
        if self._is_next(event.number, Sending.POSTPONED):
            self._pending[0].sending = Sending.DUE
        return self._next_replacement()

    # what the service answers

    def _accept(self, event: Accepted) -> list[Action]:
        self._end = event.end or self._end
        if self.holding is not Holding.WHOLE and (self.holding in _IS_VOID or not self.ask.has_no_group):
            self.state = State.SNAPSHOT
        else:
            if self.holding is not Holding.WHOLE:
                self._position = PositionTracker(event.bookmark)
                self._become_whole()
            # One that has an end is completed only there.
            self.state = State.LIVE if self.ask.has_end else State.CATCHING_UP
        return [Started(), *self._next_replacement()]

    def _end_or_postpone(self, event: Refused | NotReplaced) -> list[Action]:
        if not self._is_passing(event.reason):
            return self._come_to_end(SowlineError(event.reason, event.message))
        self._detach()
        self.state = State.POSTPONED
        return [AskLater(0)]

    def _is_passing(self, reason: str) -> bool:
        """Whether a refusal is for now: the service is loading or behind the bookmark, or lacks a shard."""
        match reason:
            case "not ready":
                return True
            case "behind":
                return self.holding is Holding.WHOLE
            case "shard unavailable":
                # Unlike a query, a subscription continues from what was taken.
                return not self.ask.is_query
        return False

    def _become_replaced(self, event: Replaced) -> list[Action]:
        """Continue as the request that the service has accepted. Waiting messages belong to the previous one."""
        if not self._is_next(event.number, Sending.DONE):
            return self._refuse(event)
        self.ask = self.ask.replaced(self._pending.popleft().changes)
        self.is_paused, self.is_held = self.ask.is_paused, False
        self.replacements += 1
        if not self.ask.has_no_group:
            self.state = State.SNAPSHOT
            if self.holding is Holding.WHOLE:
                self.holding = Holding.PART
            self._groups_of_before = sum(message.command == "group_end" for message in self.inbox)
        elif self.holding not in _IS_VOID:
            self._become_whole()
        return [Settled(), *self._next_replacement()]

    def _keep_request(self, event: NotReplaced) -> list[Action]:
        """Settle a replacement that is refused at once; a later refusal is one of the subscription."""
        if event.ends or not self._is_next(event.number, Sending.DONE):
            return self._end_or_postpone(event)
        if self._is_passing(event.reason):
            self._pending[0].sending = Sending.POSTPONED
            return [AskLater(event.number)]
        self._pending.popleft()
        return [Settled(SowlineError(event.reason, event.message)), *self._next_replacement()]

    def _is_next(self, number: int, sending: Sending) -> bool:
        return bool(self._pending) and (self._pending[0].number, self._pending[0].sending) == (
            number,
            sending,
        )

    def _next_replacement(self) -> list[Action]:
        """Send the next replacement, if the service has the subscription that it is for."""
        if self.state not in _ACCEPTED or not self._pending or self._pending[0].sending is not Sending.DUE:
            return []
        replacement = self._pending[0]
        replacement.sending = Sending.DONE
        return [ReplaceBy(replacement.number, self.ask.replaced(replacement.changes))]

    def _note_no_proof(self, event: NotProven) -> list[Action]:
        if self.wants_proof:
            self.wants_proof = False
            self.inbox.insert(Message("progress", reason=event.reason, hash=""))
        return []

    def _complete(self, _: Signal) -> list[Action]:
        if self.ask.is_query or self.ask.has_end:
            return self._come_to_end()
        if self.state is State.CATCHING_UP:
            self.state = State.LIVE
        return []

    def _come_to_end(self, error: SowlineError | None = None) -> list[Action]:
        self.state = State.ENDED if error is None else State.FAILED
        self.error = error
        gone = error or SowlineError("disconnected", "the subscription was ended before it was replaced")
        settled = [Settled(gone)] * len(self._pending)
        self._pending.clear()
        return [*settled, Over(error)]

    # messages

    def _take_in(self, event: Arrived) -> list[Action]:
        messages: Iterable[Message] = event.messages
        if event.command == "group_begin":
            self.state = State.SNAPSHOT
            if self.holding is Holding.RENEWED:
                self.holding = Holding.VOID
                messages = [msgspec.structs.replace(message, reset=True) for message in messages]
        elif event.command == "group_end":
            self.state = State.LIVE
        elif event.command == "progress":
            self.wants_proof = self.wants_proof and not any(message.hash for message in messages)
        self.inbox.add(messages, event.more)
        return []

    def _give(self, event: Take) -> list[Action]:
        messages: list[Message] = []
        self._pass_silent()
        while self.inbox and len(messages) < event.limit:
            message = self.inbox.next()
            messages.append(message)
            self._position.note(message)
            if message.reset and self.holding is not Holding.RENEWED:
                self.holding = Holding.VOID
            if message.command == "group_end":
                self._note_group()
                break
            self._pass_silent()
        if not messages:
            return []
        if self.holding is Holding.NOTHING:
            self.holding = Holding.PART
        return [Give(messages)]

    def _pass_silent(self) -> None:
        """Move past messages that the subscriber does not get: they only move the bookmark on."""
        while (message := self.inbox.next_silent()) is not None:
            self._position.note(message)

    def _note_group(self) -> None:
        if self._groups_of_before:
            self._groups_of_before -= 1
        elif self.holding is not Holding.RENEWED:
            self._become_whole()

    def _become_whole(self) -> None:
        self.holding = Holding.WHOLE
        self.shown = ShownGroup(self.replacements, self.ask)

    # what the subscriber wants

    def _note_replacement(self, event: Replace) -> list[Action]:
        self._numbered += 1
        self._pending.append(Replacement(self._numbered, event.changes))
        return self._next_replacement()

    def _pause(self, event: Signal) -> list[Action]:
        self.is_paused = event is Signal.PAUSE
        return [] if self.is_held else self._sent(PAUSE if self.is_paused else RESUME)

    def _hold(self, event: Signal) -> list[Action]:
        """Pause the service, unless the subscriber has."""
        is_held = event is Signal.HOLD
        if is_held is self.is_held or self.ask.is_query:
            return []
        self.is_held = is_held
        return [] if self.is_paused else self._sent(PAUSE if is_held else RESUME)

    def _prove(self, _: Signal) -> list[Action]:
        self.wants_proof = True
        return self._sent(PROVE)

    def _leave(self, _: Signal) -> list[Action]:
        self.inbox.clear()
        return [] if self.is_over else [*self._sent(LEAVE), *self._come_to_end()]

    def _sent(self, what: str) -> list[Action]:
        """Send a command about the subscription. Without a connection, the next request says the same."""
        return [Send(what)] if self.state in _SERVED else []


_Effect = Callable[[ClientMachine, Any], list[Action]]

_EFFECTS: Mapping[str, _Effect] = {
    "connected": ClientMachine._connect,
    "lost": ClientMachine._lose,
    "again": ClientMachine._ask_again,
    "fail": ClientMachine._fail,
    "accepted": ClientMachine._accept,
    "refused": ClientMachine._end_or_postpone,
    "replaced": ClientMachine._become_replaced,
    "not_replaced": ClientMachine._keep_request,
    "not_proven": ClientMachine._note_no_proof,
    "completed": ClientMachine._complete,
    **dict.fromkeys(
        ("group_begin", "sow", "group_end", "publish", "oof", "progress"), ClientMachine._take_in
    ),
    "take": ClientMachine._give,
    "replace": ClientMachine._note_replacement,
    **dict.fromkeys(("pause", "unpause"), ClientMachine._pause),
    **dict.fromkeys(("hold", "release"), ClientMachine._hold),
    "prove": ClientMachine._prove,
    "leave": ClientMachine._leave,
}


def replayed(ask: Ask, lines: Iterable[Any]) -> ClientMachine:
    """Return a machine that has handled the events of a record."""
    machine = ClientMachine(ask)
    for line in lines:
        machine.handle(read_event(line))
    return machine
