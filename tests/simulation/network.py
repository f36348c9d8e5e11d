"""The network between gateways and nodes, without sockets: frames take their time, stay in flight, and get lost.

What a gateway has of it is what `NodeConnection` uses of a WebSocket. The node has a real session at the other end.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple, cast

from websockets.exceptions import ConnectionClosedError
from websockets.protocol import State

from sowline.config.credentials import Credentials
from sowline.serving.access.login_session import LoginSession
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.authorization.identity import ANYBODY
from sowline.serving.outbox.outbox import Outbox
from sowline.wire.server_message import join_frame
from sowline_gateway.nodes.connections import CONNECT_SECONDS_MAX, ConnectionPool, NodeConnection, NodeLost
from tests.simulation.services import QueryService
from tests.simulation.truth import hold
from tests.waiting import loop_turns, pace

LOOK_SECONDS = 0.1
"""How often what waits for a frozen node looks whether it runs again."""


class Delays(NamedTuple):
    """How long frames take, in ms: one of `usual`, and with a small chance one of `long`."""

    usual: tuple[int, ...]
    long: tuple[int, ...] = ()

    def seconds(self, chance: Random) -> float:
        """Return how long the next frame takes."""
        some = self.long if self.long and chance.random() < 0.05 else self.usual
        return chance.choice(some) / 1000


AT_ONCE = Delays((0,))
NETWORKS = (AT_ONCE, Delays((0, 0, 0, 1, 10)), Delays((0, 5, 40), (700, 2500)))
"""Networks that a connection may go over."""


class Wire:
    """One direction of a connection: frames arrive in order, None is its end. `is_held` holds everything up."""

    def __init__(
        self,
        chance: Random,
        delays: Callable[[], Delays],
        is_held: Callable[[], bool],
        arrived: Callable[[bytes | None], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._chance = chance
        self._delays = delays
        self._is_held = is_held
        self._arrived = arrived
        self._in_flight: deque[tuple[float, bytes | None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._last = 0.0

    def __len__(self) -> int:
        return len(self._in_flight)

    def send(self, frame: bytes | None) -> None:
        """Let a frame go."""
        self._last = max(self._last, self._loop.time() + self._delays().seconds(self._chance))
        self._in_flight.append((self._last, frame))
        if self._timer is None:
            self._timer = self._loop.call_at(self._last, self._deliver)

    def _deliver(self) -> None:
        self._timer = None
        if self._is_held():
            self._timer = self._loop.call_later(LOOK_SECONDS, self._deliver)
            return
        # The loop calls a timer up to a nanosecond before it is due.
        now = self._loop.time() + 1e-8
        while self._in_flight and self._in_flight[0][0] <= now:
            self._arrived(self._in_flight.popleft()[1])
        if self._in_flight and self._timer is None:
            self._timer = self._loop.call_at(self._in_flight[0][0], self._deliver)

    def lose(self) -> None:
        """Lose what is in flight."""
        self._in_flight.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class PlayedSocket:
    """The gateway's end of a connection to a node, and the node's session at the other end."""

    def __init__(
        self, number: int, name: str, node: QueryService, rights: Rights, network: "Network"
    ) -> None:
        self.name = name
        self.node = node
        self.state = State.OPEN
        self.transport = self
        self._network = network
        self._chance = chance = network.chance_of(name)
        self._delays = chance.choice(NETWORKS)
        # Things that a set of connections has in common happen in the order of these numbers, not of their addresses.
        self._turn_seconds = number * 1e-6
        self._window = chance.choice((1, 2, 20))
        """Frames that may be in flight to the gateway, or wait there, before the node has to wait."""
        self._is_read = False
        self._arrived: deque[bytes] = deque()
        self._news, self._room, self._asked = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._requests: deque[bytes] = deque()
        self._to_node = Wire(chance, self._current_delays, self._is_held, self._at_node)
        self._to_gateway = Wire(chance, self._current_delays, self._is_held, self._at_gateway)
        self._outbox = Outbox(chance.choice((300, 3000, 1 << 20)))
        login = LoginSession(ANYBODY.acting_with(rights))
        self._session = node.new_session(self._outbox, login)
        node.sockets[self] = None
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._read()), loop.create_task(self._write())]

    def _current_delays(self) -> Delays:
        return AT_ONCE if self._network.is_calm else self._delays

    def _is_held(self) -> bool:
        return self.node.is_stalled

    # the node's end

    async def _read(self) -> None:
        """Do what the WebSocket endpoint does with what it is sent."""
        while True:
            while not self._requests:
                self._asked.clear()
                await self._asked.wait()
            await self._session.receive(self._requests.popleft())
            await self._outbox.wait_room()

    async def _write(self) -> None:
        """Do what the WebSocket endpoint does with the messages of the session."""
        while True:
            self._to_gateway.send(join_frame(await self._outbox.take()))
            while len(self._to_gateway) + len(self._arrived) >= self._window:
                self._room.clear()
                await self._room.wait()

    def _at_node(self, frame: bytes | None) -> None:
        if frame is None:
            self._end_node()
        else:
            self._requests.append(frame)
            self._asked.set()

    def _end_node(self) -> None:
        if self in self.node.sockets:
            del self.node.sockets[self]
            for task in self._tasks:
                task.cancel()
            self.node.end_session(self._session)

    def lose_node(self) -> None:
        """The node has ended. The gateway hears of it after what is in flight, or without that."""
        self._end_node()
        if self._chance.random() < 0.5:
            self._to_gateway.lose()
        self._to_gateway.send(None)

    # the gateway's end

    def _at_gateway(self, frame: bytes | None) -> None:
        if frame is None:
            self._lose(keep=self._chance.random() < 0.5)
        elif self.state is State.OPEN:
            self._arrived.append(frame)
            self._news.set()

    def _lose(self, *, keep: bool) -> None:
        """Be of no use any more; frames that have arrived may still be read, or not."""
        if self.state is State.OPEN:
            self.state = State.CLOSED
            if not keep:
                self._arrived.clear()
            asyncio.get_running_loop().call_later(self._turn_seconds, self._news.set)

    async def send(self, request: bytes, text: bool | None = None) -> None:
        """Send a frame to the node."""
        if self.state is not State.OPEN:
            raise ConnectionClosedError(None, None)
        self._to_node.send(request)

    async def recv(self, decode: bool | None = None) -> bytes:
        """Return the next frame of the node."""
        hold(not self._is_read, self.name, "is read by two at once")
        self._is_read = True
        try:
            while not self._arrived:
                if self.state is not State.OPEN:
                    raise ConnectionClosedError(None, None)
                self._news.clear()
                await self._news.wait()
        finally:
            self._is_read = False
        frame = self._arrived.popleft()
        self._room.set()
        return frame

    async def close(self) -> None:
        """End the connection."""
        self.vanish()
        await loop_turns()

    def abort(self) -> None:
        """End the connection without a goodbye."""
        self.vanish()

    def vanish(self) -> None:
        """End the gateway's end; the node hears of it later."""
        self._lose(keep=False)
        self._to_gateway.lose()
        if self in self.node.sockets:
            self._to_node.send(None)
            self._room.set()


