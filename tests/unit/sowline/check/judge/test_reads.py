"""Reads: what a query and each kind of subscription must get, and what is wrong with the rest."""

import pytest
from msgspec import structs

from sowline.check.history import Event, MessageRead, ReadEnded, ReadOpened
from sowline.check.judge.judging import judge
from sowline.check.judge.reads import digest
from sowline.check.judge.verdict import Guarantee
from tests.checked_world import TOPIC, CheckedWorld
from tests.planted import PLANTED, PlantedMistake, broken_by
from tests.small_histories import (
    Body,
    Parts,
    answered,
    broken,
    ended,
    got,
    group,
    judged,
    opened,
    progress,
    sent,
    written,
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


# The smallest histories. `k` and `m` are in two partitions; `m` has a quantity that the filter does not select.

AT = "t:0@1,1@1"
K: Body = {"id": "k", "qty": 5}
M: Body = {"id": "m", "qty": 1}
TWO = [*written("w1", "t:0@1", K), *written("w2", "t:1@1", M)]
SOW_KEYS = [opened(read="all"), got("t:0@1", K, "w1", read="all", sow_key="15266929873826298676")]
"""A subscription whose message shows the SOW key of `k`."""
K_HASH = "0d3bd03b3be000bf"
FOCUSED = "/qty > 3"
QUERY = [*TWO, opened("sow", filter=FOCUSED)]


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


# Changes: one record that comes, changes, leaves the filter, and goes.

OLD: Body = {"id": "k", "qty": 5, "note": "x"}
NEW: Body = {"id": "k", "qty": 7}
LEFT: Body = {"id": "k", "qty": 1}
LIFE = [
    *written("w1", "t:0@1", OLD),
    *written("w2", "t:0@2", NEW),
    *written("w3", "t:0@3", LEFT),
    *written("w4", "t:0@4", {"id": "k"}, "sow_delete"),
]
COMES, CHANGES = got("t:0@1", OLD, "w1"), got("t:0@2", NEW, "w2")
LEAVES = got("t:0@3", LEFT, "w3", reason="match")
GOES = got("t:0@4", {"id": "k"}, "w4", reason="deleted")
NO_MESSAGE = "expected no message with None for record k"
GOES_AGAIN = "got the oof (deleted) at t:0@4 with {'id': 'k'}"


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ([COMES, CHANGES, LEAVES], []),
        ([COMES, LEAVES], ["no gap: r: expected the publish at t:0@2, got none [k]"]),
        ([COMES, CHANGES], ["no gap: r: expected the oof at t:0@3, got none [k]"]),
        ([COMES, CHANGES, CHANGES, LEAVES], ["no repeat: r: got the change at t:0@2 again [k]"]),
        ([CHANGES, COMES, LEAVES], ["order: r: got the change at t:0@1 after t:0@2 [k]"]),
        (
            [LEAVES, COMES, CHANGES],
            [f"order: r: got the change at t:0@{n} after t:0@3 [k]" for n in (1, 2)],
        ),
        ([COMES, CHANGES, LEAVES, GOES], [f"focus: r: {NO_MESSAGE}, {GOES_AGAIN} [k]"]),
        ([COMES, CHANGES, LEAVES, got("t:0@9", K, "w9")], [
            "one effect: r: no write explains the publish at t:0@9 [k]",
        ]),
        ([got("t:0@1", OLD, "w2"), CHANGES, LEAVES], [
            "one effect: r: expected the effect of w1 at t:0@1, got one of w2 [k]",
        ]),
    ],
)  # fmt: skip
def test_a_subscription_gets_each_change(messages: list[MessageRead], found: list[str]) -> None:
    """Once, in the order of the log, of its own write, and none that its filter does not select."""
    assert broken(LIFE, opened(filter=FOCUSED, oof=True), messages, ended("t:0@4")) == found


def body_of(message: MessageRead, **fields: object) -> MessageRead:
    """Return a message with other fields."""
    return structs.replace(message, **fields)


