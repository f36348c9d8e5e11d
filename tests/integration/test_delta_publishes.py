"""Deltas that are published, and what becomes of their records, through a raw WebSocket over a real Kafka."""

import threading
from collections.abc import Iterator

import pytest

from tests.integration.served import Served, ServedTopic, live, query, serve
from tests.integration.services import http_text
from tests.integration.wire import Json, Wire, wire


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One materializer and one query service for all tests here."""
    topics: dict[str, Json] = {"records": {"key": "/id"}, "systems": {"key": "/systemId"}}
    with serve(kafka, tmp_path_factory.mktemp("publishes"), topics) as served:
        yield served


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
