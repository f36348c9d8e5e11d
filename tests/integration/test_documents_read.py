"""Reading documents through every API: by conditions, by key, with what is known of them, and after a restart."""

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from sowline import Client, SowlineError
from tests.integration.services import Service, System, headers_of, http_text, system
from tests.integration.wire import Json
from tests.waiting import wait_for

PARTITIONS = 3
SECONDS_MAX = 30.0


class Reviews:
    """A topic of documents with its services, and a client; the tests have documents of their own."""

    def __init__(self, made: System) -> None:
        self.topic = made.topics.topics[0].name
        self.output = made.topics.fanouts[0].output
        self.system = made
        services = [made.service(name).start() for name in ("materializer", "query_service", "fanout")]
        for service in services:
            service.wait_ready()
        self.query: Service = services[1]
        self.publisher = made.publisher()

    def write(self, *deltas: tuple[str, str], tags: tuple[str, ...] = ()) -> None:
        """Write deltas, each to the document of a key, and wait until they can be read."""
        for key, text in deltas:
            self.publisher.delta(self.topic, key, text, tags=tags)
        self.publisher.flush()
        self.system.wait_settled(self.query.url, self.topic)

    def fanout_messages(self) -> list[tuple[str, Json]]:
        """Return what the fanout has written: of each message the command, and its header."""
        headers = [json.loads(headers_of(message)["sow"]) for message in self.system.read(self.output)]
        return [(about["command"], about) for about in headers]


@pytest.fixture(scope="module")
def reviews(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reviews]:
    """All services over one topic with a history; few changes are kept in memory."""
    name = f"t{uuid.uuid4().hex[:12]}"
    topic = {"name": name, "key": "/id", "partitions": PARTITIONS, "documents": True}
    more = {"template": {"type": "review"}, "history": {"window": "1h"}}
    fanout = {"name": name, "topic": name, "options": "oof,intrinsics,no_redundant"}
    filter = {"filter": 'CONDITION(\'intrinsic("~id":like("fan-*"))\')'}
    with system(kafka, tmp_path_factory.mktemp("read"), [topic | more], [fanout | filter]) as made:
        yield Reviews(made)


@pytest.fixture
def client(reviews: Reviews) -> Iterator[Client]:
    """A client of the query service."""
    with Client(reviews.query.url) as client:
        yield client


def bodies(client: Client, topic: str, **reading: Any) -> list[Json]:
    """Return the records that a query finds, but for the template's field."""
    found = [message.data for message in client.sow(topic, **reading) if message.command == "sow"]
    return sorted(({k: v for k, v in of.items() if k != "type"} for of in found), key=str)


def test_every_api_takes_a_condition(reviews: Reviews, client: Client) -> None:
    """Client, command line and HTTP, where it is explained as well; next to a filter both hold."""
    reviews.write(*((f"shelf-{n}", f'{{"shelf":{n}}}') for n in range(4)))
    condition, topic = '{..,"shelf":gt(1)}', reviews.topic
    assert bodies(client, topic, condition=condition) == [{"shelf": 2}, {"shelf": 3}]
    assert bodies(client, topic, condition=condition, filter="/shelf < 3") == [{"shelf": 2}]
    assert client.explain(topic, condition=condition)["access_paths"][0]["matches"] == 2
    asked = urlencode({"condition": condition, "order_by": "/shelf"})
    lines = http_text(f"{reviews.query.url}/v1/topics/{topic}/sow?{asked}", b"").splitlines()
    assert [json.loads(line)["data"]["shelf"] for line in lines] == [2, 3]
    command = [sys.executable, "-m", "sowline", "sow", topic, "-c", condition, "--order-by", "/shelf"]
    printed = subprocess.run(
        [*command, "-u", reviews.query.url], capture_output=True, text=True, check=True
    ).stdout
    assert [json.loads(line)["shelf"] for line in printed.splitlines()] == [2, 3]
    with pytest.raises(SowlineError) as error:
        bodies(client, topic, condition="is(number)")
    assert error.value.reason == "bad condition"


def test_a_view_follows_its_condition(reviews: Reviews, client: Client) -> None:
    """Through writes that change the tags alone; then through another condition, and it is proven to be right."""
    write, hot = reviews.write, '{..,"view":+,"~tags":contains("hot")}'
    write(("view-1", '{"view":1}'), ("view-2", '{"view":2}'), tags=("hot",))
    left: list[tuple[int, str]] = []
    with client.local_view(
        reviews.topic, condition=hot, on_remove=lambda key, of, why: left.append((of["view"], why))
    ) as view:
        assert sorted(of["view"] for of in view.values()) == [1, 2]
        write(("view-1", ".."))
        view.wait_for(lambda view: len(view) == 1, SECONDS_MAX)
        write(("view-1", ".."), ("view-3", '{"view":3}'), tags=("hot", "new"))
        view.wait_for(lambda view: len(view) == 3, SECONDS_MAX)
        view.replace(condition='{..,"view":+,"~tags":~}')
        assert dict(view) == {}
        write(("view-2", "~"), ("view-3", ".."))
        view.wait_for(lambda view: [of["view"] for of in view.values()] == [3], SECONDS_MAX)
        assert view.verify(SECONDS_MAX)
    assert left[0] == (1, "match")


