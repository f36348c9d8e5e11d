"""Writes through the gateway: which nodes are asked, and what their reports make."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from sowline.changes.change import DELETE, DELETED, Change
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.commands.command import PUBLISH, Origin
from sowline.config.topic_definition import TopicDefinition
from sowline.language.filter import compile_filter
from sowline.model.bookmark import parse_bookmark
from sowline.model.key import partition_of, sow_key
from sowline.model.position import Position
from sowline.serving.access.login_session import LoginSession
from sowline.serving.authorization.entitlements import EVERYTHING, Entitlement, Rights, to_read, to_write
from sowline.serving.authorization.identity import ANYBODY, Identity
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.sessions.session import Session
from sowline.serving.writes.checked_command import CheckedCommand
from sowline.serving.writes.pending_commands import WriteService
from sowline_gateway.context import GatewayContext
from sowline_gateway.nodes import failover
from sowline_gateway.nodes.node_set import NodeSet
from sowline_gateway.server.commands import GatewayCommands
from sowline_gateway.writes import destination, outcome_watch
from tests.unit.gateway.rig import Json, Rig, RigClient, rig
from tests.unit.query_service.sessions import DOMAIN
from tests.waiting import until

PARTITIONS = 4
MINE = Entitlement("orders", compile_filter("/desk = 'NY'"))
TRADER = Rights(to_read(MINE), to_write(MINE))

Events = list[tuple[int, Event]]
MakeEvents = Callable[[Origin], Events]


class FakeLog:
    """Takes commands, and applies the events that a function makes of each, at all nodes."""

    def __init__(self, made: Rig, events: MakeEvents, late: bool = False) -> None:
        self.commands: list[CheckedCommand] = []
        self.events = events
        self.nodes = made.nodes
        """The nodes that apply the events."""
        self._is_late = late

    def write(self, command: CheckedCommand) -> "asyncio.Future[Origin]":
        """Write a command: its events are applied before Kafka's acknowledgement arrives, or after."""
        self.commands.append(command)
        written: asyncio.Future[Origin] = asyncio.get_running_loop().create_future()
        origin = Origin(command.partition, 5)
        if not self._is_late:
            self.apply(origin)
        written.set_result(origin)
        return written

    def apply(self, origin: Origin) -> None:
        """Apply what the command makes, at the nodes."""
        for partition, event in self.events(origin):
            for node in self.nodes:
                node.take(event, partition)

    async def close(self) -> None:
        """Do nothing."""


def client_of(made: Rig, log: FakeLog, rights: Rights = EVERYTHING) -> RigClient:
    """Return a client of a gateway that writes to this log."""
    context = GatewayContext.of(made.node_set, made.http, made.limits, {})
    writes = WriteService(context.writes.destination, cast("Any", log))
    login, outbox = LoginSession(Identity("", (), rights, ANYBODY.proof)), Outbox(1 << 20)
    context = replace(context, writes=writes, streams=made.context.streams)
    session = Session(GatewayCommands(context, outbox, login), outbox, login)
    made.sessions.append(session)
    return RigClient(session)


def applied(origin: Origin) -> Events:
    """Return the change of a publish."""
    position = Position(0, origin.offset)
    key = sow_key(DOMAIN, "1")
    return [(origin.partition, Change(key, b'{"id":1}', None, position, Position(0, -1), PUBLISH, 0))]


def progress(offset: int, outcomes: dict[str, str], origins: dict[int, int]) -> Progress:
    """Return a progress event at an offset, the first of its partition."""
    return Progress(Position(0, offset), Position(0, -1), offset, origins, "", "", 0, outcomes)


def deleted(origin: Origin) -> Events:
    """Return the events of a delete for all: its partition deletes none, the next one two, the others none."""
    own, other = origin.partition, (origin.partition + 1) % PARTITIONS

    def delete(nth: int, after: Position, **more: Any) -> Change:
        key, position = sow_key(DOMAIN, str(nth)), Position(0, 9, nth)
        return Change(key, None, b"{}", position, after, DELETE, 0, reason=DELETED, origin=origin, **more)

    first = delete(0, Position(0, -1), last=False)
    return [
        (own, progress(origin.offset, {str(origin.offset): "deleted 0"}, {})),
        (other, first),
        (other, delete(1, first.position, outcome="deleted 2")),
        *(
            (number, progress(3, {}, {own: origin.offset}))
            for number in range(PARTITIONS)
            if number not in (own, other)
        ),
    ]


