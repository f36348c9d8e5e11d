"""What exceeds a limit of a partition."""

import pytest

from sowline.commands.command import LogRecord
from sowline.model.limits import Limits, define_value
from sowline.model.log_time import CREATE_TIME, LOG_APPEND_TIME, TIME_MAX
from sowline_materializer.core.checkpoint import Checkpoint
from tests.unit.materializer.core.test_applier import Core, only, reasons
from tests.unit.materializer.core.test_deletes import expire


def test_the_largest_record_fits() -> None:
    """The limit itself is allowed."""
    body = b'{"id":1,"a":"%s"}' % (b"x" * (64 - 15))
    assert len(body) == 64
    assert reasons(Core(record_bytes_max=64).write(body)) == []


@pytest.mark.parametrize(
    ("time", "time_type", "likely"),
    [
        (1_732_658_000_000_000, CREATE_TIME, "sends microseconds or nanoseconds as milliseconds"),
        (2**63 - 1, CREATE_TIME, "sends microseconds"),
        (-1, 0, "sends no time"),
        (TIME_MAX + 1, LOG_APPEND_TIME, "the clock of the broker is wrong"),
    ],
)
def test_a_time_that_no_date_can_express(time: int, time_type: int, likely: str) -> None:
    """The record is a dead letter with the likely cause, whatever its command, and those after it are applied."""
    core = Core()
    step = core.apply(
        LogRecord(0, time, None, b'{"id":1}', None, time_type),
        LogRecord(1, time, None, None, [("sow.command", b"sow_delete"), ("sow.filter", b"1=1")], time_type),
        LogRecord(2, 900, None, b'{"id":3}'),
    )
    assert reasons(step) == ["bad time", "bad time"]
    assert f"got {time}" in step.dead[0].message
    assert likely in step.dead[0].message
    assert only(step.changes).time == core.checkpoint.time == 900


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
