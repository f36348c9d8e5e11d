"""Messages that several subscriptions of one connection share, through a raw WebSocket over a real Kafka."""

import copy
import json
import random
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from sowline.wire.options import parse_options
from tests.integration.load import new_seed
from tests.integration.served import Served, ServedTopic, live, serve, without_bookmarks
from tests.integration.test_change_deltas import merge_into
from tests.integration.test_delta_chapter import ORDERS, PENDING
from tests.integration.wire import Json, Wire, wire


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One materializer and one query service for all tests here."""
    topics = {"orders": {"key": "/order"}, "records": {"key": "/id"}}
    with serve(kafka, tmp_path_factory.mktemp("shared"), topics) as served:
        yield served


@pytest.fixture
def orders(served: Served) -> ServedTopic:
    """A topic of three orders, keyed by `order`."""
    topic = served["orders"]
    topic.clear()
    topic.write(*ORDERS)
    return topic


# who is named, and what is told


@pytest.mark.parametrize("first", ["subscribe", "delta_subscribe"])
def test_whole_wins(client: Wire, other: Wire, orders: ServedTopic, first: str) -> None:
    """A connection gets one message: if one of its subscriptions needs the whole order, all get it whole."""
    second = {"subscribe": "delta_subscribe", "delta_subscribe": "subscribe"}[first]
    client.send(first, topic=orders.name, sub_id=first)
    client.send(second, topic=orders.name, sub_id=second)
    other.send("delta_subscribe", topic=orders.name, sub_id="alone")
    assert client.heartbeat() == other.heartbeat() == []
    orders.write(PENDING)
    assert live(client) == [orders.message_to("publish", [first, second], PENDING)]
    assert live(other) == [
        orders.message_to("publish", ["alone"], {"order": 3, "status": "pending"}, delta=True)
    ]
    client.send("unsubscribe", sub_id="subscribe")
    assert client.heartbeat() == [], "it has ended before anything else is written"
    orders.merge({"order": 3, "qty": 900})
    assert live(client) == [
        orders.message_to("publish", ["delta_subscribe"], {"order": 3, "qty": 900}, delta=True)
    ]


def test_select_lists_come_together(client: Wire, orders: ServedTopic) -> None:
    """Deltas with different select lists are one delta of all their fields, with all that went."""
    for sub_id, select in (("b", "[-/,+/order,+/status]"), ("a", "[-/,+/order,+/qty]")):
        client.send("delta_subscribe", topic=orders.name, sub_id=sub_id, options=f"select={select}")
    assert client.heartbeat() == []
    orders.merge({"order": 3, "status": "pending", "qty": 900, "ticker": "IBM"})
    orders.merge({"order": 3, "qty": 800})
    orders.write({"order": 3, "customer": "Smith"})
    *first, last = live(client)
    assert first == [
        orders.message_to("publish", ["b", "a"], {"order": 3, "status": "pending", "qty": 900}, delta=True),
        orders.message_to("publish", ["b", "a"], {"order": 3, "qty": 800}, delta=True),
    ]
    assert sorted(last["removed"]) == ["/qty", "/status"]
    removed = last["removed"]
    assert last == orders.message_to("publish", ["b", "a"], {"order": 3}, delta=True, removed=removed)


def test_select_lists_within_each_other(client: Wire, orders: ServedTopic) -> None:
    """What one list leaves out and another sends is sent; what both leave out is not."""
    selects = {"a": "[-/note,-/about]", "b": "[-/,+/order,+/about/desk]"}
    for sub_id, select in selects.items():
        client.send("subscribe", topic=orders.name, sub_id=sub_id, options=f"select={select}")
    assert client.heartbeat() == []
    orders.write(PENDING | {"note": "none", "about": {"desk": "NY", "by": "jcarlo"}})
    assert live(client) == [orders.message_to("publish", ["a", "b"], PENDING | {"about": {"desk": "NY"}})]


def test_a_whole_record_has_the_fields_of_all(client: Wire, orders: ServedTopic) -> None:
    """Where one needs a part of the record whole and another a delta, both get all that either selects, whole."""
    client.send("subscribe", topic=orders.name, sub_id="full", options="select=[-/,+/order,+/qty]")
    client.send("delta_subscribe", topic=orders.name, sub_id="delta", options="select=[-/,+/order,+/status]")
    assert client.heartbeat() == []
    orders.merge({"order": 3, "ticker": "IBM"})
    assert live(client) == [
        orders.message_to("publish", ["full", "delta"], {"order": 3, "status": "new", "qty": 1000})
    ]


def test_different_filters(client: Wire, orders: ServedTopic) -> None:
    """A message names the subscriptions that match; to whom the order is new it is whole, and so for all."""
    filters = {"customer": "/customer = 'Patrick'", "pending": "/status = 'pending'", "small": "/qty < 10"}
    for sub_id, filter in filters.items():
        client.send("delta_subscribe", topic=orders.name, sub_id=sub_id, filter=filter, options="oof")
    assert client.heartbeat() == []
    orders.merge({"order": 3, "qty": 900})
    orders.merge({"order": 3, "status": "pending"})
    orders.merge({"order": 3, "qty": 800})
    orders.merge({"order": 3, "status": "done"})
    messages = client.heartbeat()
    assert without_bookmarks(messages[:3]) == [
        orders.message_to("publish", ["customer"], {"order": 3, "qty": 900}, delta=True),
        orders.message_to("publish", ["customer", "pending"], PENDING | {"qty": 900}),
        orders.message_to("publish", ["customer", "pending"], {"order": 3, "qty": 800}, delta=True),
    ]
    done = PENDING | {"qty": 800, "status": "done"}
    publish, oof = sorted(messages[3:], key=lambda message: -len(message["command"]))
    assert without_bookmarks([publish, oof]) == [
        orders.message_to("publish", ["customer"], {"order": 3, "status": "done"}, delta=True),
        orders.message_to("oof", ["pending"], done, reason="match"),
    ]
    assert publish["bookmark"] == oof["bookmark"]


def test_oof_to_several(client: Wire, orders: ServedTopic) -> None:
    """A message out of focus is one, too, for all whose order it was; its fields are those of all."""
    for command, sub_id, filter, select in (
        ("subscribe", "regular", "/status = 'new'", "[-/,+/order,+/status]"),
        ("delta_subscribe", "delta", "/customer = 'Patrick' AND /status = 'new'", "[-/,+/order,+/qty]"),
        ("subscribe", "neither", "/ticker = 'SUNW'", "[-/,+/ticker]"),
    ):
        options = f"oof,select={select}"
        client.send(command, topic=orders.name, sub_id=sub_id, filter=filter, options=options)
    assert client.heartbeat() == []
    orders.write(PENDING)
    orders.delete({"order": 1})
    assert live(client) == [
        orders.message_to(
            "oof",
            ["regular", "delta"],
            {"order": 3, "status": "pending", "qty": 1000},
            reason="match",
        ),
        orders.message_to(
            "oof", ["regular", "delta"], {"order": 1, "status": "new", "qty": 1000}, reason="deleted"
        ),
    ]


def test_no_empties_among_others(client: Wire, orders: ServedTopic) -> None:
    """A subscription that wants no empty delta is named only where its own fields have changed."""
    client.send(
        "delta_subscribe",
        topic=orders.name,
        sub_id="quiet",
        options="no_empties,select=[-/,+/order,+/status]",
    )
    client.send("delta_subscribe", topic=orders.name, sub_id="all")
    assert client.heartbeat() == []
    orders.merge({"order": 3, "qty": 900})
    orders.merge({"order": 3, "status": "pending"})
    assert live(client) == [
        orders.message_to("publish", ["all"], {"order": 3, "qty": 900}, delta=True),
        orders.message_to("publish", ["quiet", "all"], {"order": 3, "status": "pending"}, delta=True),
    ]


def test_key_and_time_for_one_of_them(client: Wire, orders: ServedTopic) -> None:
    """The SOW key and the timestamp are in the message if one of its subscriptions wants them."""
    for sub_id, options in (("a", "no_sowkey"), ("b", "no_sowkey,timestamp")):
        client.send("delta_subscribe", topic=orders.name, sub_id=sub_id, options=options)
    assert client.heartbeat() == []
    orders.merge({"order": 3, "qty": 900})
    client.send("delta_subscribe", topic=orders.name, sub_id="c")
    (without,) = live(client)
    orders.merge({"order": 3, "qty": 800})
    (with_key,) = live(client)
    assert without.pop("timestamp") <= with_key.pop("timestamp")
    assert without == orders.message_to(
        "publish", ["a", "b"], {"order": 3, "qty": 900}, delta=True, sow_key=None
    )
    assert with_key == orders.message_to("publish", ["a", "b", "c"], {"order": 3, "qty": 800}, delta=True)


# deltas of different select lists


NEW_YORK: Json = {"desk": "NY", "by": "jcarlo"}


@pytest.mark.parametrize(
    ("select", "before", "now", "delta", "removed"),
    [
        ("[-/note]", {"qty": 1, "note": "a"}, {"qty": 2, "note": "b"}, {"qty": 2, "note": "b"}, []),
        (
            "[-/at/by]",
            {"at": NEW_YORK},
            {"at": {"desk": "LN", "by": "sue"}},
            {"at": {"desk": "LN", "by": "sue"}},
            [],
        ),
        ("[-/at/by]", {"at": NEW_YORK}, {"at": {"desk": "NY"}}, {}, ["/at/by"]),
        ("[-/at/by]", {"at": NEW_YORK}, {"at": 7}, {"at": 7}, []),
        ("[-/at/by]", {"at": 7}, {"at": NEW_YORK}, {"at": NEW_YORK}, []),
        ("[-/at/by]", {"at": {"desk": "NY"}}, {"at": {}}, {}, ["/at/desk"]),
        ("[-/at/by]", {"at": NEW_YORK}, {}, {}, ["/at"]),
        ("[-/at]", {"at": {"desk": "NY"}}, {"at": {}}, {}, ["/at/desk"]),
        ("[-/,+/id,+/at/by]", {"at": {"desk": "NY"}}, {"at": 7}, {"at": 7}, []),
    ],
    ids=[
        "fields",
        "fields in an object",
        "a field that one has not",
        "object to value",
        "value to object",
        "object that becomes empty for both",
        "object that goes",
        "object that one has not",
        "object of which one has nothing",
    ],
)
def test_a_delta_that_tells_each_enough(
    client: Wire, records: ServedTopic, select: str, before: Json, now: Json, delta: Json, removed: list[str]
) -> None:
    """Is one delta for all, with whatever any of them selects."""
    records.write({"id": 1} | before)
    for sub_id, options in (("some", f"select={select}"), ("every", "")):
        client.send("delta_subscribe", topic=records.name, sub_id=sub_id, options=options)
    assert client.heartbeat() == []
    records.write({"id": 1} | now)
    gone = {"removed": removed} if removed else {}
    assert live(client) == [
        records.message_to("publish", ["some", "every"], {"id": 1} | delta, delta=True, **gone)
    ]


@pytest.mark.parametrize(
    ("select", "before", "now"),
    [
        ("[-/at/by]", {"at": 7}, {"at": {"by": "jcarlo"}}),
        ("[-/at/by]", {"at": NEW_YORK}, {"at": {"by": "jcarlo"}}),
        ("[-/at/by]", {"at": {"by": "jcarlo"}}, {"at": {}}),
        ("[-/,+/id,+/at/by]", {"at": NEW_YORK}, {"at": 7}),
        ("[-/,+/id,+/at/by]", {"at": NEW_YORK}, {"at": {}}),
    ],
    ids=[
        "value to object of which one has nothing",
        "object of which one has nothing more",
        "object that becomes empty for one",
        "object to value that one has not",
        "empty object that one has not",
    ],
)
def test_a_delta_that_does_not(
    client: Wire, other: Wire, records: ServedTopic, served: Served, select: str, before: Json, now: Json
) -> None:
    """All get the whole record, though each alone would get a delta; the next message may be a delta again."""
    records.write({"id": 1} | before)
    with wire(served.query.url) as third:
        asked = (
            ("some", f"select={select}", (client, other)),
            ("every", "", (client, third)),
        )
        for sub_id, options, wires in asked:
            for one in wires:
                one.send("delta_subscribe", topic=records.name, sub_id=sub_id, options=options)
        assert client.heartbeat() == other.heartbeat() == third.heartbeat() == []
        records.write({"id": 1} | now)
        assert live(client) == [records.message_to("publish", ["some", "every"], {"id": 1} | now)]
        assert [message["delta"] for one in (other, third) for message in live(one)] == [True, True]
    records.merge({"id": 1, "qty": 5})
    (message,) = live(client)
    assert message["data"] == {"id": 1, "qty": 5}
    assert (message["sids"], message["delta"]) == (["some", "every"], True)


# any subscriptions, any changes


SELECTS = (
    "",
    "select=[-/,+/id,+/a]",
    "select=[-/,+/id,+/b/c]",
    "select=[-/b]",
    "select=[-/b/c,-/a]",
    "select=[-/,+/b/c,+/b/d]",
    "select=[-/b/c/x]",
    "select=[-/,+/id,+/b/c/x,+/b/d/y]",
    "select=[-/b,+/b/d]",
)


def some_subscription(dice: random.Random, topic: str, command: str) -> Json:
    """Return a subscription as it may be asked for."""
    words = [word for word in ("oof", "no_empties", "timestamp") if dice.random() < 0.4]
    return {
        "command": command,
        "topic": topic,
        "filter": dice.choice(["", "", "/a > 1", "/b/c = 1", "/e IS NOT NULL"]),
        "options": ",".join([*words, dice.choice(SELECTS)]),
    }


def some_command(dice: random.Random) -> tuple[str, Json]:
    """Return a change of one of a few records."""
    values: Json = {name: dice.randrange(4) for name in "ae" if dice.random() < 0.6}
    if dice.random() < 0.8:
        values["b"] = some_value(dice, ["cd", "xy"])
    kinds = ["publish", "delta_publish", "delta_publish", "sow_delete"]
    return dice.choices(kinds, [4, 4, 4, 1])[0], {"id": dice.randrange(3)} | values


def some_value(dice: random.Random, levels: list[str]) -> object:
    """Return a value, or an object that has the names of the first level or none of them, or an array of some."""
    if not levels or dice.random() < 0.3:
        return dice.choice([0, 1, None, [], [1, 0]])
    names, *below = levels
    found = {name: some_value(dice, below) for name in names if dice.random() < 0.5}
    return [found, dice.randrange(2)] if dice.random() < 0.1 else found


def event(message: Json) -> tuple[str, ...]:
    """Return what messages about one change have in common, however they are shared."""
    return message["sow_key"], message["bookmark"], message["command"], message.get("reason", "")


def views(messages: list[Json], options: str) -> list[Json]:
    """Return the record after each message, as a client holds it that keeps of each only what it selected."""
    select = parse_options(options).select
    held: dict[str, Json] = {}
    found: list[Json] = []
    for message in messages:
        view = message["data"]
        if select is not None:
            view = json.loads(select.apply(json.dumps(view).encode()))
        if "delta" in message:
            delta, view = view, copy.deepcopy(held[message["sow_key"]])
            merge_into(view, delta)
            for path in message.get("removed", ()):
                take_out(view, path.split("/")[1:])
        held[message["sow_key"]] = view
        found.append(view)
    return found


def take_out(record: Json, names: list[str]) -> None:
    """Take a field out of a record, if that has it."""
    *above, last = names
    for name in above:
        record = record.get(name, {})
    record.pop(last, None)


def touches(message: Json, name: str) -> bool:
    """Whether a delta says anything of a field."""
    return name in message["data"] or any(path.split("/")[1] == name for path in message.get("removed", ()))


def sent_alone_and_together(
    served: Served, records: ServedTopic, asked: dict[str, Json], commands: list[tuple[str, Json]]
) -> tuple[dict[str, list[Json]], list[Json]]:
    """Return what each subscription gets on its own connection, and what all of them get on one."""
    with ExitStack() as stack:
        together, *apart = [stack.enter_context(wire(served.query.url)) for _ in range(len(asked) + 1)]
        for (sub_id, fields), alone in zip(asked.items(), apart, strict=True):
            together.send(sub_id=sub_id, **fields)
            alone.send(sub_id=sub_id, **fields)
        assert [message for one in (together, *apart) for message in one.heartbeat()] == []
        records.send(*commands)
        single = {sub_id: alone.heartbeat() for sub_id, alone in zip(asked, apart, strict=True)}
        return single, together.heartbeat()


@pytest.mark.parametrize("wholes", [0, 4], ids=["deltas", "wholes and deltas"])
def test_sharing_keeps_nothing_from_anybody(records: ServedTopic, served: Served, wholes: int) -> None:
    """Subscriptions of one connection get the same changes as alone, with the same content."""
    dice = random.Random(new_seed())
    kinds = ["subscribe"] * wholes + ["delta_subscribe"] * 5
    asked = {f"s{n}": some_subscription(dice, records.name, kind) for n, kind in enumerate(kinds)}
    commands = [some_command(dice) for _ in range(300)]
    single, shared = sent_alone_and_together(served, records, asked, commands)
    assert len({event(message) for message in shared}) == len(shared)
    assert {event(message) for message in shared} == {event(one) for sent in single.values() for one in sent}
    for sub_id, messages in single.items():
        own = [message for message in shared if sub_id in message["sids"]]
        options = asked[sub_id]["options"]
        assert [event(message) for message in own] == [event(message) for message in messages], options
        assert views(own, options) == views(messages, options), options
    for message in shared:
        check_form(
            message, [one for sid in message["sids"] for one in single[sid] if event(one) == event(message)]
        )


def check_form(message: Json, alone: list[Json]) -> None:
    """Check a message, given what each of its subscriptions gets alone."""
    assert ("timestamp" in message) == any("timestamp" in one for one in alone)
    are_deltas = all("delta" in one for one in alone)
    assert are_deltas or "delta" not in message, "whole for one is whole for all"
    if are_deltas and not any(touches(one, "b") for one in alone):
        assert "delta" in message, "what tells each of them enough is a delta"