@pytest.mark.parametrize(
    ("message", "got_instead"),
    [
        (body_of(LEAVES, reason="deleted"), f"oof (deleted) at t:0@3 with {LEFT}"),
        (body_of(LEAVES, command="publish", reason=""), f"publish at t:0@3 with {LEFT}"),
        (body_of(LEAVES, data=NEW), f"oof (match) at t:0@3 with {NEW}"),
        (body_of(LEAVES, sow_key="7"), f"oof (match) at t:0@3 with {LEFT}"),
        (body_of(LEAVES, delta=True), f"delta (match) at t:0@3 with {LEFT}"),
    ],
)
def test_a_message_says_what_a_change_did(message: MessageRead, got_instead: str) -> None:
    """Its kind, its reason, its body, its SOW key."""
    first = body_of(COMES, sow_key="8", read="all")
    events: list[Parts] = [
        LIFE,
        opened(read="all"),
        first,
        opened(filter=FOCUSED, oof=True),
        COMES,
        CHANGES,
        message,
    ]
    assert broken(*events) == [f"focus: r: expected oof with {LEFT} for record k, got the {got_instead} [k]"]


def test_a_message_of_another_record() -> None:
    """It names both records, so that a short history has both."""
    message = got("t:0@1", {"id": "j"}, "w1")
    assert broken(LIFE, opened(), message)[-1].endswith("with {'id': 'j'} [j] [k]")


def test_a_record_without_a_key_is_not_the_one_with_an_empty_key() -> None:
    """A result that has it instead is wrong twice."""
    events = [*written("w1", "t:0@1", {"id": ""}), opened("sow"), *group("t:0@1", {"n": 1})]
    assert broken(events) == [
        "snapshot: r: got record None at t:0@1, which does not match there",
        "snapshot: r: expected record  at t:0@1, which is not there []",
    ]


def test_a_record_that_goes() -> None:
    """By a delete or an expiry, with its last body and the reason."""
    mortal = sent("w1", K, expiration=3)
    deleted, expired = (
        got("t:0@2", K, write, reason=reason) for write, reason in (("w2", "deleted"), ("", "expired"))
    )
    came = [opened(oof=True), got("t:0@1", K, "w1")]
    assert broken(mortal, answered("w1", "t:0@1"), came, expired) == []
    events = [*written("w1", "t:0@1", K), *written("w2", "t:0@2", {"id": "k"}, "sow_delete")]
    assert broken(events, came, deleted) == []
    assert [one[:5] for one in broken(events, came, body_of(deleted, reason="match"))] == ["focus"]


def test_without_oof() -> None:
    """Nothing is sent of a record that leaves or goes."""
    events: list[Parts] = [LIFE, opened(filter=FOCUSED), COMES, CHANGES]
    assert broken(*events, ended("t:0@4")) == []
    assert [one[:5] for one in broken(*events, LEAVES, ended("t:0@4"))] == ["focus"]


@pytest.mark.parametrize(
    ("end", "count"),
    [
        ([ended("t:0@1")], 0),
        ([ended("t:0@2")], 1),
        ([ended("t:1@9")], 0),
        ([ended("t:0@2", "lost")], 1),
        ([progress("t:0@2"), ended()], 1),
        ([progress("t:0@2"), ended("t:0@1")], 1),
        ([progress("t:0@2"), progress("t:0@1")], 1),
        ([got("t:0@2", NEW, "w2", delta=False), progress("t:0@1")], 0),
        ([], 0),
    ],
)
def test_changes_are_due_up_to_where_all_was_received(end: list[Event], count: int) -> None:
    """By the last message, by a bookmark of progress, or by the end; later ones may be on their way."""
    assert len(broken(LIFE, opened(), COMES, end)) == count


@pytest.mark.parametrize(("reason", "count"), [("", 1), ("lost", 0)])
def test_a_subscription_up_to_a_bookmark(reason: str, count: int) -> None:
    """It has everything up to there if it ended well."""
    assert len(broken(LIFE, opened(up_to="t:0@2"), COMES, ended("t:0@1", reason))) == count


DELTA = got("t:0@2", {"id": "k", "qty": 7}, "w2", delta=True, removed=("/note",))


