"""A partition of a changes topic: first it is loaded, then it is followed."""

import pytest

from sowline.changes.change import Change
from sowline.changes.changes_reader import ChangesMissing, ChangesReader
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.model.position import Position
from sowline_views.core.followed_partition import CHANGES, FollowedPartition


def change(key: bytes, offset: int, body: bytes | None = b'{"a":1}', after: int | None = None) -> Change:
    """Return a change of a record."""
    before = offset - 1 if after is None else after
    return Change(key, body, None, Position(0, offset), Position(0, before), "publish", 9)


def loading() -> FollowedPartition:
    """Return a partition that is loaded up to offset 4."""
    reader = ChangesReader("", 10)
    reader.aim(4, 0)
    return FollowedPartition("orders.changes:0", reader)


def loaded() -> FollowedPartition:
    """Return one that has loaded two records, one of which is deleted."""
    made = loading()
    progress = Progress(Position(0, -1), Position(0, -1), 0, {}, "", "", 0, {})
    events: list[Event] = [progress, change(b"1", 0), change(b"2", 1), change(b"2", 2, None)]
    assert [made.taken(event, offset) for offset, event in enumerate(events)] == [None] * 4
    made.reader.read_up_to(4)
    made.reader.look(1)
    made.reader.follow()
    return made


def test_a_load_has_the_newest_change_of_each_live_record() -> None:
    """Once."""
    made = loaded()
    (record,) = made.take_loaded()
    assert (record.sow_key, record.body, record.position) == (b"1", b'{"a":1}', Position(0, 0))


def test_after_its_load_a_partition_is_followed() -> None:
    """Each event that counts is to be applied now; a repeat is not."""
    made = loaded()
    next_change = change(b"3", 3)
    assert made.taken(next_change, 4) is next_change
    assert made.taken(next_change, 5) is None
    made.close()


def test_a_gap_names_the_partition() -> None:
    """The runner loads it again."""
    made = loaded()
    with pytest.raises(ChangesMissing, match=r"^orders\.changes:0: "):
        made.taken(change(b"3", 9, after=8), 4)


def test_a_load_can_be_given_up() -> None:
    """Its records are removed."""
    made = loading()
    made.taken(change(b"1", 0), 0)
    made.close()
    assert made.reader.is_loading


@pytest.mark.parametrize("body", [b'{"a":1}', b"", None])
def test_what_a_load_needs_of_a_change_reads_back(body: bytes | None) -> None:
    """Key, body, position and time; an empty body is not that of a deletion."""
    one = change(b"1", 5, body)
    read = CHANGES.decode(b"1", CHANGES.encode(one))
    assert (read.sow_key, read.body, read.position, read.time) == (b"1", body, one.position, 9)
    assert CHANGES.size(one) > CHANGES.size(change(b"1", 5, None)) - 1
