"""Tables of random records: a reader gets each value that was written, or the error names a column that can't be."""

import math
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
from hypothesis import event, given
from hypothesis import strategies as st

from sowline.errors import SowlineError
from sowline.model.exact_numbers import write_exact
from sowline.serving.tables.batches import TableWriter
from sowline.serving.tables.columns import TableColumn, requested_columns
from sowline.serving.tables.sow_records import read_sow_records
from sowline.serving.tables.survey import ColumnSurvey
from tests.examples import examples

KINDS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint64": st.integers(2**63, 2**64 - 1),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "text": st.text(),
    "nested": st.lists(st.integers() | st.text(max_size=3), max_size=3)
    | st.dictionaries(st.text(max_size=3), st.integers(), max_size=3),
    "large": st.integers(2**64, 2**70),
}
NAMES = ("a", "é", "with space", "", "x/y", 'q"\n\\')


@st.composite
def rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return records; the values of most fields are of one kind."""
    kinds = {
        name: draw(
            st.sets(st.sampled_from(sorted(KINDS)), min_size=1, max_size=draw(st.sampled_from([1, 1, 1, 2])))
        )
        for name in draw(st.sets(st.sampled_from(NAMES)))
    }
    fields = {
        name: st.none() | st.one_of(*(KINDS[kind] for kind in sorted(of))) for name, of in kinds.items()
    }
    return draw(st.lists(st.fixed_dictionaries({}, optional=fields), max_size=6))


def shown(value: Any) -> Any:
    """Return a value as a table has it."""
    return write_exact(value).decode() if isinstance(value, dict | list) else value


def kinds_of(values: list[Any]) -> set[type]:
    """Return the types of values that are there."""
    return {list if isinstance(value, dict) else type(value) for value in values if value is not None}


def fits(values: list[Any]) -> bool:
    """Return whether values have a common type."""
    kinds, integers = kinds_of(values), [value for value in values if type(value) is int]
    if float in kinds:
        return kinds <= {int, float} and all(abs(one) <= 2**53 for one in integers)
    if int in kinds and (max(integers) >= 2**64 or (max(integers) >= 2**63 and min(integers) < 0)):
        return False
    return len(kinds) <= 1 and all(one >= -(2**63) for one in integers)


def table(documents: list[dict[str, Any]], size: int) -> pa.Table:
    """Return what a reader has of these records, sent in batches of a size."""
    sent = [b'{"sow_key":"%d","data":%b}' % (at, write_exact(one)) for at, one in enumerate(documents)]
    batches = [sent[start : start + size] for start in range(0, len(sent), size)]
    survey = ColumnSurvey(())
    for batch in batches:
        survey.note(read_sow_records(batch))
    columns: tuple[TableColumn, ...] = survey.columns()
    writer = TableWriter(columns, {})
    stream = b"".join((writer.head(), *map(writer.batch, batches), writer.end()))
    return pa.ipc.open_stream(stream).read_all()


@examples(300)
@given(rows(), st.integers(1, 4))
def test_a_round_trip(documents: list[dict[str, Any]], size: int) -> None:
    """Value by value, with missing and null as one null; an error if, and only if, a column has no common type."""
    names = sorted({name for document in documents for name in document})
    columns = {name: [document.get(name) for document in documents] for name in names}
    unfit = [name for name, values in columns.items() if not fits(values)]
    try:
        read = table(documents, size)
    except SowlineError as error:
        event("an error")
        assert error.reason == "bad column"
        assert any(f"in the column {name}," in error.message for name in unfit)
        return
    event("a table")
    assert not unfit
    assert sorted(read.column_names) == names
    for name, values in columns.items():
        got = read[name].to_pylist()
        assert got == [shown(value) for value in values]
        assert all(map(same_kind, got, values))


def same_kind(got: Any, value: Any) -> bool:
    """Return whether a value kept its kind: an integer among fractions is a double, and 1 is not True."""
    if type(value) is int and type(got) is float:
        return got == value
    if type(value) is float:
        return math.copysign(1, value) == math.copysign(1, got)
    return type(got) is type(shown(value))


@examples(100)
@given(st.lists(st.integers(-(10**16), 10**16).map(lambda whole: Decimal(whole).scaleb(-4)), max_size=5))
def test_decimals_are_exact(values: list[Any]) -> None:
    """Whether they are written as numbers or as strings, whatever a double could hold."""
    forms = [
        f"{value:f}" if at % 2 else orjson.dumps(f"{value:f}").decode() for at, value in enumerate(values)
    ]
    sent = [b'{"sow_key":"%d","data":{"v":%b}}' % (at, form.encode()) for at, form in enumerate(forms)]
    writer = TableWriter(requested_columns({"/v": "decimal128(18, 4)"}), {})
    stream = writer.head() + writer.batch(sent) + writer.end()
    assert pa.ipc.open_stream(stream).read_all()["v"].to_pylist() == values
