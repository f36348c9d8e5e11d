"""Reads: what a query and each kind of subscription must get, and what is wrong with the rest."""

import pytest

from sowline.check.history import Event, MessageRead, ReadEnded, ReadOpened
from sowline.check.judge.judging import judge
from sowline.check.judge.reads import digest
from sowline.check.judge.verdict import Guarantee
from tests.checked_world import TOPIC, CheckedWorld
from tests.planted import PLANTED, PlantedMistake, broken_by
from tests.small_histories import (
    Body,
    broken,
    ended,
    got,
    group,
    judged,
    opened,
    progress,
    written,
)
from tests.unit.sowline.check.judge.small_reads import (
    AT,
    CHANGES,
    FOCUSED,
    K_HASH,
    LIFE,
    NEW,
    OLD,
    QUERY,
    SOW_KEYS,
    TWO,
    K,
    M,
)

OTHERS = {Guarantee.VIEWS, Guarantee.DELETES, Guarantee.EXPIRY}


def names(events: list[Event]) -> set[Guarantee]:
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
    assert not names(world.events)


def test_a_second_group(world: CheckedWorld) -> None:
    """With the option `reset`, the changes after it count from it on."""
    read = world.open("sow_and_subscribe", oof=True)
    world.churn(5)
    world.send_group(world.readers[read])
    world.churn(5)
    world.end(read)
    assert not names(world.events)


def test_a_change_before_the_group(world: CheckedWorld) -> None:
    """Without records there is nothing to change."""
    read = world.open("sow_and_subscribe", oof=True)
    world.churn(5)
    events = [
        event
        for event in world.events
        if not (isinstance(event, MessageRead) and event.command.startswith("group"))
    ]
    assert Guarantee.SNAPSHOT in names(events)
    assert read


def test_two_bookmarks_of_a_group(world: CheckedWorld) -> None:
    """It is of one instant."""
    world.open("sow")
    end = world.events[-2]
    assert isinstance(end, MessageRead)
    world.events[-2] = MessageRead(end.read, "group_end", 0.0, "orders:0@0,1@0", records=0)
    assert Guarantee.SNAPSHOT in names(world.events)


@pytest.mark.parametrize(("age_seconds", "found"), [(10, {Guarantee.RESUME}), (900, set())])
def test_an_expired_bookmark(world: CheckedWorld, age_seconds: float, found: set[Guarantee]) -> None:
    """It may only be an old one."""
    read = world.open("subscribe", bookmark=world.bookmark, resumed=True)
    world.events.append(ReadEnded(read, 1.0, "", "bookmark_expired", age_seconds))
    assert names(world.events) == found


def test_an_end(world: CheckedWorld) -> None:
    """A subscription that has ended by itself has received everything up to its end."""
    begin = world.bookmark
    world.churn(6)
    read = world.open("subscribe", oof=True, bookmark=begin, resumed=True, up_to=world.bookmark)
    world.events.append(ReadEnded(read, 1.0))
    assert names(world.events) == {Guarantee.RESUME}


def test_a_history_that_stops(world: CheckedWorld) -> None:
    """Whatever comes after the last message may be on its way."""
    world.open("subscribe", oof=True)
    world.churn(5)
    assert not names(world.events)


def test_a_message_without_a_position(world: CheckedWorld) -> None:
    """No write explains it."""
    read = world.open("subscribe")
    world.events.append(MessageRead(read, "publish", 0.0, "epoch", data={"id": "1"}))
    assert names(world.events) == {Guarantee.ONE_EFFECT}


def test_a_change_from_before_the_group(world: CheckedWorld) -> None:
    """The group has it already."""
    first = world.open("subscribe", oof=True)
    world.churn(3)
    read = world.open("sow_and_subscribe", oof=True)
    old = next(event for event in world.events if isinstance(event, MessageRead) and event.read == first)
    world.events.append(
        MessageRead(read, old.command, 0.0, old.bookmark, data=old.data, correlation_id=old.correlation_id)
    )
    assert Guarantee.NO_REPEAT in names(world.events)
    assert TOPIC


