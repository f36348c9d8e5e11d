"""The changes that a subscription must get, and what is wrong with others."""

import pytest
from msgspec import structs

from sowline.check.history import Event, MessageRead
from sowline.check.judge.verdict import Guarantee
from tests.small_histories import (
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
from tests.unit.sowline.check.judge.small_reads import (
    CHANGES,
    COMES,
    FOCUSED,
    GOES,
    GOES_AGAIN,
    LEAVES,
    LEFT,
    LIFE,
    NEW,
    NO_MESSAGE,
    OLD,
    K,
)


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
