"""Compiled schemas: what is valid, the compiler, imports, and which message is meant."""

import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import orjson
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from sowline.codecs.codec import CompilerAway, codec_of
from sowline.codecs.protobuf import compiled
from sowline.codecs.schema import MessagePayload, Schema
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.protobuf.schemas import proto_schema, record_schema

MONEY = 'syntax = "proto3"; package money; message Amount { int64 units = 1; }'

ORDER = (
    'syntax = "proto3"; package shop; import "common/money.proto"; message Order { money.Amount total = 1;'
    " message Leg { int32 qty = 1; map<string, int32> m = 2; message Fill { int32 id = 1; } } }"
    " message Other { int32 id = 1; }"
)

REFERENCES = (("common/money.proto", MONEY),)


def _base64(file: FileDescriptorProto) -> str:
    return b64encode(file.SerializeToString()).decode()


def _money_file() -> FileDescriptorProto:
    field = FieldDescriptorProto(
        name="units",
        number=1,
        type=FieldDescriptorProto.TYPE_INT64,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )
    amount = DescriptorProto(name="Amount", field=[field])
    return FileDescriptorProto(
        name="other-name.proto", package="money", syntax="proto3", message_type=[amount]
    )


def _order_file() -> FileDescriptorProto:
    total = FieldDescriptorProto(
        name="total",
        number=1,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=".money.Amount",
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )
    at = FieldDescriptorProto(
        name="at",
        number=2,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=".google.protobuf.Timestamp",
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )
    return FileDescriptorProto(
        name="order.proto",
        package="shop",
        syntax="proto3",
        dependency=["common/money.proto", "google/protobuf/timestamp.proto"],
        message_type=[DescriptorProto(name="Order", field=[total, at])],
    )


@pytest.mark.parametrize("text", [ORDER, _base64(_order_file())], ids=["text", "base64"])
@pytest.mark.parametrize("reference", [MONEY, _base64(_money_file())], ids=["text", "base64"])
def test_schemas_and_references_are_text_or_base64(text: str, reference: str) -> None:
    """In any mixture; well-known imports need no reference, and a reference to one changes nothing."""
    schema = Schema(
        "protobuf", text, (("common/money.proto", reference), ("google/protobuf/timestamp.proto", "?"))
    )
    codec = codec_of(schema)
    assert codec.write(b'{"total":{"units":5}}') == b"\x0a\x02\x08\x05"


