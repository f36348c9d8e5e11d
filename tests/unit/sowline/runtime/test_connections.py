"""Which connections there may be, and which are closed for new ones; how descriptors are shared out."""

import resource
import subprocess
import sys
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sowline.runtime.connections import Connection, Connections, longest_waiting
from sowline.runtime.descriptors import RESERVE_MIN, Budget, Spares, in_use, share_out


@given(st.integers(0, 1 << 20), st.integers(1, 100_000), st.integers(1, 256))
def test_a_limit_is_shared_out(limit: int, sessions_max: int, cores: int) -> None:
    """Connections leave at least the reserve free, and sessions leave connections for requests."""
    budget = share_out(limit, sessions_max, cores)
    assert 0 <= budget.sessions <= sessions_max
    assert budget.sessions + budget.requests <= budget.connections
    assert budget.readers >= 2
    if budget.sessions:
        assert budget.connections <= limit - RESERVE_MIN
        assert budget.readers <= 32


@pytest.mark.parametrize(
    ("limit", "sessions"), [(64, 0), (128, 16), (256, 96), (1024, 384), (4096, 2816), (20_000, 10_000)]
)
def test_sessions_of_a_limit(limit: int, sessions: int) -> None:
    """As the page of faults has it."""
    assert share_out(limit, 10_000).sessions == sessions


@pytest.mark.parametrize(("soft", "hard", "raised"), [(64, 300, 300), (300, 300, 300), (64, 64, 64)])
def test_the_soft_limit_is_raised_to_the_hard_one(soft: int, hard: int, raised: int) -> None:
    """Whatever it was."""

    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    program = "from sowline.runtime.descriptors import raise_limit; print(raise_limit())"
    done = subprocess.run([sys.executable, "-c", program], preexec_fn=lower, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{raised}\n", "")


def test_spares() -> None:
    """They are descriptors, given up one by one and taken again."""
    before = in_use() or 0
    spares = Spares(2)
    assert (in_use() or 0) - before == 2
    for left in (1, 0, 0):
        spares.give_up()
        assert (in_use() or 0) - before == left
    spares.refill()
    assert (in_use() or 0) - before == 2
    spares.close()
    spares.refill()
    assert in_use() == before


@dataclass
class ConnectionUse:
    """A connection that waits, or does not."""

    since: float
    is_waiting: bool


@given(st.lists(st.builds(ConnectionUse, st.floats(0, 100), st.booleans())))
def test_the_one_that_has_waited_longest(held: list[ConnectionUse]) -> None:
    """Of those that wait; none, if none does."""
    found = longest_waiting(held)
    waiting = [one.since for one in held if one.is_waiting]
    assert (None if found is None else found.since) == min(waiting, default=None)


@dataclass
class Socket:
    """A socket that counts as open until the loop has closed it."""

    number: int
    is_shut: bool = False
    is_closed: bool = False

    def fileno(self) -> int:
        """Return the descriptor."""
        return -1 if self.is_closed else self.number

    def shutdown(self, how: int) -> None:
        """Let it end."""
        self.is_shut = True

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        """Refuse: it is no socket of the kernel."""
        raise OSError


@dataclass(eq=False)
class Client:
    """A connection, and whether it waits for its client."""

    socket: Socket
    connection: Connection = field(init=False)
    waits: bool = True
    works: bool = False
    is_session: bool = False


BUDGET = Budget(100, 12, 4, 6, 2)


def test_one_that_gave_way_to_a_request_has_given_way() -> None:
    """A new connection finds its place also before the loop has closed that one."""
    connections = Connections(BUDGET)
    made = [connections.accept(Socket(number), float(number)) for number in range(BUDGET.connections)]
    assert all(one.begin_work() for one in made[:-1])
    for one in made[1:]:
        one.waits = lambda: False
    assert made[-1].begin_work(), "the first still waits for its body, and gives way"
    last = Socket(BUDGET.connections)
    connections.accept(last, 99.0)
    assert not last.is_shut


class Server(RuleBasedStateMachine):
    """Connections come, work, become sessions and go; shut ones are closed by the loop some time later."""

    @initialize()
    def begin(self) -> None:
        """Without any."""
        self.all = Connections(BUDGET)
        self.clients: list[Client] = []
        self.now = 0.0

    @property
    def open(self) -> list[Client]:
        """Those that have a descriptor and were not shut."""
        return [one for one in self.clients if not (one.socket.is_closed or one.socket.is_shut)]

    @rule()
    def come(self) -> None:
        """Take in a new one."""
        self.now += 1
        free = set(range(1000)) - {one.socket.number for one in self.clients if not one.socket.is_closed}
        client = Client(Socket(min(free)))
        client.connection = self.all.accept(client.socket, self.now)
        client.connection.waits = lambda: client.waits
        self.clients.append(client)
        assert not client.socket.is_shut, "one that waits has given way"

    @precondition(lambda self: any(not one.works and one.waits for one in self.open))
    @rule(data=st.data(), has_body=st.booleans())
    def ask(self, data: st.DataObject, has_body: bool) -> None:
        """Send a request; its body may be on its way."""
        client = data.draw(st.sampled_from([one for one in self.open if not one.works and one.waits]))
        client.works = client.connection.begin_work()
        client.waits = has_body if client.works else True

    @precondition(lambda self: any(one.works for one in self.open))
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        """Answer a request."""
        client = data.draw(st.sampled_from([one for one in self.open if one.works]))
        client.connection.end_work()
        client.works, client.waits = False, True

    @precondition(lambda self: any(one.works for one in self.open))
    @rule(data=st.data())
    def become_session(self, data: st.DataObject) -> None:
        """Let a handshake through, if there may be another session."""
        client = data.draw(st.sampled_from([one for one in self.open if one.works]))
        if self.all.sessions < BUDGET.sessions:
            client.connection.become_session()
            client.works, client.waits, client.is_session = False, False, True

    @precondition(lambda self: any(not one.socket.is_closed for one in self.clients))
    @rule(data=st.data(), is_notified=st.booleans())
    def go(self, data: st.DataObject, is_notified: bool) -> None:
        """Close one, shut or not; one without a protocol yet is not reported."""
        client = data.draw(st.sampled_from([one for one in self.clients if not one.socket.is_closed]))
        client.socket.is_closed = True
        if is_notified or client.works or client.is_session:
            client.connection.closed()

    @invariant()
    def open_connections_are_limited(self) -> None:
        """Besides those that are being closed; sessions and requests leave some for health."""
        if not hasattr(self, "clients"):
            return
        assert len(self.open) <= BUDGET.connections
        busy = [one for one in self.open if one.works or one.is_session]
        assert len(busy) <= BUDGET.connections - 1
        assert self.all.sessions == sum(one.is_session and not one.socket.is_closed for one in self.clients)


TestServer = Server.TestCase
