"""`views:` in `topics.yaml`: what a view is, and which views are refused."""

import pickle
from typing import Any

import pytest
from pydantic import ValidationError

from sowline.config.topics import Topics, parse_topics
from sowline.config.views import ViewDefinition
from sowline.errors import SowlineError
from sowline.model.limits import MIB

TOTALS: dict[str, Any] = {"grouping": ["/region"], "projection": ["SUM(/qty) AS /qty"]}


def topics(*views: dict[str, Any], **orders: Any) -> Topics:
    """Return the topics with `orders` and these views."""
    return Topics.model_validate(
        {"topics": [{"name": "orders", "key": "/id", **orders}], "views": list(views)}
    )


def view(**given: Any) -> ViewDefinition:
    """Return the definition of a view of `orders`."""
    return ViewDefinition.model_validate({"name": "totals", "from": "orders", **given})


def refused(*views: dict[str, Any], **orders: Any) -> str:
    """Return why the topics are refused."""
    with pytest.raises(ValidationError) as refusal:
        topics(*views, **orders)
    (error,) = refusal.value.errors()
    return str(error["msg"])


def test_a_view_is_a_topic() -> None:
    """Its log has partial states, and its keys are the key texts of its groups."""
    topic = topics({"name": "eu/totals", "from": "orders", **TOTALS}, partitions=4).named("eu/totals")
    assert topic.view is not None
    assert (topic.log, topic.changes, topic.partitions) == (
        "eu.totals.partials",
        "eu.totals.changes",
        4,
    )
    assert topic.has_sow
    assert topic.key_rule.sow_key('["north"]') == b'["north"]'
    assert topics().named("orders").view is None


def test_a_view_has_options_of_its_own() -> None:
    """Those that are left out are those of any topic."""
    options = {
        "partitions": 2,
        "replication": 3,
        "delta": True,
        "record_bytes_max": 2000,
        "resume_window": "2h",
        "history": {"window": "3h", "granularity": "1s"},
    }
    indexes = {"indexes": ["/qty"], "hash_indexes": [["/region"]]}
    topic = topics({"name": "totals", "from": "orders", **TOTALS, **options, **indexes}, partitions=4).named(
        "totals"
    )
    assert (topic.partitions, topic.kafka.replication, topic.declared.delta) == (2, 3, True)
    assert (topic.limits.record_bytes_max, topic.declared.resume_window) == (2000, 7_200_000)
    assert topic.declared.history is not None
    assert (topic.declared.history.window, topic.declared.history.granularity, topic.kafka.change_window) == (
        10_800_000,
        1000,
        10_800_000,
    )
    assert (topic.declared.indexes, topic.declared.hash_indexes) == (("/qty",), (("/region",),))
    plain = topics({"name": "totals", "from": "orders", **TOTALS}).named("totals")
    assert (plain.limits.record_bytes_max, plain.declared.resume_window, plain.limits.expiration) == (
        MIB,
        3_600_000,
        "disabled",
    )


def test_a_change_of_a_view_has_room_for_the_states() -> None:
    """They are as large as the record may be."""
    topic = topics({"name": "totals", "from": "orders", **TOTALS}).named("totals")
    assert (
        topic.kafka.log_bytes_max
        == topics().named("orders").kafka.log_bytes_max + topic.limits.record_bytes_max
    )


def test_a_view_may_read_a_view() -> None:
    """In any order; one behind the other they have the partitions of the topic that they read in the end."""
    found = topics(
        {"name": "c", "from": "b"}, {"name": "b", "from": "a"}, {"name": "a", "from": "orders"}, partitions=3
    )
    assert [(topic.name, topic.partitions) for topic in found.topics] == [
        ("orders", 3),
        ("a", 3),
        ("b", 3),
        ("c", 3),
    ]


def test_a_definition_can_be_sent_to_another_process() -> None:
    """It is a view there, too."""
    topic = topics({"name": "totals", "from": "orders", **TOTALS}).named("totals")
    assert pickle.loads(pickle.dumps(topic)) == topic
    assert pickle.loads(pickle.dumps(topic)).view == topic.view


def test_what_computes_the_records_is_in_the_digest() -> None:
    """Options are not: they may change while the view has state."""
    plain = view(**TOTALS)
    others: list[dict[str, Any]] = [
        {"from": "trades"},
        {"filter": "/qty > 1"},
        {"grouping": ["/region", "/desk"]},
        {"projection": ["COUNT(1) AS /qty"]},
        {"having": "/qty > 1"},
    ]
    assert len({plain.digest, *(view(**TOTALS | other).digest for other in others)}) == 6
    assert view(**TOTALS, record_bytes_max=100, delta=True, partitions=2).digest == plain.digest
    named = topics({"name": "totals", "from": "orders", **TOTALS}).named("totals")
    filtered = topics({"name": "totals", "from": "orders", **TOTALS, "filter": "/qty > 1"}).named("totals")
    assert named.digest != filtered.digest


