"""The past of a topic of which a user may see some records and some fields: nothing of the rest comes."""

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from sowline.language.filter import compile_filter
from sowline.model.key import digest_of, sow_key
from sowline.model.select import parse_select
from sowline.serving.authorization.entitlements import Entitlement, Rights, to_read
from tests.unit.query_service.sessions import DOMAIN, Client, Json, Server, view_of
from tests.unit.query_service.subscriptions.test_bookmark_resolver import first_offsets, log_offsets_at

RIGHTS = Rights(
    to_read(Entitlement("orders", compile_filter("/desk = 'NY'"), parse_select("[-/secret,-/more/secret]")))
)
HISTORY = ", history: {window: 1h}"
COMMANDS = (
    "sow",
    "sow",
    "sow_and_subscribe",
    "sow_and_delta_subscribe",
    "subscribe",
    "delta_subscribe",
    "explain",
)
OPTIONS = ("", "oof", "oof,conflation=1ms", "no_empties", "oof,select=[+/secret,+/n]", "timestamp")
GROUPS = "oof,projection=[/n,COUNT(/id) AS /c],grouping=[/n]"
FILTERS = ("", "", "/n = 1", "/desk = 'LN'", "/x IS NULL", "CORRELATION_ID() = 'HIDDEN'", "SOW_KEY() > '1'")
STEPS = 40


def record(chance: random.Random) -> tuple[Json, str]:
    """Return a record and the correlation id of its write; all that may not be seen says HIDDEN."""
    number, secret = chance.randrange(5), f"HIDDEN{chance.randrange(3)}"
    common = {"id": number, "n": chance.randrange(3), "secret": secret, "more": {"secret": secret}}
    if chance.random() < 0.5:
        return common | {"desk": "NY", "x": chance.randrange(2)}, "seen"
    return common | {"desk": "LN", "name": "HIDDEN"}, "HIDDEN"


def time_of(number: int) -> str:
    """The log time of a server's change at an offset, as a bookmark: one a millisecond."""
    return f"19700101T000001.{number:03}Z"


@pytest.fixture
def server() -> Iterator[Server]:
    """A server with history."""
    server = Server(more=HISTORY, ring=3).loaded()
    with patched(server):
        yield server


async def in_the_loop(work: Callable[..., Any], *given: Any) -> Any:
    """Do work at once that is otherwise done in a thread: how long a thread takes is not known."""
    return work(*given)


@contextmanager
def patched(server: Server) -> Iterator[None]:
    """Let the server tell where times are."""
    with (
        server.patched(),
        patch("sowline_query_service.subscriptions.bookmark_resolver.log_offsets_at", log_offsets_at(server)),
        patch("sowline_query_service.subscriptions.bookmark_resolver.first_offsets", first_offsets),
        patch("sowline_query_service.subscriptions.end.log_offsets_at", log_offsets_at(server)),
        patch("asyncio.to_thread", in_the_loop),
    ):
        yield


def ask(client: Client, chance: random.Random, last: int, step: int) -> None:
    """Ask for something at a past time, from one, or from one to another."""
    command = chance.choice(COMMANDS)
    is_window = command.startswith("sow") and chance.random() < 0.4
    fields: dict[str, Any] = {"bookmark": time_of(chance.randrange(last + 1))}
    fields["options"] = chance.choice((*OPTIONS, GROUPS) if is_window else OPTIONS)
    if is_window:
        fields |= {"top_n": 2, "skip_n": chance.randrange(2), "order_by": "/n"}
    elif command not in ("sow", "explain") and chance.random() < 0.3:
        fields["up_to"] = "now"
    if command in ("sow", "explain"):
        fields["options"] = "timestamp" if fields["options"] != GROUPS else GROUPS
    client.ask(
        command,
        filter=chance.choice(FILTERS),
        command_id=str(step),
        sub_id=str(step),
        ack_type="processed,completed,stats" if command == "sow" else "processed",
        **fields,
    )


