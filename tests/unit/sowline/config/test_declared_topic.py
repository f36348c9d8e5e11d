"""A topic as its user defines it: what is filled in, and what does not fit."""

import re
from typing import Any

import pytest
from pydantic import ValidationError

from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from tests.typed_orders import AVRO_SCHEMA


def define(**given: Any) -> TopicDefinition:
    """Return the definition of `orders` with what is given."""
    return define_topic(**{"name": "orders", "key": "/id", **given})


def test_a_topic_needs_a_name_and_a_key() -> None:
    """Everything else has a default: the log and the key domain are the name, changes and dead letters beside."""
    topic = parse_topics("topics: [{name: orders, key: [/id]}]").named("orders")
    assert (topic.log, topic.changes, topic.kafka.dead) == ("orders", "orders.changes", "orders.dead")
    assert (topic.partitions, topic.declared.key_domain, topic.key_paths) == (1, "orders", (("id",),))
    assert (topic.limits.repeat_window, topic.declared.resume_window) == (7 * 86_400_000, 3_600_000)


def test_a_key_may_have_several_fields() -> None:
    """Key fields are paths; one may be written without its list."""
    assert define(key=["/client/id", "/day"]).key_paths == (("client", "id"), ("day",))
    assert define(key="/a/b").key_paths == (("a", "b"),)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("topics:\n  - name: orders\n", 2, "topics.0.key"),
        ("topics:\n  - name: orders\n    key: [/id]\n    partitions: 0\n", 4, "partitions"),
        ("topics:\n  - key: [/id]\n", 2, "name"),
        (
            "topics:\n  - name: a\n    key: [/id]\n  - name: b\n    key:\n      - /id\n      - id\n",
            7,
            "path of a key field",
        ),
        ("topics:\n  - name: a b\n    key: [/id]\n", 2, "expected a name"),
        *(
            (f"topics:\n  - name: a\n    key: /id\n    partitions: {number}\n", 4, "a number in plain digits")
            for number in ("010", "1_000", "+5", "-01")
        ),
        (f"topics:\n  - {'[' * 5000}{']' * 5000}\n", 2, "at most 64 levels, got more"),
        (f"topics:\n  {'{a: ' * 5000}1{'}' * 5000}\n", 2, "at most 64 levels, got more"),
        (f"topics:\n  {'- ' * 5000}1\n", 2, "at most 64 levels, got more"),
        ("topics:\n  - name: a\n    key: [/id]\n    color: red\n", 4, "color"),
        ("topics:\n  - name: a\n    key: []\n", 3, "key"),
        ("topics:\n  - name: a\n    key: /id\n    message_type: csv\n", 4, "json"),
        ("topics:\n  - name: a\n    key: /id\n    repeat_window: 7\n", 4, "expected a duration"),
        ("topics:\n  - {name: a, key: /id}\nfanout: []\n", 3, "fanout"),
        ("topics:\n  - {name: a, key: /id}\nfanouts:\n  - {name: f}\n", 4, "topic"),
        ("topics:\n  - name: a\n    key: /id\n    log: a:b\n", 4, "expected a Kafka topic"),
        ("topics:\n  - name: a\n    key: /id\n    log: ..\n", 4, "expected a Kafka topic"),
        ("topics:\n  - name: a\n    key: /id\n    indexes: [/b, price]\n", 4, "expected a path"),
        ("topics:\n  - name: a\n    key: /id\n    indexes: [/b, /c, [/b]]\n", 4, "indexes"),
        (
            "topics:\n  - name: a\n    key: /id\n    indexes: [/b, '[/b]']\n",
            4,
            "each index once, got '/b' twice",
        ),
        ("topics:\n  - name: a\n    key: /id\n    hash_indexes: [/b]\n", 4, "hash_indexes.0"),
        ("topics:\n  - name: a\n    key: /id\n    hash_indexes: [[]]\n", 4, "hash_indexes.0"),
        (
            "topics:\n  - name: a\n    key: /id\n    hash_indexes: [[/b, /b]]\n",
            4,
            "each field of a hash index once, got '/b'",
        ),
        (
            "topics:\n  - name: a\n    key: /id\n    hash_indexes: [[/b, /c], [/c, /b]]\n",
            4,
            "each hash index once, got '/b and /c' twice",
        ),
        (
            "topics:\n  - name: a\n    key: /id\n    enrichment:\n      - 1 AS /b\n      - /c AS\n",
            6,
            "enrichment.1 (a): expected a path after AS at column 6",
        ),
        ("topics:\n  - name: a\n    key: /id\n    enrichment: [SUM(/b) AS /c]\n", 4, "the aggregate SUM"),
        (
            "topics:\n  - name: a\n    key: /id\n    preprocessing: [/b OF PREVIOUS AS /c]\n",
            4,
            "got /b OF PREVIOUS",
        ),
        (
            "topics:\n  - name: a\n    key: /id\n    preprocessing: [1 AS /b, 2 AS /b/c]\n",
            4,
            "paths that don't overlap, got /b and /b/c",
        ),
        (
            "topics:\n  - name: a\n    key: /id\n    enrichment: [1 AS /b, 2 AS /b]\n",
            4,
            "paths that don't overlap, got /b and /b",
        ),
        (
            "topics:\n  - name: a\n    key: /id\n    preprocessing: [1 AS /id/b]\n",
            4,
            "a key field or outside of it, got /id/b and the key field /id",
        ),
        (
            "topics:\n  - name: a\n    key: [/x, /b/id]\n    preprocessing: [1 AS /b]\n",
            4,
            "got /b and the key field /b/id",
        ),
        ("topics:\n  - name: a\n    key: /id\n    enrichment: [1 AS /id]\n", 4, "paths other than the key's"),
        (
            "topics:\n  - name: a\n    key: /b/id\n    enrichment: [1 AS /b]\n",
            4,
            "paths other than the key's",
        ),
        ("topics:\n  - name: a\n    key: /id\n    enrichment: 1 AS /b\n", 4, "enrichment"),
        ("topics: 5\n", 1, "topics"),
        ("- a\n", 1, "file"),
    ],
)
def test_an_error_names_file_line_and_reason(text: str, line: int, message: str) -> None:
    """The author of the file is led to the line."""
    with pytest.raises(SowlineError) as error:
        parse_topics(text, "my.yaml")
    assert error.value.reason == "bad configuration"
    assert error.value.message.startswith(f"my.yaml, line {line}: ")
    assert message in error.value.message


