"""Intrinsics: what is known of a document beside its content, in results and live messages."""

import pytest

from tests.property.clock import clock, on_clock
from tests.unit.documents import Documents
from tests.unit.query_service.query.document_answers import server
from tests.unit.query_service.sessions import Json, Server, settled

__all__ = ["server"]


def account(message: Json) -> Json:
    """Return the version of a document in a message, whether it is gone, and its tags."""
    known = message["intrinsics"]
    return {
        "version": known["~version"],
        **({"deleted": True} if known["~deleted"] else {}),
        **({"tags": known["~tags"]} if "~tags" in known else {}),
    }


def accounts(messages: list[Json]) -> list[tuple[str, Json]]:
    """Return of each record and live message its command, and what it says beside the content."""
    return [
        (message["command"], account(one))
        for message in messages
        if message["command"] in ("sow", "publish", "oof")
        for one in message.get("records", [message])
    ]


async def test_intrinsics_lie_next_to_the_data(server: Documents) -> None:
    """All of them; who does not ask for them gets none."""
    writes = server.delta("a", '{"n":1}', tags="y,x").writes
    assert writes is not None
    client = server.connect()
    client.ask("sow", options="intrinsics,timestamp", query_id="1")
    client.ask("sow", query_id="2")
    with_intrinsics, without = (m["records"][0] for m in await client.read() if m["command"] == "sow")
    moment = "1970-01-01T00:00:00.000Z"
    assert with_intrinsics["intrinsics"] == {
        "~id": "a",
        "~table": "orders",
        "~version": 1,
        "~signature": writes.signature,
        "~deleted": False,
        "~firstUpdateAt": moment,
        "~lastUpdateAt": moment,
        "~lastMutateAt": moment,
        "~tags": ["x", "y"],
    }
    assert (with_intrinsics["data"], without.keys()) == ({"n": 1}, {"sow_key", "updated_at", "data"})


@pytest.mark.parametrize("more", ["", ",no_empties", ",conflation=1ms"])
@pytest.mark.parametrize("command", ["sow_and_subscribe", "sow_and_delta_subscribe"])
@on_clock
async def test_a_subscription_is_sent_what_becomes_of_intrinsics(
    server: Documents, command: str, more: str
) -> None:
    """Also by writes that change nothing else, of what leaves and of what is deleted; deltas and outcomes alike."""
    server.delta("a", '{"n":1}', tags="t")
    client = server.connect()
    client.ask(command, filter="/n > 0", options=f"oof,intrinsics{more}")
    assert accounts(await client.read()) == [("sow", {"version": 1, "tags": ["t"]})]
    expected = [
        ("..", ("publish", {"version": 2})),
        ('{..,"m":1}', ("publish", {"version": 3})),
        ('{..,"n":0}', ("oof", {"version": 4})),
        ('{..,"n":2}', ("publish", {"version": 5})),
        ("~", ("oof", {"version": 6, "deleted": True})),
    ]
    for text, expected_account in expected:
        server.delta("a", text)
        await clock().tick(1)
        assert accounts(await client.read()) == [expected_account]


async def test_pages_tell_intrinsics(server: Documents) -> None:
    """Of what is in the window at first, of what enters it and leaves it, and of what changed meanwhile."""
    for number in range(3):
        server.delta(f"k{number}", f'{{"n":{number}}}')
    client = server.connect()
    window: Json = {"options": "oof,intrinsics", "order_by": "/n", "top_n": 2, "skip_n": 0}
    client.ask("sow_and_subscribe", **window)
    assert accounts(await client.read()) == [("sow", {"version": 1})] * 2
    server.delta("k0", "..")
    server.delta("k0", '{"n":5}')
    server.delta("k1", "~")
    assert accounts(await client.read()) == [
        ("publish", {"version": 2}),
        ("oof", {"version": 3}),
        ("publish", {"version": 1}),
        ("oof", {"version": 2, "deleted": True}),
        ("publish", {"version": 3}),
    ]
    again = server.connect()
    again.ask("sow_and_subscribe", bookmark="orders:0@2", **window)
    assert sorted(accounts(await again.read()), key=str) == [
        ("oof", {"version": 2, "deleted": True}),
        ("publish", {"version": 1}),
        ("publish", {"version": 3}),
    ]


async def test_a_replacement_tells_intrinsics(server: Documents) -> None:
    """Of what leaves; and where they were not asked for before, of all that stays."""
    for number in range(3):
        server.delta(f"k{number}", f'{{"n":{number}}}')
    client = server.connect()
    client.ask("sow_and_subscribe", filter="/n < 2", sub_id="s", options="oof")
    await client.read()
    server.delta("k0", '{"n":7}')
    await client.read()
    client.ask("sow_and_subscribe", filter="/n = 1", sub_id="s", options="oof,replace,intrinsics")
    assert accounts(await client.read()) == [("sow", {"version": 1})]
    client.ask("sow_and_subscribe", filter="/n = 2", sub_id="s", options="oof,replace,intrinsics")
    assert accounts(await client.read()) == [("oof", {"version": 1}), ("sow", {"version": 1})]


async def test_the_past_has_its_intrinsics() -> None:
    """What was known of a document then, also where its content stayed."""
    server = Documents(more=", history: {window: 1h}")
    with server.patched():
        server.delta("a", '{"n":1}', tags="old")
        server.delta("a", "..", tags="new")
        server.delta("a", "~")
        client = server.connect()
        for second in ("05", "15"):
            client.ask("sow", options="intrinsics", bookmark=f"19700101T0000{second}Z", query_id=second)
        assert accounts(await client.read()) == [
            ("sow", {"version": 1, "tags": ["old"]}),
            ("sow", {"version": 2, "tags": ["new"]}),
        ]


async def test_what_only_documents_have_is_refused_elsewhere() -> None:
    """Over one topic without documents, and of groups."""
    server = Server().loaded()
    client = server.connect()
    for command in ("sow", "subscribe", "sow_and_delta_subscribe", "explain"):
        for option in ("intrinsics", "no_redundant"):
            client.ask(command, options=option)
            (answer,) = await client.read()
            assert answer["reason"] == "no documents"
    client.ask("sow", options="intrinsics,grouping=[/a],projection=[/a]")
    assert [m["reason"] for m in await client.read()] == ["invalid options"]


async def test_a_shared_message_has_what_one_of_them_asks_for(server: Documents) -> None:
    """It is sent once."""
    client = server.connect()
    client.ask("subscribe", sub_id="a", options="intrinsics")
    client.ask("subscribe", sub_id="b")
    await settled()
    server.delta("a", "{}")
    (message,) = await client.read()
    assert (message["sids"], account(message)) == (["a", "b"], {"version": 1})
