"""The pure core: a `define` with another template changes every document that reads differently."""

import dataclasses
from typing import Any

import msgspec
import orjson
import pytest

from sowline.changes.change import Change
from sowline.changes.event import read_event
from sowline.commands.command import LogRecord
from sowline.config.topic_definition import define_topic
from sowline.model.limits import define_value
from sowline.model.position import Position
from sowline_materializer.core.applier import Applier
from sowline_materializer.core.step import Step
from sowline_materializer.store.overlay import Overlay
from tests.unit.materializer.core.document_log import GIVEN, DocumentLog
from tests.unit.materializer.core.test_applier import Core, reasons


def define(log: DocumentLog, template: dict[str, Any], **limits: Any) -> Step:
    """Let the owner define another template."""
    was, wanted = log.checkpoint.limits, define_topic(**GIVEN, template=template).limits
    now = dataclasses.replace(was, template=wanted.template, **limits)
    return log.write(define_value(was, now), None, command="define")


def bodies(step: Step) -> dict[str | None, Any]:
    """Return the bodies of a step's changes by their key texts."""
    return {change.key_text: orjson.loads(change.body or b"null") for change in step.changes}


def test_what_reads_differently_gets_a_change() -> None:
    """The field of the document's own comes back, and a document that reads as before gets none."""
    log = DocumentLog(template={"type": "review"})
    log.delta('{"n":1,"type":"mine"}')
    log.delta('{"n":2,"rank":5}', b"b")
    log.delta("~", b"b")
    log.delta('{"n":3,"rank":1}', b"c")
    step = define(log, {"rank": 1})
    assert bodies(step) == {"a": {"n": 1, "type": "mine", "rank": 1}, "c": {"n": 3, "rank": 1}}
    assert step.outcomes == {"4": "applied"}
    assert [change.position for change in step.changes] == [Position(0, 4), Position(0, 4, 1)]
    assert (log.checkpoint.position, log.checkpoint.last_change) == (Position(0, 4, 2), Position(0, 4, 1))
    assert {(change.op, change.last, change.reason) for change in step.changes} == {("define", False, None)}
    step = define(log, {"type": "review"})
    assert bodies(step) == {"a": {"n": 1, "type": "review"}, "c": {"n": 3, "rank": 1, "type": "review"}}
    assert log.delta('{..,"m":1}', b"c").body == b'{"n":3,"rank":1,"m":1,"type":"review"}'


def test_readers_get_what_the_store_has() -> None:
    """A change has all that a copy of the record needs: its due time, metadata and publishers' numbers, too."""
    log = DocumentLog(expiration="1h")
    log.delta('{"a":1}', publisher="p", sequence="7", correlation="c", tags="t")
    (change,) = define(log, {"a": 2}).changes
    assert read_event(change.sow_key, change.value, change.headers()) == change
    before = log.checkpoint.time - 1000
    assert (change.expires, change.correlation) == (before + 3_600_000, "c")
    assert change.numbers == {"p": (7, 0, before)}
    assert change.writes_before is not None
    assert change.writes == msgspec.structs.replace(change.writes_before, hidden={"a": 1})
    assert (change.previous, change.body) == (b'{"a":1}', b'{"a":2}')


def test_a_field_that_a_template_repeats_comes_back() -> None:
    """Nothing is shown of the change in between, but it is kept that the field is the document's own."""
    log = DocumentLog()
    log.delta('{"a":1,"b":2}')
    (change,) = define(log, {"a": 1}).changes
    assert (change.body, change.previous, change.shows_nothing_new) == (b'{"a":1,"b":2}', change.body, True)
    assert log.delta('{..,"b":3}').body == b'{"a":1,"b":3}'
    assert define(log, {}).changes[0].body == b'{"a":1,"b":3}'


def test_a_change_of_the_template_is_not_redundant() -> None:
    """The write before it may have been: a subscriber with `no_redundant` gets the new reading."""
    log = DocumentLog()
    log.delta('{"a":1}')
    assert log.delta('{"a":1}').is_redundant
    (change,) = define(log, {"a": 2}).changes
    assert (change.is_redundant, change.shows_nothing_new) == (False, False)


def test_an_integer_is_not_a_double() -> None:
    """In Python, 1, 1.0 and true are equal."""
    log = DocumentLog(template={"a": 1})
    log.delta("{}")
    assert bodies(define(log, {"a": 1.0})) == {"a": {"a": 1.0}}
    assert bodies(define(log, {"a": True})) == {"a": {"a": True}}
    assert define(log, {"a": True}).outcomes == {"3": "noop"}


def test_writes_after_it_in_the_same_batch_read_with_the_new_template() -> None:
    """A batch is applied as its records one by one."""
    log = DocumentLog(template={"a": 1})
    now = dataclasses.replace(log.checkpoint.limits, template='{"b":2}')
    value = define_value(log.checkpoint.limits, now)
    records = [
        LogRecord(0, 0, b"a", b'{"n":1}', [("sow.command", b"delta")]),
        LogRecord(1, 0, None, value, [("sow.command", b"define")]),
        LogRecord(2, 0, b"a", b'{"n":2}', [("sow.command", b"delta")]),
    ]
    step = Applier(log.definition, 0, log.checkpoint, Overlay(log.store)).apply(records)
    assert [change.body for change in step.changes] == [b'{"n":1,"a":1}', b'{"n":1,"b":2}', b'{"n":2,"b":2}']
    ((before, checkpoint),) = step.unreported
    assert (before, checkpoint.position, checkpoint.limits) == (2, Position(0, 1, 1), now)
    assert (step.changes[2].after, checkpoint.definition) == (
        Position(0, 1),
        log.definition.digest_with('{"b":2}'),
    )


def test_a_document_above_a_lower_limit_may_stay_as_large() -> None:
    """It is there already, and other readings of it do no harm."""
    log = DocumentLog(template={"type": "r" * 20})
    log.delta(f'{{"n":"{"x" * 40}"}}')
    assert len(define(log, {"type": "m" * 20}, record_bytes_max=50).changes) == 1
    assert [letter.reason for letter in define(log, {"type": "m" * 21}).dead] == ["too large"]


@pytest.mark.parametrize("template", [{"id": 1}, {"~id": "x"}], ids=str)
def test_a_template_that_no_definition_has_is_refused(template: dict[str, Any]) -> None:
    """Any producer may write a `define`."""
    log = DocumentLog()
    now = dataclasses.replace(log.checkpoint.limits, template=orjson.dumps(template).decode())
    assert log.refused(define_value(log.checkpoint.limits, now), None, command="define") == "bad definition"


def test_a_define_with_a_key_or_an_unknown_schema_is_refused() -> None:
    """It is of the whole topic, and a topic of plain JSON has no reader schema."""
    log = DocumentLog()
    was = log.checkpoint.limits
    keyed = define_value(was, dataclasses.replace(was, repeat_window=1))
    assert log.refused(keyed, b"a", command="define") == "bad definition"
    typed = define_value(was, dataclasses.replace(was, schema="0123"))
    assert log.refused(typed, None, command="define") == "bad definition"


def test_records_have_no_template() -> None:
    """Neither does a topic without documents."""
    core = Core()
    now = dataclasses.replace(core.checkpoint.limits, template='{"a":1}')
    assert reasons(core.write(define_value(core.checkpoint.limits, now), "define")) == ["bad definition"]


def test_a_change_of_records_never_shows_nothing() -> None:
    """Only what readers can't see is left out."""
    plain = Change(b"1", b"{}", b"{}", Position(0, 5), Position(0, 4), "publish", 9)
    assert not plain.shows_nothing_new
