"""`topics.yaml`: what it may say, what is filled in, and where it is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.config.topics import DescribedTopics, Topics, load_topics, parse_topics
from sowline.config.yaml_file import YamlFileError
from sowline.errors import SowlineError


def define(**given: Any) -> TopicDefinition:
    """Return the definition of `orders` with what is given."""
    return define_topic(**{"name": "orders", "key": "/id", **given})


def test_all_errors_are_reported_at_once() -> None:
    """Two mistakes give two sentences."""
    with pytest.raises(SowlineError) as error:
        parse_topics("topics:\n  - {name: a}\n  - {key: /id}\n")
    assert "line 2: topics.0.key (a): " in error.value.message
    assert "line 3: topics.1.name: " in error.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topics: [{name: a, key: /id}, {name: a, key: /id, log: b}]", "each topic once, got 'a' twice"),
        (
            "topics: [{name: a, key: /id}, {name: b, key: /id, log: a}]",
            "each Kafka topic once, got 'a' twice",
        ),
        (
            "topics: [{name: a, key: /id}, {name: a.changes, key: /id}]",
            "each Kafka topic once, got 'a.changes' twice",
        ),
        ("topics: [{name: a, key: /id}]\nfanouts: [{name: f, topic: b}]", "for fanout 'f' to read, got 'b'"),
        (
            "topics: [{name: a, key: /id}]\nfanouts: [{name: f, topic: a}, {name: f, topic: a}]",
            "once, got 'fanout.f' twice",
        ),
    ],
)
def test_topics_do_not_get_in_each_others_way(text: str, message: str) -> None:
    """Names and Kafka topics are used once, and fanouts read topics that exist."""
    with pytest.raises(SowlineError, match=r"expected (each .* once|a defined topic)") as error:
        parse_topics(text)
    assert message in error.value.message


@pytest.mark.parametrize("style", [True, False, None])
def test_what_other_programs_write_is_read(style: bool | None) -> None:
    """YAML of the same values is the same topics, in whichever style, and JSON is YAML."""
    given = {
        "topics": [
            {
                "name": "no",
                "key": ["/id"],
                "key_domain": "007",
                "delta": True,
                "record_bytes_max": 10_000_000,
            },
            {"name": "eu/1", "key_domain": "é", "key": "/id", "log": "1.5", "hash_indexes": [["/a", "/b"]]},
        ],
        "fanouts": [{"name": "null", "topic": "no", "filter": "/a = ' # \n'", "options": "oof,timestamp"}],
    }
    topics = Topics.model_validate(given)
    assert parse_topics(yaml.safe_dump(given, default_flow_style=style)) == topics
    assert parse_topics(json.dumps(given)) == topics


def test_a_missing_file_is_reported_as_missing(tmp_path: Path) -> None:
    """The error names the file that was expected."""
    with pytest.raises(SowlineError, match="expected a file of topics at") as error:
        load_topics(tmp_path / "none.yaml")
    assert error.value.reason == "bad configuration"


def test_an_unknown_topic_is_answered_with_those_there_are() -> None:
    """Asking for a topic that is not defined is an error that lists the defined ones."""
    with pytest.raises(SowlineError, match=r"a, b.*'c'") as error:
        parse_topics("topics: [{name: a, key: /id}, {name: b, key: /id}]").named("c")
    assert error.value.reason == "invalid topic"


ORDERS: dict[str, Any] = {"name": "orders", "key": "/id"}


CUSTOMERS: dict[str, Any] = {"name": "customers", "key": "/id"}


NOTES: dict[str, Any] = {"name": "notes", "key": {"from": "kafka_key"}}


DESKS: dict[str, Any] = {
    "name": "desks",
    "from": "customers",
    "grouping": ["/desk"],
    "projection": ["COUNT(1) AS /n"],
}


def with_join(
    join: dict[str, Any], *views: dict[str, Any], conflated: tuple[dict[str, Any], ...] = ()
) -> Topics:
    """Return the topics with a view of orders that has this join."""
    joined = {"name": "joined", "from": "orders", "join": [{"as": "c", **join}]}
    return Topics.model_validate(
        {"topics": [ORDERS, CUSTOMERS, NOTES], "views": [DESKS, joined, *views], "conflated": list(conflated)}
    )


def join_refused(*given: Any, **more: Any) -> str:
    """Return why the topics are refused."""
    with pytest.raises(ValidationError) as refusal:
        with_join(*given, **more)
    (error,) = refusal.value.errors()
    return str(error["msg"])


ON_ID: dict[str, Any] = {"on": "/customer = /id"}


BY_NAME: dict[str, Any] = {"name": "by.name", "from": "customers"}


SLOW: dict[str, Any] = {"name": "slow", "interval": "1s"}


def test_a_join_by_other_fields_than_the_key_multiplies() -> None:
    """The refusal names the option."""
    assert "multiply: true if several may" in join_refused({"topic": "customers", "on": "/desk = /desk"})
    for join in ({"topic": "customers", "on": "/desk = /desk"}, {"topic": "notes", **ON_ID}):
        view = with_join({**join, "multiply": True}).named("joined").view
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
    one, other = (with_join({"topic": "customers", **ON_ID, "multiply": given}) for given in (False, True))
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
        made = with_join({"topic": topic, **ON_ID}, {**BY_NAME, **view}, conflated=(slow,))
        assert made.named(topic).identified_by == (("id",),)
        assert made.named(topic).identity.name == "customers"


def test_a_conflated_view_of_groups_is_joined_by_what_it_groups_by() -> None:
    """A view of single records of it, too."""
    conflated = ({**SLOW, "from": "desks"},)
    view = {"name": "by.name", "from": "slow", "filter": "/n > 1", "projection": ["/desk", "/n"]}
    made = with_join({"topic": "by.name", "on": "/desk = /desk"}, view, conflated=conflated)
    assert made.named("by.name").identified_by == (("desk",),)
    assert made.named("by.name").identity.name == "desks"


@pytest.mark.parametrize(
    ("topic", "view", "reason"),
    [
        ("notes", {}, "to join, got 'notes', whose SOW keys are not made of fields of its records"),
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
    message = join_refused({"topic": topic, **ON_ID}, *views)
    assert reason in message
    assert "add multiply: true" in message
    assert with_join({"topic": topic, **ON_ID, "multiply": True}, *views).named("joined").view is not None


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


def topics(*views: dict[str, Any], **orders: Any) -> Topics:
    """Return the topics with `orders` and these views."""
    return Topics.model_validate(
        {"topics": [{"name": "orders", "key": "/id", **orders}], "views": list(views)}
    )


def refused(*views: dict[str, Any], **orders: Any) -> str:
    """Return why the topics are refused."""
    with pytest.raises(ValidationError) as refusal:
        topics(*views, **orders)
    (error,) = refusal.value.errors()
    return str(error["msg"])


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


def test_a_view_reads_a_topic_that_keeps_records() -> None:
    """One that is defined, and not of a circle."""
    assert "for view 'totals' to read, got 'trades'" in refused({"name": "totals", "from": "trades"})
    assert "in a circle, got a, b" in refused({"name": "a", "from": "b"}, {"name": "b", "from": "a"})
    assert "in a circle, got a" in refused({"name": "a", "from": "a"})
    with pytest.raises(ValidationError, match=r"got '.*', which has sow: false"):
        Topics.model_validate(
            {"topics": [{"name": "orders", "sow": False}], "views": [{"name": "totals", "from": "orders"}]}
        )


def test_names_are_used_once() -> None:
    """A view is no topic of another name, and its Kafka topics are its own."""
    assert "each topic once, got 'orders' twice" in refused({"name": "orders", "from": "orders"})
    twice = {"name": "a", "from": "orders"}
    assert "each topic once, got 'a' twice" in refused(twice, twice)
    assert "each Kafka topic once, got 'a.b.partials' twice" in refused(
        {"name": "a/b", "from": "orders"}, {"name": "a.b", "from": "orders"}
    )


def test_a_fanout_may_read_a_view() -> None:
    """As any topic."""
    found = parse_topics(
        "topics: [{name: orders, key: /id}]\nviews: [{name: large, from: orders, filter: '/qty > 1'}]\n"
        "fanouts: [{name: all, topic: large}]\n"
    )
    assert found.fanouts[0].topic == "large"


def test_a_codec_that_can_not_be_made_is_an_error_of_the_file() -> None:
    """With its line, and not at the first record; for topics, fanouts and key generators."""
    text = (
        "topics:\n"
        "  - {name: a, key: {generator: unknown}}\n"
        "  - {name: b, key: /id, message_type: avro, reader_schema: {text: '\"string\"'}}\n"
        "  - {name: c, key: /id}\n"
        "fanouts:\n"
        "  - {name: f, topic: c, as: avro, schema: {text: '\"string\"'}}\n"
    )
    with pytest.raises(YamlFileError) as error:
        parse_topics(text)
    assert [(problem.line, problem.where) for problem in error.value.problems] == [
        (2, "topics.0.key.generator"),
        (3, "topics.1.reader_schema"),
        (6, "fanouts.0.schema"),
    ]


def test_the_second_type_of_a_name_is_in_the_name() -> None:
    """The first one keeps the name."""
    given = [{"name": "a", "key": "/id"}, {"name": "a", "key": "/id", "message_type": "msgpack"}]
    assert [topic.name for topic in Topics.model_validate({"topics": given}).topics] == ["a", "a.msgpack"]


@pytest.mark.parametrize("given", [5, {"topics": 5}, {"topics": [5]}])
def test_a_file_of_another_shape_is_refused(given: Any) -> None:
    """As each invalid value is."""
    with pytest.raises(ValidationError):
        Topics.model_validate(given)


@pytest.mark.parametrize(
    ("fanout", "message"),
    [
        ({"topic": "b"}, "expected a defined topic for fanout 'f' to read, got 'b'"),
        (
            {"topic": "a", "as": "avro"},
            "expected a schema for fanout 'f', which is written as avro, got none",
        ),
        (
            {"topic": "a", "options": "intrinsics"},
            "expected a topic with documents: true for fanout 'f', got 'a'",
        ),
    ],
)
def test_a_fanout_fits_the_topic_that_it_reads(fanout: dict[str, Any], message: str) -> None:
    """The file is refused before a service starts."""
    given = {"topics": [{"name": "a", "key": "/id"}], "fanouts": [{"name": "f", **fanout}]}
    with pytest.raises(ValidationError, match=message):
        Topics.model_validate(given)


def test_a_client_finds_topics_as_a_service_describes_them() -> None:
    """Without the definitions of how they are computed."""
    topics = DescribedTopics((define(),))
    assert topics.named("orders") == define()
    with pytest.raises(SowlineError, match=r"expected a defined topic \(orders\), got 'b'"):
        topics.named("b")
