"""The lines of a dump: what they hold, their order, and what no recovery source may show."""

from typing import Any

import orjson

from sowline.config.topic_definition import define_topic
from sowline.model.limits import Limits
from sowline.model.position import Position
from sowline_materializer.admin.dump import dump_lines
from sowline_materializer.admin.offline_copy import OfflineCopy, fill
from sowline_materializer.core.checkpoint import EVERYTHING, Checkpoint
from sowline_materializer.core.record import Record, encode_record
from sowline_materializer.store.integrity import survey
from tests.memory_store import MemoryStore

DEFINITION = define_topic(name="orders", key="/id", partitions=2)
CHECKPOINT = Checkpoint(
    Position(1, 9),
    Position(1, 8, 2),
    5000,
    {3: 7, 1: 5},
    "d",
    "log",
    limits=Limits(repeat_window=1000),
    records=2,
)
BODY = b'{ "id" : 1.50 }'
RECORDS = {
    b"20": Record(BODY, "1", Position(0, 3), 4000, 9000, {"q": (2, 1, 10), "p": (1, 0, 10)}, "c"),
    b"100": Record(b'{"id":2}', "2", Position(1, 8, 2), 4500),
    b"3": Record(None, "3", Position(1, 8), 4000, None, {"p": (1, 0, 10)}),
    b"4": Record(None, "4", Position(0, 8), 3999, None, {"p": (1, 0, 10)}),
}


def copy_of(records: dict[bytes, Record], checkpoint: Checkpoint = CHECKPOINT) -> OfflineCopy:
    """Return a copy that holds these records."""
    store = MemoryStore()
    fill(store, ((key, encode_record(record)) for key, record in records.items()), checkpoint)
    assert survey(store).checksum == store.checksum()
    return OfflineCopy(store, checkpoint)  # type: ignore[arg-type]


def lines(copy: OfflineCopy) -> list[dict[str, Any]]:
    """Return a dump's lines, read."""
    return [orjson.loads(line) for line in dump_lines(DEFINITION, 1, copy)]


def test_a_dump_is_the_head_and_the_records_in_order() -> None:
    """By the bytes of the SOW keys; a deleted record that is remembered has no data."""
    checkpoint, *records = lines(copy_of(RECORDS))
    assert (
        checkpoint["topic"],
        checkpoint["partition"],
        checkpoint["position"],
        checkpoint["last_change"],
    ) == (
        "orders",
        1,
        "1/9",
        "1/8.2",
    )
    assert (checkpoint["origins"], checkpoint["records"], checkpoint["time"]) == ({"1": 5, "3": 7}, 2, 5000)
    assert [record["sow_key"] for record in records] == ["100", "20", "3"]
    assert records[1] == {
        "sow_key": "20",
        "key": "1",
        "position": "3",
        "time": 4000,
        "expires": 9000,
        "numbers": {"p": [1, 0, 10], "q": [2, 1, 10]},
        "correlation": "c",
        "data": {"id": 1.5},
    }
    assert "data" not in records[2]


def test_a_body_is_printed_as_it_is() -> None:
    """Blanks and zeros too: a dump shows what a query returns."""
    assert any(BODY in line for line in dump_lines(DEFINITION, 1, copy_of(RECORDS)))


def test_numbers_of_another_order_and_what_counts_no_more_make_no_other_dump() -> None:
    """Nor does what a recovery source leaves in the checkpoint: where the changes end, and what to repair."""
    other = {key: record for key, record in reversed(RECORDS.items()) if key != b"4"}
    other[b"20"] = Record(BODY, "1", Position(0, 3), 4000, 9000, {"p": (1, 0, 10), "q": (2, 1, 10)}, "c")
    checkpoint = Checkpoint(
        CHECKPOINT.position,
        CHECKPOINT.last_change,
        CHECKPOINT.time,
        {1: 5, 3: 7},
        "d",
        "log",
        changes_end=8,
        stale_keys=frozenset({EVERYTHING}),
        limits=CHECKPOINT.limits,
        records=2,
        changes_id="x",
    )
    assert list(dump_lines(DEFINITION, 1, copy_of(other, checkpoint))) == list(
        dump_lines(DEFINITION, 1, copy_of(RECORDS))
    )
