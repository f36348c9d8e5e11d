"""Fixtures and rules that every test shares."""

import gc
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from xdist.remote import Producer
from xdist.scheduler.loadscope import LoadScopeScheduling

from tests.brokers import kafka_broker

TESTS = Path(__file__).parent
# Directories below tests/, in the order they run: quick ones first. Each gives its tests a marker of its name.
ROOMS = {
    "unit": "no process but this one",
    "property": "random input against a perfect model",
    "docs": "the documents do what they say",
    "simulation": "whole services over simulated time and Kafka",
    "chart": "the Helm chart; needs helm and kubeconform",
    "spark": "needs Spark and a real Kafka",
    "integration": "needs a real Kafka",
    "browser": "needs Chromium",
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


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by their room, and sort the rooms; the order within one stays.

    Of several processes one has all of Spark's tests, and begins with them: nothing else takes as long.
    """
    for item in items:
        if (room := _room(item)) in ROOMS:
            item.add_marker(room)
    is_one_of_several = hasattr(config, "workerinput")
    order = {room: -1 if room == "spark" and is_one_of_several else place for place, room in enumerate(ROOMS)}
    items.sort(key=lambda item: order.get(_room(item), len(order)))


class SideBySide(LoadScopeScheduling):
    """Hands out whole modules, so that what serves one starts once, and the tests of Spark together: one session."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return "tests/spark" if module.startswith("tests/spark/") else module


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SideBySide:
    """With `-n`, tests run in several processes, each of which has one broker, or none."""
    return SideBySide(config, log)


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
