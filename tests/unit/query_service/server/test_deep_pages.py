"""Deep pages that a gateway asks for: samples of the skipped records, then the range of records that it fetches."""

from collections.abc import Iterator

import pytest

from sowline.model.key import sow_key
from sowline.serving.authorization.entitlements import EVERYTHING
from tests.unit.query_service.sessions import DOMAIN, Client, Json, Server

PAGE: Json = {"order_by": "/n", "skip_n": 5, "top_n": 3, "merges": True, "sample_n": 2, "ack_type": "stats"}


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of ten records, whose order is that of their ids."""
    server = Server().loaded()
    for number in range(10):
        server.put({"id": number, "n": number * 10})
    with server.patched():
        yield server


@pytest.fixture
def gateway(server: Server) -> Client:
    """A gateway, which acts for a client."""
    return server.connect(delegated=EVERYTHING)


def key_of(number: int) -> str:
    """Return a record's SOW key."""
    return sow_key(DOMAIN, str(number)).decode()


def ids(messages: list[Json]) -> list[int]:
    """Return the ids of the records that were sent."""
    batches = [message["records"] for message in messages if message["command"] == "sow"]
    return [record["data"]["id"] for records in batches for record in records]


async def test_samples_come_first(gateway: Client) -> None:
    """Of the skipped records every second one; the records follow once they are fetched."""
    gateway.ask("sow", **PAGE)
    begin, samples = await gateway.read()
    assert begin["command"] == "group_begin"
    assert samples == {
        "command": "samples",
        "query_id": "1",
        "ordering": [["orders", key_of(1), 10], ["orders", key_of(3), 30]],
    }
    gateway.ask("fetch", skip_n=4, top_n=3)
    *batches, end, stats = await gateway.read()
    assert ids(batches) == [4, 5, 6]
    assert [batch["ordering"] for batch in batches] == [[[key_of(n), n * 10]] for n in (4, 5, 6)]
    assert (end["command"], end["records"]) == ("group_end", 3)
    assert (stats["matches"], stats["records_returned"]) == (10, 3)


async def test_no_records_beyond_the_page(gateway: Client) -> None:
    """A gateway may not fetch more than it asked the query for, and finds nothing beyond the last record."""
    for skip, found in ((6, [6, 7]), (8, []), (100, [])):
        gateway.ask("sow", **PAGE)
        await gateway.read()
        gateway.ask("fetch", skip_n=skip, top_n=100)
        assert ids(await gateway.read()) == found


async def test_samples_and_records_are_of_one_instant(server: Server, gateway: Client) -> None:
    """What changes between them is not in the answer."""
    gateway.ask("sow", **PAGE)
    await gateway.read()
    for number in range(4, 8):
        server.put({"id": number, "n": -1} if number % 2 else None, key=number)
    gateway.ask("fetch", skip_n=4, top_n=4)
    assert ids(await gateway.read()) == [4, 5, 6, 7]


async def test_a_gateway_that_goes_away(gateway: Client) -> None:
    """A query that waits counts as one that runs, and ends with its connection."""
    gateway.ask("sow", **PAGE)
    await gateway.read()
    commands = gateway.session.commands
    assert commands.queries_count == 1
    gateway.session.close()
    assert await gateway.read() == []
    assert commands.queries_count == 0
    gateway.ask("fetch", top_n=1)
    (refused,) = await gateway.read()
    assert refused["reason"] == "bad request"


async def test_a_fetch_needs_a_query_that_waits(gateway: Client) -> None:
    """A fetch is refused before the samples, after another one, and without a number."""
    gateway.ask("sow", **PAGE)
    gateway.ask("fetch", top_n=1)
    gateway.ask("fetch", query_id="other", top_n=1)
    *refused, _, samples = await gateway.read()
    assert [message["reason"] for message in refused] == ["bad request"] * 2
    assert samples["command"] == "samples"
    gateway.ask("fetch")
    (refused_too,) = await gateway.read()
    assert "query that waits for it" in refused_too["message"]
    gateway.ask("fetch", top_n=1)
    gateway.ask("fetch", top_n=2)
    answer = await gateway.read()
    assert ids(answer) == [0]
    assert [message["reason"] for message in answer if message.get("status") == "failure"] == ["bad request"]


async def test_only_gateways_ask_for_samples(server: Server) -> None:
    """Others are refused, and so is a number of samples that does not exist."""
    client = server.connect()
    client.ask("sow", order_by="/n", top_n=1, sample_n=2)
    client.ask("fetch", top_n=1)
    client.ask("sow", top_n=1, sample_n=-1)
    texts = [message["message"] for message in await client.read()]
    assert [text.partition(" ")[0] for text in texts] == ["expected"] * 3
    assert "only from a gateway" in texts[0]
    assert "sample_n of 0 or more" in texts[2]
