"""A rolling upgrade from the version before to this one, under load, and back. `make test-all` runs this.

One process after the other is replaced, over the same disks and ports, while publishers write and clients read on.
"""

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sowline import Client
from tests.integration.load import Publishers, check_all, model_of, new_seed, write_marks
from tests.integration.services import Service, System, system
from tests.integration.test_two_workers import ViewLog
from tests.waiting import wait_for

pytestmark = [pytest.mark.timeout(420)]

PARTITIONS = 4
MORE = 300
"""Commands that are written before each replacement; more are while it lasts."""


class Rolled:
    """A process that is of the version before or of this one, and what it keeps."""

    def __init__(self, made: System, name: str, **settings: object) -> None:
        self.earlier = made.earlier_service(name, **settings)
        self.later = made.service(name, port=self.earlier.port, **settings)
        self.now: Service = self.earlier

    def replace(self) -> None:
        """End it, and start the other version in its place."""
        self.now.stop()
        self.now = self.later if self.now is self.earlier else self.earlier
        self.now.start().wait_ready()


class House:
    """Two workers and a query service, all of the version before."""

    def __init__(self, made: System) -> None:
        self.system = made
        self.topic = made.topics.topics[0].name
        self.workers = [
            Rolled(made, "materializer", data_dir=made.directory / f"disk{number}") for number in range(2)
        ]
        self.query = Rolled(made, "query_service")
        for one in (*self.workers, self.query):
            one.now.start()
        for one in (*self.workers, self.query):
            one.now.wait_ready()

    @property
    def url(self) -> str:
        """The query service, whichever version it is."""
        return self.query.now.url

    def check(self) -> None:
        """Compare everything with the model, once all is applied."""
        write_marks(self.system, self.url, self.topic)
        asyncio.run(check_all(model_of(self.system, self.topic), self.system, self.url, self.topic))


@pytest.fixture
def house(kafka: str, tmp_path: Path) -> Iterator[House]:
    """A system that runs by the version before."""
    name = f"t{uuid.uuid4().hex[:12]}-rolled"
    with system(kafka, tmp_path, [{"name": name, "key": ["/id"], "partitions": PARTITIONS}]) as made:
        yield House(made)


def test_a_rolling_upgrade_and_the_way_back(house: House) -> None:
    """A live view that is open during both gets each change once, and has the right records at the end.

    Every process is replaced twice. In between, workers of both versions share the partitions and hand them over:
    each reads the stored format and the changes of the other.
    """
    view_log = ViewLog()
    with Client(house.url) as client, client.local_view(house.topic, **view_log.callbacks) as view:
        for one in (*house.workers, house.query, *house.workers, house.query):
            with Publishers(house.system, house.topic, new_seed(), count=1) as publishers:
                wait_for(lambda load=publishers: load.written >= MORE, "the load to begin")
                one.replace()
        house.check()
        view_log.check(view, model_of(house.system, house.topic))


@pytest.mark.parametrize("start", ["earlier", "later"])
def test_a_view_is_computed_by_both(kafka: str, tmp_path: Path, start: str) -> None:
    """The partial states that one version has written, the other goes on from."""
    name = f"t{uuid.uuid4().hex[:12]}-rolled"
    view = {"name": f"{name}-sums", "from": name, "grouping": ["/region"]}
    topics = [{"name": name, "key": ["/id"], "partitions": 2}]
    views = [{**view, "projection": ["SUM(/qty) AS /qty", "COUNT(1) AS /n"]}]
    with system(kafka, tmp_path, topics, views=views) as made:
        processes = [Rolled(made, one) for one in ("materializer", "views", "query_service")]
        if start == "later":
            for one in processes:
                one.now = one.later
        for one in processes:
            one.now.start()
        for one in processes:
            one.now.wait_ready()
        made.write(name, {"id": 1, "region": "a", "qty": 5}, {"id": 2, "region": "b", "qty": 7})

        def sums() -> dict[str, tuple[int, int]]:
            with Client(processes[2].now.url) as client:
                records = [one.data for one in client.sow(f"{name}-sums") if one.command == "sow"]
            return {one["region"]: (one["qty"], one["n"]) for one in records}

        wait_for(lambda: sums() == {"a": (5, 1), "b": (7, 1)}, "the groups of the first version")
        for one in processes:
            one.replace()
        made.write(name, {"id": 1, "region": "b", "qty": 5}, {"id": 3, "region": "b", "qty": 1})
        wait_for(lambda: sums() == {"b": (13, 3)}, "the groups of the other version")
