"""BSON made at random: what is read is written again, but for what the docs list; no bytes do harm."""

import re
from math import isnan
from typing import Any

import bson
import orjson
import pytest
from bson.binary import Binary
from bson.code import Code
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.datetime_ms import DatetimeMS
from bson.dbref import DBRef
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from sowline.codecs.bson import BsonCodec
from sowline.codecs.bson.values import RESERVED
from sowline.codecs.schema import BSON, MessagePayload, Schema
from sowline.errors import SowlineError
from sowline.model.body import read_object
from tests.property.value_objects import NAMES, any_json, check_any_json, check_hostile, merged_by_the_rules

READER = Schema(BSON, "{}")
CODEC = BsonCodec(READER)
OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(
    document_class=dict, datetime_conversion=DatetimeConversion.DATETIME_MS
)
VALUE_NAMES = [set(names) for names in RESERVED]
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
HALF = st.integers(0, (1 << 32) - 1)

NAMES_HERE = NAMES.filter(lambda name: "\0" not in name) | st.sampled_from(
    [
        "$oid",
        "$date",
        "$numberLong",
        "$numberDouble",
        "$binary",
        "$code",
        "$scope",
        "$ref",
        "$id",
        "$db",
        "$uuid",
    ]
)
TEXTS = st.text(max_size=20)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    LONGS,
    LONGS.map(Int64),
    st.integers(-9, 9).map(Int64),
    st.floats(),
    TEXTS,
    st.binary(max_size=20),
    st.builds(Binary, st.binary(max_size=20), st.integers(0, 255)),
    st.binary(min_size=12, max_size=12).map(ObjectId),
    LONGS.map(DatetimeMS),
    st.integers(-62_135_596_800_001, 253_402_300_800_000).map(DatetimeMS),
    st.binary(min_size=16, max_size=16).map(Decimal128.from_bid),
    st.sampled_from(["NaN", "-NaN", "Infinity", "-Infinity", "-0"]).map(Decimal128),
    st.builds(
        "{}{}E{}".format, st.sampled_from(["", "-"]), st.integers(0, 10**34 - 1), st.integers(-6176, 6111)
    ).map(Decimal128),
    st.builds(
        Regex,
        TEXTS.filter(lambda text: "\0" not in text),
        st.sets(
            st.sampled_from([re.IGNORECASE, re.LOCALE, re.MULTILINE, re.DOTALL, re.UNICODE, re.VERBOSE])
        ).map(sum),
    ),
    st.builds(Timestamp, HALF, HALF),
    TEXTS.map(Code),
    st.just(MinKey()),
    st.just(MaxKey()),
)


