"""How a message type leads to its codec."""

import sys

import pytest

from sowline.codecs.avro import AvroCodec
from sowline.codecs.binary import BinaryCodec
from sowline.codecs.bson import BsonCodec
from sowline.codecs.codec import NO_MESSAGE_TYPE, CompilerAway, codec_of
from sowline.codecs.composite import CompositeGlobalCodec, CompositeLocalCodec
from sowline.codecs.fix import FixCodec, NvfixCodec
from sowline.codecs.json_schema import JsonSchemaCodec
from sowline.codecs.msgpack import MsgpackCodec
from sowline.codecs.protobuf import ProtobufCodec
from sowline.codecs.schema import (
    AVRO,
    BINARY,
    BSON,
    COMPOSITE_GLOBAL,
    COMPOSITE_LOCAL,
    FIX,
    JSON_SCHEMA,
    MSGPACK,
    NVFIX,
    PROTOBUF,
    XML,
    CodecType,
    Schema,
)
from sowline.codecs.xml import XmlCodec
from sowline.errors import SowlineError, StartAgain

PARTS = '{"parts":[{"type":"json"}]}'
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; }'
RECORD = '{"type":"record","name":"Order","fields":[]}'


@pytest.mark.parametrize(
    ("type", "text", "codec_class"),
    [
        (AVRO, RECORD, AvroCodec),
        (PROTOBUF, PROTO, ProtobufCodec),
        (JSON_SCHEMA, "{}", JsonSchemaCodec),
        (FIX, "{}", FixCodec),
        (NVFIX, "{}", NvfixCodec),
        (XML, "{}", XmlCodec),
        (MSGPACK, "{}", MsgpackCodec),
        (BSON, "{}", BsonCodec),
        (BINARY, "{}", BinaryCodec),
        (COMPOSITE_LOCAL, PARTS, CompositeLocalCodec),
        (COMPOSITE_GLOBAL, PARTS, CompositeGlobalCodec),
    ],
)
def test_each_message_type_has_a_codec(type: CodecType, text: str, codec_class: type) -> None:
    """It is of exactly this class: NVFIX is no FIX."""
    assert codec_of(Schema(type, text)).__class__ is codec_class


def test_equal_schemas_share_a_codec() -> None:
    """A schema is compiled once, and another one gets a codec of its own."""
    assert codec_of(Schema(AVRO, RECORD)) is codec_of(Schema(AVRO, RECORD))
    assert codec_of(Schema(AVRO, RECORD)) is not codec_of(Schema(AVRO, RECORD.replace("Order", "Leg")))


def test_only_protobuf_has_types_for_frames() -> None:
    """A Protobuf message is found by its indexes and its name. Other schemas are of one record."""
    assert codec_of(Schema(PROTOBUF, PROTO)).message_type == ((0,), "Order")
    assert codec_of(Schema(AVRO, RECORD)).message_type == NO_MESSAGE_TYPE
    assert codec_of(Schema(JSON_SCHEMA, "{}")).message_type == NO_MESSAGE_TYPE


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says which package is missing, for which topics, and how to install it."""
    for name in [name for name in sys.modules if name.startswith("sowline.codecs.bson")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "bson", None)
    with pytest.raises(SowlineError) as refused:
        codec_of(Schema(BSON, "{ }"))
    assert refused.value.reason == "bad configuration"
    assert refused.value.message.startswith(
        "expected the package bson for topics of message type bson, found none: pip install 'sowline[bson]'"
    )


def test_a_schema_that_is_not_valid_has_no_codec() -> None:
    """The codec's own error is the answer."""
    with pytest.raises(SowlineError) as refused:
        codec_of(Schema(AVRO, '"string"'))
    assert refused.value.reason == "bad schema"


def test_without_its_compiler_a_worker_starts_again() -> None:
    """The message is not at fault, so it must not become a dead letter."""
    away = CompilerAway("expected an answer in 10 seconds, got none")
    assert isinstance(away, StartAgain)
    assert (away.reason, away.message) == (
        "schema compiler away",
        "expected an answer in 10 seconds, got none",
    )
