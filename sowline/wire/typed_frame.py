"""Binary frames: JSON that describes records, then the records in the message type of their topic. Pure.

A frame is the length of the JSON (4 bytes, big-endian), the JSON, and the bodies one after the other. The JSON is
that of a text frame, with the `size` of a body in place of `data`. The bodies are in the order of the sizes.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sowline.errors import SowlineError
from sowline.wire.server_message import join_frame

LENGTH_BYTES = 4
_JSON_BEGINS = (b"{", b"[")
"""The first byte of messages and frames in JSON. JSON whose length begins with that byte would have 1.5 GB."""


class TypedFrame(NamedTuple):
    """The two parts of a binary frame."""

    text: bytes
    bodies: bytes


def is_binary(frame: bytes) -> bool:
    """Whether a message or frame of a service is binary rather than JSON."""
    return frame[:1] not in _JSON_BEGINS


def write_typed(text: bytes, bodies: Iterable[bytes]) -> bytes:
    """Return a binary frame; `text` has the sizes of the bodies in their order."""
    assert not is_binary(text), "the JSON of a frame is a message or a list of messages"
    return b"".join([prefixed_length(text), text, *bodies])


def prefixed_length(data: bytes) -> bytes:
    """Return the length of data in the form that precedes them."""
    return len(data).to_bytes(LENGTH_BYTES, "big")


def split_typed(frame: bytes) -> TypedFrame:
    """Return the parts of a binary frame; raise `bad message` for any other one."""
    end = LENGTH_BYTES + int.from_bytes(frame[:LENGTH_BYTES], "big")
    if len(frame) < LENGTH_BYTES or end > len(frame):
        raise SowlineError(
            "bad message",
            f"expected a length of 4 bytes and that many bytes of JSON, got {len(frame)} bytes: {frame[:200]!r}",
        )
    return TypedFrame(frame[LENGTH_BYTES:end], frame[end:])


def join_typed(messages: Sequence[bytes]) -> bytes:
    """Return one binary frame with messages, some of which are binary frames themselves."""
    if len(messages) == 1:
        return messages[0]
    parts = [split_typed(one) if is_binary(one) else TypedFrame(one, b"") for one in messages]
    return write_typed(join_frame([part.text for part in parts]), (part.bodies for part in parts))
