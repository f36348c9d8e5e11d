"""Joins in `topics.yaml`: which topics a view can join, and by which fields."""

from typing import Any

import pytest
from pydantic import ValidationError

from sowline.config.topics import Topics

ORDERS: dict[str, Any] = {"name": "orders", "key": "/id"}
CUSTOMERS: dict[str, Any] = {"name": "customers", "key": "/id"}
NOTES: dict[str, Any] = {"name": "notes", "key": {"from": "kafka_key"}}
DESKS: dict[str, Any] = {
    "name": "desks",
    "from": "customers",
    "grouping": ["/desk"],
    "projection": ["COUNT(1) AS /n"],
}


def topics(
    join: dict[str, Any], *views: dict[str, Any], conflated: tuple[dict[str, Any], ...] = ()
) -> Topics:
    """Return the topics with a view of orders that has this join."""
    joined = {"name": "joined", "from": "orders", "join": [{"as": "c", **join}]}
    return Topics.model_validate(
        {"topics": [ORDERS, CUSTOMERS, NOTES], "views": [DESKS, joined, *views], "conflated": list(conflated)}
    )


def refused(*given: Any, **more: Any) -> str:
    """Return why the topics are refused."""
    with pytest.raises(ValidationError) as refusal:
        topics(*given, **more)
    (error,) = refusal.value.errors()
    return str(error["msg"])


ON_ID: dict[str, Any] = {"on": "/customer = /id"}
BY_NAME: dict[str, Any] = {"name": "by.name", "from": "customers"}
SLOW: dict[str, Any] = {"name": "slow", "interval": "1s"}


def test_a_join_by_other_fields_than_the_key_multiplies() -> None:
    """The refusal names the option."""
    assert "multiply: true if several may" in refused({"topic": "customers", "on": "/desk = /desk"})
    for join in ({"topic": "customers", "on": "/desk = /desk"}, {"topic": "notes", **ON_ID}):
        view = topics({**join, "multiply": True}).named("joined").view
        assert view is not None
        assert view.described()["joins"][0]["multiply"]
        assert not view.has_keys_of_source


def test_names_in_brackets_are_joined_and_grouped_by() -> None:
    """They may have blanks, and what separates equalities elsewhere."""
    made = Topics.model_validate(
        {
            "topics": [
                {"name": "orders", "key": "/id"},
                {"name": "units", "key": ["[/unit id]", "[/a = b AND c]"]},
            ],
            "views": [
                {
                    "name": "joined",
                    "from": "orders",
                    "join": [
                        {
                            "topic": "units",
                            "on": "/line[/unit id] = [/unit id] AND [/a = b AND c]=[/a = b AND c]",
                            "as": "u",
                        }
                    ],
                    "grouping": ["[/unit id]", "/u[/unit id]"],
                    "projection": ["UPPER([/unit id]) AS [/unit id]", "COUNT(1) AS /n"],
                }
            ],
        }
    ).named("joined")
    assert made.view is not None
    assert [str(path) for one in made.view.joins[0].equalities for path in one] == [
        "/line[/unit id]",
        "[/unit id]",
        "[/a = b AND c]",
        "[/a = b AND c]",
    ]
    assert made.view.projected is not None
    assert [field.output for field in made.view.projected.fields] == [("u", "unit id"), ("unit id",), ("n",)]
    assert made.key_fields == (("unit id",), ("u", "unit id"))


def test_the_definition_is_another_one_if_a_join_multiplies() -> None:
    """The records are others."""
    one, other = (topics({"topic": "customers", **ON_ID, "multiply": given}) for given in (False, True))
    assert one.named("joined").digest != other.named("joined").digest


@pytest.mark.parametrize(
    "view",
    [
        {},
        {"filter": "/desk = 1"},
        {"projection": ["/id", "/desk AS /d"]},
        {"join": [{"topic": "desks", "on": "/desk = /desk", "as": "d"}]},
    ],
)
def test_a_view_that_keeps_the_key_fields_is_joined_by_them(view: dict[str, Any]) -> None:
    """It has the SOW keys of its source. A conflated topic has them, too."""
    slow = {**SLOW, "from": "by.name"}
    for topic in ("by.name", "slow"):
        made = topics({"topic": topic, **ON_ID}, {**BY_NAME, **view}, conflated=(slow,))
        assert made.named(topic).identified_by == (("id",),)
        assert made.named(topic).identity.name == "customers"


def test_a_conflated_view_of_groups_is_joined_by_what_it_groups_by() -> None:
    """A view of single records of it, too."""
    conflated = ({**SLOW, "from": "desks"},)
    view = {"name": "by.name", "from": "slow", "filter": "/n > 1", "projection": ["/desk", "/n"]}
    made = topics({"topic": "by.name", "on": "/desk = /desk"}, view, conflated=conflated)
    assert made.named("by.name").identified_by == (("desk",),)
    assert made.named("by.name").identity.name == "desks"


@pytest.mark.parametrize(
    ("topic", "view", "reason"),
    [
        ("notes", {}, "joins topic 'notes', whose SOW keys are not made of fields of its records"),
        ("by.name", {"projection": ["/desk"]}, "do not have the key field /id of 'customers'"),
        ("by.name", {"projection": ["UPPER(/id) AS /id"]}, "do not have the key field /id of 'customers'"),
        (
            "by.name",
            {"join": [{"topic": "desks", "on": "/desk = /desk", "as": "id"}]},
            "do not have the key field /id of 'customers'",
        ),
        ("by.name", {"from": "notes"}, "which has the records of 'notes', whose SOW keys are not made"),
        (
            "by.name",
            {"join": [{"topic": "desks", "on": "/desk = /n", "as": "d", "multiply": True}]},
            "whose records are pairs of joined records",
        ),
    ],
)
def test_a_topic_without_key_fields_is_joined_only_with_multiply(
    topic: str, view: dict[str, Any], reason: str
) -> None:
    """The refusal says why no fields identify its records."""
    views = ({**BY_NAME, **view},)
    message = refused({"topic": topic, **ON_ID}, *views)
    assert reason in message
    assert "add multiply: true" in message
    assert topics({"topic": topic, **ON_ID, "multiply": True}, *views).named("joined").view is not None


@pytest.mark.parametrize(
    ("partitions", "record_bytes_max", "is_refused"),
    [(16, 64, False), (64, 64, True), (64, 1 << 20, False), (900, 1 << 20, False), (1024, 64 << 20, True)],
)
def test_the_positions_of_what_is_joined_fit_into_an_event(
    partitions: int, record_bytes_max: int, is_refused: bool
) -> None:
    """A view names all of them for each partition of its source."""
    wide: dict[str, Any] = {"partitions": partitions}
    view = {
        "name": "joined",
        "from": "orders",
        "record_bytes_max": record_bytes_max,
        "join": [{"topic": "customers", **ON_ID, "as": "c"}],
    }
    given = {
        "topics": [{**ORDERS, "partitions": min(partitions, 64)}, {**CUSTOMERS, **wide}],
        "views": [view],
    }
    if is_refused:
        with pytest.raises(ValidationError, match="Raise its record_bytes_max, or join topics with fewer"):
            Topics.model_validate(given)
    else:
        Topics.model_validate(given)
