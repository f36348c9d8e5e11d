"""The truth about a topic: by answers where there are any, else by what most subscribers received."""

from datetime import datetime
from typing import Literal

import pytest
from msgspec import structs

from sowline.check.history import CheckedTopic, DeltaParts, MessageRead, WriteAnswered, WriteSent
from sowline.check.judge.truth import TopicTruth, truth_of

TOPIC = CheckedTopic("t", "t:0@0,1@0")
AT_0, AT_1 = ("t", 0), ("t", 1)


def sent(
    id: str, command: str, data: dict[str, object] | None, filter: str = "", lifetime: float = 0
) -> WriteSent:
    """Return a write."""
    return WriteSent(id, "t", command, "a", 0.0, data, filter, lifetime)  # type: ignore[arg-type]


def answered(id: str, position: str) -> WriteAnswered:
    """Return its answer."""
    return WriteAnswered(id, "acknowledged", 0.0, position)


def got(
    position: str, data: dict[str, object], write: str = "", reason: str = "", time: str = ""
) -> MessageRead:
    """Return a message that a subscriber received."""
    command: Literal["publish", "oof"] = "oof" if reason else "publish"
    return MessageRead(
        "r", command, 0.0, position, "1", data, reason=reason, correlation_id=write, timestamp=time
    )


def found(writes: list[WriteSent], answers: list[WriteAnswered], received: list[MessageRead]) -> TopicTruth:
    """Return the truth."""
    return truth_of(TOPIC, {one.id: one for one in writes}, {one.id: one for one in answers}, received)


def test_answers_decide() -> None:
    """Whatever a subscriber received: its message is the wrong one."""
    truth = found(
        [sent("w1", "publish", {"id": 1, "a": 1})], [answered("w1", "t:0@5")], [got("t:0@6", {"id": 1}, "w1")]
    )
    assert truth.state({AT_0: (0, 4, 0)}) == {}
    assert truth.state({AT_0: (0, 5, 0)}) == {"1": ({"id": 1, "a": 1}, AT_0, (0, 5, 0))}
    assert truth.at(AT_0, (0, 6, 0)) is None
    assert truth.partitions == {AT_0, AT_1}


def test_subscribers_decide_about_a_write_without_an_answer() -> None:
    """By their number; the body is the one that was sent."""
    received = [got("t:0@6", {"id": 1}, "w1"), got("t:0@5", {"id": 1}, "w1"), got("t:0@5", {"id": 1}, "w1")]
    truth = found([sent("w1", "publish", {"id": 1, "a": 1})], [], received)
    assert [(change.position, change.after) for change in truth.changes[AT_0]] == [
        ((0, 5, 0), {"id": 1, "a": 1})
    ]


def test_a_write_that_no_subscriber_received_did_nothing() -> None:
    """Without an answer it may not be in the log."""
    assert found([sent("w1", "publish", {"id": 1})], [], []).changes == {}


def test_a_message_names_another_record() -> None:
    """It is no evidence of a write to one."""
    assert found([sent("w1", "publish", {"id": 1})], [], [got("t:0@5", {"id": 2}, "w1")]).changes == {}


def test_a_delete_by_filter() -> None:
    """It is at each position at which a record goes."""
    writes = [
        sent("w1", "publish", {"id": 1}),
        sent("w2", "publish", {"id": 2}),
        sent("w3", "delta_publish", {"id": 2, "a": 1}),
        sent("w4", "sow_delete", None, "1=1"),
    ]
    answers = [answered("w1", "t:0@1"), answered("w2", "t:1@1"), answered("w3", "t:1@2")]
    received = [got("t:0@9", {"id": 1}, "w4", "deleted"), got("t:1@9.1", {"id": 2}, "w4", "deleted")]
    truth = found(writes, answers, received)
    gone = [change for changes in truth.changes.values() for change in changes if change.after is None]
    assert [(one.key, one.position, one.before) for one in gone] == [
        ("1", (0, 9, 0), {"id": 1}),
        ("2", (0, 9, 1), {"id": 2, "a": 1}),
    ]
    assert [change.position for change in truth.between(AT_1, (0, 1, 0), (0, 9, 0))] == [(0, 2, 0)]
    assert [change.after for change in truth.newest(AT_0)] == [None]


