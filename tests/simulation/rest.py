"""The end of a run: nothing more goes wrong, and everything must come to stand where the logs end."""

import itertools
from typing import TYPE_CHECKING

from tests.simulation.truth import hold

if TYPE_CHECKING:
    from tests.simulation.world import Simulation

REST_ROUNDS_MAX = 1500
IDLE_ROUNDS_MAX = 300
"""Rounds of half a second each, of which an owner needs a dozen, unless it has just begun to begin again."""


async def come_to_rest(world: "Simulation") -> None:
    """Let nothing more go wrong; everything must come to stand where the logs end."""
    world.trace("nothing more goes wrong")
    world.broker.is_refusing = False
    world.broker.is_calm = True
    world.faults -= {"slow client", "holes"}
    if world.gateways is not None:
        world.gateways.become_calm()
    world.broker.has_holes = False
    if world.typed is not None:
        world.typed.become_calm()
    while world.broker.late:
        world.broker.arrive()
    for number in range(world.definition.partitions):
        world.publishers.touch(number)
    await _rest(world)
    for play in world.plays:
        play.finish()
        await _rest(world)
    if "stale" in world.faults:
        await _leave_idle(world)
    for number in range(world.definition.partitions):
        world.publishers.touch(number)
    await _rest(world)
    world.truth.settled()
    _check_loading(world)
    world.counts["stale writes"] = world.truth.stale_writes
    world.counts["fanout messages"] = world.fanouts.reader.messages
    for subscriber in world.subscribers:
        for name in ("messages", "groups", "expired"):
            world.counts[name] = world.counts.get(name, 0) + getattr(subscriber, name)


async def _leave_idle(world: "Simulation") -> None:
    """Something old arrives though nobody has anything to write: an owner must look for that by itself."""
    number = world.chance.randrange(world.definition.partitions)
    partition_id = world.definition.changes, number
    stale = world.chance.choice(world.broker.parts[partition_id].held)
    world.broker.append(partition_id, stale.name, stale.body, stale.about)
    # The last definition may be about to kill an owner, which nobody would start again (seed 73).
    for worker in world.workers:
        worker.fuse = 0
    for _ in range(IDLE_ROUNDS_MAX):
        for worker in world.workers:
            worker.turn()
        await world.loop.tick(500)
        if not world.truth.stale_keys(number):
            return
    hold(False, number, "an idle owner leaves alone what somebody else wrote:", stale)


async def _rest(world: "Simulation") -> None:
    for turn in itertools.count():
        world.step += 1
        hold(turn < REST_ROUNDS_MAX, "does not come to rest:", *_unrest(world))
        world.wakes.clear()
        for worker in world.workers:
            worker.fuse = 0
        world.mishaps.recover()
        if world.gateways is not None:
            world.gateways.recover()
        for play in world.plays:
            play.deliver()
        for worker in world.workers:
            worker.turn()
        for service in world.services:
            await world.serve(service)
        for subscriber in world.subscribers:
            await world.use(subscriber)
        if world.gateways is None:
            world.fanouts.take_turns()
        await world.loop.tick(20 if world.gateways is None else 100)
        world.check_background()
        if turn % 3 == 2 and not _unrest(world):
            break


def _unrest(world: "Simulation") -> list[str]:
    found = [worker.name for worker in world.workers if not worker.runs]
    for play in world.plays:
        found += play.unrest()
    for service in world.services:
        replicas = service.state.topics[world.definition.name].partitions
        for number, replica in replicas.items():
            if service.is_dead or replica.loading or replica.held.offset != world.truth.last(number):
                found.append(f"{service.name}[{number}] at {replica.held} of {world.truth.last(number)}")
    found += [
        f"{subscriber.name} at {subscriber.positions}"
        for subscriber in world.subscribers
        if not subscriber.is_level()
    ]
    return found + (world.fanouts if world.gateways is None else world.gateways).unrest()


def _check_loading(world: "Simulation") -> None:
    """What compaction leaves of the changes says what is true."""
    for number in range(world.definition.partitions):
        world.broker.compact((world.definition.changes, number), 1 << 60)
        world.truth.loads(number)
