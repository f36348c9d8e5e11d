"""Server-Sent Events: what is made of a subscription's messages, and what a request asks for."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import QueryParams

from sowline.errors import SowlineError
from sowline.model.bookmark import format_bookmark, lay_over, parse_bookmark
from sowline.model.bookmark_range import parse_bookmark_range
from sowline.model.position import Position
from sowline.serving.sessions.event_stream import command_of, is_finished
from sowline.serving.sessions.events import BookmarkTracker, Events
from sowline.wire.request import SowAndSubscribe, Subscribe


def event(events: Events, **message: Any) -> dict[str, str]:
    """Return the fields of the event of a message."""
    lines = events.take(json.dumps(message, indent=1).encode()).decode().splitlines()
    assert lines[-1] == ""
    return dict(line.split(": ", 1) for line in lines[:-1])


def begun(*, begins_now: bool = True, has_end: bool = False) -> Events:
    """Return the events of a subscription that has begun at a place."""
    events = Events(begins_now=begins_now, has_end=has_end)
    event(events, command="ack", ack_type="processed", status="success", bookmark="o:0@1,1@2")
    return events


def test_an_id_is_the_whole_position() -> None:
    """A live message names its one partition; the data is the message, in one line."""
    received = event(begun(), command="publish", bookmark="o:1@3.2", data={"a": 1})
    assert (received["event"], received["id"]) == ("publish", "o:0@1,1@3.2")
    assert json.loads(received["data"]) == {"command": "publish", "bookmark": "o:1@3.2", "data": {"a": 1}}


def test_a_group_has_no_id_until_its_end() -> None:
    """Who loses the connection within it gets it again."""
    events = Events(begins_now=False, has_end=False)
    processed = event(events, command="ack", ack_type="processed", status="success", bookmark="o:0@1")
    parts = [event(events, command=command, bookmark="o:0@4") for command in ("group_begin", "sow")]
    assert [part.get("id") for part in (processed, *parts)] == [None, None, None]
    assert event(events, command="group_end", bookmark="o:0@4")["id"] == "o:0@4"


@pytest.mark.parametrize(
    ("reason", "id"), [("bookmark_expired", ""), ("rights changed", ""), ("internal", None)]
)
def test_a_failure_is_the_last_event(reason: str, id: str | None) -> None:
    """Where the place is of no use any more, the browser forgets it."""
    events = begun()
    text = events.take(json.dumps({"command": "ack", "status": "failure", "reason": reason}).encode())
    assert events.is_over
    assert text.startswith(b"event: failure\n")
    assert (b"id: \n" in text) is (id == "")


def test_the_id_marks_the_end() -> None:
    """A browser that comes back for more is told that there is none."""
    events = begun(has_end=True)
    over = event(events, command="ack", ack_type="completed", status="success", bookmark="o:0@9,1@9")
    assert (over["event"], over["id"], events.is_over) == ("completed", "o:0@9,1@9 end", True)
    assert is_finished(over["id"])
    replayed = begun()
    event(replayed, command="ack", ack_type="completed", status="success", bookmark="o:0@9,1@9")
    assert not replayed.is_over


BOOKMARKS = st.dictionaries(
    st.sampled_from(["a", "b.c/d"]),
    st.dictionaries(
        st.integers(0, 3),
        st.builds(Position, st.integers(0, 2), st.integers(-1, 9), st.integers(0, 2)),
        min_size=1,
    ),
    min_size=1,
)


@given(st.lists(BOOKMARKS, min_size=1))
def test_bookmarks_are_laid_over(bookmarks: list[dict[str, dict[int, Position]]]) -> None:
    """As bookmarks are, without reading their positions."""
    whole = BookmarkTracker()
    expected: dict[str, Any] = {}
    for bookmark in bookmarks:
        whole.lay(format_bookmark(bookmark))
        expected = lay_over(expected, bookmark)
    assert parse_bookmark(str(whole)) == expected


def command(query: str, last: str = "") -> Subscribe:
    """Return the command of a GET."""
    return command_of("orders", QueryParams(query), last)


def test_a_request_has_the_fields_of_the_command() -> None:
    """The place of `Last-Event-ID` counts before `bookmark`; a range keeps its end."""
    asked = command("command=sow_and_subscribe&filter=/a=1&top_n=5&bookmark=epoch", "orders:0@7")
    assert asked == SowAndSubscribe(
        topic="orders",
        command_id="1",
        acks=frozenset({"processed", "completed"}),
        filter="/a=1",
        top_n=5,
        bookmark="orders:0@7",
        bookmark_range=parse_bookmark_range("orders:0@7"),
    )
    assert isinstance(command(""), Subscribe)
    assert command("bookmark=orders:0@1&bookmark=orders:1@1").bookmark == ("orders:0@1", "orders:1@1")
    assert command("bookmark=[epoch..now)", "orders:0@7").bookmark == "(orders:0@7..now)"


@pytest.mark.parametrize(
    ("query", "reason", "message"),
    [
        ("color=red", "bad request", "color"),
        ("command=sow", "bad request", "'sow'"),
        ("options=oof,pause", "invalid options", "pause"),
    ],
)
def test_what_a_request_can_not_have(query: str, reason: str, message: str) -> None:
    """It is refused before anything begins."""
    with pytest.raises(SowlineError) as refused:
        command(query)
    assert (refused.value.reason, message in refused.value.message) == (reason, True)
