"""Groups on one real connection: whole, one after the other, while subscriptions go on behind them."""

import uuid
from collections.abc import Iterator

import pytest

from sowline import Client
from sowline.client.stream import WAITING_MAX
from tests.integration.served import Served, serve
from tests.integration.wire import Json, Wire, wire
from tests.message_groups import groups_are_whole

RECORDS = 2 * WAITING_MAX
BACKLOG_BYTES = 64 * 1024


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Many records, a topic of few for each test, and a service that lets little wait for a client."""
    topics: dict[str, Json] = {"orders": {"key": "/id", "partitions": 2}}
    topics |= {name: {"key": "/id"} for name in ("waiting", "aborted", "nested", "ordered")}
    directory = tmp_path_factory.mktemp("turns")
    with serve(kafka, directory, topics, backlog_bytes_max=BACKLOG_BYTES, ring_changes_max=50) as served:
        served["orders"].write(*({"id": number, "text": "x" * 40} for number in range(RECORDS)))
        yield served


def test_subscriptions_wait_for_the_end_of_a_group(served: Served) -> None:
    """A slow client's: live changes, a page and a replay come behind it, none is lost and none comes twice."""
    orders, few = served["orders"], served["waiting"]
    with wire(served.query.url, receive_bytes=4096) as slow:
        slow.send("subscribe", topic=few.name, sub_id="live", options="oof", ack_type="processed")
        slow.send(
            "sow_and_subscribe",
            topic=few.name,
            sub_id="page",
            command_id="page",
            order_by="/id",
            top_n=3,
            skip_n=0,
        )
        messages = slow.receive_until(lambda message: message["command"] == "group_end")
        slow.send("sow", topic=orders.name, command_id="q", batch_size=10)
        messages += slow.receive_until(lambda message: message["command"] == "group_begin")
        for start in range(0, 100, 20):
            few.write(*({"id": number % 10, "n": number} for number in range(start, start + 20)))
        slow.send("sow", topic=orders.name, command_id="r", filter="/id < 100", batch_size=100)
        slow.send("subscribe", topic=few.name, sub_id="replay", bookmark="epoch", ack_type="completed")
        slow.send("heartbeat", command_id="h")
        messages += slow.receive_until(
            lambda message: message.get("ack_type") == "completed" and message["sub_id"] == "replay"
        )
        few.write({"id": 0, "n": 100})
        # The replay may be ahead of a live subscription that still catches up behind the group.
        to_come = {"live", "replay"}
        while to_come:
            messages += slow.receive_until(
                lambda message: message["command"] == "publish" and message["data"]["n"] == 100
            )
            to_come -= set(messages[-1]["sids"])
    assert groups_are_whole(messages) == ["page", "q", "r"]
    ends = [message["records"] for message in messages if message["command"] == "group_end"]
    assert ends == [0, RECORDS, 100]
    begin, end = (
        next(at for at, m in enumerate(messages) if m["command"] == command and m["query_id"] == "q")
        for command in ("group_begin", "group_end")
    )
    assert "heartbeat" in {message["command"] for message in messages[begin:end]}
    publishes = [message for message in messages if message["command"] == "publish"]
    for sub_id in ("live", "replay"):
        received = [m["data"]["n"] for m in publishes if sub_id in m["sids"] and m["data"]["n"] < 100]
        assert received == list(range(100))
    page = {m["data"]["id"]: m["data"]["n"] for m in publishes if m["sids"] == ["page"]}
    assert {id: n for id, n in page.items() if id in (1, 2)} == {1: 91, 2: 92}


def test_an_aborted_group_lets_the_next_begin(served: Served) -> None:
    """What was sent of it is void; what waited comes behind its failure."""
    orders, few = served["orders"], served["aborted"]
    with wire(served.query.url, receive_bytes=4096) as slow:
        slow.send("subscribe", topic=few.name, sub_id="live", filter="/aborted = 1", ack_type="processed")
        slow.receive()
        slow.send("sow", topic=orders.name, command_id="q", batch_size=10)
        messages = slow.receive_until(lambda message: message["command"] == "sow")
        few.write({"id": "x", "aborted": 1})
        slow.send("sow", topic=orders.name, command_id="r", filter="/id < 100", batch_size=100)
        slow.send("unsubscribe", command_id="end", query_id="q", ack_type="processed")
        messages += slow.receive_until(
            lambda message: message["command"] == "group_end" and message["query_id"] == "r"
        )
        if not any(message["command"] == "publish" for message in messages):
            messages.append(slow.receive())
    assert groups_are_whole(messages) == ["q", "r"]
    assert sum(message["command"] == "group_end" for message in messages) == 1
    assert [m["data"]["id"] for m in messages if m["command"] == "publish"] == ["x"]


def test_a_query_within_the_loop_over_another(served: Served) -> None:
    """The library's client reads on for the answer, though its caller has not read what came before it."""
    few = served["nested"]
    id = uuid.uuid4().hex
    few.write({"id": id})
    with Client(served.query.url) as client:
        outer = client.sow(served["orders"].name, batch_size=1000)
        assert next(outer).command == "group_begin"
        inner = [message.data for message in client.sow(few.name, filter=f"/id = '{id}'")]
        assert {"id": id} in inner
        assert sum(message.command == "sow" for message in outer) == RECORDS


def test_live_messages_follow_groups_in_flight(served: Served, client: Wire) -> None:
    """Of a subscription, what is told before and behind a group of another keeps its order."""
    few = served["ordered"]
    client.send("subscribe", topic=few.name, sub_id="s", filter="/order > 0", ack_type="processed")
    client.receive()
    for number in range(1, 6):
        client.send("sow", topic=served["orders"].name, batch_size=1000, command_id=f"q{number}")
        few.write({"id": "o", "order": number})
    client.send("flush", command_id="f", ack_type="processed")
    messages = client.receive_until(
        lambda message: message["command"] == "group_end" and message["query_id"] == "q5"
    )
    while sum(message["command"] == "publish" for message in messages) < 5:
        messages.append(client.receive())
    assert groups_are_whole(messages) == ["q1", "q2", "q3", "q4", "q5"]
    assert [m["data"]["order"] for m in messages if m["command"] == "publish"] == [1, 2, 3, 4, 5]
