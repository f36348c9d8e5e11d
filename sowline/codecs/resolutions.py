"""A partition's knowledge of schemas: the content of `<log>.schemas`, where the first entry of a key counts. Pure.

The Kafka key of an entry is `id:<schema id>` for the schema that messages name, or `reader:<digest>` for a reader
schema of the topic. The value is JSON: the schema, or null if the registry answered that it does not exist.
"""

from typing import NamedTuple

import msgspec
from msgspec.structs import astuple

from sowline.codecs.schema import Schema


class Resolution(NamedTuple):
    """The answer about a schema id: `schema` is None if it doesn't exist or can't be used.

    `subject` and `version` are one pair under which a registry has it, empty and 0 if they are not known. `problem`
    says why a schema can't be used.
    """

    schema: Schema | None
    subject: str = ""
    version: int = 0
    problem: str = ""


class _Entry(msgspec.Struct, omit_defaults=True):
    schema: Schema | None
    subject: str = ""
    version: int = 0
    problem: str = ""


_read = msgspec.json.Decoder(_Entry).decode
_write = msgspec.json.Encoder().encode


def id_key(schema_id: int) -> bytes:
    """Return the Kafka key of the entry for a schema id."""
    return b"id:%d" % schema_id


def reader_key(digest: str) -> bytes:
    """Return the Kafka key of the entry for a reader schema."""
    return b"reader:" + digest.encode()


def entry_value(resolution: Resolution) -> bytes:
    """Return the Kafka value of an entry."""
    return _write(_Entry(*resolution))


class Resolutions:
    """The first entry of each key of a partition of `<log>.schemas`."""

    def __init__(self) -> None:
        self._writers: dict[int, Resolution] = {}
        self._readers: dict[str, Schema] = {}

    def add(self, key: bytes | None, value: bytes | None) -> None:
        """Take an entry, in the order of the log. Later entries of a key, and invalid ones, change nothing."""
        kind, _, name = (key or b"").decode(errors="replace").partition(":")
        try:
            entry = _read(value or b"")
        # Anyone may write to a topic of Kafka. An owner that stopped here would stop at each start
        # (test_what_is_no_entry_changes_nothing).
        except (msgspec.DecodeError, msgspec.ValidationError):
            return
        # `int` also reads the digits of other scripts: an id would have several keys
        # (test_what_is_no_entry_changes_nothing).
        if kind == "id" and name.isascii() and name.isdecimal():
            # Two owners may ask the registry at different times and get different answers. If the last one counted, a
            # replay would read a message otherwise than its first reader (test_the_first_entry_counts).
            self._writers.setdefault(int(name), Resolution(*astuple(entry)))
        # The digest is that of the content. An entry with another schema under it would change what the stored
        # records mean (test_reader_schemas_are_known_by_their_digests).
        elif kind == "reader" and entry.schema is not None and entry.schema.digest == name:
            self._readers.setdefault(name, entry.schema)

    def writer(self, schema_id: int) -> Resolution | None:
        """Return the answer about a schema id; None if it is not known."""
        return self._writers.get(schema_id)

    def reader(self, digest: str) -> Schema | None:
        """Return the reader schema with this digest; None if it is not known."""
        return self._readers.get(digest)

    @property
    def first_reader(self) -> str | None:
        """The digest of the topic's first reader schema in this partition; None if there is none yet."""
        return next(iter(self._readers), None)

    @property
    def has_one_reader(self) -> bool:
        """Whether the topic has had no other reader schema in this partition."""
        return len(self._readers) <= 1

    @property
    def readers(self) -> dict[str, Schema]:
        """The reader schemas that the topic has had in this partition, by digest, oldest first."""
        return dict(self._readers)

    @property
    def writers(self) -> dict[int, Resolution]:
        """Every known answer about a schema id."""
        return dict(self._writers)
