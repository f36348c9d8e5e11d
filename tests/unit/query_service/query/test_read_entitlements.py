"""What enforces entitlements: refusals, what leaves because it may not be seen any more, and writes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from sowline.commands.command import read_command
from sowline.errors import SowlineError
from sowline.language.filter import compile_filter
from sowline.model.key import sow_key
from sowline.model.select import parse_select
from sowline.serving.authorization.entitlements import (
    EVERYTHING,
    Entitlement,
    Entitlements,
    Rights,
    to_read,
    to_write,
)
from sowline.serving.writes.delta_requests import posted_deltas
from sowline.serving.writes.requests import posted_writes, writes_of
from sowline.wire.request import ReadTimeline, SowDelete
from sowline.wire.request_fields import SowKeys
from sowline_query_service.query.record_reads import read_record
from sowline_query_service.query.timeline_read import timeline_request_of
from sowline_query_service.replica.partition_replica import OwnerDefinition
from tests.property.clock import clock, on_clock
from tests.unit.query_service.sessions import DOMAIN, Client, Json, Server, view_of
from tests.unit.query_service.writing import checked, definitions

NEW_YORK = Entitlement("^orders.*", compile_filter("/desk = 'NY'"))
NAMES = Entitlement("orders", select=parse_select("[-/,+/id,+/name]"))
TRADER = Rights(to_read(NEW_YORK), to_write(NEW_YORK))
READER = Rights(to_read(NAMES), to_write(Entitlement("orders")))


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of one partition with an order of each of two desks."""
    server = Server().loaded()
    with server.patched():
        server.put({"id": 1, "desk": "NY", "name": "a", "n": 1})
        server.put({"id": 2, "desk": "LN", "name": "b", "n": 2})
        yield server


def key_of(number: int) -> str:
    """Return a record's SOW key."""
    return sow_key(DOMAIN, str(number)).decode()


async def refused(client: Client, command: str, **fields: Any) -> str:
    """Return for what reason a command is refused."""
    client.ask(command, **fields)
    return "".join(m.get("reason", "") for m in await client.read() if m["command"] == "ack")


# reading


async def test_a_query_is_of_what_may_be_seen(server: Server) -> None:
    """Also where it asks for others."""
    client = server.connect(TRADER)
    client.ask("sow", filter="/desk != 'X'")
    assert list(view_of(await client.read())) == [key_of(1)]
    client.ask("sow", sow_keys=[key_of(2)])
    assert view_of(await client.read()) == {}
    reader = server.connect(READER)
    reader.ask("sow", options="select=[-/,+/name,+/desk]")
    assert view_of(await reader.read()) == {key_of(1): {"name": "a"}, key_of(2): {"name": "b"}}


@pytest.mark.parametrize(
    "fields",
    [
        {"sow_keys": [key_of(2)]},
        {"sow_keys": [key_of(9)]},
        {"filter": "/id = '2'"},
        {"filter": "/name = 'b' AND LENGTH(/name) > 0"},
        {"options": "grouping=[/desk],projection=[/desk]", "sow_keys": [key_of(2)]},
    ],
)
async def test_what_was_scanned_is_not_disclosed(server: Server, fields: Json) -> None:
    """How many records a key or an index leads to, before it is asked which may be seen."""
    client = server.connect(TRADER)
    client.ask("explain", **fields)
    (message,) = await client.read()
    assert message["access_paths"][0].keys() & {"records", "candidates", "read", "matches"} == {"matches"}
    client.ask("sow", ack_type="stats", **fields)
    stats = next(m for m in await client.read() if m["command"] == "ack")
    assert (stats["topic_matches"], stats["matches"]) == (1 if "sow_keys" in fields else 2, 0)
    everybody = server.connect()
    everybody.ask("explain", sow_keys=[key_of(1), key_of(9)])
    (message,) = await everybody.read()
    assert (message["access_paths"][0]["records"], message["access_paths"][0]["candidates"]) == (1, 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"topic": "quotes"},
        {"topic": "^.*s"},
        {"filter": "/n > 1"},
        {"order_by": "/n"},
        {"condition": '{..,"n":1}'},
        {"filter": "CONDITION('{..,\"n\":1}')"},
        {"options": "grouping=[/n],projection=[/n]"},
        {"options": "grouping=[/id],projection=[/id,SUM(/n) AS /s]"},
        {"options": "conflation=1s,conflation_key=[/n]"},
        {"filter": "MESSAGE_SIZE() > 20"},
        {"options": "grouping=[/id],projection=[/id,MAX(CONDITION('{..,\"n\":1}')) AS /m]"},
        {"options": "grouping=[/id],projection=[/id,COUNT(IF(CONDITION('{..,\"n\":1}'),1,NULL)) AS /m]"},
    ],
)
@pytest.mark.parametrize("command", ["sow", "sow_and_subscribe", "explain"])
async def test_what_is_not_theirs_is_refused(command: str, fields: Json) -> None:
    """By an error, not by silence: other topics, and fields that may not be read."""
    server = Server(definition="{name: orders, key: /id}, {name: quotes, key: /id}").loaded()
    server.state.loaded([("quotes.changes", 0)])
    assert await refused(server.connect(READER), command, **fields) == "not entitled"


