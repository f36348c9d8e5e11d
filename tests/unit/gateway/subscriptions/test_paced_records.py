"""Replays at a gateway, with an end or a rate: the changes of all nodes, in the order of their time."""

import pytest

from sowline.model.bookmark import format_bookmark, parse_bookmark
from tests.unit.gateway.rig import Json, rig
from tests.unit.gateway.subscriber import matching, subscriber

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("command", ["subscribe", "delta_subscribe"])
@pytest.mark.parametrize(
    "fields", [{"up_to": "now"}, {"options": "rate=100000"}, {"up_to": "now", "options": "conflation=20ms"}]
)
async def test_a_replay_is_in_the_order_of_time(fields: Json, command: str) -> None:
    """Across all nodes; with an end, it ends there, and says so last."""
    async with rig(["0/3", "1/3", "2/3"]) as made:
        for number in range(60):
            made.put({"id": number % 20, "v": number})
        end = format_bookmark({"orders": made.whole.topic.positions})
        given = {"ack_type": "processed,completed", "bookmark": "epoch", **fields}
        given["options"] = ",".join(filter(None, ["timestamp", given.get("options", "")]))
        with made.patched():
            async with subscriber(made, command=command, **given) as mine:
                await mine.until(lambda: ("completed", "") in mine.acks())
                assert mine.acks() == [("processed", ""), ("completed", "")]
                live = [message for message in mine.messages if message["command"] == "publish"]
                times = [message["timestamp"] for message in live]
                assert mine.held == matching(made)
                if "conflation" not in given["options"]:
                    assert times == sorted(times)
                    assert len(live) == 60
                assert mine.bookmark == parse_bookmark(end)
                made.put({"id": 1, "v": 100})
                if "up_to" in fields:
                    async with subscriber(made, command="sow_and_subscribe") as other:
                        await other.until(lambda: other.held == matching(made))
                    assert mine.held != matching(made)
                    assert mine.messages[-1]["ack_type"] == "completed"
                else:
                    await mine.until(lambda: mine.held == matching(made))


async def test_a_replay_ends_at_its_end() -> None:
    """Its last bookmark is the end also of partitions without a change that matches."""
    async with rig(["0/2", "1/2"]) as made:
        for number in range(40):
            made.put({"id": number, "v": number})
        end = {"orders": made.whole.topic.positions}
        fields: Json = {"bookmark": "epoch", "up_to": format_bookmark(end), "filter": "/v = 7"}
        with made.patched():
            async with subscriber(
                made, command="subscribe", ack_type="processed,completed", **fields
            ) as mine:
                await mine.until(lambda: ("completed", "") in mine.acks())
                assert parse_bookmark(mine.messages[-1]["bookmark"]) == end


async def test_a_replay_continues_at_another_node() -> None:
    """Nothing is left out or repeated, and the end stays the one of the beginning."""
    async with rig(["0/2", "0/2", "1/2", "1/2"]) as made:
        for number in range(400):
            made.put({"id": number, "v": number})
        with made.patched():
            async with subscriber(
                made,
                command="subscribe",
                bookmark="epoch",
                up_to="now",
                options="rate=2000",
                ack_type="processed,completed",
            ) as mine:
                await mine.until(lambda: len(mine.held) > 20)
                made.put({"id": 999, "v": 1})
                await made.nodes[0].stop()
                await made.nodes[2].stop()
                await mine.until(lambda: ("completed", "") in mine.acks())
                assert sorted(record["id"] for record in mine.held.values()) == list(range(400))
                assert len([one for one in mine.messages if one["command"] == "publish"]) == 400
