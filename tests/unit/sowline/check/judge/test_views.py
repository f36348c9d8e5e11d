"""Views: equal to a recomputation over their source."""

import pytest

from sowline.check.history import Event, MessageRead
from sowline.check.judge.judging import judge
from sowline.check.judge.verdict import Guarantee
from tests.checked_world import VIEW, CheckedWorld
from tests.planted import PLANTED, PlantedMistake, broken_by
from tests.small_histories import Body, Parts, broken, got, group, judged, opened, progress, written


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


# The smallest histories: a group of the source, and the view's records of it.

SOURCE = [
    *written("w1", "t:0@1", {"id": "a", "status": "open", "qty": 1}),
    *written("w2", "t:0@2", {"id": "b", "status": "open", "qty": 2}),
]
ONE = {"status": "open", "records": 1, "qty": 1}
BOTH = {"status": "open", "records": 2, "qty": 3}
LATE = {"status": "late", "records": 1, "qty": 9}


def at(position: int) -> str:
    """Return a bookmark of the view."""
    return f"v.partials:0@{position}"


def query(*records: Body, position: int = 2, reflects: str = "t:0@2") -> list[Event]:
    """Return a query of the view."""
    read = opened("sow", "q", topic="v", reflects=reflects)
    return [read, *group(at(position), *records, read="q")]


@pytest.mark.parametrize(
    ("events", "found"),
    [
        (query(BOTH), []),
        (query(ONE, reflects="t:0@1"), []),
        (query(ONE, reflects=""), []),
        (query(ONE), [f"views: q: expected {BOTH} at t:0@2, got {ONE} [open]"]),
        (query(), [f"views: q: expected {BOTH} at t:0@2, got None [open]"]),
        (query(BOTH, LATE), [f"views: q: expected None at t:0@2, got {LATE} [late]"]),
        ([*query(LATE)[:3], *query(BOTH)[2:]], [f"views: q: expected None at t:0@2, got {LATE} [late]"]),
        ([*query(LATE)[:3], *query(BOTH)[1:]], []),
    ],
)
def test_a_view_is_what_a_recomputation_finds(events: list[Event], found: list[str]) -> None:
    """At the source position that it reflects; a group that begins again replaces the first."""
    assert broken(SOURCE, events) == found


SUBSCRIBED = [opened("sow_and_subscribe", topic="v", oof=True), *group(at(1), ONE)]
STEP = got(at(2), BOTH)


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ([STEP, query(BOTH), progress(at(2))], []),
        ([query(BOTH), progress(at(2))], [f"views: r: expected {BOTH} at {at(2)}, got {ONE} [open]"]),
        ([query(BOTH), progress(at(1))], []),
        ([got(at(2), {"status": "open"}, reason="match"), query(BOTH), progress(at(2))], [
            f"views: r: expected {BOTH} at {at(2)}, got None [open]",
        ]),
        ([got(at(2), {"status": "none"}, reason="match"), STEP, query(BOTH, position=3)], [
            f"no repeat: r: got the change at {at(2)} after {at(2)} [open]",
        ]),
        ([STEP, STEP], [f"no repeat: r: got the change at {at(2)} after {at(2)} [open]"]),
        ([got(at(1), ONE)], [f"no repeat: r: got the change at {at(1)} after {at(1)} [open]"]),
        ([got(at(3), BOTH), STEP, got(at(3), BOTH)], [
            f"order: r: got the change at {at(2)} after {at(3)} [open]",
            f"no repeat: r: got the change at {at(3)} after {at(3)} [open]",
        ]),
        ([got("epoch", BOTH), got("v.partials:1@1", LATE)], []),
    ],
)  # fmt: skip
def test_a_subscription_of_a_view(messages: Parts, found: list[str]) -> None:
    """It holds what a query at the same bookmark finds, and its changes come once and in order."""
    assert broken(SOURCE, SUBSCRIBED, messages) == found


def test_what_is_counted_of_a_view() -> None:
    """Each comparison, and the place of each change."""
    verdict = judged(SOURCE, SUBSCRIBED, STEP, query(BOTH), progress(at(2)), progress(at(9)))
    assert verdict.checked[Guarantee.VIEWS] == 2
    assert verdict.checked[Guarantee.NO_REPEAT] == 1
    assert verdict.checked[Guarantee.ORDER] == 1 + len(SOURCE) // 2
