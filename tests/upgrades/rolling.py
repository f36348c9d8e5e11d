"""A rolling upgrade from the version before to this one, under load, and back. `make test-all` runs this.

One process after the other is replaced, over the same disks and ports, while publishers write and clients read on.
"""

import asyncio
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sowline import Client
from tests.integration import services
from tests.integration.load import Publishers, check_all, model_of, new_seed, write_marks
from tests.integration.services import Service, System, system
from tests.integration.test_two_workers import ViewLog
from tests.upgrades.earlier import ROOT, earlier_tree
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
    """Two workers and a query service, or a gateway over two nodes, all of the version before."""

    def __init__(self, made: System, shards: int) -> None:
        self.system = made
        self.topic = made.topics.topics[0].name
        workers = [
            Rolled(made, "materializer", data_dir=made.directory / f"disk{number}") for number in range(2)
        ]
        if shards == 1:
            nodes = []
            self.front = Rolled(made, "query_service")
        else:
            nodes = [Rolled(made, "query_service", shard=f"{number}/{shards}") for number in range(shards)]
            self.front = Rolled(made, "gateway", nodes=",".join(node.now.url for node in nodes))
        self.processes = [*workers, *nodes, self.front]
        for one in self.processes:
            one.now.start()
        for one in self.processes:
            one.now.wait_ready()

    @property
    def url(self) -> str:
        """What clients connect to, whichever version it is."""
        return self.front.now.url

    def check(self) -> None:
        """Compare everything with the model, once all is applied."""
        write_marks(self.system, self.url, self.topic)
        asyncio.run(check_all(model_of(self.system, self.topic), self.system, self.url, self.topic))


@pytest.fixture(autouse=True)
def _answers_of_either_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """The description of the HTTP API is that of this version: it has fields that the one before did not send."""
    monkeypatch.setattr(services, "check_answer", lambda *_: None)


@pytest.fixture(params=[1, 2], ids=["a query service", "two nodes and a gateway"])
def house(request: pytest.FixtureRequest, kafka: str, tmp_path: Path) -> Iterator[House]:
    """A system that runs by the version before."""
    name = f"t{uuid.uuid4().hex[:12]}-rolled"
    with system(kafka, tmp_path, [{"name": name, "key": ["/id"], "partitions": PARTITIONS}]) as made:
        yield House(made, request.param)


def test_a_rolling_upgrade_and_the_way_back(house: House) -> None:
    """A live view that is open during both gets each change once, and has the right records at the end.

    Every process is replaced twice. In between, workers of both versions share the partitions and hand them over:
    each reads the stored format and the changes of the other.
    """
    view_log = ViewLog()
    with Client(house.url) as client, client.local_view(house.topic, **view_log.callbacks) as view:
        for one in (*house.processes, *house.processes):
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


WORK = [
    1,
    [
        ["sow", {"id": 1, "qty": 5}],
        *2 * [["publish", {"id": 2, "qty": 7}], ["oof", {"id": 1, "qty": 0}]],
        ["sow", {"id": 2, "qty": 7}],
    ],
]
"""What the work of a client finds, whichever versions take part."""


@pytest.mark.parametrize("front", ["query_service", "gateway"])
@pytest.mark.parametrize("client", ["earlier", "later"])
def test_a_client_of_the_other_version(kafka: str, tmp_path: Path, client: str, front: str) -> None:
    """It publishes, subscribes, resumes and deletes, over services of the version after or before its own."""
    name = f"t{uuid.uuid4().hex[:12]}-rolled"
    with system(kafka, tmp_path, [{"name": name, "key": ["/id"]}]) as made:
        service = made.service if client == "earlier" else made.earlier_service
        processes = [service("materializer")]
        if front == "gateway":
            processes.append(service("query_service", shard="0/1"))
            processes.append(service("gateway", nodes=processes[-1].url))
        else:
            processes.append(service("query_service"))
        for one in processes:
            one.start()
        for one in processes:
            one.wait_ready()
        ran = subprocess.run(
            [sys.executable, "-P", Path(__file__).with_name("client_work.py"), processes[-1].url, name],
            env={"PYTHONPATH": str(earlier_tree() if client == "earlier" else ROOT)},
            capture_output=True,
            check=False,
        )
    assert (ran.returncode, ran.stderr.decode()) == (0, "")
    assert json.loads(ran.stdout) == WORK
