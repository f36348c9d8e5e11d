"""The paths of the fields that a delta of Protobuf changes."""

import pytest

from sowline.codecs.codec import Codec, codec_of
from sowline.codecs.schema import MessagePayload, Schema
from sowline.errors import SowlineError

SCHEMA = Schema(
    "protobuf",
    'syntax = "proto3"; message Order { message Leg { int32 qty = 1; optional string venue = 2; Leg next = 3; }'
    " message Nothing {} int32 id = 1; optional string note = 2; Leg leg = 3; repeated Leg legs = 4;"
    " map<string, Leg> by_name = 5; oneof party { string trader = 6; Leg broker = 7; int32 desk = 8; }"
    " Nothing nothing = 9; }",
)


@pytest.fixture
def codec() -> Codec:
    """The codec of an order."""
    return codec_of(SCHEMA)


@pytest.mark.parametrize(
    ("body", "fields", "delta"),
    [
        (b'{"id":5}', [], b"{}"),
        (b'{"id":5,"note":"y"}', ["/note"], b'{"note":"y"}'),
        (b"{}", ["/id", "/note", "/legs", "/by_name"], b'{"id":0,"note":null,"legs":[],"by_name":{}}'),
        (b'{"leg":{"qty":2}}', ["/leg/venue"], b'{"leg":{"venue":null}}'),
        (b"{}", ["/leg/next/qty"], b'{"leg":{"next":{"qty":0}}}'),
        (b'{"leg":{"qty":2}}', ["/leg"], b'{"leg":{"qty":2,"venue":null,"next":null,"@unknown":null}}'),
        (
            b'{"leg":{"qty":2}}',
            ["/leg", "/leg/qty"],
            b'{"leg":{"qty":2,"venue":null,"next":null,"@unknown":null}}',
        ),
        (
            b'{"leg":{"qty":2}}',
            ["/leg/qty", "/leg"],
            b'{"leg":{"qty":2,"venue":null,"next":null,"@unknown":null}}',
        ),
        (b"{}", ["/leg"], b'{"leg":null}'),
        (b'{"desk":0}', ["/desk"], b'{"trader":null,"broker":null,"desk":0}'),
        (b'{"desk":0}', ["/trader"], b'{"trader":null}'),
        (b'{"broker":{"qty":1}}', ["/broker/qty"], b'{"trader":null,"broker":{"qty":1},"desk":null}'),
        (b'{"desk":1}', ["/broker/qty"], b'{"broker":null}'),
        (b"{}", ["/broker/qty"], b'{"trader":null,"broker":{"qty":0},"desk":null}'),
        (
            b'{"leg":{"qty":2,"@unknown":{"100":"oAYC"}}}',
            ["/leg"],
            b'{"leg":{"qty":2,"venue":null,"next":null,"@unknown":{"100":"oAYC"}}}',
        ),
        (b'{"@unknown":{"100":"oAYC"}}', [], b"{}"),
        (b'{"@unknown":{"100":"oAYC"}}', ["/@unknown"], b'{"@unknown":{"100":"oAYC"}}'),
        (b'{"@unknown":{"100":"oAYC"}}', ["/@unknown", "/@unknown/9"], b'{"@unknown":{"100":"oAYC"}}'),
        (
            b'{"@unknown":{"99":"mAYC","100":"oAYC"}}',
            ["/@unknown/100", "/@unknown/98"],
            b'{"@unknown":{"98":null,"100":"oAYC"}}',
        ),
        (b"{}", ["/leg/@unknown/1"], b'{"leg":{"@unknown":{"1":null}}}'),
        (b'{"leg":{}}', ["/leg/@unknown", "/@unknown"], b'{"leg":{"@unknown":null},"@unknown":null}'),
    ],
)
def test_paths_name_what_changes(codec: Codec, body: bytes, fields: list[str], delta: bytes) -> None:
    """Exactly these fields: with their defaults, and null for what is absent."""
    message = codec.write(body)
    assert codec.read_delta(MessagePayload(message), SCHEMA, fields) == delta


@pytest.mark.parametrize(
    "path",
    [
        *("/color", "id", "/id/x", "/legs[0]", "/legs/qty", "/by_name/a", "/leg/color", "", "/@unknown[7]"),
        *("/@unknown/x", "/@unknown/07", "/@unknown/0", "/@unknown/7/x", "/@unknown/@unknown"),
    ],
)
def test_paths_must_lead_to_fields(codec: Codec, path: str) -> None:
    """Not into lists, maps and scalars."""
    with pytest.raises(SowlineError, match="expected") as caught:
        codec.read_delta(MessagePayload(b""), SCHEMA, [path])
    assert caught.value.reason == "bad header"
