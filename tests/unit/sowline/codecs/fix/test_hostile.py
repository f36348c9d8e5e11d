"""Hostile FIX messages: each is refused in time and memory that grow with its bytes."""

import tracemalloc

import orjson
import pytest

from sowline.codecs.fix import FixCodec
from sowline.codecs.fix.fields import FIELDS_MAX
from sowline.codecs.schema import FIX, MessagePayload, Schema
from sowline.errors import SowlineError

SCHEMA = Schema(FIX, "{}")

_BYTES = 10_000_000


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (b"1" * _BYTES, "expected fields like"),
        (b"1" * _BYTES + b"=x", "expected a tag"),
        (b"1=\x01" * 300_000, f"expected at most {FIELDS_MAX} fields"),
        (b"\x01" * _BYTES, "expected fields like"),
        (b"=" * _BYTES, "expected a tag"),
        (b"453=999999999\x01" + b"448=\x01" * 50_000, "expected 999999999 entries"),
        (b"453=1\x01448=\x01802=1\x01523=\x01" * 20_000, "expected the group 453 once"),
        (b"95=1\x01" * 300_000, "expected the data field 96"),
        (b"95=0\x0196=\x01" * 150_000, f"expected at most {FIELDS_MAX} fields"),
        (b"8=F\x019=" + b"9" * _BYTES + b"\x0135=D\x0110=000\x01", "in 9 (BodyLength)"),
        (b"8=F\x019=5\x0135=D\x0110=" + b"9" * _BYTES, "expected 3 digits in 10"),
        (b"\xff" * _BYTES, "expected fields like"),
    ],
    ids=[
        *("a long text", "a long tag", "many fields", "empty fields", "empty tags", "a large count"),
        *("nested groups", "many lengths", "much data", "a long length", "a long sum", "no text"),
    ],
)
def test_hostile_messages_are_refused_within_bounds(message: bytes, sentence: str) -> None:
    """Memory grows with the bytes and not with what they claim; the sentence stays short."""
    codec = FixCodec(SCHEMA)
    tracemalloc.start()
    try:
        with pytest.raises(SowlineError) as caught:
            codec.read(MessagePayload(message), SCHEMA)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.reason == "bad message"
    assert sentence in caught.value.message
    assert len(caught.value.message) < 400
    assert peak < 8 * _BYTES


def test_long_messages_are_read() -> None:
    """A message may have as many fields, and as long ones, as the limits allow."""
    codec = FixCodec(SCHEMA)
    many = b"".join(b"%d=x\x01" % tag for tag in range(100_000, 100_000 + FIELDS_MAX))
    body = codec.read(MessagePayload(many), SCHEMA)
    assert codec.write(body) == many
    entries = b"453=%d\x01" % 99_999 + b"448=x\x01" * 99_999
    assert codec.write(codec.read(MessagePayload(entries), SCHEMA)) == entries
    long = b"58=" + b"x" * _BYTES + b"\x01"
    assert codec.write(codec.read(MessagePayload(long), SCHEMA)) == long
    with pytest.raises(SowlineError, match=f"expected at most {FIELDS_MAX} fields"):
        codec.write(orjson.dumps({"58": ["x"] * (FIELDS_MAX + 1)}))