@pytest.mark.parametrize(
    ("messages", "wrong"),
    [
        ([COMES, DELTA], ""),
        ([COMES, body_of(DELTA, data={"qty": 7})], ""),
        ([COMES, body_of(DELTA, data={"qty": 8})], "t:0@2 with {'id': 'k', 'qty': 8} [k]"),
        ([COMES, body_of(DELTA, removed=())], "t:0@2 with {'id': 'k', 'qty': 7, 'note': 'x'} [k]"),
        ([body_of(COMES, delta=True), DELTA], f"t:0@1 with {OLD} [k]"),
        ([COMES, body_of(DELTA, data=None, removed=())], f"t:0@2 with {OLD} [k]"),
    ],
)
def test_a_delta_leads_to_the_record(messages: list[MessageRead], wrong: str) -> None:
    """Merged into the record before it; a record that starts to match comes in full."""
    found = broken(LIFE, opened("delta_subscribe", filter=FOCUSED), messages)
    assert [one.partition("got the delta at ")[::2] for one in found] == (
        [(f"deltas: r: expected publish with {OLD if 't:0@1' in wrong else NEW} for record k, ", wrong)]
        if wrong
        else []
    )


def test_a_delta_without_a_request() -> None:
    """It is no whole record."""
    assert [one[:6] for one in broken(LIFE, opened(), COMES, DELTA)] == ["focus:"]


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ([CHANGES, LEAVES], []),
        ([LEAVES], ["resume: r: expected the publish at t:0@2, got none [k]"]),
        ([CHANGES, CHANGES, LEAVES], ["resume: r: got the change at t:0@2 again [k]"]),
        ([COMES, CHANGES, LEAVES], ["resume: r: got the change at t:0@1 again [k]"]),
        ([LEAVES, CHANGES], ["order: r: got the change at t:0@2 after t:0@3 [k]"]),
    ],
)
def test_a_subscription_that_resumes(messages: list[MessageRead], found: list[str]) -> None:
    """It gets each change after its bookmark once, and none from before it."""
    read = opened(filter=FOCUSED, oof=True, bookmark="t:0@1", resumed=True)
    assert broken(LIFE, read, messages, ended("t:0@3")) == found


@pytest.mark.parametrize(("resumed", "found"), [(True, []), (False, ["no gap: r: expected"])])
def test_an_expired_bookmark_owes_no_changes(resumed: bool, found: list[str]) -> None:
    """A resumed subscription that has failed so has not begun."""
    end = ended("t:0@2", "bookmark_expired", age_seconds=900)
    events = [opened(bookmark="t:0@1", resumed=resumed), end]
    assert [one[: len("no gap: r: expected")] for one in broken(LIFE, *events)] == found


def test_changes_after_a_group() -> None:
    """What the group has is no change of the subscription; what comes after it is."""
    read: list[Parts] = [opened("sow_and_subscribe", filter=FOCUSED, oof=True), group("t:0@1", OLD)]
    assert broken(LIFE, read, CHANGES, ended("t:0@2")) == []
    assert broken(LIFE, read, LEAVES) == ["no gap: r: expected the publish at t:0@2, got none [k]"]
    assert broken(LIFE, read, COMES, CHANGES) == ["no repeat: r: got the change at t:0@1 again [k]"]


def test_changes_before_a_second_group() -> None:
    """A gap before it stays one."""
    read: list[Parts] = [opened("sow_and_subscribe", filter=FOCUSED, oof=True), group("t:0@1", OLD)]
    second = group("t:0@3")
    assert broken(LIFE, read, second) == []
    assert broken(LIFE, read, LEAVES, second) == ["no gap: r: expected the publish at t:0@2, got none [k]"]


def test_a_subscription_checks_what_it_gets() -> None:
    """Each guarantee is counted where it was looked at, kept or not."""
    verdict = judged(LIFE, opened("delta_subscribe", oof=True), COMES, DELTA, ended("t:0@2"))
    assert verdict.checked == {
        Guarantee.NO_REPEAT: 2,
        Guarantee.ORDER: 2 + len(LIFE) // 2,
        Guarantee.ONE_EFFECT: 2,
        Guarantee.FOCUS: 1,
        Guarantee.DELTAS: 1,
        Guarantee.NO_GAP: 2,
        Guarantee.ANSWERS: 1 + len(LIFE) // 2,
    }


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
