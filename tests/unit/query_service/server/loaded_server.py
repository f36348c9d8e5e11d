"""A server of one partition that is loaded, and what tests read of its answers."""

from collections.abc import Iterator

import pytest

from sowline.model.key import sow_key
from tests.unit.query_service.sessions import DOMAIN, Json, Server


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of one partition, loaded and empty."""
    server = Server().loaded()
    with server.patched():
        yield server


def commands(messages: list[Json]) -> list[str]:
    """Return what kinds of messages came."""
    return [message["command"] for message in messages]


def key_of(number: object) -> str:
    """Return a record's SOW key."""
    return sow_key(DOMAIN, str(number)).decode()
