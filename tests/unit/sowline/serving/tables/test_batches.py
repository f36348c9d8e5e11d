"""Arrow streams: what pyarrow reads of what is written."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest

from sowline.errors import SowlineError
from sowline.model.path import Path
from sowline.serving.tables.batches import TableWriter
from sowline.serving.tables.columns import TableColumn, requested_columns


def sent(*values: str) -> list[bytes]:
    """Return records as they are sent, with a value as JSON; an empty text is a record without one."""
    return [
        b'{"sow_key":"key %d","data":{%b}}' % (number, f'"v":{value}'.encode() if value else b"")
        for number, value in enumerate(values)
    ]


def table(columns: Sequence[TableColumn], *batches: list[bytes]) -> pa.Table:
    """Return the table that a reader has of these batches."""
    writer = TableWriter(columns, {"sowline.bookmark": "orders:0@7"})
    stream = b"".join((writer.head(), *map(writer.batch, batches), writer.end()))
    return pa.ipc.open_stream(stream).read_all()


@pytest.mark.parametrize(
    ("type", "values", "expected"),
    [
        ("bool", ["true", "", "null", "false"], [True, None, None, False]),
        ("int64", ["-9223372036854775808", "9223372036854775807"], [-(2**63), 2**63 - 1]),
        ("uint64", ["18446744073709551615", ""], [2**64 - 1, None]),
        ("double", ["1", "0.1", "9007199254740992", "1e3"], [1.0, 0.1, 2.0**53, 1000.0]),
        ("text", ['"é"', '"2026-11-29T10:00:00Z"', '""'], ["é", "2026-11-29T10:00:00Z", ""]),
        ("text", ['"a"', "1.50", "true", "[1, 0.10]", ""], ["a", "1.50", "true", "[1,0.10]", None]),
        (
            "decimal128(38, 2)",
            ["0.1", "18446744073709551616", '"-2.50"', "null"],
            [Decimal("0.10"), Decimal("18446744073709551616.00"), Decimal("-2.50"), None],
        ),
    ],
)
def test_values_of_each_type(type: str, values: list[str], expected: list[Any]) -> None:
    """Exactly what was written; missing and null are one null."""
    read = table(requested_columns({"/v": type}), sent(*values[:1]), sent(*values[1:]))
    assert read["v"].to_pylist() == expected
    assert read.schema.metadata == {b"sowline.bookmark": b"orders:0@7"}


@pytest.mark.parametrize(
    ("type", "values", "message"),
    [
        (
            "bool",
            ["true", "1"],
            "expected values of bool in the column v, got an integer that is none in record key 1",
        ),
        ("int64", ["1", "9223372036854775808"], "got an integer that is none in record key 1"),
        ("int64", ["1", "2.0"], "got a fraction that is none in record key 1"),
        ("int64", ["true"], "got a boolean that is none in record key 0"),
        ("uint64", ["-1"], "got an integer that is none in record key 0"),
        ("double", ["0.5", "9007199254740993"], "got an integer that is none in record key 1"),
        ("double", ['"0.5"'], "got a string that is none in record key 0"),
        ("decimal128(3, 1)", ["99.9", "0.25"], "values of decimal128(3, 1) in the column v, got a fraction"),
        ("decimal128(3, 1)", ["99.9", "100"], "got an integer that is none in record key 1"),
        ("decimal128(3, 1)", ['"NaN"'], "got a string that is none in record key 0"),
        ("decimal128(3, 1)", ['"one"'], "got a string that is none in record key 0"),
        ("decimal128(3, 1)", ["[1]"], "got an array that is none in record key 0"),
    ],
)
def test_values_that_do_not_fit(type: str, values: list[str], message: str) -> None:
    """The error names the record."""
    with pytest.raises(SowlineError) as refused:
        table(requested_columns({"/v": type}), sent(*values))
    assert refused.value.reason == "bad column"
    assert message in refused.value.message


def test_columns_below_a_field() -> None:
    """Each finds what a path finds in a whole record: nothing, a value, or the values within an array."""
    sent = [
        b'{"sow_key":"1","data":{"legs":[{"qty":1},{"qty":2}],"to":{"name":"a"}}}',
        b'{"sow_key":"2","data":{"to":"b"}}',
    ]
    paths = {"/legs/qty": "text", "/legs[1]/qty": "int64", "/to/name": "text", "/to": "text"}
    assert table(requested_columns(paths), sent).to_pydict() == {
        "legs/qty": ["[1,2]", None],
        "legs[1]/qty": [2, None],
        "to/name": ["a", None],
        "to": ['{"name":"a"}', "b"],
    }


def test_columns_without_values() -> None:
    """One of a requested type, and one that has none; a table may even have no columns."""
    columns = (*requested_columns({"/w": "int64"}), TableColumn(Path(("n",)), "null"))
    read = table(columns, sent("1", "2"))
    assert read.schema.types == [pa.int64(), pa.null()]
    assert read.to_pylist() == [{"w": None, "n": None}] * 2
    assert table((), sent("1")).num_columns == 0


def test_a_stream_that_is_not_whole() -> None:
    """No reader takes it for a whole one, and the error is in it."""
    columns = requested_columns({"/v": "int64"})
    writer = TableWriter(columns, {})
    failure = writer.failure(SowlineError("result too large", "expected less"))
    with pytest.raises((pa.ArrowInvalid, OSError)):
        pa.ipc.open_stream(writer.head() + writer.batch(sent("1")) + failure).read_all()
    assert orjson.loads(failure[8:]) == {"reason": "result too large", "message": "expected less"}
