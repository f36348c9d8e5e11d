"""How JSON becomes bytes: each kind of field, what is refused, and the paths that a delta names."""

from typing import Any

import orjson
import pytest

from sowline.codecs.codec import Codec, codec_of
from sowline.codecs.schema import MessagePayload
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.protobuf.orders import (
    DEFAULTS,
    DELTAS,
    SCHEMA,
    WIRE,
    refusal_of,
    written_again,
)


@pytest.fixture
def codec() -> Codec:
    """The codec of an order."""
    return codec_of(SCHEMA)


@pytest.fixture
def deltas() -> Codec:
    """The codec of orders that deltas change."""
    return codec_of(DELTAS)


@pytest.mark.parametrize(("data", "members"), WIRE, ids=lambda part: str(part)[:40])
def test_each_kind_of_field_has_its_bytes(codec: Codec, data: bytes, members: dict[str, object]) -> None:
    """A default without presence has none."""
    assert codec.write(orjson.dumps(members)) == data


@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        ({"price": 1, "rate": 16777217}, {"price": 1.0, "rate": 16777216.0}),
        ({"rate": 0.1234567890123}, {"rate": 0.12345679}),
        ({"side": 1}, {"side": "SELL"}),
        ({"legs": None, "id": None, "camelCase": None}, {}),
        ({"trader": None, "broker": {}}, {"broker": {"qty": 0}}),
        ({"other": None, "trader": "x"}, {"trader": "x"}),
        (
            {"@unknown": {"100": "oAYB", "99": "mAYC", "98": None}},
            {"@unknown": {"99": "mAYC", "100": "oAYB"}},
        ),
        ({"@unknown": {}, "parent": {"@unknown": None}}, {"parent": DEFAULTS}),
    ],
    ids=str,
)
def test_json_need_not_be_canonical(
    codec: Codec, given: dict[str, object], canonical: dict[str, object]
) -> None:
    """Integers stand for doubles, nulls for what is not set, and times may have an offset."""
    assert written_again(codec, **given) == canonical


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"color": 1}, "expected a field of shop.Order, got /color"),
        ({"legs": [{}, {"camelCase": 1}]}, "expected a field of shop.Order.Leg, got /legs[1]/camelCase"),
        ({"parent": {"Id": 1}}, "got /parent/Id"),
        ({"id": -1}, "expected an integer from 0 to 18446744073709551615 in /id, got -1"),
        ({"id": "1"}, "in /id, got '1'"),
        ({"id": True}, "in /id, got True"),
        ({"id": 1.0}, "in /id, got 1.0"),
        ({"price": "nan"}, "in /price, got 'nan'"),
        ({"price": True}, "expected a number, NaN, Infinity or -Infinity in /price"),
        ({"rate": 3.5e38}, "expected a number that fits into 32 bits in /rate"),
        ({"raw": "AQI"}, "expected base64 text in /raw"),
        ({"raw": "ä"}, "expected base64 text in /raw"),
        ({"side": "LEND"}, "expected a symbol of shop.Order.Side in /side, got 'LEND'"),
        ({"side": 2**31}, "expected a symbol of shop.Order.Side in /side"),
        ({"legs": {}}, "expected an array in /legs, got an object"),
        ({"legs": [None]}, "expected an object with the fields of shop.Order.Leg in /legs[0], got None"),
        ({"legs": [{}, {"qty": "x"}]}, "in /legs[1]/qty, got 'x'"),
        ({"by_number": {"01": {}}}, "expected a key that is an integer from -2147483648 to 2147483647"),
        ({"by_number": {"9" * 5000: {}}}, "expected a key that is an integer"),
        (
            {"by_number": {"2": {"qty": None, "venueName": 3}}},
            "expected a string in /by_number/2/venueName, got 3",
        ),
        ({"by_number": {"2": None}}, "in /by_number/2, got None"),
        ({"flags": {"yes": "x"}}, "expected the key true or false in /flags/yes"),
        ({"flags": {"true": None}}, "expected a string in /flags/true, got None"),
        (
            {"trader": "x", "broker": {}},
            "expected one of the fields trader, broker, other in /, got trader and broker",
        ),
        ({"ints": [1, "x"]}, "in /ints[1], got 'x'"),
        ({"ints": [None]}, "in /ints[0], got None"),
        ({"times": ["2026-11-26T12:34:56Z", "x"]}, "in /times[1], got 'x'"),
        ({"open": 1}, "expected true or false in /open, got 1"),
        ({"@unknown": "oAYB"}, "expected an object with unknown fields by number in /@unknown, got 'oAYB'"),
        ({"@unknown": {"100": "!"}}, "expected base64 text of field 100 in /@unknown/100, got '!'"),
        ({"@unknown": {"100": ""}}, "expected base64 text of field 100 in /@unknown/100"),
        ({"@unknown": {"100": "mAYC"}}, "expected base64 text of field 100 in /@unknown/100"),
        ({"@unknown": {"100": "oAYBmAYC"}}, "expected base64 text of field 100 in /@unknown/100"),
        ({"@unknown": {"100": "owakBqQG"}}, "expected base64 text of field 100 in /@unknown/100"),
        ({"parent": {"@unknown": {"1": "CP8="}}}, "expected base64 text of field 1 in /parent/@unknown/1"),
        ({"@unknown": {"0100": "oAYB"}}, "expected field numbers in /@unknown, got '0100'"),
        ({"@unknown": {"": "oAYB"}}, "expected field numbers in /@unknown"),
        ({"@unknown": {"²": "oAYB"}}, "expected field numbers in /@unknown"),
        ({"@unknown": {"536870912": "oAYB"}}, "expected field numbers in /@unknown"),
    ],
    ids=str,
)
def test_json_that_the_schema_does_not_describe_is_refused(
    codec: Codec, members: dict[str, object], message: str
) -> None:
    """The message names the path and what was expected."""
    for convert in (codec.write, codec.write_delta, codec.completed):
        assert message in refusal_of(convert, orjson.dumps(members))


