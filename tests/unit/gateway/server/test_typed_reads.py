"""Reads with `format=native`, over WebSockets and HTTP: clients get the records of a topic in its message type."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import orjson
import pytest
from websockets.asyncio.client import connect

from sowline.client.async_client import AsyncClient
from sowline.errors import SowlineError
from sowline.subscriptions.ask import Ask
from sowline.wire.client_message import Message
from sowline.wire.media_types import NATIVE
from sowline.wire.node_queries import NodeQuery
from sowline.wire.typed_frame import split_typed
from sowline_gateway.nodes.connections import NodeConnection
from tests.described import check_response, checked_native
from tests.unit.gateway.native import DECODERS, FRAMED, decode_avro, served
from tests.unit.gateway.rig import SECONDS_MAX, Json, Rig

pytestmark = pytest.mark.slow

services = pytest.mark.parametrize("is_gateway", [False, True], ids=["query service", "gateway"])
types = pytest.mark.parametrize("message_type", DECODERS)


def fill(made: Rig, count: int = 20) -> None:
    """Make records."""
    for number in range(1, count + 1):
        made.put({"id": number, "qty": number * 10, "note": f"é{number}"})


@pytest.fixture(autouse=True)
async def in_time() -> AsyncIterator[None]:
    """End what waits for a message that does not come."""
    async with asyncio.timeout(SECONDS_MAX * 3):
        yield


async def taken(client: AsyncClient, ask: Ask, count: int) -> list[Message]:
    """Return the first messages with records that a read gives."""
    stream = await client.open(ask)
    messages: list[Message] = []
    while len(messages) < count:
        messages += [one for one in await stream.next_batch() if one.command in ("sow", "publish", "oof")]
    await client.end(stream)
    return messages


def about(message: Message) -> dict[str, Any]:
    """Return a message but for its record."""
    fields = {name: getattr(message, name) for name in Message.__struct_fields__}
    return {name: value for name, value in fields.items() if name not in ("body", "native")}


@services
@types
async def test_a_query(message_type: str, is_gateway: bool) -> None:
    """Each record is what the library of its type reads, equal to the JSON, with the same metadata."""
    async with served(message_type, is_gateway=is_gateway) as (made, url), AsyncClient(url) as client:
        fill(made)
        given: dict[str, Any] = {"order_by": "/qty", "filter": "/qty > 50", "batch_size": 7}
        plain = [one async for one in client.sow("orders", **given)]
        native = [one async for one in client.sow("orders", options="format=native", **given)]
        records = [one for one in native if one.command == "sow"]
        assert [DECODERS[message_type](one.data) for one in records] == [
            one.data for one in plain if one.command == "sow"
        ]
        assert [about(one) for one in records] == [about(one) for one in plain if one.command == "sow"]
        assert {(one.command, one.native) for one in native} == {
            ("group_begin", False),
            ("sow", True),
            ("group_end", False),
        }
        assert native[-1].hash == plain[-1].hash


@services
@pytest.mark.parametrize("message_type", ["avro", "protobuf"])
async def test_subscriptions_of_both_kinds_on_one_connection(message_type: str, is_gateway: bool) -> None:
    """Each gets its own form of the snapshot and of each change, also of what goes out of focus."""
    async with served(message_type, is_gateway=is_gateway) as (made, url), AsyncClient(url) as client:
        fill(made, 3)
        fields: dict[str, Any] = {"filter": "/qty < 100", "batch_size": 10}
        asks = [
            Ask("sow_and_subscribe", "orders", options=options, **fields)
            for options in ("oof", "oof,format=native", "oof,format=native,timestamp")
        ]
        streams = [await client.open(ask) for ask in asks]
        got: list[list[Message]] = [[] for _ in streams]
        for messages, stream in zip(got, streams, strict=True):
            while not any(one.command == "group_end" for one in messages):
                messages.extend(await stream.next_batch())
        made.put({"id": 1, "qty": 11, "note": "new"})
        made.put({"id": 2, "qty": 200, "note": "left"})
        made.put(None, 3)
        for messages, stream in zip(got, streams, strict=True):
            while sum(one.command in ("publish", "oof") for one in messages) < 3:
                messages.extend(await stream.next_batch())
        plain, native, timed = ([one for one in some if one.body] for some in got)
        assert [one.reason for one in plain if one.command == "oof"] != []
        for some in (native, timed):
            assert sorted(map(_key, some)) == sorted(map(_key, plain))
            held = {(one.command, one.sow_key): DECODERS[message_type](one.data) for one in some}
            assert held == {(one.command, one.sow_key): one.data for one in plain}
        assert all(one.timestamp for one in timed)
        assert not any(one.native for one in plain)


def _key(message: Message) -> tuple[str, str | None, str | None]:
    return message.command, message.sow_key, message.reason


@services
@pytest.mark.parametrize("options", ["", "conflation=10ms", "rate=1000"])
async def test_changes_after_a_bookmark(options: str, is_gateway: bool) -> None:
    """A client comes back with its bookmark; whether changes are sent at once, conflated or at a rate."""
    async with served("avro", is_gateway=is_gateway) as (made, url), AsyncClient(url) as client:
        with made.patched(), made.whole.patched():
            fill(made, 3)
            bookmark = [one async for one in client.sow("orders", top_n=0)][-1].bookmark
            assert bookmark is not None
            fill(made, 6)
            chosen = ",".join(filter(None, ["format=native", options]))
            found = await taken(client, Ask("subscribe", "orders", options=chosen, bookmark=bookmark), 6)
            held = {decode_avro(one.data)["id"]: decode_avro(one.data) for one in found}
            assert held == {n: {"id": n, "qty": n * 10, "note": f"é{n}"} for n in range(1, 7)}


@services
async def test_a_page(is_gateway: bool) -> None:
    """A record that enters it, and one that leaves."""
    async with served("avro", is_gateway=is_gateway) as (made, url), AsyncClient(url) as client:
        fill(made, 5)
        ask = Ask(
            "sow_and_subscribe", "orders", options="oof,format=native", order_by="/qty", top_n=2, skip_n=1
        )
        stream = await client.open(ask)
        messages = await stream.next_batch()
        while messages[-1].command != "group_end":
            messages += await stream.next_batch()
        made.put({"id": 9, "qty": 15, "note": None})
        while sum(one.command in ("publish", "oof") for one in messages) < 2:
            messages += await stream.next_batch()
        ids = [(one.command, decode_avro(one.data)["id"]) for one in messages if one.body]
        assert ids[:2] == [("sow", 2), ("sow", 3)]
        assert set(ids[2:]) == {("publish", 9), ("oof", 3)}


@services
async def test_the_frames_on_the_wire(is_gateway: bool) -> None:
    """Messages without records are text; those with records are binary, as the protocol description has them."""
    async with served("avro", is_gateway=is_gateway) as (made, url):
        fill(made, 3)
        async with connect(f"{url.replace('http', 'ws')}/v1") as socket:
            command = {"command": "sow", "command_id": "1", "topic": "orders", "options": "format=native"}
            await socket.send(json.dumps({"command": "heartbeat", "command_id": "0"}))
            assert json.loads(await socket.recv())["command"] == "heartbeat"
            await socket.send(json.dumps(command | {"ack_type": "completed", "order_by": "/id"}))
            messages: list[Json] = []
            bodies = b""
            while not messages or messages[-1]["command"] != "ack":
                frame = await socket.recv()
                text, more = split_typed(frame) if isinstance(frame, bytes) else (frame, b"")
                parsed = orjson.loads(text)
                messages += parsed if isinstance(parsed, list) else [parsed]
                bodies += more
            for message in messages:
                checked_native(message)
            sizes = [
                record["size"] for one in messages if one["command"] == "sow" for record in one["records"]
            ]
            assert len(sizes) == 3
            assert (sum(sizes), bodies.count(FRAMED)) == (len(bodies), 3)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"command": "sow_and_delta_subscribe"}, "not supported"),
    ({"command": "delta_subscribe"}, "not supported"),
    ({"options": "format=native,select=[-/,+/id]"}, "invalid options"),
    ({"options": "format=native,grouping=[/qty],projection=[/qty]"}, "invalid options"),
    ({"options": "format=avro"}, "invalid options"),
]


@services
@pytest.mark.parametrize(("fields", "reason"), REFUSED)
async def test_what_is_refused(fields: dict[str, Any], reason: str, is_gateway: bool) -> None:
    """When the command comes, before anything is sent; also at a gateway, whose nodes never see the option."""
    given: dict[str, Any] = {"command": "sow_and_subscribe", "options": "format=native"}
    async with served("avro", is_gateway=is_gateway) as (_, url), AsyncClient(url) as client:
        with pytest.raises(SowlineError) as refused:
            await client.open(Ask(topic="orders", **given | fields))
        assert refused.value.reason == reason


@services
async def test_a_subscription_keeps_its_format(is_gateway: bool) -> None:
    """A replacement with another format is refused, one with the same format sends what differs."""
    async with served("avro", is_gateway=is_gateway) as (made, url), AsyncClient(url) as client:
        with made.patched(), made.whole.patched():
            fill(made, 3)
            ask = Ask("sow_and_subscribe", "orders", filter="/qty < 30", options="oof,format=native")
            stream = await client.open(ask)
            messages = await stream.next_batch()
            while messages[-1].command != "group_end":
                messages += await stream.next_batch()
            with pytest.raises(SowlineError, match="format=native"):
                await client.replace(stream, options="oof")
            await client.replace(stream, filter="/qty > 10")
            messages = []
            while not messages or messages[-1].command != "group_end":
                messages += await stream.next_batch()
            found = [(one.command, decode_avro(one.data)["id"]) for one in messages if one.body]
            assert found == [("oof", 1), ("sow", 3)]


async def test_nodes_send_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway writes the records itself: no command of it has the option."""
    sent: list[NodeQuery] = []
    send = NodeConnection.send

    async def noted(self: NodeConnection, request: NodeQuery) -> None:
        sent.append(request)
        await send(self, request)

    monkeypatch.setattr(NodeConnection, "send", noted)
    async with served("avro", is_gateway=True) as (made, url), AsyncClient(url) as client:
        fill(made, 3)
        options = "oof,format=native"
        assert len(await taken(client, Ask("sow", "orders", options=options), 3)) == 3
        assert len(await taken(client, Ask("sow_and_subscribe", "orders", options=options), 3)) == 3
        page = Ask("sow_and_subscribe", "orders", options=options, top_n=3, skip_n=0)
        assert len(await taken(client, page, 3)) == 3
        await client.explain("orders", options="format=native")
    assert sent
    assert not any("format" in request.options for request in sent)


