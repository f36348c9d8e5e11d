"""The types of messages: services send each field that they have."""

from typing import Any

from contract.message_types import ACKS, MESSAGES, TimelineMessage
from sowline_query_service.topics.state import ServedTopics
from tests.described import frames, message_name
from tests.unit.documents import Documents
from tests.unit.gateway.rig import rig
from tests.unit.query_service.sessions import Client, Json, Server, settled

GROUPS = "oof,grouping=[/g],projection=[/g,COUNT(1) AS /n]"
ELSEWHERE = {
    "AckSuccess": {"outcome", "effect", "user", "expires_in"},
    "AckStats": {"lag_seconds"},
    "GroupBegin": {"missing"},
    "GroupEnd": {"since"},
}
"""Fields that other tests see: of writes, logons with a token, the end of a log, a missing shard, and timelines."""


def fields_sent(messages: list[Json]) -> dict[str, set[str]]:
    """Return the fields of each kind of message."""
    found: dict[str, set[str]] = {}
    for message in messages:
        found.setdefault(message_name(message), set()).update(message)
    return found


async def test_every_field_of_a_message_is_sent() -> None:
    """A field that no service sends any more must leave the description."""
    messages = [
        *await of_records(),
        *await of_an_expired_bookmark(),
        *await of_documents(),
        *await of_a_gateway(),
    ]
    sent = fields_sent(messages)
    described = [
        one.__name__.removesuffix("Message") for one in (*MESSAGES, *ACKS) if one is not TimelineMessage
    ]
    unsent = {name: set(frames()["$defs"][name]["properties"]) - sent.get(name, set()) for name in described}
    assert {name: fields for name, fields in unsent.items() if fields} == ELSEWHERE


async def of_records() -> list[Json]:
    """Return what a query service sends of records, pages, and subscriptions with and without an end."""
    server = Server(more=", hash_indexes: [[/g]]")
    server.state = ServedTopics(server.topics, 1000, index_bytes_max=0)
    server.state.listen(server.dispatcher.on_changes)
    server.loaded()
    client = server.connect()
    every = "received,processed,completed,stats"
    messages: list[Any] = []
    with server.patched():
        server.put({"id": 1, "g": "a", "n": 1})
        server.put({"id": 2, "g": "a", "n": 2})
        client.ask("logon")
        client.ask("heartbeat")
        client.ask("sow", filter="/nothing = 1", options="timestamp", ack_type=every)
        client.ask("explain", filter="/n > 0")
        client.ask("sow_and_subscribe", options="oof,timestamp", sub_id="s", ack_type=every)
        client.ask("sow_and_subscribe", options=GROUPS, sub_id="groups")
        client.ask("sow_and_subscribe", options="oof,rank", top_n=1, skip_n=0, order_by="/n", sub_id="page")
        client.ask("subscribe", bookmark="epoch", up_to="now", sub_id="end", ack_type="processed")
        messages += await client.read()
        of_deltas = server.connect()
        of_deltas.ask("delta_subscribe", options="oof", filter="/g = 'a'")
        server.put({"id": 2, "n": 0}, correlation="c")
        server.put({"id": 1, "g": "a"}, correlation="c")
        messages += await client.read()
        server.put(None, key=1)
        client.ask("heartbeat", command_id="2", sub_id="s")
        messages += [*await client.read(), *await of_deltas.read()]
        client.ask("sow_and_subscribe", options="replace", filter="/n = 0", sub_id="s")
        client.ask("subscribe", topic="none", sub_id="none")
        client.ask("sow_and_subscribe", query_id="q", sub_id="ended", batch_size=1)
        client.ask("unsubscribe", query_id="q")
        messages += await client.read()
        await close(client, of_deltas)
    return messages


async def of_an_expired_bookmark() -> list[Json]:
    """Return what a query service sends where changes are gone."""
    server = Server(ring=1).loaded()
    with server.patched():
        for number in range(3):
            server.put({"id": number})
        del server.written[0][:2]
        client = server.connect()
        client.ask("sow_and_subscribe", options="reset", bookmark="orders:0@0")
        client.ask("sow", filter="/nothing = 1")
        messages = await client.read()
        await close(client)
    return messages


async def of_documents() -> list[Json]:
    """Return what a query service sends of documents with intrinsics."""
    server = Documents()
    client = server.connect()
    server.delta("a", '{"n":1}', tags="x")
    client.ask("sow_and_subscribe", options="oof,intrinsics", filter="/n = 1")
    messages = await client.read()
    server.delta("a", '{..,"n":1,"m":1}')
    server.delta("a", '{..,"n":2}')
    messages += await client.read()
    await close(client)
    return messages


async def close(*clients: Client) -> None:
    """End all that clients have asked for, while what stands in for Kafka is there."""
    for client in clients:
        client.session.close()
    await settled()


async def of_a_gateway() -> list[Json]:
    """Return what a gateway sends of a query and its explanation."""
    async with rig(["0/2", "1/2"]) as made:
        made.put({"id": 1})
        client = made.client()
        found = await client.ask("explain", ack_type="processed,completed")
        return [*found, *await client.ask("sow")]
