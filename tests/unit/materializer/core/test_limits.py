"""The pure core: lifetimes, the commands of a partition's owner, and limits."""

from dataclasses import replace

import pytest

from sowline.changes.change import Change
from sowline.commands.command import LogRecord
from sowline.model.key import sow_key
from sowline.model.limits import Limits, define_value
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import Record, encode_record
from sowline_materializer.store.checksum import Checksum
from tests.unit.materializer.core.test_applier import HERE, THERE, Core, only, reasons


def expire(core: Core, guard: str, key: str = "1") -> tuple[list[Change], dict[str, str]]:
    """Apply an expire; return its changes and outcomes."""
    step = core.write(None, "expire", key.encode(), guard=guard)
    return step.changes, step.outcomes


def due_core(expiration: str = "1s") -> Core:
    """Return a partition with record 1, which is due by now."""
    core = Core(expiration=expiration)
    core.write({"id": 1, "a": 1})
    core.time += 1000
    return core


def test_a_record_that_is_due_expires() -> None:
    """The change is a deletion with its own op and reason, and carries what the record was last."""
    core = due_core()
    change = only(expire(core, "0")[0])
    assert (change.op, change.reason, change.body, change.previous) == (
        "expire",
        "expired",
        None,
        b'{"id":1,"a":1}',
    )
    assert (change.position, change.after, change.last, change.expires) == (
        Position(0, 1),
        Position(0, 0),
        True,
        None,
    )
    assert (core.body("1"), core.checkpoint.records) == (None, 0)


def test_a_record_with_an_empty_key_expires() -> None:
    """An earlier version accepted such a key: an empty Kafka key names it, only none at all is missing."""
    core = Core(expiration="1s")
    core.write({"id": 1})
    kept = encode_record(Record(b'{"id":""}', "", Position(0, 0), 1000, 2000))
    core.store.commit({sow_key(b"orders\0", ""): kept}, Checksum(), b"")
    core.time += 1000
    assert len(expire(core, "0", "")[0]) == 1


@pytest.mark.parametrize("guard", ["1", "0.1", "1/0"])
def test_another_guard_is_harmless(guard: str) -> None:
    """Only the update that set the due time may be asked about."""
    core = due_core()
    changes, outcomes = expire(core, guard)
    assert (changes, outcomes, core.body("1")) == ([], {"1": "noop"}, {"id": 1, "a": 1})


def test_an_expire_before_its_time_is_harmless() -> None:
    """The log's time counts, which never runs back."""
    core = due_core()
    core.time -= 1
    assert expire(core, "0") == ([], {"1": "noop"})
    core.time += 1
    core.write({"id": 2})
    core.time -= 500
    assert len(expire(core, "0")[0]) == 1


@pytest.mark.parametrize("key", ["2", THERE])
def test_an_expire_of_another_record_is_harmless(key: str) -> None:
    """One that is not there, or belongs elsewhere: it is not forwarded."""
    core = Core(partitions=2, expiration="1s")
    core.write({"id": HERE})
    core.time += 1000
    step = core.write(None, "expire", key.encode(), guard="0")
    assert (step.changes, step.forwards, step.outcomes) == ([], [], {"1": "noop"})


def test_an_update_begins_a_lifetime_again() -> None:
    """Every publish and every delta has its own, or the topic's, or none."""
    core = due_core()
    core.write({"id": 1}, "delta_publish")
    assert expire(core, "0") == ([], {"2": "noop"})
    core.time += 1000
    core.write({"id": 1}, expiration="0")
    core.time += 10**9
    assert expire(core, "3") == ([], {"4": "noop"})


def test_a_topic_that_expires_nothing_keeps_due_times() -> None:
    """They count once that is changed."""
    core = Core()
    due = only(core.write({"id": 1}, expiration="1").changes)
    core.time += 1000
    assert (due.expires, expire(core, "0")) == (2000, ([], {"1": "noop"}))
    core.checkpoint = replace(core.checkpoint, limits=Limits("enabled"))
    assert len(expire(core, "0")[0]) == 1


def test_an_expired_record_remembers_its_numbers() -> None:
    """What was written before it expired stays a repeat."""
    core = Core(expiration="1s")
    core.write({"id": 1}, publisher="p", sequence="1")
    core.time += 1000
    change = only(expire(core, "0")[0])
    assert change.numbers == {"p": (1, 0, 1000)}
    assert core.write({"id": 1}, publisher="p", sequence="1").outcomes == {"2": "repeat"}
    assert len(core.write({"id": 1}, publisher="p", sequence="2").changes) == 1


