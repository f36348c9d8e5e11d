"""The service machine: its table, what it makes of a request, and its record."""

from typing import Any

import msgspec
import pytest

from sowline.errors import SowlineError
from sowline.subscriptions.machine import Legal, Machine
from sowline.subscriptions.service_lifecycle import (
    LEGAL,
    Acknowledge,
    Action,
    BeginAt,
    CaughtUp,
    Duty,
    Event,
    Finish,
    GoOn,
    Halt,
    Held,
    Opening,
    Refuse,
    SendOpening,
    ServiceSignal,
    ServiceState,
    Start,
)
from sowline.subscriptions.service_machine import AFRESH, LifeTerms, ServiceMachine
from sowline.wire.request import Subscribe
from sowline.wire.request_fields import read_fields
from sowline.wire.request_parser import acks_of, parse

BEGUN, SENT, COUNTED, GONE, LOST = (
    ServiceSignal.BEGUN,
    ServiceSignal.SENT,
    ServiceSignal.COUNTED,
    ServiceSignal.GONE,
    ServiceSignal.LOST,
)
PAUSE, RESUME, LEAVE = ServiceSignal.PAUSE, ServiceSignal.RESUME, ServiceSignal.LEAVE

_EVENTS = {
    **{signal.row: signal.value for signal in ServiceSignal},
    "caught_up": {"type": "caught_up"},
    "behind": {"type": "behind"},
    "renewed": {"type": "renewed", "is_reset": True},
}
_NOT_PROVEN = {
    ServiceState.PACED: "without an end or a rate",
    ServiceState.ENDED: "that has not ended",
    ServiceState.STOPPED: "that has not ended",
}
_CELLS = [(row, state) for row in LEGAL for state in ServiceState]


def asked(command: str = "sow_and_subscribe", **fields: Any) -> Subscribe:
    """Return a request that asks for all acknowledgements."""
    acks = "processed,completed,stats" if command.startswith("sow") else "processed,completed"
    every = {
        "command": command,
        "topic": "orders",
        "command_id": "1",
        "ack_type": acks,
    }
    read = read_fields(msgspec.json.encode(every | fields))
    request = parse(read, acks_of(read))
    assert isinstance(request, Subscribe)
    return request


def terms_of(command: str = "sow_and_subscribe", replaced: Held | None = None, **fields: Any) -> LifeTerms:
    """Return the terms of a request."""
    request = asked(command, **fields)
    return LifeTerms.of(request, begins_now=request.bookmark_range.begins_now, replaced=replaced)


def handled(machine: ServiceMachine, *events: Event) -> list[Action]:
    """Return what the machine does about events."""
    return [action for event in events for action in machine.handle(event)]


def in_state(state: ServiceState) -> ServiceMachine:
    """Return a machine in a state."""
    ways: dict[ServiceState, list[Event]] = {
        ServiceState.BEGINNING: [],
        ServiceState.SNAPSHOT: [BEGUN],
        ServiceState.CATCHING_UP: [BEGUN, SENT],
        ServiceState.LIVE: [BEGUN, SENT, CaughtUp()],
        ServiceState.PACED: [BEGUN],
        ServiceState.ENDED: [ServiceSignal.FAILED],
        ServiceState.STOPPED: [LEAVE],
    }
    terms = (
        terms_of("subscribe", bookmark="epoch", up_to="now") if state is ServiceState.PACED else terms_of()
    )
    machine = ServiceMachine(terms)
    handled(machine, *ways[state])
    assert machine.state is state
    return machine


def all_of(machine: ServiceMachine) -> list[object]:
    """Return everything that a machine has, to compare."""
    return [getattr(machine, name) for name in (*Machine.__slots__, *ServiceMachine.__slots__)]


def acknowledged(*duties: Duty, of_group: bool = False) -> list[Action]:
    """Return the acknowledgements of duties."""
    return [Acknowledge(duty, of_group) for duty in duties]


@pytest.mark.parametrize(("row", "state"), _CELLS, ids=lambda part: getattr(part, "value", part))
def test_an_event_in_a_state(row: str, state: ServiceState) -> None:
    """It acts, is late and changes nothing, or is refused and changes nothing."""
    machine, event = in_state(state), msgspec.convert(_EVENTS[row], Event)
    before = all_of(machine)
    match LEGAL[row][state]:
        case Legal.ACTS if row == "prove" and state in _NOT_PROVEN:
            with pytest.raises(SowlineError, match=_NOT_PROVEN[state]):
                machine.handle(event)
        case Legal.ACTS:
            machine.handle(event)
        case Legal.IS_PASSED_OVER:
            assert (machine.handle(event), all_of(machine)) == ([], before)
        case Legal.IS_REFUSED:
            with pytest.raises(SowlineError, match=f"while it is {state.value}, got {row}"):
                machine.handle(event)
            assert all_of(machine) == before


