"""Expiring: what is asked for when, with a clock of the test's own."""

from sowline.model.position import Position
from sowline_materializer.core.expiry import PAUSE_MS, Due, ExpirySchedule


def due(*offsets: int, at: int = 1000) -> list[Due]:
    """Return records that are due, one of each offset."""
    return [Due(at, f"k{offset}", Position(0, offset)) for offset in offsets]


def offsets(portion: list[Due]) -> list[int]:
    """Return what was asked for."""
    return [one.position.offset for one in portion]


def test_what_is_due_is_asked_for_once() -> None:
    """As long as a command is on its way there is no other for the same update of the record."""
    expiring = ExpirySchedule()
    assert offsets(expiring.next_portion(due(1, 2), 1000)) == [1, 2]
    assert offsets(expiring.next_portion(due(1, 2, 3), 1000 + PAUSE_MS)) == [3]


def test_another_update_of_the_record_is_asked_for() -> None:
    """It is due by itself, whatever becomes of the command for the one before."""
    expiring = ExpirySchedule()
    expiring.next_portion([Due(1000, "k", Position(0, 1))], 1000)
    later = Due(1100, "k", Position(0, 9))
    assert expiring.next_portion([later], 1100) == [later]


def test_what_was_applied_may_be_asked_for_again() -> None:
    """Whatever its outcome was: if the record is still due, the command did nothing."""
    expiring = ExpirySchedule()
    expiring.next_portion(due(1, 2), 1000)
    expiring.applied("k1", Position(0, 1), 1000, 1001)
    assert offsets(expiring.next_portion(due(1, 2), 1000 + PAUSE_MS)) == [1]


def test_portions_are_bounded() -> None:
    """Never more than the limit is on its way, and the next portion comes once half of them are back."""
    expiring = ExpirySchedule(in_flight_max=4)
    everything = due(*range(10))
    assert offsets(expiring.next_portion(everything, 0)) == [0, 1, 2, 3]
    for offset, portion in ((0, []), (1, [0, 1]), (2, []), (3, [2, 3])):
        expiring.applied(f"k{offset}", Position(0, offset), 1000, 1000)
        assert offsets(expiring.next_portion(everything, 10**6 + offset * PAUSE_MS)) == portion


def test_looking_takes_a_pause_while_something_is_on_its_way() -> None:
    """Not every batch looks through all that is on its way; a clock that steps back does not stop it for long."""
    expiring = ExpirySchedule()
    expiring.next_portion(due(1), 1000)
    assert expiring.next_portion(due(1, 2), 1000 + PAUSE_MS - 1) == []
    assert offsets(expiring.next_portion(due(1, 2), 900)) == [2]


def test_a_clock_that_is_ahead_is_learned_from_what_comes_too_early() -> None:
    """The log's time is waited for from then on; one portion is all that was in vain."""
    expiring = ExpirySchedule()
    assert expiring.log_time(5000) == 5000
    expiring.next_portion(due(1, at=5000), 5000)
    expiring.applied("k1", Position(0, 1), 3000, 5010)
    assert expiring.log_time(5010) == 3000
    assert expiring.log_time(7010) == 5000


def test_a_command_of_a_stranger_teaches_nothing() -> None:
    """Only what was asked for here is measured."""
    expiring = ExpirySchedule()
    expiring.applied("k1", Position(0, 1), 3000, 5000)
    assert expiring.log_time(5000) == 5000


def test_a_record_of_the_log_bounds_how_far_the_clock_is_ahead() -> None:
    """What was measured while the log was behind is corrected by the next record that is not."""
    expiring = ExpirySchedule()
    expiring.next_portion(due(1, at=5000), 5000)
    expiring.applied("k1", Position(0, 1), 4990, 9000)
    assert expiring.log_time(9000) == 4990
    expiring.saw(8990, 9000)
    assert expiring.log_time(9000) == 8990


def test_a_clock_that_is_behind_is_learned_too() -> None:
    """A record from the future says what the log's time is."""
    expiring = ExpirySchedule()
    expiring.saw(6000, 5000)
    assert expiring.log_time(5000) == 6000


def test_nothing_is_asked_for_again_and_again_while_log_time_stands_still() -> None:
    """A new leader's clock is ten minutes behind: a record that is due then gets one command, and waits."""
    expiring, log_time, behind = ExpirySchedule(), 1_000_000, 600_000
    expiring.saw(log_time, log_time)
    [record] = due(1, at=log_time + 2)
    asked: list[int] = []
    for now in range(log_time + 5, log_time + behind + 100, 5):
        appended = now - behind
        if expiring.next_portion([record] if record.due <= expiring.log_time(now) else [], now):
            asked.append(now)
            expiring.applied(record.key_text, record.position, appended, now)
        expiring.saw(max(log_time, appended), now)
    assert [at - log_time for at in asked[:2]] == [5, behind + 5]


def test_log_time_never_runs_back() -> None:
    """What is due in it is asked for, although the broker's clock is behind."""
    expiring = ExpirySchedule()
    expiring.saw(5000, 5000)
    expiring.next_portion(due(1, at=5001), 5001)
    expiring.applied("k1", Position(0, 1), 3000, 5001)
    assert expiring.log_time(5001) == 5000
    assert expiring.log_time(7010) == 5009
