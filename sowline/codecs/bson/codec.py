"""The codec of BSON messages: a message is one document."""

import re
from math import isfinite
from typing import Any, Final

import bson
import orjson
from bson.code import Code
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.dbref import DBRef

from sowline.codecs.bson.values import RESERVED, value_json, value_of
from sowline.codecs.errors import bad_message
from sowline.codecs.schema import MessagePayload, Schema
from sowline.codecs.schemaless import SchemalessCodec, checked_json, json_bytes, too_deep
from sowline.codecs.value_objects import (
    ValueObject,
    check_no_look_alike,
    containers,
    may_have_names,
    members,
    merged_values,
    non_finite_text,
    replace_value_objects,
)

_OPTIONS: Final[CodecOptions[dict[str, Any]]] = CodecOptions(
    document_class=dict, datetime_conversion=DatetimeConversion.DATETIME_MS
)
_NON_FINITE: Final = re.compile(rb"[\xf0-\xff][\x7f\xff]")
"""The last bytes of a double that is not finite; other messages may have them, too."""

_HEADER_BYTES: Final = 6
"""The bytes before a document that is nested under an empty name: size, type and name."""


class BsonCodec(SchemalessCodec):
    """Converts between BSON and canonical JSON. It implements `Codec`."""

    def read(self, payload: MessagePayload, writer: Schema) -> bytes:
        """Return the canonical JSON of a document."""
        data = payload.data
        document = _decoded(data)
        # As in MessagePack, few messages have a name that can look like a value.
        if b"$" in data:
            _mark_specials(document)
        body = _json_of(document)
        # orjson writes null for a double that is not finite.
        if b"null" in body and _NON_FINITE.search(data):
            _mark_specials(document)
            body = _json_of(document)
        return body

    def write(self, body: bytes) -> bytes:
        """Return the bytes of a document; an integer has 32 bits if it fits."""
        document = checked_json(body)
        if may_have_names(body):
            replace_value_objects(document, RESERVED, value_of)
        return _encoded(document)

    def merged(self, body: bytes, delta: bytes) -> bytes:
        """Return the JSON of a record after a delta: documents are merged, and all other values are replaced."""
        return merged_values(body, delta, RESERVED)


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        return bson.decode(data, _OPTIONS)
    except MemoryError:
        raise
    # bson raises InvalidBSON for most invalid documents, and for the rest whatever its first wrong step raises.
    except Exception as error:
        # bson wraps the RecursionError in an InvalidBSON: only the text tells them apart (test_the_depth_is_limited).
        if "recursion" in str(error):
            raise too_deep() from None
        raise bad_message(
            f"expected one BSON document in {len(data)} bytes, got {type(error).__name__}: {str(error)[:100]}"
        ) from None


def _json_of(document: dict[str, Any]) -> bytes:
    # Code is a subclass of str: without the option, orjson would write it as a text.
    return json_bytes(document, value_json, orjson.OPT_PASSTHROUGH_SUBCLASS)


def _encoded(document: dict[str, Any]) -> bytes:
    try:
        # At the top level, bson moves the member _id to the front.
        return bson.encode({"": document}, codec_options=_OPTIONS)[_HEADER_BYTES:-1]
    except RecursionError:
        raise too_deep() from None
    except OverflowError:
        raise bad_message(
            "expected integers of 64 bits, got a larger one: write it as a double or a text"
        ) from None
    except (bson.InvalidDocument, bson.InvalidStringData) as error:
        raise bad_message(f"expected what BSON can express, got {str(error)[-100:]}") from None


def _mark_specials(document: dict[str, Any]) -> None:
    """Replace doubles that are not finite, also in references and scopes; refuse documents that look like values."""
    for container in containers(document):
        for key, part in members(container):
            if type(part) is dict:
                check_no_look_alike(part, RESERVED)
            elif type(part) is float and not isfinite(part):
                container[key] = ValueObject({"$numberDouble": non_finite_text(part)})
            elif isinstance(part, DBRef) or (isinstance(part, Code) and part.scope is not None):
                container[key] = ValueObject(value_json(part))
