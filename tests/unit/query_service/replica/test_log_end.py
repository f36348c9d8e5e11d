"""How far a replica is behind its log: what is known of it, and what is not."""

from hypothesis import given
from hypothesis import strategies as st

from sowline.model.position import Position, before_the_log
from sowline_query_service.replica.log_end import SAMPLES_MAX, Lag, LogEnd, OpenTransaction, Reached
from tests.memory import deep_bytes

LOG = "log-1"


def at(offset: int, log_id: str = LOG) -> Reached:
    """Return a position in a log."""
    return Reached(Position(0, offset), log_id)


NOTHING = Reached(before_the_log(), "")


def test_nothing_is_known_before_the_first_sample() -> None:
    """Unknown is not 0."""
    assert LogEnd().lag(at(7), 100.0) == Lag(None, None)


def test_an_empty_log_is_no_lag() -> None:
    """Its end is 0, and nothing is applied."""
    end = LogEnd()
    end.note(10.0, 0, LOG, NOTHING)
    assert end.lag(NOTHING, 10.5) == Lag(0, 0.5)


def test_the_time_is_that_of_the_newest_sample_that_is_applied() -> None:
    """Behind by records, it is behind by the time since it was not."""
    end = LogEnd()
    end.note(10.0, 5, LOG, at(4))
    assert end.lag(at(4), 10.1) == Lag(0, 10.1 - 10.0)
    end.note(11.0, 9, LOG, at(4))
    end.note(12.0, 20, LOG, at(4))
    assert end.lag(at(4), 13.0) == Lag(15, 3.0)
    assert end.lag(at(10), 14.0) == Lag(9, 3.0)
    assert end.lag(at(19), 15.0) == Lag(0, 3.0)


def test_a_replica_that_was_never_at_the_end_has_no_time() -> None:
    """How old the log's end is that it has reached can't be known."""
    end = LogEnd()
    end.note(10.0, 100, LOG, at(4))
    assert end.lag(at(50), 60.0) == Lag(49, None)


def test_an_idle_log_keeps_one_sample() -> None:
    """Its newest time counts once the end is applied."""
    end = LogEnd()
    for second in range(1000):
        end.note(float(second), 8, LOG, at(4))
    assert end.lag(at(7), 999.5) == Lag(0, 0.5)


def test_a_replica_that_is_ahead_of_its_sample_is_not_behind() -> None:
    """The log has grown since the sample, and the replica with it."""
    end = LogEnd()
    end.note(10.0, 5, LOG, at(3))
    assert end.lag(at(30), 10.2) == Lag(0, 10.2 - 10.0)


def test_a_log_that_is_shorter_than_its_state_is_not_known() -> None:
    """Until it has grown beyond that, or an era begins in it."""
    end = LogEnd()
    end.note(10.0, 6, LOG, at(5))
    end.note(11.0, 3, LOG, at(5))
    assert end.lag(at(5), 11.0) == Lag(None, None)
    end.note(12.0, 4, LOG, at(2))
    assert end.lag(at(2), 12.0) == Lag(1, None)
    assert end.lag(at(3), 12.5) == Lag(0, 0.5)


def test_a_replaced_log_is_not_known() -> None:
    """Also if it is as long as the previous one: offsets of another topic mean nothing."""
    end = LogEnd()
    end.note(10.0, 6, LOG, at(5))
    end.note(11.0, 6, "log-2", at(5))
    assert end.lag(at(5), 11.0) == Lag(None, None)
    end.note(12.0, 9, "log-2", at(5))
    assert (end.lag(at(5), 12.0), end.unapplied(at(5))) == (Lag(None, None), range(0))
    assert end.lag(at(8, "log-2"), 12.5) == Lag(0, 0.5)


def test_an_era_that_begins_before_the_sample() -> None:
    """The materializer has noticed the new log first: the lag is known once a sample is of that log, too."""
    end = LogEnd()
    end.note(10.0, 6, LOG, at(5))
    assert end.lag(at(6, "log-2"), 10.5) == Lag(None, None)
    end.note(11.0, 9, "log-2", at(6, "log-2"))
    assert end.lag(at(6, "log-2"), 11.5) == Lag(2, None)


