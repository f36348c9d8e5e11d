"""The windows that one subscription keeps open while it is replaced."""

from sowline.serving.result import QueryLimits
from tests.unit.query_service.live.test_window import TOTALS
from tests.unit.query_service.sessions import Server


async def test_a_window_that_has_failed_makes_room_for_its_successor() -> None:
    """The client replaces its subscription in the turn in which the window fails, with the same groups."""
    server = Server(limits=QueryLimits(groups_max=2)).loaded()
    with server.patched():
        for group in range(2):
            server.put({"id": group, "n": 1, "g": group})
        client = server.connect()
        client.ask("sow_and_subscribe", sub_id="s", options=TOTALS)
        await client.read()
        # A third group, one more than allowed, which is gone again before the client gets the failure.
        server.put({"id": 7, "n": 1, "g": 7})
        server.put(None, key=7)
        client.ask("sow_and_subscribe", sub_id="s", options=f"{TOTALS},replace")
        await client.read()
        server.put({"id": 0, "n": 5, "g": 0})
        messages = await client.read()
        assert [(m["command"], m["data"]["total"]) for m in messages] == [("publish", 5)]
