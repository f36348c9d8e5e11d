"""Out-of-focus messages, example by example and rule by rule, through a raw WebSocket over a real Kafka."""

import random
from collections.abc import Iterator

import pytest

from tests.integration.load import new_seed
from tests.integration.served import Served, ServedTopic, live, query, serve, without_bookmarks
from tests.integration.wire import Json, Wire, laid_over, wire

NEW_YORK: Json = {"buyer": {"id": 100, "loc": "NY"}}
LONDON: Json = {"buyer": {"id": 100, "loc": "LN"}}
AT_NEW_YORK = '/buyer/loc="NY"'


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One materializer and one query service for all tests here."""
    topics: dict[str, Json] = {
        "buyer": {"key": "/buyer/id"},
        "orders": {"key": "/Id"},
        "records": {"key": "/id"},
    }
    with serve(kafka, tmp_path_factory.mktemp("oof"), topics) as served:
        yield served


@pytest.fixture
def buyer(served: Served) -> ServedTopic:
    """A topic with a buyer in New York."""
    topic = served["buyer"]
    topic.clear()
    topic.write(NEW_YORK)
    return topic


# the buyer who moves


def test_the_buyer_moves_to_london(client: Wire, other: Wire, buyer: ServedTopic) -> None:
    """A subscriber with `oof` gets the updated buyer, whom a query no longer finds; one without it gets nothing."""
    for one, options in ((client, "oof"), (other, "")):
        one.send("sow_and_subscribe", topic=buyer.name, sub_id="s", filter=AT_NEW_YORK, options=options)
        (record,) = one.group()[1]["records"]
        assert record["data"] == NEW_YORK
    buyer.write(LONDON)
    (message,) = client.heartbeat()
    assert [message[name] for name in ("command", "topic", "reason", "sow_key", "data")] == [
        "oof",
        buyer.name,
        "match",
        record["sow_key"],
        LONDON,
    ]
    assert without_bookmarks([message]) == [buyer.message_to("oof", ["s"], LONDON, reason="match")]
    assert other.heartbeat() == []
    assert query(client, buyer, AT_NEW_YORK) == []


def test_the_buyer_is_deleted(client: Wire, buyer: ServedTopic) -> None:
    """Then the body is the deleted buyer."""
    client.send("sow_and_subscribe", topic=buyer.name, sub_id="s", filter=AT_NEW_YORK, options="oof")
    assert client.group()[-1]["records"] == 1
    buyer.delete(NEW_YORK)
    assert live(client) == [buyer.message_to("oof", ["s"], NEW_YORK, reason="deleted")]


def test_nothing_more_until_the_buyer_is_back(client: Wire, buyer: ServedTopic) -> None:
    """Changes of a record out of focus are not sent; when it comes into focus, it is published whole."""
    client.send("sow_and_subscribe", topic=buyer.name, sub_id="s", filter=AT_NEW_YORK, options="oof")
    client.group()
    buyer.write(LONDON)
    buyer.write({"buyer": {"id": 100, "loc": "TK"}})
    buyer.merge({"buyer": {"id": 100, "name": "Adam"}})
    buyer.merge({"buyer": {"id": 100, "loc": "LN"}})
    assert live(client) == [buyer.message_to("oof", ["s"], LONDON, reason="match")]
    buyer.merge({"buyer": {"id": 100, "loc": "NY"}})
    back = {"buyer": {"id": 100, "loc": "NY", "name": "Adam"}}
    assert live(client) == [buyer.message_to("publish", ["s"], back)]
    buyer.write(LONDON)
    buyer.delete(LONDON)
    assert live(client) == [buyer.message_to("oof", ["s"], LONDON, reason="match")]
    buyer.write(NEW_YORK)
    buyer.delete(NEW_YORK)
    assert live(client) == [
        buyer.message_to("publish", ["s"], NEW_YORK),
        buyer.message_to("oof", ["s"], NEW_YORK, reason="deleted"),
    ]


# when, and with which body


def test_the_body_tells_what_became_of_an_order(client: Wire, records: ServedTopic) -> None:
    """It contains the updated state, which distinguishes completed from cancelled orders."""
    orders = [{"id": id, "status": "open", "qty": id * 10} for id in (1, 2, 3)]
    records.write(*orders)
    client.send("sow_and_subscribe", topic=records.name, sub_id="s", filter="/status='open'", options="oof")
    assert client.group()[-1]["records"] == 3
    for order, status in zip(orders, ("completed", "cancelled", "open"), strict=True):
        records.write(order | {"status": status})
    assert live(client) == [
        records.message_to("oof", ["s"], orders[0] | {"status": "completed"}, reason="match"),
        records.message_to("oof", ["s"], orders[1] | {"status": "cancelled"}, reason="match"),
        records.message_to("publish", ["s"], orders[2]),
    ]


@pytest.mark.parametrize("command", ["sow_and_subscribe", "sow_and_delta_subscribe"])
def test_a_delta_publish_tells_the_merged_record(client: Wire, records: ServedTopic, command: str) -> None:
    """Where it takes a record out of focus, the body is all of it, also for delta subscribers."""
    order = {"id": 1, "status": "open", "qty": 10, "legs": {"near": 1, "far": 2}}
    records.write(order)
    client.send(command, topic=records.name, sub_id="s", filter="/status = 'open'", options="oof")
    client.group()
    records.merge({"id": 1, "status": "filled", "legs": {"far": 3}})
    filled = {"id": 1, "status": "filled", "qty": 10, "legs": {"near": 1, "far": 3}}
    assert live(client) == [records.message_to("oof", ["s"], filled, reason="match")]


def test_a_record_that_comes_back_is_whole(client: Wire, records: ServedTopic) -> None:
    """Delta subscribers get it too; after that, they get deltas again."""
    records.write({"id": 1, "status": "open", "qty": 10})
    client.send(
        "sow_and_delta_subscribe", topic=records.name, sub_id="s", filter="/status = 'open'", options="oof"
    )
    client.group()
    records.merge({"id": 1, "status": "held"}, {"id": 1, "status": "open"}, {"id": 1, "qty": 11})
    assert live(client) == [
        records.message_to("oof", ["s"], {"id": 1, "status": "held", "qty": 10}, reason="match"),
        records.message_to("publish", ["s"], {"id": 1, "status": "open", "qty": 10}),
        records.message_to("publish", ["s"], {"id": 1, "qty": 11}, delta=True),
    ]


def test_what_never_matched_does_not_leave(client: Wire, records: ServedTopic) -> None:
    """Whatever happens to it, although all other records are sent."""
    records.write({"id": 1, "status": "held"}, {"id": 2, "status": "open"})
    client.send("sow_and_subscribe", topic=records.name, sub_id="s", filter="/status='open'", options="oof")
    client.group()
    records.merge({"id": 1, "status": "closed"}, {"id": 3, "status": "new"})
    records.delete({"id": 1}, {"id": 3}, {"id": 4})
    assert client.heartbeat() == []
    records.clear()
    assert live(client) == [records.message_to("oof", ["s"], {"id": 2, "status": "open"}, reason="deleted")]


def test_every_deleted_record_is_sent(client: Wire, records: ServedTopic) -> None:
    """Of a delete that takes many records away, those that matched, each with its own body."""
    held = [{"id": id, "status": "open" if id % 2 else "held"} for id in range(10)]
    records.write(*held)
    client.send("sow_and_subscribe", topic=records.name, sub_id="s", filter="/status='open'", options="oof")
    client.group()
    records.clear()
    left = sorted(live(client), key=lambda message: message["data"]["id"])
    assert left == [records.message_to("oof", ["s"], record, reason="deleted") for record in held[1::2]]


def test_out_of_a_page(client: Wire, records: ServedTopic) -> None:
    """A record that another one pushes out of the window is sent with its present body."""
    records.write(*({"id": id, "qty": id * 10} for id in (2, 3, 4)))
    client.send(
        "sow_and_subscribe", topic=records.name, sub_id="s", order_by="/id", top_n=2, skip_n=0, options="oof"
    )
    client.group()
    records.write({"id": 1, "qty": 10})
    assert live(client) == [
        records.message_to("oof", ["s"], {"id": 3, "qty": 30}, reason="match", more=True),
        records.message_to("publish", ["s"], {"id": 1, "qty": 10}),
    ]


def test_without_a_query(client: Wire, records: ServedTopic) -> None:
    """A plain subscribe gets an `oof` too, also for records from before it began."""
    records.write({"id": 1, "status": "open", "qty": 1}, {"id": 2, "status": "open", "qty": 2})
    about: Json = {"topic": records.name, "sub_id": "s", "filter": "/status = 'open'", "options": "oof"}
    client.send("subscribe", ack_type="processed", **about)
    client.receive_until(lambda message: message["command"] == "ack")
    records.merge({"id": 1, "status": "closed"})
    records.delete({"id": 2})
    assert live(client) == [
        records.message_to("oof", ["s"], {"id": 1, "status": "closed", "qty": 1}, reason="match"),
        records.message_to("oof", ["s"], {"id": 2, "status": "open", "qty": 2}, reason="deleted"),
    ]


@pytest.mark.parametrize("command", ["subscribe", "sow_and_subscribe"])
def test_coming_back_with_a_bookmark(
    client: Wire, other: Wire, records: ServedTopic, served: Served, command: str
) -> None:
    """A client that was away gets the same messages, with the same bodies, as one that stayed."""
    held = [{"id": id, "status": "open", "qty": id} for id in (1, 2, 3)]
    records.write(*held)
    about: Json = {"topic": records.name, "sub_id": "s", "filter": "/status='open'", "options": "oof"}
    client.send("subscribe", **about)
    assert client.heartbeat() == []
    with wire(served.query.url) as leaving:
        leaving.send("sow_and_subscribe", **about)
        seen = leaving.group()[-1:]
        records.merge({"id": 3, "qty": 30})
        seen += leaving.heartbeat()
    records.merge({"id": 1, "status": "closed"}, {"id": 1, "qty": 7})
    records.delete({"id": 2})
    records.write({"id": 3, "status": "held"}, {"id": 3, "status": "open"})
    records.delete({"id": 3})
    first, *missed = client.heartbeat()
    assert first["data"] == held[2] | {"qty": 30}
    other.send(command, bookmark=laid_over(seen), **about)
    assert other.receive_until(lambda m: m["bookmark"] == missed[-1]["bookmark"]) == missed
    assert other.heartbeat() == []
    assert without_bookmarks(missed) == [
        records.message_to("oof", ["s"], {"id": 1, "status": "closed", "qty": 1}, reason="match"),
        records.message_to("oof", ["s"], held[1], reason="deleted"),
        records.message_to("oof", ["s"], {"id": 3, "status": "held"}, reason="match"),
        records.message_to("publish", ["s"], {"id": 3, "status": "open"}),
        records.message_to("oof", ["s"], {"id": 3, "status": "open"}, reason="deleted"),
    ]


# a GUI that shows the open orders of a client

ADAMS: list[Json] = [
    {"Id": 1, "Client": "Adam", "Symbol": "MSFT", "State": "Open"},
    {"Id": 2, "Client": "Adam", "Symbol": "IBM", "State": "Open"},
    {"Id": 3, "Client": "Adam", "Symbol": "AAPL", "State": "Filled"},
]
EVES: Json = {"Id": 4, "Client": "Eve", "Symbol": "MSFT", "State": "Open"}
FILLED: Json = ADAMS[0] | {"State": "Filled"}
OPEN = '/Client="Adam" AND /State="Open"'


@pytest.fixture
def orders(served: Served) -> ServedTopic:
    """A topic with orders of Adam and Eve."""
    topic = served["orders"]
    topic.clear()
    topic.write(*ADAMS, EVES)
    return topic


def rows(group: list[Json]) -> list[Json]:
    """Return the orders of a group, by their ids."""
    found = [record["data"] for message in group[1:-1] for record in message["records"]]
    return sorted(found, key=lambda order: order["Id"])


def test_filtering_in_the_gui(client: Wire, orders: ServedTopic) -> None:
    """With the client alone in the filter, the GUI gets all of Adam's orders and has to look at their states."""
    client.send("sow_and_subscribe", topic=orders.name, sub_id="s", filter='/Client="Adam"')
    assert rows(client.group()) == ADAMS
    orders.write(EVES, FILLED)
    assert live(client) == [orders.message_to("publish", ["s"], FILLED)]


