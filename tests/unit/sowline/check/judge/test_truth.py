"""The truth about a topic: by answers where there are any, else by what most subscribers received."""

from typing import Literal

from sowline.check.history import CheckedTopic, MessageRead, WriteAnswered, WriteSent
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