def forwarded(origin: Origin) -> Events:
    """Return the events of a command that goes on to another partition, which makes a change."""
    to = (origin.partition + 2) % PARTITIONS
    change = Change(
        sow_key(DOMAIN, "1"), b"{}", None, Position(0, 7), Position(0, -1), PUBLISH, 0, origin=origin
    )
    return [(origin.partition, progress(5, {"5": f"forwarded {to}"}, {})), (to, change)]


async def all_nodes_answer(made: Rig) -> None:
    """Wait until all shards have answered something that they were asked later."""
    answer = await made.client().ask("sow")
    assert answer[-1]["status"] == "success"


async def write(client: RigClient, command: str = "publish", **fields: Any) -> list[Json]:
    """Return the acknowledgements of a write; after a failure there are no more."""
    given = {"data": {"id": 1}} if command == "publish" else {}
    return await client.ask(command, ack_type="persisted,processed,stats", **(given | fields))


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("shards", [["0/1"], ["0/2", "1/2"], ["0/4", "1/4", "2/4", "3/4"]])
@pytest.mark.parametrize(
    ("events", "command", "fields", "outcome", "records_deleted"),
    [
        (applied, "publish", {}, "applied", 0),
        (forwarded, "publish", {}, "applied", 0),
        (deleted, "sow_delete", {"filter": "1=1"}, "deleted 0", 2),
    ],
)
async def test_an_outcome_is_made_of_all_reports(
    events: MakeEvents,
    command: str,
    fields: Json,
    outcome: str,
    records_deleted: int,
    shards: list[str],
    is_late: bool,
) -> None:
    """Also if the command is applied before Kafka acknowledges it."""
    async with rig(shards, PARTITIONS) as made:
        log = FakeLog(made, events, is_late)
        asked = asyncio.create_task(write(client_of(made, log), command, **fields))
        if is_late:
            await until(lambda: bool(log.commands))
            await all_nodes_answer(made)
            assert not asked.done()
            log.apply(Origin(log.commands[0].partition, 5))
        persisted, processed, stats = await asked
        own = log.commands[0].partition
        assert persisted["bookmark"] == f"orders:{own}@5"
        assert processed["outcome"] == outcome
        assert stats["records_deleted"] == records_deleted
        concerned = {partition for partition, _ in events(Origin(own, 5))}
        assert parse_bookmark(processed["effect"])["orders"].keys() == concerned


async def test_a_missing_shard_matters_only_to_its_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command for them is not written; one for others is."""
    monkeypatch.setattr(failover, "FAILOVER_SECONDS", 0.2)
    async with rig(["0/2", "1/2"], PARTITIONS) as made:
        log = FakeLog(made, applied)
        client = client_of(made, log)
        await made.nodes[1].stop()
        here, there = (
            next(n for n in range(100) if partition_of(str(n), PARTITIONS) in node.server.topic.partitions)
            for node in made.nodes
        )
        [refused] = await write(client, data={"id": there})
        assert refused["reason"] == "shard unavailable"
        assert str(partition_of(str(there), PARTITIONS)) in refused["message"]
        [refused] = await write(client, "sow_delete", filter="1=1")
        assert refused["reason"] == "shard unavailable"
        assert not log.commands
        kept = made.nodes[0].context.destination.outcomes.logs
        await until(lambda: not kept)
        assert (await write(client, data={"id": here}))[1]["outcome"] == "applied"


async def test_another_replica_reports_when_one_is_lost() -> None:
    """It was asked to before the command was written."""
    async with rig(["0/2", "0/2", "1/2", "1/2"], PARTITIONS) as made:
        log = FakeLog(made, applied, late=True)
        asked = asyncio.create_task(write(client_of(made, log)))
        await until(lambda: bool(log.commands))
        own = log.commands[0].partition
        holders = [node for node in made.nodes if own in node.server.topic.partitions]
        await all_nodes_answer(made)
        await holders[0].stop()
        await all_nodes_answer(made)
        assert not asked.done()
        log.apply(Origin(own, 5))
        assert (await asked)[1]["outcome"] == "applied"


async def test_a_lost_report_is_an_error() -> None:
    """The command is on the log: the error says so."""
    async with rig(["0/2", "1/2"], PARTITIONS) as made:
        log = FakeLog(made, applied, late=True)
        asked = asyncio.create_task(write(client_of(made, log)))
        await until(lambda: bool(log.commands))
        await all_nodes_answer(made)
        for node in made.nodes:
            await node.stop()
        persisted, refused = await asked
        assert persisted["ack_type"] == "persisted"
        assert refused["reason"] == "shard unavailable"
        assert "the command is on the log" in refused["message"]


async def test_watches_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes keep reports only while commands are written."""
    monkeypatch.setattr(outcome_watch, "KEPT_SECONDS", 0.3)
    monkeypatch.setattr(destination, "KEPT_SECONDS", 0.3)
    async with rig(["0/2", "1/2"], PARTITIONS) as made:
        log = FakeLog(made, applied, late=True)
        asked = asyncio.create_task(write(client_of(made, log)))
        await until(lambda: bool(log.commands))
        kept = [node.context.destination.outcomes.logs for node in made.nodes]
        # However long it takes: a watch that commands use does not end.
        assert all(kept)
        log.apply(Origin(log.commands[0].partition, 5))
        assert (await asked)[1]["outcome"] == "applied"
        await until(lambda: not any(kept))


