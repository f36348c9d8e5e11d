"""Commands that are checked before they are written to the log."""

from typing import Any

import pytest

from sowline.config.outgoing_command import (
    check_document,
    check_tagging,
    check_writable,
    checked_key,
    checked_size,
)
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.config.topics import Topics
from sowline.errors import SowlineError

ORDERS = define_topic(name="orders", key="/id", record_bytes_max=64)
EVENTS = define_topic(name="events", sow=False)
NAMED = define_topic(name="named", key={"from": "header"})
DOCUMENTS = define_topic(name="reviews", key="/id", documents=True)
VIEW = Topics.model_validate(
    {"topics": [{"name": "orders", "key": "/id"}], "views": [{"name": "late", "from": "orders"}]}
).named("late")


def refusal(check: Any, *given: Any) -> str:
    """Return the reason and the sentence of a refusal."""
    with pytest.raises(SowlineError) as error:
        check(*given)
    return f"{error.value.reason}: {error.value.message}"


@pytest.mark.parametrize(
    ("body", "topic", "key", "text"),
    [
        (b'{"id":5}', ORDERS, None, "5"),
        (b'{"id":5}', EVENTS, None, None),
        (b'{"id":5}', NAMED, "a", "a"),
        (None, NAMED, "a", "a"),
        (None, ORDERS, None, None),
    ],
    ids=["of fields", "without SOW", "given", "delete by key", "delete of many"],
)
def test_the_key_text_is_known_before_the_log_is_written(
    body: bytes | None, topic: TopicDefinition, key: str | None, text: str | None
) -> None:
    """There is none without a SOW, or if a delete names no single record."""
    assert checked_key(body, topic, None, key) == text


def test_preprocessing_makes_the_key() -> None:
    """As the materializer does it, with the correlation of the command."""
    topic = define_topic(name="orders", key="/k", preprocessing=["CONCAT(/id, CORRELATION_ID()) AS /k"])
    assert checked_key(b'{"id":5}', topic, "-x") == "5-x"


def test_a_topic_without_a_sow_has_no_keys() -> None:
    """A key that would have no effect is refused."""
    assert refusal(checked_key, b"{}", EVENTS, None, "a") == (
        "bad request: expected no SOW key in topic events, which has no SOW, got one"
    )


def test_a_body_is_an_object_of_the_right_size() -> None:
    """The limit is that of the topic, in bytes."""
    fits = b"{%s}" % (b" " * 62)
    assert checked_size(fits, ORDERS) is fits
    assert refusal(checked_size, fits + b" ", ORDERS) == (
        "too large: expected a record of at most 64 bytes, got 65"
    )
    assert refusal(checked_key, b"[]", ORDERS, None).startswith("not an object: ")


def test_a_view_takes_no_commands() -> None:
    """The refusal names the topic to write to."""
    check_writable(ORDERS)
    assert refusal(check_writable, VIEW).endswith(": write to orders, which it is computed from")
    assert refusal(check_document, "a", VIEW).startswith("view: ")


def test_deltas_and_tags_are_for_documents() -> None:
    """Nothing is said about a command that has neither."""
    check_document("a", DOCUMENTS)
    assert refusal(check_document, "a", ORDERS).endswith("topic orders, for a delta")
    assert refusal(check_document, "", DOCUMENTS).startswith("key missing: ")
    assert [check_tagging(about, DOCUMENTS) for about in ({}, {"tags": ["a"]}, {"change_id": "7"})] == [
        False,
        True,
        True,
    ]
    assert check_tagging({"tags": []}, ORDERS) is False
    assert refusal(check_tagging, {"change_id": "7"}, ORDERS).startswith("no documents: ")
