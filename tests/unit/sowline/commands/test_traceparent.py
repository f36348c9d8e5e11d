"""The text of a place in a trace: what is one, and how it goes along with a command and a change."""

import pytest

from sowline.changes.change import Change
from sowline.changes.event import read_event
from sowline.changes.progress import PROGRESS_KEY, Progress
from sowline.commands.command import command_headers, read_command
from sowline.commands.traceparent import is_sampled, read_traceparent, traceparent_of
from sowline.model.position import Position

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        PARENT.upper(),
        PARENT[:-1],
        PARENT + "-more",
        PARENT.replace("00-", "01-", 1),
        "00-" + "0" * 32 + PARENT[35:],
        PARENT[:36] + "0" * 16 + "-01",
        b"\xff\xfe",
        None,
    ],
)
def test_what_has_another_form_is_none(wrong: str | bytes | None) -> None:
    """It is ignored, as is none at all."""
    assert read_traceparent(wrong) is None


def test_a_traceparent_is_read_from_headers() -> None:
    """Whatever else is there; the last of several counts; its last digit says whether it is recorded."""
    assert read_traceparent(PARENT) == read_traceparent(PARENT.encode()) == PARENT
    assert (
        traceparent_of([("sow.key", b"1"), ("traceparent", b"x"), ("traceparent", PARENT.encode())]) == PARENT
    )
    assert traceparent_of([("tracestate", PARENT.encode())]) is None
    assert (is_sampled(PARENT), is_sampled(PARENT[:-1] + "2")) == (True, False)


def test_a_command_with_a_traceparent_is_the_same_command() -> None:
    """The header is none of ours, and changes nothing that is read."""
    headers = command_headers("publish", correlation="c", traceparent=PARENT)
    assert headers == [("sow.correlation", b"c"), ("traceparent", PARENT.encode())]
    assert read_command(headers) == read_command(headers[:1])


@pytest.mark.parametrize("parent", [PARENT, None])
def test_a_change_carries_its_traceparent(parent: str | None) -> None:
    """As a header of its own; one without has none."""
    at = Position(0, 5)
    change = Change(b"1", b"{}", b"[]", at, Position(0, 4), "publish", 9, traceparent=parent)
    headers = change.headers()
    assert ("traceparent" in dict(headers)) == (parent is not None)
    assert read_event(change.sow_key, change.value, headers) == change


def test_a_change_is_not_harmed_by_a_bad_traceparent() -> None:
    """Nor is a progress event by any."""
    change = Change(b"1", b"{}", None, Position(0, 5), Position(0, 4), "publish", 9)
    wrong: list[tuple[str, bytes | None]] = [("traceparent", b"\xff"), ("traceparent", None)]
    assert read_event(change.sow_key, change.value, [*wrong, *change.headers()]) == change
    progress = Progress(Position(0, 5), Position(0, 4), 6, {}, "d", "l", 0, {})
    assert read_event(PROGRESS_KEY, progress.value(), wrong) == progress
