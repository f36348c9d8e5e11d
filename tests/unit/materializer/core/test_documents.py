"""Documents in the pure core: what each command writes, and what is told of it."""

import json
from typing import Any

import orjson
import pytest

from sowline.language.emodb import parse_delta
from sowline.language.emodb.fold import NEVER_WRITTEN, DocumentDelta
from sowline.language.emodb.writes import Writes
from sowline.model.position import Position
from sowline_materializer.core.documents import LEVELS_MAX, Documents, size_of
from sowline_materializer.core.record import Record, decode_record, encode_record
from tests.unit.materializer.core.document_log import DocumentLog

DUMPS = orjson.dumps


@pytest.fixture
def log() -> DocumentLog:
    """An empty partition."""
    return DocumentLog()


def test_a_delta_is_a_change_with_its_account_and_its_text(log: DocumentLog) -> None:
    """Version and signature come from the writes before; what was before stands beside."""
    first = log.delta('{..,"n":1}', tags="new,big")
    second = log.delta('{..,"n":2}')
    assert first.writes is not None
    assert second.writes is not None
    assert (first.body, first.previous, first.text) == (b'{"n":1}', None, b'{..,"n":1}')
    assert (second.body, second.previous) == (b'{"n":2}', b'{"n":1}')
    assert (first.writes.version, first.writes.tags, first.writes_before) == (1, ("big", "new"), None)
    assert (second.writes.version, second.writes_before) == (2, first.writes)
    assert NEVER_WRITTEN != first.writes.signature != second.writes.signature
    assert (second.writes.first, second.writes.last, second.writes.mutated) == (0, 1000, 1000)
    assert (second.key_text, second.outcome, second.op) == ("a", None, "delta")


def test_every_record_that_a_delete_selects_is_written(log: DocumentLog) -> None:
    """Each has an account of its own, and the last says how many."""
    log.delta('{"n":1}')
    log.delta('{"n":1}', b"b")
    changes = log.write(None, None, command="sow_delete", filter="/n = 1").changes
    assert [(c.writes.version if c.writes else 0, c.last, c.outcome) for c in changes] == [
        (2, False, None),
        (2, True, "deleted 2"),
    ]


def test_a_delete_selects_by_what_is_known_of_documents(log: DocumentLog) -> None:
    """Their ids, signatures and tags."""
    log.delta('{"n":1}', tags="old")
    log.delta('{"n":1}', b"b")
    by_tag = """CONDITION('{..,"~tags":contains("old")}')"""
    (gone,) = log.write(None, None, command="sow_delete", filter=by_tag).changes
    (other,) = log.write(
        None, None, command="sow_delete", filter="""CONDITION('intrinsic("~id":"b")')"""
    ).changes
    assert (gone.key_text, other.key_text) == ("a", "b")


def test_the_fields_of_a_template_are_in_every_document() -> None:
    """Deltas and their conditions do not see them, but only what writers wrote under these names."""
    log = DocumentLog(template={"type": "review", "rank": {"of": 1}})
    made = log.delta('{"n":1,"type":"mine"}')
    assert orjson.loads(made.body or b"") == {"n": 1, "type": "review", "rank": {"of": 1}}
    assert log.delta('if {..,"type":"review"} then {..,"n":2} end').outcome == "condition_false"
    assert log.delta('if {..,"type":"mine"} then {..,"n":2} end').outcome is None
    assert log.delta('{..,"rank":~}').outcome == "noop"
    hidden = log.delta('{..,"type":~}')
    assert (hidden.outcome, hidden.body, hidden.previous) == (None, hidden.previous, hidden.body)
    assert hidden.writes is not None
    assert (hidden.writes.redundant, hidden.writes.hidden) == (False, None)
    assert log.delta('{..,"n":~}?').body is None


def test_hidden_fields_count_in_the_size() -> None:
    """The changes topic has them, too."""
    log = DocumentLog(template={"type": "review"}, record_bytes_max=100)
    assert log.delta(f'{{"type":"{"x" * 50}"}}').body == b'{"type":"review"}'
    assert log.refused(f'{{"type":"{"x" * 90}"}}'.encode(), command="delta") == "too large"


def test_a_state_of_an_earlier_version_is_read_without_the_template() -> None:
    """It has what documents read with, and nothing of what the template had replaced."""
    log = DocumentLog(template={"type": "review"})
    earlier = b'{"a":1,"type":"review"}'
    documents = Documents(log.definition, log.definition.limits.template)
    writes = Writes(1, NEVER_WRITTEN, 0, 0, 0)
    held = decode_record(encode_record(Record(earlier, "a", Position(0, 0), 0, writes=writes)))
    write = DocumentDelta(parse_delta('{..,"a":~}?'), bytes(16), 1)
    assert documents.content(held) == {"a": 1}
    assert documents.written("a", held, write).body is None
    assert documents.written("a", held, write._replace(delta=parse_delta('{..,"b":2}'))).body == (
        b'{"a":1,"b":2,"type":"review"}'
    )


def test_intrinsics_are_those_from_before_the_write(log: DocumentLog) -> None:
    """So a writer that has read the signature learns whether somebody else was faster."""
    first = log.delta('{"n":1}')
    assert first.writes is not None
    text = f'if intrinsic("~signature":"{first.writes.signature}") then {{..,"n":2}} end'
    assert [log.delta(text).outcome, log.delta(text).outcome] == [None, "condition_false"]
    assert log.delta('if intrinsic("~id":"a") then {..,"n":3} end').outcome is None