def test_every_event_is_in_the_table() -> None:
    """And no other."""
    assert set(_EVENTS) == set(LEGAL)


def test_a_snapshot_and_live_changes() -> None:
    """Its begin is acknowledged, then the group; it is complete, because it has no changes to catch up with."""
    machine = ServiceMachine(terms_of())
    assert machine.begin == BeginAt(Start.REQUESTED, Opening.GROUP)
    assert (machine.is_querying, machine.status) == (True, "beginning")
    assert handled(machine, BEGUN) == [*acknowledged(Duty.PROCESSED), SendOpening(Opening.GROUP)]
    assert (machine.is_querying, machine.status, machine.held) == (True, "group", Held.PART)
    assert handled(machine, SENT) == [*acknowledged(Duty.COMPLETED, of_group=True), GoOn()]
    assert handled(machine, COUNTED) == acknowledged(Duty.STATS)
    assert (machine.is_querying, machine.status, machine.held) == (False, "catching up", Held.ALL)
    assert handled(machine, CaughtUp()) == []
    assert machine.status == "live"


def test_a_bookmark_is_caught_up_with_in_each_part() -> None:
    """It is complete, and a gateway learns of it, when each part was level once."""
    request = asked("subscribe", bookmark="epoch")
    terms = LifeTerms.of(
        request, begins_now=False, owed=frozenset({Duty.CAUGHT_UP}), parts=frozenset({"one", "two"})
    )
    machine = ServiceMachine(terms)
    assert handled(machine, BEGUN) == [*acknowledged(Duty.PROCESSED), GoOn()]
    assert handled(machine, CaughtUp("one"), CaughtUp("one")) == []
    assert machine.state is ServiceState.CATCHING_UP
    assert handled(machine, CaughtUp("two")) == acknowledged(Duty.CAUGHT_UP, Duty.COMPLETED)
    assert machine.status == "live"


def test_a_group_may_be_the_last_that_is_due() -> None:
    """What feeds it may be level before its group was sent: then the group completes it."""
    machine = ServiceMachine(terms_of(bookmark="20261127T000000"))
    assert machine.terms.replays
    handled(machine, BEGUN, CaughtUp())
    assert handled(machine, SENT) == [*acknowledged(Duty.COMPLETED, of_group=True), GoOn()]
    assert machine.status == "live"


def test_an_end_completes_it() -> None:
    """Nothing else does."""
    machine = ServiceMachine(terms_of("subscribe", bookmark="epoch", up_to="now"))
    assert handled(machine, BEGUN, CaughtUp()) == [*acknowledged(Duty.PROCESSED), GoOn()]
    assert machine.status == "paced"
    assert handled(machine, ServiceSignal.REACHED) == [Finish()]
    assert machine.is_over


@pytest.mark.parametrize(
    ("command", "options", "replaced", "begin"),
    [
        ("sow_and_subscribe", "replace,oof", Held.ALL, BeginAt(Start.HELD, Opening.REPLACE)),
        ("sow_and_subscribe", "replace", Held.CHANGED, AFRESH),
        ("sow_and_subscribe", "replace", Held.UNKNOWN, AFRESH),
        ("subscribe", "replace,oof", Held.CHANGED, BeginAt(Start.HELD, Opening.LEAVE)),
        ("subscribe", "replace", Held.ALL, BeginAt(Start.NOW)),
        ("subscribe", "replace,oof", Held.UNKNOWN, BeginAt(Start.NOW)),
        ("subscribe", "replace", Held.PART, AFRESH),
    ],
)
def test_a_replacement(command: str, options: str, replaced: Held, begin: BeginAt) -> None:
    """It starts from what the client holds, if that is known and of use."""
    machine = ServiceMachine(terms_of(command, replaced, options=options))
    assert machine.begin == begin
    assert machine.held is replaced, "until it has begun, the client holds that"


def test_what_leaves_is_no_group() -> None:
    """Such a replacement is completed without one."""
    machine = ServiceMachine(terms_of("subscribe", Held.ALL, options="replace,oof"))
    assert handled(machine, BEGUN, SENT) == [
        *acknowledged(Duty.PROCESSED),
        SendOpening(Opening.LEAVE),
        *acknowledged(Duty.COMPLETED),
        GoOn(),
    ]