@pytest.mark.parametrize("seed", range(60))
async def test_nothing_hidden_comes(seed: int) -> None:
    """Of the records as they were, of what became of them since, and of what happens then."""
    chance = random.Random(seed)
    server = Server(more=HISTORY, ring=chance.choice([3, 1000])).loaded()
    received: list[Json] = []
    with patched(server):
        body, correlation = record(chance)
        last = server.put(body, correlation=correlation).offset
        client = server.connect(RIGHTS)
        for step in range(STEPS):
            if chance.random() < 0.3:
                ask(client, chance, last, step)
            elif chance.random() < 0.1 and server.bodies:
                key = json.loads(chance.choice([*server.bodies.values()]))["id"]
                last = server.put(None, key).offset
            else:
                body, correlation = record(chance)
                last = server.put(body, correlation=correlation).offset
            if chance.random() < 0.4 or step == STEPS - 1:
                received += await client.read()
                assert "HIDDEN" not in json.dumps(received)
    reasons = {m.get("reason") for m in received if m["command"] == "ack"}
    assert reasons <= {None, "bad filter"}, reasons


def write_story(server: Server) -> None:
    """Write at the times 0 to 5: record 1 can be seen at first and at last, record 2 can't at first."""
    server.put({"id": 1, "desk": "NY", "n": 1, "secret": "HIDDEN"}, correlation="c0")
    server.put({"id": 2, "desk": "LN", "n": 2}, correlation="c1")
    server.put({"id": 1, "desk": "LN", "n": 3}, correlation="c2")
    server.put({"id": 2, "desk": "NY", "n": 4, "secret": "HIDDEN"}, correlation="c3")
    server.put({"id": 1, "desk": "NY", "n": 5, "more": {"secret": "HIDDEN"}}, correlation="c4")
    server.put(None, 2, correlation="c5")


@pytest.mark.parametrize(
    ("time", "expected"), [(0, {1: 1}), (1, {1: 1}), (2, {}), (3, {2: 4}), (4, {1: 5, 2: 4}), (5, {1: 5})]
)
async def test_what_counts_is_whether_a_record_could_be_seen_then(
    server: Server, time: int, expected: dict[int, int]
) -> None:
    """Not whether it can be seen now. The counts and the hash are of what is sent."""
    write_story(server)
    client = server.connect(RIGHTS)
    client.ask("sow", bookmark=time_of(time), ack_type="stats")
    messages = await client.read()
    assert {one["id"]: one["n"] for one in view_of(messages).values()} == expected
    end = next(m for m in messages if m["command"] == "group_end")
    hash = 0
    for number in expected:
        hash ^= digest_of(sow_key(DOMAIN, str(number)))
    assert (end["records"], end["hash"]) == (len(expected), f"{hash:016x}")
    stats = next(m for m in messages if m["command"] == "ack")
    assert (stats["matches"], stats["records_returned"]) == (len(expected), len(expected))
    client.ask("sow", bookmark=time_of(time), ack_type="stats", sow_keys=[sow_key(DOMAIN, "2").decode()])
    stats = next(m for m in await client.read() if m["command"] == "ack")
    assert (stats["topic_matches"], stats["matches"]) == (1, int(2 in expected))


@pytest.mark.parametrize("command", ["sow_and_subscribe", "sow_and_delta_subscribe", "subscribe"])
async def test_a_replay_tells_what_came_into_sight_and_what_left_it(server: Server, command: str) -> None:
    """What leaves has the body that could be seen, and no correlation id; what comes is whole."""
    write_story(server)
    client = server.connect(RIGHTS)
    client.ask(command, bookmark=time_of(0), options="oof")
    messages = await client.read()
    assert "HIDDEN" not in json.dumps(messages)
    live = [
        (m["command"], m.get("reason"), m["data"]["id"], m["data"]["n"], m.get("correlation_id"))
        for m in messages
        if m["command"] in ("publish", "oof")
    ]
    assert live == [
        ("oof", "entitlement", 1, 1, None),
        ("publish", None, 2, 4, "c3"),
        ("publish", None, 1, 5, "c4"),
        ("oof", "deleted", 2, 4, "c5"),
    ]
    assert not any("delta" in m for m in messages)
