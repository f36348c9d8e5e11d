"""Requests that write deltas: the commands that they ask for, and what is refused before any is written."""

import asyncio
import json
import threading
from typing import Any

import pytest

from sowline.commands.command import read_command
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.model.key import partition_of
from sowline.serving import worker_thread
from sowline.serving.authorization.entitlements import EVERYTHING
from sowline.serving.worker_thread import THREAD_BYTES_MIN, in_worker_thread
from sowline.serving.writes.delta_requests import delta_of, posted_deltas, posted_lines
from sowline.serving.writes.requests import Definitions, posted_writes, writes_of
from sowline.wire.request import DeltaPublish, DeltaRequest
from sowline.wire.request_parser import parse_request
from tests.unit.query_service.sessions import Server, settled

TOPICS = """topics:
  - {name: reviews, key: /id, documents: true, partitions: 4, record_bytes_max: 100}
  - {name: pairs, key: [/a, /b], documents: true}
  - {name: orders, key: /id}
"""


@pytest.fixture
def topics() -> Definitions:
    """Two topics of documents and one without."""
    return {topic.name: topic for topic in parse_topics(TOPICS).topics}


def asked(topics: Definitions, **fields: Any) -> Any:
    """Return the one command that a request for a delta asks for."""
    request = {"command": "delta", "topic": "reviews", "key": "k", "data": "~"} | fields
    [writing] = delta_of(topics, parse_request(DeltaRequest, json.dumps(request).encode()), EVERYTHING)
    return writing.write


@pytest.mark.parametrize("tags", [["b", "a"], "b, a"])
def test_a_delta_is_the_command_of_its_document(topics: Definitions, tags: Any) -> None:
    """Named by its key text, in its place, as it was written, with what goes with it."""
    text = '{..,"a" : 1}'
    write = asked(
        topics, data=text, tags=tags, change_id="c", correlation_id="x", expiration=2.5, ack_type="processed"
    )
    assert (write.body, write.key, write.partition) == (text.encode(), b"k", partition_of("k", 4))
    command = read_command(write.headers)
    assert (command.command, command.tags, command.change_id) == ("delta", ("a", "b"), "c")
    assert (command.correlation, command.expiration) == ("x", 2.5)


@pytest.mark.parametrize(
    ("fields", "reason", "sentence"),
    [
        ({"topic": "orders"}, "no documents", "documents: true in the definition of topic orders"),
        ({"topic": "^re.*"}, "regex topic not supported", "the name of one topic"),
        ({"topic": "none"}, "invalid topic", "none"),
        ({"key": ""}, "key missing", "got none"),
        ({"key": "k" * 5000}, "bad key", "at most 4096 bytes"),
        ({"topic": "pairs"}, "bad key", "JSON array of 2 strings"),
        ({"topic": "pairs", "key": '["a", "b"]'}, "bad key", 'expected ["a","b"] for a key'),
        ({"data": {"a": 1}}, "bad request", "a JSON string"),
        ({"data": None}, "bad request", "a JSON string"),
        ({"data": "~~"}, "bad delta", "at column 2"),
        ({"data": "[~]"}, "bad delta", "at column 2"),
        ({"data": '{"a":"%s"}' % ("x" * 100)}, "too large", "at most 100 bytes, got 108"),
        ({"tags": ["a,b"]}, "bad header", "tags without commas"),
        ({"tags": [" a"]}, "bad header", "tags without commas"),
        ({"tags": ["t" * 101]}, "bad header", "up to 100 characters"),
        ({"tags": [str(number) for number in range(17)]}, "bad header", "up to 16 tags"),
        ({"change_id": "c" * 251}, "bad header", "250 characters"),
        ({"filter": "1=1"}, "bad header", "only on a sow_delete"),
    ],
)
def test_a_delta_that_can_t_be_is_refused(
    topics: Definitions, fields: Any, reason: str, sentence: str
) -> None:
    """Before it is written, with a sentence that says what was expected."""
    with pytest.raises(SowlineError) as refused:
        asked(topics, **fields)
    assert refused.value.reason == reason
    assert sentence in refused.value.message


def test_a_stream_is_for_one_document(topics: Definitions) -> None:
    """Its deltas have what the parameters say in common."""
    found = posted_deltas(
        topics, "reviews", {"key": "k", "tags": "t"}, b'[{"a":1},if ~ then {} end]', EVERYTHING
    )
    assert [(one.write.body, one.write.key) for one in found] == [
        (b'{"a":1}', b"k"),
        (b"if ~ then {} end", b"k"),
    ]
    assert [read_command(one.write.headers).tags for one in found] == [("t",)] * 2


def test_lines_are_for_many_documents(topics: Definitions) -> None:
    """Each has a key, a delta, and tags and an id of its own if it likes; of the others the parameters count."""
    lines = [
        b'{"key":"k","delta":"~","tags":["a"],"change_id":"c"}',
        b'{"key":"l","delta":"{..,\\"a\\":1}"}',
    ]
    found = posted_lines(topics, "reviews", {"tags": "t"}, lines, EVERYTHING)
    assert [(one.write.key, one.write.body) for one in found] == [(b"k", b"~"), (b"l", b'{..,"a":1}')]
    commands = [read_command(one.write.headers) for one in found]
    assert [(one.tags, one.change_id) for one in commands] == [(("a",), "c"), (("t",), None)]


