"""How bytes become JSON: each kind of field, what has no JSON, and what a delta changes."""

import threading
from base64 import b64encode
from functools import partial

import orjson
import pytest

from sowline.codecs.codec import Codec, codec_of
from sowline.codecs.schema import MessagePayload, Schema
from sowline.errors import SowlineError
from sowline.model.merge import merge
from tests.unit.sowline.codecs.protobuf.orders import (
    CLOSED,
    DEFAULTS,
    DELTAS,
    PROTO2,
    SCHEMA,
    WIRE,
    nested_orders,
    read_as_json,
    refusal_of,
    without_defaults,
)


@pytest.fixture
def codec() -> Codec:
    """The codec of an order."""
    return codec_of(SCHEMA)


@pytest.fixture
def deltas() -> Codec:
    """The codec of orders that deltas change."""
    return codec_of(DELTAS)


def delta_of(deltas: Codec, body: bytes, fields: list[str] | None) -> bytes:
    """Return the JSON of a delta that was written and read."""
    return deltas.read_delta(MessagePayload(deltas.write_delta(body)[0]), DELTAS, fields)


@pytest.mark.parametrize(("data", "members"), WIRE, ids=lambda part: str(part)[:40])
def test_each_kind_of_field_has_its_json(codec: Codec, data: bytes, members: dict[str, object]) -> None:
    """Fields without presence have their defaults."""
    assert without_defaults(read_as_json(codec, data)) == members


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x6a\x07\x08\x80\x80\x80\x80\x80\x20", "shop.Order.time"),
        (b"\xa2\x01\x09\x11\x00\x00\x00\x00\x00\x00\xf8\x7f", "shop.Order.value"),
        (
            b"\xaa\x01\x0b\x0a\x09\x11\x00\x00\x00\x00\x00\x00\xf8\x7f",
            "a google.protobuf.Value",
        ),
    ],
    ids=["a time beyond the year 9999", "NaN", "NaN in a list"],
)
def test_a_value_that_json_can_not_have_is_named(codec: Codec, data: bytes, message: str) -> None:
    """By its field, or as the value of any kind that it is."""
    assert f"in {message}, got" in refusal_of(partial(read_as_json, codec), data)


def test_fields_without_presence_are_always_there(codec: Codec) -> None:
    """An empty message is a record of defaults."""
    assert codec.read(MessagePayload(b""), SCHEMA) == codec.completed(b"{}")
    assert read_as_json(codec, b"") == DEFAULTS


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x08", "expected the bytes of a shop.Order"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "expected the bytes of a shop.Order"),
        (b"\x22\xff\xff\xff\xff\x0f", "expected the bytes of a shop.Order"),
        (b"\x00\x00", "expected the bytes of a shop.Order"),
        (b"\x92\x01\x03\x80\x00\x01", "expected field numbers from 1 in /@unknown, got 0"),
        (b"\x0b", "expected the bytes of a shop.Order"),
        (b"\x52\x01\xff", "UTF-8"),
    ],
    ids=repr,
)
def test_bytes_that_have_no_json_are_refused(codec: Codec, data: bytes, message: str) -> None:
    """Broken bytes, and values that a JSON form can't have."""
    assert message in refusal_of(partial(read_as_json, codec), data)


def test_bytes_nest_100_levels(codec: Codec) -> None:
    """Of known fields and of groups that are unknown."""
    assert codec.read(MessagePayload(nested_orders(100)), SCHEMA)
    for data in (nested_orders(101), nested_orders(10_000), b"\xd3\x01" * 101 + b"\xd4\x01" * 101):
        with pytest.raises(SowlineError, match=r"expected the bytes of a shop\.Order"):
            codec.read(MessagePayload(data), SCHEMA)


def test_depth_does_not_depend_on_the_caller(codec: Codec) -> None:
    """A record that is as deep as allowed is read with little stack left."""
    data = nested_orders(100)
    bodies = []

    def deep(levels: int) -> bytes:
        return deep(levels - 1) if levels else codec.completed(codec.read(MessagePayload(data), SCHEMA))

    thread = threading.Thread(target=lambda: bodies.append(deep(950)))
    thread.start()
    thread.join()
    assert bodies == [codec.read(MessagePayload(data), SCHEMA)]


def test_the_number_of_fields_is_limited() -> None:
    """Two bytes of an empty message become all its defaults; what a record becomes in total is bounded."""
    fields = " ".join(f"int32 f{number} = {number};" for number in range(2, 1000))
    schema = Schema("protobuf", f'syntax = "proto3"; message A {{ repeated A a = 1; {fields} }}')
    codec = codec_of(schema)
    assert codec.read(MessagePayload(b"\x0a\x00" * 990), schema)
    with pytest.raises(SowlineError, match="expected at most 1000000 fields") as caught:
        codec.read(MessagePayload(b"\x0a\x00" * 1000), schema)
    assert caught.value.reason == "bad message"