@pytest.mark.parametrize("options", ["", "grouping=[/id],projection=[/id]"])
async def test_the_filter_of_an_entitlement_is_not_explained(server: Server, options: str) -> None:
    """It may compare fields that the user may not read with values that all visible records have."""
    mine = Entitlement("orders", compile_filter("/desk = 'NY'"), parse_select("[-/desk]"))
    client = server.connect(Rights(to_read(mine)))
    client.ask("explain", options=options)
    (message,) = await client.read()
    assert message["access_paths"][0]["matches"] == 1
    assert "desk" not in json.dumps(message)


@pytest.mark.parametrize("options", ["", "grouping=[/id],projection=[/id]"])
async def test_no_field_that_may_not_be_read_is_suggested(server: Server, options: str) -> None:
    """A warning about an unknown field names a similar one only if the user may read it."""
    server.put({"id": 3, "person": {"salary": 5}})
    select = parse_select("[-/person]")
    for rights, is_suggested in (
        (EVERYTHING, True),
        (Rights(to_read(Entitlement("orders", select=select))), False),
    ):
        client = server.connect(rights)
        client.ask("sow", filter="/person_salary = 1", options=options)
        begin = next(m for m in await client.read() if m["command"] == "group_begin")
        (warning,) = begin["warnings"]
        assert ("/person/salary" in warning) is is_suggested


async def test_whether_a_topic_exists_is_not_disclosed(server: Server) -> None:
    """One that is not there, but would be theirs, is invalid."""
    assert await refused(server.connect(TRADER), "sow", topic="nosuch") == "not entitled"
    assert await refused(server.connect(TRADER), "sow", topic="orders2") == "invalid topic"


def leaving(messages: list[Json]) -> list[tuple[str, str, Json]]:
    """Return what leaves: its key, why, and the body."""
    return [(m["sow_key"], m["reason"], m["data"]) for m in messages if m["command"] == "oof"]


WAYS: list[Json] = [
    {"options": "oof"},
    {"options": "oof", "command": "sow_and_delta_subscribe"},
    {"options": "oof", "top_n": 5, "skip_n": 0},
]


@pytest.mark.parametrize("way", WAYS)
async def test_what_may_not_be_seen_any_more_leaves(server: Server, way: Json) -> None:
    """As it was before; what only stops to match leaves as it is."""
    client = server.connect(TRADER)
    client.ask(**{"command": "sow_and_subscribe", "filter": "/n < 5", **way})
    await client.read()
    server.put({"id": 1, "desk": "LN", "name": "secret", "n": 1})
    assert leaving(await client.read()) == [
        (key_of(1), "entitlement", {"id": 1, "desk": "NY", "name": "a", "n": 1})
    ]
    server.put({"id": 1, "desk": "NY", "name": "c", "n": 1})
    server.put({"id": 1, "desk": "NY", "name": "c", "n": 7})
    assert leaving(await client.read()) == [
        (key_of(1), "match", {"id": 1, "desk": "NY", "name": "c", "n": 7})
    ]


