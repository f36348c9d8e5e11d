"""Writes: their order, their one effect, deletes and expiries."""

import pytest
from msgspec import structs

from sowline.check.history import Event, MessageRead, WriteAnswered, WriteSent
from sowline.check.judge.judging import judge
from sowline.check.judge.verdict import Guarantee
from tests.checked_world import CheckedWorld
from tests.planted import PLANTED, PlantedMistake, broken_by

OF_WRITES = {Guarantee.DELETES, Guarantee.ONE_EFFECT, Guarantee.READ_YOUR_WRITES}


def broken(world: CheckedWorld) -> set[Guarantee]:
    """Return what a history breaks."""
    return {*judge(world.events).broken}


@pytest.fixture
def world() -> CheckedWorld:
    """A topic with a subscription to everything."""
    world = CheckedWorld(2)
    world.open("subscribe", oof=True)
    return world


@pytest.mark.parametrize(
    "mistake", [one for one in PLANTED if one.breaks in OF_WRITES], ids=lambda one: one.name
)
def test_a_mistake(mistake: PlantedMistake) -> None:
    """Each is found by its name."""
    assert mistake.breaks in broken_by(mistake, 4)


def test_the_order_of_a_writer(world: CheckedWorld) -> None:
    """A later command of it stands later."""
    for n in range(2):
        world.write("publish", {"id": "2", "status": "open", "qty": n})
    first, second = (event for event in world.events if isinstance(event, WriteAnswered))
    for one, other in ((first, second), (second, first)):
        world.events[world.events.index(one)] = structs.replace(one, id=f"x{other.id}")
    world.events = [
        structs.replace(event, id=event.id.removeprefix("x")) if isinstance(event, WriteAnswered) else event
        for event in world.events
    ]
    assert Guarantee.ORDER in broken(world)


def expiring(world: CheckedWorld, seconds: float) -> None:
    """Write a record that lives for three seconds, and remove it as expired after others."""
    world.write("publish", {"id": "2", "status": "open", "qty": 1}, 3)
    world.time += seconds
    world.due["2"] = world.time
    world.expire()


@pytest.mark.parametrize(("seconds", "found"), [(3, set()), (20, set()), (2.9, {Guarantee.EXPIRY})])
def test_a_record_expires_when_it_is_due(world: CheckedWorld, seconds: float, found: set[Guarantee]) -> None:
    """Not before, by the log's time."""
    expiring(world, seconds)
    assert broken(world) == found


def test_a_record_without_a_lifetime_expires(world: CheckedWorld) -> None:
    """It was to stay; the same holds for one whose last write gave it none."""
    world.write("publish", {"id": "2", "status": "open", "qty": 1}, 3)
    world.write("publish", {"id": "2", "status": "open", "qty": 2}, 0)
    world.time += 9
    world.due["2"] = world.time
    world.expire()
    assert broken(world) == {Guarantee.EXPIRY}


@pytest.mark.parametrize(("seconds", "found"), [(60, set()), (90, {Guarantee.EXPIRY})])
def test_a_record_that_never_expires(world: CheckedWorld, seconds: float, found: set[Guarantee]) -> None:
    """The log has gone on for long."""
    world.write("publish", {"id": "2", "status": "open", "qty": 1}, 3)
    world.time += seconds
    world.write("publish", {"id": "4", "status": "open", "qty": 1})
    assert broken(world) == found


def test_a_record_expires_twice(world: CheckedWorld) -> None:
    """The second time there is none."""
    expiring(world, 5)
    expired = world.events[-1]
    assert isinstance(expired, MessageRead)
    world.events.append(structs.replace(expired, bookmark="orders:0@9"))
    assert Guarantee.EXPIRY in broken(world)


def without_messages(world: CheckedWorld, key: str) -> list[Event]:
    """Return the history without the removal of a record."""
    return [
        event
        for event in world.events
        if not (
            isinstance(event, MessageRead)
            and event.reason == "deleted"
            and event.data
            and event.data["id"] == key
        )
    ]


def test_a_delete_leaves_a_record(world: CheckedWorld) -> None:
    """Which matched at that instant of its partition."""
    for id in ("2", "4", "3"):
        world.write("publish", {"id": id, "status": "late", "qty": 1})
    world.delete("/status = 'late' AND /qty <= 60")
    assert not broken(world)
    world.events = without_messages(world, "4")
    assert Guarantee.DELETES in broken(world)


def test_a_delete_removes_another_record(world: CheckedWorld) -> None:
    """It did not match."""
    world.write("publish", {"id": "2", "status": "late", "qty": 1})
    world.delete("")
    number = next(
        n for n, event in enumerate(world.events) if isinstance(event, WriteSent) and not event.data
    )
    sent = world.events[number]
    assert isinstance(sent, WriteSent)
    world.events[number] = structs.replace(sent, filter="/qty > 50")
    assert Guarantee.DELETES in broken(world)


def test_a_delete_removes_a_record_that_there_is_not(world: CheckedWorld) -> None:
    """Nor one twice in a partition."""
    world.write("publish", {"id": "2", "status": "late", "qty": 1})
    world.delete("1=1" if False else "")
    removal = world.events[-2]
    assert isinstance(removal, MessageRead)
    world.events.append(structs.replace(removal, bookmark="orders:0@9"))
    assert Guarantee.DELETES in broken(world)
