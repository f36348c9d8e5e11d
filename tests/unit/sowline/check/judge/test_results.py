"""Groups and live pages: at each bookmark, what a reader holds is the result there."""

from typing import Any

import pytest
from msgspec import structs

from sowline.check.history import Event, MessageRead, ReadEnded
from sowline.check.judge.judging import judge
from sowline.check.judge.verdict import Guarantee
from tests.checked_world import TOTALS as WORLD_TOTALS
from tests.checked_world import CheckedWorld
from tests.planted import PLANTED, PlantedMistake, broken_by
from tests.small_histories import (
    TOTALS,
    Body,
    Parts,
    broken,
    ended,
    got,
    group,
    judged,
    opened,
    progress,
    written,
)


@pytest.mark.parametrize(
    "mistake", [one for one in PLANTED if one.breaks is Guarantee.GROUPS], ids=lambda one: one.name
)
def test_a_mistake(mistake: PlantedMistake) -> None:
    """Each is found by its name."""
    assert Guarantee.GROUPS in broken_by(mistake, 6)


def test_an_oof_of_what_is_not_held() -> None:
    """A group that a reader never had can't leave."""
    world = CheckedWorld(1)
    read = world.open("sow_and_subscribe", oof=True, groups=WORLD_TOTALS)
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
    world.open("sow", groups=WORLD_TOTALS)
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
    groups = world.open("sow_and_subscribe", oof=True, groups=WORLD_TOTALS)
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
    read = world.open("sow_and_subscribe", oof=True, groups=WORLD_TOTALS)
    begin = world.bookmark
    world.churn(6)
    [*_, last] = (event for event in world.events if isinstance(event, MessageRead) and event.read == read)
    world.events.append(structs.replace(last, bookmark=begin))
    assert Guarantee.ORDER in judge(world.events).broken


# The smallest histories: three steps of two groups.


def total(status: str, records: int, qty: int) -> Body:
    """Return the result of a group."""
    return {"status": status, "records": records, "qty": qty}


STEPS = [
    *written("w1", "t:0@1", {"id": "a", "status": "open", "qty": 1}),
    *written("w2", "t:0@2", {"id": "b", "status": "open", "qty": 2}),
    *written("w3", "t:0@3", {"id": "a", "status": "late", "qty": 1}),
    *written("w4", "t:0@4", {"id": "b"}, "sow_delete"),
]
READ = [opened("sow_and_subscribe", oof=True, groups=TOTALS), *group("t:0@1", total("open", 1, 1))]
SECOND = got("t:0@2", total("open", 2, 3))
THIRD = [got("t:0@2", total("open", 1, 2), more=True), got("t:0@3", total("late", 1, 1))]
FOURTH = got("t:0@4", {"status": "open"}, reason="deleted")


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ([SECOND, THIRD, FOURTH], []),
        ([THIRD], []),
        ([SECOND, FOURTH], [f"groups: r: expected {total('late', 1, 1)} at t:0@4, got None [late]"]),
        ([SECOND, THIRD[1]], [
            f"groups: r: expected {total('open', 1, 2)} at t:0@3, got {total('open', 2, 3)} [open]",
        ]),
        ([got("t:0@2", total("open", 2, 9))], [
            f"groups: r: expected {total('open', 2, 3)} at t:0@2, got {total('open', 2, 9)} [open]",
        ]),
        ([SECOND, got("t:0@2", {"status": "none"}, reason="match")], [
            "groups: r: expected an oof of what is held, got one of none [none]",
        ]),
        ([SECOND, got("t:0@1", total("open", 1, 1))], ["order: r: got a step to t:0@1 after t:0@2"]),
        ([progress("t:0@1")], []),
        ([progress("t:0@2")], [
            f"groups: r: expected {total('open', 2, 3)} at t:0@2, got {total('open', 1, 1)} [open]",
        ]),
        ([progress("t:0@2"), THIRD], [
            f"groups: r: expected {total('open', 2, 3)} at t:0@2, got {total('open', 1, 1)} [open]",
        ]),
        ([SECOND, group("t:0@3", total("open", 1, 2), total("late", 1, 1)), FOURTH], []),
        ([SECOND, group("t:0@3", total("late", 1, 1))], [
            f"groups: r: expected {total('open', 1, 2)} at t:0@3, got None [open]",
        ]),
    ],
)  # fmt: skip
def test_each_step_leads_to_the_result(messages: list[Event], found: list[str]) -> None:
    """Of the groups at its bookmark; a mistake is named with its group."""
    assert broken(STEPS, READ, messages) == found


def test_groups_of_the_records_that_match() -> None:
    """Others count in none."""
    read = opened("sow", groups=TOTALS, filter="/qty > 1")
    assert broken(STEPS, read, group("t:0@2", total("open", 1, 2))) == []


def test_what_is_counted_of_groups() -> None:
    """Each result, each oof, and each step's place."""
    verdict = judged(STEPS, READ, SECOND, THIRD, FOURTH)
    assert verdict.checked[Guarantee.GROUPS] == 5
    assert verdict.checked[Guarantee.ORDER] == 3 + len(STEPS) // 2