# define


def test_a_definition_counts_from_its_position_on() -> None:
    """Due times that records have stay what they are."""
    core = Core(expiration="1s")
    core.write({"id": 1})
    now = Limits("enabled", record_bytes_max=64)
    step = core.write(define_value(core.definition.limits, now), "define")
    assert (step.changes, step.outcomes, core.checkpoint.limits) == ([], {"1": "applied"}, now)
    assert only(core.write({"id": 2}).changes).expires is None
    assert reasons(core.write({"id": 3, "a": "x" * 64})) == ["too large"]
    core.time += 1000
    assert len(expire(core, "0")[0]) == 1


def test_new_limits_are_reported_before_the_next_change() -> None:
    """Anyone who loads the changes has the limits of the position that they reach."""
    core = Core()
    step = core.write(define_value(Limits(), Limits("enabled")), "define")
    assert step.unreported == []
    first = core.checkpoint
    define = LogRecord(1, 0, None, define_value(Limits(), Limits(1000)), [("sow.command", b"define")])
    step = core.apply(define, LogRecord(2, 0, None, b'{"id":1}'), LogRecord(3, 0, None, b'{"id":2}'))
    ((before, checkpoint),) = step.unreported
    assert (before, checkpoint.position, checkpoint.limits) == (0, Position(0, 1), Limits(1000))
    assert first.limits == Limits("enabled")


def test_a_definition_that_changes_nothing_is_none() -> None:
    """Two owners may have said the same."""
    core = Core()
    assert core.write(define_value(Limits("enabled"), Limits()), "define").outcomes == {"0": "noop"}


def test_a_definition_with_a_key_is_refused() -> None:
    """It is about no record."""
    assert reasons(Core().write(define_value(Limits(), Limits(5)), "define", key=b"1")) == ["bad definition"]


def test_numbers_out_of_the_window_stay_out_of_a_longer_one() -> None:
    """When a deleted record's memory was cleared away must not matter."""
    core = Core(repeat_window="1s")
    core.write({"id": 1}, publisher="p", sequence="5")
    core.time += 600
    core.write({"id": 2}, publisher="p", sequence="5")
    core.time += 600
    core.write(define_value(core.checkpoint.limits, Limits(repeat_window=10**6)), "define")
    core.time += 5000
    assert len(core.write({"id": 1}, publisher="p", sequence="5").changes) == 1
    assert core.write({"id": 2}, publisher="p", sequence="5").outcomes == {"4": "repeat"}


# the most records


def test_more_records_than_the_limit_are_refused() -> None:
    """Updates and deletes go on, and what is deleted makes room."""
    core = Core(records_max=2)
    for number in (1, 2):
        core.write({"id": number})
    assert reasons(core.write({"id": 3})) == ["too many records"]
    assert reasons(core.write({"id": 3}, "delta_publish")) == ["too many records"]
    assert only(core.write({"id": 2, "a": 1}).changes).body is not None
    core.write({"id": 1}, "sow_delete", publisher="p", sequence="1")
    assert core.checkpoint.records == 1
    assert reasons(core.write({"id": 1})) == []
    assert core.checkpoint.records == 2


def test_a_lower_limit_harms_nothing_that_is_there() -> None:
    """New records are refused until enough are gone."""
    core = Core()
    for number in range(5):
        core.write({"id": number})
    core.write(define_value(core.checkpoint.limits, Limits(records_max=2)), "define")
    assert reasons(core.write({"id": 9})) == ["too many records"]
    assert reasons(core.write({"id": 4, "a": 1})) == []
    core.write(None, "sow_delete", filter="/id < 4")
    assert (core.checkpoint.records, reasons(core.write({"id": 9}))) == (1, [])


def test_records_are_counted() -> None:
    """Inserts count up, all ways to go count down, once each."""
    core = Core(expiration="1s")
    assert Checkpoint().records == 0
    for number in range(6):
        core.write({"id": number})
        core.write({"id": number, "a": 1}, "delta_publish")
    core.write(None, "sow_delete", filter="/id < 2")
    core.write(None, "sow_delete", filter="/id < 2")
    core.write(None, key=b"2")
    core.time += 1000
    expire(core, "7", "3")
    assert core.checkpoint.records == 2
