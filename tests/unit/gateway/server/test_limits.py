"""What one client may have at a gateway."""

from unittest.mock import patch

from sowline_gateway.server import commands
from tests.unit.gateway.rig import rig

PACED = "rate=100"


async def test_a_replacement_opens_no_connections_beyond_the_limit() -> None:
    """A shared subscription that is replaced frees none; one that has its own connections frees them."""
    async with rig(["0/2", "1/2"]) as made:
        client = made.client()
        with patch.object(commands, "UNSHARED_MAX", 1):
            for name in ("1", "2"):
                (accepted,) = await client.ask("subscribe", command_id=name, ack_type="processed")
                assert accepted["status"] == "success", accepted
            (paced,) = await client.ask(
                "subscribe", command_id="1", options=f"replace,{PACED}", bookmark="now", ack_type="processed"
            )
            assert paced["status"] == "success", paced["message"]
            (refused,) = await client.ask(
                "subscribe", command_id="2", options=f"replace,{PACED}", bookmark="now", ack_type="processed"
            )
            assert (refused["status"], refused["reason"]) == ("failure", "too many subscriptions")
            (again,) = await client.ask(
                "subscribe", command_id="1", options=f"replace,{PACED}", bookmark="now", ack_type="processed"
            )
            assert again["status"] == "success", again