@pytest.mark.parametrize(
    ("bookmark", "messages", "found"),
    [
        ("t:0@2", THIRD, []),
        ("t:0@3", FOURTH, []),
        ("t:0@2", THIRD[1], [
            f"groups: r: expected {total('open', 1, 2)} at t:0@3, got {total('open', 2, 3)} [open]",
        ]),
        ("t:0@3", got("t:0@2", total("open", 1, 2)), [
            "order: r: got a step to t:0@2 after t:0@3",
            f"groups: r: expected None at t:0@2, got {total('late', 1, 1)} [late]",
            f"groups: r: expected {total('open', 2, 3)} at t:0@2, got {total('open', 1, 2)} [open]",
        ]),
    ],
)  # fmt: skip
def test_groups_that_are_resumed(bookmark: str, messages: Parts, found: list[str]) -> None:
    """Their reader holds what was right at its bookmark."""
    read = opened("sow_and_subscribe", oof=True, groups=TOTALS, bookmark=bookmark, resumed=True)
    assert broken(STEPS, read, messages) == found


def test_groups_that_begin_without_a_result() -> None:
    """Their reader holds nothing."""
    read = opened("sow_and_subscribe", oof=True, groups=TOTALS)
    [first, *_] = broken(STEPS, read, FOURTH)
    assert first == "groups: r: expected an oof of what is held, got one of open [open]"


@pytest.mark.parametrize(
    ("end", "count"),
    [
        ([ended()], 1),
        ([ended(reason="behind")], 0),
        ([], 0),
        ([group("t:0@1", total("open", 1, 1)), ended()], 0),
    ],
)
def test_a_query_of_groups_ends_with_its_result(end: list[Event], count: int) -> None:
    """If it has ended well."""
    found = broken(STEPS, opened("sow", groups=TOTALS), end)
    assert found == ["groups: r: expected a group_end, got the end of the query"] * count


def test_a_query_of_groups_that_begins_again() -> None:
    """The first result is not the last."""
    whole = group("t:0@1", total("open", 1, 1))
    found = broken(STEPS, opened("sow", groups=TOTALS), whole, whole[:1], ended())
    assert found == ["groups: r: expected a group_end, got the end of the query"]


def test_a_subscription_of_groups_that_ends_early() -> None:
    """It owes no result: its reader has left."""
    assert broken(STEPS, opened("sow_and_subscribe", groups=TOTALS), ended()) == []


@pytest.mark.parametrize("promise", ["read_your_writes", "monotonic_reads"])
def test_groups_are_as_fresh_as_demanded(promise: str) -> None:
    """As records are."""
    query = opened("sow", groups=TOTALS, promise=promise, at_least="t:0@2")
    assert broken(STEPS, query, group("t:0@2", total("open", 2, 3))) == []
    [found] = broken(STEPS, query, group("t:0@1", total("open", 1, 1)))
    assert found == f"{promise.replace('_', ' ')}: r: expected records of t:0@2 or later, got those of t:0@1"


def summed(about: MessageRead) -> list[Event]:
    """Return a read of one group whose SOW key is known, and a message about all of its groups."""
    [begin, end] = group("t:0@1")
    known = MessageRead("r", "sow", 0.0, data=total("open", 1, 1), sow_key="15266929873826298676")
    return [READ[0], begin, known, *([end] if about.command == "progress" else []), about]


HASH = "0d3bd03b3be000bf"


@pytest.mark.parametrize(("command", "guarantee"), [("group_end", "groups"), ("progress", "checksum")])
@pytest.mark.parametrize(
    ("records", "hash", "wrong"),
    [
        (1, HASH, ""),
        (None, HASH, ""),
        (2, HASH, "expected 1 records at t:0@1, got 2"),
        (1, "00", f"expected the hash {HASH} at t:0@1, got 00"),
        (2, "", "expected 1 records at t:0@1, got 2"),
    ],
)
def test_the_checksum_of_groups(
    command: Any, guarantee: str, records: int | None, hash: str, wrong: str
) -> None:
    """The count and the hash of what the reader holds."""
    about = MessageRead("r", command, 0.0, "t:0@1", records=records, hash=hash)
    assert broken(STEPS, summed(about)) == ([f"{guarantee}: r: {wrong}"] if wrong else [])


@pytest.mark.parametrize(("hash", "count"), [("", 1), (HASH, 2)])
def test_a_checksum_is_counted(hash: str, count: int) -> None:
    """If there is one."""
    about = MessageRead("r", "group_end", 0.0, "t:0@1", hash=hash)
    assert judged(STEPS, summed(about)).checked[Guarantee.GROUPS] == count


def test_groups_whose_sow_keys_are_unknown() -> None:
    """Their hash proves nothing."""
    read = opened("sow_and_subscribe", oof=True, groups=TOTALS, bookmark="t:0@3", resumed=True)
    assert broken(STEPS, read, progress("t:0@3", hash="00")) == []


PAGE = opened("sow_and_subscribe", oof=True, order_by="/qty DESC, /id", skip_n=1, top_n=1)


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ([got("t:0@2", {"id": "a", "status": "open", "qty": 1})], []),
        ([got("t:0@2", {"id": "b", "status": "open", "qty": 2})], [
            "pages: r: expected {'id': 'a', 'status': 'open', 'qty': 1} at t:0@2, got None [a]",
            "pages: r: expected None at t:0@2, got {'id': 'b', 'status': 'open', 'qty': 2} [b]",
        ]),
    ],
)  # fmt: skip
def test_a_live_page_has_its_ranks(messages: list[Event], found: list[str]) -> None:
    """At each step."""
    assert broken(STEPS, PAGE, group("t:0@1"), messages) == found
