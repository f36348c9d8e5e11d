"""Delta messaging, example by example and rule by rule, through a raw WebSocket over a real Kafka."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sowline import Client
from sowline.client.publisher import Publisher
from tests.integration.positions import positions_of
from tests.integration.served import Served, ServedTopic, live, query, serve, without_bookmarks
from tests.integration.wire import Json, Wire, laid_over

ORDERS: list[Json] = [
    {"order": 1, "customer": "Patrick", "status": "new", "qty": 1000, "ticker": "IBM"},
    {"order": 2, "customer": "Smith", "status": "new", "qty": 100, "ticker": "MSFT"},
    {"order": 3, "customer": "Patrick", "status": "new", "qty": 1000, "ticker": "MSFT"},
]
PENDING: Json = {"order": 3, "customer": "Patrick", "status": "pending", "qty": 1000, "ticker": "MSFT"}


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One materializer and one query service for all tests here."""
    topics = {"orders": {"key": "/order"}}
    with serve(kafka, tmp_path_factory.mktemp("deltas"), topics) as served:
        yield served


@pytest.fixture
def orders(served: Served) -> ServedTopic:
    """A topic of three orders, keyed by `order`."""
    topic = served["orders"]
    topic.clear()
    topic.write(*ORDERS)
    return topic


def by_order(order: Json) -> int:
    """What orders are sorted by."""
    return int(order["order"])


# what a delta subscription is told


def test_the_update_of_order_3(client: Wire, other: Wire, orders: ServedTopic) -> None:
    """A regular subscriber gets the entire order, a delta subscriber the key and what has changed."""
    client.send("sow_and_subscribe", topic=orders.name, sub_id="regular", batch_size=10)
    other.send("sow_and_delta_subscribe", topic=orders.name, sub_id="delta", batch_size=10)
    for one in (client, other):
        (batch,) = one.group()[1:-1]
        assert sorted((record["data"] for record in batch["records"]), key=by_order) == ORDERS
    orders.write(PENDING)
    assert live(client) == [orders.message_to("publish", ["regular"], PENDING)]
    assert live(other) == [
        orders.message_to("publish", ["delta"], {"order": 3, "status": "pending"}, delta=True)
    ]


def test_deltas_in_and_deltas_out_are_independent(client: Wire, other: Wire, orders: ServedTopic) -> None:
    """How a record was published does not decide who gets a delta."""
    client.send("subscribe", topic=orders.name, sub_id="regular")
    other.send("delta_subscribe", topic=orders.name, sub_id="delta")
    assert client.heartbeat() == other.heartbeat() == []
    orders.merge({"order": 3, "qty": 900})
    orders.write(ORDERS[2] | {"qty": 800})
    assert live(client) == [
        orders.message_to("publish", ["regular"], ORDERS[2] | {"qty": 900}),
        orders.message_to("publish", ["regular"], ORDERS[2] | {"qty": 800}),
    ]
    assert live(other) == [
        orders.message_to("publish", ["delta"], {"order": 3, "qty": qty}, delta=True) for qty in (900, 800)
    ]


def test_delta_subscribe_starts_with_new_messages(client: Wire, orders: ServedTopic) -> None:
    """There is no group; the first update of a record from before is a delta."""
    client.send("delta_subscribe", topic=orders.name, sub_id="s", ack_type="processed,completed")
    begun = client.receive()
    assert (begun["ack_type"], list(positions_of(begun["bookmark"]))) == ("processed", [0])
    assert {message["command"] for message in client.heartbeat()} <= {"ack"}
    orders.write(PENDING)
    assert live(client) == [
        orders.message_to("publish", ["s"], {"order": 3, "status": "pending"}, delta=True)
    ]


@contextmanager
def changing_all_the_time(publisher: Publisher, topic: ServedTopic) -> Iterator[None]:
    """Publish deltas of all three orders, from before the block on until it ends."""
    begun, ended = threading.Event(), threading.Event()

    def change() -> None:
        for number in itertools.count():
            publisher.delta_publish(topic.name, {"order": number % 3 + 1, f"f{number % 7}": number})
            if number % 50 == 0:
                publisher.flush()
                begun.set()
                if ended.is_set():
                    return

    writer = threading.Thread(target=change)
    writer.start()
    try:
        begun.wait()
        yield
    finally:
        ended.set()
        writer.join()
    topic.settle()


