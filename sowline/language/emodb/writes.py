"""The metadata of a document's writes, which a partition stores with the document and puts into every change."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import msgspec

from sowline.language.emodb.fold import Document, Folded, instant
from sowline.language.emodb.intrinsics import Intrinsics
from sowline.language.emodb.template import hidden_by
from sowline.language.emodb.values import UNDEFINED, Json, Undefined
from sowline.model.body import trimmed_json


class Writes(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """The metadata of a document's writes up to one of them.

    Times are log times in ms since 1970. `mutated` is the time of the last write that changed the content, or of the
    first write. The last write has `tags`, sorted, the `change_id` in hex, and `redundant`: whether it changed
    neither content nor tags. `hidden` are the fields of the content that the topic's template hides from readers.
    """

    version: int
    signature: str
    first: int
    last: int
    mutated: int
    tags: tuple[str, ...] = ()
    change_id: str = ""
    redundant: bool = False
    hidden: dict[str, Any] | None = None

    @classmethod
    def of(cls, folded: Folded, change_id: bytes, template: Mapping[str, Json]) -> Self:
        """Return the metadata after a write that was folded."""
        document = folded.document
        first, last, mutated = document.first_update_ms, document.last_update_ms, document.last_mutate_ms
        assert first is not None, "it was written"
        assert last is not None, "it was written"
        assert mutated is not None, "it was written"
        return cls(
            document.version,
            document.signature,
            first,
            last,
            mutated,
            tuple(sorted(document.tags)),
            change_id.hex(),
            folded.redundant,
            None if document.content is UNDEFINED else hidden_by(template, document.content) or None,
        )


class DocumentMetadata(NamedTuple):
    """The metadata of a document that conditions and readers use: its id (the key text), and that of its writes."""

    id: str
    writes: Writes


def document_of(table: str, id: str, content: Json | Undefined, writes: Writes | None) -> Document:
    """Return the document with this content and this metadata; without metadata it was never written."""
    if writes is None:
        return Document(table, id, content=content)
    return Document(
        table,
        id,
        content=content,
        version=writes.version,
        signature=writes.signature,
        first_update_ms=writes.first,
        last_update_ms=writes.last,
        last_mutate_ms=writes.mutated,
        tags=frozenset(writes.tags),
    )


def intrinsics_of(table: str, id: str, writes: Writes) -> Intrinsics:
    """Return the intrinsics that conditions see, of a document with content and this metadata."""
    times = instant(writes.first), instant(writes.last), instant(writes.mutated)
    return Intrinsics(id, table, writes.signature, False, *times)


def intrinsics_json(table: str, known: DocumentMetadata, *, deleted: bool) -> bytes:
    """Return the intrinsics that readers get, as a JSON object: `~id` and so on, and `~tags` if there are any."""
    document = document_of(table, known.id, UNDEFINED if deleted else {}, known.writes)
    tags = {"~tags": known.writes.tags} if known.writes.tags else {}
    return trimmed_json(document.read() | tags)