def test_a_log_that_is_replaced_twice_between_two_samples() -> None:
    """The replica is in the era of the log between them, which no sample was of."""
    end = LogEnd()
    end.note(10.0, 6, LOG, at(5))
    end.note(11.0, 3, "log-3", at(5))
    end.note(12.0, 3, "log-3", at(8, "log-2"))
    assert end.lag(at(8, "log-2"), 12.0) == Lag(None, None)
    assert end.lag(at(1, "log-3"), 12.5) == Lag(1, None)


def test_a_position_whose_log_is_not_known_has_no_lag() -> None:
    """An era has begun with a change, and no progress event has come yet; before any record all logs are alike."""
    end = LogEnd()
    end.note(10.0, 6, LOG, at(2, ""))
    assert end.lag(at(2, ""), 10.5) == Lag(None, None)
    assert end.lag(NOTHING, 10.5) == Lag(6, None)


def test_offsets_without_records_are_no_lag() -> None:
    """A transaction's marker is the last offset: nothing is missing."""
    end = LogEnd()
    end.note(10.0, 9, LOG, at(6))
    assert end.unapplied(at(6)) == range(7, 9)
    end.note_hole(7, 9)
    assert end.lag(at(6), 10.5) == Lag(0, 0.5)
    assert not end.unapplied(at(6))
    end.note(11.0, 12, LOG, at(6))
    assert end.lag(at(6), 11.5) == Lag(3, 1.5)
    end.note_hole(9, 12)
    assert end.lag(at(6), 11.5) == Lag(0, 0.5)
    assert end.lag(at(12), 11.5) == Lag(0, 0.5)


def test_topics_lag_by_the_sum_of_their_partitions_and_the_longest_time() -> None:
    """If one is unknown, so is the whole."""
    assert Lag.of([Lag(3, 1.5), Lag(0, 0.2)]) == Lag(3, 1.5)
    assert Lag.of([Lag(3, 1.5), Lag(None, None)]) == Lag(None, None)
    assert Lag.of([Lag(3, None), Lag(0, 0.2)]) == Lag(3, None)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("apply"), st.integers(1, 5)),
        st.tuples(st.just("sample"), st.just(0)),
    ),
    max_size=60,
)


@given(steps)
def test_what_is_applied_is_never_called_newer_than_it_is(steps: list[tuple[str, int]]) -> None:
    """A model knows when each record was appended: all that came before the reported time is applied."""
    end, held, appended = LogEnd(), -1, list[float]()
    for now, (step, count) in enumerate(steps, 1):
        if step == "append":
            appended += [float(now)] * count
        elif step == "apply":
            held = min(held + count, len(appended) - 1)
        else:
            end.note(float(now), len(appended), LOG, at(held))
        lag = end.lag(at(held), float(now))
        if lag.records is not None:
            assert lag.records <= len(appended) - 1 - held
        if lag.seconds is not None:
            # A sample sees what was appended before it.
            assert sum(time <= now - lag.seconds for time in appended) <= held + 1


def test_many_samples_are_thinned_and_never_make_the_time_too_short() -> None:
    """A materializer that is stopped for hours costs no memory."""
    end = LogEnd()
    end.note(0.0, 1, LOG, at(0))
    for second in range(1, 10_000):
        end.note(float(second), 1 + second, LOG, at(0))
    assert deep_bytes(end, set()) < SAMPLES_MAX * 200
    seconds = end.lag(at(5000), 10_000.0).seconds
    assert seconds is not None
    assert seconds >= 10_000 - 5000
    assert end.lag(at(9999), 10_000.0) == Lag(0, 1.0)


def test_an_open_transaction_is_named_until_it_is_passed() -> None:
    """What is behind it counts as lag, and the replica waits for it as long as it is not beyond it."""
    end = LogEnd()
    one = OpenTransaction(5, 1_700_000_000_000)
    end.note(10.0, 5, LOG, at(4))
    end.note(11.0, 9, LOG, at(4), one)
    assert (end.lag(at(4), 12.0), end.transaction(at(4))) == (Lag(4, 2.0), one)
    assert str(one) == "held since offset 5, written at 2023-11-14T22:13:20.000000Z"
    assert (end.transaction(at(8)), end.lag(at(8), 12.0).records) == (None, 0)
    end.note(13.0, 9, LOG, at(4))
    assert end.transaction(at(4)) is None