def test_the_writer_names_its_change(log: DocumentLog) -> None:
    """Then the signature comes from that, wherever the write stands on the log."""
    one, other = DocumentLog(), DocumentLog()
    other.write(b'{"id":"b"}', b"b")
    id = "2d3f5a60-0000-11ee-8000-000000000000"
    accounts = [each.delta('{"n":1}', change_id=id).writes for each in (one, other)]
    assert accounts[0] is not None
    assert accounts[1] is not None
    assert accounts[0].signature == accounts[1].signature
    assert accounts[0].change_id == id.replace("-", "")


@pytest.mark.parametrize(
    ("value", "key", "headers", "reason"),
    [
        (b"{..,", b"a", {"command": "delta"}, "bad delta"),
        (b"\xff", b"a", {"command": "delta"}, "bad delta"),
        (None, b"a", {"command": "delta"}, "bad delta"),
        (b"[1]", b"a", {"command": "delta"}, "not an object"),
        (b"{}", None, {"command": "delta"}, "key missing"),
        (b"{}", b"k" * 5000, {"command": "delta"}, "bad key"),
        (b'{"id":"b"}', b"a", {"command": "delta"}, "key changed"),
        (b'{"id":[1]}', b"a", {"command": "delta"}, "bad key"),
        (b"{}", b"a", {"command": "delta", "tags": "x" * 101}, "bad header"),
        (b'{"id":"a","n":' + b"[" * 300 + b"]" * 300 + b"}", b"a", {}, "too deep"),
        (b'{"n":"\\ud800"}', b"a", {"command": "delta"}, "bad delta"),
        (b'{"n":"' + b"x" * 600_000 + b'"}', b"a", {"command": "delta"}, "too large"),
    ],
)
def test_what_is_refused(
    value: bytes | None, key: bytes | None, headers: dict[str, str], reason: str
) -> None:
    """The document stays as it was, and so does its account."""
    log = DocumentLog(record_bytes_max=500_000)
    log.delta('{"n":1}')
    assert log.refused(value, key, **headers) == reason
    after = log.delta("..").writes
    assert after is not None
    assert after.version == 2


def writes_deeper(document: Any, *more: Any) -> bytes:
    """Write JSON as a version of orjson does whose limit is higher."""
    return (
        json.dumps(document, separators=(",", ":")).encode()
        if type(document) is dict
        else DUMPS(document, *more)
    )


def writes_less(document: Any, *more: Any) -> bytes:
    """Write JSON as a version of orjson does whose limit is lower."""
    level, levels = [document], 0
    while level := [one for one in level if type(one) in (dict, list)]:
        level = [below for one in level for below in (one.values() if type(one) is dict else one)]
        levels += 1
    if levels > 210:
        raise orjson.JSONEncodeError("too deep")
    return DUMPS(document, *more)


@pytest.mark.parametrize("dumps", [DUMPS, writes_deeper, writes_less])
@pytest.mark.parametrize("template", [{}, {"n": 1}])
def test_the_largest_depth_is_not_that_of_a_library(
    monkeypatch: pytest.MonkeyPatch, dumps: Any, template: dict[str, Any]
) -> None:
    """A replay with another version of orjson refuses the same writes."""
    log = DocumentLog(template=template)
    fits, more = (
        b'{"id":"a","a":%s1%s}' % (b"[" * levels, b"]" * levels) for levels in (LEVELS_MAX - 1, LEVELS_MAX)
    )
    monkeypatch.setattr(orjson, "dumps", dumps)
    log.change(fits)
    assert log.refused(more) == "too deep"
    merged = log.change(b'{"id":"a","b":2}', command="delta_publish")
    assert merged.body == fits[:-1] + (b',"b":2,"n":1}' if template else b',"b":2}')
    assert log.refused(more, command="delta_publish") == "too deep"


def test_a_delta_needs_documents() -> None:
    """The language is theirs."""
    assert DocumentLog(documents=False).refused(b"{}", command="delta") == "no documents"


def test_a_repeat_writes_nothing(log: DocumentLog) -> None:
    """Nor does it count."""
    log.delta('{"n":1}', publisher="P", sequence="1")
    assert log.write(b"~", command="delta", publisher="P", sequence="1").outcomes == {"1": "repeat"}


def test_a_record_keeps_its_account(log: DocumentLog) -> None:
    """In the store."""
    writes = log.delta('{"n":1}', tags="x").writes
    record = Record(None, "a", Position(0, 1), 5, None, None, None, writes)
    assert decode_record(encode_record(record)) == record


def test_a_document_reads_with_another_template_and_keeps_its_own_fields(log: DocumentLog) -> None:
    """A field that the template hides counts for the size; None where nothing is stored otherwise."""
    writes = log.delta('{"n":1,"type":"mine"}').writes
    current = Record(b'{"n":1,"type":"mine"}', "a", Position(0, 0), 0, writes=writes)
    documents = Documents(log.definition, None)
    assert (
        documents.read_with('{"n":2}', Record(b'{"m":1}', "a", Position(0, 0), 0, writes=writes)) is not None
    )
    read = documents.read_with('{"type":"review"}', current)
    assert read is not None
    assert read.writes.hidden == {"type": "mine"}
    assert read.body == b'{"n":1,"type":"review"}'
    after = Record(read.body, "a", Position(0, 1), 0, writes=read.writes)
    assert size_of(after) == read.size_bytes == len(b'{"n":1,"type":"review"}{"type":"mine"}')
    assert documents.read_with(None, current) is None
