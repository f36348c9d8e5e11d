"""The machine that leads a subscription through its lifecycle, for its service: events in, actions out.

It knows no connection, no clock and no event loop, and no change passes it. The code that runs it finds starts, sends
groups and changes, and reports the results. Query service and gateway serve records and windows with it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from sowline.errors import SowlineError
from sowline.serving.sessions.status import State as Status
from sowline.subscriptions.machine import Machine
from sowline.subscriptions.service_lifecycle import (
    LEGAL,
    Acknowledge,
    Action,
    BeginAt,
    CaughtUp,
    Duty,
    Event,
    FellBehind,
    Finish,
    GoOn,
    Halt,
    Held,
    Opening,
    Pausing,
    Refuse,
    Renewed,
    SendOpening,
    ServiceSignal,
    ServiceState,
    Start,
)
from sowline.wire.request import Subscribe

_GOING = (ServiceState.CATCHING_UP, ServiceState.LIVE, ServiceState.PACED)
_OVER = (ServiceState.ENDED, ServiceState.STOPPED)


_REQUESTED = (Duty.COMPLETED, Duty.STATS)
AFRESH = BeginAt(Start.NOW, Opening.RESET)


class LifeTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The demands of a request on the lifecycle of its subscription."""

    begin: BeginAt
    replays: bool = False
    """Whether it has to catch up with changes from before it began."""
    has_snapshot: bool = False
    has_end: bool = False
    is_paced: bool = False
    """Whether it has an end or a rate."""
    is_paused: bool = False
    owed: frozenset[Duty] = frozenset({Duty.PROCESSED})
    instead: BeginAt | None = None
    """How it begins if the requested start is gone; None if it fails then."""
    resets: bool = False
    """Whether a client that was sent something gets a new group if what follows is gone; otherwise it fails."""
    holds: Held = Held.ALL
    """The records that its client holds once it has begun."""
    inherits: Held = Held.UNKNOWN
    """The records that its client holds before: those of the replaced subscription, if there was one."""
    parts: frozenset[str] = frozenset({""})
    """The parts that catch up independently."""

    @classmethod
    def of(
        cls,
        request: Subscribe,
        *,
        begins_now: bool,
        replaced: Held | None = None,
        is_certain: bool = True,
        owed: frozenset[Duty] = frozenset(),
        parts: frozenset[str] = frozenset({""}),
    ) -> "LifeTerms":
        """Return the terms of a request. Its service knows whether it `begins_now`.

        `replaced` is what is known of what the client of the replaced subscription holds. If not `is_certain`, that
        will not be known of its own client. `owed` is owed besides what any client may request.
        """
        options, bookmark_range, has_snapshot = request.options, request.bookmark_range, request.has_snapshot
        has_group = has_snapshot and not bookmark_range.is_return
        first = BeginAt(Start.REQUESTED, Opening.GROUP if has_group else Opening.NOTHING)
        if replaced is not None:
            first = _replacing(replaced, has_snapshot=has_snapshot, oof=options.oof)
        return cls(
            begin=first,
            replays=not begins_now,
            has_snapshot=has_snapshot,
            has_end=bookmark_range.end is not None,
            is_paced=bookmark_range.end is not None or options.rate is not None,
            is_paused=options.pause,
            owed=owed | {Duty.PROCESSED, *(one for one in _REQUESTED if one.value in request.acks)},
            instead=_instead(options.bookmark_not_found, first.opening, is_window=request.is_window),
            resets=options.reset,
            holds=_held_by(has_all=has_snapshot or bookmark_range.is_return, is_certain=is_certain),
            inherits=replaced or Held.UNKNOWN,
            parts=parts,
        )


def _held_by(*, has_all: bool, is_certain: bool) -> Held:
    if not is_certain:
        return Held.UNKNOWN
    return Held.ALL if has_all else Held.CHANGED


def _replacing(held: Held, *, has_snapshot: bool, oof: bool) -> BeginAt:
    """Return how a subscription begins that replaces another one."""
    if held is Held.PART:
        # It may have dropped everything at the beginning of a reset, and waits for the end of that
        # (test_client_and_service_agree).
        return AFRESH
    if has_snapshot:
        # Without a snapshot, a client was sent only the records that changed. A group of those that it lacks can't be
        # computed, so it gets the whole group (test_plain_subscriptions).
        return BeginAt(Start.HELD, Opening.REPLACE) if held is Held.ALL else AFRESH
    return BeginAt(Start.NOW) if held is Held.UNKNOWN or not oof else BeginAt(Start.HELD, Opening.LEAVE)


def _instead(not_found: str, opening: Opening, *, is_window: bool) -> BeginAt | None:
    """Return how a subscription begins whose start is gone, as its client chose."""
    match not_found:
        case "reset":
            return AFRESH
        case "now":
            # A page or groups can't be brought from an unknown state to the current one by changes.
            return AFRESH if is_window else BeginAt(Start.NOW, opening)
        case "epoch" if not is_window and opening is Opening.NOTHING:
            return BeginAt(Start.OLDEST)
        case _:
            return None


