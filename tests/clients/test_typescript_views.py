"""Views of the TypeScript client over a real service: whatever happens, they show what a query finds.

Each has a twin, a view of the Python client. `STEPS` is the number of steps in Node, and that in Chromium; `make
test-all` takes 10,000 of each.
"""

import os
import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from typing import Any, NamedTuple

import pytest

from sowline import Client, LocalView
from sowline.client.publisher import Publisher
from tests.clients.drivers import Driver, in_chromium, in_node, page_server
from tests.integration.compaction import compact, end_haste, hasten_compaction
from tests.integration.load import new_seed
from tests.integration.services import Service, System, system
from tests.waiting import SECONDS_MAX, let_pass, wait_for

pytestmark = [pytest.mark.needs("node"), pytest.mark.usefixtures("package")]

STEPS = int(os.environ.get("STEPS", "0"))
"""The number of steps, if it is given."""

KEYS = 40
RING = 50

Json = dict[str, Any]

RECORDS: list[Json] = [
    {"filter": "/qty > 50", "order_by": "/region DESC, /qty"},
    {"filter": "/qty > 20", "options": "select=[-/,+/id,+/more/level]"},
    {"filter": "/region = 'north'", "order_by": "/serial DESC"},
    {"order_by": "/more/level TEXT, /id DESC"},
    {},
]
PAGES: list[Json] = [
    {"order_by": "/qty DESC, /id", "top_n": 10, "skip_n": 3},
    {"order_by": "/id", "top_n": 5, "skip_n": 0},
    {"order_by": "/region, /qty", "top_n": 7, "skip_n": 20, "filter": "/qty < 80"},
]
GROUPS: Json = {
    "order_by": "/region",
    "options": "grouping=[/region],projection=[/region,COUNT(1) AS /n,MAX(/qty) AS /most]",
}
CONFLATED: Json = {"filter": "/region = 'north'", "options": "conflation=50ms"}
WHOLE: Json = {"filter": "/qty < 60", "delta": False}


def camel(reading: Json) -> Json:
    """Return the arguments of a view as TypeScript has them."""
    names = {"order_by": "orderBy", "top_n": "topN", "skip_n": "skipN"}
    return {names.get(name, name): value for name, value in reading.items()}


class Twins:
    """A view of each client that asks for the same."""

    def __init__(self, driver: Driver, client: Client, topic: str, name: str, readings: list[Json]) -> None:
        self._driver = driver
        self._client = client
        self._topic = topic
        self._name = name
        self._readings = readings
        self._reading = readings[0]
        self._twin: LocalView = client.local_view(topic, **self._reading)
        self._twin.__enter__()
        self._driver.do("open", view=name, topic=topic, reading=camel(self._reading))

    @property
    def can_be_replaced(self) -> bool:
        """Whether there is something else that it may show."""
        return len(self._readings) > 1

    def replace(self, dice: random.Random, running: Service | None = None) -> None:
        """Replace both; the service, if it is given, is killed meanwhile."""
        chosen = dice.choice(self._readings)
        changes = {"filter": "", "options": "", **chosen}
        if before := self._reading.get("order_by"):
            changes.setdefault("order_by", before)
        self._reading = {"delta": self._reading.get("delta", True), **changes}
        answer = self._driver.start("replace", view=self._name, changes=camel(changes))
        if running is not None:
            restart(running, dice)
        self._twin.replace(**changes)
        answer()

    def reopen(self) -> None:
        """Begin the view of TypeScript from a saved copy."""
        self._driver.do("reopen", view=self._name, topic=self._topic, reading=camel(self._reading))

    def check(self) -> None:
        """Compare both with what a query finds, in its order, and let the service prove them."""
        expected = self._found()
        self._twin.wait_for(lambda view: dict(view) == expected, SECONDS_MAX)

        def shows() -> bool:
            state = self._driver.do("state", view=self._name)
            assert state["error"] is None
            return state["status"] == "live" and dict(state["records"]) == expected

        wait_for(shows, f"view {self._name} of {self._reading} to show what a query finds")
        state = self._driver.do("state", view=self._name)
        if self._reading.get("order_by"):
            assert [key for key, _ in state["records"]] == list(self._twin)
        assert (self._twin.verify(SECONDS_MAX), self._driver.do("prove", view=self._name)) == (True, True)

    def _found(self) -> Json:
        asked = {name: value for name, value in self._reading.items() if name != "delta"}
        if "conflation" in asked.get("options", ""):
            del asked["options"]
        return {m.sow_key or "": m.data for m in self._client.sow(self._topic, **asked) if m.command == "sow"}

    def close(self) -> None:
        """Leave the view of Python."""
        self._twin.close()


def restart(service: Service, dice: random.Random) -> None:
    """Kill the service the hard way, and start it again."""
    service.kill()
    let_pass(dice.uniform(0, 0.3))
    service.start()
    service.wait_ready()