def test_filtering_without_oof(client: Wire, orders: ServedTopic) -> None:
    """With the state in the filter, the GUI gets no message when an order is filled, and continues to show it."""
    client.send("sow_and_subscribe", topic=orders.name, sub_id="s", filter=OPEN)
    shown = rows(client.group())
    assert shown == ADAMS[:2]
    orders.write(FILLED)
    assert client.heartbeat() == []
    assert query(client, orders, OPEN) == [ADAMS[1]] != shown


def test_filtering_with_oof(client: Wire, orders: ServedTopic) -> None:
    """With `oof` it gets a message when the order is no longer open, then none until the order is open again."""
    client.send("sow_and_subscribe", topic=orders.name, sub_id="s", filter=OPEN, options="oof")
    assert rows(client.group()) == ADAMS[:2]
    orders.write(FILLED)
    assert live(client) == [orders.message_to("oof", ["s"], FILLED, reason="match")]
    orders.merge({"Id": 1, "Price": 42})
    orders.merge({"Id": 1, "State": "Settled"})
    assert client.heartbeat() == []
    orders.merge({"Id": 1, "State": "Open"})
    assert live(client) == [orders.message_to("publish", ["s"], ADAMS[0] | {"Price": 42})]
    orders.delete({"Id": 2}, {"Id": 3}, {"Id": 4})
    assert live(client) == [orders.message_to("oof", ["s"], ADAMS[1], reason="deleted")]


