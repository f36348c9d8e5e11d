"""Comparing two copies: what is equal, and how what differs is told."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sowline.changes.partials import Partials
from sowline.commands.command import LogRecord
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.kafka.admin import Cluster
from sowline.model.nesting import NESTING_MAX
from sowline.model.position import Position
from sowline_materializer.admin import verify
from sowline_materializer.admin.offline_copy import OfflineCopies, OfflineCopy
from sowline_materializer.admin.verify import (
    DIFFERENCES_MAX,
    StateComparison,
    Verification,
    compare,
    compare_with_source,
    merged,
    sentences,
)
from sowline_materializer.core.batch_state import BatchState
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.errors import NotApplicable
from sowline_materializer.core.record import Record
from sowline_materializer.partition.kafka_partition import KafkaExtent
from tests.unit.materializer.admin.test_dump import BODY, CHECKPOINT, DEFINITION, RECORDS, copy_of


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> OfflineCopies:
    """What makes copies of a partition of no cluster."""
    monkeypatch.setattr(Cluster, "__init__", lambda *_: None)
    return OfflineCopies({}, DEFINITION, 1, tmp_path, lambda *_: None)


def compared(copies: OfflineCopies, changed: dict[bytes, object], **checkpoint: object) -> StateComparison:
    """Compare the records with others, of which some are changed (None: not there)."""
    others = {key: record for key, record in {**RECORDS, **changed}.items() if record is not None}
    other = copy_of(others, replace(CHECKPOINT, **checkpoint))  # type: ignore[arg-type]
    return compare(copies, ("log", copy_of(RECORDS)), ("changes", other))


def test_the_same_is_equal(copies: OfflineCopies) -> None:
    """Counted are records and deleted ones that still count."""
    found = compared(copies, {b"4": None})
    assert (found.equal, found.records, found.differ, found.position) == (True, 3, 0, "1/9")


@pytest.mark.parametrize("levels", [1, NESTING_MAX - 1])
def test_bodies_are_compared_as_json(
    copies: OfflineCopies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, levels: int
) -> None:
    """The text of a number and the order of fields may differ, at any depth."""
    deep, other = (b"[" * levels + number + b"]" * levels for number in (b"1.0", b"10e-1"))
    one = b'{"a":%s,"b":1}' % deep
    monkeypatch.setattr(verify, "recomputed", lambda *_: [(b"1", one), (b"2", one)])
    records = {b"%d" % n: group(b'{"b":%d,"a":%s}' % (n, other)) for n in (1, 2)}
    assert [found["sow_key"] for found in with_source(tmp_path, records).first] == ["2"]


@pytest.mark.parametrize(
    ("key", "record"),
    [
        (b"20", None),
        (b"5", RECORDS[b"20"]),
        (b"3", None),
        *(
            (b"20", RECORDS[b"20"].__class__(*changed))
            for changed in [
                (BODY + b" ", "1", Position(0, 3), 4000, 9000, RECORDS[b"20"].numbers, "c"),
                (BODY, "1", Position(0, 4), 4000, 9000, RECORDS[b"20"].numbers, "c"),
                (BODY, "1", Position(0, 3), 4000, None, RECORDS[b"20"].numbers, "c"),
                (BODY, "1", Position(0, 3), 4000, 9000, {"p": (1, 0, 10)}, "c"),
            ]
        ),
    ],
)
def test_each_difference_of_a_record_is_named(copies: OfflineCopies, key: bytes, record: object) -> None:
    """A missing or a stray one, one byte of the body, a due time, a number: with both sides."""
    found = compared(copies, {key: record})
    assert (found.equal, found.differ, found.checkpoint) == (False, 1, None)
    assert [one["sow_key"] for one in found.first] == [key.decode()]
    assert found.first[0]["log"] != found.first[0]["changes"]
    text = "\n".join(sentences(Verification("orders", 1, [found], ["a note"])))
    assert f"SOW key {key.decode()}:" in text
    assert "differ: 1 of" in text


def test_a_difference_of_the_head_is_named(copies: OfflineCopies) -> None:
    """Records alone do not make a state."""
    found = compared(copies, {}, origins={1: 5})
    assert not found.equal
    assert found.checkpoint == {"origins": {"log": {"1": 5, "3": 7}, "changes": {"1": 5}}}


def test_many_differences_are_counted_and_the_first_are_named(copies: OfflineCopies) -> None:
    """In the order of the SOW keys."""
    strays = {b"%02d" % number: RECORDS[b"100"] for number in range(30)}
    found = compared(copies, {key: record for key, record in strays.items() if key not in RECORDS})
    assert (found.differ, len(found.first)) == (29, DIFFERENCES_MAX)
    assert found.first[0]["sow_key"] == "00"


def test_keys_of_both_sides_are_met_in_order() -> None:
    """Each once, with what each side has."""
    left = copy_of(dict.fromkeys((b"1", b"3"), RECORDS[b"100"]))
    right = copy_of(dict.fromkeys((b"2", b"3", b"4"), RECORDS[b"100"]))
    found = [(key, one is not None, other is not None) for key, one, other in merged(left, right)]
    assert found == [(b"1", True, False), (b"2", False, True), (b"3", True, True), (b"4", False, True)]


def test_nothing_compared_is_not_equal() -> None:
    """Anyone who asks must not take silence for a yes."""
    verdict = Verification("orders", 1, [], ["why"])
    assert not verdict.equal
    assert list(sentences(verdict)) == ["orders [1]: why", "orders [1]: nothing could be compared"]


# views

TOPICS = parse_topics("""
topics:
  - {name: trades, key: /id, partitions: 2}
  - {name: accounts, key: /id}
