"""The judgment of a history: all guarantees, and the same verdict each time."""

from sowline.check.history import FaultRun, Unanswered
from sowline.check.judge.judging import judge
from sowline.check.judge.verdict import Guarantee
from tests.checked_world import CheckedWorld


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
