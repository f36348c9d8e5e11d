"""Members of shared streams, whatever they do and whenever nodes fail: each holds what it should."""

import asyncio
import random
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from sowline.model.key import hash_of
from tests.examples import examples
from tests.unit.gateway.rig import Json, Rig, rig
from tests.unit.gateway.streams.streams import has_all
from tests.unit.gateway.subscriber import Subscriber, change, matching, subscriber
from tests.waiting import pace

pytestmark = pytest.mark.slow


Steps = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.integers(1, 6)),
        st.tuples(
            st.just("join"), st.sampled_from(["subscribe", "sow_and_subscribe", "sow_and_delta_subscribe"])
        ),
        st.tuples(st.sampled_from(["pause", "resume", "leave", "prove", "wait"]), st.integers(0, 5)),
        st.tuples(st.just("cut"), st.integers(0, 3)),
    ),
    max_size=25,
)


@given(steps=Steps, seed=st.integers(0, 1 << 20))
@examples(20, suppress_health_check=list(HealthCheck))
def test_members_at_any_time(steps: list[tuple[str, Any]], seed: int) -> None:
    """Whenever they join, pause, resume and leave, and nodes cut connections, members hold what they should."""
    asyncio.run(run_steps(steps, random.Random(seed)))


async def run_steps(steps: list[tuple[str, Any]], chance: random.Random) -> None:
    """Run steps, then compare the view of each client that has a snapshot, and the messages of all."""
    async with rig(["0/2", "0/2", "1/2", "1/2"]) as made, AsyncExitStack() as stack:
        stack.enter_context(made.patched())
        clients: list[tuple[str, Subscriber]] = []
        for kind, how in steps:
            if kind == "join":
                fields: Json = {"command": how, "options": "oof", "ack_type": "processed"}
                clients.append((how, await stack.enter_async_context(subscriber(made, **fields))))
            elif kind in ("change", "wait", "cut"):
                await disturb(made, chance, kind, how)
            elif clients:
                command(clients, kind, how)
        for _, mine in clients:
            mine.send("resume", command_id="r")
        await disturb(made, chance, "change", 5)
        for how, mine in clients:
            await mine.until(partial(is_served, made, mine, how), f"{how}: {mine.acks()}")
            check_checksums(mine)


def is_served(made: Rig, mine: Subscriber, how: str) -> bool:
    """Return whether a client has what it should, or its snapshot ended with the error that a node was lost."""
    if ("processed", "shard unavailable") in mine.acks():
        return True
    return has_all(made, mine) and (how == "subscribe" or mine.held == matching(made))


async def disturb(made: Rig, chance: random.Random, kind: str, how: int) -> None:
    """Change records, cut the connections of a node, or wait."""
    if kind == "cut":
        made.node_set.connections.cut(made.nodes[how].url)
        return
    for _ in range(how if kind == "change" else 0):
        change(made, chance)
    await pace(0.002 if kind == "change" else how / 50)


def command(clients: list[tuple[str, Subscriber]], kind: str, how: int) -> None:
    """Let a client send a command about its subscription."""
    number = how % len(clients)
    sent = {"leave": "unsubscribe", "prove": "heartbeat"}.get(kind, kind)
    clients[number][1].send(sent, command_id=kind, topic="")
    if kind == "leave":
        del clients[number]


def check_checksums(mine: Subscriber) -> None:
    """Compare each checksum with what the client held when it came."""
    again = Subscriber(mine.client)
    for message in mine.messages:
        again.take(message)
        if "hash" in message and message["command"] == "progress" and again.has_snapshot:
            keys = [key.encode() for key in again.held]
            assert (message["records"], message["hash"]) == (len(keys), f"{hash_of(keys):016x}")
