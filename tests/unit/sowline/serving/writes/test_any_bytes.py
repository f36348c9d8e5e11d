"""Whatever is posted, to topics of whatever kind: it is written or refused with a reason, and nothing breaks."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.config.topic_definition import define_topic
from sowline.errors import SowlineError
from sowline.language.filter import compile_filter
from sowline.serving.authorization.entitlements import EVERYTHING, Entitlement, Rights, to_read, to_write
from sowline.serving.http.requests import NDJSON
from sowline.serving.writes.http_api import WRITES, _posted
from sowline.wire.media_types import NATIVE
from tests.typed_orders import typed_topic

PARTS = {"parts": [{"type": "json"}, {"type": "fix"}, {"type": "binary"}]}
KINDS: dict[str, dict[str, Any]] = {
    "json": {"key": "/id"},
    "supplied": {"key": {"from": "kafka_key"}},
    "without": {"sow": False},
    "documents": {"key": "/id", "documents": True},
    "preprocessed": {"key": "/id", "preprocessing": ["CONCAT(/a, '!') AS /b"]},
    "fix": {"key": "/11", "message_type": "fix"},
    "nvfix": {"key": "/id", "message_type": "nvfix"},
    "xml": {"key": "/order/id", "message_type": "xml"},
    "msgpack": {"key": "/id", "message_type": "msgpack"},
    "bson": {"key": "/id", "message_type": "bson"},
    "binary": {"key": {"from": "kafka_key"}, "message_type": "binary"},
    "composite-local": {"key": "/0/id", "message_type": "composite-local", "message_format": PARTS},
    "composite-global": {"key": "/id", "message_type": "composite-global", "message_format": PARTS},
}
TOPICS = {name: define_topic(**{"name": name, **given}) for name, given in KINDS.items()} | {
    name: typed_topic(name, name) for name in ("avro", "protobuf", "json-schema")
}
SAMPLES = (
    b'{"id":1,"a":"x"}',
    b'{"11":"a","55":"b","35":"D"}',
    b"8=FIX.4.4\x019=5\x0135=0\x0110=163\x01",
    b"35=D\x0111=a\x0155=b\x01",
    b"id=1\x01a=x\x01",
    b"<order><id>1</id></order>",
    b"\x82\xa2id\x01\xa1a\xa1x",
    b"\x15\0\0\0\x10id\0\1\0\0\0\x02a\0\2\0\0\0x\0\0",
    b'{"sow_key":"k","data":{"id":1}}',
    b'{"key":"1","delta":"{..,\\"a\\":1}"}',
    b'{"data":"AAE="}',
    b'\0\0\0\x08{"id":1}\0\0\0\0\0\0\0\0',
    b'{"0":{"id":1},"1":{"11":"a"}}',
    b"\0\0\0\0\x07\x02\x04",
    b'{"id":1,"day":"2026-11-26","price":"9.5"}',
)
FEW = compile_filter("/id = 1")
INSERTED = st.binary(min_size=1, max_size=3) | st.sampled_from(
    [b"\xff", b"\xed\xa0\x80", b"\\ud800", b"1e400"]
)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Return a sample with some bytes in it, or any bytes."""
    sample = draw(st.sampled_from(SAMPLES) | st.binary(max_size=40))
    at = draw(st.integers(0, len(sample)))
    return sample[:at] + draw(INSERTED | st.just(b"")) + sample[at:]


@pytest.mark.parametrize("name", TOPICS)
@given(bodies(), st.sampled_from(WRITES), st.sampled_from(["", NATIVE, NDJSON]), st.booleans())
@example(b'{"11":"a\xff"}', "publish", "", False)
@example(b'{"id":"\xff"}', "sow_delete", "", False)
@example(b'{"id":1,"a":"\xff"}', "delta_publish", NDJSON, False)
def test_any_bytes_can_be_posted(name: str, body: bytes, command: str, type: str, is_few: bool) -> None:
    """By a user who may write all, or some records only."""
    few = Entitlement(name, FEW)
    rights = Rights(to_read(few), to_write(few)) if is_few else EVERYTHING
    with suppress(SowlineError):
        _posted(TOPICS, name, command, {}, body, type, rights)
