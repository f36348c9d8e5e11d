"""Fixtures and rules that every test shares."""

import gc
import os
import random
import signal
import tempfile
import uuid
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest
from xdist.remote import Producer
from xdist.scheduler.loadscope import LoadScopeScheduling
from xdist.workermanage import WorkerController

from sowline.runtime import ports
from tests import hanging, tools
from tests.brokers import kafka_broker
from tests.examples import ARE_NEW, examples

TESTS = Path(__file__).parent
# Directories below tests/, in the order they run: quick ones first. The last has many modules, none of them long, so
# that several processes end at about the same time. Each gives its tests a marker of its name.
SUITES = {
    "unit": "no process but this one",
    "property": "random input against a perfect model",
    "docs": "the documents do what they say",
    "simulation": "whole services over simulated time and Kafka",
    "chart": "the Helm chart; needs helm and kubeconform",
    "spark": "needs Spark and a real Kafka",
    "clients": "clients in other languages; needs a real Kafka",
    "browser": "needs Chromium",
    "integration": "needs a real Kafka",
}

QUICK = {"unit", "property", "docs"}
"""Suites of which `make check` runs the quick tests."""

OWN_SPARKS = {
    "tests/spark/test_demo.py",
    "tests/spark/test_lake.py",
    "tests/spark/test_wait.py",
}
"""Modules whose tests start Spark as processes of its own, so that they can run beside those of the session."""

WITH_REGISTRY = {
    f"tests/integration/test_{name}.py"
    for name in (
        "message_types",
        "message_types_example",
        "pulled_schemas",
        "registry",
        "serdes",
        "typed_fanouts",
    )
}
"""Modules whose tests use the schema registry, whose start computes for ten seconds: one process has them all."""

SHRINKING_SECONDS_MAX = 420
"""The limit of a property: Hypothesis takes 300 seconds at most to find the shortest example of what fails."""

REPORTER = "gw0"
"""The worker that reports which tools are missing."""

# Brokers and Spark drivers of tests live for seconds or minutes: what they would gain of the JVM's second compiler
# is less than it takes. The usual collector's threads take a third of what a Spark computes until it ends.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Commands find a running `sowline up` by a file in this directory: not one of the user's, nor of another worker.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="sowline-state-")

# A shell without job control (`sh -c 'make test &'`) starts its background commands with these signals ignored, and
# what tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)

hypothesis.settings.register_profile("sowline", examples(100, derandomize=not ARE_NEW, print_blob=True))
hypothesis.settings.load_profile("sowline")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers of the suites, and give each worker ports of its own.

    Two workers that chose the same port at one time would talk to each other's services.
    """
    if hasattr(config, "workerinput"):
        number, count = config.workerinput["workerid"].removeprefix("gw"), config.workerinput["workercount"]
        ports.PORTS = ports.PORTS[int(number) :: count]
    for suite, meaning in SUITES.items():
        config.addinivalue_line("markers", f"{suite}: {meaning}")
    config.addinivalue_line(
        "markers", "needs(*tools): tools of tests/tools.py; without them, the test is left out"
    )
    config.addinivalue_line("markers", "quick: what `make check` runs")
    config.addinivalue_line("markers", "slow: of seconds, so that `make check` leaves it to `make test`")
    config.addinivalue_line(
        "markers",
        "long: of ten seconds and more, which `make test` leaves to `make test-all` and the nightly run",
    )
    config.addinivalue_line("markers", "one_node: about a query service that holds all partitions")
    config.pluginmanager.register(hanging)
    tools.extend_path()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the modules and tests out of garbage collection: they stay to the end, and are most of the heap."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Mark tests by their suite, and sort the suites and modules; in a module, the order is random.

    Of several processes one has all tests of a Spark session, and begins with them: nothing else takes as long.
    """
    modules = {module: number for number, module in enumerate(dict.fromkeys(map(_module_of, items)))}
    for item in items:
        if (suite := _suite(item)) in SUITES:
            item.add_marker(suite)
        if suite in QUICK and not item.get_closest_marker("slow") and not _needs_kafka(item):
            item.add_marker("quick")
        if hypothesis.is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.timeout(SHRINKING_SECONDS_MAX))
        if os.environ.get("SHARDS") and item.get_closest_marker("one_node"):
            item.add_marker(pytest.mark.skip(reason="it is about a query service that holds all partitions"))
    # The plugin shuffles with the dice that all share: each worker would choose the names and ports of the others.
    dice = random.getstate()
    yield
    random.setstate(dice)
    is_one_of_several = hasattr(config, "workerinput")
    order = {suite: number for number, suite in enumerate(SUITES)}

    def position(item: pytest.Item) -> tuple[int, int]:
        module = _module_of(item)
        if is_one_of_several and _needs_session(module):
            return -1, modules[module]
        return order.get(_suite(item), len(order)), modules[module]

    items.sort(key=position)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what needs a tool that is not there; in CI, only where nothing can install it."""
    for name in _missing(item):
        leave_out = pytest.fail if os.environ.get("CI") and tools.TOOLS[name].install else pytest.skip
        leave_out(f"needs {name}: {tools.TOOLS[name].by_hand}")


def pytest_report_collectionfinish(items: list[pytest.Item]) -> list[str]:
    """Say at the start which tools are missing, and how many tests that leaves out."""
    return tools.report([_missing(item) for item in items])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """With `-n`, only workers collect: give one of them a file for that report."""
    if node.gateway.id == REPORTER:
        report, node.workerinput["report"] = tempfile.mkstemp(prefix="sowline-tools-", text=True)
        os.close(report)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Write the report, in the worker that has the file for it."""
    if path := getattr(session.config, "workerinput", {}).get("report"):
        Path(path).write_text("\n".join(pytest_report_collectionfinish(session.items)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: WorkerController) -> None:
    """Print the report of the worker that has written it."""
    if path := node.workerinput.pop("report", None):
        printer = node.config.pluginmanager.get_plugin("terminalreporter")
        for line in Path(path).read_text().splitlines():
            printer.write_line(line)
        Path(path).unlink()


def _missing(item: pytest.Item) -> list[str]:
    return tools.missing(name for mark in item.iter_markers("needs") for name in mark.args)


def _needs_kafka(item: pytest.Item) -> bool:
    return "kafka" in getattr(item, "fixturenames", ())


class SideBySide(LoadScopeScheduling):
    """Hands out whole modules, so that what serves one starts once, and those of a Spark session or of a registry
    together.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = _module(nodeid)
        if module in WITH_REGISTRY:
            return "registry"
        return "tests/spark" if _needs_session(module) else module


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SideBySide:
    """With `-n`, tests run in several processes, each of which has one broker, or none."""
    return SideBySide(config, log)


def _module(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def _module_of(item: pytest.Item) -> str:
    return _module(item.nodeid)


def _needs_session(module: str) -> bool:
    """Whether the tests of a module share the Spark session of their process."""
    return module.startswith("tests/spark/") and module not in OWN_SPARKS


def _suite(item: pytest.Item) -> str:
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
