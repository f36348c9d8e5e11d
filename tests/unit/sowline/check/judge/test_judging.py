"""The judgment of a history: all guarantees, and the same verdict each time."""

import pytest

from sowline.check.history import FaultRun, ReadOpened, Unanswered
from sowline.check.judge.judging import ParsedHistory, judge
from sowline.check.judge.verdict import Guarantee
from tests.checked_world import CheckedWorld
from tests.small_histories import (
    TOTALS,
    WINDOW_SECONDS,
    Body,
    answered,
    broken,
    ended,
    got,
    group,
    history,
    judged,
    opened,
    sent,
    written,
)


def test_a_sound_history() -> None:
    """Every guarantee is checked, and kept; that commands were run changes nothing."""
    events = CheckedWorld(1).live(12)
    events.append(FaultRun("true", 1.0, 0))
    verdict = judge(events)
    assert not verdict.violations
    assert {*verdict.checked} == {*Guarantee}


def test_an_answer_that_did_not_come() -> None:
    """It is named, and what was received before it is judged."""
    events = [*CheckedWorld(1).live(12), Unanswered("expected an end within 5 s, got nothing", 9.0)]
    assert [str(one) for one in judge(events).violations] == [
        "answers: expected an end within 5 s, got nothing"
    ]


def test_the_same_verdict() -> None:
    """Of the same events."""
    events = CheckedWorld(2).live()
    assert judge(events) == judge(events)


def test_an_old_bookmark_of_a_plain_read() -> None:
    """Ends of other reads are no business of the judge."""
    world = CheckedWorld(3)
    read = world.open("subscribe")
    world.end(read)
    assert not judge(world.events).violations


K: Body = {"id": "k", "qty": 5}


@pytest.mark.parametrize(
    ("age_seconds", "resumed", "found"),
    [
        (599, True, ["resume: r: a bookmark of 599 s ago has expired"]),
        (600, True, []),
        (599, False, []),
    ],
)
def test_a_bookmark_expires_after_the_window(age_seconds: float, resumed: bool, found: list[str]) -> None:
    """One of another read is no bookmark that a reader had."""
    read = opened(bookmark="t:0@1", resumed=resumed)
    assert broken(read, ended(reason="bookmark_expired", age_seconds=age_seconds)) == found


def test_another_failure_of_a_resumed_subscription() -> None:
    """It says nothing of its bookmark."""
    verdict = judged(opened(bookmark="t:0@1", resumed=True), ended(reason="behind"))
    assert not verdict.violations
    assert not verdict.checked[Guarantee.RESUME]
    assert judged(opened(resumed=True), ended(reason="bookmark_expired", age_seconds=900)).checked[
        Guarantee.RESUME
    ]


def test_each_answer_is_counted() -> None:
    """Those of writes, the ends of reads, and those that did not come."""
    missing = Unanswered("expected an end", 1.0)
    verdict = judged(written("w1", "t:0@1", K), opened(), ended("t:0@0"), missing)
    assert verdict.checked[Guarantee.ANSWERS] == 3
    assert [str(one) for one in verdict.violations] == ["answers: expected an end"]


@pytest.mark.parametrize(
    ("read", "count"),
    [
        (opened(oof=True), 1),
        (opened("sow_and_subscribe", conflated=True), 0),
        (opened("sow_and_subscribe", groups=TOTALS), 0),
        (opened(fanout="all"), 0),
        (opened(topic="orders"), 0),
    ],
)
@pytest.mark.parametrize("command", ["publish", "oof"])
def test_who_shows_what_has_happened(read: ReadOpened, count: int, command: str) -> None:
    """Subscriptions that had one message for each change of this topic; not the groups of records either."""
    events = history(read, got("t:0@1", K, command=command), group("t:0@1", K))
    assert len(ParsedHistory(events).live("t")) == count


def test_what_a_history_is_about() -> None:
    """Each kind of event has its place."""
    write, answer = written("w1", "t:0@1", K)
    read, message, end = opened(), got("t:0@1", K, "w1"), ended()
    missing = Unanswered("expected an end", 1.0)
    parsed = ParsedHistory(history(write, answer, read, message, end, missing, FaultRun("true", 1.0, 0)))
    assert (parsed.writes, parsed.answers) == ({"w1": write}, {"w1": answer})
    assert (parsed.reads, parsed.ends, parsed.messages) == ({"r": read}, {"r": end}, [message])
    assert (parsed.unanswered, parsed.resume_window_seconds) == ([missing], WINDOW_SECONDS)
    assert [one.name for one in parsed.topics] == ["t", "v", "orders"]


def test_topics_are_judged_apart() -> None:
    """A write to one is none to another, and a read of one gets nothing of another."""
    other = [sent("w1", K, topic="orders"), answered("w1", "t:0@1")]
    assert broken(other, opened("sow"), group("t:0@1")) == []
    assert len(broken(other, opened("sow"), group("t:0@1", K))) == 1
