"""Conditions over documents: which of them are shown and told, now, live and in the past."""

from typing import Any

import pytest

from sowline.language.emodb import compile_condition
from tests.unit.documents import Documents
from tests.unit.query_service.query.document_answers import received, server, shown, tagged
from tests.unit.query_service.sessions import Client, Json, Server, settled, view_of

__all__ = ["server"]


async def records(server: Server, **asked: Any) -> list[Json]:
    """Return the records that a query finds, by SOW key."""
    client = server.connect()
    client.ask("sow", top_n=1000, **asked)
    return shown(await client.read())


async def test_a_condition_goes_together_with_a_filter(server: Documents) -> None:
    """Both have to hold; blanks alone are no condition."""
    for number in range(4):
        server.delta(f"k{number}", f'{{"n":{number},"half":{number / 2}}}')
    assert sorted(of["n"] for of in await records(server, condition='{..,"n":ge(2)}')) == [2, 3]
    assert [of["n"] for of in await records(server, condition='{..,"half":1.0}', filter="/n < 3")] == [2]
    assert [of["n"] for of in await records(server, filter="/n > 0 AND CONDITION('{..,\"n\":le(1)}')")] == [1]
    assert len(await records(server, condition="  ", filter="/n > 0")) == 3
    assert sorted(of["n"] for of in await records(server, condition='intrinsic("~id":"k1","k3")')) == [1, 3]


async def test_conditions_are_of_all_records() -> None:
    """Also of those that are no documents: their id is the SOW key, and there are no tags and times."""
    server = Server().loaded()
    for number in range(3):
        server.put({"id": number})
    key = next(iter(server.bodies)).decode()
    assert await records(server, condition=f'intrinsic("~id":"{key}")') == [{"id": 0}]
    assert len(await records(server, condition='intrinsic("~table":"orders")')) == 3
    assert await records(server, condition='intrinsic("~lastUpdateAt":not(null))') == []
    assert await records(server, condition='{..,"id":gt(1)}') == [{"id": 2}]


@pytest.mark.parametrize("command", ["sow", "subscribe", "sow_and_delta_subscribe", "explain"])
async def test_what_is_no_condition_is_refused(server: Documents, command: str) -> None:
    """With its reason, and the sentence of the language."""
    client = server.connect()
    client.ask(command, condition="is(number)")
    (answer,) = await client.read()
    assert (answer["reason"], "expected undefined" in answer["message"]) == ("bad condition", True)


async def test_a_condition_is_no_longer_than_a_filter(server: Documents) -> None:
    """To read a longer one would take long, and others wait."""
    client = server.connect()
    for length in (65_536, 65_537):
        client.ask("sow", condition='"' + "x" * (length - 2) + '"')
        messages = await client.read()
        assert [m.get("reason") for m in messages] == ([None] * 2 if length == 65_536 else ["bad condition"])


async def test_writes_have_no_condition(server: Documents) -> None:
    """Who deletes by one would else delete more than was meant."""
    client = server.connect()
    client.ask("sow_delete", filter="1=1", condition="alwaysFalse()")
    (answer,) = await client.read()
    assert answer["reason"] == "bad request"


async def test_a_condition_follows_what_is_known_of_a_document(server: Documents) -> None:
    """A write that changes the tags, or nothing but the signature, takes a document out of focus and back."""
    server.delta("a", '{"n":1}', tags="hot,new")
    hot, signed, since = (server.connect() for _ in range(3))
    signature = server.delta("b", '{"n":2}').writes
    assert signature is not None
    hot.ask("sow_and_subscribe", condition=tagged("hot"), options="oof")
    signed.ask(
        "sow_and_subscribe", condition=f'intrinsic("~signature":"{signature.signature}")', options="oof"
    )
    since.ask("subscribe", condition='intrinsic("~lastUpdateAt":ge("1970-01-01T00:00:30"))', options="oof")
    assert [shown(await client.read()) for client in (hot, signed, since)] == [[{"n": 1}], [{"n": 2}], []]
    server.delta("b", "..")
    server.delta("a", "..")
    server.delta("a", "..", tags="hot")
    assert received(await hot.read()) == [("oof", {"n": 1}), ("publish", {"n": 1})]
    assert received(await signed.read()) == [("oof", {"n": 2})]
    assert received(await since.read()) == [("publish", {"n": 1}), ("publish", {"n": 1})]
    server.delta("a", "~", tags="hot")
    assert [m["reason"] for m in await hot.read()] == ["deleted"]


async def test_partitions_share_all_documents(server: Documents) -> None:
    """Each is shown, and told, to exactly one of three consumers, whatever becomes of it."""
    ids = [f"doc-{number}" for number in range(40)]
    for id in ids[:20]:
        server.delta(id, f'{{"id":"{id}"}}')
    consumers = [server.connect() for _ in range(3)]
    for number, consumer in enumerate(consumers, 1):
        consumer.ask("sow_and_delta_subscribe", condition=f"partition(3:{number})", options="oof")
    views = [view_of(await consumer.read()) for consumer in consumers]
    assert sorted(of["id"] for view in views for of in view.values()) == sorted(ids[:20])
    for id in ids[10:]:
        server.delta(id, f'{{"id":"{id}","new":true}}')
    server.delta("doc-0", "~")
    heard = [received(await consumer.read()) for consumer in consumers]
    events = sorted((command, of["id"]) for messages in heard for command, of in messages)
    assert events == [("oof", "doc-0"), *(("publish", id) for id in sorted(ids[10:]))]
    homes = [
        {of["id"] for of in (*view.values(), *(of for _, of in messages))}
        for messages, view in zip(heard, views, strict=True)
    ]
    assert sum(map(len, homes)) == len(ids)
    assert all(homes)


