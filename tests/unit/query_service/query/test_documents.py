"""Documents as they are read: one by one, with another template, and by clients that hold what a query finds."""

import random
from dataclasses import replace
from typing import NamedTuple

import pytest

from sowline.errors import SowlineError
from sowline.serving.authorization.entitlements import Entitlement
from sowline_query_service.query.record_reads import read_record
from sowline_query_service.replica.partition_replica import OwnerDefinition
from tests.property.clock import clock, on_clock
from tests.unit.documents import Documents
from tests.unit.query_service.query.document_answers import record, server, tagged
from tests.unit.query_service.sessions import Json, Server, settled

__all__ = ["server"]


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
