"""Programs of users, for mypy and pyright alone: nothing in this directory runs. Here: what the clients return.

Each `assert_type` names what a public method or function returns: what the user's editor shows.
`tests/docs/test_typing.py` finds the methods that have none.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Any, assert_type

import pyarrow as pa

from sowline import Ask, AsyncClient, AsyncLocalView, Client, LocalView, Message, Publisher, SowlineError
from sowline.client.messages import Messages
from sowline.client.stream import Stream
from sowline.client.write_failures import FlushAttempt
from sowline.client.writing import Written


def reads(client: Client) -> None:
    """What each query and subscription yields."""
    assert_type(client.sow("orders", filter="/qty > 100", top_n=10), Messages)
    assert_type(client.subscribe("orders", bookmark="epoch"), Messages)
    assert_type(client.sow_and_subscribe("orders", options="oof"), Messages)
    assert_type(client.delta_subscribe("orders"), Messages)
    assert_type(client.sow_and_delta_subscribe("orders"), Messages)
    assert_type(client.records("orders", at_least=client.effect), Iterator[dict[str, Any]])
    assert_type(client.table("orders", columns={"/id": "int64", "/qty": None}), pa.Table)
    assert_type(client.record("orders", 1), dict[str, Any])
    assert_type(client.timeline("orders", "1", limit=10), dict[str, Any])
    assert_type(client.explain("orders", filter="/qty > 100"), dict[str, Any])
    assert_type(client.topics(), dict[str, Any])
    assert_type(client.local_view("orders", on_insert=print), LocalView)
    assert_type(client.effect, str)
    assert_type(client.rights, str | None)
    with client as same:
        assert_type(same, Client)


def writes(client: Client) -> None:
    """What each write returns."""
    assert_type(client.publish("orders", {"id": 1}, wait=True), str | None)
    assert_type(client.delta_publish("orders", b'{"id": 1}', fields=["/qty"]), str | None)
    assert_type(client.publish_all("orders", [{"id": 1}, '{"id": 2}']), Written)
    assert_type(client.delta("reviews", "1", "{..}", wait=True), str | None)
    assert_type(client.deltas("reviews", "1", "{..}"), list[str])
    assert_type(client.sow_delete("orders", filter="1=1"), int)
    assert_type(client.publish_all("orders", []).outcomes, dict[str, int])


def messages(stream: Messages, message: Message, error: SowlineError) -> None:
    """What a message has."""
    for one in stream:
        assert_type(one, Message)
    assert_type(message.command, str)
    assert_type(message.sow_key, str | None)
    assert_type(message.body, bytes)
    assert_type(message.data, Any)
    assert_type(message.is_silent, bool)
    assert_type(message.missing, dict[str, tuple[int, ...]])
    assert_type(stream.bookmark, str | None)
    assert_type(error.reason, str)
    assert_type(error.message, str)


async def reads_with_asyncio(client: AsyncClient, ask: Ask) -> None:
    """The same of the asynchronous client."""
    assert_type(client.sow("orders"), AsyncIterator[Message])
    assert_type(client.subscribe("orders"), AsyncIterator[Message])
    assert_type(client.sow_and_subscribe("orders"), AsyncIterator[Message])
    assert_type(client.delta_subscribe("orders"), AsyncIterator[Message])
    assert_type(client.sow_and_delta_subscribe("orders"), AsyncIterator[Message])
    assert_type(client.records("orders"), AsyncIterator[dict[str, Any]])
    assert_type(await client.table("orders", columns=["/id"]), pa.Table)
    assert_type(await client.record("orders", 1), dict[str, Any])
    assert_type(await client.timeline("orders", "1"), dict[str, Any])
    assert_type(await client.explain("orders"), dict[str, Any])
    assert_type(await client.topics(), dict[str, Any])
    assert_type(client.local_view("orders"), AsyncLocalView)
    assert_type(await client.open(ask), Stream)
    assert_type(client.effect, str)
    assert_type(client.rights, str | None)
    async with client as same:
        assert_type(same, AsyncClient)


async def writes_with_asyncio(client: AsyncClient) -> None:
    """The same of the asynchronous client."""
    assert_type(await client.publish("orders", {"id": 1}), str | None)
    assert_type(await client.delta_publish("orders", {"id": 1}), str | None)
    assert_type(await client.publish_all("orders", [{"id": 1}]), Written)
    assert_type(await client.delta("reviews", "1", "{..}"), str | None)
    assert_type(await client.deltas("reviews", "1", "{..}"), list[str])
    assert_type(await client.sow_delete("orders", keys=["1"]), int)
    assert_type(await client.publisher("orders"), Publisher)


def flushes(publisher: Publisher) -> None:
    """A flush whose caller may give up."""
    assert_type(publisher.begin_flush(), FlushAttempt)


async def streams(stream: Stream) -> None:
    """What a stream gives its caller."""
    async for message in stream:
        assert_type(message, Message)
    assert_type(await stream.next_batch(), list[Message])
    assert_type(stream.bookmark, str | None)
    assert_type(stream.ask, Ask)
