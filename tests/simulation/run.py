"""One run: a world made, disturbed and brought to rest by one seed."""

import asyncio
import gc
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import structlog

from sowline.config.topics import Topics, parse_topics
from sowline.native import Core
from sowline.runtime.native import native_core
from tests.property.clock import ClockLoop, at_once
from tests.property.document_model import CONDITIONS
from tests.simulation import clients, definitions, leaders, strands
from tests.simulation.broker import Broker, Group, Written
from tests.simulation.definitions import TEMPLATES, DefinitionPlay
from tests.simulation.disk import Disks
from tests.simulation.fanouts import FILTER, Fanouts
from tests.simulation.gateway_events import noted
from tests.simulation.gateways import GATEWAY_FAULTS, SHARE, Gateways, Layout
from tests.simulation.leaders import LeaderPlay
from tests.simulation.process import Process
from tests.simulation.publishers import DocumentPublishers, Publishers
from tests.simulation.schemas import PROTOBUF_SHARE, TYPED_SHARE, SchemaPlay, TypedPublishers
from tests.simulation.services import QueryService, Worker
from tests.simulation.subscriber import Served, Subscriber, Wish
from tests.simulation.trace import Trace
from tests.simulation.truth import Truth, Untrue, hold
from tests.simulation.unforeseen import Unforeseen
from tests.waiting import loop_turns

BEGIN_MS = 1_700_000_000_000
LAG_MS = 30_000
"""How long an event of the changes topic is safe from compaction here."""

DOCUMENTS_SHARE = 0.25
SUPPLIED_SHARE = 0.2
"""Of the seeds, how many are of a topic whose publishers give the keys, hostile ones."""
"""Of the seeds: those whose topic is one of documents."""

DOCUMENTS = ", documents: true, history_ttl: 15s, record_bytes_max: 250"
"""What its definition has beside the rest. By ten seconds of compaction's lag the broker's clock may go back."""

STEPS = 120
REST_ROUNDS_MAX = 1500
IDLE_ROUNDS_MAX = 300
"""Rounds of half a second each, of which an owner needs a dozen, unless it has just begun to begin again."""

TRACE_LINES = 60

CORES: Sequence[Core] = ("python", "native") if native_core(None) else ("python",)
"""The cores of the workers and the query services: one may take over from the other."""

FAULTS = (
    "crash",
    "stall",
    "stale",
    "rebalance",
    "power cut",
    "disk loss",
    "damage",
    "full disk",
    "refusal",
    "fatal",
    "redelivery",
    "skew",
    "broker clock",
    "holes",
    "foreign origins",
    "compaction",
    "changes loss",
    "service crash",
    "slow client",
    "vanish",
    "restart",
    "slow steps",
    "idle",
)
"""What can go wrong; a seed takes some of it."""

UNFORESEEN = "unforeseen"
UNFORESEEN_SHARE = 0.15
"""Of the seeds, in how many the materializers can't apply some records. They take time, until somebody looks."""


@dataclass
class Outcome:
    """What a run was like; `error` is what went wrong."""

    seed: int
    steps: int
    faults: frozenset[str]
    trace: list[str]
    error: BaseException | None
    counts: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        checkpoint = (
            f"seed {self.seed}, {self.steps} steps, faults: {', '.join(sorted(self.faults)) or 'none'}"
        )
        if self.error is None:
            return f"{checkpoint}: as it should be"
        return "\n".join(
            [checkpoint, *self.trace[-TRACE_LINES:], f"{type(self.error).__name__}: {self.error}"]
        )


