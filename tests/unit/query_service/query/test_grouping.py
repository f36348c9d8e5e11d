"""Queries whose records are groups."""

from typing import Any

from tests.unit.query_service.sessions import Server

GROUPED = "grouping=[/n],projection=[/n,COUNT(1) AS /records]"


async def test_the_limit_is_that_of_the_groups() -> None:
    """Each group counts all of its records, however few groups are asked for."""
    server = Server().loaded()
    with server.patched():
        for number, group in enumerate((0, 1, 0, 2, 1, 0)):
            server.put({"id": number, "n": group})
        client = server.connect()
        client.ask("sow", options=GROUPED, order_by="/n", skip_n=1, top_n=1)
        messages = await client.read()
    found: list[Any] = [message["records"] for message in messages if message["command"] == "sow"]
    assert [record["data"] for records in found for record in records] == [{"n": 1, "records": 2}]
