"""Reads: what a query and each kind of subscription must get, and what is wrong with the rest."""

import pytest

from sowline.check.history import Event, MessageRead, ReadEnded, ReadOpened
from sowline.check.judge.judging import judge
from sowline.check.judge.reads import digest
from sowline.check.judge.verdict import Guarantee
from tests.checked_world import TOPIC, CheckedWorld
from tests.planted import PLANTED, PlantedMistake, broken_by

OTHERS = {Guarantee.VIEWS, Guarantee.DELETES, Guarantee.EXPIRY}


def broken(events: list[Event]) -> set[Guarantee]:
    """Return what a history breaks."""
    return {*judge(events).broken}


@pytest.mark.parametrize(
    "mistake", [one for one in PLANTED if one.breaks not in OTHERS], ids=lambda one: one.name
)
def test_a_mistake(mistake: PlantedMistake) -> None:
    """Each is found by its name."""
    assert mistake.breaks in broken_by(mistake, 5)


def test_the_hash_of_sow_keys() -> None:
    """The example of docs/api.md, and that of no record."""
    assert digest(["15266929873826298676"]) == "0d3bd03b3be000bf"
    assert digest([]) == "0000000000000000"


@pytest.fixture
def world() -> CheckedWorld:
    """A topic with some records, and a subscription to everything."""
    world = CheckedWorld(1)
    world.open("subscribe", oof=True)
    world.churn(20)
    return world


def test_a_group_that_begins_again(world: CheckedWorld) -> None:
    """After a lost connection a client receives the whole group once more: only the whole one counts."""
    read = world.open("sow_and_subscribe", oof=True)
    first = next(
        n for n, event in enumerate(world.events) if isinstance(event, ReadOpened) and event.read == read
    )
    world.events.insert(first + 1, MessageRead(read, "group_begin", 0.0, "orders:0@0,1@0"))
    world.churn(5)
    world.end(read)
    assert not broken(world.events)


def test_a_second_group(world: CheckedWorld) -> None:
    """With the option `reset`, the changes after it count from it on."""
    read = world.open("sow_and_subscribe", oof=True)
    world.churn(5)
    world.send_group(world.readers[read])
    world.churn(5)
    world.end(read)
    assert not broken(world.events)


def test_a_change_before_the_group(world: CheckedWorld) -> None:
    """Without records there is nothing to change."""
    read = world.open("sow_and_subscribe", oof=True)
    world.churn(5)
    events = [
        event
        for event in world.events
        if not (isinstance(event, MessageRead) and event.command.startswith("group"))
    ]
    assert Guarantee.SNAPSHOT in broken(events)
    assert read


def test_two_bookmarks_of_a_group(world: CheckedWorld) -> None:
    """It is of one instant."""
    world.open("sow")
    end = world.events[-2]
    assert isinstance(end, MessageRead)
    world.events[-2] = MessageRead(end.read, "group_end", 0.0, "orders:0@0,1@0", records=0)
    assert Guarantee.SNAPSHOT in broken(world.events)


@pytest.mark.parametrize(("age_seconds", "found"), [(10, {Guarantee.RESUME}), (900, set())])
def test_an_expired_bookmark(world: CheckedWorld, age_seconds: float, found: set[Guarantee]) -> None:
    """It may only be an old one."""
    read = world.open("subscribe", bookmark=world.bookmark, resumed=True)
    world.events.append(ReadEnded(read, 1.0, "", "bookmark_expired", age_seconds))
    assert broken(world.events) == found


def test_an_end(world: CheckedWorld) -> None:
    """A subscription that has ended by itself has received everything up to its end."""
    begin = world.bookmark
    world.churn(6)
    read = world.open("subscribe", oof=True, bookmark=begin, resumed=True, up_to=world.bookmark)
    world.events.append(ReadEnded(read, 1.0))
    assert broken(world.events) == {Guarantee.RESUME}


def test_a_history_that_stops(world: CheckedWorld) -> None:
    """Whatever comes after the last message may be on its way."""
    world.open("subscribe", oof=True)
    world.churn(5)
    assert not broken(world.events)


def test_a_message_without_a_position(world: CheckedWorld) -> None:
    """No write explains it."""
    read = world.open("subscribe")
    world.events.append(MessageRead(read, "publish", 0.0, "epoch", data={"id": "1"}))
    assert broken(world.events) == {Guarantee.ONE_EFFECT}


def test_a_change_from_before_the_group(world: CheckedWorld) -> None:
    """The group has it already."""
    first = world.open("subscribe", oof=True)
    world.churn(3)
    read = world.open("sow_and_subscribe", oof=True)
    old = next(event for event in world.events if isinstance(event, MessageRead) and event.read == first)
    world.events.append(
        MessageRead(read, old.command, 0.0, old.bookmark, data=old.data, correlation_id=old.correlation_id)
    )
    assert Guarantee.NO_REPEAT in broken(world.events)
    assert TOPIC
