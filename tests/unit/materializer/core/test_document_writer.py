"""Writes to documents: each is a delta, and makes a change."""

import orjson
import pytest

from tests.unit.materializer.core.document_log import DocumentLog
from tests.unit.materializer.core.test_definer import bodies, define


@pytest.fixture
def log() -> DocumentLog:
    """An empty partition."""
    return DocumentLog()


def test_a_delta_that_changes_nothing_is_a_change(log: DocumentLog) -> None:
    """With its outcome, and redundant where the tags are the same too."""
    log.delta('{"n":1}')
    same, other, tagged = log.delta(".."), log.delta("if ~ then {} end"), log.delta("..", tags="x")
    assert [change.outcome for change in (same, other, tagged)] == ["noop", "condition_false", "noop"]
    assert [change.body for change in (same, other, tagged)] == [b'{"n":1}'] * 3
    accounts = [change.writes for change in (same, other, tagged)]
    assert [(of.version, of.mutated, of.redundant) for of in accounts if of] == [
        (2, 0, True),
        (3, 0, True),
        (4, 0, False),
    ]


def test_the_account_outlives_a_deletion(log: DocumentLog) -> None:
    """The change's value is empty, not null, so that compaction keeps it; a re-created document goes on from it."""
    log.delta('{"n":1}')
    gone = log.delta("~")
    assert (gone.body, gone.value, gone.previous, gone.reason) == (None, b"", b'{"n":1}', "deleted")
    again = log.delta('{"n":2}')
    assert again.writes is not None
    assert (again.writes.version, again.writes.first, again.writes_before) == (3, 0, gone.writes)
    assert (again.previous, log.checkpoint.records) == (None, 1)


def test_deletes_publishes_and_merges_are_writes(log: DocumentLog) -> None:
    """Whatever command makes them."""
    log.change(b'{"id":"a","n":1}')
    merged = log.change(b'{"id":"a","m":2}', command="delta_publish")
    gone = log.change(None, command="sow_delete")
    assert merged.writes is not None
    assert gone.writes is not None
    assert orjson.loads(merged.body or b"") == {"id": "a", "n": 1, "m": 2}
    assert (gone.writes.version, gone.outcome, gone.op) == (3, "deleted 1", "delete")
    assert log.write(None, command="sow_delete").outcomes == {"3": "deleted 0"}


def test_a_delta_publish_leaves_the_template_out() -> None:
    """It is merged into what writers wrote."""
    log = DocumentLog(template={"type": "review"})
    log.delta('{"n":1}')
    made = log.change(b'{"id":"a","q":2}', command="delta_publish")
    assert made.writes is not None
    assert (orjson.loads(made.body or b""), made.writes.hidden) == (
        {"n": 1, "id": "a", "q": 2, "type": "review"},
        None,
    )


def test_a_document_that_expires_is_deleted() -> None:
    """By a write like any other."""
    log = DocumentLog(expiration="enabled")
    made = log.delta('{"n":1}', expiration="1")
    log.delta("..", b"b")
    log.delta("..", b"b")
    gone = log.change(None, command="expire", guard=str(made.position))
    assert gone.writes is not None
    assert (gone.reason, gone.writes.version, gone.value) == ("expired", 2, b"")


def test_documents_are_read_again_with_another_template() -> None:
    """Those that read differently, with the numbers of the last write, and no new version."""
    log = DocumentLog(template={"type": "review"})
    before = log.delta('{"n":1}', publisher="p", sequence="7")
    log.delta('{"kind":"x"}', b"b")
    log.delta("~", b"c")
    step = define(log, {"type": "review", "kind": "x"})
    assert bodies(step) == {
        "a": {"n": 1, "type": "review", "kind": "x"},
        "b": {"kind": "x", "type": "review"},
    }
    (first,) = (change for change in step.changes if change.key_text == "a")
    assert (first.op, first.last, first.previous, first.numbers) == (
        "define",
        False,
        before.body,
        before.numbers,
    )
    assert first.writes is not None
    assert before.writes is not None
    assert first.writes.version == before.writes.version


def test_a_template_that_does_not_fit_changes_nothing() -> None:
    """A document that would be too large refuses it for all, before the first change."""
    log = DocumentLog(record_bytes_max=64)
    log.delta('{"n":1}')
    log.delta(f'{{"n":"{"x" * 40}"}}', b"b")
    step = define(log, {"type": "r" * 20})
    assert (step.changes, [letter.reason for letter in step.dead]) == ([], ["too large"])
    assert log.checkpoint.limits == log.definition.limits
    assert len(define(log, {"t": 1}).changes) == 2