async def left_meanwhile(server: Server, way: Json, *writes: tuple[Json | None, int]) -> list[Any]:
    """Return what leaves by each of two ways, after writes of records, with their keys, that nobody listened to.

    One client was paused and asks for something else; the other one comes back.
    """
    asked = {"command": "sow_and_subscribe", "sub_id": "s", **way}
    client = server.connect(TRADER)
    client.ask(**asked)
    bookmark = next(m["bookmark"] for m in await client.read() if m["command"] == "group_end")
    client.ask("pause", sub_id="s")
    await client.read()
    for body, key in writes:
        server.put(body, key=key)
    client.ask(**asked | {"options": "oof,replace", "filter": "/n < 5", "command_id": "2"})
    again = server.connect(TRADER)
    again.ask(**asked, bookmark=bookmark)
    return [leaving(await one.read()) for one in (client, again)]


HIDDEN = {"id": 1, "desk": "LN", "name": "secret", "n": 1}, 1
"""A write after which the record may not be seen."""


def as_it_was() -> list[tuple[str, str, Json]]:
    """Return what leaves once the record may not be seen."""
    return [(key_of(1), "entitlement", {"id": 1, "desk": "NY", "name": "a", "n": 1})]


@pytest.mark.parametrize("way", WAYS)
async def test_what_left_while_no_client_listened(server: Server, way: Json) -> None:
    """Anyone who comes back, or was paused and asks for something else, is told no more than others."""
    assert await left_meanwhile(server, way, HIDDEN) == [as_it_was(), as_it_was()]


@pytest.mark.parametrize("way", WAYS)
async def test_what_happened_to_a_hidden_record_is_not_disclosed(server: Server, way: Json) -> None:
    """A record that was hidden and then deleted, while nobody listened, was hidden."""
    assert await left_meanwhile(server, way, HIDDEN, (None, 1)) == [as_it_was(), as_it_was()]


@pytest.mark.parametrize("rights", [TRADER, READER])
async def test_groups_instead_of_a_page(server: Server, rights: Rights) -> None:
    """The records that leave with it are not told in the form of groups, which leaves out nothing."""
    client = server.connect(rights)
    client.ask("sow_and_subscribe", sub_id="s", top_n=5, skip_n=0, options="oof")
    await client.read()
    client.ask("pause", sub_id="s")
    await client.read()
    server.put({"id": 1, "desk": "LN", "name": "a", "n": "secret"})
    groups = "grouping=[/id],projection=[/id,COUNT(/id) AS /c],oof,replace"
    client.ask("sow_and_subscribe", sub_id="s", options=groups, command_id="2", top_n=5, skip_n=0)
    received = await client.read()
    assert "secret" not in json.dumps(received)
    assert next(m for m in received if m["command"] == "group_begin")["reset"]


def test_one_record(server: Server) -> None:
    """One that may not be seen is not there; of others what may be seen is."""
    ny = TRADER.read.of("orders")
    assert json.loads(read_record(server.topic, "1", ny))["name"] == "a"
    with pytest.raises(SowlineError, match="got '2'") as error:
        read_record(server.topic, "2", ny)
    assert error.value.reason == "no record"
    assert json.loads(read_record(server.topic, "2", NAMES)) == {"id": 2, "name": "b"}


DOCUMENTS = "{name: orders, key: /id, documents: true, template: {desk: NY, name: none}}"


def test_a_document_that_may_not_be_seen_was_never_written() -> None:
    """Neither its content nor its account are told; nor are fields of the template that may not be read."""
    server = Server(definition=DOCUMENTS).loaded()
    unseen = json.loads(read_record(server.topic, "7", Entitlement("orders", compile_filter("/x = 1"))))
    assert (unseen["~deleted"], unseen["~version"]) == (True, 0)
    assert "desk" not in json.loads(read_record(server.topic, "7", NAMES))


@pytest.mark.parametrize("rights", [TRADER, READER])
def test_a_timeline_is_for_who_may_see_all(rights: Rights) -> None:
    """It tells what a document was, also while it could not be seen."""
    server = Server(definition=DOCUMENTS).loaded()
    with pytest.raises(SowlineError, match="all of orders") as error:
        timeline_request_of(server.state, ReadTimeline(topic="orders", key="1"), rights)
    assert error.value.reason == "not entitled"


# writing


def posted(server: Server, command: str, *bodies: Json, rights: Rights = TRADER, **given: str) -> Json:
    """Write; return the headers."""
    encoded = [json.dumps(body).encode() for body in bodies]
    found = posted_writes(definitions(server.state), "orders", command, given, encoded, rights)
    return dict(checked(server.state, found)[0].write.headers)


