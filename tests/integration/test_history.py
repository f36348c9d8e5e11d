"""Topics as they were, over a real Kafka: at a past time is found what was found then, also after a restart."""

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sowline import Client
from sowline.model.bookmark import format_time
from tests.integration.served import Served, ServedTopic, serve
from tests.integration.services import http_text
from tests.integration.wire import Json, Wire, wire
from tests.waiting import clock_reaches

GRANULARITY_MS = 40
ROUNDS = 8
GROUPS = "grouping=[/shop],projection=[/shop,COUNT(1) AS /n,SUM(/qty) AS /qty,GROUP_CONCAT(/id) AS /ids]"
QUERIES: list[dict[str, Any]] = [
    {"order_by": "/id", "options": "timestamp"},
    {"filter": "/qty > 5", "order_by": "/id"},
    {"filter": "/qty + 0 > 5 AND /shop = 'north'", "order_by": "/id"},
    {"filter": "/id = '3'"},
    {"order_by": "/qty DESC", "top_n": 4, "skip_n": 2},
    {"top_n": 5},
    {"options": GROUPS, "order_by": "/shop"},
    {"options": "select=[-/,+/qty],no_sowkey", "order_by": "/id", "top_n": 100},
]


@dataclass
class Moment:
    """A time, and what each query found then."""

    at: datetime
    found: list[list[Json]]
    bookmark: str
    """The bookmark of that time."""


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two topics with a history, and one without."""
    fine: Json = {
        "key": "/id",
        "partitions": 2,
        "history": {"window": "1h", "granularity": f"{GRANULARITY_MS}ms"},
    }
    short: Json = {"key": "/id", "history": {"window": "1s"}}
    topics = {"sales": fine, "short": short, "plain": {"key": "/id"}}
    with serve(kafka, tmp_path_factory.mktemp("history"), topics) as served:
        yield served


@pytest.fixture(scope="module")
def moments(served: Served) -> list[Moment]:
    """What was found between writes: new records, changed ones, deleted ones, and such as came again."""
    chance, topic = random.Random(5), served["sales"]
    moments: list[Moment] = []
    ids: set[int] = set()
    with wire(served.query.url) as client:
        for number in range(ROUNDS):
            for _ in range(2):
                change(topic, chance, ids)
            if number == ROUNDS // 2:
                topic.clear()
                ids.clear()
            at = between()
            found = [answer(client, topic, query) for query in QUERIES]
            client.send("sow", topic=topic.name, top_n=0)
            moments.append(Moment(at, found, client.group()[-1]["bookmark"]))
    assert len({json.dumps(moment.found) for moment in moments}) == ROUNDS
    return moments


def change(topic: ServedTopic, chance: random.Random, ids: set[int]) -> None:
    """Write some records whole, merge into others, and delete one."""
    new: list[Json] = [
        {"id": n, "shop": chance.choice(["north", "south"]), "qty": n} for n in chance.sample(range(12), 3)
    ]
    topic.write(*new)
    ids.update(record["id"] for record in new)
    topic.merge(*({"id": n, "qty": chance.randint(0, 9)} for n in chance.sample(sorted(ids), 2)))
    if chance.random() < 0.5:
        gone = chance.choice(sorted(ids))
        topic.delete({"id": gone})
        ids.remove(gone)


def between() -> datetime:
    """Return a time that is an interval away from what was written before, and from what is written after."""
    clock_reaches(time.time() + 2 * GRANULARITY_MS / 1000)
    at = datetime.now(UTC)
    clock_reaches(time.time() + 2 * GRANULARITY_MS / 1000)
    return at


def answer(client: Wire, topic: ServedTopic, query: Json, at: datetime | str | None = None) -> list[Json]:
    """Return the records that a query finds, at a time or a bookmark, and the counts that come with them."""
    bookmark = {} if at is None else {"bookmark": at if isinstance(at, str) else format_time(at)}
    client.send("sow", topic=topic.name, batch_size=100, ack_type="stats", **query, **bookmark)
    messages = client.group()
    records = [record for message in messages[1:-1] for record in message["records"]]
    counts = {name: messages[-1][name] for name in ("records", "hash")}
    stats = client.receive()
    return [
        *records,
        counts,
        {name: stats[name] for name in ("topic_matches", "matches", "records_returned")},
    ]


def assert_as_it_was(client: Wire, topic: ServedTopic, moments: list[Moment]) -> None:
    """Each query finds at each time what it found then."""
    for moment in moments:
        for query, found in zip(QUERIES, moment.found, strict=True):
            assert answer(client, topic, query, moment.at) == found


def bare(found: list[Json]) -> list[Json]:
    """Return what was found without when the records had changed last."""
    return [{name: one[name] for name in one if name not in ("updated_at", "timestamp")} for one in found]


def test_what_is_found_at_a_position_is_what_was_found_there(
    client: Wire, served: Served, moments: list[Moment]
) -> None:
    """A bookmark that a client has kept names the instant exactly, over each API."""
    topic = served["sales"]
    for moment in moments:
        for query, found in zip(QUERIES, moment.found, strict=True):
            assert bare(answer(client, topic, query, moment.bookmark)) == bare(found)
    oldest = moments[0]
    bodies = [record["data"] for record in oldest.found[0] if "data" in record]
    url = f"{served.query.url}/v1/topics/{topic.name}/sow?order_by=/id&bookmark={oldest.bookmark}"
    lines = http_text(url, b"").splitlines()
    assert [json.loads(line)["data"] for line in lines] == bodies
    with Client(served.query.url) as library:
        messages = list(library.sow(topic.name, order_by="/id", bookmark=oldest.bookmark))
        assert [message.data for message in messages if message.command == "sow"] == bodies
        assert {message.bookmark for message in messages if message.bookmark} == {oldest.bookmark}
    [access_path, *_] = json.loads(http_text(url.replace("/sow?", "/explain?"), b""))["access_paths"]
    assert access_path["records"] >= 0


def test_a_position_needs_no_history_but_the_changes_since(client: Wire, served: Served) -> None:
    """Without a history the changes that are kept for subscribers tell it; a bookmark that is gone has expired."""
    plain = served["plain"]
    plain.write({"id": "place", "n": 1})
    client.send("sow", topic=plain.name)
    bookmark = client.group()[-1]["bookmark"]
    plain.write({"id": "place", "n": 2}, {"id": "more"})
    client.send("sow", topic=plain.name, filter="/id = 'place'", bookmark=bookmark)
    assert [one["data"] for one in client.group()[1]["records"]] == [{"id": "place", "n": 1}]
    for bookmark, reason in [("epoch", "invalid bookmark"), (f"{plain.name}:0@9/1", "invalid bookmark")]:
        assert client.fail("sow", topic=plain.name, bookmark=bookmark)["reason"] == reason
    plain.clear()


def test_what_is_found_at_a_time_is_what_was_found_then(
    client: Wire, served: Served, moments: list[Moment]
) -> None:
    """Records with their bodies and bookmarks, filters, orders, pages, groups, counts and hashes."""
    assert_as_it_was(client, served["sales"], moments)
    assert (
        answer(client, served["sales"], QUERIES[0], datetime.now(UTC) + timedelta(days=1))
        == moments[-1].found[0]
    )
    before = moments[0].at - timedelta(minutes=1)
    assert answer(client, served["sales"], QUERIES[0], before)[0]["records"] == 0


def test_the_same_over_http(served: Served, moments: list[Moment]) -> None:
    """A time is a bookmark there, too."""
    topic = served["sales"].name
    for moment in moments[::4]:
        request = {"filter": "/qty > 5", "order_by": "/id", "bookmark": format_time(moment.at)}
        text = http_text(f"{served.query.url}/v1/topics/{topic}/sow", json.dumps(request).encode())
        assert [json.loads(line) for line in text.splitlines()] == moment.found[1][:-2]


def test_explain_names_the_access_path_to_what_has_changed(
    client: Wire, served: Served, moments: list[Moment]
) -> None:
    """Next to the access path to the records that are as they were."""
    client.send("explain", topic=served["sales"].name, filter="/qty > 5", bookmark=format_time(moments[0].at))
    access_paths = client.receive()["access_paths"]
    assert [access_path["access_path"] for access_path in access_paths] == ["memo index", "history"]
    assert (
        sum(access_path["records"] for access_path in access_paths)
        == moments[0].found[1][-1]["topic_matches"]
    )
    assert sum(access_path["matches"] for access_path in access_paths) == moments[0].found[1][-1]["matches"]


def test_a_topic_without_a_history_says_so(client: Wire, served: Served) -> None:
    """Unless what is there now will do."""
    topic, at = served["plain"], format_time(datetime.now(UTC))
    topic.write({"id": 1})
    assert client.fail("sow", topic=topic.name, bookmark=at)["reason"] == "no history"
    client.send("sow", topic=topic.name, bookmark=at, options="current")
    assert [record["data"] for record in client.group()[1]["records"]] == [{"id": 1}]
    pattern = f"^{topic.name.removesuffix('plain')}(sales|plain)"
    failure = client.fail("sow", topic=pattern, bookmark=at)
    assert failure["reason"] == "no history"
    assert topic.name in failure["message"]


def test_what_lies_before_the_window_is_an_error(client: Wire, served: Served) -> None:
    """It says from which time on there is an answer; what is kept can be watched."""
    topic = served["short"]
    topic.write({"id": 1, "n": 1})
    first = between()
    assert [record["data"] for record in answer(client, topic, {}, first)[:-2]] == [{"id": 1, "n": 1}]
    clock_reaches(time.time() + 1.2)
    topic.write({"id": 1, "n": 2})
    failure = client.fail("sow", topic=topic.name, bookmark=format_time(first), ack_type="")
    assert failure["reason"] == "history expired"
    assert "expected a time not before 2" in failure["message"]
    oldest = served.query.metric(f'sowline_history_oldest_seconds{{topic="{topic.name}"}}')
    assert first.timestamp() < oldest < time.time()
    assert served.query.metric(f'sowline_history_states{{topic="{topic.name}"}}') == 1
    assert served.query.metric("sowline_history_bytes") > 0
    assert served.query.metric("sowline_history_dropped_total") == 0


def test_a_restart_does_not_change_the_past(served: Served, moments: list[Moment]) -> None:
    """A query service that has read the changes topic again answers as before."""
    served.query.kill()
    served.query.start().wait_ready()
    with wire(served.query.url) as client:
        assert_as_it_was(client, served["sales"], moments)
