"""Histories: lines of JSON that are read back as they were written, and what is no history."""

import pytest

from sowline.check.history import (
    CheckedTopic,
    Event,
    FaultRun,
    HistoryBegin,
    MessageRead,
    Unanswered,
    WriteSent,
    event_line,
    is_filter,
    read_history,
)
from sowline.errors import SowlineError

BEGIN = HistoryBegin((CheckedTopic("orders", "orders:0@3"),), 600)


def test_a_line() -> None:
    """Names its event, and leaves out what is not there."""
    event = MessageRead("r1", "oof", 1.5, "orders:0@7", data={"id": 1}, reason="deleted")
    assert event_line(event) == (
        b'{"event":"message","read":"r1","command":"oof","at":1.5,"bookmark":"orders:0@7",'
        b'"data":{"id":1},"reason":"deleted"}'
    )


def test_events_are_read_as_they_were_written() -> None:
    """Each of them."""
    events: list[Event] = [
        BEGIN,
        WriteSent("w1", "orders", "sow_delete", "a", 0.5, None, "/qty > 5 AND /status = 'it is'"),
        FaultRun("true", 2.0, 0),
        Unanswered("expected an answer within 5 s, got nothing", 7.5),
    ]
    assert list(read_history(map(event_line, events))) == events


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "expected a history, got no line"),
        ([b"{"], "expected an event in line 1: "),
        ([event_line(FaultRun("true", 1, 0))], "expected one begin, in the first line, got "),
        ([event_line(BEGIN), event_line(BEGIN)], "expected one begin, in the first line, got "),
        ([event_line(HistoryBegin((), 600, 2))], "expected a history of version 1, got 2"),
        (
            [
                event_line(BEGIN),
                b'{"event":"write","id":"1","topic":"t","command":"publish","writer":"a","at":0,"filter":"/a % 1"}',
            ],
            "expected an event in line 2: expected comparisons like /qty > 5, combined with AND, got '/a % 1'",
        ),
        (
            [
                event_line(BEGIN),
                b'{"event":"open","read":"1","command":"sow","topic":"t","at":0,"filter":"a"}',
            ],
            "expected an event in line 2: expected comparisons",
        ),
        (
            [event_line(BEGIN), b'{"event":"end","read":"r1","at":1}'],
            "expected a read of earlier lines, got 'r1' in line 2",
        ),
        (
            [event_line(BEGIN), b'{"event":"written","id":"w1","status":"unknown","at":1}'],
            "expected a write of earlier lines, got 'w1' in line 2",
        ),
        (
            [event_line(BEGIN), b'{"event":"open","read":"r1","command":"sow","topic":"t","at":1}'],
            "expected a topic of earlier lines, got 't' in line 2",
        ),
        (
            [event_line(BEGIN), b'{"event":"fault","command":"x","at":0,"exit_code":1,"more":2}'],
            "expected an event in line 2",
        ),
    ],
)
def test_what_is_no_history(lines: list[bytes], message: str) -> None:
    """The error names the line."""
    with pytest.raises(SowlineError) as error:
        list(read_history(lines))
    assert error.value.reason == "bad request"
    assert error.value.message.startswith(message)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("", True),
        ("1=1", True),
        ("/a = 'b'", True),
        ("/a >= -3 AND /b < 2", True),
        ("/a", False),
        ("/a = 'b' OR /c = 1", False),
    ],
)
def test_filters(text: str, is_one: bool) -> None:
    """Few are enough for a workload."""
    assert is_filter(text) is is_one
