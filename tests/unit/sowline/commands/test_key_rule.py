"""How records get their keys: which texts are keys, where they come from, and what their SOW keys are."""

import pickle
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given

from sowline.commands.command import (
    Command,
    CopyOf,
    LogRecord,
    Origin,
    command_headers,
    read_command,
)
from sowline.commands.key_generator import Appended
from sowline.commands.key_rule import FieldKeys, GeneratedKeys, SuppliedKeys
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.model.nesting import NESTING_MAX
from sowline.wire.server_message import escaped
from tests.property.keys import NO_KEYS, header_keys, kafka_keys
from tests.unit.generators import install

APPENDED = Appended(1000, 0, 7)


def appended(record: LogRecord, command: Command) -> Appended:
    """Say where every record was appended."""
    return APPENDED


def published(rule: Any, key: bytes | None = None, header: str | None = None, **body: Any) -> str:
    """Return the key text of a message."""
    text: str = rule.published(body, LogRecord(7, 1000, key, b"{}"), Command(key=header), appended)
    return text


def refusal(call: Any, *given: Any, **named: Any) -> str:
    """Return the reason for which a call is refused."""
    with pytest.raises(SowlineError, match="expected") as error:
        call(*given, **named)
    return error.value.reason


@given(kafka_keys)
def test_a_kafka_key_is_the_key(key: str) -> None:
    """Any text of 1 to 255 bytes without control characters is returned as given, and is the SOW key."""
    rule = SuppliedKeys("kafka_key")
    assert published(rule, key.encode()) == key == rule.given({}, key)
    assert rule.named(LogRecord(0, 0, key.encode(), None), Command()) == key
    assert rule.sow_key(key) == key.encode()
    assert rule.text_of(key.encode(), b"{}") == key


@pytest.mark.parametrize("text", NO_KEYS)
def test_what_is_no_key_is_refused(text: str) -> None:
    """By log and APIs for the same reason."""
    reason = "bad key" if text else "key missing"
    for rule in (SuppliedKeys("kafka_key"), SuppliedKeys("header")):
        assert refusal(rule.given, {}, text) == reason
        assert refusal(rule.check, text) == reason
    assert refusal(published, SuppliedKeys("kafka_key"), text.encode()) == reason
    assert refusal(published, SuppliedKeys("kafka_key"), b"\xff") == "bad key"
    assert refusal(SuppliedKeys("kafka_key").given, {}, "\ud800") == "bad key"


@given(header_keys)
def test_a_header_holds_base64(key: str) -> None:
    """Base64 and URL-safe Base64; the Kafka key of a message says nothing, that of a delete names the record."""
    rule = SuppliedKeys("header")
    command = read_command(command_headers("publish", key=key))
    assert command.key == key == published(rule, b"other", key)
    tombstone = LogRecord(0, 0, b"other", None)
    assert rule.named(tombstone, Command(key=key)) == key
    assert rule.named(tombstone, Command()) == "other"


@pytest.mark.parametrize("text", ["a b", "ü", "a,b", "a.b", "", "x" * 256, '"'])
def test_a_header_that_is_no_key_is_malformed(text: str) -> None:
    """As other headers are."""
    assert refusal(read_command, [("sow.key", text.encode())]) == "bad header"


def test_a_header_key_is_needed() -> None:
    """A Kafka key does not stand for it."""
    assert refusal(published, SuppliedKeys("header"), b"a") == "key missing"
    assert refusal(SuppliedKeys("header").given, {}, None) == "key missing"
    assert refusal(SuppliedKeys("header").given, {}, "ü") == "bad key"


def test_a_key_is_a_selector() -> None:
    """Beside another one it is refused."""
    headers = [("sow.command", b"sow_delete"), ("sow.key", b"a"), ("sow.filter", b"1=1")]
    assert refusal(read_command, headers) == "bad header"
    assert refusal(read_command, [("sow.origin_time", b"1")]) == "bad header"


def test_fields_need_no_key() -> None:
    """Where the body names the record a publisher gives no key."""
    rule = FieldKeys((("id",),), b"orders\0")
    assert rule.given({"id": 1}, None) == "1"
    assert refusal(rule.given, {"id": 1}, "1") == "bad request"


def test_rules_are_values() -> None:
    """Equal definitions have equal rules, which may be pickled."""
    rules = [
        FieldKeys((("id",),), b"a\0"),
        SuppliedKeys("header"),
        SuppliedKeys("kafka_key"),
        GeneratedKeys("x", {}),
    ]
    for rule in rules:
        assert pickle.loads(pickle.dumps(rule)) == rule
        assert [rule == other for other in rules].count(True) == 1


# keys in JSON


@given(kafka_keys)
def test_a_key_in_json(key: str) -> None:
    """Whatever it holds, the text around it stays JSON, and the key what it was."""
    assert orjson.loads(b'{"sow_key":"%s"}' % escaped(key.encode())) == {"sow_key": key}


# generators


