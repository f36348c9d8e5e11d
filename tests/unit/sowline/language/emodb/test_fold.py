"""What writes do to a document. (The rest: test_emodb_docs, and the corpus's sequences in test_conformance.)"""

from collections.abc import Iterable
from dataclasses import replace
from uuid import UUID

import pytest

from sowline.errors import SowlineError
from sowline.language.emodb import UNDEFINED, parse_delta
from sowline.language.emodb.fold import (
    NEVER_WRITTEN,
    Document,
    DocumentDelta,
    Folded,
    FoldOutcome,
    change_id_of_position,
    change_id_of_writer,
    fold,
)
from sowline.model.nesting import NESTING_MAX

EMPTY = Document("item", "k1")


def write(text: str, number: int = 1, tags: Iterable[str] = ()) -> DocumentDelta:
    """A write at a place on the log, in that second of 1970."""
    return DocumentDelta(parse_delta(text), change_id_of_position(0, number), number * 1000, frozenset(tags))


def folded(*texts: str) -> list[Folded]:
    """What each write gives, one after another."""
    document, results = EMPTY, []
    for number, text in enumerate(texts, 1):
        results.append(fold(document, write(text, number)))
        document = results[-1].document
    return results


def test_a_document_that_was_never_written_reads_as_deleted() -> None:
    """It has a version and a signature, but no times."""
    assert EMPTY.read({"type": "x"}) == {
        "type": "x",
        "~id": "k1",
        "~table": "item",
        "~version": 0,
        "~signature": NEVER_WRITTEN,
        "~deleted": True,
    }


def test_a_template_wins_over_the_content_and_the_intrinsics_over_both() -> None:
    """Readers can rely on both."""
    document = folded('{"type":"y","a":1}')[-1].document
    assert document.read({"type": "x", "~id": "z"}) == {
        "type": "x",
        "a": 1,
        "~id": "k1",
        "~table": "item",
        "~version": 1,
        "~signature": document.signature,
        "~deleted": False,
        "~firstUpdateAt": "1970-01-01T00:00:01.000Z",
        "~lastUpdateAt": "1970-01-01T00:00:01.000Z",
        "~lastMutateAt": "1970-01-01T00:00:01.000Z",
    }


def test_a_delta_sees_the_intrinsics_from_before_it() -> None:
    """A signature that was read is still there for the write that asks for it, and for no other."""
    first = folded('{"n":1}')[-1].document
    text = f'if intrinsic("~signature":"{first.signature}") then {{..,"n":2}} end'
    once = fold(first, write(text, 2))
    again = fold(once.document, write(text, 3))
    assert (once.outcome, once.document.content) == (FoldOutcome.APPLIED, {"n": 2})
    assert (again.outcome, again.document.content) == (FoldOutcome.CONDITION_FALSE, {"n": 2})
    assert folded('if intrinsic("~firstUpdateAt":null) then {"new":true} end')[-1].document.content == {
        "new": True
    }


def test_a_document_keeps_its_first_time_when_it_is_made_again() -> None:
    """A deletion is a write like any other."""
    _, deleted, made = (result.document for result in folded('{"a":1}', "~", '{"a":1}'))
    assert deleted.content is UNDEFINED
    assert (deleted.first_update_ms, deleted.last_update_ms, deleted.last_mutate_ms) == (1000, 2000, 2000)
    assert (made.first_update_ms, made.last_update_ms, made.last_mutate_ms) == (1000, 3000, 3000)
    assert made.version == 3


def test_a_log_read_again_gives_the_same_signatures() -> None:
    """They come of where the writes stand on the log, and nothing else."""
    texts = ('{"a":1}', '{..,"b":2}', "~")
    assert [result.document for result in folded(*texts)] == [result.document for result in folded(*texts)]
    assert len({result.document.signature for result in folded(*texts)}) == 3


def test_a_document_goes_on_from_where_it_was_stored() -> None:
    """The writes before don't have to be kept."""
    whole = folded('{"a":1}', '{..,"b":2}', '{..,"a":~}')
    stored = replace(whole[1].document)
    assert fold(stored, write('{..,"a":~}', 3)) == whole[2]