class Loop(ClockLoop):
    """A loop whose strands call into it while it waits for them. It has no files to look at."""

    def __init__(self) -> None:
        super().__init__()
        self._selector.select = self._nothing  # type: ignore[attr-defined]

    @staticmethod
    def _nothing(timeout: float | None = None) -> list[Any]:
        assert timeout == 0, "expected something to do"
        return []

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """Call it in the loop; only one of loop and strands ever runs."""
        return self.call_soon(callback, *args, context=context)


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
        self.chance = self._chance("world")
        some = frozenset(fault for fault in FAULTS if self._chance("faults " + fault).random() < 0.4)
        if self._chance("faults unforeseen").random() < UNFORESEEN_SHARE:
            some |= {UNFORESEEN}
        self.faults = some if faults is None else faults - frozenset(GATEWAY_FAULTS)
        self.unforeseen = Unforeseen(self._chance("unforeseen"))
        self.trace = Trace(lambda: (self.step, self.now() - BEGIN_MS))
        self.step = 0
        self._creep = 0.0
        self._slow = self._chance("slow")
        if has_gateways is None:
            has_gateways = self._chance("has gateways").random() < SHARE
        layout = Layout.of(self._chance("layout")) if has_gateways else None
        partitions = self.chance.choice((1, 1, 2, 3)) if layout is None else layout.partitions
        window = self.chance.choice(("5s", "7d"))
        has_documents = not is_typed and self._chance("documents").random() < DOCUMENTS_SHARE
        is_supplied = not is_typed and self._chance("keys").random() < SUPPLIED_SHARE
        if is_typed is None:
            is_typed = (
                not has_documents and not is_supplied and self._chance("message type").random() < TYPED_SHARE
            )
        has_protobuf = self._chance("protobuf").random() < PROTOBUF_SHARE
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
        self.broker = Broker(self._chance("broker"), self.now, self._on_append)
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
        self.group = Group(self._chance("group"), partition_ids)
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
        is_kept = "changes loss" not in self.faults
        share = definitions.DOCUMENTS_SHARE if has_documents else definitions.SHARE
        if self.typed is None and is_kept and self._chance("definitions").random() < share:
            self.plays.append(DefinitionPlay(self, self._chance("changed definitions")))
        # A partition that is first opened after a definition has changed is applied by that from its beginning.
        elif faults is None and self._chance("leaders").random() < leaders.SHARE:
            self.plays.append(LeaderPlay(self, self._chance("lost leaders")))
        self.ring = self.chance.choice((3, 8, 1000))
        publishers = (
            DocumentPublishers if has_documents else Publishers if self.typed is None else TypedPublishers
        )
        self.publishers = publishers(self._chance("publishers"), self.definition, self.broker)
        self.wakes: dict[str, int] = {}
        self.counts: dict[str, int] = {}
        self._background_error: BaseException | None = None
        loop.set_exception_handler(self._on_exception)

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Keep what was raised where nobody waits for it."""
        self._background_error = (
            self._background_error or context.get("exception") or Untrue(context["message"])
        )

    def _chance(self, name: str) -> Random:
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
        core = self._chance(f"core {name}").choice(self._cores)
        worker = Worker(
            name, self._chance(name), self.broker, self.group, self.trace, self.disks, batch, core
        )
        if "skew" in self.faults:
            worker.skew = self.chance.randint(-20_000, 20_000)
        self.processes[name] = worker
        return worker

    def new_service(self, number: int) -> QueryService:
        """Return a query service that has not started."""
        name = f"service-{number}"
        core = self._chance(f"core {name}").choice(self._cores)
        snapshots = self._chance(f"snapshots {name}")
        service = QueryService(name, self._chance(name), self.broker, self.trace, self.truth, core, snapshots)
        self.processes[name] = service
        return service

    def new_subscriber(
        self, number: int, kind: type[Subscriber] = Subscriber, like: Subscriber | None = None
    ) -> Subscriber:
        """Return a subscriber; it may ask for the same as another one."""
        chance = self._chance(f"client-{number}")
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
                self._start_service(service)
            if self.gateways is None:
                self.fanouts.start()
            else:
                self.gateways.start()
            for step in range(self.steps):
                self.step = step
                await self._step()
            await self._come_to_rest()
        finally:
            for subscriber in self.subscribers:
                subscriber.disconnect()
            if self.gateways is not None:
                self.gateways.stop()
            for process in self.processes.values():
                process.kill()

    def _start_service(self, service: QueryService) -> None:
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
            await self._go_wrong(chance.choice(sorted(self.faults)))
        self._recover()
        await self._take_turns(chance.randint(1, 4))
        if self.gateways is None:
            self.fanouts.take_turns()
        else:
            await self.gateways.take_turns()
        await self.loop.tick(chance.choice((1, 10, 50, 200, 1000)))
        self._check_background()

    def _check_background(self) -> None:
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

    # what goes wrong, and what is done about it

    async def _go_wrong(self, fault: str) -> None:
        if fault == "changes loss" and self.typed is not None and self.typed.is_changing:
            return
        self.counts[fault] = self.counts.get(fault, 0) + 1
        worker = self.chance.choice(self.workers)
        if fault == "idle":
            await self.loop.tick(self.chance.choice((5_000, 20_000, 60_000)))
            for subscriber in self.subscribers:
                subscriber.has_waited = True
        action: Callable[[], object] | None = {
            "crash": lambda: self._arm(worker, "crash"),
            "stall": lambda: self._arm(worker, "stall"),
            "stale": lambda: self._make_stale(worker),
            "rebalance": lambda: self.group.share_out(reset_to=True),
            "power cut": lambda: self._end_worker(worker, power=True),
            "disk loss": lambda: self._lose_disk(worker),
            "damage": lambda: self._damage(worker),
            "full disk": lambda: self._fill_disk(worker),
            "refusal": self._refuse,
            "fatal": lambda: self._fail_producers(worker),
            "redelivery": lambda: self._deliver_again(worker),
            "skew": lambda: self._move_clock(worker),
            "broker clock": self._move_broker_clock,
            "foreign origins": lambda: self.publishers.mirror(self.chance.choice((1, 3))),
            "compaction": self._compact,
            "changes loss": self._lose_changes,
            "service crash": lambda: self.end_service(self.chance.choice(self.services)),
            UNFORESEEN: self._meet_the_unforeseen,
            "vanish": lambda: self.chance.choice(self.subscribers).disconnect(),
            "restart": lambda: self.chance.choice(self.subscribers).restart(),
        }.get(fault)
        if action is not None:
            self.trace("fault:", fault)
            action()

    def _meet_the_unforeseen(self) -> None:
        number = self.chance.randrange(self.definition.partitions)
        self.unforeseen.arm(number, self.broker.parts[self.definition.log, number].end)

    def _fail_producers(self, worker: Worker) -> None:
        for producer in worker.producers:
            producer.fail()

    def _deliver_again(self, worker: Worker) -> None:
        if worker.consumer:
            worker.consumer.go_back(self.chance.randint(1, 5))

    def _arm(self, worker: Worker, mishap: str) -> None:
        if worker.runs:
            worker.fuse, worker.mishap = self.chance.randint(1, 40), mishap
            self.wakes[worker.name] = self.step + self.chance.randint(3, 25)

    def kill_soon(self, worker: Worker, chance: Random) -> None:
        """Let a worker die in the middle of something, maybe with its disk."""
        if worker.runs:
            worker.fuse, worker.mishap = chance.randint(1, 40), "crash"
            worker.loses_disk = "disk loss" in self.faults and chance.random() < 0.5

    def _lose_disk(self, worker: Worker) -> None:
        """A machine goes with all that it has, now or in the middle of something."""
        if self.chance.random() < 0.3:
            self._end_worker(worker, disk=True)
        else:
            self._arm(worker, "crash")
            worker.loses_disk = worker.runs

    def _make_stale(self, worker: Worker) -> None:
        """The group gives a worker up that works, or stands still, and hears of it late."""
        self._arm(worker, "stall")
        consumer = worker.consumer
        if consumer is not None and consumer in self.group.members and not worker.is_dead:
            consumer.miss(self.chance.randint(0, 6))

    def _move_clock(self, worker: Worker) -> None:
        worker.skew = self.chance.randint(-20_000, 20_000)

    def _move_broker_clock(self) -> None:
        self.broker.skew = self.chance.randint(-5_000, 5_000)

    def _compact(self) -> None:
        """Let compaction run. Its lag is longer than stale-owner writes stay as they are."""
        before = self.now() - LAG_MS
        for number in range(self.definition.partitions):
            if not self.truth.stale_keys(number):
                self.broker.compact((self.definition.changes, number), before)

    def _refuse(self) -> None:
        self.broker.is_refusing = True
        self.wakes["broker"] = self.step + self.chance.randint(1, 10)

    def _end_worker(self, worker: Worker, *, power: bool = False, disk: bool = False) -> None:
        worker.kill()
        self.disks.released(worker.name)
        if power:
            self.disks.cut_power(worker.name, self.chance.randint(1, 4))
        if disk:
            self.disks.wipe(worker.name)

    def _damage(self, worker: Worker) -> None:
        if self.chance.random() < 0.5:
            for files in self.disks.of(worker.name):
                files.fails = True
        else:
            self._end_worker(worker)
            self.disks.damage(worker.name, self.chance.randint(0, 99))

    def _fill_disk(self, worker: Worker) -> None:
        self.disks.full.add(worker.name)
        self.wakes[f"disk of {worker.name}"] = self.step + self.chance.randint(1, 15)

    def _lose_changes(self) -> None:
        """The changes topic goes and is made again, under workers that run or while they are down.

        Nothing is on its way to it any more from those who are.
        """
        for worker in self.workers:
            if self.chance.random() < 0.5:
                self._end_worker(worker)
        self.broker.late.clear()
        self.broker.make(self.definition.changes, self.definition.partitions)
        self.truth.lose_changes()
        self.fanouts.lose_changes()

    def define(self, more: str) -> None:
        """Let what starts from here on read other fields of the topic's definition."""
        self.topics = self._topics_with(more)

    def restart_with(self, more: str) -> None:
        """Restart all materializers with other fields of the topic's definition."""
        self.define(more)
        for worker in self.workers:
            self._end_worker(worker)

    def lose_everything(self) -> None:
        """Lose all disks of the materializers, and the changes topic: the logs are left."""
        self.trace("everything but the logs is lost")
        for worker in self.workers:
            self._end_worker(worker, disk=True)
        self._lose_changes()

    def _recover(self) -> None:
        """Let what is down come back, sooner or later."""
        chance = self.chance
        if self.broker.is_refusing and self.wakes.get("broker", 0) <= self.step:
            self.broker.is_refusing = False
        for worker in self.workers:
            if self.wakes.get(f"disk of {worker.name}", 0) <= self.step:
                self.disks.full.discard(worker.name)
        if chance.random() < 0.3:
            self.broker.arrive()
        for worker in self.workers:
            self._recover_worker(worker)
            self._look_after(worker)
        stale_keys = any(map(self.truth.stale_keys, range(self.definition.partitions)))
        if (
            stale_keys
            and "service crash" in self.faults
            and not self.broker.is_calm
            and chance.random() < 0.3
        ):
            self.end_service(chance.choice(self.services))
        for service in self.services:
            if service.is_dead and chance.random() < 0.3:
                self._start_service(service)

    def _recover_worker(self, worker: Worker) -> None:
        if worker.is_dead:
            self._revive(worker)
        elif worker.is_stalled:
            self._wake(worker)
        elif worker.strand is not None and worker.strand.ended:
            raise Untrue(f"{worker.name} has ended by itself")

    def _revive(self, worker: Worker) -> None:
        chance = self.chance
        if worker.consumer in self.group.members and chance.random() < 0.2:
            self.group.leave(worker.consumer)
        if worker.loses_disk:
            worker.loses_disk = False
            self.disks.wipe(worker.name)
        if chance.random() < 0.2:
            self._start_worker(worker)

    def _wake(self, worker: Worker) -> None:
        chance, consumer = self.chance, worker.consumer
        if consumer is not None and consumer in self.group.members and chance.random() < 0.1:
            consumer.miss(chance.randint(0, 6))
        if self.wakes.get(worker.name, 0) <= self.step:
            self.trace(worker.name, "wakes")
            worker.is_stalled = False

    def _start_worker(self, worker: Worker) -> None:
        worker.kill()
        if worker.consumer is not None:
            self.group.leave(worker.consumer)
        worker.start(self.topics)

    def _look_after(self, worker: Worker) -> None:
        """Do what the sentence of a stopped partition says."""
        if self.unforeseen.is_mended(worker, at_once=self.broker.is_calm):
            self.trace("operator brings a mended version")
            self._end_worker(worker)
        for partition_id, why in worker.stopped().items():
            if "a fault of Sowline" in why:
                continue
            hold(
                "Delete that topic" in why and self.truth.may_expire_wholly,
                worker.name,
                partition_id,
                "stopped:",
                why,
            )
            self.trace("operator deletes the changes topic:", why)
            self._lose_changes()
            return

    # the end

    async def _come_to_rest(self) -> None:
        """Let nothing more go wrong; everything must come to stand where the logs end."""
        self.trace("nothing more goes wrong")
        self.broker.is_refusing = False
        self.broker.is_calm = True
        self.faults -= {"slow client", "holes"}
        if self.gateways is not None:
            self.gateways.become_calm()
        self.broker.has_holes = False
        if self.typed is not None:
            self.typed.become_calm()
        while self.broker.late:
            self.broker.arrive()
        for number in range(self.definition.partitions):
            self.publishers.touch(number)
        await self._rest()
        for play in self.plays:
            play.finish()
            await self._rest()
        if "stale" in self.faults:
            await self._leave_idle()
        for number in range(self.definition.partitions):
            self.publishers.touch(number)
        await self._rest()
        self.truth.settled()
        self._check_loading()
        self.counts["stale writes"] = self.truth.stale_writes
        self.counts["fanout messages"] = self.fanouts.reader.messages
        for subscriber in self.subscribers:
            for name in ("messages", "groups", "expired"):
                self.counts[name] = self.counts.get(name, 0) + getattr(subscriber, name)

    async def _leave_idle(self) -> None:
        """Something old arrives though nobody has anything to write: an owner must look for that by itself."""
        number = self.chance.randrange(self.definition.partitions)
        partition_id = self.definition.changes, number
        stale = self.chance.choice(self.broker.parts[partition_id].held)
        self.broker.append(partition_id, stale.name, stale.body, stale.about)
        for _ in range(IDLE_ROUNDS_MAX):
            for worker in self.workers:
                worker.turn()
            await self.loop.tick(500)
            if not self.truth.stale_keys(number):
                return
        hold(False, number, "an idle owner leaves alone what somebody else wrote:", stale)

    async def _rest(self) -> None:
        for turn in itertools.count():
            self.step += 1
            hold(turn < REST_ROUNDS_MAX, "does not come to rest:", *self._unrest())
            self.wakes.clear()
            for worker in self.workers:
                worker.fuse = 0
            self._recover()
            if self.gateways is not None:
                self.gateways.recover()
            for play in self.plays:
                play.deliver()
            for worker in self.workers:
                worker.turn()
            for service in self.services:
                await self.serve(service)
            for subscriber in self.subscribers:
                await self.use(subscriber)
            if self.gateways is None:
                self.fanouts.take_turns()
            await self.loop.tick(20 if self.gateways is None else 100)
            self._check_background()
            if turn % 3 == 2 and not self._unrest():
                break

    def _unrest(self) -> list[str]:
        found = [worker.name for worker in self.workers if not worker.runs]
        for play in self.plays:
            found += play.unrest()
        for service in self.services:
            replicas = service.state.topics[self.definition.name].partitions
            for number, replica in replicas.items():
                if service.is_dead or replica.loading or replica.held.offset != self.truth.last(number):
                    found.append(f"{service.name}[{number}] at {replica.held} of {self.truth.last(number)}")
        found += [
            f"{subscriber.name} at {subscriber.positions}"
            for subscriber in self.subscribers
            if not subscriber.is_level()
        ]
        return found + (self.fanouts if self.gateways is None else self.gateways).unrest()

    def _check_loading(self) -> None:
        """What compaction leaves of the changes says what is true."""
        for number in range(self.definition.partitions):
            self.broker.compact((self.definition.changes, number), 1 << 60)
            self.truth.loads(number)


