"""The common parts of codecs without schemas."""

from typing import Any

import pytest

from sowline.codecs.schema import BINARY, XML, MessagePayload, Schema
from sowline.codecs.schemaless import (
    EXCERPT_CHARS_MAX,
    SchemalessCodec,
    check_no_fields,
    checked_json,
    excerpt,
    json_bytes,
)
from sowline.errors import SowlineError

READER = Schema(BINARY, "{}")


class LineCodec(SchemalessCodec):
    """The simplest codec: a message is its JSON and the end of a line."""

    def read(self, payload: MessagePayload, writer: Schema) -> bytes:
        """Return the JSON."""
        return payload.data.removesuffix(b"\n")

    def write(self, body: bytes) -> bytes:
        """Return a line."""
        return body.replace(b" ", b"") + b"\n"


class ChoosyCodec(LineCodec):
    """The same with options."""

    has_options = True


CODEC = LineCodec(READER)


def test_a_delta_is_a_message_like_any_other() -> None:
    """It is read and written like a record, and merged field by field."""
    delta = CODEC.read_delta(MessagePayload(b'{"b":2}\n'), READER, None)
    assert delta == b'{"b":2}'
    assert CODEC.write_delta(delta) == (b'{"b":2}\n', ())
    assert CODEC.merged(b'{"a":1,"b":1}', delta) == b'{"a":1,"b":2}'


def test_a_record_is_canonical_as_it_would_be_read_again() -> None:
    """What `write` changes is changed in the record; an upgrade changes nothing."""
    assert CODEC.completed(b'{"a": 1}') == b'{"a":1}'
    assert CODEC.upgraded(b'{"a": 1}') == b'{"a": 1}'


def test_a_delta_names_no_fields() -> None:
    """Even an empty list is one."""
    with pytest.raises(SowlineError, match=r"expected no sow\.fields.*got \['/a'\]") as refused:
        CODEC.read_delta(MessagePayload(b"{}\n"), READER, ["/a"])
    assert refused.value.reason == "bad header"
    with pytest.raises(SowlineError, match=r"expected no sow\.fields.*got \[\]"):
        check_no_fields([])


@pytest.mark.parametrize("text", ["", "{}", " {}\n"])
def test_no_options_are_no_options(text: str) -> None:
    """However they are written."""
    LineCodec(Schema(BINARY, text))


def test_options_are_for_types_that_have_some() -> None:
    """Others refuse them, and say what came."""
    with pytest.raises(SowlineError) as refused:
        LineCodec(Schema(BINARY, '{"separator":"|"}'))
    assert refused.value.reason == "bad schema"
    assert 'message type binary, got {"separator":"|"}: leave it out' in refused.value.message
    assert ChoosyCodec(Schema(BINARY, '{"separator":"|"}')).reader.text == '{"separator":"|"}'


def test_a_description_belongs_to_the_caller() -> None:
    """Nothing is known but that records are objects; a caller may add to it."""
    CODEC.described()["required"] = ["a"]
    assert CODEC.described() == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
    }


def test_records_of_another_type_are_not_read() -> None:
    """Those of the same type are, with whatever options."""
    CODEC.check_reads(Schema(BINARY, '{"a":1}'))
    with pytest.raises(SowlineError, match="expected records of message type binary, got xml") as refused:
        CODEC.check_reads(Schema(XML, "{}"))
    assert refused.value.reason == "incompatible schema"


DEEP = b'{"a":' * 600 + b"1" + b"}" * 600


@pytest.mark.parametrize(
    ("body", "reason"), [(b"{", "bad message"), (b"[]", "bad message"), (DEEP, "too deep")]
)
def test_json_that_is_no_record(body: bytes, reason: str) -> None:
    """Depth has its own reason: the message may be valid in its type."""
    with pytest.raises(SowlineError, match="expected") as refused:
        checked_json(body)
    assert refused.value.reason == reason


def test_a_document_is_written_as_json() -> None:
    """With the caller's form of what JSON lacks."""
    assert checked_json(json_bytes({"a": {1, 2}}, default=sorted)) == {"a": [1, 2]}


@pytest.mark.parametrize("levels", [501, 5000])
def test_documents_have_a_depth(levels: int) -> None:
    """Beyond the levels of records, whether they can be written or not."""
    document: Any = {}
    for _ in range(levels - 1):
        document = {"a": document}
    with pytest.raises(SowlineError, match="expected at most 500 levels") as refused:
        json_bytes(document)
    assert refused.value.reason == "too deep"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a'b", '"a\'b"'),
        (b"ab", "'ab'"),
        (b"a\xff", r"'a\\xff'"),
        ("x" * EXCERPT_CHARS_MAX, f"'{'x' * EXCERPT_CHARS_MAX}'"),
        ("x" * 1000, f"'{'x' * EXCERPT_CHARS_MAX}…'"),
        (b"x" * 1000, f"'{'x' * EXCERPT_CHARS_MAX}…'"),
    ],
)
def test_an_excerpt_is_quoted_and_short(text: str | bytes, shown: str) -> None:
    """Bytes need not be text, and a long one shows that it goes on."""
    assert excerpt(text) == shown
