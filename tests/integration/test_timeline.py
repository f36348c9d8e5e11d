"""Timelines of documents over a real Kafka: through every API, beyond the window, and after compaction."""

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from sowline import Client
from sowline.config.kafka_options import kafka_config
from sowline.kafka.clients import read_at
from tests.integration.compaction import compact, end_haste, hasten_compaction
from tests.integration.served import Served, serve
from tests.integration.services import http_text
from tests.integration.wire import Json, Wire
from tests.waiting import SECONDS_MAX, wait_for

KEY = "a/b ?%é"


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Documents in two partitions, such whose timelines are short, such to be compacted, and none."""
    documents: Json = {"key": "/id", "documents": True}
    topics: dict[str, Json] = {
        "reviews": documents | {"partitions": 2},
        "brief": documents | {"history_ttl": "1s"},
        "packed": documents,
        "plain": {"key": "/id"},
    }
    with serve(kafka, tmp_path_factory.mktemp("timeline"), topics) as served:
        yield served


@pytest.fixture(scope="module")
def writer(served: Served) -> Iterator[Client]:
    """A client that writes and waits."""
    with Client(served.query.url) as client:
        yield client


def versions(client: Client, topic: str, key: str, **given: Any) -> list[int]:
    """Return the versions of the writes that a timeline tells."""
    return [write["version"] for write in client.timeline(topic, key, **given)["writes"]]


def assert_follow_each_other(writes: list[Json], record: Json) -> None:
    """Newest first, without a hole, each began where the one before it ended; the first is what the record is."""
    assert [write["version"] for write in writes] == list(
        range(record["~version"], record["~version"] - len(writes), -1)
    )
    assert all(later["previous"] == write["data"] for later, write in pairwise(writes))
    content = {name: value for name, value in record.items() if not name.startswith("~")}
    assert (writes[0]["data"] or {}, writes[0]["signature"]) == (content, record["~signature"])


def test_every_api_returns_the_same(served: Served, writer: Client, client: Wire) -> None:
    """Of a document that was deleted and made again, the writes before that too."""
    topic = served["reviews"].name
    for delta in ('{..,"n":1}', '{..,"n":2}', 'if {..,"n":5} then ~ end', "~", "{..}"):
        writer.delta(topic, KEY, delta, tags=["import"])
        writer.delta(topic, "other", delta, wait=True)  # its partition is in the bookmark too
    writer.delta(topic, KEY, '{..,"n":3}', wait=True)
    timeline = writer.timeline(topic, KEY)
    writes = timeline["writes"]
    assert [write["outcome"] for write in writes] == ["applied"] * 3 + ["condition_false"] + ["applied"] * 2
    assert [write["data"] for write in writes] == [{"n": 3}, {}, None, {"n": 2}, {"n": 2}, {"n": 1}]
    assert [write["tags"] for write in writes] == [[]] + [["import"]] * 5
    assert_follow_each_other(writes, writer.record(topic, KEY))

    url = f"{served.query.url}/v1/topics/{topic}/records/{quote(KEY, safe='')}/timeline"
    assert json.loads(http_text(url))["writes"] == writes
    shell = [sys.executable, "-m", "sowline", "timeline", topic, KEY, "--limit", "2", "--oldest-first"]
    shell += ["--url", served.query.url]
    lines = subprocess.run(shell, stdout=subprocess.PIPE, check=True).stdout.splitlines()
    assert [json.loads(line) for line in lines] == [writes[-1], writes[-2]]
    client.send("timeline", topic=topic, key=KEY, batch_size=5)
    _, *batches, end = client.group()
    assert [write for batch in batches for write in batch["writes"]] == writes
    assert (end["records"], end["bookmark"]) == (6, timeline["bookmark"])


def test_pages_of_it_are_all_of_it(served: Served, writer: Client) -> None:
    """Each ends where the one before has ended; from either side."""
    topic = served["reviews"].name
    writer.deltas(topic, "paged", "[" + ",".join(["{..}"] * 24) + "]")
    writer.delta(topic, "paged", "{..}", wait=True)
    found, bookmark = [], "epoch"
    while page := writer.timeline(topic, "paged", limit=10, bookmark=bookmark)["writes"]:
        found += [write["version"] for write in page]
        bookmark = f"[epoch..{page[-1]['bookmark']})"
    assert found == list(range(25, 0, -1))
    found, bookmark = [], "epoch"
    while page := writer.timeline(topic, "paged", limit=10, bookmark=bookmark, reversed=False)["writes"]:
        found += [write["version"] for write in page]
        bookmark = page[-1]["bookmark"]
    assert found == list(range(1, 26))


def test_nothing_to_tell(served: Served, writer: Client) -> None:
    """A document, or another record, that was never written has an empty timeline."""
    assert versions(writer, served["reviews"].name, "nobody") == []
    assert writer.timeline(served["plain"].name, "nobody")["writes"] == []


def test_what_is_older_than_the_window_is_sent_no_more(served: Served, writer: Client) -> None:
    """The document stays as it is, and its next write begins a timeline."""
    topic = served["brief"].name
    writer.delta(topic, "old", '{..,"n":1}', wait=True)
    record = writer.record(topic, "old")
    assert versions(writer, topic, "old") == [1]

    def is_gone() -> bool:
        writer.delta(topic, "new", "{..}", wait=True)
        return versions(writer, topic, "old") == []

    wait_for(is_gone, "the write to be too old")
    assert writer.record(topic, "old") == record
    writer.delta(topic, "old", '{..,"n":2}', wait=True)
    assert_follow_each_other(writer.timeline(topic, "old")["writes"], writer.record(topic, "old"))


def test_compaction_changes_no_document(served: Served, writer: Client) -> None:
    """Content, version, signature and times stay; what it has taken is left out, and what comes after is told."""
    topic = served["packed"].name
    for key in ("kept", "deleted"):
        writer.deltas(topic, key, '[{..,"n":1},{..,"m":2},{..,"n":3}]')
    writer.delta(topic, "deleted", "~", wait=True)
    before = {key: writer.record(topic, key) for key in ("kept", "deleted")}
    hasten_compaction(served.system, topic)
    compact(served.system, topic, lambda n: writer.delta(topic, "busy", f'{{..,"n":{n}}}', wait=True))
    end_haste(served.system, topic)
    fresh = served.system.service("query_service").start()
    fresh.wait_ready()
    with Client(fresh.url) as reader:
        for client in (writer, reader):
            assert {key: client.record(topic, key) for key in before} == before
            assert [versions(client, topic, key) for key in before] == [[3], [4]]
        writer.deltas(topic, "kept", '[{..,"n":4},..,{..,"n":~}]')
        writer.delta(topic, "deleted", '{..,"back":true}', wait=True)
        served.system.wait_settled(fresh.url, topic)
        for client, key, count in ((writer, "kept", 4), (reader, "kept", 4), (reader, "deleted", 2)):
            writes = client.timeline(topic, key)["writes"]
            assert len(writes) == count
            assert_follow_each_other(writes, client.record(topic, key))


def test_messages_are_read_here_and_there(kafka: str, prefix: str) -> None:
    """Those that are near each other and those that are far away; what is gone, and what is to come, is not there."""
    name = f"{prefix}scattered"
    admin, producer = AdminClient({"bootstrap.servers": kafka}), Producer({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(SECONDS_MAX)
    for number in range(1000):
        producer.produce(name, b"%d" % number)
    assert producer.flush(SECONDS_MAX) == 0
    wanted = [1, 2, 3, 200, 201, 650, 999]
    config = kafka_config(kafka)
    assert [message.value() for message in read_at(config, name, 0, wanted, SECONDS_MAX)] == [
        b"%d" % number for number in wanted
    ]
    (deleted,) = admin.delete_records([TopicPartition(name, 0, 201)]).values()
    deleted.result(SECONDS_MAX)
    left = read_at(config, name, 0, [*wanted, 1000, 2000], SECONDS_MAX)
    assert [message.offset() for message in left] == [201, 650, 999]
