"""Messages of Avro, for the tests of the modules that convert them."""

from typing import Any

import orjson

from sowline.codecs.avro import AvroCodec
from sowline.codecs.schema import MessagePayload
from tests.property.avro_schemas import schema_of

Json = dict[str, Any]


def read(raw: Json, data: bytes, reader: Any = None) -> Any:
    """Return the parsed canonical JSON of bytes, under their own schema or a reader schema."""
    codec = AvroCodec(schema_of(reader or raw))
    return orjson.loads(codec.read(MessagePayload(data), schema_of(raw)))
