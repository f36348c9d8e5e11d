"""Fixtures and rules that every test shares."""

import gc
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.brokers import kafka_broker

TESTS = Path(__file__).parent
# Directories below tests/, in the order they run: quick ones first. Each gives its tests a marker of its name.
ROOMS = {
    "unit": "no process but this one",
    "property": "random input against a perfect model",
    "docs": "the documents do what they say",
    "simulation": "whole services over simulated time and Kafka",
    "chart": "the Helm chart; needs helm and kubeconform",
    "integration": "needs a real Kafka",
    "browser": "needs Chromium",
    "spark": "needs Spark and a real Kafka",
}

# Brokers and Spark drivers of tests live for seconds or minutes: what they would gain of the JVM's second compiler
# is less than it takes.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")

# `ci` looks at new examples each time and prints how to get a failing one back; `dev` is for the edit loop.
hypothesis.settings.register_profile("ci", derandomize=False, print_blob=True, deadline=None)
hypothesis.settings.register_profile("dev", deadline=None, max_examples=50)
hypothesis.settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers of the rooms."""
    for room, meaning in ROOMS.items():
        config.addinivalue_line("markers", f"{room}: {meaning}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their room, and sort the rooms; the order within one stays."""
    for item in items:
        if (room := _room(item)) in ROOMS:
            item.add_marker(room)
    order = {room: place for place, room in enumerate(ROOMS)}
    items.sort(key=lambda item: order.get(_room(item), len(order)))


def _room(item: pytest.Item) -> str:
    return item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    """The bootstrap address of one real Kafka for the whole run; topics of a test begin with its `prefix`."""
    with kafka_broker() as bootstrap:
        yield bootstrap


@pytest.fixture
def prefix() -> str:
    """A beginning for the names of topics and groups that no other test and no other run has."""
    return f"t{uuid.uuid4().hex[:12]}-"


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage collection: Hypothesis is called back by it, and an interrupt that meets such a call is lost."""
    gc.disable()
    yield
    gc.enable()
