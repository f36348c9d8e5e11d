"""The codec of messages that are not parsed."""

from typing import Any

import jsonschema_rs
import orjson
import pytest

from sowline.codecs.binary import BinaryCodec
from sowline.codecs.codec import codec_of
from sowline.codecs.schema import BINARY, MessagePayload, Schema
from sowline.errors import SowlineError

READER = Schema(BINARY, "{}")
CODEC = BinaryCodec(READER)


def test_the_codec_of_binary_is_found() -> None:
    """The message type leads to this codec."""
    assert isinstance(codec_of(READER), BinaryCodec)


@pytest.mark.parametrize("data", [b"", b"\0", b'{"a":1}', bytes(range(256)) * 5000])
def test_bytes_come_back(data: bytes) -> None:
    """All of them, and the JSON is as described."""
    body = CODEC.read(MessagePayload(data), READER)
    assert CODEC.write(body) == data
    assert CODEC.completed(body) == CODEC.upgraded(body) == body
    assert CODEC.write_delta(body) == (data, ())
    assert CODEC.read_delta(MessagePayload(data), READER, None) == body
    jsonschema_rs.validator_for(CODEC.described()).validate(orjson.loads(body))


def test_a_delta_replaces_the_record() -> None:
    """Nothing is merged."""
    assert CODEC.merged(b'{"data":"AAE="}', b'{"data":"AA=="}') == b'{"data":"AA=="}'
    CODEC.check_reads(READER)


@pytest.mark.parametrize(
    "document", [{}, {"data": 5}, {"data": None}, {"data": "A"}, {"data": "AA==", "id": 5}, {"text": "AA=="}]
)
def test_other_json_is_refused(document: Any) -> None:
    """The sentence shows what to write."""
    for write in (CODEC.write, CODEC.write_delta, CODEC.completed):
        with pytest.raises(
            SowlineError, match=r'expected an object like \{"data": "AAE="\} with base64, got'
        ) as caught:
            write(orjson.dumps(document))
        assert caught.value.reason == "bad message"
