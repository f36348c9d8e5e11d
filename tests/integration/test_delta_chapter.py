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
from tests.integration.services import http_text
from tests.integration.wire import Json, Wire, laid_over, wire

ORDERS: list[Json] = [
    {"order": 1, "customer": "Patrick", "status": "new", "qty": 1000, "ticker": "IBM"},
    {"order": 2, "customer": "Smith", "status": "new", "qty": 100, "ticker": "MSFT"},
    {"order": 3, "customer": "Patrick", "status": "new", "qty": 1000, "ticker": "MSFT"},
]
PENDING: Json = {"order": 3, "customer": "Patrick", "status": "pending", "qty": 1000, "ticker": "MSFT"}


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One materializer and one query service for all tests here."""
    topics = {"orders": {"key": "/order"}, "records": {"key": "/id"}, "systems": {"key": "/systemId"}}
    with serve(kafka, tmp_path_factory.mktemp("deltas"), topics) as served:
        yield served


@pytest.fixture
def orders(served: Served) -> ServedTopic:
    """A topic of three orders, keyed by `order`."""
    topic = served["orders"]
    topic.clear()
    topic.write(*ORDERS)
    return topic


@pytest.fixture
def records(served: Served) -> ServedTopic:
    """An empty topic, keyed by `id`."""
    topic = served["records"]
    topic.clear()
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


# conflated deltas

XREF: Json = {"id": 99, "status": "open", "notes": "none", "xref": 82}
QUESTIONED: list[Json] = [
    {"id": 99, "status": "questioned", "notes": "none", "xref": 82},
    {"id": 99, "status": "questioned", "notes": "jcarlo hold", "xref": 82},
    {"id": 99, "status": "cleared", "notes": "none", "xref": 82},
    {"id": 99, "status": "open", "notes": "none", "xref": 82},
]


def conflated(client: Wire, records: ServedTopic, options: str = "") -> None:
    """Subscribe to deltas of all records, as of one second each."""
    client.send("sow_and_delta_subscribe", topic=records.name, sub_id="s", options=f"conflation=1s,{options}")
    client.group()


@pytest.mark.parametrize("options", ["", "no_empties", "oof"])
def test_an_interval_of_updates(client: Wire, records: ServedTopic, options: str) -> None:
    """Its delta has all fields that changed, with their last values, also those that are again what they were."""
    records.write(XREF)
    conflated(client, records, options)
    records.write(*QUESTIONED)
    expected = {"id": 99, "status": "open", "notes": "none"}
    assert without_bookmarks([client.receive()]) == [
        records.message_to("publish", ["s"], expected, delta=True)
    ]


def test_an_interval_next_to_single_updates(client: Wire, records: ServedTopic) -> None:
    """A subscription of the same connection without conflation gets each delta in a separate message."""
    records.write(XREF)
    client.send("delta_subscribe", topic=records.name, sub_id="each")
    conflated(client, records)
    records.write(*QUESTIONED)
    messages = client.receive_until(lambda message: message["sids"] == ["s"])
    expected = [
        ("each", {"id": 99, "status": "questioned"}),
        ("each", {"id": 99, "notes": "jcarlo hold"}),
        ("each", {"id": 99, "status": "cleared", "notes": "none"}),
        ("each", {"id": 99, "status": "open"}),
        ("s", {"id": 99, "status": "open", "notes": "none"}),
    ]
    assert without_bookmarks(messages) == [
        records.message_to("publish", [sub_id], data, delta=True) for sub_id, data in expected
    ]


def test_an_interval_without_a_change(client: Wire, records: ServedTopic) -> None:
    """Updates that change nothing are one message with the key alone."""
    records.write(XREF)
    conflated(client, records)
    records.write(XREF, XREF)
    assert without_bookmarks([client.receive()]) == [
        records.message_to("publish", ["s"], {"id": 99}, delta=True)
    ]


def test_an_interval_without_a_change_and_no_empties(client: Wire, records: ServedTopic) -> None:
    """Nothing is sent about that record, but another one is sent."""
    records.write(XREF)
    conflated(client, records, "no_empties")
    records.write(XREF, XREF, {"id": 1})
    assert without_bookmarks([client.receive()]) == [records.message_to("publish", ["s"], {"id": 1})]


def test_an_interval_of_deltas(client: Wire, records: ServedTopic) -> None:
    """Deltas that were published come together like those of full publishes, within objects, too."""
    records.write({"id": 1, "a": {"b": 1, "c": 1, "d": 1}, "e": [1, 2]})
    conflated(client, records)
    records.merge({"id": 1, "a": {"b": 2}}, {"id": 1, "a": {"c": 2}, "e": [3]}, {"id": 1, "a": {"b": 1}})
    expected = {"id": 1, "a": {"b": 1, "c": 2}, "e": [3]}
    assert without_bookmarks([client.receive()]) == [
        records.message_to("publish", ["s"], expected, delta=True)
    ]


def test_an_interval_in_which_fields_go(client: Wire, records: ServedTopic) -> None:
    """A field that is gone at the end is listed as removed; one that came back has its value."""
    records.write({"id": 1, "flowers": "roses", "vase": "blue"})
    conflated(client, records)
    records.write({"id": 1, "flowers": "tulips", "vase": "blue"}, {"id": 1}, {"id": 1, "vase": "blue"})
    expected = records.message_to(
        "publish", ["s"], {"id": 1, "vase": "blue"}, delta=True, removed=["/flowers"]
    )
    assert without_bookmarks([client.receive()]) == [expected]


def test_an_interval_with_a_new_record(client: Wire, records: ServedTopic) -> None:
    """It is sent whole, in its final state."""
    conflated(client, records)
    records.write(*QUESTIONED)
    assert without_bookmarks([client.receive()]) == [records.message_to("publish", ["s"], XREF)]


def test_an_interval_and_a_select_list(client: Wire, records: ServedTopic) -> None:
    """A delta of several updates, too, has only the selected fields."""
    records.write(XREF)
    conflated(client, records, "no_empties,select=[-/status]")
    records.write(*QUESTIONED)
    expected = {"id": 99, "notes": "none"}
    assert without_bookmarks([client.receive()]) == [
        records.message_to("publish", ["s"], expected, delta=True)
    ]


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


# publishing deltas


def test_a_delta_without_a_record(client: Wire, other: Wire, records: ServedTopic) -> None:
    """The fields of the delta, and only those, are the record."""
    client.send("subscribe", topic=records.name, sub_id="regular")
    other.send("delta_subscribe", topic=records.name, sub_id="delta")
    assert client.heartbeat() == other.heartbeat() == []
    update = {"id": 735, "inventory": "available"}
    records.merge(update)
    assert live(client) == [records.message_to("publish", ["regular"], update)]
    assert live(other) == [records.message_to("publish", ["delta"], update)]
    assert query(client, records) == [update]


ORDER_735: Json = {"id": 735, "customer": "Patrick", "item": 90123, "qty": 1000, "state": "new"}
INVENTORY: Json = {"id": 735, "inventory": "available"}
CREDIT: Json = {"id": 735, "credit": "approved"}
FULFILLED: Json = {
    "id": 735,
    "credit": "approved",
    "inventory": "available",
    "customer": "Patrick",
    "item": 90123,
    "qty": 1000,
    "state": "new",
}
WORKERS = {
    "inventory": "/state = 'new' AND /inventory IS NULL AND /credit IS NULL",
    "credit": "/state = 'new' and /inventory IS NULL and /credit IS NULL",
    "fulfillment": "/state = 'new' AND /inventory IS NOT NULL AND /credit IS NOT NULL",
}


@pytest.mark.parametrize("updates", [(INVENTORY, CREDIT), (CREDIT, INVENTORY)], ids=["inventory", "credit"])
def test_two_workers_and_fulfillment(
    client: Wire, records: ServedTopic, served: Served, updates: tuple[Json, Json]
) -> None:
    """Each step of an order that two workers check, no matter which of them is the first."""
    with wire(served.query.url) as inventory, wire(served.query.url) as credit:
        wires = dict(zip(WORKERS, (inventory, credit, client), strict=True))
        for name, filter in WORKERS.items():
            wires[name].send(
                "sow_and_subscribe", topic=records.name, sub_id=name, filter=filter, options="oof"
            )
            assert wires[name].group()[-1]["records"] == 0

        def messages_by_worker() -> dict[str, list[Json]]:
            return {name: messages for name, one in wires.items() if (messages := live(one))}

        records.write(ORDER_735)
        assert messages_by_worker() == {
            name: [records.message_to("publish", [name], ORDER_735)] for name in ("inventory", "credit")
        }
        first, second = updates
        records.merge(first)
        checked = ORDER_735 | first
        assert messages_by_worker() == {
            name: [records.message_to("oof", [name], checked, reason="match")]
            for name in ("inventory", "credit")
        }
        assert query(client, records) == [checked]
        records.merge(second)
        assert messages_by_worker() == {
            "fulfillment": [records.message_to("publish", ["fulfillment"], FULFILLED)]
        }
        assert query(client, records, WORKERS["fulfillment"]) == [FULFILLED]


def test_workers_at_the_same_time_lose_nothing(client: Wire, records: ServedTopic, served: Served) -> None:
    """Two publishers that update different fields of the same orders, at once, lose neither's."""
    orders = [ORDER_735 | {"id": id} for id in range(300)]
    records.write(*orders)
    start = threading.Barrier(2)

    def work(update: Json) -> None:
        publisher = served.system.publisher()
        start.wait()
        for order in orders:
            publisher.delta_publish(records.name, update | {"id": order["id"]})
        publisher.flush()

    workers = [threading.Thread(target=work, args=(update,)) for update in (INVENTORY, CREDIT)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    records.settle()
    found = query(client, records, WORKERS["fulfillment"])
    assert sorted(found, key=lambda order: order["id"]) == [FULFILLED | {"id": id} for id in range(300)]


def test_an_array_is_replaced_whole(client: Wire, records: ServedTopic) -> None:
    """The packages of an update are all packages that there are; the delta subscriber gets them whole, too."""
    records.write({"id": 42, "contents": {"packages": [{"box": "chocolates"}, {"bowl": "noodles"}]}})
    client.send("delta_subscribe", topic=records.name, sub_id="s")
    assert client.heartbeat() == []
    update = {"id": 42, "contents": {"packages": [{"basket": "eggs"}]}}
    records.merge(update)
    assert live(client) == [records.message_to("publish", ["s"], update, delta=True)]
    assert query(client, records) == [update]


@pytest.mark.parametrize(
    ("before", "update", "now", "sent"),
    [
        ({"a": {"b": 1, "c": {"d": 2}}}, {"a": {"c": {"d": 3}}}, {"a": {"b": 1, "c": {"d": 3}}}, None),
        ({"a": {"b": 1}}, {"a": {"e": {"f": []}}}, {"a": {"b": 1, "e": {"f": []}}}, None),
        ({"a": {"b": 1}}, {"a": 7}, {"a": 7}, None),
        ({"a": 7}, {"a": {"b": 1}}, {"a": {"b": 1}}, None),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": 1}}, {}),
        ({"a": [1, 2, 3]}, {"a": []}, {"a": []}, None),
        ({"a": 1, "b": 2}, {"a": None}, {"a": None, "b": 2}, None),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"a": 1, "b": 3}, {"b": 3}),
    ],
    ids=["leaf", "new object", "object to value", "value to object", "nothing", "array", "null", "equal"],
)
def test_merging_within_objects(
    client: Wire, records: ServedTopic, before: Json, update: Json, now: Json, sent: Json | None
) -> None:
    """Objects are merged field by field, whatever else is in an update replaces what was there."""
    records.write({"id": 42} | before)
    client.send("delta_subscribe", topic=records.name, sub_id="s")
    assert client.heartbeat() == []
    records.merge({"id": 42} | update)
    changed = {"id": 42} | (update if sent is None else sent)
    assert live(client) == [records.message_to("publish", ["s"], changed, delta=True)]
    assert query(client, records) == [{"id": 42} | now]


