"""The service machine over any sequence of legal events: each duty is paid once, in its order, and it ends."""

from collections import Counter

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from sowline.subscriptions.machine import Legal
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
    Refuse,
    Renewed,
    SendOpening,
    ServiceSignal,
    ServiceState,
    Start,
)
from sowline.subscriptions.service_machine import LifeTerms, ServiceMachine

_begins = st.builds(BeginAt, st.sampled_from(Start), st.sampled_from(Opening))
_terms = st.builds(
    lambda has_end, has_rate, **terms: LifeTerms(has_end=has_end, is_paced=has_end or has_rate, **terms),
    begin=_begins,
    replays=st.booleans(),
    has_snapshot=st.booleans(),
    has_end=st.booleans(),
    has_rate=st.booleans(),
    is_paused=st.booleans(),
    owed=st.sets(st.sampled_from(Duty)).map(lambda some: frozenset({Duty.PROCESSED, *some})),
    instead=st.none() | _begins,
    resets=st.booleans(),
    holds=st.sampled_from(Held),
    inherits=st.sampled_from(Held),
    parts=st.just(frozenset({"one", "two"})),
)
_GOING_ON: list[Event] = [
    *(signal for signal in ServiceSignal if signal.row not in ("leave", "prove", "reached", "failed")),
    *(kind(part) for kind in (CaughtUp, FellBehind) for part in ("", "one", "two")),
    Renewed(is_reset=True),
    Renewed(is_reset=False),
]
_LAST: list[Event] = [ServiceSignal.LEAVE, ServiceSignal.FAILED, ServiceSignal.REACHED]


def chosen(state: ServiceState, events: list[Event], number: int) -> Event | None:
    """Return one of the events that act in a state; None if there is none."""
    legal = [event for event in events if LEGAL[event.row][state] is Legal.ACTS]
    return legal[number % len(legal)] if legal else None


class Client:
    """What the client of a machine is sent: each promise is kept once, and in its order."""

    def __init__(self, terms: LifeTerms) -> None:
        self._terms = terms
        self.paid: Counter[Duty] = Counter()
        self._is_going, self._is_paused = False, terms.is_paused
        self._levelled: set[str] = set()
        self.begins_due, self.sends_due = 1, 0
        self.is_over = False

    def note(self, event: Event, actions: list[Action]) -> None:
        """Note an event with what the machine does about it, and check that."""
        assert not self.is_over, "it is over"
        if event in (ServiceSignal.PAUSE, ServiceSignal.RESUME):
            self._is_paused = event is ServiceSignal.PAUSE
        if isinstance(event, CaughtUp):
            self._levelled |= {event.part} if event.part else self._terms.parts
        self.begins_due -= event is ServiceSignal.BEGUN
        self.sends_due -= event is ServiceSignal.SENT
        for action in actions:
            self._note_action(action)
        assert max(self.begins_due, self.sends_due) <= 1

    def _note_action(self, action: Action) -> None:
        match action:
            case Acknowledge(duty):
                self.paid[duty] += 1
                assert self.paid[duty] == 1, "it was paid before"
                assert self.paid[Duty.PROCESSED], "nothing comes before it has begun"
                if duty in (Duty.COMPLETED, Duty.CAUGHT_UP) and self._terms.replays:
                    assert self._levelled == self._terms.parts, "something is missing"
                assert duty is not Duty.COMPLETED or not self._terms.has_end
            case BeginAt():
                self.begins_due, self.sends_due, self._is_going = 1, 0, False
            case SendOpening(opening):
                self.sends_due += 1
                assert opening is not Opening.NOTHING
                assert not self._is_going, "a group within changes"
            case GoOn():
                assert not any([self._is_paused, self._is_going, self.sends_due])
                assert self.paid[Duty.PROCESSED]
                self._is_going = True
            case Halt():
                self._is_going = False
            case Finish():
                self.paid[Duty.COMPLETED] += 1
                assert self.paid[Duty.COMPLETED] == 1, "it was paid before"
                self.is_over = True
            case Refuse():
                self.is_over = True


@settings(max_examples=400, deadline=None)
@given(_terms, st.lists(st.integers(0, 1000), min_size=10, max_size=40), st.integers(0, 2))
def test_any_legal_sequence(terms: LifeTerms, numbers: list[int], last: int) -> None:
    """What a client is sent is in order, whatever happens; an end is one; and the record leads to the same state."""
    machine, client = ServiceMachine(terms), Client(terms)
    taken: list[Event] = []
    lasts = _LAST if terms.has_end else _LAST[:2]
    choices: list[tuple[list[Event], int]] = [(_GOING_ON, number) for number in numbers]
    for events, number in [*choices, (lasts, last)]:
        event = chosen(machine.state, events, number)
        if event is None:
            continue
        status = machine.status
        client.note(event, machine.handle(event))
        taken.append(event)
        assert machine.status != "beginning" or status == "beginning", "it has begun"
        assert not (machine.is_idle and machine.is_querying)
    assert machine.is_over
    again = ServiceMachine(terms)
    for event in taken:
        again.handle(msgspec.json.decode(msgspec.json.encode(event.kept), type=Event))
    assert (again.state, again.held, again.status) == (machine.state, machine.held, machine.status)
