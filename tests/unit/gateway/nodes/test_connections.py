"""The connections to nodes that wait for their next query."""

import pytest

from sowline.language.filter import compile_filter
from sowline.serving.authorization.entitlements import Entitlement, Rights, to_read
from sowline_gateway.nodes import connections
from tests.unit.gateway.rig import rig
from tests.waiting import until


async def test_idle_connections_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those with rights that nobody has any more too; a connection that is used within the time stays."""
    monkeypatch.setattr(connections, "IDLE_SECONDS_MAX", 0.05)
    async with rig(["0/1"]) as made:
        pool = made.node_set.connections
        for user in range(3):
            rights = Rights(to_read(Entitlement("orders", compile_filter(f"/owner = 'u{user}'"))))
            client = made.client(rights)
            assert (await client.ask("sow"))[-1]["status"] == "success"
            client.session.close()
        await until(lambda: not pool.idle)
        monkeypatch.setattr(connections, "IDLE_SECONDS_MAX", 30.0)
        client = made.client()
        for _ in range(2):
            assert (await client.ask("sow"))[-1]["status"] == "success"
        assert pool.idle == 1