@pytest.mark.parametrize(
    ("grouping", "projection", "outputs"),
    [
        (["/region"], ["COUNT(1) AS /n"], "/region, COUNT(1) AS /n"),
        (["/region"], ["COUNT(1) AS /region"], "COUNT(1) AS /region"),
        (["/region"], ["COUNT(1) AS /region/n"], "COUNT(1) AS /region/n"),
        (["/at/region"], ["COUNT(1) AS /at"], "COUNT(1) AS /at"),
        (["/region"], ["/region AS /r", "COUNT(1) AS /n"], "/region, /region AS /r, COUNT(1) AS /n"),
        (["/region", "/desk"], ["/desk", "COUNT(1) AS /n"], "/region, /desk, COUNT(1) AS /n"),
        ([], ["/qty * 2 AS /twice", "/region"], "/qty * 2 AS /twice, /region"),
    ],
)
def test_a_group_has_its_grouping_fields(grouping: list[str], projection: list[str], outputs: str) -> None:
    """Unless the projection has an output over or under them."""
    fields = view(grouping=grouping, projection=projection).projected
    assert fields is not None
    assert fields.text == outputs


def test_a_view_without_projection_has_whole_records() -> None:
    """A filter, or nothing, may be all that it has."""
    assert view().projected is None
    assert view().record_filter is view().result_filter is None
    records = view(filter="/qty > 1").record_filter
    assert records is not None
    assert records.matches({"qty": 2})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"grouping": ["/region"]}, "expected a projection with a grouping"),
        ({"projection": ["SUM(/qty) AS /qty"]}, "expected a grouping with an aggregate"),
        ({"projection": ["1 + MAX(/qty) AS /next"]}, "expected a grouping with an aggregate"),
        ({"projection": ["UNIX_TIMESTAMP() AS /now"]}, "got UNIX_TIMESTAMP"),
        ({**TOTALS, "projection": ["SUM(/qty) - UNIX_TIMESTAMP() AS /x"]}, "got UNIX_TIMESTAMP"),
        ({**TOTALS, "projection": ["SUM(UNIX_TIMESTAMP()) AS /x"]}, "UNIX_TIMESTAMP"),
        ({"filter": "/at > UNIX_TIMESTAMP()"}, "can't be used in the filter of a view"),
        ({**TOTALS, "having": "/at > UNIX_TIMESTAMP()"}, "can't be used in the filter of a view"),
        ({"filter": "/qty >"}, "expected"),
        ({"having": "/qty >"}, "expected"),
        ({**TOTALS, "grouping": ["region"]}, "path"),
        ({**TOTALS, "grouping": ["/region", "/region"]}, "expected each path once"),
        ({**TOTALS, "projection": ["SUM(/qty AS /qty"]}, "expected"),
        ({**TOTALS, "projection": ["SUM(/qty) AS /a", "MIN(/qty) AS /a/b"]}, "don't overlap"),
        ({"expiration": "1h"}, "Extra inputs are not permitted"),
        ({"key": "/id"}, "Extra inputs are not permitted"),
    ],
)
def test_what_can_not_be_computed_is_refused(given: dict[str, Any], message: str) -> None:
    """The records of a view depend on the records of its source, and on nothing else."""
    assert message in refused({"name": "totals", "from": "orders", **given})


def test_the_filter_of_a_view_is_on_the_fields_of_a_record() -> None:
    """Not on its metadata, which changes without the record."""
    message = refused({"name": "totals", "from": "orders", "filter": "LAST_UPDATED() > 1"})
    assert message.startswith("Value error, expected")


def test_a_view_reads_a_topic_that_keeps_records() -> None:
    """One that is defined, and not of a circle."""
    assert "reads topic 'trades', which is not defined" in refused({"name": "totals", "from": "trades"})
    assert "in a circle, got a, b" in refused({"name": "a", "from": "b"}, {"name": "b", "from": "a"})
    assert "in a circle, got a" in refused({"name": "a", "from": "a"})
    with pytest.raises(ValidationError, match="which keeps no records"):
        Topics.model_validate(
            {"topics": [{"name": "orders", "sow": False}], "views": [{"name": "totals", "from": "orders"}]}
        )


def test_names_are_used_once() -> None:
    """A view is no topic of another name, and its Kafka topics are its own."""
    assert "topic 'orders' is used twice" in refused({"name": "orders", "from": "orders"})
    twice = {"name": "a", "from": "orders"}
    assert "topic 'a' is used twice" in refused(twice, twice)
    assert "Kafka topic 'a.b.partials' is used twice" in refused(
        {"name": "a/b", "from": "orders"}, {"name": "a.b", "from": "orders"}
    )


def test_a_fanout_may_read_a_view() -> None:
    """As any topic."""
    found = parse_topics(
        "topics: [{name: orders, key: /id}]\nviews: [{name: large, from: orders, filter: '/qty > 1'}]\n"
        "fanouts: [{name: all, topic: large}]\n"
    )
    assert found.fanouts[0].topic == "large"


def test_an_error_names_its_line() -> None:
    """As everywhere in `topics.yaml`."""
    text = (
        "topics: [{name: orders, key: /id}]\nviews:\n  - name: totals\n    from: orders\n    having: /qty >\n"
    )
    with pytest.raises(SowlineError, match="line 5"):
        parse_topics(text)
