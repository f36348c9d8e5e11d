"""The machines of client and service together, over connections that break: they understand each other, and agree."""

from collections import deque

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from sowline.client.records import RecordSet
from sowline.client.stream import Stream, StreamReplacement
from sowline.subscriptions.ask import Ask
from sowline.subscriptions.lifecycle import (
    Again,
    AskLater,
    ConnectionMade,
    Event,
    Proving,
    Signal,
    State,
    Take,
)
from sowline.subscriptions.service_lifecycle import FellBehind, Renewed, ServiceSignal, ServiceState
from sowline.wire.client_message import Message, read_frame
from tests.property.served_life import FILTERS, LOG, Service, bookmark, hash_of, matching

ENDING = {"bookmark_expired", "bad filter"}
"""The reasons of the service for which a subscription may end."""

_filters = st.sampled_from(list(FILTERS))
_options = st.sampled_from(["oof", "oof,reset", "oof,pause"])
_asks = st.builds(
    Ask,
    st.sampled_from(["sow_and_subscribe", "subscribe"]),
    st.just(LOG),
    filter=_filters,
    options=_options,
    bookmark=st.sampled_from(["", "", bookmark(1)]),
    up_to=st.sampled_from(["", "", "", "now"]),
)
_changes = st.fixed_dictionaries({"filter": _filters}, optional={"options": _options})
_steps = st.one_of(
    st.sampled_from(["command", "message", "service", "again", "progress", "loading", "ready"]),
    st.tuples(st.just("write"), st.integers(1, 4)),
    st.tuples(st.just("go on"), st.integers(1, 12)),
    st.tuples(st.just("go on"), st.integers(1, 12)),
    st.sampled_from(["lost", "connected", "connected"]),
    st.builds(Take, st.integers(1, 4)),
    st.sampled_from([Signal.PAUSE, Signal.UNPAUSE, Signal.FULL, Signal.ROOM, Signal.PROVE]),
    st.tuples(st.just("replace"), _changes),
    st.tuples(
        st.just("lose"),
        st.sampled_from(
            [ServiceSignal.GONE, ServiceSignal.LOST, FellBehind(), Renewed(), Renewed(is_reset=True)]
        ),
    ),
    st.tuples(st.just("fail"), st.sampled_from(["not ready", "shard unavailable", "bad filter"])),
)


class Pair:
    """A subscriber with its stream, and the service that it is connected to, or not."""

    def __init__(self, ask: Ask) -> None:
        self.service = Service()
        self.stream = Stream("1", ask)
        self.records = RecordSet()
        self.replacements: list[StreamReplacement] = []
        self.pauses: deque[int] = deque()
        """The numbers of what is to be sent again."""
        self.is_connected = False
        self.has_all = not ask.has_no_group
        """Whether its subscriber is sent all records, and not only those that change."""

    def do(self, step: object) -> None:
        """Let something happen, where it is possible."""
        match step:
            case "go on", int(count):
                for _ in range(count):
                    self._go_on()
            case "message":
                self._receive()
            case "lost" | "connected":
                self._connect(is_lost=step == "lost")
            case "again" if self.pauses:
                self._handle(Again(self.pauses.popleft()))
            case "replace", dict(changes) if not self.stream.machine.is_over:
                self.replacements.append(self.stream.replace(**changes))
                self._send()
            case Signal() | Take():
                self._handle(step)
            case _:
                self._let_happen(step)
        error = self.stream.machine.error
        assert error is None or error.reason in ENDING, error

    def _let_happen(self, step: object) -> None:
        service = self.service
        match step:
            case "command":
                service.take_command()
            case "service":
                service.step()
            case "write", int(count):
                service.now += count
            case "progress":
                service.send_progress()
            case "loading" | "ready":
                service.is_ready = step == "ready"
            case "lose", (ServiceSignal() | FellBehind() | Renewed()) as event:
                service.lose(event)
            case "fail", str(reason):
                service.fail(reason)

    def _connect(self, *, is_lost: bool) -> None:
        if self.is_connected is not is_lost:
            return
        self.is_connected = not is_lost
        if is_lost:
            self.service.disconnect()
            self.pauses.clear()
        self._handle(Signal.LOST if is_lost else ConnectionMade())

    def _handle(self, event: Event) -> None:
        for message in self.stream.handle(event):
            self._note(message)
        self._send()

    def _send(self) -> None:
        while self.stream.outgoing:
            action = self.stream.outgoing.popleft()
            assert self.is_connected, "without a connection nothing is sent"
            if isinstance(action, AskLater):
                self.pauses.append(action.number)
            else:
                self.service.commands.append(self.stream.request(action))

    def _receive(self) -> None:
        if not self.service.messages:
            return
        for received in read_frame(orjson.dumps(self.service.messages.popleft())):
            self.stream.receive(received)
        self._send()

    def _note(self, message: Message) -> None:
        if message.command != "progress":
            self.records.take(message)
        elif message.hash and self.has_all:
            assert message.hash == (self.held or "none"), "the checksum is of what the subscriber holds"

    @property
    def held(self) -> str:
        """The checksum of what the subscriber holds."""
        return hash_of({key: orjson.loads(body)["n"] for key, body in self.records.bodies.items()})

    def come_to_rest(self) -> None:
        """Let everything that is due happen, and nothing else."""
        for wish in ("ready", "connected", Signal.ROOM):
            self.do(wish)
        for _ in range(200):
            self._go_on()
            self.do(Take(100))
            if self.stream.machine.is_paused:
                self.do(Signal.UNPAUSE)
            if not self.pauses and not self.stream.machine.taken.inbox and self.service.is_at_rest:
                break

    def _go_on(self) -> None:
        for step in ("again", "command", "service", "message"):
            self.do(step)


@settings(max_examples=200, deadline=None)
@given(_asks, st.lists(_steps, min_size=10, max_size=60))
def test_client_and_service_agree(ask: Ask, steps: list[object]) -> None:
    """Each may send what it sends. At rest nothing is owed, and the client holds what the service holds."""
    pair = Pair(ask)
    for step in ("connected", *steps):
        pair.do(step)
    pair.come_to_rest()
    machine, service = pair.stream.machine, pair.service
    assert not service.commands
    assert not service.messages
    assert not machine.taken.inbox
    assert not pair.pauses
    assert all(replacement._settled.is_set() for replacement in pair.replacements)
    if machine.is_over:
        assert service.served is None, "nobody has left it"
        return
    assert (machine.state, machine.proof, machine.is_owed) == (State.LIVE, Proving.NONE, False)
    assert service.served is not None
    assert (service.served.machine.state, service.served.proofs) == (ServiceState.LIVE, [])
    assert service.served.request.filter == machine.ask.filter
    if pair.has_all:
        assert machine.bookmark is not None
        assert pair.held == hash_of(matching(machine.ask.filter, service.now))
