"""The fields of a topic's definition, one by one: how each is written."""

from typing import Any

import pytest
from pydantic import ValidationError

from sowline.config.topic_definition import TopicDefinition, define_topic


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
