"""The perfect model of a topic whose records are named by the Kafka keys that publishers give."""

from dataclasses import dataclass

from sowline.commands.command import LogRecord
from tests.property.document_model import DocumentModel
from tests.property.model import Body, PartitionModel, Refused


def _is_key(text: str) -> bool:
    return 1 <= len(text.encode()) <= 255 and not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text)


def checked(text: str) -> str:
    """Return the text if it is a key."""
    if not text:
        raise Refused("key missing")
    if not _is_key(text):
        raise Refused("bad key")
    return text


@dataclass
class SuppliedModel(PartitionModel):
    """The perfect model of a topic whose records are named by their Kafka keys."""

    def sow_key(self, key: str) -> bytes:
        """A key that was given is the SOW key."""
        return key.encode()

    def _read(self, record: LogRecord) -> tuple[str, Body]:
        body = self._body(record.value or b"")
        return self._key(record), body

    def _key(self, record: LogRecord) -> str:
        return self._named(record)

    def _named(self, record: LogRecord) -> str:
        try:
            return checked((record.key or b"").decode())
        except UnicodeDecodeError:
            raise Refused("bad key") from None


@dataclass
class SuppliedDocumentModel(SuppliedModel, DocumentModel):
    """The same, of documents: what their content says of keys means nothing."""

    def _check_key(self, key: str, body: Body) -> None:
        """Any content will do."""
