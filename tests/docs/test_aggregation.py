"""The specification, docs/aggregation.md, is true: each line of its tables is run."""

import json

import orjson
import pytest

from sowline.language.expressions.projection import (
    AGGREGATES,
    GroupingError,
    ProjectionError,
    parse_grouping,
    parse_projection,
)
from sowline.language.groups import Groups
from tests.docs.pages import rows_of, text_of

PAGE = "docs/aggregation.md"


GROUPED = rows_of(PAGE, "grouping", "projection", "records", "results")
AGGREGATED = rows_of(PAGE, "aggregate", "values", "result")
PROJECTION_ERRORS = rows_of(PAGE, "projection", "error")
GROUPING_ERRORS = rows_of(PAGE, "grouping", "error")


def results(grouping: str, projection: str, records: str) -> set[str]:
    """The bodies of the groups, as JSON texts."""
    groups = Groups("orders", parse_grouping(grouping), parse_projection(projection), groups_max=100)
    groups.load((b"%d" % n, document, (n,)) for n, document in enumerate(orjson.loads(records)))
    return {body.decode() for _, body in groups.records()}


@pytest.mark.parametrize(("grouping", "projection", "records", "expected"), GROUPED)
def test_grouped(grouping: str, projection: str, records: str, expected: str) -> None:
    """Records shown with a grouping and a projection have the results that the table says."""
    wanted = {json.dumps(result, separators=(",", ":")) for result in json.loads(expected)}
    assert results(grouping, projection, records) == wanted


@pytest.mark.parametrize(("aggregate", "values", "result"), AGGREGATED)
def test_aggregate(aggregate: str, values: str, result: str) -> None:
    """An aggregate of the values shown is what the table says, down to the kind of number."""
    records = orjson.dumps([{"v": value} for value in orjson.loads(values)]).decode()
    (body,) = results("/k", f"{aggregate} AS /r", records)
    assert body == f'{{"r":{result}}}'


@pytest.mark.parametrize(("text", "message"), PROJECTION_ERRORS)
def test_projection_error(text: str, message: str) -> None:
    """A text shown with an error is refused with exactly that sentence."""
    with pytest.raises(ProjectionError) as error:
        parse_projection(text)
    assert (error.value.reason, str(error.value)) == ("invalid projection", message)


@pytest.mark.parametrize(("text", "message"), GROUPING_ERRORS)
def test_grouping_error(text: str, message: str) -> None:
    """A text shown with an error is refused with exactly that sentence."""
    with pytest.raises(GroupingError) as error:
        parse_grouping(text)
    assert (error.value.reason, str(error.value)) == ("invalid grouping", message)


@pytest.mark.parametrize("name", AGGREGATES)
def test_every_aggregate_is_specified(name: str) -> None:
    """There is an example of every aggregate."""
    assert any(aggregate.startswith(f"{name}(") for aggregate, _, _ in AGGREGATED)


def test_all_tables_are_found() -> None:
    """No table escapes: each table row is an example, an error, or a heading."""
    lines = text_of(PAGE).splitlines()
    tables = sum(line.startswith("|---") for line in lines)
    found = len(GROUPED) + len(AGGREGATED) + len(PROJECTION_ERRORS) + len(GROUPING_ERRORS)
    assert sum(line.startswith("|") for line in lines) == found + 2 * tables
