"""`views:` and `conflated:` in `topics.yaml`: what a computed topic is, and which are refused."""

import pickle
from typing import Any

import pytest
from pydantic import ValidationError

from sowline.config.topics import Topics, parse_topics
from sowline.config.views import ConflatedDefinition, ViewDefinition
from sowline.errors import SowlineError
from sowline.model.difference import Keys
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
    assert (
        topic.declared.history.window,
        topic.declared.history.granularity,
        topic.kafka.change_window_ms,
    ) == (
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


def test_an_error_names_its_line() -> None:
    """As everywhere in `topics.yaml`."""
    text = (
        "topics: [{name: orders, key: /id}]\nviews:\n  - name: totals\n    from: orders\n    having: /qty >\n"
    )
    with pytest.raises(SowlineError, match="line 5"):
        parse_topics(text)


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


def conflated(**given: Any) -> ConflatedDefinition:
    """Return the definition of a conflated topic of `orders`."""
    return ConflatedDefinition.model_validate({"name": "slow", "from": "orders", "interval": "1s", **given})


@pytest.mark.parametrize(
    ("interval", "interval_ms"), [("10ms", 10), ("1s", 1000), ("1h", 3_600_000), ("9ms", None), ("61m", None)]
)
def test_a_conflated_topic_has_an_interval(interval: str, interval_ms: int | None) -> None:
    """Of 10 ms to an hour."""
    if interval_ms is not None:
        assert conflated(interval=interval).interval_ms == interval_ms
        return
    with pytest.raises(ValidationError, match="expected an interval of 10ms to 1h"):
        conflated(interval=interval)


def test_a_conflated_topic_has_the_records_of_its_source() -> None:
    """With their SOW keys and all of their fields; the interval may change while it has state."""
    made = conflated()
    assert made.has_keys_of_source
    assert made.read_topics == ["orders"]
    assert made.keeps(("a", "b"))
    assert made.key_fields({"orders": (("id",),)}) == (("id",),)
    assert made.digest == conflated(interval="5s").digest != conflated(**{"from": "trades"}).digest


JOIN: dict[str, Any] = {"topic": "users", "on": "/user = /id", "as": "u"}


def test_a_view_describes_its_computation() -> None:
    """As JSON, for clients and tools."""
    join = {**JOIN, "kind": "inner", "multiply": True}
    made = view(**TOTALS, join=[join], filter="/qty > 0", having="/qty > 1")
    assert made.described() == {
        "from": "orders",
        "filter": "/qty > 0",
        "grouping": ["/region"],
        "projection": "/region, SUM(/qty) AS /qty",
        "having": "/qty > 1",
        "joins": [{"topic": "users", "on": "/user = /id", "as": "u", "kind": "inner", "multiply": True}],
        "interval_ms": 0,
    }
    assert conflated().described() == {
        "from": "orders",
        "filter": "",
        "grouping": [],
        "projection": "",
        "having": "",
        "joins": [],
        "interval_ms": 1000,
    }


@pytest.mark.parametrize(
    ("given", "path", "is_kept"),
    [
        ({}, ("id",), True),
        ({"projection": ["/id"]}, ("id",), True),
        ({"projection": ["/id AS /other"]}, ("id",), False),
        ({"projection": ["UPPER(/id) AS /id"]}, ("id",), False),
        ({"join": [{**JOIN, "as": "id"}]}, ("id",), False),
    ],
)
def test_a_view_keeps_fields_of_its_source(
    given: dict[str, Any], path: tuple[str, ...], is_kept: bool
) -> None:
    """If its records have them, unchanged, at the same path."""
    assert view(**given).keeps(path) is is_kept


def test_a_join_is_read_as_pairs_of_fields() -> None:
    """That of the source first; a join is part of what determines the records."""
    made = view(join=[{**JOIN, "on": "/user = /id AND [/sub unit] = /unit"}])
    (join,) = made.joins
    assert [(str(ours), str(theirs)) for ours, theirs in join.equalities] == [
        ("/user", "/id"),
        ("[/sub unit]", "/unit"),
    ]
    assert made.read_topics == ["orders", "users"]
    assert len({made.digest, view().digest, view(join=[JOIN]).digest}) == 3


@pytest.mark.parametrize(
    ("join", "message"),
    [
        (
            [{**JOIN, "on": "/user"}],
            "expected fields such as /customer = /id, with AND between them, got '/user'",
        ),
        ([{**JOIN, "on": "user = id"}], "expected a path"),
        ([{**JOIN, "as": "a b"}], "as"),
        (
            [JOIN, {**JOIN, "topic": "others"}],
            "expected a different name for each joined topic, got as: u twice",
        ),
    ],
)
def test_a_join_that_can_not_be_read(join: list[dict[str, Any]], message: str) -> None:
    """The error names what is wrong with it."""
    with pytest.raises(ValidationError, match=message):
        view(join=join)
