"""Conflation, of records and of deltas, rule by rule, through a raw WebSocket over a real Kafka."""

import random
from collections import deque
from collections.abc import Iterator

import pytest

from tests.integration.load import new_seed
from tests.integration.positions import positions_of
from tests.integration.served import Served, ServedTopic, live, serve, without_bookmarks
from tests.integration.wire import Json, Wire, laid_over


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One materializer and one query service for all tests here."""
    topics: dict[str, Json] = {"records": {"key": "/id"}, "spread": {"key": "/id", "partitions": 3}}
    with serve(kafka, tmp_path_factory.mktemp("conflation"), topics) as served:
        yield served


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


# deltas

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
