"""The records of a changes topic, read as events."""

from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from sowline.changes.change import Change
from sowline.changes.event import read_event
from sowline.changes.progress import CATCH_UP_KEY, LOG_BEGIN, PROGRESS_KEY, Begin, Progress
from sowline.commands.command import Headers, Origin
from sowline.commands.stored_format import UnknownFormat
from sowline.language.emodb.writes import Writes
from sowline.model.position import Position

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
CHANGE = Change(b"1", b'{"id":1}', None, Position(1, 7), Position(1, 5), "publish", 99)
PROGRESS = Progress(Position(1, 9), Position(1, 7), 10, {2: 5}, "digest", "log id", 99, {"1/8": "refused"})


def about(**fields: Any) -> Headers:
    """Return the headers of a change with these fields in its header `sow`."""
    shared = {"position": "7", "after": "5", "op": "publish", "time": 99}
    return [("sow", orjson.dumps({**shared, **fields}))]


def progress_without(*names: str, **fields: Any) -> Progress:
    """Return the progress event whose record lacks some fields and has others."""
    record = {**orjson.loads(PROGRESS.value()), **fields}
    event = read_event(PROGRESS_KEY, orjson.dumps({n: v for n, v in record.items() if n not in names}), None)
    assert isinstance(event, Progress)
    return event


@pytest.mark.parametrize(
    "change",
    [
        CHANGE,
        replace(CHANGE, traceparent=TRACE),
        replace(CHANGE, origin=Origin(3, 17), emitted_in=2),
        replace(
            CHANGE,
            body=None,
            op="delete",
            writes=Writes(2, "b", 1, 9, 9),
            writes_before=Writes(1, "a", 1, 1, 1),
        ),
        replace(CHANGE, body=None, states=b"[]", reflects=(2, Position(0, 4)), taken="0|4|"),
    ],
    ids=["plain", "traced", "written again", "deleted document", "hidden group"],
)
def test_a_change_is_read_as_it_was_written(change: Change) -> None:
    """An empty value is a deleted document or a hidden group, and no body."""
    assert read_event(b"1", change.value, change.headers()) == change


@pytest.mark.parametrize("is_catching_up", [False, True])
def test_the_key_tells_whether_the_owner_is_behind(is_catching_up: bool) -> None:
    """The value of a progress event is the same in both cases."""
    key = CATCH_UP_KEY if is_catching_up else PROGRESS_KEY
    assert read_event(key, PROGRESS.value(), None) == PROGRESS._replace(is_catching_up=is_catching_up)


def test_older_progress_events_lack_fields() -> None:
    """The first era begins at the start of the log; of a later one the start is not known then."""
    assert progress_without("begin").begin is None
    assert progress_without("begin", era=0).begin == LOG_BEGIN
    assert progress_without(begin=[4, 7, "schema"]).begin == Begin(4, 7, "schema")
    assert progress_without("changes_id").changes_id == ""


def test_the_first_format_had_another_name_for_the_era_of_a_repair() -> None:
    """Both names are read; the newer one counts."""
    events = [read_event(b"1", b"{}", about(**fields)) for fields in ({"said_in": 3}, {"emitted_in": 4})]
    assert [event.emitted_in for event in events if isinstance(event, Change)] == [3, 4]


def test_an_unknown_format_is_refused() -> None:
    """It names the version that wrote the event."""
    with pytest.raises(UnknownFormat, match=r"expected a change of format 1 to 3, .*Sowline 9\.0"):
        read_event(b"1", b"{}", about(v=4, by="9.0"))
    with pytest.raises(UnknownFormat, match="expected a progress event of format 1 to 3"):
        progress_without(format=4)


@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [
        (b"1", b"{}", []),
        (b"1", b"{}", [("sow", b"{}")]),
        (PROGRESS_KEY, b"{}", None),
        (PROGRESS_KEY, None, None),
    ],
    ids=["without header", "empty header", "empty progress", "no progress"],
)
def test_another_record_is_no_event(key: bytes, value: bytes | None, headers: Headers | None) -> None:
    """A reader can tell it from an event of an unknown format."""
    with pytest.raises((ValueError, KeyError)):
        read_event(key, value, headers)
