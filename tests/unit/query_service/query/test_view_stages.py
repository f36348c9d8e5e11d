"""What `explain` reports of a view, in addition to the access path."""

from typing import Any

import pytest

from sowline.config.topics import parse_topics
from sowline.model.position import Position
from sowline.model.select import parse_select
from sowline.serving.authorization.entitlements import EVERYTHING, Entitlement, Rights, to_read
from sowline_query_service.query.view_stages import with_view_stages
from sowline_query_service.topics.state import ServedTopics

TOPICS = parse_topics("""
topics:
  - {name: trades, key: /id, partitions: 2}
views:
  - name: sums
    from: trades
    filter: /qty > 0
    grouping: [/account]
    projection: [SUM(/qty) AS /sold]
    having: /sold > 1
""")


def explained(
    applied: dict[int, Position], reflected: list[dict[int, Position]], rights: Rights = EVERYTHING
) -> dict[str, Any]:
    """Return the report where the replica has applied these positions, and the view reflects those."""
    state = ServedTopics(TOPICS, 10)
    for number, position in applied.items():
        state.topics["trades"].partitions[number].position = position
    for number, positions in enumerate(reflected):
        state.topics["sums"].partitions[number].reflected = positions
    [found] = with_view_stages([{"topic": "sums", "access_path": "scan", "matches": 3}], state, rights)
    return found


def test_a_view_is_reported_with_its_stages_and_positions() -> None:
    """Behind by the log records that the view does not reflect: of each partition those of the slowest one."""
    applied = {0: Position(0, 9), 1: Position(0, 4)}
    slow, fast = {0: Position(0, 7), 1: Position(0, 4)}, {0: Position(0, 9), 1: Position(0, 1)}
    assert explained(applied, [slow, fast]) == {
        "topic": "sums",
        "access_path": "scan",
        "matches": 3,
        "view": {
            "from": "trades",
            "filter": "/qty > 0",
            "grouping": ["/account"],
            "projection": "/account, SUM(/qty) AS /sold",
            "having": "/sold > 1",
            "joins": [],
            "interval_ms": 0,
        },
        "reflects": "trades:0@7,1@1",
        "behind": 5,
    }


@pytest.mark.parametrize(
    ("applied", "reflected", "reflects"),
    [
        ({0: Position(0, 9), 1: Position(0, 4)}, {}, None),
        ({0: Position(0, 9), 1: Position(0, 4)}, {0: Position(0, 9)}, "trades:0@9"),
        ({0: Position(1, 2), 1: Position(0, 4)}, {0: Position(0, 9), 1: Position(0, 4)}, "trades:0@9,1@4"),
    ],
    ids=["nothing reflected", "a partition not reflected", "an earlier era reflected"],
)
def test_it_is_not_known_how_far_a_view_is_behind(
    applied: dict[int, Position], reflected: dict[int, Position], reflects: str | None
) -> None:
    """Null is not 0."""
    found = explained(applied, [reflected, reflected])
    assert (found["reflects"], found["behind"]) == (reflects, None)


def test_a_user_who_reads_some_fields_does_not_learn_of_the_others() -> None:
    """The definition would name them."""
    some = Rights(to_read(Entitlement("sums", select=parse_select("[-/,+/sold]"))))
    found = explained({}, [{}, {}], some)
    assert "view" not in found
    assert found["reflects"] is None


def test_other_topics_have_none() -> None:
    """An access path is all that there is of them."""
    path = {"topic": "trades", "access_path": "scan", "matches": 0}
    assert with_view_stages([path], ServedTopics(TOPICS, 10), EVERYTHING) == [path]
