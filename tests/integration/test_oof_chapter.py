"""Out-of-focus messages, example by example and rule by rule, through a raw WebSocket over a real Kafka."""

import random
from collections import deque
from collections.abc import Iterator

import pytest

from tests.integration.load import new_seed
from tests.integration.positions import positions_of
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
        "spread": {"key": "/id", "partitions": 3},
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


@pytest.fixture
def records(served: Served) -> ServedTopic:
    """An empty topic, keyed by `id`."""
    topic = served["records"]
    topic.clear()
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


# subscriptions that use conflation


def interval(client: Wire) -> list[Json]:
    """Return what the interval that ends next tells, by the ids of the records, without `more`.

    Its messages but the last have to say that there is more.
    """
    messages = without_bookmarks(client.receive_until(lambda message: "more" not in message))
    assert all(message.pop("more") for message in messages[:-1])
    return sorted(messages, key=lambda message: message["data"]["id"])


OPEN_RECORD: Json = {"id": 1, "status": "open", "qty": 1}
WAITING: Json = {"id": 2, "status": "held"}


@pytest.fixture
def open_records(client: Wire, records: ServedTopic) -> ServedTopic:
    """One record that the client was sent and one that does not match; both then change."""
    records.write(OPEN_RECORD, WAITING)
    options = "oof,conflation=1s"
    client.send("sow_and_subscribe", topic=records.name, sub_id="s", filter="/status='open'", options=options)
    assert client.group()[-1]["records"] == 1
    return records


@pytest.mark.parametrize(
    ("leave", "reason"),
    [
        (("publish", {"id": 1, "status": "closed"}), "match"),
        (("delta_publish", {"id": 1, "status": "closed"}), "match"),
        (("sow_delete", {"id": 1}), "deleted"),
    ],
)
@pytest.mark.parametrize("updates", [[], [2], [2, 3]], ids=len)
def test_updated_and_out_in_one_interval(
    client: Wire, open_records: ServedTopic, leave: tuple[str, Json], reason: str, updates: list[int]
) -> None:
    """The body is the record as the subscriber has received it, not as it was or became within the interval."""
    open_records.send(*(("publish", OPEN_RECORD | {"qty": qty}) for qty in updates), leave)
    assert interval(client) == [open_records.message_to("oof", ["s"], OPEN_RECORD, reason=reason)]


def test_what_an_earlier_interval_sent_is_received(client: Wire, open_records: ServedTopic) -> None:
    """An interval starts from the state that the previous one sent, for an update and for a new record."""
    open_records.merge({"id": 1, "qty": 2}, {"id": 2, "status": "open"})
    bodies = [OPEN_RECORD | {"qty": 2}, {"id": 2, "status": "open"}]
    assert interval(client) == [open_records.message_to("publish", ["s"], record) for record in bodies]
    open_records.merge(
        {"id": 1, "qty": 3},
        {"id": 2, "qty": 4},
        {"id": 1, "status": "closed"},
        {"id": 2, "status": "closed"},
    )
    assert interval(client) == [
        open_records.message_to("oof", ["s"], record, reason="match") for record in bodies
    ]


def test_out_and_back_in_one_interval(client: Wire, open_records: ServedTopic) -> None:
    """Only the state at the end is sent."""
    open_records.merge({"id": 1, "status": "closed"}, {"id": 1, "status": "open", "qty": 2})
    assert interval(client) == [open_records.message_to("publish", ["s"], OPEN_RECORD | {"qty": 2})]


def test_deleted_and_new_in_one_interval(client: Wire, open_records: ServedTopic) -> None:
    """It is as if the record had never been away."""
    new = {"id": 1, "status": "open", "price": 7}
    open_records.send(("sow_delete", {"id": 1}), ("publish", new))
    assert interval(client) == [open_records.message_to("publish", ["s"], new)]