views:
  - name: sums
    from: trades
    partitions: 1
    grouping: [/account]
    projection: [SUM(/qty) AS /sold]
    having: /sold > 1
  - name: joined
    from: trades
    partitions: 1
    join: [{topic: accounts, on: /account = /id, as: owner}]
    projection: [/account, /owner/region AS /region]
  - {name: itself, from: trades, join: [{topic: trades, on: /account = /id, as: parent}]}
""")
REFLECTED = {0: Position(0, 4), 1: Position(0, 6)}
TRADES: dict[int, dict[bytes, bytes | None]] = {
    0: {b"1": b'{"account":"acme","qty":2}', b"2": b'{"account":"bolt","qty":1}'},
    1: {b"3": b'{"account":"acme","qty":3}', b"4": None},
}


ACCOUNTS: dict[bytes, bytes | None] = {b"7": b'{"id":"acme","region":"eu"}', b"8": None}
TAKEN = {0: "trades:0@4;accounts:0@3", 1: "trades:1@6;accounts:0@3"}


def source_copies(topic: str, number: int) -> Any:
    """Lend copies of a partition of a topic, which have the records of one position."""
    held = TRADES[number] if topic == "trades" else ACCOUNTS
    at_position = REFLECTED[number] if topic == "trades" else Position(0, 3)

    class Copies:
        definition = TOPICS.named(topic)

        def at(self, position: Position) -> OfflineCopy:
            assert position == at_position
            return copy_of({key: Record(body, key.decode(), position, 1) for key, body in held.items()})

    @contextmanager
    def lent() -> Iterator[Copies]:
        yield Copies()

    return lent()


def group(body: bytes | None, states: bytes = b'{"0":["4",[]],"1":["6",[]]}') -> Record:
    """Return the record of a group."""
    return Record(body, "", Position(0, 9), 1, states=states)


class NoKafka(OfflineCopies):
    """Copies of a partition whose log has these messages."""

    messages: tuple[Partials, ...] = ()

    def extent(self) -> KafkaExtent:
        """Return an extent."""
        return KafkaExtent("log", 0, len(self.messages), 0, 9, "changes")

    def log(self, start: int, end: int, what: str) -> Iterator[list[LogRecord]]:
        """Yield the messages."""
        yield [LogRecord(offset, 0, None, one.encode(), []) for offset, one in enumerate(self.messages)]


def with_source(
    tmp_path: Path, records: dict[bytes, Record], name: str = "sums", messages: tuple[Partials, ...] = ()
) -> StateComparison:
    """Compare the records of a view with its source."""
    definition: TopicDefinition = TOPICS.named(name)
    copies = NoKafka({}, definition, 0, tmp_path, lambda *_: None)
    copies.messages = messages
    changes = copy_of(records, Checkpoint(Position(0, 9), reflected=REFLECTED, taken=TAKEN))
    return compare_with_source(copies, changes, source_copies)


def test_a_view_is_compared_with_its_source(copies: OfflineCopies, tmp_path: Path) -> None:
    """A group that `having` hides is no record, and the text of a number does not matter."""
    found = with_source(
        tmp_path, {b'["acme"]': group(b'{"account":"acme","sold":5}'), b'["bolt"]': group(None)}
    )
    assert (found.equal, found.records, found.position) == (True, 1, "9")
    other = with_source(tmp_path, {b'["acme"]': group(b'{"sold": 5, "account": "acme"}')})
    assert other.equal


def test_a_record_that_its_source_does_not_make_is_named(copies: OfflineCopies, tmp_path: Path) -> None:
    """With its SOW key, what is held, and what was computed: a wrong one, and one that should not be there."""
    wrong = {b'["acme"]': group(b'{"account":"acme","sold":5.0}'), b'["bolt"]': group(b'{"account":"bolt"}')}
    found = with_source(tmp_path, wrong)
    assert (found.equal, found.records, found.differ) == (False, 2, 2)
    assert [one["source"] for one in found.first] == [{"data": '{"account":"acme","sold":5}'}, None]
    text = "\n".join(sentences(Verification("sums", 0, [found], [])))
    assert "sums [0]: source and changes at 9 differ: 2 of 2 records" in text
    assert 'SOW key ["bolt"]:' in text
    missing = with_source(tmp_path, {})
    assert (missing.differ, missing.first[0]["changes"]) == (1, None)


def test_a_view_with_joins_is_compared_with_all_that_it_reads(copies: OfflineCopies, tmp_path: Path) -> None:
    """A record without a match counts in a left join."""
    records = {
        b"1": group(b'{"account":"acme","region":"eu"}', b'{"0":["4",{}]}'),
        b"2": group(b'{"account":"bolt","region":null}', b'{"0":["4",{}]}'),
        b"3": group(b'{"account":"acme","region":"us"}', b'{"1":["6",{}]}'),
    }
    found = with_source(tmp_path, records, "joined")
    assert (found.records, [one["sow_key"] for one in found.first]) == (3, ["3"])


def test_a_view_that_has_no_positions_is_not_compared(copies: OfflineCopies, tmp_path: Path) -> None:
    """If it joins a topic to itself, and while the first messages of many states have been applied."""
    with pytest.raises(SowlineError, match="it joins its source to itself"):
        with_source(tmp_path, {}, "itself")
    with pytest.raises(SowlineError, match=r"many states of trades \[1\], and has not ended. Wait"):
        with_source(tmp_path, {b'["acme"]': group(None, b'{"0":["4",[]],"1":["7",[]]}')})
    step = Partials(TOPICS.named("joined").digest, 0, "4", "5", [], ends=False)
    with pytest.raises(SowlineError, match=r"many states of trades \[0\], and has not ended. Wait"):
        with_source(tmp_path, {}, "joined", (step,))


def test_a_record_that_can_not_be_applied_ends_the_copy(
    copies: OfflineCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy that continued behind it would lack the record, and be compared as if it were whole."""
    begin_record = BatchState.begin

    def failing(state: BatchState, record: LogRecord) -> None:
        if record.offset == 2:
            raise TypeError("unforeseen")
        begin_record(state, record)

    monkeypatch.setattr(BatchState, "begin", failing)
    records = [LogRecord(offset, 5001, None, b'{"id":%d}' % offset, []) for offset in range(6)]
    monkeypatch.setattr(copies, "log", lambda *_: iter([records[:4], records[4:]]))
    begin = Checkpoint(definition=DEFINITION.digest, limits=DEFINITION.limits, log_id="log")
    with pytest.raises(NotApplicable) as error:
        copies.lead_on(copy_of({}, begin), Position(0, 5))
    assert error.value.offset == 2
