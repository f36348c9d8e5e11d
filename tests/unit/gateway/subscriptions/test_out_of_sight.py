"""What a user is told at a gateway of records that leave its sight while its client is paused, away, or replaced."""

import pytest

from sowline.language.filter import compile_filter
from sowline.model.bookmark import format_bookmark
from sowline.serving.authorization.entitlements import Entitlement, Rights, to_read
from tests.unit.gateway.rig import Json, Rig, rig
from tests.unit.gateway.subscriber import subscriber

pytestmark = pytest.mark.slow

RIGHTS = Rights(read=to_read(Entitlement("orders", compile_filter("/v < 5"))))
KINDS: dict[str, Json] = {
    "records": {"options": "oof"},
    "page": {"options": "oof", "order_by": "/id", "skip_n": 0, "top_n": 9},
}


def leave(made: Rig) -> None:
    """Hide two records, and delete two; then write one of each two again, out of sight."""
    for number in (0, 1):
        made.put({"id": number, "v": 9})
    for number in (2, 3):
        made.put(None, number)
    made.put(None, 1)
    made.put({"id": 3, "v": 9})


@pytest.mark.parametrize("way", ["pause", "back", "replace", "lost node"])
@pytest.mark.parametrize("kind", KINDS)
async def test_what_happens_out_of_sight_is_not_sent(kind: str, way: str) -> None:
    """The change that took a record out of sight decides, however the client comes to know of it."""
    asked = {"command": "sow_and_subscribe", **KINDS[kind]}
    async with rig(["0/2", "0/2", "1/2", "1/2"]) as made:
        for number in range(4):
            made.put({"id": number, "v": number})
        with made.patched():
            async with subscriber(made, RIGHTS, **asked) as mine:
                await mine.until(lambda: any(one["command"] == "group_end" for one in mine.messages))
                held, bookmark = dict(mine.held), format_bookmark(mine.bookmark)
                if way != "back":
                    mine.send("pause", command_id="2", sub_id="mine")
                    leave(made)
                    if way == "lost node":
                        await made.nodes[0].stop()
                        await made.nodes[2].stop()
                    if way == "replace":
                        options = f"{asked['options']},replace"
                        mine.send(**asked | {"options": options, "filter": "/id < 9", "command_id": "3"})
                    else:
                        mine.send("resume", command_id="3", sub_id="mine")
                    await mine.until(lambda: not mine.held)
                found = mine
            if way == "back":
                leave(made)
                async with subscriber(made, RIGHTS, **asked, bookmark=bookmark) as again:
                    again.held = held
                    await again.until(lambda: not again.held)
                    found = again
        left = {one["data"]["id"]: one["reason"] for one in found.messages if one["command"] == "oof"}
        assert left == {0: "entitlement", 1: "entitlement", 2: "deleted", 3: "deleted"}
