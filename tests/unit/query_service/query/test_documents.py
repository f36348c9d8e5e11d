"""Reading documents: by conditions, with what is known of them, and without the writes that change nothing."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import orjson
import pytest

from sowline.errors import SowlineError
from sowline.language.emodb import compile_condition
from sowline.model.position import Position
from sowline.serving.authorization.entitlements import Entitlement
from sowline_query_service.query.record_reads import read_record
from sowline_query_service.replica.partition_replica import OwnerDefinition
from tests.property.clock import clock, on_clock
from tests.unit.documents import Documents
from tests.unit.query_service.sessions import Client, Json, Server, settled, view_of


@pytest.fixture
def server() -> Iterator[Documents]:
    """A server of documents, empty."""
    server = Documents()
    with server.patched():
        yield server


def received(messages: list[Json]) -> list[tuple[str, Json]]:
    """Return of each live message its command and its body."""
    return [(m["command"], m["data"]) for m in messages if m["command"] in ("publish", "oof")]


def shown(messages: list[Json]) -> list[Json]:
    """Return the bodies of a group."""
    return [record["data"] for m in messages if m["command"] == "sow" for record in m["records"]]


def tagged(tag: str) -> str:
    """Return the condition of documents whose last write has a tag."""
    return f'{{..,"~tags":contains("{tag}")}}'


async def records(server: Server, **asked: Any) -> list[Json]:
    """Return the records that a query finds, by SOW key."""
    client = server.connect()
    client.ask("sow", top_n=1000, **asked)
    return shown(await client.read())


def record(server: Server, key: str) -> Json:
    """Return what is read of one document."""
    found: Json = orjson.loads(read_record(server.topic, key, Entitlement("^.*")))
    return found


# conditions


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


# one record


def test_a_document_is_read_with_what_is_known_of_it(server: Documents) -> None:
    """Content, and intrinsics over it; without content it is deleted, and without a write nothing is known."""
    writes = server.delta("a", '{"n":1.50,"~mine":2}').writes
    server.delta("b", '{"n":2}')
    gone = server.delta("b", "~").writes
    assert writes is not None
    assert gone is not None
    times = dict.fromkeys(("~firstUpdateAt", "~lastUpdateAt", "~lastMutateAt"), "1970-01-01T00:00:00.000Z")
    assert record(server, "a") == {
        "n": 1.5,
        "~mine": 2,
        "~id": "a",
        "~table": "orders",
        "~version": 1,
        "~signature": writes.signature,
        "~deleted": False,
        **times,
    }
    deleted = record(server, "b")
    assert (deleted["~deleted"], deleted["~version"], deleted["~signature"]) == (True, 2, gone.signature)
    assert "n" not in deleted
    assert record(server, "c") == {
        "~id": "c",
        "~table": "orders",
        "~version": 0,
        "~signature": "0" * 32,
        "~deleted": True,
    }
    server.delta("b", '{"n":3}')
    assert (record(server, "b")["~version"], record(server, "b")["~deleted"]) == (3, False)


def test_the_template_is_read_of_every_document() -> None:
    """Of those that are gone or never were as well."""
    server = Documents(more=", template: {type: review}")
    server.delta("a", '{"type":"other","n":1}')
    server.delta("b", "{}")
    server.delta("b", "~")
    assert [record(server, key)["type"] for key in "abc"] == ["review"] * 3


def test_a_record_that_is_no_document_is_read_as_it_is() -> None:
    """By the text of its key; where there is none it is refused."""
    server = Server().loaded()
    server.put({"id": 7, "n": 1.50})
    assert read_record(server.topic, "7", Entitlement("^.*")) == b'{"id":7,"n":1.5}'
    with pytest.raises(SowlineError) as error:
        read_record(server.topic, "8", Entitlement("^.*"))
    assert error.value.reason == "no record"
    without = Server(definition="{name: orders, sow: false}").loaded()
    with pytest.raises(SowlineError) as error:
        read_record(without.topic, "8", Entitlement("^.*"))
    assert error.value.reason == "no sow"


# what is known beside the content


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


# redundant writes


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


# another template


@pytest.mark.parametrize("command", ["subscribe", "delta_subscribe"])
async def test_another_template_changes_what_is_in_focus(server: Documents, command: str) -> None:
    """Documents stay, come and go; of one that reads the same nothing is sent, although its last write changed."""
    server.delta("a", '{"n":1}')
    server.delta("b", '{"n":9,"m":1}')
    server.delta("a", "..")
    client = server.connect()
    client.ask(command, options="oof,no_redundant", filter="/n < 6")
    await settled()
    is_delta = command == "delta_subscribe"
    for template, expected in (
        ('{"n":3}', [("publish", {"n": 3}, is_delta), ("publish", {"n": 3, "m": 1}, False)]),
        ('{"n":9}', [("oof", {"n": 9}, False), ("oof", {"n": 9, "m": 1}, False)]),
        ('{"n":9,"k":1}', []),
        (None, [("publish", {"n": 1}, False)]),
        ('{"n":1}', [("publish", {"n": 1, "m": 1}, False)]),
    ):
        server.define(template)
        found = [(m["command"], m["data"], m.get("delta", False)) for m in await client.read()]
        assert sorted(found, key=str) == sorted(expected, key=str)


async def test_a_document_that_never_was_reads_with_the_template_of_the_owner() -> None:
    """The file of the service may be newer than the template of the documents."""
    server = Documents(more=", template: {type: review}")
    server.delta("a", '{"n":1}')
    limits = replace(server.topic.definition.limits, template='{"kind":"k"}')
    digest = server.topic.definition.digest_with(limits.template)
    server.topic.partitions[0].owner_definition = OwnerDefinition(digest, limits)
    assert record(server, "b").items() >= {"kind": "k", "~version": 0}.items()
    assert "type" not in record(server, "b")
    server.topic.partitions[0].owner_definition = OwnerDefinition(
        server.topic.definition.digest, replace(limits, template=None)
    )
    assert record(server, "b")["type"] == "review"


# all of it together

CONDITIONS = (
    tagged("x"),
    "partition(2:1)",
    'intrinsic("~lastUpdateAt":ge("1970-01-01T00:05:00"))',
    'or(intrinsic("~id":"k0"),intrinsic("~signature":ge("8")))',
    '{..,"n":ge(1)}',
)
WRITES = (
    "..",
    '{..,"n":0}',
    '{..,"n":1}',
    '{..,"n":2}',
    "~",
    '{"n":1,"m":[1]}',
    '{..,"m":~}',
    '{..,"n":1.0}',
)


OPTIONS = (
    "oof",
    "oof,intrinsics",
    "oof,no_redundant",
    "oof,no_empties,no_redundant",
    "oof,intrinsics,conflation=2ms",
    "oof,no_redundant,conflation=2ms",
)


@pytest.mark.parametrize(
    "window", [{}, {"order_by": "/n DESC", "top_n": 2, "skip_n": 1}], ids=["all", "page"]
)
@pytest.mark.parametrize(("seed", "condition"), list(enumerate(CONDITIONS)))
@on_clock
async def test_what_a_client_holds_is_what_a_query_finds(seed: int, condition: str, window: Json) -> None:
    """Whatever is written, and however it reads: whole or in deltas, too slow, or without what is redundant."""
    chance = random.Random(seed)
    server = Documents(backlog=1000)
    with server.patched():
        holding = [
            (server.connect(), command, options)
            for command in ("sow_and_subscribe", "sow_and_delta_subscribe")
            for options in OPTIONS
        ]
        for client, command, options in holding:
            client.ask(command, condition=condition, options=options, **window)
        held: list[dict[str, Held]] = [{} for _ in holding]
        for _ in range(5):
            for _ in range(chance.randrange(12)):
                tags = {"tags": chance.choice("xy")} if chance.random() < 0.4 else {}
                server.delta(f"k{chance.randrange(5)}", chance.choice(WRITES), **tags)
                await clock().tick(chance.randrange(2))
            found = await found_by(server, condition, window)
            for view, (client, _, options) in zip(held, holding, strict=True):
                for _ in range(5):
                    for message in await client.read():
                        hold(view, message)
                    await clock().tick(2)
                assert {key: of.body for key, of in view.items()} == {
                    key: of.body for key, of in found.items()
                }
                if "intrinsics" in options:
                    assert view == found


class Held(NamedTuple):
    """A record that a client holds, and what it was told beside that."""

    body: Json
    intrinsics: Json | None


async def found_by(server: Server, condition: str, window: Json) -> dict[str, Held]:
    """Return what a query finds now."""
    client = server.connect()
    client.ask("sow", condition=condition, options="intrinsics", **window)
    found: dict[str, Held] = {}
    for message in await client.read():
        hold(found, message)
    return found


def hold(view: dict[str, Held], message: Json) -> None:
    """Take a message as a client does."""
    for of in message.get("records", []) if message["command"] == "sow" else []:
        view[of["sow_key"]] = Held(of["data"], of.get("intrinsics"))
    if message["command"] == "oof":
        del view[message["sow_key"]]
    elif message["command"] == "publish":
        body = message["data"]
        if message.get("delta"):
            body = {**view[message["sow_key"]].body, **body}
            for path in message.get("removed", []):
                del body[path.removeprefix("/")]
        view[message["sow_key"]] = Held(body, message.get("intrinsics"))