def test_out_and_back_and_out_in_one_interval(client: Wire, open_records: ServedTopic) -> None:
    """The record is out at the end, for the last reason, and was last received before."""
    open_records.send(
        ("delta_publish", {"id": 1, "status": "closed"}),
        ("delta_publish", {"id": 1, "status": "open", "qty": 2}),
        ("sow_delete", {"id": 1}),
    )
    assert interval(client) == [open_records.message_to("oof", ["s"], OPEN_RECORD, reason="deleted")]


def test_in_and_out_in_one_interval(client: Wire, open_records: ServedTopic) -> None:
    """Nothing is sent about a record that the subscriber never received, not even later."""
    open_records.send(
        ("delta_publish", {"id": 2, "status": "open"}),
        ("delta_publish", {"id": 2, "status": "held"}),
        ("publish", {"id": 3, "status": "open"}),
        ("sow_delete", {"id": 3}),
        ("publish", OPEN_RECORD),
    )
    assert interval(client) == [open_records.message_to("publish", ["s"], OPEN_RECORD)]
    open_records.write(OPEN_RECORD)
    assert interval(client) == [open_records.message_to("publish", ["s"], OPEN_RECORD)]


def test_out_and_back_of_a_delta_subscription(client: Wire, records: ServedTopic) -> None:
    """What came back into focus is whole, also if it went and came within the interval."""
    records.write(OPEN_RECORD)
    client.send(
        "sow_and_delta_subscribe",
        topic=records.name,
        sub_id="s",
        filter="/status='open'",
        options="oof,conflation=1s",
    )
    client.group()
    records.merge({"id": 1, "status": "closed"}, {"id": 1, "status": "open"}, {"id": 1, "qty": 2})
    assert interval(client) == [records.message_to("publish", ["s"], OPEN_RECORD | {"qty": 2})]
    records.merge({"id": 1, "qty": 3}, {"id": 1, "status": "closed"})
    assert interval(client) == [records.message_to("oof", ["s"], OPEN_RECORD | {"qty": 2}, reason="match")]


def test_the_group_is_not_conflated(client: Wire, records: ServedTopic) -> None:
    """However long the interval, the group comes at once; what happens then has to wait."""
    records.write(OPEN_RECORD)
    client.send("sow_and_subscribe", topic=records.name, options="oof,conflation=1h")
    assert client.group()[1]["records"][0]["data"] == OPEN_RECORD
    records.write(OPEN_RECORD)
    records.delete({"id": 1})
    assert client.heartbeat() == []


@pytest.mark.one_node
def test_no_conflation(client: Wire, records: ServedTopic) -> None:
    """With `none`, as without the option, every change is sent."""
    records.write(OPEN_RECORD)
    for sub_id, options in (("none", "oof,conflation=none"), ("without", "oof")):
        client.send("subscribe", topic=records.name, sub_id=sub_id, options=options)
    assert client.heartbeat() == []
    records.write(OPEN_RECORD, OPEN_RECORD)
    records.delete({"id": 1})
    both = ["none", "without"]
    assert live(client) == [
        records.message_to("publish", both, OPEN_RECORD),
        records.message_to("publish", both, OPEN_RECORD),
        records.message_to("oof", both, OPEN_RECORD, reason="deleted"),
    ]


def test_conflation_as_the_client_reads(client: Wire, records: ServedTopic) -> None:
    """With `auto`, what is left out is made good: the last message of a record is its state."""
    client.send("subscribe", topic=records.name, sub_id="s", options="oof,conflation=auto")
    assert client.heartbeat() == []
    records.write(*({"id": 1, "qty": qty} for qty in range(100)))
    messages = client.receive_until(lambda message: message["data"]["qty"] == 99)
    quantities = [message["data"]["qty"] for message in messages]
    assert quantities == sorted(set(quantities))
    assert without_bookmarks(messages[-1:]) == [records.message_to("publish", ["s"], {"id": 1, "qty": 99})]


