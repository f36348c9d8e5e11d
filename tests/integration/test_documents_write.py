"""Deltas of documents through every API: what becomes of each; nothing is lost when writers die."""

import asyncio
import concurrent.futures
import itertools
import json
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sowline import AsyncClient, Client
from sowline.errors import SowlineError
from sowline.language.emodb import parse_delta
from sowline.language.emodb.fold import (
    Document,
    DocumentDelta,
    change_id_of_position,
    change_id_of_writer,
    fold,
)
from tests.integration.served import Served, query, serve
from tests.integration.services import headers_of, post_commands
from tests.integration.wire import Json, Wire
from tests.waiting import wait_for

MIB = 1 << 20
FRAME_BYTES_MAX = 16 * MIB
DOCS = Path(__file__).parents[2] / "docs"
WRITERS = 8
ADDITIONS = 2
DELTAS = 200
TURNS = 20

TEMPLATE = {"type": "review"}
NEW = {"status": "new"}
APPLIED = '{..,"status":"new"}'
NOOP = '{..,"type":~}'
FALSE = 'if {..,"type":"review"} then ~ end'
OUTCOMES = {APPLIED: "applied", NOOP: "noop", FALSE: "condition_false"}


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A topic of documents of several partitions, one of large ones, and one without documents."""
    topics: dict[str, Json] = {
        "reviews": {"key": "/id", "documents": True, "template": TEMPLATE, "partitions": 3},
        "large": {"key": "/id", "documents": True, "record_bytes_max": FRAME_BYTES_MAX},
        "orders": {"key": "/id"},
    }
    directory = tmp_path_factory.mktemp("documents")
    with serve(kafka, directory, topics, frame_bytes_max=FRAME_BYTES_MAX) as served:
        yield served


@pytest.fixture
def key() -> str:
    """The key text of a document that was never written."""
    return f"r {uuid.uuid4().hex[:8]}/é"


@pytest.fixture(scope="module")
def library(served: Served) -> Iterator[Client]:
    """A client of the library, for all tests."""
    with Client(served.query.url) as library:
        yield library


def post(served: Served, body: bytes, type: str = "", topic: str = "reviews", **given: str) -> Json:
    """POST deltas; returns what is answered, with its `status`."""
    return post_commands(served.query.url, served[topic].name, "delta", body, type, **given)


def by_websocket(served: Served, library: Client, client: Wire, key: str, delta: str) -> str:
    """Write a delta over the WebSocket and return what became of it."""
    client.send("delta", topic=served["reviews"].name, key=key, data=delta, ack_type="persisted,processed")
    persisted, processed = client.receive(), client.receive()
    assert [one["ack_type"] for one in (persisted, processed)] == ["persisted", "processed"]
    assert persisted["bookmark"] == processed["bookmark"]
    return str(processed["outcome"])


def by_http(served: Served, library: Client, client: Wire, key: str, delta: str) -> str:
    """Post a delta as the body."""
    answer = post(served, delta.encode(), key=key, ack="processed")
    assert answer["outcomes"] == {answer["each"][0]: 1}
    return str(answer["each"][0])


def by_line(served: Served, library: Client, client: Wire, key: str, delta: str) -> str:
    """Post a delta as a line."""
    line = json.dumps({"key": key, "delta": delta}).encode()
    return str(post(served, line, "application/x-ndjson", ack="processed")["each"][0])


def by_library(served: Served, library: Client, client: Wire, key: str, delta: str) -> str:
    """Write a delta with the library and wait for it."""
    return str(library.delta(served["reviews"].name, key, delta, wait=True))


Connection = Callable[[Served, Client, Wire, str, str], str]


@pytest.mark.parametrize("connection", [by_websocket, by_http, by_line, by_library])
def test_the_writer_learns_what_became_of_it(
    served: Served, library: Client, client: Wire, key: str, connection: Connection
) -> None:
    """Of each kind, through each API; a document need not be there, and its key may be any text."""
    deltas = [APPLIED, APPLIED, NOOP, FALSE, "~", "~", "if ~ then {} end"]
    outcomes = [connection(served, library, client, key, delta) for delta in deltas]
    assert outcomes == ["applied", "noop", "noop", "condition_false", "applied", "noop", "applied"]
    document = library.record(served["reviews"].name, key)
    assert (document["~id"], document["~version"], document["type"]) == (key, 7, "review")


def test_the_command_line_tells_too(served: Served, library: Client, key: str) -> None:
    """A stream from standard input, in its order."""
    stream = f"[{','.join(OUTCOMES)}]"
    command = ["delta", served["reviews"].name, key, "--wait", "--tag", "cli", "--url", served.query.url]
    ran = subprocess.run(
        [sys.executable, "-m", "sowline", *command], input=stream.encode(), capture_output=True, check=True
    )
    assert [json.loads(line)["outcome"] for line in ran.stdout.splitlines()] == list(OUTCOMES.values())
    assert library.record(served["reviews"].name, key)["~version"] == 3


def test_deltas_straight_to_kafka_are_applied_in_order(served: Served, library: Client, key: str) -> None:
    """One by one and as a stream, with those that wait for an outcome behind them."""
    name = served["reviews"].name
    assert library.delta(name, key, '{"n":[1]}') is None
    assert library.deltas(name, key, '{..,"n":(..,2)} {..,"n":(..,3,~1)}') == []
    last = library.deltas(name, key, '[if {..,"n":[2,3]} then {..,"n":4} end, ..]', wait=True)
    assert last == ["applied", "noop"]
    assert library.record(name, key)["n"] == 4


def test_all_is_checked_before_any_is_written(
    served: Served, library: Client, client: Wire, key: str
) -> None:
    """The sentence tells which delta is wrong, and where; nothing of the request becomes of the document."""
    stream = post(served, b'{"a":1}\n{..,"b" 2}', key=key)
    assert (stream["status"], stream["reason"]) == (400, "bad delta")
    assert stream["message"].startswith(
        "delta 2 of 2, from line 2, column 1 on: expected a key in double quotes"
    )
    lines = b"\n".join(json.dumps({"key": key, "delta": text}).encode() for text in ("{}", "~", "[1]"))
    refused = post(served, lines, "application/x-ndjson")
    assert refused["message"].startswith("record 3 of 3: expected a delta that makes an object")
    name = served["reviews"].name
    assert client.fail("delta", topic=name, key=key, data='{"a":1} ~')["reason"] == "bad delta"
    with pytest.raises(SowlineError, match=r"^delta 2 of 2, from column 5 on: .* at column 3"):
        library.deltas(name, key, "[{},~ x]")
    assert library.record(name, key)["~version"] == 0


def test_a_topic_without_documents_takes_none(served: Served, library: Client, client: Wire) -> None:
    """By no API."""
    name = served["orders"].name
    assert client.fail("delta", topic=name, key="1", data="~")["reason"] == "no documents"
    assert client.fail("publish", topic=name, data={"id": 1}, tags="t")["reason"] == "no documents"
    assert post(served, b"~", topic="orders", key="1")["reason"] == "no documents"
    for wait in (False, True):
        with pytest.raises(SowlineError, match="documents: true"):
            library.delta(name, "1", "~", wait=wait)


def test_outcomes_that_depend_on_the_document_are_reported(
    served: Served, library: Client, client: Wire
) -> None:
    """A key that would change is refused by the materializer, with the number of the delta of several."""
    answer = post(served, b'{..,"a":1} {..,"id":"other"}', key="k1", ack="processed")
    assert answer["reason"] == "key changed"
    failure = client.fail("delta", topic=served["reviews"].name, key="k1", data='{"id":2}')
    assert failure["reason"] == "key changed"
    assert library.record(served["reviews"].name, "k1")["a"] == 1


def test_tags_and_ids_go_with_every_write(served: Served, library: Client, client: Wire, key: str) -> None:
    """The tags of the last write are the document's; an id goes into the signature."""
    topic = served["reviews"]
    text, id = '{"n":1}', str(uuid.uuid4())
    library.delta(topic.name, key, text, tags=["first", key], change_id=id, wait=True)
    written = fold(Document(topic.name, key), DocumentDelta(parse_delta(text), change_id_of_writer(id), 0))
    assert library.record(topic.name, key)["~signature"] == written.document.signature
    holds = 'CONDITION(\'{..,"~tags":contains("%s")}\')'
    assert [record["n"] for record in query(client, topic, holds % key)] == [1]
    data = {"id": key, "n": 2}
    client.send("publish", topic=topic.name, data=data, tags=["second"], ack_type="processed")
    assert client.receive()["outcome"] == "applied"
    assert query(client, topic, holds % key) == []
    assert library.sow_delete(topic.name, data=data, tags="gone", change_id="mine") == 1
    headers = [headers_of(message) for message in served.system.read(served.system.topic(topic.name).changes)]
    accounts = [json.loads(one["sow.document"])["now"] for one in headers if "sow.document" in one]
    [last] = [account for account in accounts if account.get("tags") == ["gone"]]
    assert (last["version"], last["change_id"]) == (3, change_id_of_writer("mine").hex())