@contextmanager
def _played(simulation: Simulation) -> Iterator[None]:
    """Put the stand-ins in place of what is around the services."""
    threads = SimpleNamespace(Event=strands.Event, Thread=strands.Thread)
    chance = simulation._chance("sizes")
    snapshot_rows = simulation._chance("snapshot rows").choice((1, 3, 1000))
    config = structlog.get_config()
    patches: list[AbstractContextManager[object]] = [
        patch("sowline.kafka.clients.Consumer", clients.Consumer),
        patch("sowline.kafka.clients.Producer", clients.Producer),
        patch("sowline.kafka.admin.AdminClient", clients.AdminClient),
        patch("sowline_materializer.partition.kafka_partition.read_natively", clients.read_by_python),
        patch("sowline_materializer.partition.recovery.RocksStore", simulation.disks.store_class()),
        patch("sowline.kafka.topic_settings.COMPACTION_LAG_MS_MIN", LAG_MS),
        patch("sowline_materializer.service.ensure_topics", lambda kafka, topics, stop: None),
        patch(
            "sowline_materializer.service.has_disk_space", lambda path: path.name not in simulation.disks.full
        ),
        patch("sowline_materializer.service.Path", lambda path: SimpleNamespace(mkdir=lambda **_: None)),
        patch("sowline_materializer.worker.assignment.RECOVERED_AT_ONCE", 1),
        patch("sowline_materializer.partition.partition.OUTCOMES_MAX", chance.choice((1, 3, 1000))),
        patch(
            "sowline_materializer.core.portions.PORTION_CHANGES_MAX",
            simulation._chance("portion").choice((1, 2, 5000)),
        ),
        patch("sowline_query_service.topics.follower.threading", threads),
        patch("sowline_fanout.runner.LOAD_STEP", simulation._chance("load step").choice((1, 2, 10_000))),
        patch("sowline_query_service.replica.partition_replica.INDEX_STEP", chance.choice((1, 3, 500))),
        patch("sowline_query_service.snapshots.partition_snapshots.BLOCK_RECORDS_MAX", snapshot_rows),
        patch("sowline_query_service.snapshots.partition_snapshots.ROWS_MAX", snapshot_rows),
        patch("sowline_query_service.snapshots.block.BLOCK_RECORDS_MAX", snapshot_rows),
        patch("sowline_query_service.subscriptions.catch_up.BATCH_MAX", chance.choice((2, 5, 1000))),
        patch("sowline_query_service.subscriptions.catch_up._in_thread", _one_by_one),
        simulation.unforeseen.patch(),
        *leaders.answered_by(simulation.broker),
        patch("time.monotonic", for_us(simulation.monotonic, time.monotonic)),
        patch("time.time_ns", for_us(simulation.time_ns, time.time_ns)),
        patch("time.time", for_us(lambda: simulation.time_ns() / 1e9, time.time)),
        patch("time.sleep", for_us(lambda seconds: strands.pause(), time.sleep)),
    ]
    if simulation.typed is not None:
        registry = simulation.typed.registry
        patches.append(patch("sowline_materializer.worker.worker.Registry", lambda url: registry))
        patches.append(patch("sowline_materializer.worker.schemas.ThreadPoolExecutor", lambda *_: registry))
    if simulation.gateways is not None:
        patches.append(patch("asyncio.to_thread", at_once))
        if simulation.trace.events is not None:
            patches += noted(simulation.trace)
    clients.PROCESSES.clear()
    clients.PROCESSES.update(simulation.processes)
    with ExitStack() as stack:
        for each in patches:
            stack.enter_context(each)
        structlog.configure(processors=[simulation.trace.note_log])
        stack.callback(structlog.configure, **config)
        yield