def test_lifetimes() -> None:
    """A record is due by the log time of its last write."""
    writes = [sent("w1", "publish", {"id": 1}, lifetime=3), sent("w2", "publish", {"id": 3}, lifetime=3)]
    answers = [answered("w1", "t:0@1"), answered("w2", "t:1@1")]
    received = [
        got("t:0@1", {"id": 1}, "w1", time="2026-11-21T12:00:00.500000Z"),
        got("t:0@2", {"id": 1}, "", "expired", "2026-11-21T12:00:04Z"),
        got("t:1@2", {"id": 3}, "", "expired"),
        got("t:1@3", {"id": 3}, "", "expired"),
    ]
    truth = found(writes, answers, received)
    (change,) = [change for change in truth.changes[AT_0] if change.after is None]
    assert (change.is_mortal, change.due) == (True, truth.times[AT_0, (0, 1, 0)] + 3)
    (other,) = [change for change in truth.changes[AT_1] if change.after is None]
    assert (other.is_mortal, other.due) == (True, None)
    assert [claim.key for _, _, claim in truth.groundless] == ["3"]
    assert truth.lifetime(truth.changes[AT_1][0]) == 3


def test_sow_keys() -> None:
    """The one that most messages have."""
    truth = found([], [], [got("t:0@1", {"id": 1}, "w1")])
    assert truth.sow_keys == {"1": "1"}


def body(n: int) -> dict[str, object]:
    """Return the record that most tests below write."""
    return {"id": 1, "n": n}


def three_versions() -> TopicTruth:
    """Return the truth about a record that is written, written again, and deleted."""
    writes = [
        sent("w1", "publish", body(1)),
        sent("w2", "publish", body(2)),
        sent("w3", "sow_delete", {"id": 1}),
    ]
    return found(writes, [answered(f"w{n}", f"t:0@{2 * n}") for n in (1, 2, 3)], [])


@pytest.mark.parametrize(
    ("offset", "n", "position"), [(1, None, 0), (2, 1, 2), (3, 1, 2), (4, 2, 4), (5, 2, 4), (6, None, 0)]
)
def test_the_state_at_a_bookmark(offset: int, n: int | None, position: int) -> None:
    """The newest version up to it, and nothing before the first or after a delete."""
    state = three_versions().state({AT_0: (0, offset, 0)})
    assert state == ({} if n is None else {"1": (body(n), AT_0, (0, position, 0))})


def test_the_state_without_a_position() -> None:
    """A partition that a bookmark does not name has nothing yet."""
    assert three_versions().state({AT_1: (0, 9, 0)}) == {}


@pytest.mark.parametrize(
    ("after", "last", "offsets"),
    [(0, 9, [2, 4, 6]), (2, 6, [4, 6]), (1, 4, [2, 4]), (2, 5, [4]), (4, 5, []), (6, 9, [])],
)
def test_the_changes_between(after: int, last: int, offsets: list[int]) -> None:
    """After the first position, up to the last, which is one of them."""
    changes = three_versions().between(AT_0, (0, after, 0), (0, last, 0))
    assert [change.position[1] for change in changes] == offsets


def test_no_changes() -> None:
    """Of a partition that nothing is known of."""
    truth = three_versions()
    assert list(truth.between(AT_1, (0, 0, 0), (0, 9, 0))) == []
    assert (truth.last(AT_1, "1"), truth.last(AT_0, "2")) == (None, None)


def test_what_each_change_was() -> None:
    """The record before and after it, and its write."""
    truth = three_versions()
    assert [(one.write, one.before, one.after) for one in truth.changes[AT_0]] == [
        ("w1", None, body(1)),
        ("w2", body(1), body(2)),
        ("w3", body(2), None),
    ]
    assert truth.last(AT_0, "1") is truth.at(AT_0, (0, 6, 0)) is truth.changes[AT_0][2]


def test_a_record_is_replaced_or_merged() -> None:
    """By a publish and by the changed fields; a write without a body has none."""
    writes = [
        sent("w1", "publish", {"id": 1, "a": 1}),
        sent("w2", "delta_publish", {"id": 1, "b": 2}),
        sent("w3", "publish", {"id": 1, "c": 3}),
    ]
    truth = found(writes, [answered(f"w{n}", f"t:0@{n}") for n in (1, 2, 3)], [])
    bodies = [change.after for change in truth.changes[AT_0]]
    assert bodies == [{"id": 1, "a": 1}, {"id": 1, "a": 1, "b": 2}, {"id": 1, "c": 3}]


def test_a_delta_of_a_document() -> None:
    """It has an outcome, and is a change if there was a document or is one then."""
    first = DeltaParts({"id": 1, "n": 1})
    never = DeltaParts({"n": 2}, condition={"n": 9})
    writes = [
        WriteSent("w1", "t", "delta", "a", 0.0, {"id": 1}, delta=never),
        WriteSent("w2", "t", "delta", "a", 0.0, {"id": 1}, delta=first),
        WriteSent("w3", "t", "delta", "a", 0.0, {"id": 1}, delta=never),
    ]
    truth = found(writes, [answered(f"w{n}", f"t:0@{n}") for n in (1, 2, 3)], [])
    assert truth.outcomes == {"w1": "condition_false", "w2": "applied", "w3": "condition_false"}
    assert [(one.write, one.after) for one in truth.changes[AT_0]] == [("w2", body(1)), ("w3", body(1))]
    assert not truth.groundless