def test_the_group_is_the_same_with_oof(client: Wire, other: Wire, orders: ServedTopic) -> None:
    """The option changes nothing about the query."""
    for one, options in ((client, "oof"), (other, "")):
        one.send("sow_and_subscribe", topic=orders.name, sub_id="s", filter=OPEN, options=options)
    assert client.group() == other.group()


def test_a_cache_of_a_part_of_the_sow(client: Wire, other: Wire, orders: ServedTopic) -> None:
    """Publishes put in and messages out of focus taken out, it is at every step what the query would return."""
    dice = random.Random(new_seed())
    client.send("sow_and_subscribe", topic=orders.name, filter=OPEN, options="oof", batch_size=10)
    cache = {record["sow_key"]: record["data"] for m in client.group()[1:-1] for record in m["records"]}
    for _ in range(60):
        order = {"Id": dice.randrange(5), "Client": dice.choice(["Adam", "Adam", "Eve"])}
        dice.choice([orders.write, orders.merge, orders.merge, orders.delete])(
            order | {"State": dice.choice(["Open", "Open", "Filled"])}
        )
        for message in client.heartbeat():
            if message["command"] == "oof":
                del cache[message["sow_key"]]
            else:
                cache[message["sow_key"]] = message["data"]
        assert [cache[key] for key in sorted(cache)] == query(other, orders, OPEN)
