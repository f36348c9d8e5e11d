"""Message types, and schemas as texts."""

from dataclasses import replace
from typing import get_args

import pytest

from sowline.codecs.schema import AVRO, PROTOBUF, CodecType, FormatType, Schema, SchemaType, is_format

ORDER = Schema(AVRO, '{"type":"record"}', (("money", "{}"), ("side", "{}")))


def test_a_message_type_has_schemas_or_options() -> None:
    """Each is one of the two; JSON and unknown names are neither."""
    assert not any(map(is_format, get_args(SchemaType)))
    assert all(map(is_format, get_args(FormatType)))
    assert {*get_args(SchemaType), *get_args(FormatType)} == set(get_args(CodecType))
    assert not is_format("json")
    assert not is_format("thrift")


def test_a_digest_is_of_the_content() -> None:
    """It is the same in each process and each version: logs and stores have it."""
    assert ORDER.digest == replace(ORDER).digest == "22248f93259823d3"


@pytest.mark.parametrize(
    "other",
    [
        replace(ORDER, type=PROTOBUF),
        replace(ORDER, text='{"type": "record"}'),
        replace(ORDER, references=()),
        replace(ORDER, references=ORDER.references[::-1]),
        replace(ORDER, message="Order"),
    ],
)
def test_any_difference_is_another_digest(other: Schema) -> None:
    """Also that of blanks, and the order of references."""
    assert other.digest != ORDER.digest