def test_the_group_and_the_deltas_are_one_whole(client: Wire, orders: ServedTopic, served: Served) -> None:
    """While orders change all the time, deltas laid over the group lead to the orders as they are in the end."""
    with changing_all_the_time(served.system.publisher(), orders):
        client.send("sow_and_delta_subscribe", topic=orders.name, batch_size=10)
        view = {record["sow_key"]: record["data"] for m in client.group()[1:-1] for record in m["records"]}
        first = client.receive()
    for message in [first, *client.heartbeat()]:
        view[message["sow_key"]] |= message["data"]
    assert sorted(view.values(), key=by_order) == sorted(query(client, orders), key=by_order)


@pytest.mark.parametrize("options", ["", "oof"])
def test_what_comes_into_focus_arrives_whole(client: Wire, orders: ServedTopic, options: str) -> None:
    """Even if only one field has changed, and again each time it comes back."""
    client.send(
        "delta_subscribe", topic=orders.name, sub_id="s", filter="/status = 'pending'", options=options
    )
    assert client.heartbeat() == []
    orders.write(PENDING)
    orders.merge({"order": 3, "qty": 900})
    orders.merge({"order": 3, "status": "done"})
    orders.merge({"order": 3, "status": "pending"})
    left = orders.message_to("oof", ["s"], PENDING | {"qty": 900, "status": "done"}, reason="match")
    assert live(client) == [
        orders.message_to("publish", ["s"], PENDING),
        orders.message_to("publish", ["s"], {"order": 3, "qty": 900}, delta=True),
        *([left] if options else []),
        orders.message_to("publish", ["s"], PENDING | {"qty": 900}),
    ]


def test_new_and_known_records(client: Wire, orders: ServedTopic) -> None:
    """A SOW key that was not there before is a new record, whole; one that was is an update, with its key fields."""
    client.send("sow_and_delta_subscribe", topic=orders.name, batch_size=10)
    held = {record["sow_key"] for message in client.group()[1:-1] for record in message["records"]}
    new = {"order": 4, "customer": "Smith", "status": "new"}
    orders.write(new, PENDING)
    first, second = client.heartbeat()
    assert first["sow_key"] not in held
    assert (first["data"], "delta" in first) == (new, False)
    assert second["sow_key"] in held
    assert (second["data"]["order"], second["delta"]) == (3, True)


# options of a delta subscription


def test_an_update_without_a_change(client: Wire, orders: ServedTopic) -> None:
    """It is sent with the key alone, however it was published."""
    client.send("delta_subscribe", topic=orders.name, sub_id="s")
    assert client.heartbeat() == []
    orders.write(ORDERS[2])
    orders.merge({"order": 3, "ticker": "MSFT"})
    assert live(client) == [orders.message_to("publish", ["s"], {"order": 3}, delta=True)] * 2


def test_no_empties(client: Wire, orders: ServedTopic) -> None:
    """Updates without a change are not sent; a removed field is a change."""
    client.send("delta_subscribe", topic=orders.name, sub_id="s", options="no_empties")
    assert client.heartbeat() == []
    orders.write(ORDERS[2])
    orders.merge({"order": 3, "ticker": "MSFT"})
    assert client.heartbeat() == []
    orders.write(PENDING)
    orders.write({name: value for name, value in PENDING.items() if name != "qty"})
    assert live(client) == [
        orders.message_to("publish", ["s"], {"order": 3, "status": "pending"}, delta=True),
        orders.message_to("publish", ["s"], {"order": 3}, delta=True, removed=["/qty"]),
    ]


