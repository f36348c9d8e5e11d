"""The codec of message type `binary`: messages are not parsed. Their JSON is `{"data": "<base64>"}`."""

from base64 import b64encode
from typing import Any, Final

from sowline.codecs.errors import bad_message
from sowline.codecs.schema import MessagePayload, Schema
from sowline.codecs.schemaless import JSON_OBJECT, SchemalessCodec, checked_json
from sowline.codecs.value_objects import bytes_of, shown

BINARY_FIELD: Final = "data"
"""The one field of a record."""


class BinaryCodec(SchemalessCodec):
    """Converts between bytes and JSON with their base64. It implements `Codec`."""

    def read(self, payload: MessagePayload, writer: Schema) -> bytes:
        """Return the JSON of a message; any bytes are a message."""
        return b'{"%s":"%s"}' % (BINARY_FIELD.encode(), b64encode(payload.data))

    def write(self, body: bytes) -> bytes:
        """Return the bytes of a message."""
        document = checked_json(body)
        try:
            # The bytes have no place for other members: they would be lost (test_other_json_is_refused).
            if document.keys() == {BINARY_FIELD}:
                return bytes_of(document[BINARY_FIELD])
        except ValueError:
            pass
        raise bad_message(f'expected an object like {{"data": "AAE="}} with base64, got {shown(document)}')

    def merged(self, body: bytes, delta: bytes) -> bytes:
        """Return the delta, which replaces the record."""
        return delta

    def described(self) -> dict[str, Any]:
        """Return the JSON Schema of the one field."""
        return {
            **JSON_OBJECT,
            "properties": {BINARY_FIELD: {"type": "string", "contentEncoding": "base64"}},
            "required": [BINARY_FIELD],
            "additionalProperties": False,
        }
