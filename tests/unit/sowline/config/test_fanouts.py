"""Fanouts in `topics.yaml`: what one may have, and what its values are."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from sowline.codecs.schema import Schema
from sowline.config.fanouts import FanoutDefinition
from sowline.config.topic_definition import define_topic
from sowline.config.topics import load_topics, parse_topics
from sowline.errors import SowlineError
from sowline.model.select import parse_select
from tests.docs.pages import blocks_of
from tests.typed_orders import AVRO_SCHEMA, PROTOBUF_SCHEMA, typed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("nonsense", "'nonsense'"),
        ("oof,no_sowkey,reset", "got no_sowkey, bookmark_not_found"),
        ("bookmark_not_found=reset", "got bookmark_not_found"),
        ("send_keys", "got send_keys"),
        ("grouping=[/g],projection=[/g]", "got grouping, projection"),
        ("oof,no_empties", "expected no_empties together with delta: true"),
    ],
)
def test_a_fanout_is_refused_what_it_can_not_do(options: str, message: str) -> None:
    """The error leads to the options, before anything is written."""
    fanout = f"- name: f\n  topic: a\n  options: '{options}'"
    with pytest.raises(SowlineError) as error:
        parse_topics(f"topics: [{{name: a, key: /id}}]\nfanouts:\n{fanout}")
    assert "line 5: fanouts.0.options" in error.value.message
    assert message in error.value.message


@pytest.mark.parametrize("option", ["intrinsics", "no_redundant"])
def test_a_fanout_tells_of_documents_where_there_are_some(option: str) -> None:
    """Its options are looked at together with its topic."""
    text = "topics: [{{name: a, key: /id, documents: {}}}]\nfanouts: [{{name: f, topic: a, options: {}}}]"
    (fanout,) = parse_topics(text.format("true", option)).fanouts
    assert getattr(fanout.reading, option)
    with pytest.raises(SowlineError, match="expected a topic with documents: true for fanout 'f', got 'a'"):
        parse_topics(text.format("false", option))


def test_a_fanout_s_filter_is_looked_at() -> None:
    """An error names its line, before a service starts."""
    text = "topics: [{name: a, key: /id}]\nfanouts:\n  - {name: late, topic: a, filter: '/a ='}\n"
    with pytest.raises(
        SowlineError, match=r"line 3: fanouts.0.filter \(late\): expected an operand after = at column 5"
    ):
        parse_topics(text)


def test_a_fanout_reads_its_options_once() -> None:
    """They are there as the options of a read, and deltas may leave out what says nothing."""
    fanout = "{name: f, topic: a, delta: true, options: 'oof, no_empties, timestamp, select=[-/,+/id]'}"
    (read,) = parse_topics(f"topics: [{{name: a, key: /id}}]\nfanouts: [{fanout}]").fanouts
    assert (read.delta, read.reading.oof, read.reading.no_empties) == (True, True, True)
    assert read.reading.select == parse_select("[-/,+/id]")


def test_the_digest_of_a_fanout_says_what_its_readers_hold() -> None:
    """It covers which records and fields readers hold, not how or when they receive them."""

    def digest(**given: Any) -> str:
        return FanoutDefinition.model_validate(
            {"name": "f", "topic": "a", "filter": "/x = 1", **given}
        ).digest

    assert digest() == digest(delta=True, options="oof,no_empties,timestamp") == digest(name="g")
    selected = digest(options="select=[-/,+/id]")
    assert selected == digest(options="oof, select=[ +/id, -/ ]")
    assert len({digest(), selected, digest(filter="/x = 2"), digest(topic="b")}) == 4


def typed_fanout(topic: dict[str, Any], **given: Any) -> FanoutDefinition:
    """Return a fanout of a topic, as a file with both has it."""
    fanout = {"name": "f", "topic": topic["name"], **given}
    (read,) = parse_topics(yaml.safe_dump({"topics": [topic], "fanouts": [fanout]})).fanouts
    return read


def test_a_fanout_of_topics_md(tmp_path: Path) -> None:
    """The example is one that loads, with a schema in a file beside it."""
    (block,) = (one for one in blocks_of("docs/topics.md") if "test_a_fanout" in one.elsewhere)
    tmp_path.joinpath("late.avsc").write_text(AVRO_SCHEMA)
    file = tmp_path / "topics.yaml"
    file.write_text(f"topics: [{{name: orders, key: /id}}]\n{block.text}")
    (fanout,) = load_topics(file).fanouts
    assert fanout.schema_of(load_topics(file).named("orders")) == Schema("avro", AVRO_SCHEMA)


def test_a_fanout_may_have_a_message_type() -> None:
    """With the schema of its topic, or one of its own; its subject has a default."""
    topic = typed("avro")
    source = define_topic(**topic)
    plain, same = typed_fanout(topic), typed_fanout(topic, **{"as": "avro"})
    assert (plain.message_type, plain.pinned(source), plain.schema_of(source)) == ("json", None, None)
    assert (same.pinned(source), same.schema_of(source)) == (source.declared.reader_schema, source.reader)
    assert (same.framing, same.registry_subject) == ("confluent", "fanout.f-value")
    own = {"as": "protobuf", "schema": {"text": PROTOBUF_SCHEMA, "subject": "p"}, "framing": "none"}
    other = typed_fanout(topic, **own)
    assert other.schema_of(source) == Schema("protobuf", PROTOBUF_SCHEMA)
    assert (
        other.registry_subject,
        typed_fanout(topic, **{"as": "avro", "subject": "s"}).registry_subject,
    ) == (
        "p",
        "s",
    )
    assert len({plain.digest, same.digest, other.digest}) == 3


@pytest.mark.parametrize(
    ("type", "given", "message"),
    [
        ("avro", {"framing": "none"}, "expected as: with a message type with schemas, got json and framing"),
        ("avro", {"schema": {"text": "x"}, "subject": "s"}, "got json and schema, subject"),
        ("avro", {"as": "protobuf"}, "for fanout 'f', which is written as protobuf, got none: give it one"),
        ("avro", {"as": "avro", "schema": {"text": "x"}}, "fanouts.0.schema (f): expected the schema"),
        ("avro", {"as": "csv"}, "fanouts.0.as"),
        (
            "avro",
            {"as": "avro", "subject": "s", "schema": {"text": AVRO_SCHEMA, "subject": "t"}},
            "expected one subject",
        ),
    ],
)
def test_a_fanout_has_a_schema_that_fits(type: str, given: dict[str, Any], message: str) -> None:
    """What can be known from the file is refused with a sentence."""
    with pytest.raises(SowlineError) as error:
        typed_fanout(typed(type), **given)
    assert message in error.value.message


def test_a_fanout_may_be_in_a_message_type_without_schemas() -> None:
    """With options of its own, else those of its topic, if that has the same type."""
    topic = {"name": "orders", "key": "/id", "message_type": "fix", "message_format": {"separator": "|"}}
    source = define_topic(**topic)
    same = typed_fanout(topic, **{"as": "fix"})
    own = typed_fanout(topic, **{"as": "fix", "message_format": {"separator": ";"}})
    other = typed_fanout(topic, **{"as": "msgpack"})
    assert same.schema_of(source) == source.reader
    assert own.schema_of(source) == Schema("fix", '{"separator":";"}')
    assert other.schema_of(source) == Schema("msgpack", "{}")
    assert {same.framing, own.framing, other.framing} == {"none"}
    assert len({same.digest, own.digest, other.digest}) == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"message_format": {"separator": ";"}},
            "expected as: with a message type without schemas and message_format",
        ),
        (
            {"as": "msgpack", "message_format": {"separator": ";"}},
            "expected no options with message type msgpack",
        ),
        ({"as": "binary", "delta": True}, "expected no delta: true with as: binary, which has no deltas"),
    ],
)
def test_the_options_of_a_fanout_fit_its_type(given: dict[str, Any], message: str) -> None:
    """A type without deltas is refused together with `delta`."""
    with pytest.raises(ValidationError, match=message):
        FanoutDefinition.model_validate({"name": "f", "topic": "orders", **given})
