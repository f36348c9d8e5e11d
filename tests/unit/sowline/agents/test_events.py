"""Events and lines are whole, wherever the network cuts them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.agents.events import Event, EventReader, Pieces

STREAM = (
    b"retry: 2000\n\n"
    b'event: processed\ndata: {"a":1}\n\n'
    b":\n\n"
    b'event: publish\nid: o:0@1,1@2\ndata: {"text": "a: b"}\n\n'
    b"event: failure\nid: \ndata: {}\n\n"
    b"event: publish\nid: o:0@2"
)
EVENTS = [
    Event("processed", b'{"a":1}', ""),
    Event("publish", b'{"text": "a: b"}', "o:0@1,1@2"),
    Event("failure", b"{}", ""),
]


@given(st.lists(st.integers(0, len(STREAM))))
def test_events_are_read_from_any_chunks(cuts: list[int]) -> None:
    """Comments are left out, and an event is given once it is whole."""
    edges = [0, *sorted(cuts), len(STREAM)]
    reader = EventReader()
    chunks = [STREAM[start:end] for start, end in pairwise(edges)]
    assert [event for chunk in chunks for event in reader.take(chunk)] == EVENTS


@pytest.mark.parametrize("separator", [b"\n", b"\n\n"])
def test_pieces(separator: bytes) -> None:
    """What follows the last separator waits for the next chunk."""
    pieces = Pieces(separator)
    assert pieces.take(b"a" + separator + b"b") == [b"a"]
    assert pieces.take(b"") == []
    assert pieces.take(separator[:1]) == ([b"b"] if len(separator) == 1 else [])
    assert pieces.take(separator) == ([b""] if len(separator) == 1 else [b"b"])
