"""The columns of a request: paths, types, and what is refused."""

from typing import Any

import pytest

from sowline.errors import SowlineError
from sowline.model.path import parse_path
from sowline.serving.tables.columns import COLUMNS_MAX, TableColumn, requested_columns


def test_a_list_of_paths() -> None:
    """Their values decide about the types; a name is the path without its first slash."""
    columns = requested_columns(["/id", "/customer/name", "/legs[0]/qty", "[/any name]"])
    assert [column.name for column in columns] == ["id", "customer/name", "legs[0]/qty", "any name"]
    assert {column.type for column in columns} == {""}


def test_paths_with_types() -> None:
    """A type may be null."""
    given = {"/id": "int64", "/price": "decimal128(18, 4)", "/note": None}
    assert requested_columns(given) == (
        TableColumn(parse_path("/id"), "int64"),
        TableColumn(parse_path("/price"), "decimal128", 18, 4),
        TableColumn(parse_path("/note")),
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("/id", "as a list of paths, or as an object of paths and types, got '/id'"),
        ([7], "expected the path of a column as a string, got 7"),
        (["id"], "expected a path like"),
        (["/id", "[/id]"], "expected each column once, got id twice"),
        ({"/id": "int32"}, "as the type of the column /id, got 'int32'"),
        ({"/id": "null"}, "as the type of the column /id, got 'null'"),
        ({"/id": 64}, "as the type of the column /id, got 64"),
        ({"/id": "decimal128(39, 0)"}, "expected a precision of 1 to 38, and"),
        ({"/id": "decimal128(4, 5)"}, "a scale up to it,"),
    ],
)
def test_what_is_refused(given: Any, message: str) -> None:
    """It is named, with what was expected."""
    with pytest.raises(SowlineError) as refused:
        requested_columns(given)
    assert refused.value.reason == "bad request"
    assert message in refused.value.message


def test_too_many_columns() -> None:
    """One more than the limit."""
    paths = [f"/f{number}" for number in range(COLUMNS_MAX + 1)]
    assert len(requested_columns(paths[1:])) == COLUMNS_MAX
    with pytest.raises(SowlineError, match="at most 1000 columns") as refused:
        requested_columns(paths)
    assert refused.value.reason == "bad column"
