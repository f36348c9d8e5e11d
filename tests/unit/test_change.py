"""Changes and progress events: their form on Kafka."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.change import PROGRESS_KEY, Change, Progress, read_event, sequence_text
from sowline.command import Origin
from sowline.position import Position

positions = st.builds(Position, st.integers(0, 5), st.integers(-1, 10**15), st.integers(0, 10**6))
texts = st.none() | st.text(max_size=5)
changes = st.builds(
    Change,
    st.from_regex(rb"[0-9]{1,20}", fullmatch=True),
    st.none() | st.binary(max_size=5),
    st.none() | st.binary(max_size=5),
    positions,
    positions,
    st.sampled_from(["publish", "delta_publish", "delete", "again"]),
    st.integers(0, 2**53),
    st.booleans(),
    texts,
    st.none() | st.integers(0, 2**53),
    texts,
    st.none() | st.dictionaries(st.text(max_size=3), st.tuples(*[st.integers(0, 2**53)] * 3), max_size=3),
    st.none() | st.builds(Origin, st.integers(0, 99), st.integers(0, 2**53)),
    texts,
    texts,
)


@given(changes)
def test_every_change_reads_back(change: Change) -> None:
    """A change written to Kafka is read as the same change."""
    assert read_event(change.sow_key, change.body, change.headers()) == change


@given(
    st.builds(
        Progress,
        positions,
        positions,
        st.integers(0, 2**53),
        st.dictionaries(st.integers(0, 99), st.integers(0, 2**53), max_size=3),
        st.text(max_size=3),
        st.text(max_size=3),
        st.integers(0, 2**53),
        st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3),
    )
)
def test_every_progress_event_reads_back(progress: Progress) -> None:
    """A progress event written to Kafka is read as the same one."""
    assert read_event(PROGRESS_KEY, progress.value(), None) == progress


def test_a_plain_change_says_no_more_than_it_must() -> None:
    """The header of an ordinary change holds four fields; the previous body has a header of its own."""
    change = Change(b"1", b"{}", b'{"a":1}', Position(0, 7), Position(0, 5, 2), "publish", 99)
    (name, about), previous = change.headers()
    assert (name, orjson.loads(about or b"")) == (
        "sow",
        {"position": "7", "after": "5.2", "op": "publish", "time": 99},
    )
    assert previous == ("sow.previous", b'{"a":1}')
    assert len(change._replace(previous=None).headers()) == 1


def test_the_place_before_names_its_era_where_it_is_another() -> None:
    """The first change of a new era comes after one of the old era."""
    change = Change(b"1", b"{}", None, Position(2, 0), Position(1, 5), "publish", 0)
    about = orjson.loads(change.headers()[0][1] or b"")
    assert (about["era"], about["position"], about["after"]) == (2, "0", "1/5")


@pytest.mark.parametrize("headers", [None, [], [("other", b"{}")], [("sow.previous", b"{}")]])
def test_a_record_without_our_header_is_no_change(headers: list[tuple[str, bytes | None]] | None) -> None:
    """What somebody else wrote to the topic is told apart."""
    with pytest.raises(ValueError, match="expected a change with a 'sow' header"):
        read_event(b"1", b"{}", headers)


@pytest.mark.parametrize(("sequence", "text"), [((5, 0), "5"), ((5, 2), "5.2"), ((0, 0), "0")])
def test_a_sequence_is_written_short(sequence: tuple[int, int], text: str) -> None:
    """`n.0` is written `n`."""
    assert sequence_text(sequence) == text