@pytest.mark.parametrize(
    ("events", "found"),
    [
        (group(AT, K, records=1), []),
        (group(AT, K), []),
        (group("t:1@1", records=0), []),
        (group("t:0@1", K), []),
        (group("t:0@0,1@1"), []),
        (group(AT), [f"snapshot: r: expected record k at {AT}, which is not there [k]"]),
        (group(AT, K, M), [f"snapshot: r: got record m at {AT}, which does not match there [m]"]),
        (group(AT, K, K), [f"snapshot: r: got record k at {AT}, a second time [k]"]),
        (group(AT, K, {"qty": 9}), [f"snapshot: r: got record None at {AT}, which does not match there"]),
        (
            group(AT, {**K, "qty": 6}),
            [f"snapshot: r: expected {K} of t:0@1 at {AT}, got {{'id': 'k', 'qty': 6}} of  [k]"],
        ),
        (group(AT, K, records=2), [f"snapshot: r: expected 1 records at {AT}, got 2"]),
        (group(AT, K, begin="t:0@1"), [f"snapshot: r: expected one bookmark, got t:0@1 and {AT}"]),
        ([], ["snapshot: r: expected a group_end, got the end of the query"]),
        (group(AT, K)[1:], [f"snapshot: r: expected record k at {AT}, which is not there [k]"]),
    ],
)
def test_a_result_has_the_records_of_its_bookmark(events: list[Event], found: list[str]) -> None:
    """Exactly those that match there, each once, with its body."""
    assert broken(QUERY, events, ended(AT)) == found


def test_a_result_is_of_the_versions_at_its_bookmark() -> None:
    """Neither of earlier ones nor of later ones; a deleted record is in none."""
    later = {"id": "k", "qty": 9}
    events = [
        *written("w1", "t:0@1", K),
        *written("w2", "t:0@2", later),
        *written("w3", "t:0@3", {"id": "k"}, "sow_delete"),
    ]
    for bookmark, records in {"t:0@0": [], "t:0@1": [K], "t:0@2": [later], "t:0@3": []}.items():
        assert broken(events, opened("sow"), group(bookmark, *records)) == [], bookmark


@pytest.mark.parametrize(
    ("updated_at", "found"),
    [
        ("", []),
        ("t:0@1", []),
        ("t:0@2", [f"snapshot: r: expected {K} of t:0@1 at {AT}, got {K} of t:0@2 [k]"]),
    ],
)
def test_a_record_names_its_last_change(updated_at: str, found: list[str]) -> None:
    """If it names one."""
    [begin, _, end] = group(AT, K)
    record = MessageRead("r", "sow", 0.0, data=K, updated_at=updated_at)
    assert broken(QUERY, begin, record, end) == found


@pytest.mark.parametrize(
    ("known", "hash", "found"),
    [
        (SOW_KEYS, K_HASH, []),
        (SOW_KEYS, "00", [f"snapshot: r: expected the hash {K_HASH} at {AT}, got 00"]),
        ([], "00", []),
    ],
)
def test_a_result_has_the_hash_of_its_sow_keys(known: list[Event], hash: str, found: list[str]) -> None:
    """Where the history shows them all."""
    assert broken(known, QUERY, group(AT, K, hash=hash), ended(AT)) == found


@pytest.mark.parametrize(("reason", "count"), [("", 1), ("behind", 0)])
def test_a_query_that_failed_owes_no_result(reason: str, count: int) -> None:
    """One that ended well does; one that has not ended may still get it."""
    assert len(broken(QUERY, ended(reason=reason))) == count
    assert broken(QUERY) == []


def test_a_subscription_that_ends_before_its_group() -> None:
    """It owes none: its reader has left."""
    assert broken(TWO, opened("sow_and_subscribe"), ended(AT)) == []


def test_a_message_before_the_group() -> None:
    """Without records there is nothing to change."""
    events = [opened("sow_and_subscribe"), got("t:0@1", K, "w1")]
    assert broken(TWO, events) == ["snapshot: r: expected a group first, got the publish at t:0@1"]


def test_each_result_is_counted_once() -> None:
    """By its own guarantee."""
    assert judged(QUERY, group(AT, K)).checked[Guarantee.SNAPSHOT] == 1
    page = judged(TWO, opened("sow", order_by="/id"), group(AT, K, M))
    assert (page.checked[Guarantee.PAGES], page.checked[Guarantee.SNAPSHOT]) == (1, 0)


