"""A server with changes to replay, and what is sent of them."""

from collections.abc import Callable, Iterator
from unittest.mock import patch

import pytest

from tests.unit.query_service.sessions import Client, Json, Server
from tests.unit.query_service.subscriptions.test_bookmark_resolver import first_offsets, log_offsets_at
from tests.waiting import until

ALL_ACKS = "processed,completed,stats"


@pytest.fixture
def server() -> Iterator[Server]:
    """A server whose ring holds little, with ten changes of four records in two partitions."""
    server = Server(partitions=2, ring=3).loaded()
    with (
        server.patched(),
        patch("sowline_query_service.subscriptions.bookmark_resolver.log_offsets_at", log_offsets_at(server)),
        patch("sowline_query_service.subscriptions.bookmark_resolver.first_offsets", first_offsets),
        patch("sowline_query_service.subscriptions.end.log_offsets_at", log_offsets_at(server)),
    ):
        for number in range(10):
            server.put({"id": number % 4, "n": number}, partition=number % 2)
        yield server


def numbers_in(messages: list[Json]) -> list[int]:
    """Return the numbers in the changes that were sent."""
    return [message["data"]["n"] for message in messages if message["command"] == "publish"]


def commands(messages: list[Json]) -> list[str]:
    """Return the commands of messages, and the kinds of acknowledgements."""
    return [message["ack_type"] if "ack_type" in message else message["command"] for message in messages]


def acks(messages: list[Json]) -> list[Json]:
    """Return the acknowledgements."""
    return [message for message in messages if message["command"] == "ack"]


async def read_until(client: Client, condition: Callable[[list[Json]], bool]) -> list[Json]:
    """Return what is sent until something holds of it: other threads may have to answer first."""
    messages: list[Json] = []

    async def have_come() -> bool:
        messages.extend(await client.read())
        return condition(messages)

    await until(have_come)
    return messages
