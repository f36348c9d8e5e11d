"""The fields that make a record's key, which every delta has: of topics, views and conflated topics."""

from typing import Any

import pytest

from sowline.config.topics import Topics
from sowline.model.difference import Keys

DECLARED: list[dict[str, Any]] = [
    {"name": "orders", "key": ["/id", "/client/day"]},
    {"name": "clients", "key": "/id"},
    {"name": "notes", "key": {"from": "kafka_key"}},
]
GROUPS: dict[str, Any] = {"grouping": ["/who", "/client/day"], "projection": ["SUM(/hours) AS /hours"]}
ONE: dict[str, Any] = {"topic": "clients", "on": "/client/id = /id", "as": "c"}
MANY: dict[str, Any] = {**ONE, "multiply": True}
KEY: Keys = (("id",), ("client", "day"))


def key_fields(view: dict[str, Any], source: str = "orders") -> Keys:
    """Return the key fields of a view, which are also those of a conflated topic of it."""
    views = [{"name": "view", "from": source, **view}]
    slow = [{"name": "slow", "from": "view", "interval": "1s"}]
    topics = Topics.model_validate({"topics": DECLARED, "views": views, "conflated": slow})
    found = topics.named("view").key_fields
    assert topics.named("slow").key_fields == found
    return found


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (GROUPS, (("who",), ("client", "day"))),
        ({**GROUPS, "projection": ["MAX(/hours) AS /who"]}, (("who",), ("client", "day"))),
        ({}, KEY),
        ({"filter": "/hours > 1"}, KEY),
        ({"projection": ["/id", "/client", "/hours"]}, KEY),
        ({"projection": ["/id AS /o/id", "/client AS /c", "/id"]}, (("o", "id"), ("id",), ("c", "day"))),
        ({"projection": ["/client/day", "/hours"]}, (("client", "day"),)),
        ({"projection": ["UPPER(/id) AS /id", "/hours"]}, ()),
        ({"join": [ONE]}, KEY),
        ({"join": [{**ONE, "as": "client"}]}, (("id",),)),
        ({"join": [MANY]}, (*KEY, ("c", "id"))),
        ({"join": [MANY], "projection": ["/id", "/c/id AS /client"]}, (("id",), ("client",))),
        ({"join": [MANY], **GROUPS}, (("who",), ("client", "day"))),
    ],
)
def test_the_key_fields_of_a_view(view: dict[str, Any], expected: Keys) -> None:
    """They are the grouping, or the key fields of the source and of joined topics where the projection has them."""
    assert key_fields(view) == expected


def test_a_source_without_key_fields() -> None:
    """A view of single records has none either; one of groups has those of the grouping."""
    assert key_fields({}, "notes") == ()
    assert key_fields(GROUPS, "notes") == (("who",), ("client", "day"))


def test_the_key_fields_of_a_topic() -> None:
    """They are those of its definition."""
    topics = Topics.model_validate({"topics": DECLARED})
    assert [topic.key_fields for topic in topics.topics] == [KEY, (("id",),), ()]