def test_consumers_share_the_documents(reviews: Reviews) -> None:
    """Each document of all partitions is held by exactly one of them, whenever it was written."""
    early, late = ([f"part-{n}" for n in range(start, start + 30)] for start in (0, 30))
    reviews.write(*((key, f'{{"part":"{key}"}}') for key in early))
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(reviews.query.url)) for _ in range(3)]
        views = [
            stack.enter_context(
                one.local_view(reviews.topic, filter="/part IS NOT NULL", condition=f"partition(3:{number})")
            )
            for number, one in enumerate(clients, 1)
        ]
        reviews.write(*((key, f'{{"part":"{key}"}}') for key in late))
        for view in views:
            wait_for(lambda view=view: view.verify(SECONDS_MAX), "a view to have everything")
        shares = [sorted(of["part"] for of in view.values()) for view in views]
    assert all(shares)
    assert sorted(key for share in shares for key in share) == sorted(early + late)


def test_intrinsics_go_along(reviews: Reviews, client: Client) -> None:
    """With records, lines over HTTP and live messages; by key they are in the document."""
    reviews.write(("known-1", '{"known":1}'), tags=("a", "b"))
    asked = {"filter": "/known = 1", "options": "intrinsics"}
    (record,) = [m for m in client.sow(reviews.topic, **asked) if m.command == "sow"]  # type: ignore[arg-type]
    line = json.loads(
        http_text(f"{reviews.query.url}/v1/topics/{reviews.topic}/sow", json.dumps(asked).encode())
    )
    read = client.record(reviews.topic, "known-1")
    assert record.intrinsics is not None
    assert record.intrinsics == line["intrinsics"]
    assert record.intrinsics | record.data == read | {"~tags": ["a", "b"]}
    assert (read["~version"], read["~id"], read["type"]) == (1, "known-1", "review")
    live = client.subscribe(reviews.topic, filter="/known = 1", options="oof,intrinsics")
    reviews.write(("known-1", ".."), ("known-1", "~"))
    received = [next(live), next(live)]
    live.close()
    assert [
        (m.command, m.intrinsics["~version"], m.intrinsics["~deleted"]) for m in received if m.intrinsics
    ] == [
        ("publish", 2, False),
        ("oof", 3, True),
    ]


def test_redundant_writes_are_not_sent(reviews: Reviews, client: Client) -> None:
    """To those who don't want them; the bookmark moves on, also where the changes are read from Kafka again."""
    reviews.write(("same-1", '{"same":1}'))
    subscription = client.subscribe(reviews.topic, filter="/same > 0", options="no_redundant")
    every = client.subscribe(reviews.topic, filter="/same > 0")
    reviews.write(("same-1", ".."), ("same-1", ".."), ("same-1", '{"same":2}'))
    assert [next(every).data["same"] for _ in range(3)] == [1, 1, 2]
    assert next(subscription).data["same"] == 2
    subscription.close()
    every.close()
    again = client.subscribe(
        reviews.topic, filter="/same > 0", options="no_redundant", bookmark="epoch", up_to="now"
    )
    assert [message.data["same"] for message in again] == [1, 2]


def test_the_past_of_documents(reviews: Reviews, client: Client) -> None:
    """A condition is asked of what was known then; a document that is deleted since is there."""
    reviews.write(("past-1", '{"past":1}'), ("past-2", '{"past":2}'), tags=("then",))
    before = datetime.now(UTC)
    wait_for(lambda: datetime.now(UTC) - before > timedelta(milliseconds=2), "the log's clock to go on")
    reviews.write(("past-1", ".."), ("past-2", "~"))
    then = '{..,"past":+,"~tags":contains("then")}'
    assert bodies(client, reviews.topic, condition=then) == []
    assert bodies(client, reviews.topic, condition=then, bookmark=before) == [{"past": 1}, {"past": 2}]


def refused(ask: Callable[[], object]) -> str:
    """Return the reason of a refusal."""
    with pytest.raises(SowlineError) as error:
        ask()
    return error.value.reason


def test_a_restart_loses_nothing_of_what_is_known(reviews: Reviews) -> None:
    """A replica that loads again reads documents, also deleted ones and strange keys, as the one before."""
    keys = ["end-1", "end/2 ?%é", "end-3", "never"]
    reviews.write((keys[0], '{"end":1}'), (keys[1], '{"end":2}'), (keys[2], '{"end":3}'), tags=("t",))
    reviews.write((keys[2], "~"), (keys[1], ".."))
    with Client(reviews.query.url) as client:
        before = [client.record(reviews.topic, key) for key in keys]
        assert refused(lambda: client.record("none", "a")) == "invalid topic"
    assert [(of["~version"], of["~deleted"]) for of in before] == [
        (1, False),
        (2, False),
        (2, True),
        (0, True),
    ]
    assert reviews.query.stop() == 0
    reviews.query.start().wait_ready()
    with Client(reviews.query.url) as client:
        assert [client.record(reviews.topic, key) for key in keys] == before
        assert bodies(client, reviews.topic, condition='{..,"end":+,"~tags":contains("t")}') == [{"end": 1}]
        condition = f'intrinsic("~signature":"{before[1]["~signature"]}")'
        assert bodies(client, reviews.topic, condition=condition) == [{"end": 2}]


def test_a_fanout_tells_of_documents(reviews: Reviews) -> None:
    """What is known next to the content, in the header; nothing of redundant writes."""
    reviews.write(("fan-1", '{"fan":1}'), ("fan-1", ".."), ("other", "{}"), ("fan-1", "~"))
    messages = wait_for(
        lambda: found if len(found := reviews.fanout_messages()) == 2 else [], "the fanout to be done"
    )
    accounts = [(command, about["intrinsics"]) for command, about in messages]
    versions = [(command, of["~version"], of["~deleted"]) for command, of in accounts]
    assert versions == [("publish", 1, False), ("oof", 3, True)]