@services
async def test_the_list_of_clients_has_the_option(is_gateway: bool) -> None:
    """An operator sees which format each subscription has, also at a gateway."""
    async with served("avro", is_gateway=is_gateway) as (_, url), AsyncClient(url) as client:
        await client.open(Ask("subscribe", "orders", options="oof,format=native"))
        async with httpx2.AsyncClient(base_url=url) as http:
            (listed,) = (await http.get("/v1/clients")).json()["clients"]
        assert [one["options"] for one in listed["subscriptions"]] == ["oof,format=native"]


@services
@types
async def test_records_over_http(message_type: str, is_gateway: bool) -> None:
    """A stream of records, each after its length; and one record by itself."""
    async with served(message_type, is_gateway=is_gateway) as (made, url):
        fill(made)
        hooks = {"response": [check_response]}
        async with httpx2.AsyncClient(base_url=url, event_hooks=hooks) as http:
            plain = await http.post("/v1/topics/orders/sow", json={"order_by": "/id"})
            accept = {"accept": f"text/html, {NATIVE};q=0.9"}
            answer = await http.post("/v1/topics/orders/sow", json={"order_by": "/id"}, headers=accept)
            assert answer.headers["content-type"] == NATIVE
            assert answer.headers["sowline-bookmark"] == plain.headers["sowline-bookmark"]
            decode = DECODERS[message_type]
            assert [decode(one) for one in _messages(answer.content)] == [
                json.loads(line)["data"] for line in plain.text.splitlines()
            ]
            one = await http.get("/v1/topics/orders/records/2", headers=accept)
            assert (decode(one.content), one.headers["content-type"]) == (
                {"id": 2, "qty": 20, "note": "é2"},
                NATIVE,
            )
            assert one.headers["sowline-bookmark"]
            assert (await http.get("/v1/topics/orders/records/77", headers=accept)).status_code == 404


def _messages(content: bytes) -> list[bytes]:
    """Return the messages of a stream, each after its length."""
    messages, at = [], 0
    while at < len(content):
        end = at + 4 + int.from_bytes(content[at : at + 4], "big")
        messages.append(content[at + 4 : end])
        at = end
    assert at == len(content)
    return messages


@services
async def test_what_is_refused_over_http(is_gateway: bool) -> None:
    """What a message type can't express, the option instead of the header, and event streams."""
    async with served("avro", is_gateway=is_gateway) as (_, url), httpx2.AsyncClient(base_url=url) as http:
        accept = {"accept": NATIVE}
        for fields, headers, reason in (
            ({"options": "select=[-/,+/id]"}, accept, "invalid options"),
            ({"options": "format=native"}, {}, "invalid options"),
        ):
            answer = await http.post("/v1/topics/orders/sow", json=fields, headers=headers)
            assert (answer.status_code, answer.json()["reason"]) == (400, reason)
        path = "/v1/topics/orders/subscribe"
        for stream in (
            await http.get(path, headers=accept),
            await http.get(path, params={"options": "format=native"}),
        ):
            assert (stream.status_code, stream.json()["reason"]) == (400, "invalid options")