def test_other_fields_keep_their_text(records: ServedTopic, served: Served) -> None:
    """What an update does not name is byte for byte what it was, and what it names is as it names it."""
    publisher = served.system.publisher()
    for write, body in (
        (publisher.publish, '{"id":42,"price":1.10,"n":123456789012345678901234567890,"s":"\\u00e9"}'),
        (publisher.delta_publish, '{"id":42,"qty":1e2}'),
    ):
        write(records.name, body)
    publisher.flush()
    records.settle()
    text = http_text(f"{served.query.url}/v1/topics/{records.name}/sow", b"{}")
    body = '{"id":42,"price":1.10,"n":123456789012345678901234567890,"s":"\\u00e9","qty":1e2}'
    assert f'"data":{body}' in text


# fields that go


def test_a_delta_removes_no_field(client: Wire, records: ServedTopic) -> None:
    """A field that an update does not have is as it was; a full publish without it takes it away."""
    records.write({"id": 42, "flowers": "roses"})
    client.send("delta_subscribe", topic=records.name, sub_id="s")
    assert client.heartbeat() == []
    records.merge({"id": 42})
    assert live(client) == [records.message_to("publish", ["s"], {"id": 42}, delta=True)]
    assert query(client, records) == [{"id": 42, "flowers": "roses"}]
    records.write({"id": 42})
    assert live(client) == [
        records.message_to("publish", ["s"], {"id": 42}, delta=True, removed=["/flowers"])
    ]
    assert query(client, records) == [{"id": 42}]


