"""A topic as services use it: what is compiled of its definition, and its digest."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from sowline.codecs.schema import Schema
from sowline.config.topic_definition import TopicDefinition, by_changes, define_topic
from sowline.config.topics import Topics, parse_topics
from sowline.model.limits import Limits
from tests.typed_orders import AVRO_SCHEMA, typed_topic
from tests.unit.generators import install


def define(**given: Any) -> TopicDefinition:
    """Return the definition of `orders` with what is given."""
    return define_topic(**{"name": "orders", "key": "/id", **given})


def test_a_delta_is_merged_as_the_owner_does_it() -> None:
    """Rights to write must judge the record that comes of it, also if the stored one has no names yet."""
    topic = define(key="/11", message_type="fix", message_format={"names": {55: "Symbol"}})
    merged = topic.merged(b'{"11":"A","55":"IBM"}', b'{"11":"A","Symbol":"MSFT"}')
    assert merged == b'{"11":"A","Symbol":"MSFT"}'


@pytest.mark.parametrize(
    "change",
    [
        {"key": "/other"},
        {"key_domain": "x"},
        {"partitions": 2},
        {"preprocessing": ["1 AS /a"]},
        {"enrichment": ["1 AS /a"]},
        {"enrichment": ["1.0 AS /a"]},
        {"documents": True},
        {"message_type": "msgpack"},
    ],
)
def test_the_digest_tells_definitions_apart_that_decide_otherwise(change: dict[str, Any]) -> None:
    """What decides what a log record does is part of the digest, and is named where another digest is refused."""
    assert define(**change).digest != define().digest
    assert change.keys() <= set(define().deciding.replace(" and ", ", ").split(", "))


def test_the_digest_has_the_template_that_documents_have() -> None:
    """That of a state may be another one than the file's; what can't change has none."""
    reviews, plain = define(documents=True, template={"type": "review"}), define(documents=True)
    assert len({reviews.digest, plain.digest, reviews.digest_with('{"type":"order"}')}) == 3
    assert reviews.digest == plain.digest_with('{"type":"review"}')
    assert reviews.fixed_digest == plain.fixed_digest == plain.digest


def test_the_digest_of_documents_is_what_it_was() -> None:
    """State of documents with a template stays good: it has what they read with."""
    documents = define_topic(name="orders", key="/id", documents=True, template={"type": "review"})
    assert documents.digest == "924ee13f4d2cfae4"


def test_the_digest_compares_what_computed_fields_mean() -> None:
    """Their spelling doesn't count; in which stage and in which order they are does."""
    digest = define(enrichment=["1 AS /a", "/b + 1 AS /c HINT OPTIONAL"]).digest
    assert define(enrichment=["1  as [/a]", "/b of current+1 AS /c hint optional"]).digest == digest
    assert define(enrichment=["/b + 1 AS /c HINT OPTIONAL", "1 AS /a"]).digest != digest
    assert define(preprocessing=["1 AS /a"]).digest != define(enrichment=["1 AS /a"]).digest


def test_the_digest_of_a_topic_without_computed_fields_is_what_it_was() -> None:
    """State that was made before there were any stays good."""
    assert define().digest == define(preprocessing=[], enrichment=[]).digest == "91a1f0635be3f422"


def test_a_topic_computes_fields_in_two_stages() -> None:
    """They are compiled once, and there is none where there are no fields."""
    topic = define(preprocessing=["/a AS /id"], enrichment=["/b AS /c"])
    assert topic.preprocess is topic.preprocess is not None
    assert topic.preprocess.fields[0].output == ("id",)
    assert topic.enrich is not None
    assert topic.enrich.fields[0].output == ("c",)
    assert (define().preprocess, define().enrich) == (None, None)
    assert pickle.loads(pickle.dumps(topic)) == topic


@pytest.mark.parametrize(
    "change",
    [
        {"resume_window": "2h"},
        {"replication": 3},
        {"log": "elsewhere"},
        {"indexes": ["/price"]},
        {"hash_indexes": [["/region"]]},
        {"delta": True},
        {"expiration": "30s"},
        {"record_bytes_max": 1000},
        {"repeat_window": "1h"},
        {"records_max": 5},
    ],
)
def test_the_digest_ignores_what_decides_nothing(change: dict[str, Any]) -> None:
    """What decides nothing may change at any time, and lifetime and limits from a `define` command on."""
    assert define(**change).digest == define().digest


def test_limits_are_what_may_change() -> None:
    """Lifetime and limits in one piece."""
    limits = define(expiration="5s", record_bytes_max=100, repeat_window="1s", records_max=7).limits
    assert limits == Limits(5000, 100, 1000, 7)
    assert define().limits == Limits()


