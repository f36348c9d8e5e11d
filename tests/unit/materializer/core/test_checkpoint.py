"""The head of a partition: its form, where to read on, and eras."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.changes.progress import Begin
from sowline.config.topic_definition import define_topic
from sowline.model.limits import Limits
from sowline.model.log_time import TIME_MAX
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.errors import StoreDamaged

positions = st.builds(Position, st.integers(0, 9), st.integers(-1, 2**62), st.integers(0, 99))
counts = st.integers(0, 2**62)
times = st.integers(0, TIME_MAX)


@given(
    st.builds(
        Checkpoint,
        positions,
        positions,
        times,
        st.dictionaries(counts, counts, max_size=3),
        st.text(max_size=5),
        st.text(max_size=5),
        counts,
        st.booleans(),
        st.frozensets(st.binary(max_size=5), max_size=3),
        st.builds(
            Limits,
            st.sampled_from(["disabled", "enabled"]) | st.integers(1, 10**12),
            st.integers(1, 10**9),
            st.integers(0, 10**12),
            st.none() | st.integers(1, 10**12),
            st.none() | st.text(max_size=5),
        ),
        times,
        counts,
        st.none() | st.builds(Begin, counts, counts, st.none() | st.text(max_size=5)),
        st.text(max_size=5),
    )
)
def test_every_head_reads_back(checkpoint: Checkpoint) -> None:
    """What is committed is what the next owner finds."""
    assert Checkpoint.decode(checkpoint.encode()) == checkpoint


def test_a_new_partition_begins_at_the_logs_begin() -> None:
    """Nothing is applied: the first record is next."""
    assert Checkpoint().next_offset == 0


def test_a_log_record_that_was_cut_short_is_read_again() -> None:
    """Where a recovery found some of a record's changes only, that record is next."""
    assert Checkpoint(Position(0, 7, 2)).next_offset == 8
    assert Checkpoint(Position(0, 7, 2), complete=False).next_offset == 7


def test_a_new_era_keeps_the_state_and_begins_its_own_log() -> None:
    """The last change stays the old era's, the time does not run back, the old log's offsets mean nothing."""
    old = Checkpoint(Position(1, 50, 2), Position(1, 49), 1234, {1: 30}, "d", "old", 99, complete=False)
    new = old.new_era("new", 5)
    assert new == Checkpoint(
        Position(2, 4), Position(1, 49), 1234, {}, "d", "new", 99, complete=True, begin=None
    )
    assert new.next_offset == 5
    assert new.position > old.position


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b"[1,2]", Checkpoint().encode()[:-2], b"\xff" * 9])
def test_bytes_that_are_no_head_are_damage(data: bytes) -> None:
    """The partition is recovered another way."""
    with pytest.raises(StoreDamaged):
        Checkpoint.decode(data)


def test_numbers_are_remembered_for_the_window_but_not_beyond_a_former_one() -> None:
    """What was out of the window before it grew stays out."""
    limits = Limits(repeat_window=100)
    assert Checkpoint(time=1000, limits=limits).remembered_since == 900
    assert Checkpoint(time=1000, limits=limits, numbers_since=950).remembered_since == 950


def test_a_state_is_of_its_definition_with_its_own_template() -> None:
    """The template may have changed since the definition; that of an earlier version is the definition's."""
    definition = define_topic(name="reviews", key="/id", documents=True, template={"a": 1})
    changed = Checkpoint(definition=definition.digest_with('{"b":2}'), limits=Limits(template='{"b":2}'))
    assert changed.under(definition) == changed
    earlier = Checkpoint(definition=definition.digest, limits=Limits())
    found = earlier.under(definition)
    assert found is not None
    assert found.limits.template == definition.limits.template
    assert Checkpoint(definition="of another key").under(definition) is None
