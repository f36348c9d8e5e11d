"""Subscriptions as Server-Sent Events, over a real service and a real Kafka, as `curl -N` and browsers ask."""

import http.client
import json
import uuid
from collections.abc import Iterator
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

import pytest

from tests.described import checked_message
from tests.integration.compaction import compact, hasten_compaction
from tests.integration.positions import positions_of
from tests.integration.served import Served, serve
from tests.integration.services import http_text
from tests.integration.wire import Json
from tests.waiting import SECONDS_MAX, wait_for

BACKLOG_BYTES = 64 * 1024
SESSIONS_MAX = 4


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Some topics of two partitions, of which one loses its past; few sessions, and little room for slow clients."""
    definition: Json = {"key": "/id", "partitions": 2}
    topics = dict.fromkeys(("orders", "few", "gone"), definition)
    limits: dict[str, Any] = {
        "backlog_bytes_max": BACKLOG_BYTES,
        "ring_changes_max": 20,
        "sessions_max": SESSIONS_MAX,
        "progress_seconds": 0.2,
    }
    with serve(kafka, tmp_path_factory.mktemp("events"), topics, **limits) as served:
        yield served


class Stream:
    """One GET, and its events in order."""

    def __init__(self, served: Served, topic: str, last: str = "", origin: str = "", **given: Any) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(served.query.url).netloc, timeout=SECONDS_MAX)
        headers = {"Last-Event-ID": last} if last else {}
        headers |= {"Origin": origin} if origin else {}
        query = urlencode(given)
        path = f"/v1/topics/{served[topic].name}/subscribe?{query}"
        self._connection.request("GET", path, headers=headers)
        self.answer = self._connection.getresponse()
        self.id = last

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.answer.close()
        self._connection.close()

    def event(self) -> tuple[str, Json] | None:
        """Return the next event, its type and its data; None at the end. An id is kept as browsers do."""
        name, data = "message", ""
        while line := self.answer.readline().decode():
            field, _, value = line.rstrip("\n").partition(": ")
            if field in ("id", "id:"):
                self.id = value
            elif field == "event":
                name = value
            elif field == "data":
                data = value
            elif not line.strip() and data:
                return name, checked_message(json.loads(data))
        return None

    def until(self, last: str) -> list[tuple[str, Json]]:
        """Return events up to and with the first of a type, without those that carry only a bookmark."""
        found: list[tuple[str, Json]] = []
        while not found or found[-1][0] != last:
            event = self.event()
            assert event is not None
            if event[0] != "progress" or last == "progress":
                found.append(event)
        return found

    def refusal(self) -> tuple[int, str]:
        """Return the status of an answer that is no stream, and its reason."""
        return self.answer.status, json.loads(self.answer.read())["reason"]


def test_a_stream_is_resumed_by_its_last_id(served: Served) -> None:
    """The group, every change once, and after a lost connection those that came meanwhile."""
    orders = served["orders"]
    run = uuid.uuid4().hex
    about: dict[str, Any] = {
        "filter": f"/run = '{run}'",
        "options": "oof",
        "command": "sow_and_subscribe",
        "batch_size": 10,
    }
    orders.write(*({"id": f"{run}{number}", "run": run, "n": 0} for number in range(4)))
    with Stream(served, "orders", **about) as stream:
        assert stream.answer.getheader("content-type", "").startswith("text/event-stream")
        group = stream.until("group_end")
        assert [name for name, _ in group] == ["processed", "group_begin", "sow", "group_end"]
        assert len(group[2][1]["records"]) == 4
        assert stream.id == group[-1][1]["bookmark"]
        assert stream.until("completed")
        orders.write({"id": f"{run}0", "run": run, "n": 1})
        [(_, publish)] = stream.until("publish")
        assert publish["data"]["n"] == 1
        assert stream.id.count("@") == 2, "the id names all partitions"
        assert publish["bookmark"].split(":")[1] in stream.id
    orders.write({"id": f"{run}1", "run": run, "n": 2})
    orders.delete({"id": f"{run}2"})
    with Stream(served, "orders", last=stream.id, **about) as again:
        messages = again.until("completed")
        assert sorted((name, message["data"]["n"]) for name, message in messages[1:-1]) == [
            ("oof", 0),
            ("publish", 2),
        ]
        orders.write({"id": f"{run}3", "run": run, "n": 3})
        assert again.until("publish")[-1][1]["data"]["n"] == 3
        assert [name for name, _ in again.until("progress")] == ["progress"]


def test_a_stream_without_changes_moves_on(served: Served) -> None:
    """From now on, what does not match brings the id forward, too."""
    with Stream(served, "few", filter="/id = 'never'") as stream:
        [(name, processed)] = stream.until("processed")
        assert stream.id == processed["bookmark"]
        served["few"].write({"id": "x"})
        bookmark = stream.until("progress")[-1][1]["bookmark"]
        assert (stream.id, name) == (bookmark, "processed")


def test_a_stream_ends_where_it_is_to_end(served: Served) -> None:
    """Its last id tells that it did: who comes back with that is told to stop."""
    served["few"].write({"id": "e", "n": 1}, {"id": "e", "n": 2})
    with Stream(served, "few", bookmark="[epoch..now]", filter="/id = 'e'") as stream:
        messages = stream.until("completed")
        assert [message["data"]["n"] for name, message in messages if name == "publish"] == [1, 2]
        assert stream.event() is None
    with Stream(served, "few", last=stream.id, bookmark="[epoch..now]") as again:
        assert again.answer.status == 204


@pytest.mark.parametrize(
    ("topic", "given", "status", "reason"),
    [
        ("few", {"filter": "/id ="}, 400, "bad filter"),
        ("few", {"color": "red"}, 400, "bad request"),
        ("few", {"bookmark": "yesterday"}, 400, "invalid bookmark"),
        ("few", {"origin": "https://elsewhere.example"}, 403, "origin refused"),
    ],
)
def test_what_can_not_be_is_refused(
    served: Served, topic: str, given: dict[str, str], status: int, reason: str
) -> None:
    """As other requests are, before a stream begins: then a browser does not come back."""
    with Stream(served, topic, **given) as stream:
        assert stream.refusal() == (status, reason)


def test_an_expired_position_is_an_event_to_who_comes_back(served: Served) -> None:
    """The browser forgets the id; an expired bookmark in the request is answered 400; `reset` has a group."""
    gone = served["gone"]
    hasten_compaction(served.system, gone.name)
    with Stream(served, "gone", command="sow_and_subscribe") as stream:
        stream.until("group_end")
    compact(
        served.system,
        gone.name,
        lambda n: gone.write(*({"id": 0, "n": n} for _ in range(40))),
        after=positions_of(stream.id),
    )
    about = {"command": "sow_and_subscribe"}
    with Stream(served, "gone", last=stream.id, **about) as again:
        [(name, failure)] = again.until("failure")
        assert (name, failure["reason"], again.id) == ("failure", "bookmark_expired", "")
        assert again.event() is None
    with Stream(served, "gone", bookmark=stream.id, **about) as given:
        assert given.refusal() == (400, "bookmark_expired")
    with Stream(served, "gone", last=stream.id, options="reset", **about) as reset:
        messages = reset.until("group_end")
        assert messages[1][1]["reset"] is True


def test_a_slow_reader_catches_up(served: Served) -> None:
    """What is too much for it to take is read again for it, in order, and nobody else waits."""
    few, text = served["few"], "x" * 1000
    with Stream(served, "few", filter="/slow > 0") as stream:
        stream.until("processed")
        for start in range(1, 3001, 500):
            few.write(*({"id": "slow", "slow": number, "text": text} for number in range(start, start + 500)))
        received = [stream.until("publish")[-1][1]["data"]["slow"] for _ in range(3000)]
    assert received == list(range(1, 3001))


def test_streams_count_as_sessions(served: Served) -> None:
    """There are so many and no more, also of those that come back; one that leaves makes room."""

    def open_sessions() -> int:
        return int(json.loads(http_text(f"{served.query.url}/status"))["sessions"]["open"])

    wait_for(lambda: open_sessions() == 0, "no session")
    streams = [Stream(served, "few") for _ in range(SESSIONS_MAX)]
    for stream in streams:
        stream.until("processed")
    clients = json.loads(http_text(f"{served.query.url}/v1/clients"))["clients"]
    assert [client["subscriptions"][0]["command"] for client in clients] == ["subscribe"] * SESSIONS_MAX
    with Stream(served, "few") as refused:
        assert refused.refusal() == (503, "busy")
    with Stream(served, "few", last=streams[0].id) as back:
        assert back.until("failure")[-1][1]["reason"] == "busy"
    for stream in streams:
        stream.__exit__()
    wait_for(lambda: open_sessions() == 0, "no session")
    with Stream(served, "few") as again:
        again.until("processed")
