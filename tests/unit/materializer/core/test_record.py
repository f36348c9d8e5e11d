"""Records: their form in the store."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.commands.command import EXPIRATION_SECONDS_MAX
from sowline.model.position import Position
from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.core.record import Record, decode_record, due_time, encode_record

times = st.integers(0, 2**53)
records = st.builds(
    Record,
    st.none() | st.binary(max_size=20),
    st.text(max_size=10),
    st.builds(Position, st.integers(0, 2**32 - 1), st.integers(-1, 2**63 - 1), st.integers(0, 2**32 - 1)),
    times,
    st.none() | times,
    st.none() | st.dictionaries(st.text(max_size=5), st.tuples(times, times, times), min_size=1, max_size=8),
    st.none() | st.text(max_size=10),
)


@given(records)
def test_every_record_reads_back(record: Record) -> None:
    """What is kept is what comes back, an empty body told apart from a deleted record."""
    assert decode_record(encode_record(record)) == record
    assert due_time(encode_record(record)) == record.expires


@given(records, st.data())
def test_bytes_that_are_no_record_are_damage(record: Record, data: st.DataObject) -> None:
    """Whatever is cut off or changed: it is read as another record, or it is damage; nothing else is raised."""
    whole = bytearray(encode_record(record))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    for damaged in (bytes(whole), bytes(whole[:at])):
        with contextlib.suppress(StoreDamaged):
            decode_record(damaged)


def test_a_record_that_is_cut_off_is_damage() -> None:
    """The head says how long key text and rare fields are."""
    data = encode_record(Record(b"", "1", Position(0, 1), 5, None, {"p": (1, 0, 5)}))
    for end in range(len(data)):
        with pytest.raises(StoreDamaged):
            decode_record(data[:end])


def test_the_longest_lifetime_fits() -> None:
    """A due time at the far end of what a command may ask for has room in the store."""
    record = Record(b"{}", "1", Position(0, 1), 2**43, 2**43 + EXPIRATION_SECONDS_MAX * 1000)
    assert decode_record(encode_record(record)) == record