@pytest.mark.parametrize(
    ("given", "lines", "reason", "sentence"),
    [
        (
            {},
            [b'{"key":"k","delta":"~"}', b'{"key":"k"}'],
            "bad request",
            "record 2 of 2: expected an object",
        ),
        ({}, [b'{"key":"k","delta":"~~"}'] * 2, "bad delta", "record 1 of 2: expected"),
        ({}, [b'{"key":"k","delta":"~","x":1}'], "bad request", "x"),
        ({}, [b'{"key":"k","delta":"\\ud800"}'], "bad request", "expected an object"),
        ({"key": "k"}, [b'{"key":"k","delta":"~"}'], "bad request", "in each line"),
        ({"change_id": "c"}, [b'{"key":"k","delta":"~"}'], "bad request", "in each line"),
        ({"publisher": "p", "sequence": "1"}, [b'{"key":"k","delta":"~"}'] * 2, "bad request", "sequence"),
        ({}, [], "too large", "1 to 10000 lines"),
        ({}, [b""] * 10_001, "too large", "got 10001"),
    ],
)
def test_lines_that_can_t_be_are_refused(
    topics: Definitions, given: dict[str, str], lines: list[bytes], reason: str, sentence: str
) -> None:
    """All of a request, with the number of the wrong line."""
    with pytest.raises(SowlineError) as refused:
        posted_lines(topics, "reviews", given, lines, EVERYTHING)
    assert refused.value.reason == reason
    assert sentence in refused.value.message


def test_several_deltas_have_no_id_in_common(topics: Definitions) -> None:
    """An id tells one change from all others."""
    with pytest.raises(SowlineError, match="one command with a change_id, got 2"):
        posted_deltas(topics, "reviews", {"key": "k", "change_id": "c"}, b"~ ~", EVERYTHING)
    with pytest.raises(SowlineError, match="one command with a change_id, got 2"):
        posted_writes(topics, "reviews", "publish", {"change_id": "c"}, [b'{"id":1}'] * 2, EVERYTHING)


def test_records_have_tags_only_where_they_are_documents(topics: Definitions) -> None:
    """Elsewhere nobody would ever see them."""
    given = {"tags": "t", "change_id": "c"}
    [posted] = posted_writes(topics, "reviews", "publish", given, [b'{"id":1}'], EVERYTHING)
    [deleted] = posted_writes(topics, "reviews", "sow_delete", {"filter": "1=1", **given}, (), EVERYTHING)
    [written] = writes_of(
        topics,
        parse_request(
            DeltaPublish,
            b'{"command":"delta_publish","topic":"reviews","data":{"id":1},"tags":"t","change_id":"c"}',
        ),
        EVERYTHING,
    )
    for one in (posted, deleted, written):
        command = read_command(one.write.headers)
        assert (command.tags, command.change_id) == (("t",), "c")
    for name, text in given.items():
        with pytest.raises(SowlineError, match="topic orders, for tags and change_id") as refused:
            posted_writes(topics, "orders", "publish", {name: text}, [b'{"id":1}'], EVERYTHING)
        assert refused.value.reason == "no documents"


async def test_large_deltas_are_parsed_in_a_thread() -> None:
    """And what is small at once; either way errors come back."""

    def where() -> threading.Thread:
        return threading.current_thread()

    def failing() -> None:
        raise SowlineError("bad delta", "no")

    assert await in_worker_thread(THREAD_BYTES_MIN - 1, where) is threading.main_thread()
    assert (await in_worker_thread(THREAD_BYTES_MIN, where)).name.startswith("checks")
    with pytest.raises(SowlineError, match="no"):
        await in_worker_thread(THREAD_BYTES_MIN, failing)


async def test_a_large_delta_lets_others_have_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own connection waits for it: commands are taken in their order."""
    server = Server(definition="{name: orders, key: /id, documents: true}").loaded()
    gate, work = threading.Event(), worker_thread._thread.submit
    monkeypatch.setattr(
        worker_thread._thread,
        "submit",
        lambda *given: work(lambda: (gate.wait(10), given[0](*given[1:]))[1]),
    )
    one, other = server.connect(), server.connect()
    large = {"command": "delta", "topic": "orders", "key": "k", "data": "x" * THREAD_BYTES_MIN}
    later = {"command": "heartbeat", "command_id": "later"}
    frame = json.dumps([large, later]).encode()
    receiving = asyncio.create_task(one.session.receive(frame))
    await settled()
    other.ask("heartbeat")
    assert [message["command"] for message in await other.read()] == ["heartbeat"]
    assert await one.read() == []
    gate.set()
    await receiving
    refused, answered = await one.read()
    assert (refused["reason"], answered["command_id"]) == ("bad delta", "later")