MINE: Json = {"id": 1, "desk": "NY"}
THEIRS: Json = {"id": 2, "desk": "LN"}


def test_records_of_ones_own_are_written(server: Server) -> None:
    """New ones too, and what a delta publish makes of one."""
    posted(server, "publish", MINE, {"id": 9, "desk": "NY"})
    posted(server, "delta_publish", {"id": 1, "n": 5})
    posted(server, "delta_publish", {"id": 9, "desk": "NY"})
    posted(server, "sow_delete", {"id": 1})
    posted(server, "sow_delete", keys=key_of(1))
    posted(server, "sow_delete", keys=key_of(9))


@pytest.mark.parametrize(
    ("command", "body", "given"),
    [
        ("publish", THEIRS, {}),
        ("publish", {"id": 2, "desk": "NY"}, {}),
        ("publish", {"id": 1, "desk": "LN"}, {}),
        ("publish", {"id": 9}, {}),
        ("delta_publish", {"id": 2, "n": 5}, {}),
        ("delta_publish", {"id": 2, "desk": "NY"}, {}),
        ("delta_publish", {"id": 1, "desk": "LN"}, {}),
        ("delta_publish", {"id": 9, "n": 1}, {}),
        ("sow_delete", {"id": 2}, {}),
        ("sow_delete", None, {"keys": key_of(2)}),
        ("sow_delete", None, {"keys": f"{key_of(1)},{key_of(2)}"}),
    ],
)
def test_records_of_others_are_not(server: Server, command: str, body: Json | None, given: Json) -> None:
    """Neither what is theirs now, nor what would be; nor is a record taken from them, or given to them."""
    with pytest.raises(SowlineError, match="/desk = 'NY'") as error:
        posted(server, command, *([] if body is None else [body]), **given)
    assert error.value.reason == "not entitled"


@pytest.mark.parametrize("odd", ["{},{}", " {1}", "{1} ", ",{1}"])
def test_a_key_is_one_key(server: Server, odd: str) -> None:
    """What is looked at is what the log says: it does not read it as another key, or as several."""
    key = odd.format(key_of(1), key_of(2))
    request = SowDelete(topic="orders", sow_keys=SowKeys([key]))
    [writing] = checked(server.state, writes_of(definitions(server.state), request, TRADER))
    assert read_command(writing.write.headers).keys == (key,)


@pytest.mark.parametrize(
    ("read", "sees_all"),
    [
        (to_read(Entitlement("orders")), True),
        (to_read(NAMES), True),
        (to_read(NEW_YORK), False),
        (to_read(), False),
    ],
)
def test_a_write_is_compared_with_what_may_be_seen(
    server: Server, read: Entitlements, sees_all: bool
) -> None:
    """Its `topic_matches` counts a topic's records only for who may see them all; else those it has deleted."""
    rights = Rights(read, to_write(Entitlement("orders")))
    keys = {"keys": key_of(1)}
    [command] = posted_writes(definitions(server.state), "orders", "sow_delete", keys, [], rights)
    assert command.may_see_all is sees_all


def test_a_delete_by_filter_is_of_ones_own(server: Server) -> None:
    """The log says so: anyone who applies it deletes no others."""
    assert posted(server, "sow_delete", filter="1=1")["sow.filter"] == b"1 = 1 AND /desk = 'NY'"
    assert (
        posted(server, "sow_delete", filter="/n=1", rights=Rights(to_read(Entitlement("^.*")), TRADER.write))[
            "sow.filter"
        ]
        == b"/n = 1 AND /desk = 'NY'"
    )
    with pytest.raises(SowlineError, match=r"may read \(none\)"):
        posted(server, "sow_delete", filter="1=1", rights=Rights(write=TRADER.write))
    with pytest.raises(SowlineError, match="got /n"):
        posted(server, "sow_delete", filter="/n = 1", rights=READER)
    assert posted(server, "sow_delete", filter="/id = 1", rights=READER)["sow.filter"] == b"/id = 1"