def test_removed_fields_are_sent(client: Wire, records: ServedTopic) -> None:
    """A delta names the paths of fields that went; who merges it and takes them out holds the record."""
    records.write({"id": 42, "flowers": "roses", "vase": {"color": "blue", "size": {"height": 3}, "of": []}})
    client.send("delta_subscribe", topic=records.name, sub_id="s")
    assert client.heartbeat() == []
    records.write({"id": 42, "flowers": "tulips", "vase": {"color": "blue", "size": {}, "of": []}})
    records.write({"id": 42, "flowers": "tulips", "vase": {"color": "red", "size": {}}})
    records.write({"id": 42, "vase": {}, "a b": 1})
    records.write({"id": 42})
    messages = live(client)
    for message in messages:
        message["removed"].sort()
    assert messages == [
        records.message_to("publish", ["s"], data, delta=True, removed=removed)
        for data, removed in (
            ({"id": 42, "flowers": "tulips"}, ["/vase/size/height"]),
            ({"id": 42, "vase": {"color": "red"}}, ["/vase/of"]),
            ({"id": 42, "a b": 1}, ["/flowers", "/vase/color", "/vase/size"]),
            ({"id": 42}, ["/vase", "[/a b]"]),
        )
    ]


def test_removed_and_select(client: Wire, records: ServedTopic) -> None:
    """A subscriber gets no `removed` for fields that it does not get."""
    records.write({"id": 42, "flowers": "roses", "note": "none"})
    client.send("delta_subscribe", topic=records.name, sub_id="s", options="no_empties,select=[-/note]")
    assert client.heartbeat() == []
    records.write({"id": 42, "flowers": "roses"})
    assert client.heartbeat() == []
    records.write({"id": 42})
    assert live(client) == [
        records.message_to("publish", ["s"], {"id": 42}, delta=True, removed=["/flowers"])
    ]