async def _add(url: str, topic: str, key: str) -> int:
    """Add one again and again, each time to what was read; returns how often another was faster."""
    lost = 0
    async with AsyncClient(url) as client:
        for _ in range(ADDITIONS):
            for attempt in itertools.count():
                document = await client.record(topic, key)
                total = document.get("total", 0) + 1
                delta = (
                    f'if intrinsic("~signature":"{document["~signature"]}") then {{..,"total":{total}}} end'
                )
                if await client.delta(topic, key, delta, wait=True) == "applied":
                    break
                lost = max(lost, attempt + 1)
    return lost


async def test_read_modify_write_loses_no_update(served: Served, key: str) -> None:
    """Eight writers add to one document, each if it still has the signature that was read."""
    name = served["reviews"].name
    lost = await asyncio.gather(*(_add(served.query.url, name, key) for _ in range(WRITERS)))
    assert any(lost), "the writers have not met"
    async with AsyncClient(served.query.url) as client:
        assert (await client.record(name, key))["total"] == WRITERS * ADDITIONS


def test_the_examples_of_the_pages_do_what_they_say(
    served: Served, library: Client, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The loop that adds to what was read, and the client's ways to write deltas."""
    name = served["reviews"].name
    found: dict[str, Any] = {}
    exec(example("emodb.md", "def add("), found)
    for number in (2, 3, 0):
        found["add"](library, name, key, number)
    assert library.record(name, key)["total"] == 5
    text = example("client.md", "client.deltas(")
    for shown, meant in ("http://127.0.0.1:8080", served.query.url), ('"reviews"', f'"{name}"'), ("r5", key):
        assert shown in text
        text = text.replace(shown, meant)
    exec(text, {"Client": Client})
    assert capsys.readouterr().out == "condition_false\n"
    document = library.record(name, key)
    assert (document["rating"], document["seen"]) == (5, True)


def example(page: str, part: str) -> str:
    """Return the one script of a page that has this in it."""
    scripts = re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    [found] = [script for script in scripts if part in script]
    return str(found)


def folded(served: Served, topic: str) -> dict[str, Document]:
    """Return what a topic's log means for its documents: a slow reading of it, from its beginning."""
    documents: dict[str, Document] = {}
    latest: dict[int, int] = {}
    for message in served.system.read(topic):
        text, key = (message.value() or b"").decode(), (message.key() or b"").decode()
        if headers_of(message).get("sow.command") != b"delta":
            continue
        partition, offset = message.partition() or 0, message.offset() or 0
        latest[partition] = max(latest.get(partition, 0), message.timestamp()[1])
        before = documents.get(key, Document(topic, key))
        write = DocumentDelta(parse_delta(text), change_id_of_position(partition, offset), latest[partition])
        documents[key] = fold(before, write).document
    return documents


def test_a_killed_materializer_changes_no_signature(served: Served, library: Client) -> None:
    """Whatever it had begun is done once: version, signature, times and content are those of the log."""
    name, run = served["reviews"].name, uuid.uuid4().hex[:6]
    keys = [f"{run}-{number}" for number in range(12)]
    form = 'if {{..,"n":gt({0})}} then ~ else {{..,"n":{1},"r":{2}}} end'
    deltas = [form.format(number % 7, number % 11, number % 500) for number in range(DELTAS)]
    before = changes(served, name)
    for key in keys:
        library.deltas(name, key, f"[{','.join(deltas)}]")
    wait_for(lambda: changes(served, name) > before, "the first of them to be applied")
    served.materializer.kill()
    assert changes(served, name) < before + len(keys) * DELTAS, "it was killed when all was done"
    served.materializer.start()
    library.deltas(name, keys[0], "~ {} ~")
    library.flush()
    served.materializer.wait_ready()
    served.system.wait_settled(served.query.url, name)
    expected = folded(served, name)
    assert [library.record(name, key) for key in keys] == [expected[key].read(TEMPLATE) for key in keys]
    assert sum(expected[key].version for key in keys) == len(keys) * DELTAS + 3


def changes(served: Served, name: str) -> int:
    """Return how many events there are on the topic's changes topic."""
    topic = served.system.topic(name)
    return sum(served.system.cluster.ends(topic.changes, range(topic.partitions)).values())


DEEP = '{..,"a":' * 100_000
LONG = '{"a":"%s"}' % ("x" * 10_000_000)
TOO_LONG = '{"a":"%s"}' % ("x" * FRAME_BYTES_MAX)
SLOW = '{..,"a":(%s1)}' % ("1," * 500_000)
"""It is read for some tenths of a second before it is refused."""

STARS = 'if {..,"a":like("%s")} then {..,"held":true} end' % ("*a" * 1000 + "*b")


@pytest.mark.parametrize(
    ("delta", "status", "sentence"),
    [
        (DEEP, 400, "expected at most 500 levels"),
        (LONG, 400, "expected at most 1048576 characters, got 10000008"),
        (TOO_LONG, 413, "expected a body of at most"),
        ("~ " * 10_001, 413, "expected at most 10000 deltas"),
    ],
    ids=["deep", "long", "too long", "many"],
)
def test_what_is_too_much_is_refused(
    served: Served, key: str, delta: str, status: int, sentence: str
) -> None:
    """With a sentence that says what the limit is."""
    answer = post(served, delta.encode(), topic="large", key=key)
    assert (answer["status"], answer["message"][: len(sentence)]) == (status, sentence)


def test_what_is_too_much_on_the_log_is_a_dead_letter(served: Served, library: Client, key: str) -> None:
    """The materializer goes on to the next."""
    topic = served["large"]
    before = served.materializer.metric("sowline_dead_letters_total")
    for delta in (DEEP, LONG):
        served.system.produce(topic.name, delta.encode(), key.encode(), headers=[("sow.command", b"delta")])
    assert library.delta(topic.name, key, APPLIED, wait=True) == "applied"
    wait_for(
        lambda: served.materializer.metric("sowline_dead_letters_total") == before + 2, "the dead letters"
    )


def test_patterns_and_numbers_have_no_bad_case(served: Served, library: Client, key: str) -> None:
    """A thousand stars, and numbers beyond all bounds."""
    name = served["large"].name
    assert library.delta(name, key, '{"a":"%s"}' % ("a" * 100_000), wait=True) == "applied"
    assert library.delta(name, key, STARS, wait=True) == "condition_false"
    with pytest.raises(SowlineError, match="a partition between 1 and 4"):
        library.delta(name, key, "if partition(4:1e300) then ~ end", wait=True)
    with pytest.raises(SowlineError, match="at least 1 partition"):
        library.delta(name, key, f"if partition({2**63 - 1}:1) then ~ end", wait=True)
    digits = f'{{..,"n":{"9" * 100_000}}}'
    with pytest.raises(SowlineError, match="a double can hold"):
        library.delta(name, key, digits, wait=True)


def test_others_have_turns_while_a_large_delta_is_read(served: Served, client: Wire, key: str) -> None:
    """Who asks for little is answered all the time; on its own connection order is kept."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        posted = pool.submit(post, served, SLOW.encode(), topic="large", key=key)
        turns = 0
        while not posted.done():
            client.heartbeat()
            turns += 1
    assert posted.result()["reason"] == "bad delta"
    assert turns > TURNS
    name = served["large"].name
    client.send("delta", topic=name, key=key, data=SLOW, ack_type="processed")
    client.send("delta", topic=name, key=key, data='{"last":true}', ack_type="processed")
    assert [client.receive()["status"] for _ in range(2)] == ["failure", "success"]
    assert query(client, served["large"], "/last = TRUE") == [{"last": True}]
