"""The lines of a dump: what they hold, their order, and what no road may show."""

from typing import Any

import orjson

from materializer.aside import Copy, fill
from materializer.dump import dump_lines
from materializer.head import EVERYTHING, Head
from materializer.record import Record, encode_record
from materializer.recovery import walk
from materializer.store import MemoryStore
from sowline.limits import Limits
from sowline.position import Position
from sowline.topics import TopicDefinition

DEFINITION = TopicDefinition.model_validate({"name": "orders", "key": "/id", "partitions": 2})
HEAD = Head(
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


def copy_of(records: dict[bytes, Record], head: Head = HEAD) -> Copy:
    """Return a copy that holds these records."""
    store = MemoryStore()
    fill(store, ((key, encode_record(record)) for key, record in records.items()), head, batch_max=3)  # type: ignore[arg-type]
    assert walk(store) == store.tally()
    return Copy(store, head)  # type: ignore[arg-type]


def lines(copy: Copy) -> list[dict[str, Any]]:
    """Return a dump's lines, read."""
    return [orjson.loads(line) for line in dump_lines(DEFINITION, 1, copy)]


def test_a_dump_is_the_head_and_the_records_in_order() -> None:
    """By the bytes of the SOW keys; a deleted record that is remembered has no data."""
    head, *records = lines(copy_of(RECORDS))
    assert (head["topic"], head["partition"], head["position"], head["last_change"]) == (
        "orders",
        1,
        "1/9",
        "1/8.2",
    )
    assert (head["origins"], head["records"], head["time"]) == ({"1": 5, "3": 7}, 2, 5000)
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
    """Nor does what a road leaves behind in the head: where the changes end, and what is to be put right."""
    other = {key: record for key, record in reversed(RECORDS.items()) if key != b"4"}
    other[b"20"] = Record(BODY, "1", Position(0, 3), 4000, 9000, {"p": (1, 0, 10), "q": (2, 1, 10)}, "c")
    head = Head(
        *(getattr(HEAD, name) for name in ("position", "last_change", "time")),
        {1: 5, 3: 7},
        "d",
        "log",
        changes_end=8,
        spoiled=frozenset({EVERYTHING}),
        limits=HEAD.limits,
        records=2,
        changes_id="x",
    )
    assert list(dump_lines(DEFINITION, 1, copy_of(other, head))) == list(
        dump_lines(DEFINITION, 1, copy_of(RECORDS))
    )
