"""Writes: their order, their one effect, deletes and expiries."""

from datetime import UTC, datetime

import pytest
from msgspec import structs

from sowline.check.history import DeltaParts, Event, MessageRead, WriteAnswered, WriteSent
from sowline.check.judge.judging import judge
from sowline.check.judge.verdict import Guarantee
from tests.checked_world import CheckedWorld
from tests.planted import PLANTED, PlantedMistake, broken_by
from tests.small_histories import Body, Parts, answered, broken, got, judged, opened, sent, written

OF_WRITES = {Guarantee.DELETES, Guarantee.ONE_EFFECT, Guarantee.READ_YOUR_WRITES}


def names(world: CheckedWorld) -> set[Guarantee]:
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
    assert Guarantee.ORDER in names(world)


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
    assert names(world) == found


def test_a_record_without_a_lifetime_expires(world: CheckedWorld) -> None:
    """It was to stay; the same holds for one whose last write gave it none."""
    world.write("publish", {"id": "2", "status": "open", "qty": 1}, 3)
    world.write("publish", {"id": "2", "status": "open", "qty": 2}, 0)
    world.time += 9
    world.due["2"] = world.time
    world.expire()
    assert names(world) == {Guarantee.EXPIRY}


@pytest.mark.parametrize(("seconds", "found"), [(60, set()), (90, {Guarantee.EXPIRY})])
def test_a_record_that_never_expires(world: CheckedWorld, seconds: float, found: set[Guarantee]) -> None:
    """The log has gone on for long."""
    world.write("publish", {"id": "2", "status": "open", "qty": 1}, 3)
    world.time += seconds
    world.write("publish", {"id": "4", "status": "open", "qty": 1})
    assert names(world) == found


def test_a_record_expires_twice(world: CheckedWorld) -> None:
    """The second time there is none."""
    expiring(world, 5)
    expired = world.events[-1]
    assert isinstance(expired, MessageRead)
    world.events.append(structs.replace(expired, bookmark="orders:0@9"))
    assert Guarantee.EXPIRY in names(world)


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
    assert not names(world)
    world.events = without_messages(world, "4")
    assert Guarantee.DELETES in names(world)


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
    assert Guarantee.DELETES in names(world)


def test_a_delete_removes_a_record_that_there_is_not(world: CheckedWorld) -> None:
    """Nor one twice in a partition."""
    world.write("publish", {"id": "2", "status": "late", "qty": 1})
    world.delete("")
    removal = world.events[-2]
    assert isinstance(removal, MessageRead)
    world.events.append(structs.replace(removal, bookmark="orders:0@9"))
    assert Guarantee.DELETES in names(world)


# The smallest histories. The first subscription receives everything, with the log's times.

K: Body = {"id": "k", "qty": 5}
M: Body = {"id": "m", "qty": 1}
ALL = opened(oof=True)


def of_writes(*parts: Parts) -> list[str]:
    """Return what a history breaks, but for what its subscription is accused of."""
    return [one for one in broken(*parts) if ": r: " not in one]


def at(seconds: float) -> str:
    """Return a log time."""
    return datetime.fromtimestamp(1_800_000_000 + seconds, UTC).isoformat()


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([*written("w1", "t:0@1", K), *written("w2", "t:0@2", K)], []),
        ([*written("w1", "t:0@2", K), *written("w2", "t:0@1", K)], [
            "order: write w2 stands at t:0@1, before an earlier write of a",
        ]),
        ([*written("w1", "t:0@1", K), *written("w2", "t:0@1", K)], [
            "order: write w2 stands at t:0@1, before an earlier write of a",
        ]),
        ([*written("w1", "t:0@2", K), *written("w2", "t:1@1", M)], []),
        ([*written("w1", "t:0@2", K), *written("w2", "t:0@1", M, writer="b")], []),
        ([*written("w1", "t:0@2", K), *written("w2", "", M), *written("w3", "t:0@3", K)], []),
        ([*written("w1", "t:0@2", K), *written("w2", "orders:0@1", K, topic="orders")], []),
        ([sent("w1", K), sent("w2", K), answered("w2", "t:0@1"), answered("w1", "t:0@2")], [
            "order: write w2 stands at t:0@1, before an earlier write of a",
        ]),
    ],
)  # fmt: skip
def test_the_commands_of_a_writer_stand_in_its_order(events: list[Event], found: list[str]) -> None:
    """In each partition, whenever their answers come."""
    assert broken(events) == found


