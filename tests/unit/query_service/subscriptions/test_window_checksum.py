"""The checksum of what a subscriber should hold, while its client pauses and resumes the subscription."""

import asyncio
from collections.abc import Iterator

import pytest

from sowline_query_service.query.query import Query
from sowline_query_service.subscriptions import window_checksum
from tests.unit.query_service.sessions import Server, settled
from tests.unit.query_service.subscriptions.replayed import commands, numbers_in


class HeldChecksum:
    """Holds up the checksum of a query until the test releases it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = asyncio.Event()
        self.released = asyncio.Event()
        self._made = window_checksum.window_checksum_of
        monkeypatch.setattr(window_checksum, "window_checksum_of", self._held)

    async def _held(self, query: Query) -> tuple[int, int]:
        self.begun.set()
        await self.released.wait()
        return await self._made(query)


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of one partition, loaded and empty."""
    server = Server(partitions=1, ring=10_000).loaded()
    with server.patched():
        yield server


@pytest.fixture
async def held(monkeypatch: pytest.MonkeyPatch) -> HeldChecksum:
    """The checksum that a test holds up."""
    return HeldChecksum(monkeypatch)


@pytest.mark.parametrize("options", ["", "conflation=1h"])
async def test_a_pause_within_a_proof_loses_nothing(server: Server, held: HeldChecksum, options: str) -> None:
    """What was changed since it is live again is sent, once, and the checksum counts all before its bookmark."""
    client = server.connect()
    client.ask("subscribe", sub_id="s", ack_type="processed", options=options)
    await client.read()
    client.ask("heartbeat", sub_id="s", command_id="h", ack_type="processed")
    await held.begun.wait()
    client.ask("pause", sub_id="s")
    await settled()
    client.ask("resume", sub_id="s")
    await settled()
    await client.read()
    for number in range(3):
        server.put({"id": number, "n": number})
    held.released.set()
    sent = await client.read()
    (checksum,) = (message for message in sent if message.get("command_id") == "h" and "records" in message)
    assert numbers_in(sent) == [0, 1, 2], commands(sent)
    assert (checksum["records"], checksum["bookmark"]) == (3, "orders:0@2")
