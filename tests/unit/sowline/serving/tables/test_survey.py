"""The types that the values of records give to columns."""

from typing import Any

import pytest

from sowline.errors import SowlineError
from sowline.serving.tables.columns import COLUMNS_MAX, requested_columns
from sowline.serving.tables.sow_records import SentRecord
from sowline.serving.tables.survey import ColumnSurvey, kind_of, values_of


def surveyed(*values: Any) -> ColumnSurvey:
    """Return a survey of records with these values, two at once; `...` is a record without one."""
    survey = ColumnSurvey(())
    records = [
        SentRecord({} if value is ... else {"v": value}, f"key {number}")
        for number, value in enumerate(values)
    ]
    for start in range(0, len(records), 2):
        survey.note(records[start : start + 2])
    return survey


@pytest.mark.parametrize(
    ("values", "type"),
    [
        ([True, None, False], "bool"),
        ([1, ..., -(2**63), 2**63 - 1], "int64"),
        ([0, 2**64 - 1], "uint64"),
        ([1.5, 2**53, -(2**53)], "double"),
        ([..., "text"], "text"),
        ([{"a": 1}, [1]], "text"),
        ([None, None], "null"),
    ],
)
def test_the_type_of_a_column(values: list[Any], type: str) -> None:
    """Of all its values; a missing one and a null say nothing."""
    ((column),) = surveyed(*values).columns()
    assert (column.name, column.type) == ("v", type)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([None, 1, "1"], "got an integer in record key 1 and a string in record key 2: choose its type"),
        (["", {}, []], "got a string in record key 0 and an object in record key 1"),
        ([..., True, 1], "got a boolean in record key 1 and an integer in record key 2"),
        (
            [-1, 2**64 - 1],
            "expected integers of 64 bits in the column v, got others in record key 0 and key 1",
        ),
        ([0, 2**64], "got others in record key 1"),
        ([-(2**63) - 1, 0], "got others in record key 0"),
        ([0.5, 1, 2**53 + 1], "got a fraction in record key 0 and an integer beyond 53 bits in record key 2"),
    ],
)
def test_values_without_a_common_type(values: list[Any], message: str) -> None:
    """The error names the records, so that their writer can be found."""
    with pytest.raises(SowlineError) as refused:
        surveyed(*values).columns()
    assert refused.value.reason == "bad column"
    assert message in refused.value.message


def test_requested_columns() -> None:
    """Only these; a type that is requested stays, whatever the values are."""
    survey = ColumnSurvey(requested_columns({"/a/b": None, "/c": "text", "/none": None}))
    survey.note([SentRecord({"a": {"b": 1}, "c": 2, "other": [3]})])
    assert [(column.name, column.type) for column in survey.columns()] == [
        ("a/b", "int64"),
        ("c", "text"),
        ("none", "null"),
    ]


def test_too_many_fields() -> None:
    """Records that have a field for each of many things make no table."""
    survey = ColumnSurvey(())
    survey.note([SentRecord({f"f{number}": 1 for number in range(COLUMNS_MAX)})])
    with pytest.raises(SowlineError, match="at most 1000 columns"):
        survey.note([SentRecord({"one more": 1})])


def test_the_values_of_a_column() -> None:
    """None where a record has none; those within an array together."""
    documents = [{"a": 1, "legs": [{"qty": 2}, {"qty": 3}]}, {}]
    a, qty, first = requested_columns(["/a", "/legs/qty", "/legs[0]/qty"])
    assert values_of(a, documents) == [1, None]
    assert values_of(qty, documents) == [[2, 3], None]
    assert values_of(first, documents) == [2, None]


def test_the_kinds_of_values() -> None:
    """As messages name them."""
    values: tuple[object, ...] = (None, False, 0, 0.5, "", {}, [])
    assert [kind_of(value) for value in values] == [
        "null",
        "a boolean",
        "an integer",
        "a fraction",
        "a string",
        "an object",
        "an array",
    ]
