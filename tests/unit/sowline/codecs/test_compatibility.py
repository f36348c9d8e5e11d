"""Why a reader schema can't read the messages of a writer schema."""

import pytest

from sowline.codecs.compatibility import why_unreadable
from sowline.codecs.schema import AVRO, PROTOBUF, Schema
from sowline.errors import SowlineError

LONG = Schema(AVRO, '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}')
INT = Schema(AVRO, '{"type":"record","name":"Order","fields":[{"name":"id","type":"int"}]}')
PROTO = 'syntax = "proto3"; package shop; message Header { string id = 1; } message Order { int64 id = 1; }'


def test_a_schema_that_can_be_read_has_no_reason() -> None:
    """The answer is empty."""
    assert why_unreadable(LONG, LONG) == ""
    assert why_unreadable(LONG, INT) == ""


def test_the_reason_is_that_of_the_codec() -> None:
    """It names the field."""
    assert why_unreadable(INT, LONG) == "/id: expected int, got long"


def test_a_schema_of_another_type_is_unreadable() -> None:
    """Nothing of it is compared."""
    assert why_unreadable(LONG, Schema(PROTOBUF, PROTO)) == "expected a schema of avro, got one of protobuf"


def test_a_writer_without_a_message_has_that_of_the_reader() -> None:
    """A registry's schema names no message, and the first of its text may be another one."""
    reader = Schema(PROTOBUF, PROTO, message="shop.Order")
    assert why_unreadable(reader, Schema(PROTOBUF, PROTO)) == ""
    assert "Header" in why_unreadable(reader, Schema(PROTOBUF, PROTO, message="shop.Header"))


def test_a_reader_that_is_not_valid_is_an_error() -> None:
    """It is the topic's own schema that is wrong, not the writer's."""
    with pytest.raises(SowlineError) as refused:
        why_unreadable(Schema(AVRO, "{"), LONG)
    assert refused.value.reason == "bad schema"