def test_a_key_field_with_another_value_is_no_empty_change(
    client: Wire, other: Wire, orders: ServedTopic
) -> None:
    """`3` and `"3"` are one key and two values: the change is sent, live, conflated and to who comes back."""
    about = {"topic": orders.name, "ack_type": "processed"}
    client.send("delta_subscribe", sub_id="s", options="no_empties", **about)
    begun = client.receive()["bookmark"]
    other.send("delta_subscribe", sub_id="s", options="no_empties,conflation=1ms", **about)
    other.receive()
    orders.write(ORDERS[2] | {"order": "3"})
    expected = orders.message_to("publish", ["s"], {"order": "3"}, delta=True)
    assert live(client) == [expected]
    assert without_bookmarks([other.receive()]) == [expected]
    client.send("delta_subscribe", sub_id="t", options="no_empties", bookmark=begun, topic=orders.name)
    assert without_bookmarks([client.receive()]) == [
        orders.message_to("publish", ["t"], {"order": "3"}, delta=True)
    ]


def test_no_sowkey(client: Wire, orders: ServedTopic) -> None:
    """The SOW key is left out, of the group and of the deltas."""
    client.send(
        "sow_and_delta_subscribe", topic=orders.name, sub_id="s", options="no_sowkey", filter="/order = 3"
    )
    (record,) = client.group()[1]["records"]
    assert (record["data"], "sow_key" in record) == (ORDERS[2], False)
    orders.write(PENDING)
    assert live(client) == [
        orders.message_to("publish", ["s"], {"order": 3, "status": "pending"}, delta=True, sow_key=None)
    ]


def test_send_keys(client: Wire, other: Wire, orders: ServedTopic) -> None:
    """Key fields are in every delta, with the option as without it."""
    client.send("delta_subscribe", topic=orders.name, sub_id="s", options="send_keys")
    other.send("delta_subscribe", topic=orders.name, sub_id="s")
    assert client.heartbeat() == other.heartbeat() == []
    orders.write(PENDING, PENDING, PENDING | {"qty": 1})
    messages = client.heartbeat()
    assert [message["data"]["order"] for message in messages] == [3, 3, 3]
    assert messages == other.heartbeat()


def test_timestamp(client: Wire, orders: ServedTopic) -> None:
    """The option of regular subscriptions is one of delta subscriptions, too."""
    client.send("delta_subscribe", topic=orders.name, sub_id="s", options="timestamp")
    assert client.heartbeat() == []
    orders.write(PENDING)
    (message,) = live(client)
    at = message.pop("timestamp")
    assert (at[4], at[10], at[-1]) == ("-", "T", "Z")
    assert message == orders.message_to("publish", ["s"], {"order": 3, "status": "pending"}, delta=True)


def test_oof_of_a_delta_subscription(client: Wire, other: Wire, orders: ServedTopic) -> None:
    """Deleted records, and those that no longer match, are sent only with the option, and always whole."""
    for one, options in ((client, "oof"), (other, "")):
        one.send("delta_subscribe", topic=orders.name, sub_id="s", filter="/status='new'", options=options)
        assert one.heartbeat() == []
    orders.delete({"order": 1})
    orders.merge({"order": 3, "status": "pending"})
    assert live(client) == [
        orders.message_to("oof", ["s"], ORDERS[0], reason="deleted"),
        orders.message_to("oof", ["s"], PENDING, reason="match"),
    ]
    assert live(other) == []


def test_all_options_at_once(client: Wire, orders: ServedTopic) -> None:
    """Each does what it does alone."""
    options = "oof,no_empties,no_sowkey,send_keys"
    client.send("delta_subscribe", topic=orders.name, sub_id="s", filter="/status='new'", options=options)
    assert client.heartbeat() == []
    orders.write(ORDERS[2], PENDING, ORDERS[2], {"order": 3, "status": "new"})
    left, came, lost = live(client)
    assert left == orders.message_to("oof", ["s"], PENDING, reason="match", sow_key=None)
    assert came == orders.message_to("publish", ["s"], ORDERS[2], sow_key=None)
    assert sorted(lost.pop("removed")) == ["/customer", "/qty", "/ticker"]
    assert lost == orders.message_to("publish", ["s"], {"order": 3}, delta=True, sow_key=None)


# deltas and select lists


