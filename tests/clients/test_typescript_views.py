"""Views of the TypeScript client over a real service: whatever happens, they show what a query finds.

Each has a twin, a view of the Python client. `STEPS` is the number of steps; `make test-all` takes 10,000.
"""

import json
import os
import random
import subprocess
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sowline import Client, LocalView
from sowline.client.publisher import Publisher
from tests.clients.typescript import PACKAGE
from tests.integration.compaction import compact, end_haste, hasten_compaction
from tests.integration.load import new_seed
from tests.integration.services import SECONDS_MAX, Service, System, system, wait_for

pytestmark = [pytest.mark.needs("node"), pytest.mark.usefixtures("package")]

STEPS = int(os.environ.get("STEPS", "300"))
RARE = max(50, STEPS // 40)
"""Steps between two of those that take seconds."""

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


class Driver:
    """The TypeScript client in a Node of its own."""

    def __init__(self) -> None:
        command = ["node", "--enable-source-maps", str(Path(__file__).with_name("driver.mjs")), str(PACKAGE)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answers: dict[int, Future[Any]] = {}
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def start(self, do: str, **given: Any) -> "Future[Any]":
        """Give a command, and return its answer as it will be."""
        assert self._process.stdin is not None
        id = len(self._answers)
        answer = self._answers[id] = Future()
        self._process.stdin.write(json.dumps({"id": id, "do": do, **given}) + "\n")
        self._process.stdin.flush()
        return answer

    def do(self, do: str, **given: Any) -> Any:
        """Give a command, and return its answer."""
        return self.start(do, **given).result(SECONDS_MAX)

    def close(self) -> None:
        """Let the client close everything: then nothing keeps its process alive, and it ends without an error."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            assert self._process.wait(SECONDS_MAX) == 0
        finally:
            self._process.kill()
            self._reader.join()
            assert self._process.stdout is not None
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            if "reason" in answer:
                self._answers[answer["id"]].set_exception(AssertionError(answer["reason"]))
            else:
                self._answers[answer["id"]].set_result(answer["value"])


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
        changes = {"filter": "", "order_by": "", "options": "", **chosen}
        self._reading = {"delta": self._reading.get("delta", True), **changes}
        answer = self._driver.start("replace", view=self._name, changes=camel(changes))
        if running is not None:
            restart(running, dice)
        self._twin.replace(**changes)
        answer.result(SECONDS_MAX)

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
    threading.Event().wait(dice.uniform(0, 0.3))
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
        write(self._publisher, self._topic, dice)

        def rewrite(number: int) -> None:
            for key in range(4):
                for _ in range(RING):
                    self._publisher.delta_publish(self._topic, {"id": key, "n": number})
            self._publisher.flush()

        hasten_compaction(self._system, self._topic)
        compact(self._system, self._topic, rewrite, everywhere=True)
        end_haste(self._system, self._topic)
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


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[System, Service, str]]:
    """A system with one topic."""
    topic = f"t{uuid.uuid4().hex[:12]}-views"
    with system(
        kafka, tmp_path_factory.mktemp("views"), [{"name": topic, "key": ["/id"], "partitions": 2}]
    ) as made:
        materializer = made.service("materializer").start()
        query = made.service("query_service", ring_changes_max=RING).start()
        for service in (materializer, query):
            service.wait_ready()
        yield made, query, topic


@pytest.mark.timeout(420 + STEPS)
def test_views_show_what_a_query_finds(served: tuple[System, Service, str]) -> None:
    """Commands, replacements, lost connections, expired bookmarks, and a service that is killed."""
    made, query, topic = served
    dice = random.Random(new_seed())
    with closing(Driver()) as driver:
        driver.do("connect", url=query.url)
        with Client(query.url) as client, closing(Machine(made, query, topic, driver, client)) as machine:
            for number in range(1, STEPS + 1):
                machine.step(dice)
                if number % RARE == 0:
                    machine.step_rarely(number // RARE, dice)
            machine.check()
        assert driver.do("resets") > 0, "expired bookmarks lead to groups that are marked reset"
