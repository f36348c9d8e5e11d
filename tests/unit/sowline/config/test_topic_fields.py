"""The fields of a topic's definition, one by one: how each is written."""

from typing import Any

import pytest
from pydantic import ValidationError

from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.config.topic_fields import GeneratedKey, SuppliedKey, topic_name


def define(**given: Any) -> TopicDefinition:
    """Return the definition of `orders` with what is given."""
    return define_topic(**{"name": "orders", "key": "/id", **given})


@pytest.mark.parametrize(
    ("text", "steps", "kept"),
    [
        ("[/unit id]", ("unit id",), "[/unit id]"),
        ("[/client data/unit id]", ("client data", "unit id"), "[/client data][/unit id]"),
        ("/client[/unit id]/day", ("client", "unit id", "day"), "/client[/unit id]/day"),
        ("[/a.b]", ("a.b",), "/a.b"),
        ("/a.b", ("a.b",), "/a.b"),
        ("[/a+b]", ("a+b",), "/a+b"),
        ("/a+b", ("a+b",), "/a+b"),
        ("[/a[b]", ("a[b",), "[/a[b]"),
    ],
)
def test_the_names_of_key_fields_may_have_any_characters(
    text: str, steps: tuple[str, ...], kept: str
) -> None:
    """In brackets, as in every path; each path has one spelling, by which definitions are compared."""
    topic = define(key=text)
    assert (topic.key_paths, topic.key_sent) == ((steps,), [kept])
    assert topic.digest == define(key=kept).digest
    rule = topic.key_rule
    assert rule.paths == (steps,)


@pytest.mark.parametrize(
    "text", ["unit id", "/unit id", "[/unit id", "[0]", "/legs[0]", "[/a]b", "[//a]", ""]
)
def test_a_key_field_is_a_path_of_names(text: str) -> None:
    """The refusal has a path with blanks."""
    with pytest.raises(ValidationError, match=r"such as /orderId, /client/id or \[/unit id\], got"):
        define(key=text)


def test_durations_are_written_with_their_unit() -> None:
    """Windows are durations, kept in milliseconds."""
    assert define(repeat_window="90s").limits.repeat_window == 90_000


def test_indexes_are_paths_of_the_filter_language() -> None:
    """Any path that a filter may read can be indexed, one by one or as a set that is looked up together."""
    topic = define(
        indexes=["/price", "/legs[0]/qty"], hash_indexes=[["/region"], ["/customer", "[/the status]"]]
    )
    assert topic.declared.indexes == ("/price", "/legs[0]/qty")
    assert topic.declared.hash_indexes == (("/region",), ("/customer", "[/the status]"))
    assert (define().declared.indexes, define().declared.hash_indexes) == ((), ())


@pytest.mark.parametrize(
    ("text", "expiration"),
    [("disabled", "disabled"), ("enabled", "enabled"), ("30s", 30_000), ("5m", 300_000), ("1ms", 1)],
)
def test_expiration_is_a_word_or_a_lifetime(text: str, expiration: str | int) -> None:
    """Off by default; `enabled` leaves it to the messages; a lifetime is for all of them."""
    assert define(expiration=text).limits.expiration == expiration
    assert define().limits.expiration == "disabled"


@pytest.mark.parametrize("text", ["", "on", "0s", "30", "999999999d", "-5s"])
def test_another_expiration_is_refused(text: str) -> None:
    """With a sentence that says what it may be."""
    with pytest.raises(ValueError, match=r"expected .*lifetime"):
        define(expiration=text)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"durability": "transient", "recovery_point": "tomorrow"}, "expected epoch, now or a time"),
        ({"durability": "transient", "recovery_point": ""}, "expected epoch, now or a time"),
        ({"durability": "transient", "recovery_point": "20261321T000000Z"}, "expected epoch, now or a time"),
        ({"recovery_point": "now"}, "expected durability: transient"),
        ({"durability": "brief"}, "persistent"),
    ],
)
def test_another_durability_is_refused(given: dict[str, str], message: str) -> None:
    """A recovery point says nothing of a topic that is kept."""
    with pytest.raises(ValueError, match=message):
        define(**given)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a:b", "x" * 201, "a\n"])
def test_a_name_has_letters_digits_and_a_few_signs(name: str) -> None:
    """It is also the name of Kafka topics."""
    with pytest.raises(ValueError, match="expected a name of up to 200 letters"):
        topic_name(name)
    assert topic_name("eu/Orders_1-2.x") == "eu/Orders_1-2.x"


@pytest.mark.parametrize("log", ["a/b", ".", "x" * 201])
def test_a_log_has_the_name_of_a_kafka_topic(log: str) -> None:
    """Kafka knows no slash."""
    with pytest.raises(ValueError, match="expected a Kafka topic of up to 200 letters"):
        define(log=log)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"indexes": ["price"]}, "expected a path"),
        ({"enrichment": ["1 AS"]}, "expected a path after AS"),
        ({"preprocessing": ["1 AS"]}, "expected a path after AS"),
        (
            {"history": {"window": "0s"}},
            "expected a window of more than 0s, got 0s; leave history out for none",
        ),
        (
            {"history": {"window": "1s", "granularity": "2s"}},
            "expected a granularity of at most the window, 1000 ms, got 2000 ms",
        ),
        ({"key": {"generator": "a b"}}, "should match pattern"),
        ({"key": {"from": "body"}}, "'kafka_key' or 'header'"),
        ({"indexes": ["/a", "/a"]}, "expected each index once, got '/a' twice"),
    ],
)
def test_a_field_that_can_not_be_read(given: dict[str, Any], message: str) -> None:
    """The error has what was expected."""
    with pytest.raises(ValidationError, match=message):
        define(**given)


def test_a_key_comes_from_fields_publishers_or_a_generator() -> None:
    """How it is written tells which; a key that was read is read again."""
    supplied = define(key={"from": "header"}).declared.key
    assert isinstance(supplied, SuppliedKey)
    assert supplied.as_yaml() == {"from": "header"}
    assert define(key=supplied).declared.key == supplied
    generated = define(key={"generator": "desk", "options": {"a": "b"}}).declared.key
    assert generated == GeneratedKey(generator="desk", options={"a": "b"})
    assert define(key=generated).declared.key == generated
    assert define(key=["/id", "[/day]"]).declared.key == ("/id", "/day")


def test_a_computed_field_has_one_spelling() -> None:
    """By it definitions are compared."""
    assert define(enrichment=["/a+1  as  /b"]).declared.enrichment == ("/a + 1 AS /b",)