def test_unknown_fields_are_kept_where_they_are(codec: Codec) -> None:
    """By number, with all occurrences; groups, too."""
    inner = b"\xa3\x06\x0b\x08\x01\x0c\xa4\x06\xa8\x06\x05"
    fields = [b"\xa0\x06\x81\x00", b"\xa2\x06\x81\x00x", b"\xa1\x06" + b"8" * 8, b"\xa5\x06" + b"4" * 4]
    first, second = b"".join(fields[:2]), b"".join(fields[2:])
    data = first + b"\xca\x01" + bytes([len(inner)]) + inner + b"\x98\x06\x02" + second
    read = read_as_json(codec, data)
    assert isinstance(read, dict)
    assert read["@unknown"] == {"99": "mAYC", "100": b64encode(first + second).decode()}
    assert read["parent"]["@unknown"] == {"100": "owYLCAEMpAY=", "101": "qAYF"}
    assert (
        codec.write(orjson.dumps(read))
        == b"\xca\x01" + bytes([len(inner)]) + inner + b"\x98\x06\x02" + first + second
    )


def test_proto2_fields_have_presence() -> None:
    """What is set is there, groups are objects, and extensions are unknown fields."""
    codec = codec_of(PROTO2)
    data = b"\x08\x00\x12\x00\x33\x08\x01\x34\xa0\x06\x07"
    assert codec.read(MessagePayload(data), PROTO2) == (
        b'{"id":0,"text":"","texts":[],"named":{},"g":{"x":1},"@unknown":{"100":"oAYH"}}'
    )
    assert codec.write(codec.read(MessagePayload(data), PROTO2)) == data


@pytest.mark.parametrize(
    "data", [b"\x12\x01\xff", b"\x1a\x01\xff", b"\x22\x03\x0a\x01\xff", b"\x22\x03\x12\x01\xff"]
)
def test_proto2_texts_are_utf_8(data: bytes) -> None:
    """Protobuf does not check them, so we do."""
    codec = codec_of(PROTO2)
    with pytest.raises(SowlineError, match="UTF-8") as caught:
        codec.read(MessagePayload(b"\x08\x01" + data), PROTO2)
    assert caught.value.reason == "bad message"


# deltas

BEFORE = b'{"id":1,"note":"x","leg":{"qty":1,"venue":"v"},"legs":[{"qty":1}],"by_name":{"a":{"qty":1}},"trader":"t"}'


@pytest.mark.parametrize(
    ("body", "delta"),
    [
        (b"{}", b"{}"),
        (b'{"id":0,"note":""}', b'{"note":""}'),
        (b'{"legs":[],"by_name":{}}', b"{}"),
        (b'{"leg":{"qty":0,"venue":"v"}}', b'{"leg":{"venue":"v"}}'),
        (b'{"legs":[{"qty":0}]}', b'{"legs":[{"qty":0}]}'),
        (b'{"by_name":{"a":{"qty":0}}}', b'{"by_name":{"a":{"qty":0}}}'),
        (b'{"broker":{"qty":2}}', b'{"trader":null,"broker":{"qty":2},"desk":null}'),
        (
            b'{"leg":{"@unknown":{"100":"oAYB"}},"@unknown":{"100":"oAYC"}}',
            b'{"leg":{"@unknown":{"100":"oAYB"}},"@unknown":{"100":"oAYC"}}',
        ),
    ],
)
def test_without_paths_presence_decides(deltas: Codec, body: bytes, delta: bytes) -> None:
    """Fields without presence change only if they are not zero; lists and maps are whole."""
    assert delta_of(deltas, body, None) == delta


@pytest.mark.parametrize(
    ("body", "fields", "after"),
    [
        (b'{"note":null}', ["/note"], b'{"id":1,"leg":{"qty":1,"venue":"v"},'),
        (b'{"leg":{"qty":2}}', ["/leg"], b'{"id":1,"note":"x","leg":{"qty":2},"legs"'),
        (b'{"leg":{"qty":2}}', ["/leg/qty"], b'{"id":1,"note":"x","leg":{"qty":2,"venue":"v"},"legs"'),
        (b'{"leg":{"qty":2}}', None, b'{"id":1,"note":"x","leg":{"qty":2,"venue":"v"},"legs"'),
    ],
)
def test_merged_records_are_completed(
    deltas: Codec, body: bytes, fields: list[str] | None, after: bytes
) -> None:
    """Nulls of fields with presence go, defaults come."""
    merged = deltas.completed(merge(deltas.completed(BEFORE), delta_of(deltas, body, fields)))
    assert merged.startswith(after)