@pytest.mark.parametrize(
    ("effect", "found"),
    [
        ("t:0@2", []),
        ("t:0@3,1@1", []),
        ("", []),
        ("t:0@1", ["read your writes: write w1 stands at t:0@2, its effect is to be seen from t:0@1"]),
        ("t:1@9", ["read your writes: write w1 stands at t:0@2, its effect is to be seen from t:1@9"]),
    ],
)
def test_an_effect_covers_its_write(effect: str, found: list[str]) -> None:
    """Who reads at it sees the write."""
    assert broken(sent("w1", K), answered("w1", "t:0@2", effect=effect)) == found


DELETE = sent("d", None, "sow_delete", filter="/qty > 3", writer="d")
TWO = [ALL, *written("w1", "t:0@1", K), *written("w2", "t:1@1", M)]
GONE = got("t:0@9", K, "d", reason="deleted")


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([DELETE, answered("d", deleted=1), GONE], []),
        ([DELETE, answered("d"), GONE], []),
        ([DELETE, GONE], []),
        ([DELETE, answered("d", deleted=2), GONE], ["deletes: delete d reports 2 records, subscribers lost 1 by it"]),
        ([DELETE, answered("d", deleted=1)], ["deletes: delete d reports 1 records, subscribers lost 0 by it"]),
        ([DELETE, GONE, got("t:1@9", M, "d", reason="deleted")], [
            "deletes: delete d removes record m, which does not match /qty > 3 [m]",
        ]),
        ([written("w3", "t:0@2", {"id": "j", "qty": 7}), DELETE, GONE], [
            "deletes: delete d leaves records that match at t:0@9: ['j'] [j]",
        ]),
        ([written("w3", "t:0@2", {"id": "j", "qty": 2}), DELETE, GONE], []),
        ([written("w3", "t:0@10", {"id": "j", "qty": 7}), DELETE, GONE], []),
        ([written("w3", "t:1@2", {"id": "m", "qty": 7}), DELETE, GONE], []),
        ([written("w3", "t:0@2", {"id": "j", "qty": 7}), DELETE, GONE,
          got("t:0@9.1", {"id": "j", "qty": 7}, "d", reason="deleted")], []),
        ([written("w3", "t:0@2", {"id": "j", "qty": 7}), DELETE, GONE,
          got("t:0@8", {"id": "j", "qty": 7}, "d", reason="deleted")], [
            "deletes: delete d leaves records that match at t:0@8: ['k'] [k]",
            "one effect: delete d takes effect more than once in a partition",
        ]),
        ([DELETE, GONE, got("t:0@10", {"id": "j"}, "d", reason="deleted")], [
            "deletes: record j is removed at t:0@10, but did not exist [j]",
        ]),
    ],
)  # fmt: skip
def test_a_delete_by_filter_removes_what_matches(events: Parts, found: list[str]) -> None:
    """At one instant of each partition, all of it and nothing else, and reports how much."""
    assert of_writes(TWO, events) == found


@pytest.mark.parametrize(("key", "deleted", "count"), [("k", 1, 0), ("k", 0, 1), ("j", 0, 0), ("j", 1, 1)])
def test_a_delete_of_one_record_reports_it(key: str, deleted: int, count: int) -> None:
    """One if there was a record, else none; that there was none is no mistake."""
    events = [sent("d", {"id": key}, "sow_delete"), answered("d", "t:0@9", deleted=deleted)]
    lost = int(key == "k")
    wrong = f"deletes: delete d reports {deleted} records, subscribers lost {lost} by it"
    assert broken(TWO, events) == [wrong] * count


def test_what_is_counted_of_writes() -> None:
    """Each order, effect, delete and outcome."""
    verdict = judged(TWO, DELETE, answered("d", deleted=1), GONE)
    assert verdict.checked[Guarantee.DELETES] == 3
    assert verdict.checked[Guarantee.ORDER] == 3
    assert verdict.checked[Guarantee.READ_YOUR_WRITES] == 0
    assert (
        judged(sent("w1", K), answered("w1", "t:0@2", effect="t:0@2")).checked[Guarantee.READ_YOUR_WRITES]
        == 1
    )