async def test_many_commands_share_a_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one time: the nodes are asked to watch once."""
    monkeypatch.setattr(outcome_watch, "KEPT_SECONDS", 3600)
    begun: list[str] = []

    class Counted(outcome_watch.TopicWatch):
        def __init__(self, nodes: NodeSet, topic: TopicDefinition, query_id: str) -> None:
            super().__init__(nodes, topic, query_id)
            begun.append(query_id)

    monkeypatch.setattr(destination, "TopicWatch", Counted)
    async with rig(["0/2", "1/2"], PARTITIONS) as made:
        client = client_of(made, FakeLog(made, applied))
        outcomes = [(await write(client))[1]["outcome"] for _ in range(20)]
        assert (outcomes, len(begun)) == (["applied"] * 20, 1)


@pytest.mark.parametrize(
    ("command", "fields", "is_refused"),
    [
        ("publish", {"data": {"id": 1, "desk": "NY"}}, False),
        ("publish", {"data": {"id": 1, "desk": "LN"}}, True),
        ("publish", {"data": {"id": 2, "desk": "NY"}}, True),
        ("publish", {"data": {"id": 9, "desk": "NY"}}, False),
        ("delta_publish", {"data": {"id": 1, "n": 1}}, False),
        ("delta_publish", {"data": {"id": 2, "n": 1}}, True),
        ("sow_delete", {"data": {"id": 2}}, True),
        ("sow_delete", {"sow_keys": [sow_key(DOMAIN, "1").decode()]}, False),
        ("sow_delete", {"sow_keys": [sow_key(DOMAIN, "1").decode(), sow_key(DOMAIN, "2").decode()]}, True),
    ],
)
async def test_writes_of_some_records_are_checked(command: str, fields: Json, is_refused: bool) -> None:
    """Against the records that the nodes hold."""
    async with rig(["0/2", "1/2"], PARTITIONS) as made:
        made.put({"id": 1, "desk": "NY"})
        made.put({"id": 2, "desk": "LN"})
        log = FakeLog(made, lambda origin: [])
        client = client_of(made, log, TRADER)
        [answer] = await client.ask(command, ack_type="persisted", **fields)
        assert answer.get("reason") == ("not entitled" if is_refused else None), answer
        assert len(log.commands) == (not is_refused)


async def test_an_answer_shows_the_effect_that_was_reported() -> None:
    """A replica that has not applied the command is not asked."""
    async with rig(["0/1", "0/1"], PARTITIONS) as made:
        ahead = made.nodes[0]
        log = FakeLog(made, applied)
        log.nodes = [ahead]
        client = client_of(made, log)
        await write(client)
        for _ in range(10):
            answer = await client.ask("sow")
            assert answer[-1]["matches"] == 1


async def test_only_gateways_follow_outcomes() -> None:
    """A client of a node writes through it."""
    async with rig(["0/1"]) as made:
        for command in ("watch_outcomes", "outcome"):
            [refused] = await made.whole_client().ask(command, ack_type="processed")
            assert "only from a gateway" in refused["message"]