class Network:
    """Who can reach whom, and all connections."""

    def __init__(self, chance_of: Callable[[str], Random], trace: Any, nodes: list[QueryService]) -> None:
        self.chance_of = chance_of
        self.is_calm = False
        self.cut_off: set[tuple[str, str]] = set()
        """Pairs of a gateway and a node that can't reach each other."""
        self._trace = trace
        self._nodes = {url_of(node): node for node in nodes}
        self._sockets = 0

    @property
    def urls(self) -> list[str]:
        """The URLs of all nodes."""
        return list(self._nodes)

    def node_at(self, url: str, gateway: str) -> QueryService | None:
        """Return the node with a URL, if it runs and the gateway can reach it."""
        node = self._nodes[url]
        return None if node.is_dead or (gateway, node.name) in self.cut_off else node

    async def connect(self, url: str, gateway: str, rights: Rights) -> PlayedSocket:
        """Connect a gateway with a node; raise `NodeLost`."""
        self._sockets += 1
        number = self._sockets
        name = f"{gateway} to {self._nodes[url].name} ({number})"
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CONNECT_SECONDS_MAX
        await pace(0 if self.is_calm else self.chance_of(name).choice((0, 0, 0, 0.02, 0.3)))
        while (node := self.node_at(url, gateway)) is not None and node.is_stalled:
            if loop.time() > deadline:
                raise NodeLost(f"{url}: no answer")
            await pace(LOOK_SECONDS)
        if node is None:
            raise NodeLost(f"{url}: refused")
        self._trace("connection of", name)
        return PlayedSocket(number, name, node, rights, self)

    def cut(self, gateway: str, node: QueryService, chance: Random) -> None:
        """Cut some connections of a gateway to a node."""
        for socket in list(node.sockets):
            if socket.name.startswith(f"{gateway} ") and chance.random() < 0.7:
                self._trace("cut:", socket.name)
                socket.vanish()

    def gateway_ends(self, gateway: str) -> None:
        """End all connections of a gateway that is no more."""
        for node in self._nodes.values():
            for socket in list(node.sockets):
                if socket.name.startswith(f"{gateway} "):
                    socket.vanish()


class PlayedPool(ConnectionPool):
    """The connections of a gateway, over the network that is played."""

    def __init__(self, network: Network, gateway: str) -> None:
        super().__init__(Credentials())
        self._network = network
        self._gateway = gateway

    async def connect(self, url: str, rights: Rights) -> NodeConnection:
        """Return a new connection."""
        return NodeConnection(url, cast("Any", await self._network.connect(url, self._gateway, rights)))


def url_of(node: QueryService) -> str:
    """Return the URL of a node."""
    return f"http://{node.name}:8080"