def test_select_with_no_empties(client: Wire, orders: ServedTopic) -> None:
    """Only changes to selected fields are sent, with these fields only."""
    options = "no_empties,select=[-/,+/order,+/status]"
    client.send("delta_subscribe", topic=orders.name, sub_id="s", options=options)
    assert client.heartbeat() == []
    orders.merge({"order": 3, "qty": 900})
    assert client.heartbeat() == []
    orders.merge({"order": 3, "qty": 800, "status": "pending"})
    assert live(client) == [
        orders.message_to("publish", ["s"], {"order": 3, "status": "pending"}, delta=True)
    ]


def test_select_without_no_empties(client: Wire, orders: ServedTopic) -> None:
    """A change to other fields is sent like one that changes nothing."""
    client.send("delta_subscribe", topic=orders.name, sub_id="s", options="select=[-/,+/order,+/status]")
    assert client.heartbeat() == []
    orders.merge({"order": 3, "qty": 900})
    orders.write({"order": 3, "status": "new"})
    assert live(client) == [orders.message_to("publish", ["s"], {"order": 3}, delta=True)] * 2


def test_select_of_a_whole_record(client: Wire, orders: ServedTopic) -> None:
    """What is new or comes into focus is whole as far as it is selected."""
    options = "no_empties,select=[-/customer]"
    client.send("delta_subscribe", topic=orders.name, sub_id="s", filter="/qty > 0", options=options)
    assert client.heartbeat() == []
    orders.write({"order": 4, "customer": "Smith", "qty": 1})
    assert live(client) == [orders.message_to("publish", ["s"], {"order": 4, "qty": 1})]


# coming back


def test_deltas_go_on_after_a_bookmark(client: Wire, other: Wire, orders: ServedTopic) -> None:
    """A client that resumes gets the same deltas as one that stayed."""
    about: Json = {"topic": orders.name, "sub_id": "s", "filter": "/qty > 10", "options": "oof"}
    other.send("delta_subscribe", **about)
    assert other.heartbeat() == []
    client.send("sow_and_delta_subscribe", **about)
    seen = client.group()[-1:]
    orders.write(PENDING)
    seen += client.heartbeat()
    client.send("unsubscribe", sub_id="s")
    assert client.heartbeat() == []
    orders.merge({"order": 3, "qty": 900})
    orders.write({"order": 3, "qty": 900, "status": "done"}, {"order": 2, "qty": 1}, {"order": 5, "qty": 50})
    orders.merge({"order": 2, "qty": 11}, {"order": 5, "qty": 51})
    orders.delete({"order": 1})
    _, *missed = other.heartbeat()
    client.send("delta_subscribe", bookmark=laid_over(seen), **about)
    assert client.receive_until(lambda m: m["bookmark"] == missed[-1]["bookmark"]) == missed
    assert client.heartbeat() == []
    assert without_bookmarks(missed) == [
        orders.message_to("publish", ["s"], {"order": 3, "qty": 900}, delta=True),
        orders.message_to(
            "publish",
            ["s"],
            {"order": 3, "status": "done"},
            delta=True,
            removed=missed[1]["removed"],
        ),
        orders.message_to("oof", ["s"], {"order": 2, "qty": 1}, reason="match"),
        orders.message_to("publish", ["s"], {"order": 5, "qty": 50}),
        orders.message_to("publish", ["s"], {"order": 2, "qty": 11}),
        orders.message_to("publish", ["s"], {"order": 5, "qty": 51}, delta=True),
        orders.message_to("oof", ["s"], ORDERS[0], reason="deleted"),
    ]
    assert sorted(missed[1]["removed"]) == ["/customer", "/ticker"]


# the Python client


def test_the_python_client(orders: ServedTopic, served: Served) -> None:
    """Deltas are marked, and the client goes on with them."""
    with Client(served.query.url) as client:
        messages = client.sow_and_delta_subscribe(orders.name, filter="/order = 2", batch_size=10)
        assert [next(messages).command for _ in range(3)] == ["group_begin", "sow", "group_end"]
        orders.merge({"order": 2, "qty": 101})
        message = next(messages)
        assert (message.delta, message.data, message.removed) == (True, {"order": 2, "qty": 101}, ())