PARTS = {"parts": [{"type": "json"}, {"type": "fix", "format": {"names": {"11": "ClOrdID"}}}]}


@pytest.mark.parametrize(
    ("type", "options", "key", "expected"),
    [
        ("fix", {"names": {"11": "ClOrdID"}}, "/11", "/ClOrdID"),
        ("composite-local", PARTS, "/1/11", "/1/ClOrdID"),
    ],
)
def test_a_key_field_has_the_name_that_records_have(
    type: str, options: dict[str, Any], key: str, expected: str
) -> None:
    """By its tag it would be in no record, and each message a dead letter."""
    topic = {"name": "orders", "message_type": type, "message_format": options}
    with pytest.raises(ValidationError, match=f"expected the key field {expected}, .* got {key}:"):
        define_topic(**{**topic, "key": key})
    assert define_topic(**{**topic, "key": [expected, "/0"]}).key_paths[1] == ("0",)


def test_a_stage_has_so_many_fields() -> None:
    """More than 64 are refused."""
    texts = [f"1 AS /f{number}" for number in range(65)]
    assert len(define(preprocessing=texts[:64], enrichment=texts[:64]).declared.enrichment) == 64
    with pytest.raises(ValueError, match="at most 64"):
        define(preprocessing=texts)
    with pytest.raises(ValueError, match="at most 64"):
        define(enrichment=texts)


def test_a_topic_has_so_many_indexes() -> None:
    """More than 64 of a kind are refused."""
    paths = [f"/f{number}" for number in range(65)]
    assert (
        len(define(indexes=paths[:64], hash_indexes=[[path] for path in paths[:64]]).declared.indexes) == 64
    )
    with pytest.raises(ValueError, match="at most 64"):
        define(indexes=paths)
    with pytest.raises(ValueError, match="at most 64"):
        define(hash_indexes=[[path] for path in paths])


SCHEMA = {"text": AVRO_SCHEMA}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"key": {"from": "header"}, "key_domain": "x"},
            "expected a key_domain only with key fields, got 'x'",
        ),
        (
            {"sow": "no", "key": (), "delta": True},
            "expected no field for records with sow: false, got key, delta",
        ),
        ({"sow": "perhaps"}, "Input should be a valid boolean"),
        ({"documents": True, "template": {"~id": 1}}, "expected fields other than intrinsics, got ~id"),
        ({"documents": True, "template": {"at": {1}}}, "expected fields with JSON values"),
        ({"documents": True, "template": {"id": 1}}, "expected a template without the key's fields, got id"),
        ({"history_ttl": "1d"}, "expected documents: true with history_ttl"),
        ({"documents": True, "enrichment": ["1 AS /a"]}, "expected no enrichment with documents: true"),
        ({"message_format": {}}, "expected a message_type without schemas with message_format, got json"),
        ({"message_type": "binary"}, "set key: {from: kafka_key} or key: {from: header}"),
        ({"message_type": "fix", "message_format": {"lists": ["/a"]}}, "with message type fix, got lists"),
        ({"framing": "none"}, "expected a message_type with schemas, got json and framing"),
        ({"message_type": "avro"}, "expected a reader_schema with message_type: avro"),
        ({"message_type": "msgpack", "documents": True}, "expected message_type: json with documents: true"),
        (
            {"message_type": "avro", "reader_schema": SCHEMA, "framing": "none", "schemas": {1: SCHEMA}},
            "expected no schemas with framing: none",
        ),
        ({"recovery_point": "now"}, "expected durability: transient with a recovery_point, got now alone"),
    ],
)
def test_fields_that_do_not_fit_each_other_are_refused(given: dict[str, Any], message: str) -> None:
    """The sentence names the field, and what it would need."""
    with pytest.raises(ValidationError, match=re.escape(message)):
        define(**given)


def test_a_topic_without_a_sow_needs_no_key() -> None:
    """It has none, and no key domain."""
    topic = define_topic(name="events", sow=False).declared
    assert (topic.key, topic.key_domain, topic.key_paths, topic.log) == ((), "", (), "events")


def test_the_key_domain_begins_what_is_hashed() -> None:
    """It ends with a byte that no domain has."""
    assert define().declared.domain_prefix == b"orders\0"
    assert define(key_domain="é").declared.domain_prefix == "é\0".encode()


def test_a_message_type_without_schemas_has_no_framing() -> None:
    """Other types have Confluent's by default."""
    assert define(message_type="msgpack").declared.framing == "none"
    typed = define(message_type="avro", reader_schema=SCHEMA)
    assert typed.declared.framing == "confluent"
    assert (
        define(message_type="avro", reader_schema=SCHEMA, framing="apicurio").declared.framing == "apicurio"
    )


def test_a_template_is_json() -> None:
    """It is kept as documents are."""
    assert define(documents=True, template={"a": (1, 2)}).declared.template == {"a": [1, 2]}