@pytest.fixture
def generators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The generators of the tests, installed."""
    install(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def defined(generator: str = "desk", **options: str) -> TopicDefinition:
    """Return a topic whose keys a generator makes."""
    key = {"generator": generator, "options": options}
    return parse_topics(yaml.safe_dump({"topics": [{"name": "a", "key": key}]})).topics[0]


@pytest.mark.usefixtures("generators")
def test_a_generator_makes_keys() -> None:
    """Of the record and the options; what it does to the record stays without effect."""
    rule = defined(separator="/").key_rule
    body = {"desk": "NY", "id": 5}
    text = rule.published(body, LogRecord(0, 0, b"other", b"{}"), Command(), appended)
    assert text == "NY/5" == rule.given(body, None)
    assert body == {"desk": "NY", "id": 5}
    assert rule.sow_key(text) == b"NY/5"
    assert refusal(rule.given, body, "NY/5") == "bad request"


@pytest.mark.usefixtures("generators")
def test_a_generator_gets_the_deepest_body() -> None:
    """It has a copy, which is written and read again."""
    deep: Any = 5
    for _ in range(NESTING_MAX - 1):
        deep = [deep]
    assert published(defined(separator="/").key_rule, desk="NY", id=5, deep=deep) == "NY/5"


@pytest.mark.usefixtures("generators")
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"id": 5}, "key generator failed"),
        ({"desk": "", "id": ""}, "bad key"),
        ({"desk": "\n", "id": 1}, "bad key"),
        ({"desk": "x" * 256, "id": 1}, "bad key"),
    ],
)
def test_a_generator_that_makes_none(body: dict[str, Any], reason: str) -> None:
    """An exception, and what is no key, refuse the message."""
    assert refusal(published, defined().key_rule, **body) == reason


@pytest.mark.usefixtures("generators")
def test_a_generator_may_ask_where_a_message_was_appended() -> None:
    """Then nobody knows a key before that."""
    rule = defined("placed").key_rule
    assert published(rule) == "1000/0/7"
    assert rule.given({}, None) is None


@pytest.mark.usefixtures("generators")
@pytest.mark.parametrize("name", ["unknown", "broken", "strict", "unversioned"])
def test_a_generator_that_can_t_be_used(name: str) -> None:
    """The file of topics is refused, with the line, before a service does anything else."""
    with pytest.raises(
        SowlineError, match=r"line \d+: topics\.0\.key\.generator \(\w+\): .*generator"
    ) as error:
        defined(name)
    assert error.value.reason == "bad configuration"


@pytest.mark.usefixtures("generators")
def test_the_version_of_the_algorithm_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition does not go on with another one; that of the package says nothing."""
    before = defined().digest
    monkeypatch.setattr(sys.modules["desk_keys"].Desk, "version", "2")
    assert defined().digest != before
    assert defined(separator="-").digest != defined(separator="/").digest
    assert defined().key_sent == {"generator": "desk", "options": {}, "version": "2"}


def test_a_generator_that_is_not_here_leaves_keys_unknown() -> None:
    """A client does without it: anyone who applies a message knows its key."""
    key: Mapping[str, Any] = {"generator": "away", "options": {}, "version": "1"}
    definition = define_topic(name="a", key=key)
    assert definition.key_rule.given({"id": 1}, None) is None


@pytest.mark.usefixtures("generators")
def test_a_generator_of_another_version_leaves_keys_unknown() -> None:
    """What it makes would be other keys."""
    key = {"generator": "desk", "version": "7"}
    definition = define_topic(name="a", key=key)
    assert definition.key_rule.given({"desk": "NY", "id": 5}, None) is None


def test_origins_give_a_copy_its_key() -> None:
    """A forwarded copy has the key of what was forwarded."""
    command = read_command([("sow.origin", b"log:1@5"), ("sow.origin_time", b"12")])
    assert (command.origin, command.origin_time) == (CopyOf("log", Origin(1, 5)), 12)


RULES = [FieldKeys((("id",),), b"a\0"), SuppliedKeys("kafka_key"), GeneratedKeys("desk", {}, "1")]


@pytest.mark.parametrize("rule", RULES)
def test_the_kafka_key_names_a_record_without_a_body(rule: Any) -> None:
    """For a delete, by each kind of key."""
    assert rule.named(LogRecord(7, 1000, b"5", None), Command()) == "5"
    assert refusal(rule.named, LogRecord(7, 1000, None, None), Command()) == "key missing"
    assert refusal(rule.named, LogRecord(7, 1000, b"\xff", None), Command()) == "bad key"


def test_the_key_text_of_a_stored_record() -> None:
    """That of fields is in the body; any other one is the SOW key."""
    texts = [rule.text_of(b"7", b'{"id":5}') for rule in RULES]
    assert texts == ["5", "7", "7"]


@pytest.mark.parametrize("rule", RULES)
def test_a_text_that_can_be_no_key_is_refused(rule: Any) -> None:
    """By each kind of key, before there is a record."""
    rule.check("5")
    assert refusal(rule.check, "") == "key missing"
    assert refusal(rule.check, "x" * 5000) == "bad key"


def test_a_sow_key_is_a_hash_or_the_text() -> None:
    """The hash is of the key domain and the text."""
    hashed, supplied, generated = (rule.sow_key("5") for rule in RULES)
    assert (supplied, generated) == (b"5", b"5")
    assert (
        hashed == FieldKeys((("other",),), b"a\0").sow_key("5") != FieldKeys((("id",),), b"b\0").sow_key("5")
    )
    assert refusal(RULES[1].sow_key, "\ud800") == "bad key"


def test_topics_of_fields_take_no_other_key() -> None:
    """The refusal names the fields."""
    with pytest.raises(SowlineError, match="the topic makes its keys from /id, got '7'"):
        RULES[0].given({"id": 5}, "7")
    assert RULES[0].given({"id": 5}, None) == "5"