def test_deltas_are_for_who_may_write_and_read_all() -> None:
    """What they make of a document is known when they are applied only, and tells what it was."""
    server = Server(definition=DOCUMENTS).loaded()
    with pytest.raises(SowlineError, match="known only when") as error:
        posted_deltas(definitions(server.state), "orders", {"key": "1"}, b'{..,"a":1}', TRADER)
    assert error.value.reason == "not entitled"
    everything = to_write(Entitlement("orders"))
    asks = b'if {..,"secret":gt(5)} then {..,"a":1} end'
    for read in (to_read(), to_read(NEW_YORK), to_read(NAMES)):
        with pytest.raises(SowlineError, match="to read all of orders") as error:
            posted_deltas(definitions(server.state), "orders", {"key": "1"}, asks, Rights(read, everything))
        assert error.value.reason == "not entitled"
    assert posted_deltas(
        definitions(server.state),
        "orders",
        {"key": "1"},
        asks,
        Rights(to_read(Entitlement("^.*")), everything),
    )


def test_what_is_written_reads_with_the_template() -> None:
    """A document may be written if it reads like one of the user's, whatever its own fields say."""
    definition = "{name: orders, key: /id, documents: true, template: {desk: NY}}"
    server = Server(definition=definition).loaded()
    posted(server, "publish", THEIRS)
    elsewhere = Server(definition=definition.replace("NY", "LN")).loaded()
    with pytest.raises(SowlineError, match="got one after which its record does not match"):
        posted(elsewhere, "publish", MINE)


def test_the_template_that_is_in_effect_counts() -> None:
    """The owner may not have applied another one in the file yet, or may have refused it as too large."""
    server = Server(definition="{name: orders, key: /id, documents: true, template: {desk: NY}}").loaded()
    limits = replace(server.topic.definition.limits, template='{"desk":"LN"}')
    server.topic.partitions[0].owner_definition = OwnerDefinition("another", limits)
    with pytest.raises(SowlineError, match="got one after which its record does not match"):
        posted(server, "publish", MINE)
    server.put(THEIRS)
    with pytest.raises(SowlineError, match="got one of a record that does not match"):
        posted(server, "publish", THEIRS)


def test_messages_without_records_are_asked_too() -> None:
    """Of a topic without a SOW."""
    server = Server(definition="{name: orders, sow: false}").loaded()
    posted(server, "publish", MINE)
    with pytest.raises(SowlineError, match="got one after which its record does not match"):
        posted(server, "publish", THEIRS)


# what a change tells


@pytest.mark.parametrize("first", ["anybody", "trader"])
async def test_users_who_may_see_different_records_share_no_message(server: Server, first: str) -> None:
    """A record leaves the view of both: the one may see what it has become, the other may not."""
    clients = {}
    for who in ("anybody", "trader") if first == "anybody" else ("trader", "anybody"):
        clients[who] = server.connect(TRADER) if who == "trader" else server.connect()
        clients[who].ask("sow_and_subscribe", sub_id="s", filter="/desk = 'NY'", options="oof")
        await clients[who].read()
    server.put({"id": 1, "desk": "LN", "name": "secret"}, correlation="deal-7")
    (seen,), (hidden,) = await clients["anybody"].read(), await clients["trader"].read()
    assert (seen["reason"], seen["data"]["name"], seen["correlation_id"]) == ("match", "secret", "deal-7")
    assert (hidden["reason"], hidden["data"]["name"]) == ("entitlement", "a")
    assert "correlation_id" not in hidden


@pytest.mark.parametrize("options", ["oof", "oof,conflation=50ms"])
@pytest.mark.parametrize("command", ["subscribe", "sow_and_delta_subscribe"])
@on_clock
async def test_a_correlation_id_is_sent_with_what_may_be_seen(
    server: Server, command: str, options: str
) -> None:
    """Of a write that takes a record out of sight it is not told, nor of one to a record that is not in sight."""
    client = server.connect(TRADER)
    client.ask(command, options=options)
    await client.read()
    server.put({"id": 2, "desk": "LN", "name": "x"}, correlation="hidden")
    server.put({"id": 1, "desk": "NY", "name": "y"}, correlation="shown")
    await clock().tick(60)
    assert [m.get("correlation_id") for m in await client.read()] == ["shown"]
    server.put({"id": 1, "desk": "LN", "name": "z"}, correlation="hidden")
    await clock().tick(60)
    assert [(m["reason"], "correlation_id" in m) for m in await client.read()] == [("entitlement", False)]
