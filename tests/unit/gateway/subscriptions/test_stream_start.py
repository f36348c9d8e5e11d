"""How a subscription at a gateway begins: from now, from a bookmark, and while it is paused and resumed."""

import asyncio
from functools import partial

import pytest

from tests.unit.gateway.rig import Rig, rig
from tests.unit.gateway.subscriber import Subscriber, holds, matching, subscriber
from tests.waiting import until

pytestmark = pytest.mark.slow


async def test_a_subscription_from_now_and_from_a_bookmark() -> None:
    """From now on only changes come; from a bookmark, all changes since then, each once."""
    async with rig(["0/2", "1/2"]) as made:
        for number in range(10):
            made.put({"id": number, "v": 1})
        bookmark = (await made.client().ask("sow", top_n=0))[0]["bookmark"]
        async with subscriber(made, command="subscribe", ack_type="processed,completed") as mine:
            await mine.until(lambda: len(mine.acks()) == 2)
            for number in range(10):
                made.put({"id": number, "v": 2})
            await mine.until(lambda: len(mine.held) == 10)
        async with subscriber(
            made, command="sow_and_subscribe", bookmark=bookmark, ack_type="processed,completed,stats"
        ) as mine:
            await mine.until(lambda: len(mine.acks()) == 3)
            await mine.until(lambda: len(mine.held) == 10)
            assert all(record["v"] == 2 for record in mine.held.values())
            assert sum(one["command"] == "publish" for one in mine.messages) == 10
            assert sum(one["command"] == "group_begin" for one in mine.messages) == 0


@pytest.mark.parametrize("command", ["subscribe", "sow_and_subscribe"])
async def test_a_bookmark_that_has_expired(command: str) -> None:
    """With `reset` the client gets everything again, from all nodes; without it, the error of the node."""
    async with rig(["0/2", "1/2"], ring=3) as made:
        for number in range(10):
            made.put({"id": number, "v": 1})
        bookmark = (await made.client().ask("sow", top_n=0))[0]["bookmark"]
        for turn in range(10):
            for number in range(10):
                made.put({"id": number, "v": turn})
        gone = made.nodes[0].server
        gone.written[_held_by(made, 0)[0]].clear()
        with gone.patched(), made.nodes[1].server.patched():
            async with subscriber(made, command=command, bookmark=bookmark, options="reset") as mine:
                await mine.until(lambda: any(one.get("reset") for one in mine.messages))
                await mine.until(lambda: mine.held == matching(made))
                made.put({"id": 3, "v": 77})
                await mine.until(lambda: mine.held == matching(made))
            async with subscriber(made, command=command, bookmark=bookmark) as mine:
                await mine.until(lambda: ("processed", "bookmark_expired") in mine.acks())


def _held_by(made: Rig, number: int) -> list[int]:
    return list(made.nodes[number].server.topic.partitions)


async def test_pause_resume_and_checksums_while_it_begins() -> None:
    """A pause holds although no node had begun; a checksum is refused, and does not hang."""
    async with rig(["0/2", "1/2"]) as made:
        made.put({"id": 1, "v": 1})
        for node in made.nodes:
            await node.stop()
        async with subscriber(made, command="subscribe", ack_type="processed") as mine:
            mine.send("heartbeat", command_id="h", topic="")
            await mine.until(lambda: ("processed", "not ready") in mine.acks())
            mine.send("pause", command_id="p", ack_type="processed")
            mine.send("heartbeat", command_id="i", topic="")
            await mine.until(lambda: ("processed", "not supported") in mine.acks())
            for node in made.nodes:
                await node.start()
            await mine.until(lambda: any("bookmark" in one for one in mine.messages))
            async with subscriber(made, command="sow_and_subscribe") as other:
                await other.until(partial(holds, other, 1))
                made.put({"id": 2, "v": 2})
                await other.until(partial(holds, other, 2))
            assert not mine.held
            mine.send("resume", command_id="r", ack_type="processed")
            await mine.until(lambda: len(mine.held) == 1)


@pytest.mark.parametrize("options", ["pause", "pause,rate=1000"])
async def test_a_pause_ends_while_a_subscription_begins(options: str) -> None:
    """Its nodes are asked while it is paused, and begin after that: it gets the changes since its bookmark."""
    async with rig(["0/1"]) as made:
        bookmark = (await made.client().ask("sow", top_n=0))[0]["bookmark"]
        made.put({"id": 1, "v": 1})
        await made.nodes[0].stop()
        with made.patched():
            async with subscriber(made, command="subscribe", bookmark=bookmark, options=options) as mine:
                await until(lambda: made.node_set.announcements.lost)
                mine.send("resume", command_id="r")
                await made.nodes[0].start()
                await mine.until(lambda: mine.held == matching(made))


@pytest.mark.parametrize("options", ["", "pause"])
async def test_pause_and_resume_while_the_snapshot_is_sent(options: str) -> None:
    """The last command counts once the snapshot has been sent, whether the subscription began paused or not."""
    async with rig(["0/2", "1/2"], partitions=2) as made:
        for number in range(3000):
            made.put({"id": number, "v": 1, "text": "x" * 500})
        client = made.client()
        mine = Subscriber(client)
        mine.send("sow_and_subscribe", options=options)
        await until(lambda: client.session.outbox.unsent_bytes)
        mine.send("resume" if options else "pause", command_id="p")
        reading = asyncio.create_task(mine.read())
        await mine.until(lambda: len(mine.held) == 3000)
        async with subscriber(made, command="subscribe", ack_type="processed") as other:
            await other.until(lambda: bool(other.acks()))
            made.put({"id": 1, "v": 2})
            await other.until(partial(holds, other, 1))
        if not options:
            assert not any(one["command"] == "publish" for one in mine.messages)
            mine.send("resume", command_id="r")
        await mine.until(lambda: any(one["command"] == "publish" for one in mine.messages))
        reading.cancel()
        await asyncio.wait([reading])
