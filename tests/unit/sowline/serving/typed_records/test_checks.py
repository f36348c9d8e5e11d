"""Which topics can be read with `format=native`, and by whom."""

from typing import Any

import pytest

from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.errors import SowlineError
from sowline.language.filter import compile_filter
from sowline.model.select import parse_select
from sowline.serving.authorization.entitlements import EVERYTHING, Entitlement, to_read
from sowline.serving.typed_records.checks import check_typed_read
from sowline.wire.options import parse_options
from sowline.wire.request import DeltaSubscribe, Sow, SowAndDeltaSubscribe, Subscribe

PROTO = 'syntax = "proto3"; message Order { int64 id = 1; }'
REQUEST = Sow(topic="^.*", options=parse_options("format=native"))
ONLY_ID = parse_select("[-/,+/id]")
PLAIN = define_topic(name="plain", key=("/id",))


def typed(**given: Any) -> TopicDefinition:
    """Return a topic of Protobuf."""
    fields = {"name": "orders", "message_type": "protobuf", "reader_schema": {"text": PROTO, "id": 7}}
    return define_topic(**{**fields, **({} if "sow" in given else {"key": "/id"}), **given})


@pytest.mark.parametrize("given", [{}, {"framing": "none", "reader_schema": {"text": PROTO}}])
def test_topics_of_all_types_together(given: Any) -> None:
    """A pattern may name topics of JSON and others; a user may see only some of their records."""
    some = to_read(Entitlement("orders", compile_filter("/id = 1")), Entitlement("plain", select=ONLY_ID))
    for read in (EVERYTHING.read, some):
        check_typed_read(REQUEST, [PLAIN, typed(**given)], read)


@pytest.mark.parametrize(
    ("topic", "reported"),
    [
        (typed(reader_schema={"text": PROTO}), "the id to the definition"),
        (typed(sow=False), "a topic with a SOW"),
    ],
)
def test_topics_whose_messages_can_not_be_written(topic: TopicDefinition, reported: str) -> None:
    """Without an id no frame names the schema, and without a SOW there are deltas among the messages."""
    with pytest.raises(SowlineError, match=reported) as refused:
        check_typed_read(REQUEST, [PLAIN, topic], EVERYTHING.read)
    assert refused.value.reason == "not supported"


def test_a_user_who_may_read_some_fields() -> None:
    """A message type can't leave out the others."""
    read = to_read(Entitlement("orders", select=ONLY_ID))
    with pytest.raises(SowlineError, match="all fields of orders") as refused:
        check_typed_read(REQUEST, [typed()], read)
    assert refused.value.reason == "not entitled"


@pytest.mark.parametrize("kind", [DeltaSubscribe, SowAndDeltaSubscribe])
def test_deltas(kind: type[Subscribe]) -> None:
    """Also of topics of JSON: the sentence names the command to use instead."""
    with pytest.raises(SowlineError, match=f"expected {kind.command.replace('delta_', '')} with") as refused:
        check_typed_read(kind(topic="plain"), [PLAIN], EVERYTHING.read)
    assert refused.value.reason == "not supported"