@pytest.mark.parametrize(
    ("given", "starts_empty", "time"),
    [
        ({}, False, None),
        ({"durability": "transient"}, False, None),
        ({"durability": "transient", "recovery_point": "epoch"}, False, None),
        ({"durability": "transient", "recovery_point": "now"}, True, None),
        ({"durability": "transient", "recovery_point": "19700101T000001Z"}, True, 1000),
        ({"durability": "transient", "recovery_point": "19700101T000001.0001Z"}, True, 1001),
    ],
)
def test_a_transient_topic_begins_at_its_recovery_point(
    given: dict[str, str], starts_empty: bool, time: int | None
) -> None:
    """Unless that is the epoch; a time counts to the next millisecond."""
    assert (define(**given).starts_empty, define(**given).recovery_time) == (starts_empty, time)


def test_a_changes_topic_is_found_by_its_topic_and_not_by_its_name() -> None:
    """A view's log is not named like its changes, and `x.partials` may be the log of a topic too."""
    topics = parse_topics(
        "topics: [{name: x.partials, key: /id}, {name: a/b, key: /id, log: other}]\n"
        "views: [{name: eu/v, from: a/b, grouping: [/g], projection: [COUNT(1) AS /n]}]\n"
    ).topics
    found = {name: topic.log for name, topic in by_changes(topics).items()}
    assert found == {
        "x.partials.changes": "x.partials",
        "other.changes": "other",
        "eu.v.changes": "eu.v.partials",
    }
    assert {topic.kafka.dead for topic in topics} == {"x.partials.dead", "other.dead", "eu.v.dead"}


@pytest.fixture
def view() -> TopicDefinition:
    """A conflated topic of a view of orders."""
    return Topics.model_validate(
        {
            "topics": [{"name": "orders", "key": "/id", "partitions": 3}],
            "views": [{"name": "late", "from": "orders", "filter": "/late = 1", "resume_window": "2h"}],
            "conflated": [{"name": "slow", "from": "late", "interval": "1s"}],
        }
    ).named("slow")


def test_a_computed_topic_is_one_with_partial_states(view: TopicDefinition) -> None:
    """It has the partitions of its source, and the options that it names."""
    assert (view.log, view.partitions, view.is_conflated) == ("slow.partials", 3, True)
    assert view.source is not None
    assert (view.source.name, view.source.is_conflated, view.source.declared.resume_window) == (
        "late",
        False,
        7_200_000,
    )


def test_records_of_a_source_keep_its_keys(view: TopicDefinition) -> None:
    """The SOW keys are made by the rule of the topic in which records are published."""
    assert (view.identity.name, view.identified_by, view.has_deltas) == ("orders", (("id",),), True)


def test_a_view_of_groups_has_keys_of_its_own() -> None:
    """The fields of the grouping identify a group."""
    totals = {"name": "totals", "from": "orders", "grouping": ["/at/desk"], "projection": ["COUNT(1) AS /n"]}
    topic = Topics.model_validate({"topics": [{"name": "orders", "key": "/id"}], "views": [totals]}).named(
        "totals"
    )
    assert (topic.identity, topic.identified_by) == (topic, (("at", "desk"),))
    assert topic.deciding == "from, join, filter, grouping, projection, having and partitions"


@pytest.mark.parametrize(("type", "has_deltas"), [("json", True), ("msgpack", True), ("binary", False)])
def test_a_type_that_is_not_parsed_has_no_deltas(type: str, has_deltas: bool) -> None:
    """Whole records are sent."""
    assert define(key={"from": "kafka_key"}, message_type=type).has_deltas is has_deltas


def test_schemas_of_the_definition_are_known_by_id() -> None:
    """The reader schema, and those that are listed."""
    other = AVRO_SCHEMA.replace("Order", "Old")
    topic = typed_topic("avro", schemas={3: {"text": other}})
    assert topic.schema_named(7) == topic.reader == Schema("avro", AVRO_SCHEMA)
    assert topic.schema_named(3) == Schema("avro", other)
    assert topic.schema_named(4) is None
    assert topic.codec is not None
    assert (define().schema_named(7), define().codec, define().format) == (None, None, None)


def test_clients_read_the_options_of_a_type() -> None:
    """And the meanings of values, if a data dictionary has them."""
    topic = define(message_type="fix", message_format={"names": {55: "Symbol"}})
    assert (topic.format, topic.value_names) == ({"names": {"55": "Symbol"}}, {})
    assert define().merged(b'{"id":1,"a":1}', b'{"a":2}') == b'{"id":1,"a":2}'


@pytest.mark.usefixtures("generators")
def test_a_key_is_sent_as_it_is_defined() -> None:
    """That of a generator has the version of its algorithm."""
    assert define(key=["/id", "/day"]).key_sent == ["/id", "/day"]
    assert define(key={"from": "header"}).key_sent == {"from": "header"}
    assert define(key={"generator": "desk"}).key_sent == {"generator": "desk", "options": {}, "version": "1"}


@pytest.fixture
def generators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The generators of the tests, installed."""
    install(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
