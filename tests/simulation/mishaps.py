"""What goes wrong in a simulated world, and what is done about it."""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from tests.simulation.harness import LAG_MS
from tests.simulation.services import Worker
from tests.simulation.truth import Untrue, hold

if TYPE_CHECKING:
    from tests.simulation.world import Simulation

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


class Mishaps:
    """The faults of one world: they begin by chance, and end some steps later."""

    def __init__(self, world: "Simulation") -> None:
        self._world = world
        self._chance = world.chance

    async def go_wrong(self, fault: str) -> None:
        """Let a fault begin."""
        world = self._world
        if fault == "changes loss" and world.typed is not None and world.typed.is_changing:
            return
        world.counts[fault] = world.counts.get(fault, 0) + 1
        worker = self._chance.choice(world.workers)
        if fault == "idle":
            await world.loop.tick(self._chance.choice((5_000, 20_000, 60_000)))
            for subscriber in world.subscribers:
                subscriber.has_waited = True
        action: Callable[[], object] | None = {
            "crash": lambda: self._arm(worker, "crash"),
            "stall": lambda: self._arm(worker, "stall"),
            "stale": lambda: self._make_stale(worker),
            "rebalance": lambda: world.group.share_out(reset_to=True),
            "power cut": lambda: self._end_worker(worker, power=True),
            "disk loss": lambda: self._lose_disk(worker),
            "damage": lambda: self._damage(worker),
            "full disk": lambda: self._fill_disk(worker),
            "refusal": self._refuse,
            "fatal": lambda: self._fail_producers(worker),
            "redelivery": lambda: self._deliver_again(worker),
            "skew": lambda: self._move_clock(worker),
            "broker clock": self._move_broker_clock,
            "foreign origins": lambda: world.publishers.mirror(self._chance.choice((1, 3))),
            "compaction": self._compact,
            "changes loss": self._lose_changes,
            "service crash": lambda: world.end_service(self._chance.choice(world.services)),
            UNFORESEEN: self._meet_the_unforeseen,
            "vanish": lambda: self._chance.choice(world.subscribers).disconnect(),
            "restart": lambda: self._chance.choice(world.subscribers).restart(),
        }.get(fault)
        if action is not None:
            world.trace("fault:", fault)
            action()

    def _meet_the_unforeseen(self) -> None:
        number = self._chance.randrange(self._world.definition.partitions)
        self._world.unforeseen.arm(number, self._world.broker.parts[self._world.definition.log, number].end)

    def _fail_producers(self, worker: Worker) -> None:
        for producer in worker.producers:
            producer.fail()

    def _deliver_again(self, worker: Worker) -> None:
        if worker.consumer:
            worker.consumer.go_back(self._chance.randint(1, 5))

    def _arm(self, worker: Worker, mishap: str) -> None:
        if worker.runs:
            worker.fuse, worker.mishap = self._chance.randint(1, 40), mishap
            self._world.wakes[worker.name] = self._world.step + self._chance.randint(3, 25)

    def kill_soon(self, worker: Worker, chance: Random) -> None:
        """Let a worker die in the middle of something, maybe with its disk."""
        if worker.runs:
            worker.fuse, worker.mishap = chance.randint(1, 40), "crash"
            worker.loses_disk = "disk loss" in self._world.faults and chance.random() < 0.5

    def _lose_disk(self, worker: Worker) -> None:
        """A machine goes with all that it has, now or in the middle of something."""
        if self._chance.random() < 0.3:
            self._end_worker(worker, disk=True)
        else:
            self._arm(worker, "crash")
            worker.loses_disk = worker.runs

    def _make_stale(self, worker: Worker) -> None:
        """The group gives a worker up that works, or stands still, and hears of it late."""
        self._arm(worker, "stall")
        consumer = worker.consumer
        if consumer is not None and consumer in self._world.group.members and not worker.is_dead:
            consumer.miss(self._chance.randint(0, 6))

    def _move_clock(self, worker: Worker) -> None:
        worker.skew = self._chance.randint(-20_000, 20_000)

    def _move_broker_clock(self) -> None:
        self._world.broker.skew = self._chance.randint(-5_000, 5_000)

    def _compact(self) -> None:
        """Let compaction run. Its lag is longer than stale-owner writes stay as they are."""
        before = self._world.now() - LAG_MS
        for number in range(self._world.definition.partitions):
            if not self._world.truth.stale_keys(number):
                self._world.broker.compact((self._world.definition.changes, number), before)

    def _refuse(self) -> None:
        self._world.broker.is_refusing = True
        self._world.wakes["broker"] = self._world.step + self._chance.randint(1, 10)

    def _end_worker(self, worker: Worker, *, power: bool = False, disk: bool = False) -> None:
        worker.kill()
        self._world.disks.released(worker.name)
        if power:
            self._world.disks.cut_power(worker.name, self._chance.randint(1, 4))
        if disk:
            self._world.disks.wipe(worker.name)

    def _damage(self, worker: Worker) -> None:
        if self._chance.random() < 0.5:
            for files in self._world.disks.of(worker.name):
                files.fails = True
        else:
            self._end_worker(worker)
            self._world.disks.damage(worker.name, self._chance.randint(0, 99))

    def _fill_disk(self, worker: Worker) -> None:
        self._world.disks.full.add(worker.name)
        self._world.wakes[f"disk of {worker.name}"] = self._world.step + self._chance.randint(1, 15)

    def _lose_changes(self) -> None:
        """The changes topic goes and is made again, under workers that run or while they are down.

        Nothing is on its way to it any more from those who are.
        """
        world = self._world
        for worker in world.workers:
            if self._chance.random() < 0.5:
                self._end_worker(worker)
        world.broker.late.clear()
        world.broker.make(world.definition.changes, world.definition.partitions)
        world.truth.lose_changes()
        world.fanouts.lose_changes()

    def restart_with(self, more: str) -> None:
        """Restart all materializers with other fields of the topic's definition."""
        self._world.define(more)
        for worker in self._world.workers:
            self._end_worker(worker)

    def lose_everything(self) -> None:
        """Lose all disks of the materializers, and the changes topic: the logs are left."""
        self._world.trace("everything but the logs is lost")
        for worker in self._world.workers:
            self._end_worker(worker, disk=True)
        self._lose_changes()

    def recover(self) -> None:
        """Let what is down come back, sooner or later."""
        world, chance = self._world, self._chance
        if world.broker.is_refusing and world.wakes.get("broker", 0) <= world.step:
            world.broker.is_refusing = False
        for worker in world.workers:
            if world.wakes.get(f"disk of {worker.name}", 0) <= world.step:
                world.disks.full.discard(worker.name)
        if chance.random() < 0.3:
            world.broker.arrive()
        for worker in world.workers:
            self._recover_worker(worker)
            self._look_after(worker)
        stale_keys = any(map(world.truth.stale_keys, range(world.definition.partitions)))
        if (
            stale_keys
            and "service crash" in world.faults
            and not world.broker.is_calm
            and chance.random() < 0.3
        ):
            world.end_service(chance.choice(world.services))
        for service in world.services:
            if service.is_dead and chance.random() < 0.3:
                world.start_service(service)

    def _recover_worker(self, worker: Worker) -> None:
        if worker.is_dead:
            self._revive(worker)
        elif worker.is_stalled:
            self._wake(worker)
        elif worker.strand is not None and worker.strand.ended:
            raise Untrue(f"{worker.name} has ended by itself")

    def _revive(self, worker: Worker) -> None:
        chance = self._chance
        if worker.consumer in self._world.group.members and chance.random() < 0.2:
            self._world.group.leave(worker.consumer)
        if worker.loses_disk:
            worker.loses_disk = False
            self._world.disks.wipe(worker.name)
        if chance.random() < 0.2:
            self._start_worker(worker)

    def _wake(self, worker: Worker) -> None:
        chance, consumer = self._chance, worker.consumer
        if consumer is not None and consumer in self._world.group.members and chance.random() < 0.1:
            consumer.miss(chance.randint(0, 6))
        if self._world.wakes.get(worker.name, 0) <= self._world.step:
            self._world.trace(worker.name, "wakes")
            worker.is_stalled = False

    def _start_worker(self, worker: Worker) -> None:
        worker.kill()
        if worker.consumer is not None:
            self._world.group.leave(worker.consumer)
        worker.start(self._world.topics)

    def _look_after(self, worker: Worker) -> None:
        """Do what the sentence of a stopped partition says."""
        world = self._world
        if world.unforeseen.is_mended(worker, at_once=world.broker.is_calm):
            world.trace("operator brings a mended version")
            self._end_worker(worker)
        for partition_id, why in worker.stopped().items():
            if "a fault of Sowline" in why:
                continue
            hold(
                "Delete that topic" in why and world.truth.may_expire_wholly,
                worker.name,
                partition_id,
                "stopped:",
                why,
            )
            world.trace("operator deletes the changes topic:", why)
            self._lose_changes()
            return