def for_us(played: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
    """Return the clock that is played; for threads that earlier tests have left running the real one.

    They look at it at moments that no seed decides, and each look may make the next step a slow one.
    """
    simulating = threading.get_ident()

    def clock(*arguments: Any) -> Any:
        strand = strands.Strand.current
        is_ours = threading.get_ident() == (simulating if strand is None else strand.ident)
        return (played if is_ours else real)(*arguments)

    return clock


async def _one_by_one(batches: Any) -> Any:
    """Yield batches, and let others run in between."""
    for batch in batches:
        yield batch
        await loop_turns()


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage: what that ends, generators among it, would end at a moment that no seed decides."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def simulate(
    seed: int,
    steps: int = STEPS,
    faults: frozenset[str] | None = None,
    cores: Sequence[Core] = CORES,
    has_gateways: bool | None = None,
    is_typed: bool | None = None,
) -> Outcome:
    """Run a seed, and return what became of it. Each worker and each query service has one core.

    The seed decides whether there are gateways, and whether the message type has schemas, unless that is given.
    """
    return play(Simulation(seed, steps, Loop(), faults, cores, has_gateways, is_typed))


def play(simulation: Simulation) -> Outcome:
    """Run a simulation to its end, and return what became of it."""
    loop = simulation.loop
    error: BaseException | None = None
    with uncollected(), _played(simulation):
        try:
            loop.run_until_complete(simulation.run())
        except Exception as wrong:
            error = wrong
        finally:
            loop.run_until_complete(loop.end())
            loop.close()
    return Outcome(
        simulation.seed,
        simulation.step,
        simulation.all_faults,
        simulation.trace.lines(),
        error,
        simulation.counts,
    )