def test_extensions_are_not_fields() -> None:
    """A schema may declare options of its own; their extensions have no part in records."""
    schema = proto_schema(
        'import "google/protobuf/descriptor.proto"; extend google.protobuf.FieldOptions { string unit = 50000; }'
        ' message R { int32 qty = 1 [(unit) = "kg"]; }'
    )
    assert codec_of(schema).read(MessagePayload(b"\x08\x02"), schema) == b'{"qty":2}'


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (proto_schema("message R { int32 id = ; }"), "got: sowline-schema.proto:1:43: Expected field number"),
        (proto_schema("message R { Missing id = 1; }"), '"Missing" is not defined'),
        (Schema("protobuf", _base64(_order_file())), "common/money.proto: File not found"),
        (
            Schema("protobuf", ORDER, (("common/money.proto", "mess;"),)),
            "common/money.proto:1:1: Expected top-level",
        ),
        (proto_schema('import "missing.proto"; message R {}'), "missing.proto: File not found"),
        (proto_schema("enum E { A = 0; }"), "expected a schema with a message, got one without messages"),
        (Schema("protobuf", ""), "expected a schema with a message"),
        (Schema("protobuf", "AAAA"), "expected base64 of a FileDescriptorProto, got 'AAAA'"),
        (Schema("protobuf", "AAA"), "expected base64 of a FileDescriptorProto, got 'AAA'"),
        (proto_schema("message R {}", message="S"), "expected a schema with the message S, got none"),
        (
            proto_schema("message R { map<string, int32> m = 1; }", message="R.MEntry"),
            "expected a message with fields",
        ),
        (Schema("protobuf", ORDER, (("../money.proto", MONEY),)), "expected a relative import name"),
        (Schema("protobuf", ORDER, (("/tmp/money.proto", MONEY),)), "expected a relative import name"),
        (Schema("protobuf", ORDER, (("a/../../money.proto", MONEY),)), "expected a relative import name"),
        (Schema("protobuf", ORDER, (("a" * 300, MONEY),)), "expected a relative import name"),
        (
            Schema("protobuf", ORDER, (("a", MONEY), ("a/b", MONEY))),
            "expected text that is no directory of another import",
        ),
        (Schema("protobuf", MONEY + "\ud800"), "expected text that is no directory of another import"),
        (
            proto_schema(
                'import "google/protobuf/timestamp.proto"; message R {}', message="google.protobuf.Timestamp"
            ),
            "expected a message with fields as the record, got google.protobuf.Timestamp",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_schemas_are_refused(schema: Schema, message: str) -> None:
    """With the compiler's sentence; the second time without the compiler."""
    for _ in range(2):
        with pytest.raises(SowlineError) as caught:
            codec_of(schema)
        assert caught.value.reason == "bad schema"
        assert message in caught.value.message


def test_a_compiler_that_fails_says_nothing_about_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without memory, or a compiler that does not end, must not make a schema bad."""
    schema = record_schema("int32 interrupted = 1;")
    monkeypatch.setattr(compiled, "PROTOC_SECONDS_MAX", 0)
    with pytest.raises(CompilerAway, match="got no end within 0 s"):
        codec_of(schema)
    monkeypatch.undo()
    assert codec_of(schema)


@pytest.mark.parametrize("last", ["int32 x = 1;", "M0 a = 1;"], ids=["chain", "circle"])
def test_long_chains_of_types_need_no_stack(last: str) -> None:
    """Nor do circles of them."""
    count = 1500
    messages = "".join(f"message M{number} {{ M{number + 1} a = 1; }} " for number in range(count))
    schema = proto_schema(f"{messages} message M{count} {{ {last} }}")
    codec = codec_of(schema)
    assert codec.read(MessagePayload(b"\x0a\x00"), schema) == b'{"a":{}}'
    assert len(codec.described()["$defs"]) == count
    codec.check_reads(schema)


def test_a_compiler_that_is_killed_says_nothing_about_the_schema(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As when memory is short."""
    killed = tmp_path / "python"
    killed.write_text("#!/bin/sh\nkill -KILL $$\n")
    killed.chmod(0o700)
    schema = record_schema("int32 killed = 1;")
    monkeypatch.setattr(sys, "executable", str(killed))
    with pytest.raises(CompilerAway, match="got exit status -9;") as caught:
        codec_of(schema)
    assert caught.value.reason == "schema compiler away"
    monkeypatch.undo()
    assert codec_of(schema)


def test_a_compiler_that_can_not_start_says_nothing_about_a_writer_schema(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next message under it is read."""
    codec, writer = codec_of(record_schema("int32 a = 1;")), record_schema("int32 a = 1; int32 started = 2;")
    monkeypatch.setattr(sys, "executable", "/missing/python")
    with pytest.raises(CompilerAway, match="No such file"):
        codec.read(MessagePayload(b"\x08\x01"), writer)
    monkeypatch.undo()
    assert codec.read(MessagePayload(b"\x08\x01"), writer) == b'{"a":1}'


def test_what_only_the_compiler_knows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be newer than the library that reads messages."""
    file = FileDescriptorProto(name="sowline-schema.proto", dependency=["newer.proto"])
    monkeypatch.setattr(compiled, "_files", lambda *_: [file])
    with pytest.raises(SowlineError, match="expected a Protobuf schema that the library can load") as caught:
        codec_of(record_schema("int32 newer = 1;"))
    assert caught.value.reason == "bad schema"


def test_readers_of_two_messages_share_their_types() -> None:
    """Of a schema that is compiled once."""
    text = 'syntax = "proto3"; message A { B b = 1; } message B { A a = 1; }'
    for name, body in (("A", b'{"b":{"a":{}}}'), ("B", b'{"a":{"b":{}}}')):
        schema = Schema("protobuf", text, (), name)
        codec = codec_of(schema)
        assert codec.read(MessagePayload(codec.write(body)), schema) == body


def test_own_types_with_well_known_names_are_plain_messages() -> None:
    """Only the real ones have JSON forms of their own."""
    schema = Schema(
        "protobuf",
        'syntax = "proto3"; package google.protobuf; message R { Timestamp at = 1; }'
        " message Timestamp { int32 x = 1; }",
    )
    assert codec_of(schema).read(MessagePayload(b"\x0a\x02\x08\x01"), schema) == b'{"at":{"x":1}}'


@pytest.mark.parametrize(
    ("reader", "indexes"),
    [
        ("", None),
        ("", (0,)),
        ("", ()),
        ("shop.Order.Leg", (0, 0)),
        ("shop.Order.Leg.Fill", (0, 0, 1)),
        ("shop.Other", (1,)),
    ],
)
def test_indexes_name_the_message(reader: str, indexes: tuple[int, ...] | None) -> None:
    """They count the messages of a file, then those nested in them; the entries of maps count, too."""
    codec = codec_of(Schema("protobuf", ORDER, REFERENCES, reader))
    assert codec.read(MessagePayload(b"", indexes), Schema("protobuf", ORDER, REFERENCES)).startswith(b"{")


def test_a_writer_schema_names_its_message_without_indexes() -> None:
    """As a topic without a frame has it."""
    schema = Schema("protobuf", ORDER, REFERENCES, "shop.Other")
    assert codec_of(schema).read(MessagePayload(b"\x08\x01"), schema) == b'{"id":1}'


@pytest.mark.parametrize("indexes", [(2,), (-1,), (0, 5), (1, 0)])
def test_indexes_without_a_message_are_refused(indexes: tuple[int, ...]) -> None:
    """The message is bad, not the schema."""
    schema = Schema("protobuf", ORDER, REFERENCES)
    with pytest.raises(SowlineError, match="expected message indexes of the writer schema") as caught:
        codec_of(schema).read(MessagePayload(b"", indexes), schema)
    assert caught.value.reason == "bad message"


def test_messages_of_another_name_are_refused() -> None:
    """The reader has one message."""
    schema = Schema("protobuf", ORDER, REFERENCES)
    with pytest.raises(SowlineError, match=r"expected a message shop\.Order, got shop\.Other") as caught:
        codec_of(schema).read(MessagePayload(b"", (1,)), schema)
    assert caught.value.reason == "incompatible schema"


def test_a_bad_writer_schema_is_refused() -> None:
    """By the reason of its own."""
    with pytest.raises(SowlineError) as caught:
        codec_of(record_schema("int32 a = 1;")).read(MessagePayload(b""), record_schema("int32 a = 0;"))
    assert caught.value.reason == "bad schema"


BUILT_IN = """
    syntax = "proto3"; package shop;
    import "confluent/meta.proto"; import "confluent/type/decimal.proto"; import "confluent/type/variant.proto";
    import "google/type/date.proto"; import "google/type/money.proto"; import "google/protobuf/timestamp.proto";
    message Order {
      option (confluent.message_meta) = { doc: "an order", tags: "PII" };
      confluent.type.Decimal price = 1 [(confluent.field_meta) = { params { key: "precision", value: "9" } }];
      google.type.Date day = 2;
      google.type.Money fee = 3;
      confluent.type.Variant more = 4;
    }
"""


def _written(schema: Schema, body: bytes) -> bytes:
    """Return a body after it was written and read."""
    codec = codec_of(schema)
    return codec.read(MessagePayload(codec.write(body)), schema)


def test_imports_that_registries_have() -> None:
    """Confluent's own files and Google's common types are there without references."""
    body = (
        b'{"price":{"value":"BNI=","precision":6,"scale":2},"day":{"year":2026,"month":11,"day":0},'
        b'"fee":{"currency_code":"EUR","units":3,"nanos":0},"more":{"metadata":"AQ==","value":""}}'
    )
    assert orjson.loads(_written(Schema("protobuf", BUILT_IN), body)) == orjson.loads(body)


def test_a_reference_may_have_the_name_of_a_directory_of_built_in_imports() -> None:
    """It is there, and the other built-in imports too."""
    text = 'syntax = "proto3"; import "google"; import "confluent/meta.proto"; message R { A a = 1; }'
    schema = Schema("protobuf", text, (("google", 'syntax = "proto3"; message A { int32 n = 1; }'),))
    assert _written(schema, b'{"a":{"n":1}}') == b'{"a":{"n":1}}'


@pytest.mark.parametrize("form", [str, _base64], ids=["text", "base64"])
def test_a_reference_comes_before_a_built_in_import(form: Any) -> None:
    """What the registry lists is what the writer had."""
    date = 'syntax = "proto3"; package google.type; message Date { string text = 1; }'
    if form is _base64:
        *_, file = compiled._files(date, ())
        date = _base64(file)
    text = 'syntax = "proto3"; import "google/type/date.proto"; message R { google.type.Date day = 1; }'
    schema = Schema("protobuf", text, (("google/type/date.proto", date),))
    assert _written(schema, b'{"day":{"text":"x"}}') == b'{"day":{"text":"x"}}'
