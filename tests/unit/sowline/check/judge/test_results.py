"""Groups and live pages: at each bookmark, what a reader holds is the result there."""

import pytest
from msgspec import structs

from sowline.check.history import MessageRead, ReadEnded
from sowline.check.judge.judging import judge
from sowline.check.judge.verdict import Guarantee
from tests.checked_world import TOTALS, CheckedWorld
from tests.planted import PLANTED, PlantedMistake, broken_by


@pytest.mark.parametrize(
    "mistake", [one for one in PLANTED if one.breaks is Guarantee.GROUPS], ids=lambda one: one.name
)
def test_a_mistake(mistake: PlantedMistake) -> None:
    """Each is found by its name."""
    assert Guarantee.GROUPS in broken_by(mistake, 6)


def test_an_oof_of_what_is_not_held() -> None:
    """A group that a reader never had can't leave."""
    world = CheckedWorld(1)
    read = world.open("sow_and_subscribe", oof=True, groups=TOTALS)
    world.events.append(MessageRead(read, "oof", world.at, world.bookmark, data={"status": "none"}))
    assert judge(world.events).broken == {Guarantee.GROUPS: 1}


def test_a_mistake_is_named_once() -> None:
    """What a step has left wrong is not a violation again at each later one."""
    world = CheckedWorld(2)
    world.open("subscribe", oof=True)
    read = world.open("sow_and_subscribe", oof=True, order_by="/qty DESC, /id", skip_n=0, top_n=3)
    world.churn(4)
    wrong = {"id": "99", "qty": 1}
    world.events.append(MessageRead(read, "publish", world.at, world.bookmark, data=wrong))
    world.churn(8)
    world.prove(read)
    assert judge(world.events).broken == {Guarantee.PAGES: 1}


def test_a_query_without_its_end() -> None:
    """Its result may not be whole."""
    world = CheckedWorld(1)
    world.churn(4)
    world.open("sow", groups=TOTALS)
    world.events = [
        event
        for event in world.events
        if not (isinstance(event, MessageRead) and event.command == "group_end")
    ]
    assert isinstance(world.events[-1], ReadEnded)
    assert judge(world.events).broken == {Guarantee.GROUPS: 1}


def test_an_expiry_that_no_subscriber_receives() -> None:
    """Once the others have ended, a reader of groups may receive an expiry that no other reader receives."""
    world = CheckedWorld(1)
    single = world.open("subscribe", oof=True)
    groups = world.open("sow_and_subscribe", oof=True, groups=TOTALS)
    world.write("publish", {"id": "0", "status": "open", "qty": 7, "n": 1}, 1)
    world.write("publish", {"id": "2", "status": "open", "qty": 5, "n": 2}, 0)
    world.end(single)
    world.time += 2
    world.expire()
    world.end(groups)
    [*_, last] = (event for event in world.events if isinstance(event, MessageRead))
    assert (last.read, last.data) == (groups, {"status": "open", "records": 1, "qty": 5})
    assert not judge(world.events).violations


def test_steps_that_go_back() -> None:
    """A step to an earlier bookmark than the last one is out of order."""
    world = CheckedWorld(3)
    read = world.open("sow_and_subscribe", oof=True, groups=TOTALS)
    begin = world.bookmark
    world.churn(6)
    [*_, last] = (event for event in world.events if isinstance(event, MessageRead) and event.read == read)
    world.events.append(structs.replace(last, bookmark=begin))
    assert Guarantee.ORDER in judge(world.events).broken
