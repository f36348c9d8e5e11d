"""Requests that write to topics whose keys publishers or generators give: what is named, and who may."""

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from sowline.commands.command import read_command
from sowline.config.topic_definition import define_topic
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.language.filter import compile_filter
from sowline.model.key import partition_of
from sowline.model.position import Position
from sowline.serving.authorization.entitlements import EVERYTHING, Entitlement, Rights, to_read, to_write
from sowline.serving.writes.checked_command import CheckedCommand
from sowline.serving.writes.requests import posted_writes, writes_of
from sowline.wire.request import Write
from sowline.wire.request_parser import parse_request
from sowline_query_service.index.key_lookup import sow_keys_of
from sowline_query_service.query.record_reads import read_record
from sowline_query_service.topics.state import ServedTopics
from tests.property.keys import HOSTILE
from tests.unit.generators import install
from tests.unit.query_service.writing import checked, definitions

TOPICS = [
    {"name": "files", "key": {"from": "kafka_key"}, "partitions": 5},
    {"name": "blobs", "key": {"from": "header"}, "partitions": 5},
    {"name": "trades", "key": {"generator": "desk"}, "partitions": 5},
    {"name": "placed", "key": {"generator": "placed"}, "partitions": 5},
    {"name": "orders", "key": ["/id"]},
    {"name": "ticks", "sow": False},
]
MINE = Entitlement("^.*", compile_filter("/desk = 'NY'"))
TRADER = Rights(to_read(MINE), to_write(MINE))


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServedTopics:
    """A topic of each kind of key, all loaded."""
    install(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    topics = parse_topics(yaml.safe_dump({"topics": TOPICS}))
    state = ServedTopics(topics, 10)
    state.loaded([(topic.changes, part) for topic in topics.topics for part in range(topic.partitions)])
    return state


def asked(
    state: ServedTopics, topic: str, command: str = "publish", rights: Rights = EVERYTHING, **fields: Any
) -> CheckedCommand:
    """Return what a request over the WebSocket writes."""
    request = parse_request(Write, orjson.dumps({"command": command, "topic": topic, **fields}))
    [writing] = checked(state, writes_of(definitions(state), request, rights))
    return writing.write


def posted(
    state: ServedTopics,
    topic: str,
    *bodies: Any,
    command: str = "publish",
    rights: Rights = EVERYTHING,
    **given: str,
) -> list[CheckedCommand]:
    """Return what a POST of lines writes."""
    lines = [json.dumps(body).encode() for body in bodies]
    writings = posted_writes(definitions(state), topic, command, given, lines, rights, are_lines=True)
    return [writing.write for writing in checked(state, writings)]


@pytest.mark.parametrize("key", HOSTILE)
def test_a_key_names_the_record(state: ServedTopics, key: str) -> None:
    """It is the Kafka key, and decides the partition; by either API."""
    for write in (
        asked(state, "files", sow_key=key, data={"n": 1}),
        posted(state, "files", {"sow_key": key, "data": {"n": 1}})[0],
        posted(state, "files", {"n": 1}, sow_key=key)[0],
        asked(state, "files", "sow_delete", sow_key=key),
        posted(state, "files", {"sow_key": key}, command="sow_delete")[0],
    ):
        assert (write.key, write.partition) == (key.encode(), partition_of(key, 5))
        assert write.body in (b'{"n":1}', b'{"n": 1}', None)
        assert read_command(write.headers).key is None
        assert not write.is_for_all


def test_a_key_goes_into_the_header(state: ServedTopics) -> None:
    """Where the topic says so; the Kafka key is the same, so that it lands where it belongs."""
    write = asked(state, "blobs", sow_key="a/b=", data={})
    assert (write.key, read_command(write.headers).key) == (b"a/b=", "a/b=")


@pytest.mark.parametrize(
    ("topic", "fields", "reason"),
    [
        ("files", {"data": {}}, "key missing"),
        ("files", {"data": {}, "sow_key": "\0progress"}, "bad key"),
        ("files", {"data": {}, "sow_key": "ü" * 128}, "bad key"),
        ("blobs", {"data": {}, "sow_key": "ü"}, "bad key"),
        ("trades", {"data": {"desk": "NY", "id": 1}, "sow_key": "NY1"}, "bad request"),
        ("trades", {"data": {}}, "key generator failed"),
        ("orders", {"data": {"id": 1}, "sow_key": "1"}, "bad request"),
        ("ticks", {"data": {"id": 1}, "sow_key": "1"}, "bad request"),
        ("files", {"command": "sow_delete", "data": {}}, "key missing"),
        ("files", {"command": "sow_delete", "sow_key": "a", "sow_keys": "a"}, "bad request"),
        ("orders", {"command": "sow_delete", "sow_key": "1"}, "bad request"),
    ],
)
def test_keys_that_are_refused(state: ServedTopics, topic: str, fields: Any, reason: str) -> None:
    """Before anything is written."""
    with pytest.raises(SowlineError, match="expected") as error:
        asked(state, topic, **fields)
    assert error.value.reason == reason


@pytest.mark.parametrize(
    ("lines", "given", "reason"),
    [
        ([{"n": 1}], {}, "key missing"),
        ([{}], {}, "key missing"),
        ([{"sow_key": "a", "data": {}}, {"data": {}}], {}, "key missing"),
        ([{"sow_key": "a", "data": {}, "more": 1}], {}, "bad request"),
        ([{"sow_key": "a"}], {}, "bad request"),
        ([{"sow_key": 1, "data": {}}], {}, "bad request"),
        ([[]], {}, "bad request"),
        ([{"n": 1}, {"n": 2}], {"sow_key": "a"}, "bad request"),
    ],
)
def test_lines_that_are_refused(state: ServedTopics, lines: list[Any], given: Any, reason: str) -> None:
    """Each of several has its own key, and nothing that is not known."""
    with pytest.raises(SowlineError, match="expected") as error:
        posted(state, "files", *lines, **given)
    assert error.value.reason == reason


def test_a_line_of_an_answer_is_a_line(state: ServedTopics) -> None:
    """What a query streams can be posted."""
    [write] = posted(state, "files", {"sow_key": "a", "updated_at": "files:0@1", "data": {"n": 1}})
    assert (write.key, write.body) == (b"a", b'{"n": 1}')


def test_a_generator_makes_the_key_where_it_can(state: ServedTopics) -> None:
    """Else the command goes to one partition, whatever it is about, so that the order stays."""
    write = asked(state, "trades", data={"desk": "NY", "id": 1})
    assert (write.key, write.partition) == (b"NY1", partition_of("NY1", 5))
    writes = [asked(state, "placed", data={"n": n}) for n in range(3)]
    assert {(write.key, write.partition) for write in writes} == {(None, partition_of("placed", 5))}
    assert not any(write.is_for_all for write in writes)


def test_only_ones_own_records_are_written(state: ServedTopics) -> None:
    """Who may write some records may not take others' keys, and not write where the key is known too late."""
    body = b'{"desk":"LN"}'
    state.topics["files"].rows.put(b"theirs", body, 0, Position(0, 1), 1)
    mine = {"desk": "NY", "id": 1}
    asked(state, "files", rights=TRADER, sow_key="mine", data=mine)
    asked(state, "trades", rights=TRADER, data=mine)
    for topic, fields in (
        ("files", {"sow_key": "theirs", "data": mine}),
        ("files", {"command": "sow_delete", "sow_key": "theirs"}),
        ("files", {"command": "sow_delete", "sow_keys": '["theirs"]'}),
        ("placed", {"data": mine}),
    ):
        with pytest.raises(SowlineError, match="/desk = 'NY'") as error:
            asked(state, topic, rights=TRADER, **fields)
        assert error.value.reason == "not entitled"


def test_a_record_is_read_by_its_key(state: ServedTopics) -> None:
    """And no filter of fields leads to it straight."""
    topic = state.topics["files"]
    for number, key in enumerate(HOSTILE):
        topic.rows.put(key.encode(), b"%d" % number, 0, Position(0, number), 1)
    entitlement = EVERYTHING.read.of("files")
    assert [read_record(topic, key, entitlement) for key in HOSTILE] == [
        b"%d" % n for n in range(len(HOSTILE))
    ]
    assert sow_keys_of(compile_filter("/id = 'a'").tree, topic.definition) is None


def test_kinds_of_keys_are_different_definitions(state: ServedTopics) -> None:
    """A partition does not go on with another kind."""
    kinds: list[Any] = [["/id"], {"from": "kafka_key"}, {"from": "header"}, {"generator": "desk"}]
    digests = {define_topic(name="a", key=kind).digest for kind in kinds}
    assert len(digests) == len(kinds)
