"""Gateways of the simulation: real ones, over a network that is played, in front of query services with shards."""

import asyncio
import contextlib
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import orjson

from sowline.config.credentials import Credentials
from sowline.config.shard import Shard
from sowline.config.topics import Topics
from sowline.serving.access.login_session import LoginSession
from sowline.serving.authorization.entitlements import EVERYTHING
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.result import QueryLimits
from sowline.serving.sessions.session import Session
from sowline_gateway.context import GatewayContext
from sowline_gateway.nodes.announcements import Announcements
from sowline_gateway.nodes.connections import NodeLost
from sowline_gateway.nodes.http import NodeHttp
from sowline_gateway.nodes.node_set import NodeSet
from sowline_gateway.server.commands import GatewayCommands
from sowline_query_service.server.http_api import HttpApi
from tests.simulation.gateway_clients import GatewaySubscriber, Viewer
from tests.simulation.network import Network, PlayedPool
from tests.simulation.services import QueryService
from tests.simulation.subscriber import Subscriber
from tests.waiting import pace

if TYPE_CHECKING:
    from tests.simulation.world import Simulation

SHARE = 0.1
"""Of the seeds: those with shards and gateways."""

NODES_MAX = 5

GATEWAY_FAULTS = (
    "gateway crash",
    "cut connections",
    "freeze",
    "lag",
    "reshard",
    "unreachable node",
    "late announcements",
)
"""What can go wrong beside the rest; a seed takes some of it."""

LATE_SECONDS = (0.3, 1.0, 1.9)


class Layout(NamedTuple):
    """What a seed has: numbers of partitions, of shards, of replicas of each, and of gateways."""

    partitions: int
    shards: int
    replicas: int
    gateways: int

    @classmethod
    def of(cls, chance: Random) -> "Layout":
        """Return the layout of a seed."""
        shards, replicas = chance.choice(((1, 2), (2, 1), (2, 1), (2, 2), (2, 2), (3, 1), (3, 1)))
        return cls(chance.choice((1, 2, 3, 3, 4)), shards, replicas, chance.choice((1, 1, 2)))

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.shards * self.replicas


class PlayedAnnouncements:
    """What `Announcements` uses of `NodeHttp`: it returns what the HTTP API of the nodes returns."""

    def __init__(self, gateway: str, chance: Random, network: Network, faults: frozenset[str]) -> None:
        self._gateway = gateway
        self._chance = chance
        self._network = network
        self._faults = faults

    async def ask_announcement(self, url: str, seconds_max: float) -> bytes:
        """Return what a node answers; raise `NodeLost`."""
        node = self._network.node_at(url, self._gateway)
        if node is None:
            raise NodeLost("refused")
        is_late = "late announcements" in self._faults and not self._network.is_calm
        if node.is_stalled or (is_late and self._chance.random() < 0.2):
            await pace(seconds_max)
            raise NodeLost("late")
        answer = announced(node)
        if is_late and self._chance.random() < 0.5:
            await pace(self._chance.choice(LATE_SECONDS))
        return answer


def announced(node: QueryService) -> bytes:
    """Return what a node answers to a GET of its topics."""
    api = HttpApi(cast("Any", None), node.context, cast("Any", None), cast("Any", None))
    described = api._described(list(node.state.topics), EVERYTHING)
    return orjson.dumps({"shard": str(node.held_shard), "topics": described})


