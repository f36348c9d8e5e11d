"""The specification, docs/emodb.md, is true: each line of its tables is run."""

import json
import re
from typing import Any

import pytest

from sowline.errors import SowlineError
from sowline.language.emodb import (
    UNDEFINED,
    DocumentError,
    Intrinsics,
    compile_condition,
    parse_delta,
    parse_deltas,
    same,
)
from sowline.language.emodb.fold import Document, DocumentDelta, change_id_of_position, fold
from sowline.language.emodb.intrinsics import FIELDS
from sowline.language.emodb.sanitize import sanitized
from tests.docs.pages import rows_of, text_of

PAGE = "docs/emodb.md"
TEXT = text_of(PAGE).replace("␀", "\0")


def value(cell: str) -> Any:
    """The value that a cell shows."""
    return UNDEFINED if cell == "undefined" else json.loads(cell)


@pytest.mark.parametrize(("text", "before", "after"), rows_of(PAGE, "delta", "before", "after"))
def test_delta(text: str, before: str, after: str) -> None:
    """A delta shown with a value makes of it the value that the table says."""
    assert same(parse_delta(text).apply(value(before)), value(after))


@pytest.mark.parametrize(("text", "of", "holds"), rows_of(PAGE, "condition", "value", "holds"))
def test_condition(text: str, of: str, holds: str) -> None:
    """A condition shown with a value holds of it, or doesn't."""
    assert compile_condition(text).matches(value(of)) is (holds == "true")
    assert compile_condition(f"not({text})").matches(value(of)) is (holds == "false")


@pytest.mark.parametrize(
    ("text", "about", "holds"), rows_of(PAGE, "condition", "document's intrinsics", "holds")
)
def test_condition_about_a_document(text: str, about: str, holds: str) -> None:
    """A condition shown with a document's intrinsics holds of them, or doesn't."""
    known = Intrinsics(**json.loads(about))
    assert compile_condition(text).matches_about({}, known) is (holds == "true")


@pytest.mark.parametrize("name", FIELDS)
def test_each_intrinsic_is_named(name: str) -> None:
    """Anyone who writes a condition finds what there is to ask."""
    assert f"`{name}`" in TEXT.split("### Intrinsics")[1].split("###")[0]


@pytest.mark.parametrize(("text", "canonical"), rows_of(PAGE, "delta", "canonical"))
def test_canonical_delta(text: str, canonical: str) -> None:
    """A delta has the canonical text that the table says, and that text has itself."""
    assert parse_delta(text).text == parse_delta(canonical).text == canonical


@pytest.mark.parametrize(("text", "canonical"), rows_of(PAGE, "condition", "canonical"))
def test_canonical_condition(text: str, canonical: str) -> None:
    """A condition has the canonical text that the table says, and that text has itself."""
    assert compile_condition(text).text == compile_condition(canonical).text == canonical


@pytest.mark.parametrize(("text", "deltas"), rows_of(PAGE, "stream", "deltas"))
def test_stream(text: str, deltas: str) -> None:
    """A stream yields the deltas that the table says, and ends in an error where it says so."""
    found, error = [], None
    try:
        for delta in parse_deltas(text):
            found.append(delta.text)  # noqa: PERF401 - an error leaves those before it
    except DocumentError as raised:
        error = raised
    cell = deltas if "`" in deltas or deltas == "an error" else f"`{deltas}`"
    assert found == re.findall(r"`([^`]+)`", cell)
    assert (error is not None) == deltas.endswith("an error")


@pytest.mark.parametrize(("text", "written"), rows_of(PAGE, "delta", "what is written"))
def test_sanitized(text: str, written: str) -> None:
    """A delta is written as the table says, or refused."""
    delta = parse_delta(text)
    if written == "refused":
        with pytest.raises(SowlineError, match="expected"):
            sanitized(delta)
    else:
        assert sanitized(delta).text == written


def test_writes() -> None:
    """A document goes through the writes of the table as it says."""
    document = Document("item", "a")
    table = rows_of(PAGE, "delta", "content", "version", "last changed in version", "outcome", "redundant")
    assert table
    for number, (text, content, version, changed_at, outcome, redundant) in enumerate(table, 1):
        write = DocumentDelta(parse_delta(text), change_id_of_position(0, number), at_ms=number)
        document, became, is_redundant = fold(document, write)
        assert same(document.content, value(content))
        assert (document.version, document.last_mutate_ms) == (int(version), int(changed_at))
        assert (became.value, is_redundant) == (outcome, redundant == "yes")


@pytest.mark.parametrize(("text", "sentence"), rows_of(PAGE, "delta", "error"))
def test_error_of_a_delta(text: str, sentence: str) -> None:
    """What is no delta is refused with the sentence that the table shows."""
    with pytest.raises(DocumentError) as refused:
        parse_delta(text)
    assert (refused.value.reason, refused.value.message) == ("bad delta", sentence)


@pytest.mark.parametrize(("text", "sentence"), rows_of(PAGE, "condition", "error"))
def test_error_of_a_condition(text: str, sentence: str) -> None:
    """What is no condition is refused with the sentence that the table shows."""
    with pytest.raises(DocumentError) as refused:
        compile_condition(text)
    assert (refused.value.reason, refused.value.message) == ("bad condition", sentence)


@pytest.mark.parametrize(
    ("rule", "text", "emodb", "here", "why"), rows_of(PAGE, "rule", "example", "EmoDB", "Sowline", "why")
)
def test_difference(rule: str, text: str, emodb: str, here: str, why: str) -> None:
    """An example of what differs from EmoDB comes to what the table says, and a reason is given."""
    assert why
    if here == "refused":
        with pytest.raises(DocumentError):
            list(parse_deltas(text)) if rule == "text-behind-stream" else parse_delta(text)
    else:
        assert parse_delta(text).text == here != emodb
