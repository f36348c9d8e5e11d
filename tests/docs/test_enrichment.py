"""The specification, docs/enrichment.md, is true: each line of its tables is run."""

import re
from collections.abc import Callable

import orjson
import pytest

from sowline.commands.command import LogRecord
from sowline.config.topic_definition import define_topic
from sowline.language.expressions.enrichment import (
    ComputedField,
    EnrichmentError,
    Stage,
    parse_enrichment,
    parse_preprocessing,
)
from sowline.language.filter import UNKNOWN
from sowline.language.filter.functions import FUNCTIONS
from sowline_materializer.core.applier import Applier
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.store.checksum import Checksum
from sowline_materializer.store.overlay import Overlay
from tests.docs.pages import rows_of, text_of
from tests.memory_store import MemoryStore

PAGE = "docs/enrichment.md"


COMPUTED = rows_of(PAGE, "fields", "message", "becomes")
MERGED = rows_of(PAGE, "enrichment", "record", "delta", "record after")
FUNCTIONS_OF_STAGES = rows_of(PAGE, "function", "preprocessing", "enrichment")
PREPROCESSING_ERRORS = rows_of(PAGE, "preprocessing", "error")
ENRICHMENT_ERRORS = rows_of(PAGE, "enrichment", "error")
CANONICAL = rows_of(PAGE, "field", "canonical")

STAGES = {"preprocessing": parse_preprocessing, "enrichment": parse_enrichment}


@pytest.mark.parametrize(("fields", "message", "becomes"), COMPUTED)
@pytest.mark.parametrize("stage", STAGES)
def test_computed(stage: str, fields: str, message: str, becomes: str) -> None:
    """A message becomes what the table says, field after field, in either stage."""
    computing = Stage(STAGES[stage](field) for field in fields.split("; "))
    body = message.encode()
    assert orjson.loads(body) == orjson.loads(message)
    made = computing.apply(body, orjson.loads(body), UNKNOWN)
    assert orjson.dumps(orjson.loads(made)) == orjson.dumps(orjson.loads(becomes))


@pytest.mark.parametrize(("field", "record", "delta", "after"), MERGED)
def test_merged(field: str, record: str, delta: str, after: str) -> None:
    """A record and a delta lead to what the table says."""
    plain = define_topic(name="orders", key=("/id",))
    enriched = define_topic(name="orders", key=("/id",), enrichment=(field,))
    store, checkpoint = MemoryStore(), Checkpoint()
    for definition, body in ((plain, record), (enriched, delta)):
        if body:
            view = Overlay(store)
            log_record = LogRecord(
                checkpoint.next_offset, 1000, None, body.encode(), [("sow.command", b"delta_publish")]
            )
            step = Applier(definition, 0, checkpoint, view).apply([log_record])
            store.commit(view.written(Checksum()).entries, Checksum(), b"")
            checkpoint = step.checkpoint
    assert orjson.loads(step.changes[-1].body or b"") == orjson.loads(after)


@pytest.mark.parametrize(("functions", "preprocessing", "enrichment"), FUNCTIONS_OF_STAGES)
def test_functions(functions: str, preprocessing: str, enrichment: str) -> None:
    """A function is refused in the stages where the table says so, and taken in the others."""
    for name in re.findall(r"\w+", functions):
        for stage, cell in (("preprocessing", preprocessing), ("enrichment", enrichment)):
            assert is_refused(STAGES[stage], f"{name}() AS /a") is (cell == "rejected")


def is_refused(parse: Callable[[str], ComputedField], text: str) -> bool:
    """Whether the text is no field of the stage."""
    try:
        parse(text)
    except EnrichmentError:
        return True
    return False


def test_every_function_that_is_not_of_the_document_is_on_the_table() -> None:
    """What asks for the time, for chance or for facts has its line."""
    listed = [name for functions, _, _ in FUNCTIONS_OF_STAGES for name in re.findall(r"\w+", functions)]
    special = [name for name, function in FUNCTIONS.items() if function.fact or not function.deterministic]
    assert sorted(listed) == sorted(special)


@pytest.mark.parametrize(
    ("stage", "text", "message"),
    [("preprocessing", *row) for row in PREPROCESSING_ERRORS]
    + [("enrichment", *row) for row in ENRICHMENT_ERRORS],
)
def test_error(stage: str, text: str, message: str) -> None:
    """A text shown with an error is refused with exactly that sentence."""
    with pytest.raises(EnrichmentError) as error:
        STAGES[stage](text)
    assert (error.value.reason, error.value.message) == ("bad configuration", message)


@pytest.mark.parametrize(("text", "canonical"), CANONICAL)
def test_canonical(text: str, canonical: str) -> None:
    """A field has the canonical text that is shown, which is its own."""
    assert parse_enrichment(text).text == canonical
    assert parse_enrichment(canonical) == parse_enrichment(text)


def test_all_tables_are_found() -> None:
    """No table escapes: each table row is of a known kind, or a heading."""
    lines = text_of(PAGE).splitlines()
    tables = sum(line.startswith("|---") for line in lines)
    kinds = (COMPUTED, MERGED, FUNCTIONS_OF_STAGES, PREPROCESSING_ERRORS, ENRICHMENT_ERRORS, CANONICAL)
    found = sum(map(len, kinds))
    assert sum(line.startswith("|") for line in lines) == found + 2 * tables
