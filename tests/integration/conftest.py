"""Connections to whatever system a module serves."""

from collections.abc import Iterator

import pytest

from tests.integration.registry import schema_registry
from tests.integration.served import Served, ServedTopic
from tests.integration.wire import Wire, wire


@pytest.fixture
def client(served: Served) -> Iterator[Wire]:
    """A connection of the test's own."""
    with wire(served.query.url) as client:
        yield client


@pytest.fixture
def other(served: Served) -> Iterator[Wire]:
    """Another one."""
    with wire(served.query.url) as client:
        yield client


@pytest.fixture
def records(served: Served) -> ServedTopic:
    """An empty topic, keyed by `id`."""
    topic = served["records"]
    topic.clear()
    return topic


@pytest.fixture(scope="session")
def registry() -> Iterator[str]:
    """The URL of a schema registry, for all tests: each takes subjects of its own."""
    with schema_registry() as server:
        yield server.url