def _inner(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    documents = st.dictionaries(NAMES_HERE, values, max_size=3)
    return st.one_of(
        st.lists(values, max_size=4),
        documents,
        st.builds(Code, TEXTS, documents),
        st.builds(DBRef, TEXTS, values, st.none() | TEXTS),
    )


NOT_SMALLER = (Phase.reuse, Phase.generate)
"""Hypothesis must not make a failing document smaller: it takes a `Code`, which is a `str`, for a text that it has
made, and hides the failure behind an error of its own."""

VALUES = st.recursive(SCALARS, _inner, max_leaves=12)
DOCUMENTS = st.dictionaries(NAMES_HERE, VALUES, max_size=5)


def encoded(document: dict[str, Any]) -> bytes:
    """Return a document with its members in their order."""
    return bson.encode({"": document}, codec_options=OPTIONS)[6:-1]


def read(data: bytes) -> bytes:
    """Return the canonical JSON of a message."""
    return CODEC.read(MessagePayload(data), READER)


def kept(value: Any) -> Any:
    """Return a value as a message has it that was read and written."""
    match value:
        case Int64():
            return int(value)
        case float():
            return float("nan") if isnan(value) else value
        case list():
            return [kept(part) for part in value]
        case dict():
            return {name: kept(part) for name, part in _in_order(value).items()}
        case Code(scope=dict(scope)):
            # A scope is no reference, as the top level is none.
            return Code(str(value), {name: kept(part) for name, part in scope.items()})
        case Decimal128():
            return Decimal128(str(value))
        case DBRef():
            return DBRef(value.collection, kept(value.id), value.database)
    return value


def _in_order(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document; one that is a reference has its names in the order of references."""
    database = document.get("$db")
    is_reference = "$id" in document and isinstance(document.get("$ref"), str)
    if not is_reference or not isinstance(database, str | None):
        return document
    names = ["$ref", "$id", *(["$db"] if database is not None else [])]
    rest = {name: value for name, value in document.items() if name not in ("$ref", "$id", "$db")}
    return {name: document[name] for name in names} | rest


def looks_like_a_value(value: Any) -> bool:
    """Return whether a value, or a part of it, is a document like the JSON of another value."""
    match value:
        case list():
            return any(map(looks_like_a_value, value))
        case dict():
            return value.keys() in VALUE_NAMES or any(map(looks_like_a_value, value.values()))
        case Code():
            return looks_like_a_value(value.scope)
        case DBRef():
            return looks_like_a_value(value.id)
    return False


def is_readable(document: dict[str, Any]) -> bool:
    """Return whether the docs say that a document can be read."""
    return not any(map(looks_like_a_value, document.values()))


# Not `@example`: Hypothesis varies these, too, and takes a `Code`, which is a `str`, for a text that it has made.
DOCUMENTS_THAT_COUNT: tuple[dict[str, Any], ...] = (
    {"z": 1, "_id": 2},
    {"$oid": 5},
    {"a": {"$code": "x", "$scope": {}}},
    {"a": Code("x", {"$oid": "y"})},
    {"a": DBRef("c", {"n": float("nan")}), "b": {"$ref": 5, "$id": 6}},
    {"a": {"$id": 1, "x": 2, "$ref": "c", "$db": None}},
    {"a": Code("x", {"$id": 1, "$ref": "c"})},
)


@pytest.mark.parametrize("document", DOCUMENTS_THAT_COUNT, ids=str)
def test_what_is_read_of_these_is_written(document: dict[str, Any]) -> None:
    """Types, the order of members and all bits come back."""
    check_what_is_read(document)


@settings(phases=NOT_SMALLER)
@given(DOCUMENTS)
def test_what_is_read_is_written(document: dict[str, Any]) -> None:
    """Types, the order of members and all bits come back."""
    check_what_is_read(document)


def check_what_is_read(document: dict[str, Any]) -> None:
    """A document is as it was when it is written again, or refused. Read again, the JSON is the same."""
    message = encoded(document)
    if not is_readable(document):
        with pytest.raises(SowlineError, match="in JSON that is another value"):
            read(message)
        return
    body = read(message)
    read_object(body)
    # The top level is no reference.
    assert CODEC.write(body) == encoded({name: kept(part) for name, part in document.items()})
    assert read(CODEC.write(body)) == body
    assert CODEC.completed(body) == body
    assert CODEC.upgraded(body) == body
    assert CODEC.read_delta(MessagePayload(CODEC.write_delta(body)[0]), READER, None) == body


@given(
    any_json(
        NAMES_HERE
        | st.sampled_from(["$timestamp", "$minKey", "$numberDecimal", "$regularExpression", "$symbol"]),
        "0123456789abcdef01234567",
        {"$numberLong": "5"},
        {"t": 1, "i": 2},
        {"base64": "AAE=", "subType": "4"},
        {"pattern": "a", "options": "xi"},
        "5b0c7d5e-7f0a-4c50-9f2f-0c8d6c9a4f11",
        "1E+3",
        1,
    )
)
@example(b'{"a":{"\\u0024oid":"0123456789abcdef01234567"}}')
@example(b'{"a":{"$date":{"$numberLong":"0"}},"_id":1}')
@example(b'{"a":{"$scope":{"a":{"$numberLong":"5"}},"$code":"x"}}')
@example(b'{"a":{"$code":"x","$scope":{"$numberLong":"5"}}}')
@example(b'{"a":{"$minKey":true}}')
@example(b'{"a":18446744073709551615}')
@example(b'{"a\\u0000":1}')
def test_any_json_is_written_as_it_is_completed(body: bytes) -> None:
    """What clients may publish is refused with a sentence, or read as `completed` says."""
    check_any_json(CODEC, READER, body)


@given(DOCUMENTS.map(encoded), st.data())
def test_any_bytes_are_a_record_or_refused(message: bytes, data: st.DataObject) -> None:
    """Random bytes, and messages with some bytes changed."""
    check_hostile(CODEC, READER, message, data)


@given(DOCUMENTS.filter(is_readable), DOCUMENTS.filter(is_readable))
@example({"a": ObjectId(b"1" * 12)}, {"a": MinKey()})
@example({"a": {"b": {"c": b"1", "d": 1}}}, {"a": {"b": {"c": {"x": 1}, "e": DatetimeMS(0)}}})
def test_deltas_merge_documents_and_replace_values(record: dict[str, Any], delta: dict[str, Any]) -> None:
    """A value object is replaced as a whole, at any level."""
    check_merge(record, delta)


def test_a_delta_replaces_code_as_a_whole() -> None:
    """With its scope."""
    check_merge({"a": Code("x", {"y": 1})}, {"a": {"$scope": 1}})


def check_merge(record: dict[str, Any], delta: dict[str, Any]) -> None:
    """A record and a delta are merged by the rules."""
    before, changes = (read(encoded(one)) for one in (record, delta))
    merged = CODEC.merged(before, changes)
    assert orjson.loads(merged) == merged_by_the_rules(
        orjson.loads(before), orjson.loads(changes), VALUE_NAMES
    )
    if b'"$ref"' not in merged:  # a reference gets its names in order
        assert CODEC.completed(merged) == merged