def test_one_message_per_customer(client: Wire, records: ServedTopic) -> None:
    """With a conflation key, the newest message of those whose records have the same value there."""
    options = "conflation=1s,conflation_key=[/customer]"
    client.send("subscribe", topic=records.name, sub_id="s", options=options)
    assert client.heartbeat() == []
    customers = ["Patrick", "Smith", "Patrick", "Adam", "Smith", "Patrick"]
    records.write(*({"id": id, "customer": customer} for id, customer in enumerate(customers)))
    assert interval(client) == [
        records.message_to("publish", ["s"], {"id": id, "customer": customers[id]}) for id in (3, 4, 5)
    ]


def test_the_time_of_the_first(client: Wire, other: Wire, records: ServedTopic) -> None:
    """The timestamp of a message is that of the first of the changes that it stands for."""
    other.send("subscribe", topic=records.name, sub_id="s", options="timestamp")
    client.send("subscribe", topic=records.name, sub_id="s", options="timestamp,conflation=3s")
    assert client.heartbeat() == other.heartbeat() == []
    for qty in range(3):
        records.write({"id": 1, "qty": qty})
    first, second, third = (message["timestamp"] for message in other.heartbeat())
    assert first < second < third
    expected = records.message_to("publish", ["s"], {"id": 1, "qty": 2}, timestamp=first)
    assert interval(client) == [expected]


def test_the_positions_of_an_interval(client: Wire, other: Wire, served: Served) -> None:
    """All messages but the last carry the bookmark before the interval, the last one that after the whole interval.

    A client that resumes within an interval gets all of it again; one that resumes at its end gets nothing of it.
    """
    records = served["spread"]
    records.write(OPEN_RECORD, {"id": 2, "qty": 1})
    about: Json = {"topic": records.name, "sub_id": "s", "options": "oof,conflation=1s"}
    client.send("sow_and_subscribe", **about)
    before = client.group()[-1]["bookmark"]
    records.send(("publish", {"id": 1, "qty": 2}), ("sow_delete", {"id": 2}), ("publish", {"id": 3}))
    messages = client.receive_until(lambda message: "more" not in message)
    other.send("sow", topic=records.name)
    after = other.group()[-1]["bookmark"]
    assert [message["bookmark"] for message in messages] == [before, before, after]
    assert [message.get("more") for message in messages] == [True, True, None]
    about["options"] = "oof"
    other.send("subscribe", bookmark=laid_over(messages[:1]), **about)
    again = [other.receive() for _ in messages]
    assert sorted(message["data"]["id"] for message in again) == [1, 2, 3]
    other.send("unsubscribe", sub_id="s")
    other.send("subscribe", bookmark=laid_over(messages), **about)
    records.write({"id": 4})
    assert without_bookmarks([other.receive()]) == [records.message_to("publish", ["s"], {"id": 4})]


def test_coming_back_with_conflation(client: Wire, other: Wire, open_records: ServedTopic) -> None:
    """An `oof` holds what the client had received at its bookmark; records that came and went since are not sent."""
    client.send("sow", topic=open_records.name)
    bookmark = client.group()[-1]["bookmark"]
    open_records.merge(
        {"id": 1, "qty": 2},
        {"id": 2, "status": "open"},
        {"id": 1, "status": "closed"},
        {"id": 2, "status": "held"},
        {"id": 3, "status": "open"},
    )
    about: Json = {"topic": open_records.name, "sub_id": "s", "filter": "/status='open'"}
    other.send("subscribe", bookmark=bookmark, options="oof,conflation=1s", **about)
    assert interval(other) == [
        open_records.message_to("oof", ["s"], OPEN_RECORD, reason="match"),
        open_records.message_to("publish", ["s"], {"id": 3, "status": "open"}),
    ]