@pytest.mark.parametrize(
    ("value", "shown"),
    [({}, "an object"), ([], "an array"), ("x" * 100, "'" + "x" * 56 + "..."), (None, "None")],
)
def test_what_was_found_is_shown_in_short(codec: Codec, value: Any, shown: str) -> None:
    """A long text would fill the log."""
    message = refusal_of(codec.write, orjson.dumps({"ints": [value]}))
    assert message.endswith(f"in /ints[0], got {shown}")


def test_objects_nest_100_levels(codec: Codec) -> None:
    """One more is refused, whatever the stack of the caller."""
    assert codec.write(b'{"parent":' * 100 + b"{}" + b"}" * 100)
    with pytest.raises(SowlineError, match="expected at most 100 levels of messages"):
        codec.write(b'{"parent":' * 101 + b"{}" + b"}" * 101)


def test_json_values_nest_as_deep_as_their_messages(codec: Codec) -> None:
    """An array in a google.protobuf.Value takes two levels of messages."""
    assert codec.write(b'{"value":' + b"[" * 49 + b"]" * 49 + b"}")
    for levels in (51, 100, 200, 900):
        with pytest.raises(SowlineError, match="expected"):
            codec.write(b'{"value":' + b"[" * levels + b"]" * levels + b"}")


def test_negative_zero_is_not_the_default(codec: Codec) -> None:
    """It has bytes of its own."""
    written = codec.write(b'{"price":-0.0,"rate":-0.0}')
    assert codec.read(MessagePayload(written), SCHEMA).startswith(b'{"id":0,"price":-0.0,"rate":-0.0,')


# deltas


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
def test_a_delta_is_written_with_its_paths(deltas: Codec, body: bytes, paths: tuple[str, ...]) -> None:
    """The paths are those of the scalars, lists and maps, down through messages."""
    data, written = deltas.write_delta(body)
    assert written == paths
    again = deltas.read_delta(MessagePayload(data), DELTAS, written)
    assert set(deltas.write_delta(again)[1]) >= set(paths) - {"/nothing"}


@pytest.mark.parametrize("name", ["next", "@unknown"])
def test_an_empty_message_changes_nothing_that_paths_could_name(deltas: Codec, name: str) -> None:
    """Its own path would replace it."""
    message = f"expected a field in /leg/{name} for the delta to change, got none"
    with pytest.raises(SowlineError, match=message):
        deltas.write_delta(orjson.dumps({"leg": {name: {}}}))