@pytest.mark.parametrize("options", ["oof", "oof,conflation=none"])
async def test_sow_keys_and_a_condition_both_restrict(server: Documents, options: str) -> None:
    """A key's document that does not meet it is as little shown as another key's that does."""
    one = server.delta("a", '{"n":1}').sow_key.decode()
    server.delta("b", '{"n":1}')
    client = server.connect()
    client.ask("sow_and_subscribe", condition='{..,"n":1}', sow_keys=[one], options=options)
    assert shown(await client.read()) == [{"n": 1}]
    server.delta("b", '{"n":1,"m":1}')
    server.delta("a", '{"n":2}')
    assert received(await client.read()) == [("oof", {"n": 2})]


async def test_a_condition_is_replaced(server: Documents) -> None:
    """What the client holds becomes what it asks for, also where only the account decides; it comes back too."""
    server.delta("a", '{"n":1}', tags="x")
    server.delta("b", '{"n":2}', tags="y")
    client = server.connect()
    client.ask("sow_and_subscribe", condition=tagged("x"), options="oof", sub_id="s")
    assert shown(await client.read()) == [{"n": 1}]
    server.delta("b", "..", tags="x,y")
    await client.read()
    client.ask("sow_and_subscribe", condition=tagged("y"), options="oof,replace", sub_id="s")
    messages = await client.read()
    assert (received(messages), shown(messages)) == ([("oof", {"n": 1})], [])
    server.delta("a", "..", tags="y")
    other = server.connect()
    other.ask("subscribe", bookmark="orders:0@1", condition=tagged("x"), options="oof")
    assert received(await other.read()) == [("publish", {"n": 2}), ("oof", {"n": 1})]
    assert received(await client.read()) == [("publish", {"n": 1})]


async def test_pages_and_groups_have_conditions(server: Documents) -> None:
    """Live, and where a client comes back to them."""
    for number in range(4):
        server.delta(f"k{number}", f'{{"n":{number},"g":{number % 2}}}', tags="t")
    page, groups = server.connect(), server.connect()
    window: Json = {"condition": tagged("t"), "options": "oof", "order_by": "/n", "top_n": 2, "skip_n": 0}
    grouping: Json = {
        "condition": tagged("t"),
        "options": "oof,grouping=[/g],projection=[/g,COUNT(/n) AS /count]",
    }
    page.ask("sow_and_subscribe", **window)
    groups.ask("sow_and_subscribe", **grouping)
    assert [of["n"] for of in shown(await page.read())] == [0, 1]
    assert [of["count"] for of in shown(await groups.read())] == [2, 2]
    server.delta("k0", "..")
    assert received(await page.read()) == [("oof", {"n": 0, "g": 0}), ("publish", {"n": 2, "g": 0})]
    assert received(await groups.read()) == [("publish", {"g": 0, "count": 1})]
    server.delta("k0", "..", tags="t")
    server.delta("k1", "..")
    await groups.read()
    again = server.connect()
    again.ask("sow_and_subscribe", bookmark="orders:0@4", sub_id="page", **window)
    again.ask("sow_and_subscribe", bookmark="orders:0@4", sub_id="groups", **grouping)
    messages = await again.read()
    assert sorted(received([m for m in messages if m["sids"] == ["page"]]), key=str) == [
        ("oof", {"n": 1, "g": 1}),
        ("publish", {"n": 0, "g": 0}),
    ]
    counts = received([m for m in messages if m["sids"] == ["groups"]])
    assert sorted(of["count"] for _, of in counts) == [1, 2]


async def test_the_past_is_asked_by_conditions() -> None:
    """What was known of documents then is what counts, also where they stayed the same or are gone."""
    server = Documents(more=", history: {window: 1h}")
    with server.patched():
        for id in "abc":
            server.delta(id, f'{{"id":"{id}"}}', tags="old")
        server.delta("a", "..", tags="new")
        server.delta("b", "~")
        then = {"bookmark": "19700101T000025Z"}
        old, new = tagged("old"), tagged("new")
        assert [len(await records(server, condition=one)) for one in (old, new)] == [1, 1]
        assert sorted(of["id"] for of in await records(server, condition=old, **then)) == ["a", "b", "c"]
        assert await records(server, condition=new, **then) == []


async def test_explain_tells_what_indexes_leave_to_a_condition(server: Documents) -> None:
    """The filter's columns decide first; the condition is asked of what they leave."""
    for number in range(20):
        server.delta(f"k{number}", f'{{"n":{number}}}')
    client: Client = server.connect()
    client.ask("explain", filter="/n >= 15", condition='{..,"n":lt(17)}')
    (answer,) = await client.read()
    (access_path,) = answer["access_paths"]
    assert (access_path["access_path"], access_path["read"], access_path["matches"]) == ("memo index", 5, 2)


async def test_a_proof_counts_what_meets_the_condition(server: Documents) -> None:
    """So that a view can be verified."""
    server.delta("a", '{"n":1}')
    server.delta("b", '{"n":2}')
    client = server.connect()
    client.ask("sow_and_subscribe", condition=compile_condition('{..,"n":gt(1)}').text)
    await client.read()
    client.ask("heartbeat", sub_id="1")
    await settled()
    assert [m["records"] for m in await client.read()] == [1]