def delta(outcome: str, *, condition: Body | None = None, fields: Body | None = None) -> list[Event]:
    """Return a delta to `k`, and the outcome that its writer learned."""
    parts = DeltaParts({"qty": 6} if fields is None else fields, condition=condition)
    return [sent("d", {"id": "k"}, "delta", delta=parts), answered("d", "t:0@2", outcome=outcome)]


@pytest.mark.parametrize(
    ("events", "wanted"),
    [
        (delta("applied"), ""),
        (delta(""), ""),
        (delta("noop", fields={"qty": 5}), ""),
        (delta("applied", fields={"qty": 5}), "noop"),
        (delta("noop"), "applied"),
        (delta("condition_false", condition={"qty": 4}), ""),
        (delta("applied", condition={"qty": 4}), "condition_false"),
        (delta("condition_false", condition={"qty": 5}), "applied"),
    ],
)
def test_a_writer_learns_the_outcome_of_its_delta(events: list[Event], wanted: str) -> None:
    """By the document just before its position."""
    reported = events[-1]
    assert isinstance(reported, WriteAnswered)
    wrong = f"documents: expected the outcome {wanted} of d, got {reported.outcome} [k]"
    assert broken(written("w1", "t:0@1", K), events) == ([wrong] if wanted else [])


MORTAL = [ALL, sent("w1", K, expiration=3), answered("w1", "t:0@1")]


def expired(seconds: float | None, position: str = "t:0@2", data: Body = K) -> MessageRead:
    """Return the message of an expiry."""
    return got(position, data, reason="expired", timestamp="" if seconds is None else at(seconds))


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([got("t:0@1", K, "w1", timestamp=at(0)), expired(3)], []),
        ([got("t:0@1", K, "w1", timestamp=at(0)), expired(2.5)], [
            "expiry: record k expires at t:0@2, 0.500 s before its time [k]",
        ]),
        ([got("t:0@1", K, "w1", timestamp=at(0)), expired(None)], []),
        ([got("t:0@1", K, "w1"), expired(0)], []),
        ([got("t:0@1", K, "w1"), expired(3), expired(4, "t:0@3")], [
            "expiry: record k is removed at t:0@3, but did not exist [k]",
        ]),
        ([written("w2", "t:0@2", K), got("t:0@1", K, "w1"), got("t:0@2", K, "w2"), expired(9, "t:0@3")], [
            "expiry: record k without a lifetime expires at t:0@3 [k]",
        ]),
    ],
)  # fmt: skip
def test_a_record_expires_after_its_lifetime(events: Parts, found: list[str]) -> None:
    """By the times in the log, where they are known."""
    assert of_writes(MORTAL, events) == found


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([got("t:0@2", K, "w2", timestamp=at(63))], []),
        ([got("t:0@2", M, "w2", timestamp=at(64))], [
            "expiry: record k still exists 64 s after it was given 3 s [k]",
        ]),
        ([got("t:1@2", M, "w2", timestamp=at(64))], []),
        ([got("t:0@2", M, "w2", timestamp=at(64)), written("w3", "t:0@3", K)], []),
        ([got("t:0@2", M, "w2", timestamp=at(64)), written("w3", "t:0@3", {"id": "k"}, "sow_delete")], []),
    ],
)  # fmt: skip
def test_a_record_goes_when_its_lifetime_is_over(events: Parts, found: list[str]) -> None:
    """At the latest a minute later, by the time of its partition's log."""
    came = got("t:0@1", K, "w1", timestamp=at(0))
    assert of_writes(MORTAL, came, sent("w2", M), events) == found


def test_a_record_whose_beginning_is_unknown() -> None:
    """Nothing tells how long it has been there."""
    late = got("t:0@2", M, "w2", timestamp=at(999))
    assert broken(MORTAL, got("t:0@1", K, "w1"), sent("w2", M), late) == []


def test_what_is_counted_of_expiries() -> None:
    """Each one, and each record that could be overdue."""
    came = got("t:0@1", K, "w1", timestamp=at(0))
    assert judged(MORTAL, came, expired(3)).checked[Guarantee.EXPIRY] == 1
    assert judged(MORTAL, came).checked[Guarantee.EXPIRY] == 1
    assert judged(MORTAL, got("t:0@1", K, "w1")).checked[Guarantee.EXPIRY] == 0
