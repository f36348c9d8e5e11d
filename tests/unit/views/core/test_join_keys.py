"""Join keys: by which a record finds the records of a joined topic."""

from typing import Any

import pytest

from sowline.config.topics import Topics
from sowline.model.path import parse_path
from sowline_views.core.join_keys import NO_MATCH, source_key, text_key


def topics(join: dict[str, Any]) -> Topics:
    """Return topics with a view that has this join."""
    return Topics.model_validate(
        {
            "topics": [
                {"name": "orders", "key": "/id"},
                {"name": "users", "key": ["/id", "/desk"]},
            ],
            "views": [
                {
                    "name": "totals",
                    "from": "orders",
                    "grouping": ["/user", "/at/day"],
                    "projection": ["COUNT(1) AS /n"],
                },
                {"name": "joined", "from": "orders", "join": [{"as": "x", **join}]},
            ],
        }
    )


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"u": 5, "d": "NY"}, '["5","NY"]'),
        ({"u": 5}, None),
        ({"u": 5, "d": {"a": 1}}, None),
        ({"u": 5, "d": [1]}, None),
    ],
)
def test_a_record_has_the_sow_key_of_its_match(document: dict[str, Any], text: str | None) -> None:
    """Made as the joined topic makes its own; without a field there is no match."""
    made = topics({"topic": "users", "on": "/u = /id AND /d = /desk"})
    view, users = made.named("joined").view, made.named("users")
    assert view is not None
    expected = NO_MATCH if text is None else users.key_rule.sow_key(text)
    assert source_key(view.joins[0], users)(document) == expected


def test_the_fields_of_a_join_may_be_in_any_order() -> None:
    """The joined topic's own order makes its key."""
    made = topics({"topic": "users", "on": "/d = /desk AND /u = /id"})
    view, users = made.named("joined").view, made.named("users")
    assert view is not None
    key = source_key(view.joins[0], users)({"u": 5, "d": "NY"})
    assert key == users.key_rule.sow_key('["5","NY"]')


@pytest.mark.parametrize(
    ("document", "key"),
    [({"u": "a", "day": 1}, b'["a",1]'), ({"u": "a"}, b'["a",null]'), ({}, b"[null,null]")],
)
def test_a_group_is_found_by_its_grouping(document: dict[str, Any], key: bytes) -> None:
    """An absent field is null, which is a group of its own."""
    made = topics({"topic": "totals", "on": "/day = /at/day AND /u = /user"})
    view = made.named("joined").view
    assert view is not None
    assert source_key(view.joins[0], made.named("totals"))(document) == key


def test_some_fields_have_a_key_text() -> None:
    """In the order in which they are given."""
    key_of = text_key([parse_path("/b"), parse_path("/a/c")])
    assert key_of({"b": "x", "a": {"c": 1}}) == b'["x","1"]'
    assert key_of({"b": "x"}) == NO_MATCH
