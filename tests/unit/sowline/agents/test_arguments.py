"""The arguments of tools: what is refused, and the requests that they become."""

from typing import Any

import pytest

from sowline.agents.arguments import (
    ChangesArguments,
    ExplainArguments,
    QueryArguments,
    WaitArguments,
    changes_parameters,
    options_of,
    page_fields,
    query_fields,
    read_arguments,
    schema_of,
    waiting_parameters,
)
from sowline.agents.catalog import TOOLS, WRITE_TOOLS
from sowline.errors import SowlineError

REQUIRED = {
    "topics": [],
    "record": ["topic", "key"],
    "publish": ["topic", "record"],
    "delete": ["topic", "sow_keys"],
}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "missing required field `topic`"),
        ({"topic": ""}, "length >= 1"),
        ({"topic": "t", "color": "red"}, "unknown field `color`"),
        ({"topic": "t", "limit": 0}, "`int` >= 1 - at `$.limit`"),
        ({"topic": "t", "limit": 1001}, "`int` <= 1000 - at `$.limit`"),
        ({"topic": "t", "limit": "5"}, "Expected `int`, got `str` - at `$.limit`"),
        ({"topic": "t", "select": "/id"}, "Expected `array`, got `str` - at `$.select`"),
    ],
)
def test_wrong_arguments_are_refused(given: dict[str, Any], why: str) -> None:
    """With a sentence by which the agent can correct its call."""
    with pytest.raises(SowlineError) as refused:
        read_arguments(QueryArguments, given)
    assert refused.value.reason == "bad request"
    assert why in refused.value.message


@pytest.mark.parametrize("tool", [*TOOLS, *WRITE_TOOLS], ids=lambda tool: tool.name)
def test_the_schema_of_each_tool(tool: Any) -> None:
    """It is an object without other properties, and each property has its description."""
    schema = schema_of(tool.arguments)
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    assert all(about["description"] for about in schema["properties"].values())
    assert schema["required"] == REQUIRED.get(tool.name, ["topic"])


def test_the_limits_are_in_the_schema() -> None:
    """An agent sees them before it calls."""
    properties = schema_of(WaitArguments)["properties"]
    assert properties["seconds"]["maximum"] == 50
    assert (properties["limit"]["minimum"], properties["limit"]["maximum"]) == (1, 1000)


def test_a_query_is_one_record_longer() -> None:
    """So that the answer knows whether there are more."""
    asked = QueryArguments(
        topic="t", filter="/a = 1", order_by="/a", select=("/a", "/b/c"), limit=5, skip=2, bookmark="t:0@3"
    )
    assert page_fields(asked) == {
        "filter": "/a = 1",
        "order_by": "/a",
        "options": "select=[-/,+/a,+/b/c]",
        "top_n": 6,
        "skip_n": 2,
        "bookmark": "t:0@3",
    }


def test_groups_are_options() -> None:
    """A part of a group's fields alone is refused by the service, which says what is missing."""
    asked = ExplainArguments(topic="t", group_by=("/a", "/b"), compute=("/a", "SUM(/n) AS /n"))
    assert query_fields(asked) == {"options": "grouping=[/a,/b],projection=[/a,SUM(/n) AS /n]"}
    assert options_of(ExplainArguments(topic="t", group_by=("/a",))) == "grouping=[/a],projection=[]"


@pytest.mark.parametrize("field", ["/a],format=native,select=[+/b", "a", "", "/a[0]", "/a,-/b"])
def test_what_is_no_field_is_no_option(field: str) -> None:
    """A field can't end the list and begin another option, or another directive."""
    with pytest.raises(SowlineError) as refused:
        options_of(ChangesArguments(topic="t", select=("/id", field)))
    assert refused.value.reason == "invalid options"


def test_changes_end_now() -> None:
    """From the bookmark to the newest change; without one, the range is empty."""
    assert changes_parameters(
        ChangesArguments(topic="t", filter="/a = 1", after="t:0@3", select=("/a",))
    ) == {
        "filter": "/a = 1",
        "options": "oof,select=[-/,+/a]",
        "bookmark": "t:0@3",
        "up_to": "now",
    }
    assert changes_parameters(ChangesArguments(topic="t")) == {
        "options": "oof",
        "bookmark": "now",
        "up_to": "now",
    }


def test_a_wait_has_no_end() -> None:
    """It begins after a bookmark."""
    assert waiting_parameters(WaitArguments(topic="t", filter="/a = 1"), "t:0@3") == {
        "filter": "/a = 1",
        "bookmark": "t:0@3",
    }
