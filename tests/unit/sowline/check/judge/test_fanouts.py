"""Fanouts: for each change the message that a subscription would receive, and repeats that readers recognize."""

from collections.abc import Sequence

import pytest
from msgspec import structs

from sowline.check.history import MessageRead, Unanswered
from sowline.check.judge.judging import judge
from sowline.check.judge.verdict import Guarantee, Judgment
from tests.checked_world import CheckedWorld, Command
from tests.planted import PLANTED, PlantedMistake, broken_by, just_before
from tests.small_histories import broken, ended, got, opened, written


def churned(command: Command = "subscribe") -> tuple[CheckedWorld, list[MessageRead]]:
    """Return a world with a fanout, and what the fanout has written."""
    world = CheckedWorld(1)
    world.churn(9)
    world.open("subscribe", oof=True)
    read = world.open(command, oof=True, fanout="all")
    world.churn(20)
    return world, [event for event in world.events if isinstance(event, MessageRead) and event.read == read]


def judged_with(world: CheckedWorld, more: Sequence[MessageRead]) -> Judgment:
    """Return the verdict on a history with more messages of its fanout before their end."""
    world.events += more
    world.end(more[0].read)
    return judge(world.events)


@pytest.mark.parametrize(
    "mistake", [one for one in PLANTED if one.breaks is Guarantee.FANOUTS], ids=lambda one: one.name
)
def test_a_mistake(mistake: PlantedMistake) -> None:
    """Each is found by its name, and by no other: subscribers have received nothing wrong."""
    assert broken_by(mistake, 6) == {Guarantee.FANOUTS}


@pytest.mark.parametrize("command", ["subscribe", "delta_subscribe"])
def test_a_fanout_begins_again(command: Command) -> None:
    """It repeats what it wrote after its last commit, and goes on: its readers know repeats by their bookmarks."""
    world, written = churned(command)
    world.events += written[-5:]
    world.churn(5)
    verdict = judged_with(world, written[-3:])
    assert not verdict.violations
    assert verdict.checked[Guarantee.FANOUTS] > len(written)


def test_the_newest_messages_are_lost() -> None:
    """The checker has waited for them until its patience was over: each is missing, and the answer too."""
    world, written = churned()
    lost = [one for one in written if one.bookmark.startswith("orders:0@")][-3:]
    world.events = [event for event in world.events if event not in lost]
    world.events.append(Unanswered("expected the changes at orders:0@99 in all, got nothing", world.at))
    world.end(lost[0].read)
    assert judge(world.events).broken == {Guarantee.FANOUTS: len(lost), Guarantee.ANSWERS: 1}


def test_changes_before_the_history() -> None:
    """A fanout may still write them, or repeat them, when the history has begun."""
    world, written = churned()
    earlier = structs.replace(written[0], bookmark="orders:0@0", data={"id": "99"})
    assert not judged_with(world, [earlier]).violations


def test_changes_after_the_last_bookmark() -> None:
    """No subscriber may have received them any more; they come after all others."""
    world, written = churned()
    later = structs.replace(written[0], bookmark="orders:0@999", data={"id": "99"})
    assert not judged_with(world, [later, later]).violations


def test_changes_behind_a_later_one() -> None:
    """Readers would take them for repeats."""
    world, written = churned()
    later = structs.replace(written[0], bookmark="orders:0@999")
    world.events.insert(world.events.index(written[0]), later)
    behind = {one.bookmark for one in written if one.bookmark.startswith("orders:0@")}
    assert judged_with(world, [later]).broken == {Guarantee.FANOUTS: len(behind)}


def test_a_message_without_a_bookmark() -> None:
    """No reader could tell whether it is a repeat."""
    world, written = churned()
    found = judged_with(world, [structs.replace(written[-1], bookmark="")]).violations
    assert [one.sentence for one in found] == [f"no write explains the {written[-1].command} at "]


def test_a_record_instead_of_a_change() -> None:
    """A fanout that loads its topic again has lost where it was."""
    world, written = churned()
    published = next(one for one in written if one.command == "publish")
    assert judged_with(world, [structs.replace(published, command="sow")]).broken == {Guarantee.FANOUTS: 1}


