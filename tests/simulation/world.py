"""The world of one seed: made, disturbed and brought to rest."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from sowline.config.topics import Topics, parse_topics
from sowline.native import Core
from tests.property.document_model import CONDITIONS
from tests.simulation import definitions, leaders, strands
from tests.simulation.broker import Broker, Group, Written
from tests.simulation.definitions import TEMPLATES, DefinitionPlay
from tests.simulation.disk import Disks
from tests.simulation.fanouts import FILTER, Fanouts
from tests.simulation.gateways import GATEWAY_FAULTS, SHARE, Gateways, Layout
from tests.simulation.harness import BEGIN_MS, CORES, LAG_MS, Loop
from tests.simulation.leaders import LeaderPlay
from tests.simulation.mishaps import FAULTS, UNFORESEEN, UNFORESEEN_SHARE, Mishaps
from tests.simulation.process import Process
from tests.simulation.publishers import DocumentPublishers, Publishers
from tests.simulation.rest import come_to_rest
from tests.simulation.schemas import PROTOBUF_SHARE, TYPED_SHARE, SchemaPlay, TypedPublishers
from tests.simulation.services import QueryService, Worker
from tests.simulation.subscriber import Served, Subscriber, Wish
from tests.simulation.trace import Trace
from tests.simulation.truth import Truth, Untrue
from tests.simulation.unforeseen import Unforeseen
from tests.waiting import loop_turns

DOCUMENTS_SHARE = 0.25
"""Of the seeds: those whose topic is one of documents."""

SUPPLIED_SHARE = 0.2
"""Of the seeds, how many are of a topic whose publishers give the keys, hostile ones."""

DOCUMENTS = ", documents: true, history_ttl: 15s, record_bytes_max: 250"
"""What its definition has beside the rest. By ten seconds of compaction's lag the broker's clock may go back."""


class Simulation:
    """The world of one seed."""

    def __init__(
        self,
        seed: int,
        steps: int,
        loop: Loop,
        faults: frozenset[str] | None = None,
        cores: Sequence[Core] = CORES,
        has_gateways: bool | None = None,
        is_typed: bool | None = None,
    ) -> None:
        self.seed = seed
        self._cores = cores
        self.steps = steps
        self.loop = loop
        self.chance = self.chance_of("world")
        self.mishaps = Mishaps(self)
        some = frozenset(fault for fault in FAULTS if self.chance_of("faults " + fault).random() < 0.4)
        if self.chance_of("faults unforeseen").random() < UNFORESEEN_SHARE:
            some |= {UNFORESEEN}
        self.faults = some if faults is None else faults - frozenset(GATEWAY_FAULTS)
        self.unforeseen = Unforeseen(self.chance_of("unforeseen"))
        self.trace = Trace(lambda: (self.step, self.now() - BEGIN_MS))
        self.step = 0
        self._creep = 0.0
        self._slow = self.chance_of("slow")
        if has_gateways is None:
            has_gateways = self.chance_of("has gateways").random() < SHARE
        layout = Layout.of(self.chance_of("layout")) if has_gateways else None
        partitions = self.chance.choice((1, 1, 2, 3)) if layout is None else layout.partitions
        window = self.chance.choice(("5s", "7d"))
        has_documents = not is_typed and self.chance_of("documents").random() < DOCUMENTS_SHARE
        is_supplied = not is_typed and self.chance_of("keys").random() < SUPPLIED_SHARE
        if is_typed is None:
            is_typed = (
                not has_documents
                and not is_supplied
                and self.chance_of("message type").random() < TYPED_SHARE
            )
        has_protobuf = self.chance_of("protobuf").random() < PROTOBUF_SHARE
        self.typed = SchemaPlay(self, has_protobuf) if is_typed else None
        key = "{from: kafka_key}" if is_supplied else "/id"
        self._defined = (
            f"name: orders, key: {key}, partitions: {partitions}, expiration: enabled,"
            f" repeat_window: {window}, resume_window: {LAG_MS // 1000}s"
            f"{DOCUMENTS if has_documents else ''}"
        )
        template = TEMPLATES[0] if has_documents else ""
        self.topics = self._topics_with(template if self.typed is None else self.typed.yaml)
        self.definition = self.topics.topics[0]
        self.truth = Truth(self.definition, lambda: self.broker)
        self.broker = Broker(self.chance_of("broker"), self.now, self._on_append)
        for name, count in (
            (self.definition.log, partitions),
            (self.definition.changes, partitions),
            (self.definition.kafka.dead, 1),
        ):
            self.broker.make(name, count)
        if self.typed is not None:
            self.broker.make(self.definition.kafka.schema_log, partitions)
        self.output = self.topics.fanouts[0].output
        self.broker.make(self.output, partitions)
        self.broker.without_holes.add(self.output)
        partition_ids = [(self.definition.log, number) for number in range(partitions)]
        self.group = Group(self.chance_of("group"), partition_ids)
        self.processes: dict[str, Process] = {}
        self.disks = Disks(self.processes, self._on_commit)
        workers = self.chance.choice((1, 1, 2, 3))
        # Seeds with gateways have less of the rest, which takes most of the time of a run.
        workers = workers if layout is None else min(2, workers)
        self.workers = [self._worker(number) for number in range(workers)]
        self.gateways = None if layout is None else Gateways(self, layout, faults)
        if self.gateways is None:
            self.services = [self.new_service(number) for number in range(self.chance.choice((1, 2)))]
            self.subscribers = [self.new_subscriber(number) for number in range(self.chance.randint(1, 4))]
        else:
            self.services, self.subscribers = self.gateways.nodes, self.gateways.new_clients()
        self.fanouts = Fanouts(self)
        self.plays: list[SchemaPlay | DefinitionPlay | LeaderPlay] = (
            [] if self.typed is None else [self.typed]
        )
        # Without the changes, an owner applies what is before the first `define` by the limits of its own definition.
        # A power cut may take all changes of a partition as well (seed 146).
        is_kept = self.faults.isdisjoint({"changes loss", "power cut"})
        share = definitions.DOCUMENTS_SHARE if has_documents else definitions.SHARE
        if self.typed is None and is_kept and self.chance_of("definitions").random() < share:
            self.plays.append(DefinitionPlay(self, self.chance_of("changed definitions")))
        # A partition that is first opened after a definition has changed is applied by that from its beginning.
        elif faults is None and self.chance_of("leaders").random() < leaders.SHARE:
            self.plays.append(LeaderPlay(self, self.chance_of("lost leaders")))
        self.ring = self.chance.choice((3, 8, 1000))
        publishers = (
            DocumentPublishers if has_documents else Publishers if self.typed is None else TypedPublishers
        )
        self.publishers = publishers(self.chance_of("publishers"), self.definition, self.broker)
        self.wakes: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self._background_error: BaseException | None = None
        loop.set_exception_handler(self._on_exception)

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Keep what was raised where nobody waits for it."""
        self._background_error = (
            self._background_error or context.get("exception") or Untrue(context["message"])
        )

    def chance_of(self, name: str) -> Random:
        """Return the dice of a part of the world: what one part takes shifts no other."""
        return Random(f"{self.seed} {name}")

    def _topics_with(self, more: str) -> Topics:
        """Return the definitions, with more of the topic's fields."""
        return parse_topics(
            f"topics: [{{{self._defined}{more}}}]\n"
            f'fanouts: [{{name: some, topic: orders, filter: "{FILTER}", options: "oof"}}]'
        )

    def _worker(self, number: int) -> Worker:
        name = f"worker-{number}"
        batch = self.chance.choice((1, 4, 50))
        core = self.chance_of(f"core {name}").choice(self._cores)
        worker = Worker(
            name, self.chance_of(name), self.broker, self.group, self.trace, self.disks, batch, core
        )
        if "skew" in self.faults:
            worker.skew = self.chance.randint(-20_000, 20_000)
        self.processes[name] = worker
        return worker

    def new_service(self, number: int) -> QueryService:
        """Return a query service that has not started."""
        name = f"service-{number}"
        core = self.chance_of(f"core {name}").choice(self._cores)
        snapshots = self.chance_of(f"snapshots {name}")
        service = QueryService(
            name, self.chance_of(name), self.broker, self.trace, self.truth, core, snapshots
        )
        self.processes[name] = service
        return service

    def new_subscriber(
        self, number: int, kind: type[Subscriber] = Subscriber, like: Subscriber | None = None
    ) -> Subscriber:
        """Return a subscriber; it may ask for the same as another one."""
        chance = self.chance_of(f"client-{number}")
        filter = chance.choice(("1=1", "/q > 5", "/q IN (1,2,3)", "/r = 'n' AND NOT /q < 4"))
        oof, delta, conflation, reset = (chance.random() < share for share in (0.7, 0.4, 0.2, 0.5))
        wish = Wish(filter, oof, delta, conflation, reset)
        if self.definition.documents:
            condition = chance.choice(list(CONDITIONS))
            no_redundant, intrinsics = (chance.random() < share for share in (0.3, 0.3))
            wish = wish._replace(condition=condition, no_redundant=no_redundant, intrinsics=intrinsics)
        wish = wish if like is None else like.wish
        return kind(f"client-{number}", wish, self.truth, chance, self.trace, self.definition.name)

    @property
    def all_faults(self) -> frozenset[str]:
        """What can go wrong, with the gateways too."""
        return self.faults if self.gateways is None else self.faults | self.gateways.faults

    # time, and what is written down

    def now(self) -> int:
        """Return the time, in ms since 1970."""
        return BEGIN_MS + int(self.loop.time() * 1000)

    def monotonic(self) -> float:
        """Return the time in seconds; now and then a step takes long."""
        if "slow steps" in self.faults and self._slow.random() < 0.03:
            self._creep += 0.03
        return self.loop.time() + self._creep

    def time_ns(self) -> int:
        """Return the time by the clock of the process that asks."""
        for process in self.processes.values():
            if process.strand is not None and process.strand is strands.Strand.current:
                return (self.now() + process.skew) * 1_000_000
        return self.now() * 1_000_000

    def _on_append(self, written: Written) -> None:
        number = written.partition_id[1]
        about = dict(written.about or [])
        headers = {name: value.decode() for name, value in about.items() if value and name != "sow.previous"}
        self.trace(
            "  ", f"{written.partition_id[0]}[{number}]@{written.at}", written.name, written.body, headers
        )
        self.trace.note("written", written=written, by=self.broker.writer)
        if written.partition_id[0] == self.output:
            self.fanouts.reader.take(written)
        else:
            if self.typed is not None and written.partition_id[0] == self.definition.kafka.schema_log:
                self.typed.check_entry(written)
            self.truth.written(written)

    def _on_commit(self, path: Any, store: Any) -> None:
        self.truth.committed(path, store)

    # the run

    async def run(self) -> None:
        """Do all steps, then bring everything to rest."""
        try:
            for worker in self.workers:
                worker.start(self.topics)
            for service in self.services:
                self.start_service(service)
            if self.gateways is None:
                self.fanouts.start()
            else:
                self.gateways.start()
            for step in range(self.steps):
                self.step = step
                await self._step()
            await come_to_rest(self)
        finally:
            for subscriber in self.subscribers:
                subscriber.disconnect()
            if self.gateways is not None:
                self.gateways.stop()
            for process in self.processes.values():
                process.kill()

    def start_service(self, service: QueryService) -> None:
        """Start a query service."""
        service.start(self.topics, self.ring, lambda _: None)

    async def _step(self) -> None:
        chance = self.chance
        if chance.random() < 0.5:
            self.publishers.publish(chance.choice((1, 1, 2, 5)))
        for play in self.plays:
            play.step()
        if "holes" in self.faults:
            self.broker.has_holes = True
        if self.faults and chance.random() < 0.2:
            await self.mishaps.go_wrong(chance.choice(sorted(self.faults)))
        self.mishaps.recover()
        await self._take_turns(chance.randint(1, 4))
        if self.gateways is None:
            self.fanouts.take_turns()
        else:
            await self.gateways.take_turns()
        await self.loop.tick(chance.choice((1, 10, 50, 200, 1000)))
        self.check_background()

    def check_background(self) -> None:
        """Raise what was raised where nobody waits for it."""
        if self._background_error is not None:
            raise self._background_error

    async def _take_turns(self, turns: int) -> None:
        for _ in range(turns):
            await self.pass_some()
            kind = self.chance.random()
            if kind < 0.4:
                self.chance.choice(self.workers).turn()
            elif kind < 0.7:
                await self.serve(self.chance.choice(self.services))
            else:
                await self.use(self.chance.choice(self.subscribers))

    async def pass_some(self) -> None:
        """Let what runs in the loop come a little further, or to its rest."""
        if self.broker.is_calm or self.chance.random() < 0.6:
            await self.loop.rest()
        else:
            for _ in range(self.chance.randrange(12)):
                if self.chance.random() < 0.3:
                    self.chance.choice(self.services).turn()
                await loop_turns()

    async def serve(self, service: QueryService) -> None:
        """Let a query service do something."""
        if service.is_stalled:
            return
        for _ in range(self.chance.choice((1, 1, 2, 4))):
            service.turn()
            await self.pass_some()
            service.take_snapshots()
        service.check_whole()
        if service.state.broken:
            self.end_service(service)
        elif not service.is_dead and self.chance.random() < 0.1:
            await service.tell_progress()

    def end_service(self, service: QueryService) -> None:
        """End a query service."""
        self.trace(service.name, "ends", service.state.broken)
        service.stop()
        for subscriber in self.subscribers:
            if subscriber.service is service:
                subscriber.disconnect()

    async def use(self, subscriber: Subscriber) -> None:
        """Let a client do something."""
        if not subscriber.is_connected:
            alive = self._entrances()
            if alive:
                subscriber.connect(self.chance.choice(alive))
        await self.pass_some()
        slow = "slow client" in self.faults and self.chance.random() < 0.6
        await subscriber.receive(0 if slow else self.chance.choice((1, 2, 10)))
        subscriber.ask_again()
        await subscriber.read(self.chance.choice((1, 3, 100)))

    def _entrances(self) -> Sequence[Served]:
        """Return what clients can connect to."""
        if self.gateways is not None:
            return self.gateways.entrances()
        return [service for service in self.services if not service.is_dead]

    def define(self, more: str) -> None:
        """Let what starts from here on read other fields of the topic's definition."""
        self.topics = self._topics_with(more)
        self.truth.declared.append(self.topics.topics[0].limits)
