"""Comparing two copies: what is equal, and how what differs is told."""

from dataclasses import replace
from pathlib import Path

import pytest

from materializer.admin.offline_copy import OfflineCopies
from materializer.admin.verify import (
    DIFFERENCES_MAX,
    StateComparison,
    Verification,
    compare,
    merged,
    sentences,
)
from sowline.kafka.admin import Cluster
from sowline.model.position import Position
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
