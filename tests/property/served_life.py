"""A service of one topic with one log, made of service machines: commands in, messages out, one step at a time."""

from collections import deque
from typing import Any, NamedTuple

import orjson

from sowline.errors import SowlineError
from sowline.model.bookmark import NOW
from sowline.model.bookmark_range import Point
from sowline.subscriptions.service_lifecycle import (
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
from sowline.subscriptions.service_machine import LifeTerms, ServiceMachine
from sowline.wire.request import Subscribe
from sowline.wire.request_parser import parse_request

Wire = dict[str, Any]
State = dict[str, int]

FILTERS = {"": 1, "/two = 0": 2, "/three = 0": 3}
"""What the number of a record must be a multiple of."""

KEYS = 3
"""The number of the records; change `n` is one of record `n % KEYS`, whose number becomes `n`."""

LOG = "orders"


def bookmark(position: int) -> str:
    """Return the bookmark after so many changes."""
    return f"{LOG}:0@{position}"


def matching(filter: str, position: int) -> State:
    """Return the records that match at a position."""
    newest = {str(n % KEYS): n for n in range(1, position + 1)}
    return {key: number for key, number in newest.items() if number % FILTERS[filter] == 0}


def hash_of(state: State) -> str:
    """Return what stands for the checksum of records."""
    return ",".join(f"{key}={number}" for key, number in sorted(state.items()))


class Holds(NamedTuple):
    """What the client of a subscription holds: the records that match its filter at a position."""

    filter: str
    position: int


class Served:
    """One subscription, and what its shell has still to do."""

    def __init__(self, request: Subscribe, replaced: "Served | None") -> None:
        self.request = request
        self.held = None if replaced is None else replaced.holds
        self.machine: ServiceMachine = ServiceMachine(
            LifeTerms.of(
                request,
                begins_now=request.bookmark_range.begins_now,
                replaced=None if replaced is None else replaced.machine.held,
            )
        )
        self.due: Action | None = self.machine.begin
        self.is_going = False
        self.sent = 0
        self.end = 0
        self.proofs: list[str] = []
        """The ids of the requests for a checksum."""

    @property
    def holds(self) -> Holds | None:
        """What is known of what its client holds."""
        if self.machine.held is Held.UNKNOWN:
            return None
        return Holds(self.request.filter, self.sent) if self.machine.has_begun else self.held


class Service:
    """What a client is connected to: it does one thing at a time. Commands and messages wait in their order."""

    def __init__(self) -> None:
        self.now = 1
        self.is_ready = True
        self.commands: deque[Wire] = deque()
        self.messages: deque[Wire] = deque()
        self.served: Served | None = None

    def disconnect(self) -> None:
        """End what the client had, and what is on its way to it and from it."""
        self.commands.clear()
        self.messages.clear()
        self._end()

    def _end(self) -> None:
        if self.served is not None:
            self._tell(self.served, ServiceSignal.LEAVE)
            self.served = None

    # the commands

    def take_command(self) -> None:
        """Carry out the next command, if there is one."""
        if not self.commands:
            return
        command = self.commands.popleft()
        try:
            match command["command"]:
                case "heartbeat":
                    self._prove(command)
                case "pause" | "resume":
                    signal = ServiceSignal.PAUSE if command["command"] == "pause" else ServiceSignal.RESUME
                    self._tell(self._existing(), signal)
                case "unsubscribe":
                    self._existing()
                    self._end()
                    self._put(_ack(command["command_id"], "processed"))
                case _:
                    self._subscribe(command)
        except SowlineError as error:
            self._put(_failure(command["command_id"], error))

    def _existing(self) -> Served:
        if self.served is None:
            raise SowlineError("invalid subid", "there is none")
        return self.served

    def _prove(self, command: Wire) -> None:
        served = self._existing()
        served.machine.handle(ServiceSignal.PROVE)
        served.proofs.append(command["command_id"])

    def _subscribe(self, command: Wire) -> None:
        request = parse_request(Subscribe, orjson.dumps(command))
        if not self.is_ready:
            raise SowlineError("not ready", "it is loading")
        assert self.served is None or request.options.replace, (
            "a subscription that exists was requested again"
        )
        served = Served(request, self.served)
        self._end()
        self.served = served

    # its own steps

    @property
    def is_at_rest(self) -> bool:
        """Whether there is nothing to do for it."""
        served = self.served
        is_level = served is None or (
            served.machine.state is ServiceState.LIVE and served.sent == self.now and not served.proofs
        )
        return is_level and not self.commands and not self.messages

    def step(self) -> None:
        """Do the next thing that the subscription is due."""
        served = self.served
        if served is None:
            return
        due, served.due = served.due, None
        match due:
            case BeginAt():
                self._begin(served, due)
            case SendOpening():
                self._send_opening(served, due.opening)
            case None if served.is_going:
                self._send_change(served)

    def lose(self, event: Event) -> None:
        """Let something go wrong, where that is possible: something is gone, or a part of the service is lost."""
        served = self.served
        if served is None or served.machine.state is ServiceState.SNAPSHOT:
            return
        if event is ServiceSignal.GONE and served.machine.begin.start in (Start.NOW, Start.OLDEST):
            return
        self._tell(served, event, SowlineError("bookmark_expired", "the changes are gone"))

    def fail(self, reason: str) -> None:
        """Let the subscription end with a reason."""
        if self.served is not None:
            self._fail(self.served, SowlineError(reason, "m"))

    def send_progress(self) -> None:
        """Send the bookmark, as to a client that is idle."""
        served = self.served
        if served is not None and served.machine.is_idle:
            self._put({"command": "progress", "sids": ["1"], "bookmark": bookmark(served.sent)})

    def _begin(self, served: Served, begin: BeginAt) -> None:
        match begin.start:
            case Start.REQUESTED if not served.request.bookmark_range.begins_now:
                (start,) = served.request.bookmark_range.starts
                served.sent = self._position_of(start)
            case Start.OLDEST:
                served.sent = 0
            case Start.SENT:
                pass
            case _:
                served.sent = self.now
        if not served.end and (end := served.request.bookmark_range.end) is not None:
            served.end = self._position_of(end)
        self._tell(served, ServiceSignal.BEGUN)

    def _position_of(self, point: Point) -> int:
        if isinstance(point, dict):
            return point[LOG][0].offset
        return self.now if point == NOW else 0

    def _send_opening(self, served: Served, opening: Opening) -> None:
        records = matching(served.request.filter, served.sent)
        if opening in (Opening.REPLACE, Opening.LEAVE):
            assert served.held is not None
            held = matching(*served.held)
            leaving = held.keys() - records.keys() if served.request.options.oof else set()
            at = bookmark(served.held.position)
            for number, key in enumerate(sorted(leaving), 1):
                more = opening is Opening.REPLACE or number < len(leaving)
                self._put(_oof(key, held[key], at if more else bookmark(served.sent), more=more))
            records = {key: n for key, n in records.items() if held.get(key) != n}
        if opening is not Opening.LEAVE:
            self._put_group(records, served.sent, opening)
        self._tell(served, ServiceSignal.SENT)

    def _put_group(self, records: State, at: int, opening: Opening) -> None:
        mark: Wire = {opening.mark: True} if opening.mark is not None else {}
        group = {"query_id": "1", "topic": LOG, "bookmark": bookmark(at)}
        self._put({"command": "group_begin", **group, **mark})
        for key, number in records.items():
            self._put(
                {"command": "sow", "query_id": "1", "records": [{"sow_key": key, "data": {"n": number}}]}
            )
        self._put({"command": "group_end", **group, "records": len(records)})

    def _send_change(self, served: Served) -> None:
        if served.end and served.sent >= served.end:
            self._tell(served, ServiceSignal.REACHED)
        elif served.sent == self.now:
            if served.machine.state is not ServiceState.LIVE:
                self._tell(served, CaughtUp())
            self._send_proofs(served)
        else:
            served.sent += 1
            key, number, filter = str(served.sent % KEYS), served.sent, served.request.filter
            now, before = matching(filter, served.sent), matching(filter, served.sent - 1)
            if key in now:
                live = {"sow_key": key, "data": {"n": number}, "bookmark": bookmark(served.sent)}
                self._put({"command": "publish", "sids": ["1"], **live})
            elif key in before and served.request.options.oof:
                self._put(_oof(key, before[key], bookmark(served.sent), more=False))

    def _send_proofs(self, served: Served) -> None:
        records = matching(served.request.filter, served.sent)
        for id in served.proofs:
            about = {"sids": ["1"], "bookmark": bookmark(served.sent), "records": len(records)}
            self._put({"command": "progress", "command_id": id, **about, "hash": hash_of(records) or "none"})
        served.proofs.clear()

    # what follows

    def _tell(self, served: Served, event: Event, error: SowlineError | None = None) -> None:
        for action in served.machine.handle(event):
            match action:
                case Acknowledge(duty=Duty.PROCESSED):
                    end = {"up_to": bookmark(served.end)} if served.end else {}
                    self._put(
                        _ack(served.request.command_id, "processed", bookmark=bookmark(served.sent), **end)
                    )
                case Acknowledge(duty=Duty.COMPLETED):
                    self._put(_ack(served.request.command_id, "completed"))
                case GoOn():
                    served.is_going = True
                case Halt():
                    served.is_going = False
                case Finish():
                    self._put(_ack(served.request.command_id, "completed"))
                    self.served = None
                case Refuse():
                    assert error is not None
                    self._put(_failure(served.request.command_id, error, sub_id="1"))
                    self.served = None
                case BeginAt() | SendOpening():
                    served.due = action

    def _fail(self, served: Served, error: SowlineError) -> None:
        self._tell(served, ServiceSignal.FAILED)
        self._put(_failure(served.request.command_id, error, sub_id="1"))
        self.served = None

    def _put(self, message: Wire) -> None:
        self.messages.append(message)


def _oof(key: str, number: int, at: str, *, more: bool) -> Wire:
    oof = {"command": "oof", "sids": ["1"], "sow_key": key, "data": {"n": number}, "reason": "match"}
    return {**oof, "bookmark": at, **({"more": True} if more else {})}


def _ack(id: str, kind: str, **fields: str) -> Wire:
    return {"command": "ack", "command_id": id, "ack_type": kind, "status": "success", **fields}


def _failure(id: str, error: SowlineError, **fields: str) -> Wire:
    reason = {"status": "failure", "reason": error.reason, "message": error.message}
    return {"command": "ack", "command_id": id, "ack_type": "processed", **reason, **fields}
