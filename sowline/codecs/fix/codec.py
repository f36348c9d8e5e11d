"""The codecs of message types `fix` and `nvfix`."""

from typing import Any

import msgspec

from sowline.codecs.fix.compatibility import check_compatible
from sowline.codecs.fix.description import described
from sowline.codecs.fix.document import Document, arranged, document_of, fields_of
from sowline.codecs.fix.fields import join, split
from sowline.codecs.fix.normal_form import FixNormalizer, document_in
from sowline.codecs.fix.options import BEGIN_STRING, FixOptions, GroupMembers
from sowline.codecs.fix.session import FixSession
from sowline.codecs.schema import MessagePayload, Schema
from sowline.codecs.schemaless import SchemalessCodec

_json = msgspec.json.Encoder().encode


class NvfixCodec(SchemalessCodec):
    """Converts between NVFIX messages and canonical JSON. It implements `Codec`.

    A message has fields `name=value`, each with a separator after it; the last separator may be missing. JSON has
    the texts by name, in the order of the message; the texts of a repeated name are an array.
    """

    has_options = True

    def __init__(self, reader: Schema) -> None:
        """Read the options of a topic; raise `bad schema`."""
        super().__init__(reader)
        self._options = FixOptions(reader)
        self._normalizer = FixNormalizer(self._options)

    def read(self, payload: MessagePayload, writer: Schema) -> bytes:
        """Return the canonical JSON of a message."""
        tags, values = split(payload.data, self._options)
        return _json(document_of(tags, values, self._options.groups(None)))

    def write(self, body: bytes) -> bytes:
        """Return the message of a record."""
        document, groups = self._canonical(body)
        return self._message(*fields_of(document, groups))

    def completed(self, body: bytes) -> bytes:
        """Return the canonical JSON of a record; raise `bad message` if no message can express it."""
        return _json(self._canonical(body)[0])

    def upgraded(self, body: bytes) -> bytes:
        """Convert canonical JSON of earlier options to these, which may name more fields."""
        return self.completed(body) if self._options.names else body

    def described(self) -> dict[str, Any]:
        """Return the JSON Schema of the canonical JSON."""
        return described(self._options)

    def check_reads(self, earlier: Schema) -> None:
        """Raise `incompatible schema` unless records under earlier options can be read, merged and written."""
        check_compatible(self.reader, earlier)

    def _canonical(self, body: bytes) -> tuple[Document, GroupMembers]:
        groups = self._options.groups(None)
        document = self._normalizer.values(self._normalizer.named(document_in(body)), groups)
        return arranged(document, groups, {}), groups

    def _message(self, names: list[str], values: list[Any]) -> bytes:
        return join(names, values, self._options)


class FixCodec(NvfixCodec):
    """Converts between FIX messages and canonical JSON. It implements `Codec`.

    A message has fields `tag=value`. JSON has texts by tag, or by the dictionary's name; repeating groups are arrays
    of objects. BodyLength, CheckSum, and the lengths of groups and data fields are not in JSON: they are checked when
    a message is read, and computed when one is written.
    """

    def __init__(self, reader: Schema) -> None:
        """Read the options of a topic; raise `bad schema`."""
        super().__init__(reader)
        self._session = FixSession(self._options)

    def read(self, payload: MessagePayload, writer: Schema) -> bytes:
        """Return the canonical JSON of a message."""
        options = self._options
        tags, values = self._session.unframed(payload.data, split(payload.data, options))
        names = list(map(options.names.get, tags, tags)) if options.names else tags
        groups = self._groups(names, values)
        document = document_of(names, values, groups)
        # Sorting the fields takes longer than this look, and most messages are in order already.
        if not self._session.is_arranged(document):
            document = arranged(document, groups, self._session.ranks)
        return _json(document)

    def _groups(self, names: list[str], values: list[Any]) -> GroupMembers:
        """Return the groups of messages with the MsgType of this one."""
        name = self._options.message_type_name
        is_known = names.count(name) == 1
        return self._options.groups(values[names.index(name)] if is_known else None)

    def _canonical(self, body: bytes) -> tuple[Document, GroupMembers]:
        named = self._normalizer.named(document_in(body))
        name = self._options.message_type_name
        message_type = named.get(name)
        # The MsgType decides which groups there are, so it becomes canonical before the other fields.
        is_one = not isinstance(message_type, list)
        groups = self._options.groups(self._normalizer.single(name, message_type) if is_one else None)
        document = self._normalizer.values(named, groups)
        self._session.check(document)
        is_framed = self._session.begin_string in document
        return arranged(document, groups, self._session.ranks if is_framed else {}), groups

    def _message(self, names: list[str], values: list[Any]) -> bytes:
        tags = [self._options.tags.get(name, name) for name in names] if self._options.tags else names
        if tags[0] != BEGIN_STRING:
            return join(tags, values, self._options)
        return self._session.framed(values[0], join(tags[1:], values[1:], self._options))