def test_what_is_held_may_be_gone() -> None:
    """The client of the replaced subscription then gets everything."""
    machine = ServiceMachine(terms_of(replaced=Held.ALL, options="replace"))
    assert handled(machine, GONE, BEGUN) == [
        AFRESH,
        *acknowledged(Duty.PROCESSED),
        SendOpening(Opening.RESET),
    ]


@pytest.mark.parametrize(
    ("not_found", "fields", "begin"),
    [
        ("fail", {}, None),
        ("reset", {}, AFRESH),
        ("now", {}, BeginAt(Start.NOW)),
        ("epoch", {}, BeginAt(Start.OLDEST)),
        ("epoch", {"bookmark": "20261127T000000"}, None),
        ("now", {"bookmark": "20261127T000000"}, BeginAt(Start.NOW, Opening.GROUP)),
        ("now", {"skip_n": 0, "top_n": 5}, AFRESH),
    ],
)
def test_a_bookmark_may_be_gone(not_found: str, fields: dict[str, Any], begin: BeginAt | None) -> None:
    """Its client has said what happens then."""
    fields = {"bookmark": "orders:0@0"} | fields
    machine = ServiceMachine(terms_of(options=f"bookmark_not_found={not_found}", **fields))
    assert handled(machine, GONE) == [Refuse() if begin is None else begin]
    assert machine.is_over is (begin is None)


def test_what_follows_may_be_gone() -> None:
    """With `reset` the client gets a new group, which counts as no other first one; otherwise it fails."""
    machine = ServiceMachine(terms_of("subscribe", bookmark="epoch", options="reset"))
    handled(machine, BEGUN)
    assert handled(machine, GONE) == [Halt(), AFRESH]
    assert (machine.status, machine.held) == ("group", Held.PART)
    assert handled(machine, BEGUN, SENT) == [SendOpening(Opening.RESET), GoOn()]
    assert handled(machine, CaughtUp()) == acknowledged(Duty.COMPLETED)
    assert handled(in_state(ServiceState.LIVE), GONE) == [Halt(), Refuse()]


@pytest.mark.parametrize("event", [GONE, ServiceSignal.FAILED])
def test_a_topic_that_fails_halts_the_others(event: ServiceSignal) -> None:
    """Of several topics, some may be live when one can't continue: nothing is sent behind the failure."""
    machine = in_state(ServiceState.LIVE)
    assert handled(machine, event)[0] == Halt()
    assert handled(machine, ServiceSignal.LEAVE) == []
    with pytest.raises(SowlineError, match="that has not ended") as refused:
        machine.handle(ServiceSignal.PROVE)
    assert refused.value.reason == "not supported"


def test_a_lost_node() -> None:
    """It continues behind what was sent, after a part of a group with a whole one."""
    machine = in_state(ServiceState.LIVE)
    assert handled(machine, LOST) == [Halt(), BeginAt(Start.SENT)]
    assert handled(machine, LOST) == [BeginAt(Start.SENT)]
    assert (machine.status, machine.held) == ("catching up", Held.ALL)
    assert handled(machine, BEGUN) == [GoOn()]
    assert handled(in_state(ServiceState.SNAPSHOT), LOST) == [AFRESH]
    assert handled(in_state(ServiceState.BEGINNING), LOST) == [BeginAt(Start.REQUESTED, Opening.GROUP)]


def test_a_pause() -> None:
    """Changes halt at once; before them, the pause only keeps them from beginning."""
    machine = in_state(ServiceState.LIVE)
    assert handled(machine, PAUSE, PAUSE) == [Halt()]
    assert (machine.status, machine.is_idle) == ("paused", False)
    with pytest.raises(SowlineError, match="resume it first"):
        machine.handle(ServiceSignal.PROVE)
    assert handled(machine, RESUME, RESUME) == [GoOn()]
    assert machine.status == "catching up"

    machine = in_state(ServiceState.SNAPSHOT)
    assert handled(machine, PAUSE, SENT) == acknowledged(Duty.COMPLETED, of_group=True)
    assert handled(machine, RESUME) == [GoOn()]


def test_a_machine_is_replayed_from_its_record() -> None:
    """What a log shows of a machine leads another one into the same state."""
    terms = terms_of("subscribe", bookmark="epoch", options="reset")
    machine = ServiceMachine(terms, record=True)
    handled(machine, BEGUN, PAUSE, RESUME, CaughtUp(), GONE, BEGUN, SENT)
    first, *lines = repr(machine).removesuffix(">").splitlines()
    again = ServiceMachine(terms)
    handled(again, *(msgspec.json.decode(line, type=Event) for line in lines))
    assert repr(again) == f"{first}>"
    assert all_of(again)[1:] == all_of(machine)[1:], "all but the record"