# an update that has the values that are there


def test_the_same_status_is_an_update(client: Wire, other: Wire, served: Served) -> None:
    """It is delivered, to regular and to delta subscribers, but to those who want no empty deltas."""
    systems = served["systems"]
    astro = {"systemId": "A34-Astro", "status": "available", "commandAccepted": ["print", "scan", "fax"]}
    systems.write(astro)
    client.send("subscribe", topic=systems.name, sub_id="regular")
    other.send("delta_subscribe", topic=systems.name, sub_id="delta")
    with wire(served.query.url) as quiet:
        quiet.send("delta_subscribe", topic=systems.name, sub_id="quiet", options="no_empties")
        assert client.heartbeat() == other.heartbeat() == quiet.heartbeat() == []
        systems.merge({"systemId": "A34-Astro", "status": "available"})
        assert live(client) == [systems.message_to("publish", ["regular"], astro)]
        assert live(other) == [
            systems.message_to("publish", ["delta"], {"systemId": "A34-Astro"}, delta=True)
        ]
        assert live(quiet) == []


# the Python client


def test_the_python_client(orders: ServedTopic, served: Served) -> None:
    """Deltas are marked, and the client goes on with them."""
    with Client(served.query.url) as client:
        messages = client.sow_and_delta_subscribe(orders.name, filter="/order = 2", batch_size=10)
        assert [next(messages).command for _ in range(3)] == ["group_begin", "sow", "group_end"]
        orders.merge({"order": 2, "qty": 101})
        message = next(messages)
        assert (message.delta, message.data, message.removed) == (True, {"order": 2, "qty": 101}, ())
