"""The part of a query that lies in one topic: records as they were at its instant, and what is known of them."""

import json

import numpy as np
import orjson

from sowline.config.topics import parse_topics
from sowline.language.expressions.order import parse_order
from sowline.language.filter import ALL, Filter, compile_filter
from sowline.model.key import sow_key
from sowline.model.position import Position
from sowline.serving.result import QueryLimits
from sowline_query_service.index.rows import RowNumbers
from sowline_query_service.query.query import Query
from sowline_query_service.query.selection import Selection
from sowline_query_service.query.topic_slice import TopicSlice
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState


def topic_of(*values: object) -> TopicState:
    """Return a topic with records of these values, numbered from 0."""
    topic = ServedTopics(parse_topics("topics: [{name: t, key: /id}]"), 10).topics["t"]
    for number, value in enumerate(values):
        put(topic, number, value)
    return topic


def put(topic: TopicState, number: int, value: object, correlation: str | None = None) -> None:
    """Put a record."""
    body = json.dumps({"id": number, "n": value}).encode()
    position = Position(0, number)
    topic.rows.put(sow_key(b"t\0", str(number)), body, 0, position, 1000 * number + 500, correlation)


def part_of(
    topic: TopicState, filter: Filter = ALL, order_by: str = "", top_n: int | None = None
) -> TopicSlice:
    """Return the part of a query of this instant."""
    query = Query([topic], Selection(filter, order=parse_order(order_by), top_n=top_n), QueryLimits())
    assert query.begin_now()
    return query.topic_slices[0]


def values(topic_slice: TopicSlice, rows: RowNumbers) -> list[object]:
    """Return the values of records."""
    return [orjson.loads(topic_slice.captured.bodies[at])["n"] for at in rows.tolist()]


def all_rows(topic_slice: TopicSlice) -> RowNumbers:
    """Return the places of all records that were captured."""
    return np.arange(len(topic_slice.captured))


def test_records_stay_as_they_were() -> None:
    """Whatever happens to them afterwards, and whichever records get their rows."""
    topic = topic_of(1, 2, 3)
    topic_slice = part_of(topic, compile_filter("/n + 0 > 1"))
    put(topic, 1, 0)
    topic.rows.remove(sow_key(b"t\0", "2"))
    put(topic, 9, 9)
    ((rows, filter),) = topic_slice.checks
    assert values(topic_slice, topic_slice.holding(filter, rows)) == [2, 3]


def test_what_columns_decide_is_not_asked_again() -> None:
    """What they leave open is: here, an array."""
    topic_slice = part_of(topic_of(1, 2, [2, 3]), compile_filter("/n = 2"))
    assert values(topic_slice, topic_slice.decided) == [2]
    ((rows, filter),) = topic_slice.checks
    assert values(topic_slice, rows) == [[2, 3]]
    assert values(topic_slice, topic_slice.holding(filter, rows)) == [[2, 3]]


def test_facts_are_of_the_instant() -> None:
    """Key, size, time, correlation, and when it was last read."""
    topic = topic_of(1)
    put(topic, 2, "text", "its cause")
    (row,) = topic.rows.found([sow_key(b"t\0", "2")]).tolist()
    captured = topic.rows.capture(topic.rows.all())
    assert captured.digests is not None
    topic.rows.read(captured.rows[-1:], captured.digests[-1:], 77.5)
    topic_slice = part_of(topic)
    put(topic, 2, "longer text")
    facts = topic_slice.facts(topic_slice.captured.rows.tolist().index(row))
    assert facts.sow_key == sow_key(b"t\0", "2").decode()
    assert (facts.topic, facts.size, facts.updated) == ("t", len(b'{"id": 2, "n": "text"}'), 2.5)
    assert (facts.correlation, facts.last_read) == ("its cause", 77.5)
    other = topic_slice.facts(1 - topic_slice.captured.rows.tolist().index(row))
    assert (other.correlation, other.last_read) == (None, None)


def test_a_row_that_is_used_again_knows_nothing_of_the_last_record() -> None:
    """Neither its correlation nor when it was read."""
    topic = topic_of()
    put(topic, 1, 1, "its cause")
    captured = topic.rows.capture(topic.rows.all())
    topic.rows.remove(sow_key(b"t\0", "1"))
    put(topic, 2, 2)
    assert captured.digests is not None
    topic.rows.read(captured.rows, captured.digests, 77.5)
    facts = part_of(topic).facts(0)
    assert (facts.correlation, facts.last_read) == (None, None)


def test_a_filter_may_ask_for_facts() -> None:
    """As any filter that reads bodies does."""
    topic_slice = part_of(topic_of("a", "b" * 50), compile_filter("MESSAGE_SIZE() > 50"))
    ((rows, filter),) = topic_slice.checks
    assert values(topic_slice, topic_slice.holding(filter, rows)) == ["b" * 50]


def test_ranks_are_by_row() -> None:
    """Where columns can tell; one number for each term of the order."""
    topic = topic_of("b", None, 3, "a")
    topic_slice = part_of(topic, order_by="/n DESC, /id")
    assert topic_slice.ranks is not None
    by_value, by_id = (rank[np.argsort(topic_slice.captured.rows)] for rank in topic_slice.ranks)
    assert np.argsort(by_value).tolist() == [0, 3, 2, 1]
    assert np.argsort(by_id).tolist() == [0, 1, 2, 3]
    put(topic, 4, [1])
    assert part_of(topic, order_by="/n").ranks is None


def test_it_reports_what_it_knows_of_its_access_path() -> None:
    """What is empty is left out."""
    topic_slice = part_of(topic_of(1, 2, [2, 3]), compile_filter("/n = 2"))
    assert topic_slice.explained() == {
        "topic": "t",
        "access_path": "memo index",
        "index": "/n",
        "indexed": "/n = 2",
        "records": 3,
        "candidates": 2,
        "read": 1,
    }


def test_an_empty_topic_is_a_part() -> None:
    """Of no records."""
    topic_slice = part_of(topic_of(), compile_filter("/n = 2"), order_by="/n")
    assert (topic_slice.records, len(topic_slice.captured), len(all_rows(topic_slice))) == (0, 0, 0)
