"""The codec of Avro messages: `AvroCodec`. fastavro checks schemas and decodes bytes; the rest is here.

`types` has the types of a schema, `wire` turns bytes into plain values, `resolution` turns those into canonical JSON,
`normal_form` turns JSON into canonical JSON, and `encoding` turns that into bytes.
"""

from sowline.codecs.avro.codec import AvroCodec

__all__ = ["AvroCodec"]