def test_votes() -> None:
    """A fanout does not decide what has happened: it would outvote subscribers by its repeats."""
    world, written = churned()
    expired = next(one for one in written if one.reason == "expired")
    moved = structs.replace(expired, bookmark=just_before(expired.bookmark))
    assert judged_with(world, [moved] * 9).broken == {Guarantee.FANOUTS: 9}


# The smallest histories: a fanout that begins after the first of three changes.

RECORDS = [{"id": "k", "n": n} for n in (1, 2, 3)]
FIRST, SECOND, THIRD = (got(f"t:0@{one['n']}", one, f"w{one['n']}", read="f") for one in RECORDS)
WRITES = [written(f"w{one['n']}", f"t:0@{one['n']}", one) for one in RECORDS]
FANOUT = opened(read="f", oof=True, fanout="all", bookmark="t:0@1,1@0")
AFTER_THE_END = got("t:0@9", {"id": "j"}, "w9", read="f")


def instead_of(record: object) -> str:
    """Return how an accusation begins whose message has another body, or is of another kind."""
    return f"fanouts: f: expected publish with {record} for record k,"


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ([SECOND, THIRD], []),
        ([FIRST, SECOND, THIRD], []),
        ([SECOND, THIRD, SECOND, THIRD], []),
        ([SECOND, THIRD, AFTER_THE_END], []),
        ([THIRD], ["fanouts: f: expected the publish at t:0@2, got none [k]"]),
        ([SECOND], ["fanouts: f: expected the publish at t:0@3, got none [k]"]),
        ([SECOND, AFTER_THE_END], ["fanouts: f: expected the publish at t:0@3, got none [k]"]),
        ([THIRD, SECOND], ["fanouts: f: got the change at t:0@2 after t:0@3 [k]"]),
        ([AFTER_THE_END, SECOND, THIRD], [
            f"fanouts: f: got the change at t:0@{n} after t:0@9 [k]" for n in (2, 3)
        ]),
        ([SECOND, structs.replace(SECOND, data=RECORDS[0]), THIRD], [
            f"{instead_of(RECORDS[1])} got the publish at t:0@2 with {RECORDS[0]} [k]"
        ]),
        ([SECOND, structs.replace(THIRD, delta=True)], [
            f"{instead_of(RECORDS[2])} got the delta at t:0@3 with {RECORDS[2]} [k]"
        ]),
        ([structs.replace(SECOND, correlation_id="w1"), THIRD], [
            "fanouts: f: expected the effect of w2 at t:0@2, got one of w1 [k]"
        ]),
        ([SECOND, got("t:0@2.1", RECORDS[1], "w2", read="f"), THIRD], [
            "fanouts: f: no write explains the publish at t:0@2.1 [k]"
        ]),
        ([SECOND, THIRD, got("", RECORDS[2], "w3", read="f")], ["fanouts: f: no write explains the publish at  [k]"]),
    ],
)  # fmt: skip
def test_a_fanout_has_what_a_subscription_would_receive(
    messages: list[MessageRead], found: list[str]
) -> None:
    """After its beginning and up to its end; repeats are those of a failure."""
    assert broken(WRITES, FANOUT, messages, ended("t:0@3", read="f")) == found


def test_a_fanout_without_an_end() -> None:
    """Nothing tells up to where it was awaited."""
    assert broken(WRITES, FANOUT, THIRD) == []


def test_a_fanout_of_deltas() -> None:
    """A wrong one breaks the same guarantee."""
    deltas = structs.replace(FANOUT, command="delta_subscribe")
    right = structs.replace(SECOND, delta=True)
    wrong = structs.replace(THIRD, delta=True, data=RECORDS[0])
    assert broken(WRITES, deltas, right, wrong, ended("t:0@3", read="f")) == [
        f"{instead_of(RECORDS[2])} got the delta at t:0@3 with {RECORDS[0]} [k]"
    ]
