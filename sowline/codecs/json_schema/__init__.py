"""Message type `json-schema`: the codec of JSON that is valid under a JSON Schema."""

from sowline.codecs.json_schema.codec import JsonSchemaCodec

__all__ = ["JsonSchemaCodec"]
