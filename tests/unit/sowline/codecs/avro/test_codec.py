"""Avro's codec: what it does with records and deltas, whose details the other modules decide."""

import pytest

from sowline.codecs.avro import AvroCodec
from sowline.codecs.codec import codec_of
from sowline.codecs.schema import MessagePayload
from sowline.errors import SowlineError
from tests.property.avro_schemas import logical, record, schema_of


def test_the_codec_of_avro_is_found() -> None:
    """The message type leads to this codec."""
    assert isinstance(codec_of(schema_of(record())), AvroCodec)


@pytest.mark.parametrize("body", [b"", b"[]", b'"x"', b"{", b'{"a":"\xff"}'])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    """All calls that take JSON raise `bad message` for text that is not an object."""
    codec = AvroCodec(schema_of(record()))
    for call in (codec.write, codec.write_delta, codec.completed, codec.upgraded):
        with pytest.raises(SowlineError) as caught:
            call(body)
        assert caught.value.reason == "bad message"


LISTS = {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": "int"}}}
ORDER = record(
    ("id", "long"),
    ("note", ["null", "string"]),
    {"name": "qty", "type": "int", "default": 1},
    ("day", logical("int", "date")),
)
OLDER = record(("id", "int"), ("note", ["null", "string"]), ("day", logical("int", "date")))


def test_a_record_is_read_changed_and_written() -> None:
    """A message of an older schema, a delta by its paths, and the bytes of what came of them."""
    codec, older = AvroCodec(schema_of(ORDER)), schema_of(OLDER)
    body = codec.read(MessagePayload(b"\2\2\2n\4"), older)
    assert body == b'{"id":1,"note":"n","qty":1,"day":"1970-01-03"}'
    delta = codec.read_delta(MessagePayload(b"\2\0\6"), older, ["/note", "/day"])
    assert delta == b'{"note":null,"day":"1970-01-04"}'
    after = codec.completed(codec.merged(body, delta))
    assert after == b'{"id":1,"note":null,"qty":1,"day":"1970-01-04"}'
    assert codec.write(after) == b"\2\0\2\6"


def test_a_delta_may_have_a_schema_of_its_own() -> None:
    """What is null in it is not changed."""
    codec = AvroCodec(schema_of(ORDER))
    schema = schema_of(record(("note", ["null", "string"]), ("qty", ["null", "int"])))
    assert codec.read_delta(MessagePayload(b"\0\2\4"), schema, None) == b'{"qty":2}'


def test_a_delta_in_json_is_written_with_its_paths() -> None:
    """The rest of the bytes are zeros and defaults, which the paths leave out again."""
    codec = AvroCodec(schema_of(ORDER))
    data, paths = codec.write_delta(b'{"day":"1970-01-03"}')
    assert (data, paths) == (b"\0\0\2\4", ("/day",))
    assert codec.read_delta(MessagePayload(data), schema_of(ORDER), paths) == b'{"day":"1970-01-03"}'


def test_records_of_an_earlier_schema_are_upgraded() -> None:
    """If each of them can be read; otherwise the later schema is refused."""
    codec = AvroCodec(schema_of(ORDER))
    codec.check_reads(schema_of(OLDER))
    assert codec.upgraded(b'{"id":1,"note":null,"day":"1970-01-03"}') == (
        b'{"id":1,"note":null,"qty":1,"day":"1970-01-03"}'
    )
    with pytest.raises(SowlineError, match="/id: expected int, got long") as refused:
        AvroCodec(schema_of(OLDER)).check_reads(schema_of(ORDER))
    assert refused.value.reason == "incompatible schema"


def test_each_message_under_a_schema_that_can_not_be_read_is_refused() -> None:
    """Another one than the first, too."""
    codec = AvroCodec(schema_of(OLDER))
    for data in (b"\2\0\2\6", b"\4\0\2\6"):
        with pytest.raises(SowlineError) as refused:
            codec.read(MessagePayload(data), schema_of(record(("id", "string"))))
        assert refused.value.reason == "incompatible schema"


def test_a_wrong_default_is_found_with_the_schema() -> None:
    """Not with the first message that lacks the field."""
    with pytest.raises(SowlineError, match=r"^/a: expected") as refused:
        AvroCodec(schema_of(record({"name": "a", "type": "int", "default": "x"})))
    assert refused.value.reason == "bad schema"


def test_defaults_may_nest_too_deep() -> None:
    """Below the deepest record that JSON may have."""
    node = record(("next", ["null", "Node"]), {"name": "more", "type": LISTS, "default": [[[]]]}, name="Node")
    older = record(("next", ["null", "Node"]), name="Node")
    codec = AvroCodec(schema_of(node))
    assert codec.read(MessagePayload(b"\2" * 496 + b"\0"), schema_of(older))
    with pytest.raises(SowlineError, match="at most 500 levels") as refused:
        codec.read(MessagePayload(b"\2" * 499 + b"\0"), schema_of(older))
    assert refused.value.reason == "bad message"


def test_the_description_is_of_the_reader() -> None:
    """All fields of canonical JSON are required."""
    described = AvroCodec(schema_of(ORDER)).described()
    assert described["$defs"]["Order"]["required"] == ["id", "note", "qty", "day"]