class ServiceMachine(Machine[ServiceState, Event, Action]):
    """One subscription.

    It begins as `begin` says. Each duty is paid at most once. `completed` is due when the client was sent everything
    from before the subscription began, or at its end if it has one.
    """

    __slots__ = ("_behind", "_owed", "_replaying", "begin", "pausing", "terms")

    legal = LEGAL

    def __init__(self, terms: LifeTerms, *, record: bool = False) -> None:
        super().__init__(ServiceState.BEGINNING, record=record)
        assert terms.parts, "a subscription has a part that catches up"
        self.terms = terms
        self.pausing = Pausing.PAUSED if terms.is_paused else Pausing.RUNNING
        self.begin = terms.begin
        """How it begins; once it has begun, how it continues."""
        self._owed = terms.owed
        self._behind = terms.parts
        """The parts that are not live."""
        self._replaying = terms.parts if terms.replays else frozenset[str]()
        """The parts of which the client was not yet sent everything from before it began."""

    # what it is asked

    @property
    def has_begun(self) -> bool:
        """Whether its command was acknowledged, if requested."""
        return Duty.PROCESSED not in self._owed

    @property
    def is_querying(self) -> bool:
        """Whether its group waits, or is being sent."""
        if self.state is ServiceState.BEGINNING:
            return self.begin.opening is not Opening.NOTHING
        return self.state is ServiceState.SNAPSHOT

    @property
    def is_paused(self) -> bool:
        """Whether the client wants no messages for now."""
        return self.pausing is Pausing.PAUSED

    @property
    def is_over(self) -> bool:
        """Whether nothing more is sent."""
        return self.state in _OVER

    @property
    def is_idle(self) -> bool:
        """Whether the client may be sent a bookmark while there are no changes."""
        return self.has_begun and not (self.is_querying or self.is_paused or self.is_over)

    @property
    def held(self) -> Held:
        """The known part of the records that the client holds. Ask before the subscription is replaced."""
        # A replaces B, and C replaces A before A has sent anything: the client still holds the records of B
        # (test_twice_in_a_row).
        if not self.has_begun:
            return self.terms.inherits
        # Within a group it is unknown which of its records the client has (test_while_the_snapshot_is_being_sent).
        if self.is_querying and self.begin.opening is not Opening.LEAVE:
            return Held.PART
        return Held.UNKNOWN if self.is_querying or self.is_over else self.terms.holds

    @property
    def status(self) -> Status:
        """The state as the list of clients shows it."""
        if not self.has_begun:
            return "beginning"
        if self.is_querying:
            return "group"
        if self.is_paused:
            return "paused"
        if self.terms.is_paced:
            return "paced"
        return "live" if self.state is ServiceState.LIVE else "catching up"

    @property
    def _about(self) -> str:
        return f"{self.state.value}, {self.pausing.value}"

    # what happens

    def _act(self, event: Event) -> list[Action]:
        return _EFFECTS[event.row](self, event)

    # the start

    def _note_begun(self, _: ServiceSignal) -> list[Action]:
        assert self.state is ServiceState.BEGINNING, "only what begins has begun"
        acknowledged = self._paid(Duty.PROCESSED)
        if self.begin.opening is Opening.NOTHING:
            return [*acknowledged, *self._go_on()]
        self.state = ServiceState.SNAPSHOT
        return [*acknowledged, SendOpening(self.begin.opening)]

    def _note_sent(self, _: ServiceSignal) -> list[Action]:
        assert self.state is ServiceState.SNAPSHOT, "only what is being sent was sent"
        return self._go_on(of_group=self.begin.opening is not Opening.LEAVE)

    def _note_counted(self, _: ServiceSignal) -> list[Action]:
        return self._paid(Duty.STATS)

    def _go_on(self, *, of_group: bool = False) -> list[Action]:
        """Send changes, unless the client wants none for now."""
        self.begin, self.state = BeginAt(Start.SENT), self._going_state
        assert self.state in _GOING, "changes follow"
        assert self.has_begun, "a subscription is acknowledged before its first change"
        return [*self._completed(of_group=of_group), *self._going_on()]

    @property
    def _going_state(self) -> ServiceState:
        if self.terms.is_paced:
            return ServiceState.PACED
        return ServiceState.CATCHING_UP if self._behind or self.is_paused else ServiceState.LIVE

    def _going_on(self) -> list[Action]:
        return [] if self.is_paused else [GoOn()]

    # what is owed

    def _paid(self, duty: Duty, *, of_group: bool = False) -> list[Action]:
        if duty not in self._owed:
            return []
        self._owed -= {duty}
        return [Acknowledge(duty, of_group)]

    def _completed(self, *, of_group: bool = False) -> list[Action]:
        """Acknowledge that everything from before it began was sent, if that is so."""
        if self._replaying:
            return []
        caught_up = self._paid(Duty.CAUGHT_UP)
        # One that has an end is completed only there.
        return (
            caught_up if self.terms.has_end else [*caught_up, *self._paid(Duty.COMPLETED, of_group=of_group)]
        )

    # the changes

    def _note_level(self, event: CaughtUp) -> list[Action]:
        parts = self._parts_of(event)
        self._behind -= parts
        self._replaying -= parts
        assert self._replaying <= self.terms.parts, "only parts of it are replayed"
        if self.state not in _GOING:
            return []
        self.state = self._going_state
        return self._completed()

    def _note_behind(self, event: FellBehind) -> list[Action]:
        self._behind |= self._parts_of(event)
        assert self._behind <= self.terms.parts, "only parts of it fall behind"
        assert self.state in _GOING, "only what is sent changes falls behind"
        self.state = self._going_state
        return []

    def _parts_of(self, event: CaughtUp | FellBehind) -> frozenset[str]:
        return frozenset({event.part}) if event.part else self.terms.parts

    # what can't continue

    def _find_elsewhere(self, _: ServiceSignal) -> list[Action]:
        begin = self._instead()
        return [*self._fail(), Refuse()] if begin is None else self._begin_again(begin)

    def _instead(self) -> BeginAt | None:
        """Return how it begins if what it needs next is gone."""
        if self.has_begun:
            return AFRESH if self.terms.resets else None
        match self.begin.start:
            case Start.REQUESTED:
                return self.terms.instead
            case Start.HELD:
                return AFRESH if self.terms.has_snapshot else BeginAt(Start.NOW)
            case _:
                return None

    def _renew(self, event: Renewed) -> list[Action]:
        return self._begin_again(AFRESH if event.is_reset else BeginAt(Start.NOW, Opening.GROUP))

    def _continue_elsewhere(self, _: ServiceSignal) -> list[Action]:
        # It is unknown how much of a group the client has received.
        return self._begin_again(AFRESH if self.state is ServiceState.SNAPSHOT else self.begin)

    def _begin_again(self, begin: BeginAt) -> list[Action]:
        assert not self.is_over, "what has ended does not begin again"
        halted = self._halted()
        self.state, self.begin, self._behind = ServiceState.BEGINNING, begin, self.terms.parts
        return [*halted, begin]

    def _halted(self) -> list[Action]:
        return [Halt()] if self.state in _GOING else []

    # the end

    def _reach_end(self, _: ServiceSignal) -> list[Action]:
        assert self.terms.has_end, "only a subscription with an end reaches it"
        self.state = ServiceState.ENDED
        return [Finish()]

    def _fail(self, _: ServiceSignal | None = None) -> list[Action]:
        # Its other topics may be live: they must send nothing after the failure
        # (test_a_topic_that_fails_halts_the_others).
        assert not self.is_over, "what has ended does not fail"
        halted = self._halted()
        self.state = ServiceState.ENDED
        return halted

    def _leave(self, _: ServiceSignal) -> list[Action]:
        assert self.state is not ServiceState.STOPPED, "a subscription stops once"
        self.state = ServiceState.STOPPED
        return [Halt()]

    # what the client wants

    def _pause(self, _: ServiceSignal) -> list[Action]:
        if self.is_paused:
            return []
        assert not self.is_over, "what has ended is not paused"
        self.pausing = Pausing.PAUSED
        if self.state not in _GOING:
            return []
        # None is live any more: what comes during the pause is sent first, once it is over.
        self._behind = self.terms.parts
        self.state = self._going_state
        return [Halt()]

    def _resume(self, _: ServiceSignal) -> list[Action]:
        if not self.is_paused:
            return []
        assert not self.is_over, "what has ended is not resumed"
        self.pausing = Pausing.RUNNING
        return self._going_on() if self.state in _GOING else []

    def _prove(self, _: ServiceSignal) -> list[Action]:
        """Allow a checksum; it is due when the subscription is live."""
        if self.is_over:
            raise SowlineError(
                "not supported", "expected a subscription that has not ended, got one that has"
            )
        if self.terms.is_paced:
            raise SowlineError(
                "not supported", "expected a subscription without an end or a rate, got one with it"
            )
        if self.is_paused:
            raise SowlineError(
                "not supported", "expected a subscription that runs, got a paused one: resume it first"
            )
        return []


_Effect = Callable[[ServiceMachine, Any], list[Action]]

_EFFECTS: Mapping[str, _Effect] = {
    "begun": ServiceMachine._note_begun,
    "counted": ServiceMachine._note_counted,
    "sent": ServiceMachine._note_sent,
    "caught_up": ServiceMachine._note_level,
    "behind": ServiceMachine._note_behind,
    "gone": ServiceMachine._find_elsewhere,
    "renewed": ServiceMachine._renew,
    "lost": ServiceMachine._continue_elsewhere,
    "reached": ServiceMachine._reach_end,
    "failed": ServiceMachine._fail,
    "pause": ServiceMachine._pause,
    "resume": ServiceMachine._resume,
    "prove": ServiceMachine._prove,
    "leave": ServiceMachine._leave,
}