def test_a_key_of_conflation_with_oof(client: Wire, records: ServedTopic) -> None:
    """If each record must be sent, the conflation key must be the topic's key."""
    about: Json = {"topic": records.name, "sub_id": "s"}
    options = "conflation=1s,conflation_key=[/customer]"
    assert client.fail("subscribe", options=f"oof,{options}", **about)["reason"] == "invalid options"
    assert client.fail("delta_subscribe", options=options, **about)["reason"] == "invalid options"
    key = "oof,conflation=1s,conflation_key=[/id]"
    client.send("subscribe", options=key, ack_type="processed", **about)
    assert client.receive()["status"] == "success"
    records.write({"id": 1, "qty": 1}, {"id": 2}, {"id": 1, "qty": 2})
    assert interval(client) == [
        records.message_to("publish", ["s"], data) for data in ({"id": 1, "qty": 2}, {"id": 2})
    ]


@pytest.mark.one_node
def test_a_page_with_conflation(client: Wire, records: ServedTopic) -> None:
    """A record that leaves the window and returns is sent in its final state; one that stays out, as last sent."""
    records.write(*({"id": id, "qty": 0} for id in (2, 3, 4)))
    page: Json = {"order_by": "/id", "top_n": 2, "skip_n": 0, "options": "oof,conflation=1s"}
    client.send("sow_and_subscribe", topic=records.name, sub_id="s", **page)
    client.group()
    records.send(("publish", {"id": 1}), ("delta_publish", {"id": 2, "qty": 1}), ("sow_delete", {"id": 1}))
    assert interval(client) == [
        records.message_to("publish", ["s"], {"id": 2, "qty": 1}),
        records.message_to("publish", ["s"], {"id": 3, "qty": 0}),
    ]
    records.merge({"id": 3, "qty": 1}, {"id": 1})
    assert interval(client) == [
        records.message_to("publish", ["s"], {"id": 1}),
        records.message_to("oof", ["s"], {"id": 3, "qty": 0}, reason="match"),
    ]


def some_commands(dice: random.Random, count: int) -> list[tuple[str, Json]]:
    """Return changes of a few records that come, change, leave and go."""
    kinds = ["publish", "delta_publish", "delta_publish", "sow_delete"]
    states = ["open", "open", "held"]
    return [
        (
            dice.choice(kinds),
            {"id": dice.randrange(4), "status": dice.choice(states), "qty": dice.randrange(3)},
        )
        for _ in range(count)
    ]


def apply(view: dict[str, Json], message: Json) -> None:
    """Lay a message over what a subscriber holds."""
    key = message["sow_key"]
    if message["command"] == "oof":
        del view[key]
    else:
        view[key] = view[key] | message["data"] if "delta" in message else message["data"]


@pytest.mark.parametrize("command", ["subscribe", "delta_subscribe"])
@pytest.mark.parametrize("options", ["oof,conflation=20ms", "oof,conflation=20ms,no_empties"])
def test_from_interval_to_interval(
    client: Wire, other: Wire, records: ServedTopic, command: str, options: str
) -> None:
    """Each leads to the same records as without conflation; an `oof` has the body that was sent last."""
    dice = random.Random(new_seed())
    about: Json = {"topic": records.name, "sub_id": "s", "filter": "/status='open'"}
    other.send("subscribe", options="oof", ack_type="processed", **about)
    client.send(command, options=options, ack_type="processed", **about)
    assert [one.receive()["status"] for one in (other, client)] == ["success"] * 2
    for _ in range(20):
        records.send(*some_commands(dice, dice.choice([1, 5, 20])))
    records.write({"id": "last", "status": "open"})
    everything = deque((positions_of(m["bookmark"])[0], m) for m in other.heartbeat())
    exact: dict[str, Json] = {}
    view: dict[str, Json] = {}
    while everything:
        step = client.receive_until(lambda message: "more" not in message)
        for message in step:
            if message["command"] == "oof":
                assert message["data"] == view[message["sow_key"]]
            apply(view, message)
        position = positions_of(step[-1]["bookmark"])[0]
        while everything and everything[0][0] <= position:
            apply(exact, everything.popleft()[1])
        assert view == exact


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