@pytest.mark.parametrize("level", [b"%b", b'{"leg":%b}', b'{"legs":[],"leg":{"next":%b}}'])
@pytest.mark.parametrize(
    ("delta", "fields", "after"),
    [
        (b'{"98":"kAYC","99":"mAYC"}', None, b'{"98":"kAYC","99":"mAYC","100":"oAYB"}'),
        (b'{"99":"mAYC"}', ["/99"], b'{"99":"mAYC","100":"oAYB"}'),
        (b'{"99":"mAYC"}', ["/100"], b'{"99":"mAYB"}'),
        (b'{"99":"mAYC"}', ["/98"], b'{"99":"mAYB","100":"oAYB"}'),
        (b'{"99":"mAYC"}', [""], b'{"99":"mAYC","100":"oAYB"}'),
        (b"null", [""], b""),
    ],
)
def test_a_delta_replaces_the_unknown_fields_that_it_has(
    deltas: Codec, level: bytes, delta: bytes, fields: list[str] | None, after: bytes
) -> None:
    """The others stay, at every level."""
    path = {b"%b": "", b'{"leg":%b}': "/leg"}.get(level, "/leg/next") + "/@unknown"
    paths = None if fields is None else [path + field for field in fields]
    before = deltas.completed(level % b'{"@unknown":{"99":"mAYB","100":"oAYB"}}')
    read = deltas.read_delta(
        MessagePayload(deltas.write(level % (b'{"@unknown":%b}' % delta))), DELTAS, paths
    )
    expected = level % (b'{"@unknown":%b}' % after if after else b"{}")
    assert deltas.completed(merge(before, read)) == deltas.completed(expected)


def test_another_member_of_a_oneof_replaces_the_first(deltas: Codec) -> None:
    """With and without paths."""
    for fields in (None, ["/desk"]):
        merged = orjson.loads(deltas.completed(merge(BEFORE, delta_of(deltas, b'{"desk":7}', fields))))
        assert merged["desk"] == 7
        assert "trader" not in merged


@pytest.mark.parametrize(
    ("before", "message", "fields", "after"),
    [
        (
            b'{"@unknown":{"3":"GAc=","9":"SAc="}}',
            b'{"side":"SELL"}',
            None,
            b'{"side":"SELL","@unknown":{"9":"SAc="}}',
        ),
        (b'{"@unknown":{"3":"GAc="}}', b'{"side":"SELL"}', ["/side"], b'{"side":"SELL"}'),
        (b'{"@unknown":{"3":"GAc="}}', b"{}", ["/side"], b"{}"),
        (
            b'{"@unknown":{"3":"GAc="}}',
            b'{"id":2,"side":"SELL"}',
            ["/id"],
            b'{"id":2,"@unknown":{"3":"GAc="}}',
        ),
        (b'{"@unknown":{"3":"GAc="}}', b'{"id":2}', None, b'{"id":2,"@unknown":{"3":"GAc="}}'),
        (b'{"side":"BUY"}', b'{"@unknown":{"3":"GAc="}}', None, b'{"@unknown":{"3":"GAc="}}'),
        (b'{"side":"BUY"}', b'{"@unknown":{"3":"GAc="}}', ["/side"], b'{"@unknown":{"3":"GAc="}}'),
        (b'{"side":"BUY"}', b'{"@unknown":{"3":"GAc="}}', ["/id"], b'{"side":"BUY"}'),
        (b'{"@unknown":{"3":"GAc="}}', b'{"side":"SELL"}', ["/side", "/@unknown"], b'{"side":"SELL"}'),
        (b'{"sides":["BUY"],"@unknown":{"4":"IAc="}}', b'{"sides":["SELL"]}', None, b'{"sides":["SELL"]}'),
        (b'{"sides":["BUY"]}', b'{"@unknown":{"4":"IAc="}}', None, b'{"@unknown":{"4":"IAc="}}'),
        (b'{"sides":["BUY"],"@unknown":{"4":"IAc="}}', b"{}", ["/sides"], b"{}"),
        (b'{"leg":{"@unknown":{"1":"CAc="}}}', b'{"leg":{"side":"BUY"}}', None, b'{"leg":{"side":"BUY"}}'),
        (
            b'{"leg":{"@unknown":{"1":"CAc="}}}',
            b'{"leg":{"side":"BUY"}}',
            ["/leg/side"],
            b'{"leg":{"side":"BUY"}}',
        ),
        (
            b'{"leg":{"@unknown":{"1":"CAc="}}}',
            b'{"leg":{"side":"BUY"}}',
            ["/leg"],
            b'{"leg":{"side":"BUY"}}',
        ),
        (b'{"trader":"t"}', b'{"@unknown":{"8":"QAc="}}', None, b'{"@unknown":{"8":"QAc="}}'),
        (b'{"trader":"t"}', b'{"@unknown":{"8":"QAc="}}', ["/desk"], b'{"@unknown":{"8":"QAc="}}'),
        (b'{"@unknown":{"8":"QAc="}}', b'{"trader":"t"}', None, b'{"trader":"t"}'),
        (b'{"@unknown":{"8":"QAc="}}', b'{"trader":"t"}', ["/trader"], b'{"trader":"t"}'),
    ],
)
def test_a_delta_of_a_closed_enum_replaces_a_symbol_that_the_reader_lacks(
    before: bytes, message: bytes, fields: list[str] | None, after: bytes
) -> None:
    """The field and its number in `@unknown` change together, so that a record never has both symbols."""
    codec = codec_of(CLOSED)
    delta = codec.read_delta(MessagePayload(codec.write(message)), CLOSED, fields)
    assert codec.completed(merge(codec.completed(before), delta)) == codec.completed(after)
