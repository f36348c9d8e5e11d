"""Changes and progress events: their form on Kafka."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sowline.changes.change import REMOVED_BYTES_MAX, Change, fit_header
from sowline.changes.event import read_event
from sowline.changes.progress import CATCH_UP_KEY, PROGRESS_KEY, Begin, Progress
from sowline.commands.command import PARTIALS, Headers, Origin
from sowline.config.topic_definition import define_topic
from sowline.language.emodb.writes import DocumentMetadata, Writes
from sowline.model.difference import REMOVED_CHARS_MAX, ChangeDelta
from sowline.model.limits import Limits
from sowline.model.log_time import TIME_MAX
from sowline.model.position import Position

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
    st.none() | st.integers(0, 2**62),
    st.none() | st.builds(Origin, st.integers(0, 99), st.integers(0, 2**53)),
    texts,
    texts,
    st.none() | st.integers(0, 9),
)

of_views = st.builds(
    replace, changes, reflects=st.tuples(st.integers(0, 99), positions), taken=st.none() | st.text(max_size=3)
)


ID = (("id",),)
UPDATE = Change(
    b"1", b'{"id":1,"a":2}', b'{"id":1,"a":1,"b":0}', Position(0, 7), Position(0, 5), "publish", 9
)
deltas = st.none() | st.builds(
    ChangeDelta, st.binary(max_size=5), st.booleans(), st.lists(texts.filter(bool)).map(tuple)
)


def size_of(headers: Headers) -> int:
    """Return how many bytes the headers have, without what Kafka puts around them."""
    return sum(len(name) + len(value or b"") for name, value in headers)


@given(changes | of_views, deltas)
def test_every_change_reads_back(change: Change, delta: ChangeDelta | None) -> None:
    """A change written to Kafka is read as the same change, whatever its delta: that is for readers outside."""
    assert read_event(change.sow_key, change.body, change.headers(delta)) == change


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
        st.sampled_from([Limits(), Limits("enabled", 64, 0, 7), Limits(30_000)]),
        st.integers(0, 2**53),
        st.none() | st.builds(Begin, st.integers(0, 2**53), st.integers(0, 2**53), st.none() | st.text()),
        st.text(max_size=3),
        st.dictionaries(st.integers(0, 99), positions, max_size=3),
        st.dictionaries(st.integers(0, 99), st.text(max_size=3), max_size=3),
        st.booleans(),
    )
)
def test_every_progress_event_reads_back(progress: Progress) -> None:
    """A progress event written to Kafka is read as the same one."""
    assert progress.key == (CATCH_UP_KEY if progress.is_catching_up else PROGRESS_KEY)
    assert read_event(progress.key, progress.value(), None) == progress


def test_a_plain_change_says_no_more_than_it_must() -> None:
    """The header of an ordinary change holds four fields; the previous body has a header of its own."""
    change = Change(b"1", b"{}", b'{"a":1}', Position(0, 7), Position(0, 5, 2), "publish", 99)
    (name, about), previous = change.headers()
    assert (name, orjson.loads(about or b"")) == (
        "sow",
        {"position": "7", "after": "5.2", "op": "publish", "time": 99},
    )
    assert previous == ("sow.previous", b'{"a":1}')
    assert len(replace(change, previous=None).headers()) == 1


def test_an_update_may_say_what_it_changed() -> None:
    """The key and the changed fields have a header of their own; what was removed is named among the facts."""
    (_, about), _, delta = UPDATE.headers(UPDATE.delta(ID))
    assert delta == ("sow.delta", b'{"id":1,"a":2}')
    assert orjson.loads(about or b"") == {
        "position": "7",
        "after": "5",
        "op": "publish",
        "time": 9,
        "removed": ["/b"],
    }


def test_an_update_that_changes_nothing_has_its_key_alone() -> None:
    """There is a delta all the same, and no word of removed fields."""
    same = replace(UPDATE, body=b'{"b":0, "a":1, "id":1}')
    headers = same.headers(same.delta(ID))
    assert headers == [*same.headers(), ("sow.delta", b'{"id":1}')]


@pytest.mark.parametrize(
    "change",
    [
        replace(UPDATE, previous=None),
        replace(UPDATE, body=None, op="delete"),
        replace(UPDATE, previous=None, op="again"),
        replace(UPDATE, previous=b'{"id":1,"a":1,"x/y":1}'),
    ],
    ids=["new", "gone", "again", "untellable"],
)
def test_what_is_no_update_or_can_not_be_sent_has_no_delta(change: Change) -> None:
    """The value is the whole record in every case."""
    assert change.delta(ID) is None
    assert change.headers(None) == change.headers()


def test_removed_fields_fit_into_a_header() -> None:
    """A list that is short enough for a frame may be too long for a header."""
    fits, not_any_more, too_long = (
        replace(UPDATE, previous=b'{"id":1,"%s":1}' % (b"x" * (length - 5)))
        for length in (REMOVED_BYTES_MAX, REMOVED_BYTES_MAX + 1, REMOVED_CHARS_MAX)
    )
    assert fits.delta(ID) is not None
    assert (not_any_more.delta(ID), too_long.delta(ID)) == (None, None)


def test_the_largest_change_fits_its_topic() -> None:
    """Both bodies, a delta of all that there is, and every other field at its longest."""
    definition = define_topic(name="t", key="/id", record_bytes_max=1000)
    text = "\x01" * 250
    change = replace(
        UPDATE,
        body=b"x" * 1000,
        previous=b"x" * 1000,
        position=Position(2**31, 2**63, 2**31),
        after=Position(2**31 - 1, 2**63, 2**31),
        expires=2**53,
        correlation=text,
        numbers={f"{text[1:]}{n}": (2**63, 2**63, 2**53) for n in range(8)},
        origin=Origin(1023, 2**63),
    )
    delta = ChangeDelta(b"x" * 1000, True, ("/" + "x" * (REMOVED_BYTES_MAX - 5),))
    assert fit_header(delta.removed)
    assert len(change.body or b"") + size_of(change.headers(delta)) < definition.kafka.log_bytes_max - 10_000


def test_the_position_before_names_its_era_where_it_is_another() -> None:
    """The first change of a new era comes after one of the old era."""
    change = Change(b"1", b"{}", None, Position(2, 0), Position(1, 5), "publish", 0)
    about = orjson.loads(change.headers()[0][1] or b"")
    assert (about["era"], about["position"], about["after"]) == (2, "0", "1/5")


@pytest.mark.parametrize("headers", [None, [], [("other", b"{}")], [("sow.previous", b"{}")]])
def test_a_record_without_our_header_is_no_change(headers: list[tuple[str, bytes | None]] | None) -> None:
    """What somebody else wrote to the topic is told apart."""
    with pytest.raises(ValueError, match="expected a change with a 'sow' header"):
        read_event(b"1", b"{}", headers)


WRITES = Writes(2, "b", 1, 9, 9)
BEFORE = Writes(1, "a", 1, 1, 1)


def test_the_log_time_is_the_brokers() -> None:
    """A time that a producer gives may be later; replays go by it only before Kafka has dated a record."""
    assert (UPDATE.partition_time, UPDATE.replay_time) == (9, 9)
    later = replace(UPDATE, time=20, log_time=9)
    assert (later.partition_time, later.replay_time) == (9, 9)
    undated = replace(UPDATE, time=TIME_MAX + 1)
    assert (undated.partition_time, undated.replay_time) == (0, TIME_MAX)


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (UPDATE, UPDATE.body),
        (replace(UPDATE, body=None), None),
        (replace(UPDATE, body=None, writes=WRITES), b""),
        (replace(UPDATE, body=None, states=b"{}"), b""),
    ],
    ids=["record", "deletion", "deleted document", "hidden group"],
)
def test_what_outlives_a_body_keeps_the_event(change: Change, value: bytes | None) -> None:
    """Compaction removes events without a value."""
    assert change.value == value


def test_a_document_is_known_by_its_key_and_its_writes() -> None:
    """Before and after a change, if it was written."""
    document = replace(UPDATE, key_text="a", writes=WRITES, writes_before=BEFORE)
    assert (document.known, document.known_before) == (
        DocumentMetadata("a", WRITES),
        DocumentMetadata("a", BEFORE),
    )
    assert (UPDATE.known, UPDATE.known_before) == (None, None)
    assert not document.is_redundant
    assert replace(document, writes=replace(WRITES, redundant=True)).is_redundant


def test_states_alone_are_nothing_new() -> None:
    """Subscribers of a view get no message for them."""
    same = replace(UPDATE, op=PARTIALS, previous=UPDATE.body)
    assert same.shows_nothing_new
    assert not replace(same, previous=b"{}").shows_nothing_new
    assert not replace(same, op="publish").shows_nothing_new


def test_an_event_that_is_written_again_has_the_rank_of_its_era() -> None:
    """That outranks each event of earlier eras."""
    assert UPDATE.rank == (0, Position(0, 7))
    assert replace(UPDATE, emitted_in=2).rank == (2, Position(0, 7))


def test_all_that_a_change_carries_is_in_its_headers() -> None:
    """Each in a header of its own, where it is not a short fact."""
    change = replace(UPDATE, writes=WRITES, text=b"{..}", states=b"{}").traced("00-a-b-01")
    assert [name for name, _ in change.headers()] == [
        "sow",
        "sow.previous",
        "sow.document",
        "sow.text",
        "sow.states",
        "traceparent",
    ]