def write(publisher: Publisher, topic: str, dice: random.Random) -> None:
    """Write a few commands of any kind."""
    for _ in range(dice.randrange(1, 6)):
        key = {"id": dice.randrange(KEYS)}
        body = key | {"region": dice.choice(("north", "south", "east")), "qty": dice.randrange(100)}
        more = {"more": {"level": dice.randrange(4), "text": "é"}, "serial": 2**53 + dice.randrange(1000)}
        delta = dice.choice(({"qty": dice.randrange(100)}, {"more": {"level": dice.randrange(4)}}, body))
        kind = dice.random()
        if kind < 0.4:
            publisher.publish(topic, body | more)
        elif kind < 0.5:
            publisher.publish(topic, body)
        elif kind < 0.85:
            publisher.delta_publish(topic, key | delta)
        elif kind < 0.97:
            publisher.sow_delete(topic, data=key)
        else:
            publisher.sow_delete(topic, filter=dice.choice(("/qty = 13", "/qty > 70")))
    publisher.flush()


class Machine:
    """Everything that may happen to the views, each step at random."""

    def __init__(self, made: System, query: Service, topic: str, driver: Driver, client: Client) -> None:
        self._system = made
        self._query = query
        self._topic = topic
        self._driver = driver
        self._publisher = made.publisher()
        readings = {
            "records": RECORDS,
            "page": PAGES,
            "groups": [GROUPS],
            "conflated": [CONFLATED],
            "whole": [WHOLE],
        }
        self._views = [Twins(driver, client, topic, name, given) for name, given in readings.items()]
        self._replaceable = [view for view in self._views if view.can_be_replaced]

    def step(self, dice: random.Random) -> None:
        """Do one thing."""
        kind = dice.random()
        if kind < 0.73:
            write(self._publisher, self._topic, dice)
        elif kind < 0.81:
            dice.choice(self._replaceable).replace(dice)
        elif kind < 0.85:
            dice.choice(self._views).reopen()
        elif kind < 0.89:
            self._driver.do("lose")
        elif kind < 0.9:
            self._be_away(dice)
        else:
            self.check()

    def step_rarely(self, number: int, dice: random.Random) -> None:
        """Do one of the things that take seconds, in turns."""
        if number % 3 == 0:
            restart(self._query, dice)
        elif number % 3 == 1:
            self._let_bookmarks_expire(dice)
        else:
            dice.choice(self._replaceable).replace(dice, running=self._query)

    def _be_away(self, dice: random.Random) -> None:
        self._driver.do("leave")
        for _ in range(dice.randrange(1, 20)):
            write(self._publisher, self._topic, dice)
        self._driver.do("comeBack")

    def _let_bookmarks_expire(self, dice: random.Random) -> None:
        self._driver.do("leave")
        left = self._system.bookmark(self._query.url, self._topic)
        write(self._publisher, self._topic, dice)

        def rewrite(number: int) -> None:
            for key in range(4):
                for _ in range(RING + 1):
                    self._publisher.delta_publish(self._topic, {"id": key, "n": number})
            self._publisher.flush()

        hasten_compaction(self._system, self._topic)
        compact(self._system, self._topic, rewrite, after=left, everywhere=True)
        end_haste(self._system, self._topic)
        # Until the service has applied these changes, its ring may still have all that the views missed.
        self._system.wait_settled(self._query.url, self._topic)
        self._driver.do("comeBack")

    def check(self) -> None:
        """Wait until the service has everything, and compare all views."""
        self._system.wait_settled(self._query.url, self._topic)
        for view in self._views:
            view.check()

    def close(self) -> None:
        """Leave the views."""
        for view in self._views:
            view.close()
        self._publisher.close()


class Runtime(NamedTuple):
    """Where the client runs, the steps of a commit there, and the steps between two of those that take seconds."""

    driver: Callable[[str], AbstractContextManager[Driver]]
    steps: int
    rare: int


RUNTIMES = [
    pytest.param(Runtime(in_node, 120, 40), id="node"),
    pytest.param(Runtime(in_chromium, 60, 20), id="chromium", marks=pytest.mark.needs("chromium")),
]


class ServedViews(NamedTuple):
    """A system with one topic, its query service, and the origin of a page that may ask it."""

    made: System
    query: Service
    topic: str
    origin: str


@pytest.fixture(scope="module")
def served(kafka: str, package: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedViews]:
    """Services that run, and a web server."""
    topic = f"t{uuid.uuid4().hex[:12]}-views"
    topics = [{"name": topic, "key": ["/id"], "partitions": 2}]
    with (
        page_server(tmp_path_factory.mktemp("page")) as origin,
        system(kafka, tmp_path_factory.mktemp("views"), topics) as made,
    ):
        materializer = made.service("materializer").start()
        query = made.service("query_service", ring_changes_max=RING, origins=origin).start()
        for service in (materializer, query):
            service.wait_ready()
        yield ServedViews(made, query, topic, origin)


@pytest.mark.timeout(420 + STEPS)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_views_show_what_a_query_finds(served: ServedViews, runtime: Runtime) -> None:
    """Commands, replacements, lost connections, expired bookmarks, and a service that is killed."""
    made, query, topic, origin = served
    steps, rare = STEPS or runtime.steps, max(runtime.rare, STEPS // 40)
    dice = random.Random(new_seed())
    with runtime.driver(origin) as driver:
        driver.do("connect", url=query.url)
        with Client(query.url) as client, closing(Machine(made, query, topic, driver, client)) as machine:
            for number in range(1, steps + 1):
                machine.step(dice)
                if number % rare == 0:
                    machine.step_rarely(number // rare, dice)
            machine.check()
        assert driver.do("about")["resets"] > 0, "expired bookmarks lead to groups that are marked reset"
