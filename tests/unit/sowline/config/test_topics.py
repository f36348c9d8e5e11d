"""`topics.yaml`: what it may say, what is filled in, and where it is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.config.topics import Topics, load_topics, parse_topics
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
        ("topics: [{name: a, key: /id}, {name: a, key: /id, log: b}]", "topic 'a' is used twice"),
        ("topics: [{name: a, key: /id}, {name: b, key: /id, log: a}]", "Kafka topic 'a' is used twice"),
        (
            "topics: [{name: a, key: /id}, {name: a.changes, key: /id}]",
            "Kafka topic 'a.changes' is used twice",
        ),
        ("topics: [{name: a, key: /id}]\nfanouts: [{name: f, topic: b}]", "topic 'b', which is not defined"),
        (
            "topics: [{name: a, key: /id}]\nfanouts: [{name: f, topic: a}, {name: f, topic: a}]",
            "'fanout.f' is used twice",
        ),
    ],
)
def test_topics_do_not_get_in_each_others_way(text: str, message: str) -> None:
    """Names and Kafka topics are used once, and fanouts read topics that exist."""
    with pytest.raises(SowlineError, match=r"used twice|not defined") as error:
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
