"""Applies a write to a document, and returns the new document and the outcome of the write.

Open this module to learn how a document gets its content and its intrinsics. Pure: the result depends on the
arguments only. So every replay of a log gives the same documents. A stored document continues exactly as if all its
writes had been applied again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import lru_cache
from hashlib import blake2b, md5
from typing import NamedTuple
from uuid import UUID

from sowline.language.emodb.compiled import Delta
from sowline.language.emodb.evaluate import apply, holds
from sowline.language.emodb.intrinsics import UNKNOWN, Intrinsics
from sowline.language.emodb.sanitize import sanitized
from sowline.language.emodb.template import read_with
from sowline.language.emodb.tree import Conditional, Noop
from sowline.language.emodb.values import UNDEFINED, Json, Undefined, same

NEVER_WRITTEN = "0" * 32
"""The signature of a document without writes."""

CHANGE_ID_BYTES = 16

INSTANTS_MAX = 1024
"""The number of cached times as text. Documents written together often have the same times."""

_EPOCH = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)
_MILLISECOND = timedelta(milliseconds=1)
_FIRST_MS = (datetime.min - _EPOCH) // _MILLISECOND  # noqa: DTZ901 - as `_EPOCH`, without a zone
_LAST_MS = (datetime.max - _EPOCH) // _MILLISECOND  # noqa: DTZ901 - as `_EPOCH`, without a zone


@dataclass(frozen=True, slots=True)
class Document:
    """A document after its latest write: its content, and the metadata of its writes.

    The content is an object, or UNDEFINED if the document was deleted or never written. Times are in milliseconds
    since 1970, and None before the first write. A deletion keeps them.
    """

    table: str
    id: str
    placement: str | None = None
    content: Json | Undefined = UNDEFINED
    version: int = 0
    signature: str = NEVER_WRITTEN
    first_update_ms: int | None = None
    last_update_ms: int | None = None
    last_mutate_ms: int | None = None
    tags: frozenset[str] = frozenset()
    """The tags of the latest write."""

    @property
    def deleted(self) -> bool:
        """Whether the document has no content."""
        return self.content is UNDEFINED

    def intrinsics(self) -> Intrinsics:
        """Return the intrinsics, which conditions can use."""
        return Intrinsics(
            id=self.id,
            table=self.table,
            signature=self.signature,
            deleted=self.deleted,
            first_update_at=instant(self.first_update_ms),
            last_update_at=instant(self.last_update_ms),
            last_mutate_at=instant(self.last_mutate_ms),
            placement=self.placement,
        )

    def read(self, template: Mapping[str, Json] | None = None) -> dict[str, Json]:
        """Return the document as readers see it: the content, overridden by the template, then by the intrinsics."""
        content = read_with({} if self.content is UNDEFINED else self.content, template or {})
        times = {
            "~firstUpdateAt": instant(self.first_update_ms),
            "~lastUpdateAt": instant(self.last_update_ms),
            "~lastMutateAt": instant(self.last_mutate_ms),
        }
        return {
            **content,
            "~id": self.id,
            "~table": self.table,
            "~version": self.version,
            "~signature": self.signature,
            "~deleted": self.deleted,
            **{name: instant for name, instant in times.items() if instant is not None},
        }


class DocumentDelta(NamedTuple):
    """A delta on the log, with its log time, its tags and its unique id."""

    delta: Delta
    change_id: bytes
    """16 bytes: see `change_id_of_writer` and `change_id_of_position`."""
    at_ms: int
    tags: frozenset[str] = frozenset()


class FoldOutcome(Enum):
    """The outcome of a write."""

    APPLIED = "applied"
    """The content changed."""
    CONDITION_FALSE = "condition_false"
    """The delta was an `if` without `else`, and none of its conditions held."""
    NOOP = "noop"
    """The content stayed the same for another reason."""


class Folded(NamedTuple):
    """The document after a write, and the outcome of the write.

    `redundant` is whether the write changed neither the content nor the tags, so that subscribers need no message.
    """

    document: Document
    outcome: FoldOutcome
    redundant: bool


def fold(document: Document, write: DocumentDelta) -> Folded:
    """Apply a write to a document. The delta sees the intrinsics before the write, and no template.

    Raise SowlineError if `sanitized` refuses the delta: the document is then unchanged. Every other write counts in
    the version, the signature and the time of the last update, even if it changes nothing.
    """
    delta = sanitized(write.delta)
    # The intrinsics include three times as text. For the many deltas that test none they would be made in vain
    # (test_a_delta_tells_whether_it_asks_for_intrinsics).
    about = document.intrinsics() if delta.needs_about else UNKNOWN
    content = apply(delta.tree, document.content, about)
    changed = not same(content, document.content)
    outcome = FoldOutcome.APPLIED if changed else _outcome_of_unchanged(delta, document.content, about)
    is_first_mutation = changed or document.last_mutate_ms is None
    after = replace(
        document,
        content=content,
        version=document.version + 1,
        signature=_signed(document.signature, write.change_id),
        first_update_ms=write.at_ms if document.first_update_ms is None else document.first_update_ms,
        last_update_ms=write.at_ms,
        last_mutate_ms=write.at_ms if is_first_mutation else document.last_mutate_ms,
        tags=write.tags,
    )
    return Folded(after, outcome, not changed and write.tags == document.tags)


def change_id_of_writer(text: str) -> bytes:
    """Return the id of a change that its writer named: the bytes of a UUID, or a hash of any other text."""
    try:
        return UUID(text).bytes
    except ValueError:
        # Any text is an id: for half of a surrogate pair, an encoding error would stop the partition.
        return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=CHANGE_ID_BYTES).digest()


def change_id_of_position(partition: int, offset: int) -> bytes:
    """Return the id of a change without a name, made from its position on the log."""
    return partition.to_bytes(4, "big") + bytes(4) + offset.to_bytes(8, "big")


def _outcome_of_unchanged(delta: Delta, content: Json | Undefined, about: Intrinsics) -> FoldOutcome:
    node = delta.tree
    if not isinstance(node, Conditional) or not isinstance(node.otherwise, Noop):
        return FoldOutcome.NOOP
    any_held = any(holds(test, content, about) for test, _ in node.cases)
    return FoldOutcome.NOOP if any_held else FoldOutcome.CONDITION_FALSE


def _signed(signature: str, change_id: bytes) -> str:
    # A chain over all changes: documents with equal signatures have had the same writes in the same order
    # (test_a_log_read_again_gives_the_same_signatures).
    assert len(change_id) == CHANGE_ID_BYTES
    return md5(bytes.fromhex(signature) + change_id, usedforsecurity=False).hexdigest()


@lru_cache(maxsize=INSTANTS_MAX)
def instant(milliseconds: int | None) -> str | None:
    """Return a time as ISO 8601 in UTC; a time outside of the years 1 to 9999 becomes the first or last in them."""
    if milliseconds is None:
        return None
    # Documents of version 0.1 may have any time that a producer gave. The sum would be an OverflowError, and no
    # reader would get the document (test_any_time_of_the_log_has_a_text).
    moment = _EPOCH + timedelta(milliseconds=min(max(milliseconds, _FIRST_MS), _LAST_MS))
    return moment.isoformat(timespec="milliseconds") + "Z"
