"""Deltas of Protobuf: presence, the members of oneofs, unknown fields and symbols."""

import orjson
import pytest

from sowline.codecs.codec import Codec, codec_of
from sowline.codecs.schema import MessagePayload, Schema
from sowline.errors import SowlineError
from sowline.model.merge import merge

SCHEMA = Schema(
    "protobuf",
    'syntax = "proto3"; message Order { message Leg { int32 qty = 1; optional string venue = 2; Leg next = 3; }'
    " message Nothing {} int32 id = 1; optional string note = 2; Leg leg = 3; repeated Leg legs = 4;"
    " map<string, Leg> by_name = 5; oneof party { string trader = 6; Leg broker = 7; int32 desk = 8; }"
    " Nothing nothing = 9; }",
)

BEFORE = b'{"id":1,"note":"x","leg":{"qty":1,"venue":"v"},"legs":[{"qty":1}],"by_name":{"a":{"qty":1}},"trader":"t"}'


@pytest.fixture
def codec() -> Codec:
    """The codec of an order."""
    return codec_of(SCHEMA)


def _delta(codec: Codec, body: bytes, fields: list[str] | None) -> bytes:
    return codec.read_delta(MessagePayload(codec.write_delta(body)[0]), SCHEMA, fields)


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
def test_without_paths_presence_decides(codec: Codec, body: bytes, delta: bytes) -> None:
    """Fields without presence change only if they are not zero; lists and maps are whole."""
    assert _delta(codec, body, None) == delta


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        (b"{}", ()),
        (b'{"id":0,"note":null}', ("/id", "/note")),
        (b'{"leg":{"qty":1,"next":{"venue":null}},"legs":[]}', ("/legs", "/leg/qty", "/leg/next/venue")),
        (b'{"leg":null,"by_name":{"a":{}}}', ("/leg", "/by_name")),
        (b'{"nothing":{},"@unknown":null}', ("/nothing", "/@unknown")),
        (
            b'{"@unknown":{"100":"oAYC","99":null},"leg":{"@unknown":{"99":"mAYC"}}}',
            ("/@unknown/99", "/@unknown/100", "/leg/@unknown/99"),
        ),
    ],
)
def test_a_delta_is_written_with_its_paths(codec: Codec, body: bytes, paths: tuple[str, ...]) -> None:
    """The paths are those of the scalars, lists and maps, down through messages."""
    data, written = codec.write_delta(body)
    assert written == paths
    again = codec.read_delta(MessagePayload(data), SCHEMA, written)
    assert set(codec.write_delta(again)[1]) >= set(paths) - {"/nothing"}


@pytest.mark.parametrize("name", ["next", "@unknown"])
def test_an_empty_message_changes_nothing_that_paths_could_name(codec: Codec, name: str) -> None:
    """Its own path would replace it."""
    message = f"expected a field in /leg/{name} for the delta to change, got none"
    with pytest.raises(SowlineError, match=message):
        codec.write_delta(orjson.dumps({"leg": {name: {}}}))


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
    codec: Codec, body: bytes, fields: list[str] | None, after: bytes
) -> None:
    """Nulls of fields with presence go, defaults come."""
    merged = codec.completed(merge(codec.completed(BEFORE), _delta(codec, body, fields)))
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
    codec: Codec, level: bytes, delta: bytes, fields: list[str] | None, after: bytes
) -> None:
    """The others stay, at every level."""
    path = {b"%b": "", b'{"leg":%b}': "/leg"}.get(level, "/leg/next") + "/@unknown"
    paths = None if fields is None else [path + field for field in fields]
    before = codec.completed(level % b'{"@unknown":{"99":"mAYB","100":"oAYB"}}')
    read = codec.read_delta(MessagePayload(codec.write(level % (b'{"@unknown":%b}' % delta))), SCHEMA, paths)
    expected = level % (b'{"@unknown":%b}' % after if after else b"{}")
    assert codec.completed(merge(before, read)) == codec.completed(expected)


def test_another_member_of_a_oneof_replaces_the_first(codec: Codec) -> None:
    """With and without paths."""
    for fields in (None, ["/desk"]):
        merged = orjson.loads(codec.completed(merge(BEFORE, _delta(codec, b'{"desk":7}', fields))))
        assert merged["desk"] == 7
        assert "trader" not in merged


CLOSED = Schema(
    "protobuf",
    'syntax = "proto2"; enum Side { BUY = 1; SELL = 2; } message Leg { optional Side side = 1; } message Order {'
    " optional int32 id = 1; optional Side side = 3; repeated Side sides = 4 [packed = false]; optional Leg leg = 5;"
    " oneof party { string trader = 7; Side desk = 8; } }",
    (),
    "Order",
)
"""The enum lacks a symbol 7: it is `GAc=` in `side`, `IAc=` in `sides`, `CAc=` in `leg.side`, `QAc=` in `desk`."""


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
