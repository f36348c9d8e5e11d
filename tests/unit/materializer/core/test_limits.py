"""The pure core: lifetimes, the commands of a partition's owner, and limits."""

from sowline.commands.command import LogRecord
from sowline.model.limits import Limits, define_value
from sowline.model.position import Position
from tests.unit.materializer.core.test_applier import Core, only, reasons
from tests.unit.materializer.core.test_deletes import expire

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
