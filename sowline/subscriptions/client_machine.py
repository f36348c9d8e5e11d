"""The machine that leads a subscription or query through its lifecycle, for its subscriber: events in, actions out.

It knows no connection, no clock and no event loop. The code that runs it translates frames, pauses and calls into
events, and carries out the actions in their order. A client runs one over its connection; a service that subscribes
at another service can do the same.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sowline.errors import SowlineError
from sowline.subscriptions.ask import Ask
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
    NotProven,
    NotReplaced,
    Over,
    Proving,
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
)
from sowline.subscriptions.machine import Machine
from sowline.subscriptions.replacements import Replacements
from sowline.subscriptions.taken import Holding, Taken
from sowline.wire.client_message import Message

PAUSE, RESUME, PROVE, LEAVE = "pause", "resume", "prove", "leave"
"""The command that `Send` sends."""

_ACCEPTED = (State.SNAPSHOT, State.CATCHING_UP, State.LIVE)
_SERVED = (State.ASKED, *_ACCEPTED)
_LACKED = (Proving.WANTED, Proving.ASKED)
_UNANSWERED = (State.UNSENT, State.ASKED, State.LEAVING, State.POSTPONED, State.SNAPSHOT)


class ClientMachine(Machine[State, Event, Action]):
    """One subscription or query.

    After a lost connection, a subscription resumes after the last message that its subscriber has taken. A query that
    has given messages fails with `disconnected`; one that has given none is sent again.

    If the connection is lost before the service has answered a replacement, the old subscription resumes and is
    replaced then. If it is lost before the subscriber has taken the new group, or within a group that replaces
    everything it holds, the subscription starts with a whole group: there is no position to continue from.

    A service takes a replacement that arrives after the end of its subscription for a new subscription. So the
    machine leaves whenever the service ends the subscription while a replacement is on its way. To ask again, it
    waits for the answer to that. A service refuses a checksum of a subscription that it does not serve, and forgets
    one when the subscription is replaced. So a checksum is asked for after the acceptance, and again after a
    replacement.
    """

    legal = LEGAL

    def __init__(self, ask: Ask, *, record: bool = False) -> None:
        super().__init__(State.UNSENT, record=record)
        self.taken = Taken(ask)
        self.is_paused = ask.is_paused
        """Whether the subscriber wants no messages for now."""
        self.is_full = False
        """Whether the service was paused because too many messages wait."""
        self.proof = Proving.NONE
        self.error: SowlineError | None = None
        self._end = ""
        self._pending = Replacements()

    # what it is asked

    @property
    def ask(self) -> Ask:
        """The request that the service serves."""
        return self.taken.served.ask

    @property
    def bookmark(self) -> str | None:
        """The bookmark to resume from, after the last message that was taken. None until a group has ended."""
        return self.taken.bookmark

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
        is_awaited = self.state in _UNANSWERED and not self.taken.is_whole
        return not self.is_over and (is_awaited or self.is_being_replaced or self.proof in _LACKED)

    @property
    def _about(self) -> str:
        return f"{self.state.value}, holds {self.taken.holding.value}, at {self.bookmark}"

    # what happens

    def _act(self, event: Event) -> list[Action]:
        return _EFFECTS[event.row](self, event)

    def _refuse(self, event: Event) -> list[Action]:
        """End the subscription with `bad message` for a message or answer; raise why for any other event."""
        if isinstance(event, Answer) or event in (Signal.COMPLETED, Signal.LEFT):
            return [*self._sent(LEAVE), *self._come_to_end(SowlineError("bad message", self._refusal(event)))]
        if isinstance(event, Replace):
            raise self.error or SowlineError("disconnected", "expected a subscription that has not ended")
        return super()._refuse(event)

    # the connection

    def _connect(self, event: ConnectionMade) -> list[Action]:
        """Drop the messages that were not taken, and resume."""
        if self.ask.is_query and self.taken.holding is not Holding.NOTHING:
            lost = "the connection was lost while the query ran; run it again"
            return self._come_to_end(SowlineError("disconnected", lost))
        has_begun = self.taken.is_whole or bool(self.ask.bookmark)
        self._drop_waiting(make_void=event.rights_changed and has_begun and not self.ask.is_query)
        self._detach()
        return self._begin()

    def _drop_waiting(self, *, make_void: bool = False) -> None:
        self.taken.drop_waiting(make_void=make_void)
        # The checksum waited, and was dropped with the rest.
        if self.proof is Proving.ARRIVED:
            self.proof = Proving.WANTED

    def _lose(self, _: Signal) -> list[Action]:
        assert not self.is_over, "what has ended loses nothing"
        self.state = State.UNSENT
        return []

    def _fail(self, event: Fail) -> list[Action]:
        return self._come_to_end(SowlineError(event.reason, event.message))

    def _detach(self) -> None:
        """Forget what the service had of it."""
        self.is_full = False
        self.taken.inbox.drop_unfinished()
        self._pending.detach()
        self._ask_for_proof_again()
        assert self._pending.sent is None, "a service that is gone has no replacement"
        assert self.proof is not Proving.ASKED, "a service that is gone has no request for a checksum"

    def _begin(self) -> list[Action]:
        assert not self._pending.sent, "a request goes out while no replacement is on its way"
        if self.taken.begins_again:
            self._drop_waiting()
        self.state = State.ASKED
        return [SendAsk(self._going_on())]

    def _going_on(self) -> Ask:
        """Return the request that continues after the last message that was taken, or that waits."""
        if self.ask.is_query:
            return self.ask
        ask = self.ask.paused(self.is_paused)
        if self.taken.is_void:
            self.taken.renew()
            return ask.afresh(self._end)
        return ask.going_on(self.taken.end_bookmark(), self._end) if self.taken.is_whole else ask

    def _ask_again(self, event: Again) -> list[Action]:
        if self.state is State.POSTPONED:
            return [] if event.number else self._begin()
        self._pending.again(event.number)
        return self._due()

    # what the service answers

    def _accept(self, event: Accepted) -> list[Action]:
        assert self.state is State.ASKED, "only a request that was sent is accepted"
        self._end = event.end or self._end
        is_whole, is_void = self.taken.is_whole, self.taken.is_void
        if not is_whole and (is_void or not self.ask.has_no_group):
            self.state = State.SNAPSHOT
        else:
            if not is_whole:
                self.taken.begin_at(event.bookmark)
            # One that has an end is completed only there.
            self.state = State.LIVE if self.ask.has_end else State.CATCHING_UP
        return [Started(), *self._due()]

    def _end_or_postpone(self, event: Refused | NotReplaced) -> list[Action]:
        leaving = self._leave_replacement()
        if not _is_passing(event.reason, self.taken):
            return [*leaving, *self._come_to_end(SowlineError(event.reason, event.message))]
        self._detach()
        if not leaving:
            return self._postpone(event)
        self.state = State.LEAVING
        return leaving

    def _postpone(self, _: Event) -> list[Action]:
        assert self._pending.sent is None, "a request is postponed while no replacement is on its way"
        self.state = State.POSTPONED
        return [AskLater(0)]

    def _leave_replacement(self) -> list[Action]:
        """Leave what the service begins once a replacement arrives whose subscription it has ended."""
        return self._sent(LEAVE) if self._pending.sent else []

    def _become_replaced(self, event: Replaced) -> list[Action]:
        """Continue as the request that the service has accepted. Waiting messages belong to the previous one."""
        sent = self._pending.sent
        if sent is None or sent.number != event.number:
            return self._refuse(event)
        assert self.state in _ACCEPTED, "a service replaces what it serves"
        self.taken.replace(self.ask.replaced(sent.changes))
        self.is_paused = sent.is_paused
        if not self.ask.has_no_group:
            self.state = State.SNAPSHOT
        self._ask_for_proof_again()
        return self._settle()

    def _keep_request(self, event: NotReplaced) -> list[Action]:
        """Settle a replacement that is refused at once; a later refusal is one of the subscription."""
        if not self._pending.is_sent(event.number):
            return self._end_or_postpone(event)
        if event.ends:
            self._pending.detach()
            return self._end_or_postpone(event)
        if _is_passing(event.reason, self.taken):
            self._pending.postpone()
            return [AskLater(event.number)]
        return self._settle(SowlineError(event.reason, event.message))

    def _settle(self, error: SowlineError | None = None) -> list[Action]:
        self._pending.settle()
        return [Settled(error), *self._due()]

    def _due(self) -> list[Action]:
        """Send the next replacement or, while none is on its way, the request for a checksum."""
        if self.state not in _ACCEPTED:
            return []
        if (replacement := self._pending.send_next()) is not None:
            # A full queue stays full: the service pauses the new subscription as well, until `room`.
            is_paused = replacement.is_paused or self.is_full
            return [ReplaceBy(replacement.number, self.ask.replaced(replacement.changes).paused(is_paused))]
        if self.proof is not Proving.WANTED or self._pending.sent or self.is_full:
            return []
        assert self.state in _ACCEPTED, "a checksum is asked of a service that serves the request"
        self.proof = Proving.ASKED
        return self._sent(PROVE)

    def _ask_for_proof_again(self) -> None:
        """Note that the service has forgotten the request for a checksum."""
        if self.proof is Proving.ASKED:
            self.proof = Proving.WANTED

    def _note_no_proof(self, event: NotProven) -> list[Action]:
        if self.proof is Proving.ASKED:
            self.proof = Proving.ARRIVED
            self.taken.inbox.insert(Message("progress", reason=event.reason, hash=""))
        return []

    def _complete(self, _: Signal) -> list[Action]:
        if self.ask.is_query or self.ask.has_end:
            return [*self._leave_replacement(), *self._come_to_end()]
        if self.state is State.CATCHING_UP:
            self.state = State.LIVE
        return []

    def _come_to_end(self, error: SowlineError | None = None) -> list[Action]:
        self.state = State.ENDED if error is None else State.FAILED
        self.error = error
        gone = error or SowlineError("disconnected", "the subscription was ended before it was replaced")
        settled = [Settled(gone)] * len(self._pending)
        self._pending = Replacements()
        assert self.is_over, "what has ended stays ended"
        assert (self.state is State.FAILED) is (self.error is not None), "a failure has its reason"
        return [*settled, Over(error)]

    # messages

    def _take_in(self, event: Arrived) -> list[Action]:
        messages: Iterable[Message] = event.messages
        match event.command:
            case "publish" | "oof" | "sow":
                pass
            case "group_begin":
                self.state = State.SNAPSHOT
                messages = self.taken.begin_group(messages)
            case "group_end":
                self.state = State.LIVE
            case _ if self.proof is Proving.ASKED and any(message.hash for message in messages):
                self.proof = Proving.ARRIVED
        assert not self.is_over, "what has ended gets no messages"
        self.taken.inbox.add(messages, event.more)
        return []

    def _give(self, event: Take) -> list[Action]:
        messages = self.taken.take(event.limit)
        if not messages:
            return []
        if self.proof is Proving.ARRIVED and any(message.command == "progress" for message in messages):
            self.proof = Proving.NONE
        return [Give(messages)]

    # what the subscriber wants

    def _note_replacement(self, event: Replace) -> list[Action]:
        self._pending.add(event.changes, is_paused=self.ask.replaced(event.changes).is_paused)
        assert self.is_being_replaced, "a replacement waits until it is answered"
        return self._due()

    def _pause(self, event: Signal) -> list[Action]:
        self.is_paused = event is Signal.PAUSE
        self._pending.pause(is_paused=self.is_paused)
        return [] if self.is_full else self._sent(PAUSE if self.is_paused else RESUME)

    def _pause_while_full(self, event: Signal) -> list[Action]:
        """Pause the service, unless the subscriber has."""
        is_full = event is Signal.FULL
        if is_full is self.is_full or self.ask.is_query:
            return []
        self.is_full = is_full
        sent = [] if self.is_paused else self._sent(PAUSE if is_full else RESUME)
        return [*sent, *self._due()]

    def _prove(self, _: Signal) -> list[Action]:
        if self.proof is Proving.NONE:
            self.proof = Proving.WANTED
        return self._due()

    def _leave(self, _: Signal) -> list[Action]:
        self.taken.inbox.clear()
        return [] if self.is_over else [*self._sent(LEAVE), *self._come_to_end()]

    def _sent(self, what: str) -> list[Action]:
        """Send a command about the subscription. Without a connection, the next request says the same."""
        return [Send(what)] if self.state in _SERVED else []


def _is_passing(reason: str, taken: Taken) -> bool:
    """Whether a refusal is for now: the service is loading or behind the bookmark, or lacks a shard."""
    match reason:
        case "not ready":
            return True
        case "behind":
            return taken.is_whole
        case "shard unavailable":
            # Unlike a query, a subscription continues from what was taken.
            return not taken.served.ask.is_query
        case _:
            return False


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
    "left": ClientMachine._postpone,
    "completed": ClientMachine._complete,
    **dict.fromkeys(
        ("group_begin", "sow", "group_end", "publish", "oof", "progress"), ClientMachine._take_in
    ),
    "take": ClientMachine._give,
    "replace": ClientMachine._note_replacement,
    **dict.fromkeys(("pause", "unpause"), ClientMachine._pause),
    **dict.fromkeys(("full", "room"), ClientMachine._pause_while_full),
    "prove": ClientMachine._prove,
    "leave": ClientMachine._leave,
}
