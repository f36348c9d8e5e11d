"""Message type `composite-local`: parts by their numbers, and deltas of some of them."""

import jsonschema_rs
import msgspec
import orjson
import pytest

from sowline.codecs.composite import CompositeGlobalCodec, CompositeLocalCodec
from sowline.codecs.composite.local_parts import renamed
from sowline.codecs.schema import MessagePayload
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.composite.messages import BOTH, LOCAL, WHOLE, message, packed, read


def read_delta(data: bytes) -> bytes:
    """Return the canonical JSON of a delta of parts."""
    return LOCAL.read_delta(MessagePayload(data), LOCAL.reader, None)


def test_parts_are_by_their_numbers() -> None:
    """JSON is kept byte for byte; other types are canonical."""
    data = message(b'{"id": 5, "x": 1.50}', packed(b=b"1"), b"\0")
    body = b'{"0":{"id": 5, "x": 1.50},"1":{"b":{"$binary":"MQ=="}},"2":{"data":"AA=="}}'
    assert read(LOCAL, data) == body
    assert LOCAL.write(body) == data


def test_a_delta_of_one_part_leaves_the_others() -> None:
    """The chapters' case: the JSON part changes without the binary one being published again."""
    record = read(LOCAL, message(b'{"id":1,"px":5}', packed(a=b"1", b=2), b"large"))
    delta = read_delta(message(b'{"px":6}', b"", b""))
    assert LOCAL.write(LOCAL.merged(record, delta)) == message(
        b'{"id":1,"px":6}', packed(a=b"1", b=2), b"large"
    )
    delta = read_delta(message(b"", packed(a=msgspec.msgpack.Ext(5, b"")), b"new"))
    assert LOCAL.write(LOCAL.merged(record, delta)) == message(
        b'{"id":1,"px":5}', packed(a=msgspec.msgpack.Ext(5, b""), b=2), b"new"
    )


def test_a_new_part_gets_its_position() -> None:
    """Whatever the order in which parts came."""
    record = read(LOCAL, message(b"", b"", b"1"))
    merged = LOCAL.merged(record, read_delta(message(b'{"a":1}', b"", b"")))
    assert LOCAL.completed(merged) == b'{"0":{"a":1},"2":{"data":"MQ=="}}'


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"[]", "expected a JSON object"),
        (b'{"3":{}}', "expected only the numbers of parts, from 0 to 2, got the field '3'"),
        (b'{"00":{}}', "expected only the numbers of parts"),
        (b'{"0":5}', "part 0: expected a JSON object, got a number"),
        (b'{"1":{"a":{"$ext":5}}}', "part 1: expected an array of the extension's type"),
        (b'{"2":{"data":""}}', "part 2: expected at least one byte, got an empty part: leave it out"),
        (b'{"2":{"text":""}}', "part 2: expected an object like"),
    ],
)
def test_other_json_is_not_written_as_parts(body: bytes, complaint: str) -> None:
    """The sentence names the part."""
    for write in (LOCAL.write, LOCAL.write_delta, LOCAL.completed):
        with pytest.raises(SowlineError) as caught:
            write(body)
        assert caught.value.reason == "bad message"
        assert caught.value.message.startswith(complaint)


def test_deltas_have_no_paths() -> None:
    """The message shows what it changes."""
    for codec in BOTH:
        with pytest.raises(SowlineError, match=r"expected no sow\.fields") as caught:
            codec.read_delta(MessagePayload(WHOLE), codec.reader, ["/0/a"])
        assert caught.value.reason == "bad header"


@pytest.mark.parametrize("codec", BOTH)
def test_canonical_json_is_as_described(codec: CompositeLocalCodec | CompositeGlobalCodec) -> None:
    """Parts of no bytes, too."""
    validator = jsonschema_rs.validator_for(codec.described())
    for data in (WHOLE, message(b"", packed(c=1), b""), message(b"", b"", b"1")):
        validator.validate(orjson.loads(read(codec, data)))
    assert not validator.is_valid({"2": {"data": 5}, "#parts": 5})


def test_the_definitions_of_parts_have_names_of_their_own() -> None:
    """References within a part's schema lead to the same schemas as before."""
    part = {
        "$defs": {"leg": {"$ref": "#"}},
        "items": [{"$ref": "#/$defs/leg"}, {"$ref": "#/items/0"}],
        "x": 5,
    }
    assert renamed(part, "7") == {
        "$defs": {"leg": {"$ref": "#/properties/7"}},
        "items": [{"$ref": "#/$defs/7.leg"}, {"$ref": "#/properties/7/items/0"}],
        "x": 5,
    }