class PlayedGateway:
    """A gateway: the real commands, announcements and routing, without its HTTP server."""

    def __init__(
        self, name: str, chance: Random, trace: Any, topics: Topics, network: Network, faults: frozenset[str]
    ) -> None:
        self.name = name
        self.is_dead = True
        self._chance = chance
        self._trace = trace
        self._topics = topics
        self._network = network
        self._http = cast("Any", PlayedAnnouncements(name, chance, network, faults))
        self._tasks: list[asyncio.Task[None]] = []
        self.sessions: dict[Session, None] = {}

    def start(self) -> None:
        """Start the process, which knows nothing of the one before."""
        self._trace(self.name, "starts")
        self.is_dead = False
        announcements = Announcements(self._network.urls, self._http)
        definitions = {topic.name: topic for topic in self._topics.topics}
        pool = PlayedPool(self._network, self.name)
        nodes = NodeSet(definitions, announcements, pool, Random(self._chance.random()))
        self.context = GatewayContext.of(nodes, NodeHttp(Credentials()), QueryLimits(), {})
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(announcements._follow(url)) for url in self._network.urls]

    def new_session(self, outbox: Outbox, login: LoginSession | None = None) -> Session:
        """Return the session of a client that has connected."""
        login = login or LoginSession()
        session = Session(GatewayCommands(self.context, outbox, login), outbox, login)
        self.sessions[session] = None
        return session

    def end_session(self, session: Session) -> None:
        """End the session of a client that has gone."""
        session.close()
        self.sessions.pop(session, None)

    def stop(self) -> None:
        """End the process and its connections."""
        self.is_dead = True
        for task in self._tasks:
            task.cancel()
        for session in list(self.sessions):
            self.end_session(session)
        self._network.gateway_ends(self.name)
        self._trace.note("stop", by=self.name)

    def failed(self) -> BaseException | None:
        """Return what has ended following the nodes."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                return task.exception()
        return None


class Gateways:
    """The gateways of a simulation, its nodes, and what goes wrong with both.

    It takes its luck from a generator of its own, as the fanout does.
    """

    def __init__(self, simulation: "Simulation", layout: Layout, faults: frozenset[str] | None) -> None:
        self._world = simulation
        self._chance = simulation.chance_of("gateways' luck")
        some = frozenset(
            fault for fault in GATEWAY_FAULTS if simulation.chance_of("faults " + fault).random() < 0.4
        )
        self.faults = some if faults is None else faults & frozenset(GATEWAY_FAULTS)
        self.nodes = [simulation.new_service(number) for number in range(layout.nodes)]
        self._layout = [Shard(number % layout.shards, layout.shards) for number in range(layout.nodes)]
        """The shard that each node is to hold."""
        for node, shard in zip(self.nodes, self._layout, strict=True):
            node.shard = shard
        self.network = Network(simulation.chance_of, simulation.trace, self.nodes)
        self.gateways = [
            PlayedGateway(
                f"gateway-{number}",
                simulation.chance_of(f"gateway-{number}"),
                simulation.trace,
                simulation.topics,
                self.network,
                self.faults,
            )
            for number in range(layout.gateways)
        ]
        self._until: dict[str, int] = {}
        """The step at which what goes wrong with a node, or with a pair, ends."""

    def start(self) -> None:
        """Start the gateways."""
        for gateway in self.gateways:
            gateway.start()

    def entrances(self) -> list[PlayedGateway]:
        """Return the gateways that clients can connect to."""
        return [gateway for gateway in self.gateways if not gateway.is_dead]

    async def take_turns(self) -> None:
        """Let nodes, gateways and clients run a little, and something go wrong."""
        chance, world = self._chance, self._world
        if self.faults and chance.random() < 0.25:
            self._go_wrong(chance.choice(sorted(self.faults)))
        self.recover()
        for _ in range(chance.randint(1, 2 * len(self.nodes))):
            await world.pass_some()
            if chance.random() < 0.6:
                await world.serve(chance.choice(self.nodes))
            else:
                await world.use(chance.choice(world.subscribers))
        for gateway in self.gateways:
            if (error := gateway.failed()) is not None:
                raise error

    # what goes wrong

    def _go_wrong(self, fault: str) -> None:
        chance, world, node = self._chance, self._world, self._chance.choice(self.nodes)
        gateway = chance.choice(self.gateways)
        until = world.step + chance.randint(2, 25)
        world.counts[fault] = world.counts.get(fault, 0) + 1
        world.trace("fault:", fault, gateway.name, node.name)
        match fault:
            case "gateway crash":
                self._end_gateway(gateway)
            case "cut connections":
                self.network.cut(gateway.name, node, chance)
            case "freeze" if not node.is_dead:
                node.is_stalled = True
                self._until[node.name] = until
            case "lag" if not node.is_dead:
                node.is_lagging = True
                self._until[node.name] = until
            case "reshard":
                self._reshard()
            case "unreachable node":
                self.network.cut_off.add((gateway.name, node.name))
                self.network.cut(gateway.name, node, chance)
                self._until[f"{gateway.name} {node.name}"] = until

    def _end_gateway(self, gateway: PlayedGateway) -> None:
        if gateway.is_dead:
            return
        gateway.stop()
        for subscriber in self._world.subscribers:
            if subscriber.service is gateway:
                subscriber.disconnect()

    def _reshard(self) -> None:
        """Let the nodes hold shards of another number, from their next start on; they start again one by one."""
        chance, count = self._chance, len(self.nodes)
        shards = chance.choice([number for number in (1, 2, 3) if number <= count])
        self._layout = [Shard(number % shards, shards) for number in range(count)]
        chance.shuffle(self._layout)
        self._world.trace("the shards shall be", *self._layout)

    def recover(self) -> None:
        """Let what is wrong end, sooner or later."""
        chance, world = self._chance, self._world
        for node, shard in zip(self.nodes, self._layout, strict=True):
            is_over = self.network.is_calm or self._until.get(node.name, 0) <= world.step
            if is_over and (node.is_stalled or node.is_lagging):
                world.trace(node.name, "goes on")
                node.is_stalled = node.is_lagging = False
            node.shard = shard
            is_other = node.held_shard != shard and not node.is_dead
            if is_other and (self.network.is_calm or chance.random() < 0.2):
                world.end_service(node)
        for gateway in self.gateways:
            if gateway.is_dead and (self.network.is_calm or chance.random() < 0.2):
                gateway.start()
        for pair in sorted(self.network.cut_off):
            if self.network.is_calm or self._until.get(" ".join(pair), 0) <= world.step:
                self.network.cut_off.discard(pair)

    def become_calm(self) -> None:
        """Let nothing more go wrong."""
        self.network.is_calm = True
        for client in self._world.subscribers:
            assert isinstance(client, GatewaySubscriber)
            client.inquiries.is_answered = False
        self.recover()

    def new_clients(self) -> list[Subscriber]:
        """Return the clients of the gateways."""
        make, chance = self._world.new_subscriber, self._chance
        first: list[Subscriber] = [make(0, GatewaySubscriber), make(1, Viewer)]
        others = chance.choice((0, 1, 1, 2))
        # Clients that ask for the same may share what the gateway asks of the nodes.
        return first + [
            make(2 + number, type(one), one if chance.random() < 0.5 else None)
            for number, one in enumerate(chance.sample(first, others))
        ]

    def unrest(self) -> list[str]:
        """Return what has not come to rest yet."""
        found = [gateway.name for gateway in self.gateways if gateway.is_dead]
        shards = zip(self.nodes, self._layout, strict=True)
        found += [f"{node.name} is not {shard}" for node, shard in shards if node.held_shard != shard]
        for client in self._world.subscribers:
            assert isinstance(client, GatewaySubscriber)
            if not client.inquiries.is_answered:
                found.append(f"{client.name} has no answer")
        return found

    def stop(self) -> None:
        """End all gateways."""
        for gateway in self.gateways:
            with contextlib.suppress(RuntimeError):
                gateway.stop()
