"""Subscriptions that are not sent the writes that change nothing."""

import pytest

from sowline.model.position import Position
from tests.property.clock import clock, on_clock
from tests.unit.documents import Documents
from tests.unit.query_service.query.document_answers import received, server, shown
from tests.unit.query_service.sessions import Json, settled

__all__ = ["server"]


@pytest.mark.parametrize("options", ["", "oof", "conflation=1ms", "oof,intrinsics"])
@pytest.mark.parametrize("command", ["subscribe", "delta_subscribe"])
@on_clock
async def test_redundant_writes_are_not_sent_to_those_who_say_so(
    server: Documents, command: str, options: str
) -> None:
    """Others are told of each write; a write that changes the tags is not redundant."""
    server.delta("a", '{"n":1}')
    every, some = server.connect(), server.connect()
    every.ask(command, options=options, filter="/n > 0")
    some.ask(command, options=f"no_redundant,{options}", filter="/n > 0")
    await settled()
    for text, tags, count in (
        ("..", {}, 0),
        ('{"n":1}', {}, 0),
        ("..", {"tags": "t"}, 1),
        ('{"n":2}', {"tags": "t"}, 1),
        ('if {"n":9} then ~ end', {"tags": "t"}, 0),
    ):
        server.delta("a", text, **tags)
        await clock().tick(1)
        assert [len(received(await client.read())) for client in (every, some)] == [1, count]
    assert server.topic.positions == {0: Position(0, 5)}
    assert [status.behind_positions for status in some.session.commands.subscription_statuses()] == [0]


@pytest.mark.parametrize("command", ["subscribe", "delta_subscribe"])
@pytest.mark.parametrize("option", ["no_redundant", "no_redundant,oof"])
@pytest.mark.parametrize("bookmark", [None, "orders:0@1"])
async def test_a_redundant_write_that_moves_a_document_is_sent(
    server: Documents, command: str, option: str, bookmark: str | None
) -> None:
    """Into focus or out of it: what the client holds stays true, live and on the way there."""
    server.delta("a", '{"n":1}')
    signature = server.delta("b", '{"n":2}').writes
    assert signature is not None
    again = 'intrinsic("~lastUpdateAt":ge("1970-01-01T00:00:30"))'
    client = server.connect()
    if bookmark is None:
        client.ask(command, options=option, condition=again)
        await settled()
    server.delta("b", "..")
    server.delta("b", "..")
    server.delta("b", "..")
    server.delta("b", '{"n":3}')
    if bookmark is not None:
        client.ask(command, options=option, condition=again, bookmark=bookmark)
    messages = await client.read()
    assert [m["data"] for m in messages] == [{"n": 2}, {"n": 3}]
    assert [m.get("delta", False) for m in messages] == [False, command == "delta_subscribe"]


async def test_pages_and_groups_without_redundant_writes(server: Documents) -> None:
    """Steps have only what differs; so has the difference that a client is told who comes back."""
    for number in range(3):
        server.delta(f"k{number}", f'{{"n":{number},"g":{number % 2}}}')
    asked: list[Json] = [
        {"options": "oof,no_redundant", "order_by": "/n", "top_n": 2, "skip_n": 0},
        {"options": "oof,no_redundant,grouping=[/g],projection=[/g,COUNT(/n) AS /count]"},
        {
            "options": "oof,no_redundant,grouping=[/g],projection=[/g,COUNT(/n) AS /count]",
            "top_n": 5,
            "skip_n": 0,
        },
        {"options": "oof,no_redundant,grouping=[/g],projection=[/g,/n]"},
    ]
    clients = [server.connect() for _ in asked]
    for client, fields in zip(clients, asked, strict=True):
        client.ask("sow_and_subscribe", **fields)
        assert shown(await client.read())
    server.delta("k0", "..")
    assert [len(await client.read()) for client in clients] == [0, 0, 0, 1]
    server.delta("k0", '{..,"n":0.5}')
    assert [len(await client.read()) for client in clients] == [1, 1, 1, 1]
    server.delta("k1", "..")
    server.delta("k0", "..")
    again = server.connect()
    again.ask("sow_and_subscribe", bookmark="orders:0@4", **asked[0])
    again.ask("sow_and_subscribe", bookmark="orders:0@2", sub_id="2", **asked[0])
    assert [(m["sids"], m["data"]) for m in await again.read()] == [(["2"], {"n": 0.5, "g": 0})]


async def test_a_filter_without_redundant_writes_is_one_that_is_sent_before(server: Documents) -> None:
    """Else what stays in focus could not be told."""
    client = server.connect()
    client.ask("subscribe", options="no_redundant", filter="LAST_UPDATED() > 0")
    assert [m["reason"] for m in await client.read()] == ["bad filter"]
