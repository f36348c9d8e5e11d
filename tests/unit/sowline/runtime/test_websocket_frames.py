"""The frames of a WebSocket: whatever a client sends, and in whatever pieces it comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Close, Frame, Opcode

from sowline.runtime.websocket_frames import BrokenFrame, FrameReader, close_frame, reply_to, text_frame
from tests.memory import deep_bytes

BYTES_MAX = 300
CONTROL = st.builds(Frame, st.sampled_from([Opcode.PING, Opcode.PONG]), st.binary(max_size=125))
MESSAGES = st.lists(
    st.tuples(
        st.one_of(
            st.builds(Frame, st.just(Opcode.TEXT), st.text(max_size=BYTES_MAX // 4).map(str.encode)),
            st.builds(Frame, st.just(Opcode.BINARY), st.binary(max_size=BYTES_MAX)),
        ),
        st.lists(st.integers(0, BYTES_MAX), max_size=3).map(sorted),
        st.lists(CONTROL, max_size=2),
    ),
    max_size=4,
)


def sent(*frames: Frame) -> bytes:
    """Return the bytes that a client sends for frames."""
    return b"".join(frame.serialize(mask=True) for frame in frames)


def fragments(message: Frame, cuts: list[int], between: list[Frame]) -> list[Frame]:
    """Cut a message, and put control frames between its fragments."""
    starts = [0, *cuts]
    parts = [bytes(message.data[start:end]) for start, end in zip(starts, [*cuts, None], strict=True)]
    frames: list[Frame] = []
    for number, part in enumerate(parts, 1):
        opcode = Opcode.CONT if number > 1 else message.opcode
        frames.append(Frame(opcode, part, fin=number == len(parts)))
        if number < len(parts):
            frames += between
    return frames


@given(MESSAGES, st.lists(st.integers(1, 300)))
def test_messages_are_whole(messages: list[tuple[Frame, list[int], list[Frame]]], sizes: list[int]) -> None:
    """However they were cut into frames, and the frames into pieces; control frames come in between."""
    expected: list[Frame] = []
    stream = b""
    for message, cuts, between in messages:
        stream += sent(*fragments(message, cuts, between))
        expected += [*between * len(cuts), message]
    reader, found = FrameReader(BYTES_MAX), list[Frame]()
    for size in sizes:
        found += reader.receive(stream[:size])
        stream = stream[size:]
    found += reader.receive(stream)
    assert found == expected
    unused = FrameReader(BYTES_MAX)
    assert deep_bytes(reader, set()) < deep_bytes(unused, set()) + 20


def test_a_ping_is_no_part_of_the_message() -> None:
    """One between the fragments of a message of the largest size is answered, and the message is whole."""
    ping = Frame(Opcode.PING, b"0123456789")
    first, last = (
        Frame(Opcode.BINARY, b"x" * (BYTES_MAX - 5), fin=False),
        Frame(Opcode.CONT, b"y" * 5),
    )
    message = Frame(Opcode.BINARY, bytes(first.data) + bytes(last.data))
    assert [*FrameReader(BYTES_MAX).receive(sent(first, ping, last))] == [ping, message]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (Frame(Opcode.TEXT, b"{}").serialize(mask=False), 1002),
        (b"\x83\x80\0\0\0\0", 1002),
        (b"\xc1\x80\0\0\0\0", 1002),
        (sent(Frame(Opcode.CONT, b"x")), 1002),
        (sent(Frame(Opcode.TEXT, b"x", fin=False), Frame(Opcode.TEXT, b"y")), 1002),
        (sent(Frame(Opcode.TEXT, b"x", fin=False), Frame(Opcode.CLOSE, b"")), 1002),
        (sent(Frame(Opcode.CLOSE, b"x")), 1002),
        (sent(Frame(Opcode.CLOSE, b"\x03\xe8\xff")), 1007),
        (sent(Frame(Opcode.TEXT, b"\xff")), 1007),
        (sent(Frame(Opcode.TEXT, b"\xc3", fin=False), Frame(Opcode.CONT, b"x")), 1007),
        (sent(Frame(Opcode.BINARY, b"x" * (BYTES_MAX + 1))), 1009),
        (sent(Frame(Opcode.TEXT, b"x" * BYTES_MAX, fin=False), Frame(Opcode.CONT, b"x")), 1009),
        (b"\x81\xff" + (1 << 62).to_bytes(8, "big"), 1009),
    ],
    # The data has a random mask: as names, they would differ between the processes of a run.
    ids=map(str, range(13)),
)
def test_what_a_client_must_not_send(data: bytes, code: int) -> None:
    """Has the code that the protocol gives it; what came before is taken. A length alone is enough to refuse."""
    ping = Frame(Opcode.PING, b"before")
    receiving = FrameReader(BYTES_MAX).receive(sent(ping) + data)
    assert next(receiving) == ping
    with pytest.raises(BrokenFrame) as error:
        next(receiving)
    assert error.value.code == code
    assert len(error.value.reason) < 124


@pytest.mark.parametrize("size", [0, 1, 125, 126, 0xFFFF, 0x10000])
def test_a_text_frame_is_that_of_the_library(size: int) -> None:
    """At every form of its length."""
    assert text_frame(b"x" * size) == Frame(Opcode.TEXT, b"x" * size).serialize(mask=False)


def test_the_other_frames() -> None:
    """A pong has what its ping had, a reply to a close its code; the service closes with a code and a reason."""
    assert reply_to(Frame(Opcode.PING, b"p")) == b"\x8a\x01p"
    assert reply_to(Frame(Opcode.CLOSE, b"\x03\xe9gone")) == b"\x88\x06\x03\xe9gone"
    assert close_frame(1008, "why") == b"\x88\x05" + Close(1008, "why").serialize()