A, B, C = ({"id": id, "qty": qty} for id, qty in (("a", 1), ("b", 2), ("c", 2)))
RANKED = [event for n, one in enumerate((A, B, C), 1) for event in written(f"w{n}", f"t:0@{n}", one)]


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ([C, A], []),
        ([A, C], ["pages: r: expected the order ['c', 'a'] at t:0@3, got ['a', 'c']"]),
        ([C], ["pages: r: expected record a at t:0@3, which is not there [a]"]),
        ([C, A, B], ["pages: r: got record b at t:0@3, which does not match there [b]"]),
        ([C, C], [
            "pages: r: got record c at t:0@3, a second time [c]",
            "pages: r: expected record a at t:0@3, which is not there [a]",
        ]),
    ],
)  # fmt: skip
def test_a_page_has_its_ranks(records: list[Body], found: list[str]) -> None:
    """In their order, and no others."""
    page = opened("sow", order_by="/qty DESC, /id", skip_n=1, top_n=2)
    assert broken(RANKED, page, group("t:0@3", *records)) == found


@pytest.mark.parametrize(
    ("promise", "bookmark", "found"),
    [
        ("read_your_writes", AT, []),
        ("monotonic_reads", AT, []),
        ("", "t:0@1", []),
        (
            "read_your_writes",
            "t:0@1",
            [f"read your writes: r: expected records of {AT} or later, got those of t:0@1"],
        ),
        (
            "monotonic_reads",
            "t:0@1",
            [f"monotonic reads: r: expected records of {AT} or later, got those of t:0@1"],
        ),
    ],
)
def test_a_result_is_as_fresh_as_demanded(promise: str, bookmark: str, found: list[str]) -> None:
    """In each partition; a bookmark without a promise demands nothing of the judge."""
    query = opened("sow", filter=FOCUSED, promise=promise, at_least=AT)
    assert broken(TWO, query, group(bookmark, K)) == found


CONFLATED = opened("sow_and_subscribe", filter=FOCUSED, oof=True, conflated=True)


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ([progress("t:0@1")], []),
        ([CHANGES, progress("t:0@2")], []),
        ([progress("t:0@2")], [f"conflation: r: expected {NEW} at t:0@2, got {OLD} [k]"]),
        ([CHANGES, progress("t:0@3")], [f"conflation: r: expected None at t:0@3, got {NEW} [k]"]),
        ([got("t:0@3", {"id": "k"}, reason="match"), progress("t:0@3")], []),
        ([got("t:0@3", {"id": "j"}, reason="match"), progress("t:0@1")], []),
        ([got("t:0@1", None), progress("t:0@1")], []),
        ([CHANGES, got("t:0@2", {"id": "m"}), progress("t:0@2")], [
            "conflation: r: expected None at t:0@2, got {'id': 'm'} [m]",
        ]),
        ([CHANGES, ended("t:0@4")], []),
    ],
)  # fmt: skip
def test_a_conflated_subscriber_holds_the_result(messages: list[Event], found: list[str]) -> None:
    """At each bookmark, whatever was left out in between."""
    assert broken(LIFE, CONFLATED, group("t:0@1", OLD), messages) == found


def test_a_second_group_of_a_conflated_subscription() -> None:
    """It replaces what the subscriber holds."""
    groups = [group("t:0@1", OLD), group("t:0@3")]
    verdict = judged(LIFE, CONFLATED, *groups, progress("t:0@3"))
    assert not verdict.violations
    assert verdict.checked[Guarantee.CONFLATION] == 1


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (progress(AT, records=1, hash=K_HASH), []),
        (progress(AT, records=9), []),
        (progress(AT, records=2, hash=K_HASH), [f"checksum: r: expected 1 records at {AT}, got 2"]),
        (progress(AT, hash="00"), [f"checksum: r: expected the hash {K_HASH} at {AT}, got 00"]),
        (progress("t:1@1", records=0, hash=digest([])), []),
    ],
)
def test_a_checksum_is_that_of_its_bookmark(message: MessageRead, found: list[str]) -> None:
    """Of the records that match there; without a hash it is none."""
    events = [*SOW_KEYS, *TWO, opened(filter=FOCUSED), got("t:0@1", K, "w1"), message]
    assert broken(events) == found
    assert judged(events).checked[Guarantee.CHECKSUM] == bool(message.hash)
