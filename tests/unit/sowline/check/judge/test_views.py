"""Views: equal to a recomputation over their source."""

import pytest

from sowline.check.history import MessageRead
from sowline.check.judge.judging import judge
from sowline.check.judge.verdict import Guarantee
from tests.checked_world import VIEW, CheckedWorld
from tests.planted import PLANTED, PlantedMistake, broken_by


@pytest.mark.parametrize(
    "mistake", [one for one in PLANTED if one.breaks is Guarantee.VIEWS], ids=lambda one: one.name
)
def test_a_mistake(mistake: PlantedMistake) -> None:
    """Each is found by its name."""
    assert Guarantee.VIEWS in broken_by(mistake, 6)


@pytest.mark.parametrize(
    ("back", "found"), [(0, Guarantee.NO_REPEAT), (1, Guarantee.ORDER)], ids=["repeat", "order"]
)
def test_the_sequence_of_a_view(back: int, found: Guarantee) -> None:
    """Its changes come once, in the order of its own positions."""
    world = CheckedWorld(1)
    read = world.open("sow_and_subscribe", topic=VIEW, oof=True)
    world.churn(9)
    changes = [event for event in world.events if isinstance(event, MessageRead) and event.read == read]
    world.events.append(changes[-1 - back])
    assert found in judge(world.events).broken


def test_without_a_position_of_the_source() -> None:
    """Nothing is compared: the view may be behind."""
    world = CheckedWorld(1)
    world.churn(9)
    world.open("sow", topic=VIEW)
    read = world.open("sow_and_subscribe", topic=VIEW)
    world.events.append(MessageRead(read, "publish", 0.0, "epoch", data={"status": "open"}))
    verdict = judge(world.events)
    assert not verdict.violations
    assert not verdict.checked[Guarantee.VIEWS]
