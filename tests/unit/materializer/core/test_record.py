"""Records: their form in the store."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sowline.changes.change import Change
from sowline.commands.command import EXPIRATION_SECONDS_MAX
from sowline.language.emodb.writes import Writes
from sowline.model.position import Position
from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.core.record import Record, decode_record, due_time, encode_record, record_after

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


def test_what_is_rare_reads_back() -> None:
    """The writes of a document, the schema of a message, and the states of a group."""
    rare: list[dict[str, Any]] = [
        {"writes": Writes(2, "b", 1, 9, 9, ("t",)), "numbers": {"p": (1, 0, 5)}},
        {"schema_id": 7},
        {"schema_id": 7, "writes": Writes(1, "a", 1, 1, 1), "correlation": "c"},
        {"states": b'{"0":["0/1",123456789012345678901234567890]}'},
    ]
    for fields in rare:
        record = Record(b"{}", "1", Position(0, 1), 5, **fields)
        assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(
    ("fields", "is_live", "is_forgettable"),
    [
        ({"body": b"{}"}, True, False),
        ({"body": None, "numbers": {"p": (1, 0, 5)}}, False, True),
        ({"body": None, "writes": Writes(1, "a", 1, 1, 1)}, False, False),
        ({"body": None, "states": b"{}"}, True, False),
    ],
    ids=["record", "tombstone", "deleted document", "hidden group"],
)
def test_a_deleted_record_may_be_kept(fields: dict[str, Any], is_live: bool, is_forgettable: bool) -> None:
    """For its numbers only until these leave the window."""
    record = Record(key_text="1", position=Position(0, 1), time=5, **fields)
    assert (record.is_live, record.is_forgettable) == (is_live, is_forgettable)


def test_a_record_is_kept_with_what_its_change_has() -> None:
    """Its correlation only while it is live."""
    change = Change(
        b"7", b"{}", None, Position(0, 3), Position(0, 2), "publish", 9, expires=12, correlation="c"
    )
    assert record_after(change, "1", 8) == Record(b"{}", "1", Position(0, 3), 8, 12, correlation="c")
    assert record_after(replace(change, body=None, expires=None), "1", 8).correlation is None


def test_what_is_not_stored_is_never_due() -> None:
    """As a record without a lifetime."""
    assert due_time(None) is None
    assert due_time(encode_record(Record(b"{}", "1", Position(0, 1), 5))) is None
