"""Binary frames: what a service writes, a client reads; anything else is refused."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.errors import SowlineError
from sowline.wire.client_message import read_frame
from sowline.wire.server_message import join_frame, message
from sowline.wire.typed_frame import is_binary, join_typed, split_typed, write_typed

Bodies = list[bytes]


def publish(body: bytes) -> bytes:
    """Return a binary message with one record."""
    return write_typed(message("publish", sids=["1"], topic="t", bookmark="t:0@1", size=len(body)), [body])


def batch(bodies: Bodies) -> bytes:
    """Return a binary message with many records."""
    records = [{"sow_key": str(number), "size": len(body)} for number, body in enumerate(bodies)]
    return write_typed(message("sow", query_id="1", topic="t", records=records), bodies)


@given(st.lists(st.one_of(st.binary(max_size=40), st.lists(st.binary(max_size=40)), st.none()), min_size=1))
def test_a_frame_of_many_messages(parts: list[bytes | Bodies | None]) -> None:
    """Each record comes as it is, in the order of the messages; those in JSON may be among them."""
    messages = [
        message("heartbeat") if part is None else publish(part) if isinstance(part, bytes) else batch(part)
        for part in parts
    ]
    frame = join_typed(messages) if any(map(is_binary, messages)) else join_frame(messages)
    found = [one for received in read_frame(frame) for one in received.messages()]
    expected: list[bytes] = []
    for part in parts:
        expected += part if isinstance(part, list) else [part or b""]
    assert [one.body for one in found] == expected
    assert [one.data for one in found if one.native] == [one.body for one in found if one.native]


def test_a_record_that_can_not_be_written() -> None:
    """The message has no body; its data raise the problem."""
    text = message("publish", sids=["1"], topic="t", bookmark="t:0@1", size=0, problem="expected a qty")
    (received,) = read_frame(write_typed(text, []))
    (found,) = received.messages()
    with pytest.raises(SowlineError, match="expected a qty"):
        _ = found.data


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\0\0",
        b"\0\0\0\x09{}",
        b"\xff\xff\xff\xff{}",
        publish(b"abc")[:-1],
        publish(b"abc") + b"d",
        write_typed(orjson.dumps({"size": 1}), [b"a"]),
        write_typed(message("publish", size=-1), []),
    ],
)
def test_other_frames_are_refused(frame: bytes) -> None:
    """Never a record with the bytes of another."""
    with pytest.raises(SowlineError) as refused:
        read_frame(frame)
    assert refused.value.reason == "bad message"


def test_the_parts_of_a_frame() -> None:
    """The length is that of the JSON."""
    frame = publish(b"abc")
    text, bodies = split_typed(frame)
    assert (int.from_bytes(frame[:4], "big"), frame[4:]) == (len(text), text + bodies)
    assert (orjson.loads(text)["size"], bodies) == (3, b"abc")