def test_writes_of_other_topics() -> None:
    """They explain nothing here."""
    other = WriteSent("w1", "other", "publish", "a", 0.0, {"id": 1})
    assert found([other], [answered("w1", "t:0@1")], [got("t:0@1", {"id": 1}, "w1")]).changes == {}


@pytest.mark.parametrize(
    ("write", "message"),
    [
        ("w1", got("t:0@2", {"id": 1}, "w2")),
        ("w1", got("epoch", {"id": 1}, "w1")),
        ("w1", got("t:0@2", {"n": 1}, "w1")),
        ("w1", got("t:0@2", {"n": 1}, "", "expired")),
    ],
)
def test_what_is_no_evidence(write: str, message: MessageRead) -> None:
    """A message of an unknown write, without a position, or without a key."""
    truth = found([sent(write, "publish", {"id": 1})], [], [message])
    assert (truth.changes, truth.groundless) == ({}, [])


def test_an_answer_without_a_position() -> None:
    """Subscribers say where the write stands, and it stands once."""
    received = [got("t:0@5", body(1), "w1"), got("t:0@6", body(1), "w1"), got("t:0@5", body(1), "w1")]
    truth = found([sent("w1", "publish", body(1))], [answered("w1", "")], received)
    assert [change.position for change in truth.changes[AT_0]] == [(0, 5, 0)]


def test_a_position_that_is_taken() -> None:
    """By a write whose answer names it: messages of another write there are wrong."""
    writes = [sent("w1", "publish", body(1)), sent("w2", "publish", {"id": 2})]
    truth = found(writes, [answered("w1", "t:0@1")], [got("t:0@1", {"id": 2}, "w2")] * 3)
    assert [change.write for change in truth.changes[AT_0]] == ["w1"]


def test_times() -> None:
    """What most messages of a position say; without one, it is unknown."""
    noon, later = "2026-11-21T12:00:00+00:00", "2026-11-21T12:00:09+00:00"
    received = [got("t:0@1", body(1), "w1", time=time) for time in (later, noon, noon)]
    truth = found([], [], [*received, got("t:0@2", body(1), "w1"), got("epoch", body(1), "w1", time=noon)])
    assert truth.times == {(AT_0, (0, 1, 0)): datetime.fromisoformat(noon).timestamp()}


def test_the_sow_key_of_most_messages() -> None:
    """A record without a key has none, nor has a message without a SOW key a say."""
    received = [structs.replace(got("t:0@1", body(1)), sow_key=one) for one in ("7", "8", "8", "", "", "")]
    assert found([], [], [*received, got("t:0@1", {"n": 1})]).sow_keys == {"1": "8"}


@pytest.mark.parametrize(("lifetime", "offset", "is_known"), [(3, 1, True), (3, 2, False), (0, 2, True)])
def test_what_may_have_expired(lifetime: float, offset: int, is_known: bool) -> None:
    """A record with a lifetime, after the last change that anybody knows of."""
    truth = found([sent("w1", "publish", body(1), lifetime=lifetime)], [answered("w1", "t:0@1")], [])
    assert truth.is_known({AT_0: (0, offset, 0)}) is is_known
    assert truth.is_known({AT_1: (0, 9, 0)})


def test_what_is_gone_does_not_expire() -> None:
    """A deleted record has no lifetime, nor has one that was written again without."""
    for command, lifetime in (("sow_delete", 3), ("publish", 0)):
        writes = [sent("w1", "publish", body(1), lifetime=3), sent("w2", command, body(2), lifetime=lifetime)]
        truth = found(writes, [answered("w1", "t:0@1"), answered("w2", "t:0@2")], [])
        assert truth.is_known({AT_0: (0, 9, 0)}), command
        (first, second) = truth.changes[AT_0]
        assert (first.is_mortal, second.is_mortal) == (False, True)


def test_the_newest_changes_of_a_partition() -> None:
    """One of each record, and none of another partition."""
    writes = [
        sent("w1", "publish", body(1)),
        sent("w2", "publish", {"id": 2}),
        sent("w3", "publish", body(3)),
    ]
    truth = found(writes, [answered("w1", "t:0@1"), answered("w2", "t:1@1"), answered("w3", "t:0@2")], [])
    assert [change.write for change in truth.newest(AT_0)] == ["w3"]


def test_what_has_no_lifetime_is_never_due() -> None:
    """Though its beginning is known."""
    writes = [sent("w1", "publish", body(1)), sent("w2", "sow_delete", {"id": 1})]
    came = got("t:0@1", body(1), "w1", time="2026-11-21T12:00:00+00:00")
    truth = found(writes, [answered("w1", "t:0@1"), answered("w2", "t:0@2")], [came])
    assert [change.due for change in truth.changes[AT_0]] == [None, None]
