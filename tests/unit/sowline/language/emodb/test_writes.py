"""The metadata of a document's writes: taken from a write, and given to readers and conditions."""

import json

import pytest

from sowline.language.emodb.fold import Document, Folded, FoldOutcome
from sowline.language.emodb.values import UNDEFINED
from sowline.language.emodb.writes import (
    DocumentMetadata,
    Writes,
    document_of,
    intrinsics_json,
    intrinsics_of,
)

WRITES = Writes(version=3, signature="5f", first=1000, last=3000, mutated=2000, tags=("a", "b"))
DOCUMENT = Document(
    "orders",
    "k",
    content={"a": 1},
    version=3,
    signature="5f",
    first_update_ms=1000,
    last_update_ms=3000,
    last_mutate_ms=2000,
    tags=frozenset({"b", "a"}),
)


def test_the_metadata_of_a_write() -> None:
    """Tags are sorted, and the id of the change is in hex."""
    folded = Folded(DOCUMENT, FoldOutcome.APPLIED, redundant=True)
    assert Writes.of(folded, b"\x01\xff", {}) == Writes(3, "5f", 1000, 3000, 2000, ("a", "b"), "01ff", True)


def test_fields_that_the_template_hides_are_kept() -> None:
    """A deleted document has none."""
    template = {"a": 2, "b": 1}
    folded = Folded(DOCUMENT, FoldOutcome.APPLIED, redundant=False)
    assert Writes.of(folded, b"", template).hidden == {"a": 1}
    deleted = Document("orders", "k", version=1, first_update_ms=1, last_update_ms=1, last_mutate_ms=1)
    assert Writes.of(Folded(deleted, FoldOutcome.APPLIED, False), b"", template).hidden is None


def test_a_document_comes_back() -> None:
    """Its content and its metadata are all of it; without metadata it was never written."""
    assert document_of("orders", "k", {"a": 1}, WRITES) == DOCUMENT
    assert document_of("orders", "k", UNDEFINED, None) == Document("orders", "k")


def test_conditions_see_the_times_as_text() -> None:
    """They are in UTC, to the millisecond."""
    about = intrinsics_of("orders", "k", WRITES)
    assert (about.id, about.table, about.signature, about.deleted) == ("k", "orders", "5f", False)
    assert about.first_update_at == "1970-01-01T00:00:01.000Z"
    assert about.last_mutate_at == "1970-01-01T00:00:02.000Z"


@pytest.mark.parametrize("deleted", [False, True])
def test_readers_get_intrinsics(deleted: bool) -> None:
    """Tags are among them if there are any."""
    given = json.loads(intrinsics_json("orders", DocumentMetadata("k", WRITES), deleted=deleted))
    assert (given["~id"], given["~deleted"], given["~version"]) == ("k", deleted, 3)
    assert given["~tags"] == ["a", "b"]
    untagged = DocumentMetadata("k", Writes(1, "5f", 1, 1, 1))
    assert "~tags" not in json.loads(intrinsics_json("orders", untagged, deleted=deleted))
