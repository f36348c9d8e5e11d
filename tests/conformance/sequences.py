"""Sequences of writes to one document: each step as it is stored, folded and read."""

from typing import Any
from uuid import UUID

from sowline.errors import SowlineError
from sowline.language.emodb import parse_delta, same
from sowline.language.emodb.fold import Document, DocumentDelta, change_id_of_writer, fold
from sowline.language.emodb.sanitize import sanitized

GREGORIAN_TO_1970 = 0x01B21DD213814000
"""Of 100 nanoseconds, as a time UUID counts them."""


def run_sequence(case: dict[str, Any]) -> str | None:
    """None if every step goes as expected, else the first that doesn't, and how."""
    template, expected = case["template"], case["expect"]
    document = Document(case["table"], case["key"], case["placement"])
    if not same(document.read(template), expected["initial"]):
        return f"before any write: {document.read(template)}"
    for number, (write, step) in enumerate(zip(case["writes"], expected["steps"], strict=True), 1):
        document, trouble = _step(document, write, step, template)
        if trouble is not None:
            return f"step {number}: {trouble}"
    found = document.read(template)
    return None if same(found, expected["final"]) else f"at last: {found}"


def _step(
    document: Document, write: dict[str, Any], step: dict[str, Any], template: dict[str, Any]
) -> tuple[Document, str | None]:
    delta = parse_delta(write["delta"])
    change_id = change_id_of_writer(write["changeId"])
    at_ms = (UUID(write["changeId"]).time - GREGORIAN_TO_1970) // 10_000
    try:
        folded = fold(document, DocumentDelta(delta, change_id, at_ms, frozenset(write["tags"])))
    except SowlineError as error:
        return document, None if "error" in step else error.message
    if "error" in step:
        return document, f"expected {step['message']}"
    return folded.document, _difference(
        step, sanitized(delta).text, folded.redundant, folded.document.read(template)
    )


def _difference(step: dict[str, Any], text: str, redundant: bool, read: dict[str, Any]) -> str | None:
    if text != step["sanitized"]:
        return f"stored {text}, expected {step['sanitized']}"
    if redundant is not step["redundant"]:
        return f"redundant: {redundant}"
    return None if same(read, step["content"]) else f"reads as {read}, expected {step['content']}"