def test_the_writer_may_name_the_change() -> None:
    """A UUID is taken as its bytes, another name as a hash of it."""
    uuid = "82507710-bca6-11e1-8000-001c42000009"
    assert change_id_of_writer(uuid) == UUID(uuid).bytes
    assert len(change_id_of_writer("order-17")) == 16
    assert change_id_of_writer("order-17") != change_id_of_writer("order-18")
    assert change_id_of_position(1, 2) != change_id_of_position(2, 1)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ('{..,"a":2}', FoldOutcome.APPLIED),
        ('{..,"a":1.0}', FoldOutcome.APPLIED),
        ("~", FoldOutcome.APPLIED),
        ("..", FoldOutcome.NOOP),
        ('{..,"a":1}', FoldOutcome.NOOP),
        ('if {..,"a":1} then {..,"a":1} end', FoldOutcome.NOOP),
        ("if ~ then {} end", FoldOutcome.CONDITION_FALSE),
        ('if ~ then {} elif {..,"a":5} then ~ end', FoldOutcome.CONDITION_FALSE),
        ('if ~ then {} else {..,"a":1} end', FoldOutcome.NOOP),
        ('{..,"a":if ~ then 2 end}', FoldOutcome.NOOP),
        ('if ~ then {} else {..,"a":2} end', FoldOutcome.APPLIED),
    ],
)
def test_the_writer_can_learn_what_became_of_a_write(text: str, outcome: FoldOutcome) -> None:
    """A condition that was false is told apart from a change that was none."""
    document = folded('{"a":1}')[-1].document
    assert fold(document, write(text, 2)).outcome is outcome


def test_other_tags_make_a_write_worth_sending() -> None:
    """Redundant is what changes neither content nor tags, whatever their order."""
    document = fold(EMPTY, write('{"a":1}', 1, ["x", "y"])).document
    assert fold(document, write("..", 2, ["y", "x"])).redundant
    assert not fold(document, write("..", 2, ["x"])).redundant
    assert not fold(document, write('{"a":2}', 2, ["x", "y"])).redundant


@pytest.mark.parametrize("text", ["1", "[]", "(..,1)", "if ~ then 1 end", "if ~ then {} else null end"])
def test_a_document_is_an_object(text: str) -> None:
    """What could make anything else of it is refused, whatever it is now."""
    with pytest.raises(SowlineError) as refused:
        fold(EMPTY, write(text))
    assert refused.value.reason == "not an object"


def test_half_of_a_surrogate_pair_is_refused() -> None:
    """No body could hold it."""
    with pytest.raises(SowlineError, match=r"got \\ud800 alone") as refused:
        fold(EMPTY, write(r'{"a":"\ud800"}'))
    assert refused.value.reason == "bad delta"
    assert fold(EMPTY, write(r'{"a":"\ud83d\ude00"}')).document.content == {"a": "😀"}


@pytest.mark.parametrize(
    ("milliseconds", "instant"),
    [
        (-1, "1969-12-31T23:59:59.999Z"),
        (2**62, "9999-12-31T23:59:59.999Z"),
        (-(2**62), "0001-01-01T00:00:00.000Z"),
    ],
)
def test_any_time_of_the_log_has_a_text(milliseconds: int, instant: str) -> None:
    """Producers can write any number there."""
    document = fold(EMPTY, DocumentDelta(parse_delta("{}"), bytes(16), milliseconds)).document
    assert document.intrinsics().last_update_at == instant


@pytest.mark.parametrize(
    "text",
    [
        '{..,"a":' * NESTING_MAX + "1" + "}" * NESTING_MAX,
        "if + then " * (NESTING_MAX - 1) + '{"a":1}' + " end" * (NESTING_MAX - 1),
    ],
    ids=["map", "if"],
)
def test_the_deepest_delta_is_folded(text: str) -> None:
    """Sanitizing and comparing fit on the stack as well."""
    document = fold(EMPTY, write("{}")).document
    changed = fold(document, write(text, 2))
    assert changed.outcome is FoldOutcome.APPLIED
    assert fold(changed.document, write(text, 3)).redundant
