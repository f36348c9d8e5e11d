"""The codec of XML messages under one set of options."""

from typing import Any

import orjson

from sowline.codecs.errors import json_object
from sowline.codecs.schema import MessagePayload, Schema
from sowline.codecs.schemaless import SchemalessCodec
from sowline.codecs.xml.deltas import check_shows
from sowline.codecs.xml.description import described
from sowline.codecs.xml.merging import merged
from sowline.codecs.xml.options import check_keeps, load_options
from sowline.codecs.xml.reading import XmlReader
from sowline.codecs.xml.writing import XmlWriter


class XmlCodec(SchemalessCodec):
    """Converts between XML and canonical JSON. It implements `Codec`."""

    has_options = True

    def __init__(self, reader: Schema) -> None:
        super().__init__(reader)
        self._options = load_options(reader)
        self._reader = XmlReader(self._options)
        self._writer = XmlWriter(self._options.namespaces)

    def read(self, payload: MessagePayload, writer: Schema) -> bytes:
        """Return the canonical JSON of a whole record."""
        return self._reader.read(payload.data)

    def write(self, body: bytes) -> bytes:
        """Return the XML of a record in UTF-8, without an XML declaration."""
        return self._writer.write(json_object(body))

    def write_delta(self, body: bytes) -> tuple[bytes, tuple[str, ...]]:
        """Return the XML of a delta; raise `bad message` if XML can't show what the delta changes.

        It can't show that an array becomes empty, or that one element replaces an array that `lists` does not name.
        """
        document = json_object(body)
        data = self._writer.write(document)
        check_shows(document, orjson.loads(self._reader.read(data)))
        return data, ()

    def merged(self, body: bytes, delta: bytes) -> bytes:
        """Return a record after a delta, by the paths of elements. `completed` makes it canonical."""
        return merged(body, delta)

    def upgraded(self, body: bytes) -> bytes:
        """Return a record of earlier options under these: `lists` may have changed."""
        # Written and read again, so that the record is as if its message came now
        # (test_records_are_upgraded_to_other_lists).
        return self.completed(body)

    def described(self) -> dict[str, Any]:
        """Return the JSON Schema of the canonical JSON, which is the same for all records."""
        return described()

    def check_reads(self, earlier: Schema) -> None:
        """Raise `incompatible schema` unless prefixes still have their namespaces. `lists` may change."""
        check_keeps(self._options, load_options(earlier))
