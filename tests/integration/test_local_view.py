"""Local views over a real Kafka and real services: they show what a query finds, whatever happens meanwhile."""

import asyncio
import random
import re
import threading
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sowline import AsyncClient, Client, LocalView, SowlineError
from sowline.language.expressions.order import parse_order
from tests.integration.load import Publishers, new_seed
from tests.integration.services import Service, System, system
from tests.waiting import SECONDS_MAX, let_pass

KINDS = (
    *("followed", "killed", "saved", "shared", "replaced", "replaced-under-load"),
    *("async", "callbacks", "closed", "left", "page"),
)
PAGE = Path(__file__).parents[2] / "docs" / "client.md"

READINGS: list[dict[str, Any]] = [
    {},
    {"filter": "/qty > 50", "order_by": "/region DESC, /qty", "delta": False},
    {"filter": "/qty > 20", "options": "select=[-/,+/id,+/more/level]"},
    {"order_by": "/qty DESC, /id", "top_n": 10, "skip_n": 3},
    {
        "order_by": "/region",
        "options": "grouping=[/region],projection=[/region,COUNT(1) AS /n,MAX(/qty) AS /most]",
    },
    {"filter": "/region = 'north'", "options": "conflation=50ms"},
]


class Served:
    """A system with a topic for each test."""

    def __init__(self, made: System, names: dict[str, str], query: Service) -> None:
        self.system = made
        self.names = names
        self.query = query
        self.url = query.url

    def settle(self, topic: str) -> None:
        """Wait until the query service has all that was written."""
        self.system.wait_settled(self.url, topic)


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One materializer and one query service for all tests here."""
    prefix = f"t{uuid.uuid4().hex[:12]}"
    names = {kind: f"{prefix}-{kind}" for kind in KINDS}
    topics = [{"name": name, "key": ["/id"], "partitions": 2} for name in names.values()]
    with system(kafka, tmp_path_factory.mktemp("views"), topics) as made:
        services = [made.service(module).start() for module in ("materializer", "query_service")]
        for service in services:
            service.wait_ready()
        yield Served(made, names, services[1])


@pytest.fixture
def running(served: Served) -> Iterator[Service]:
    """The query service, for a test that stops it; it runs again afterwards."""
    yield served.query
    if not served.query.running:
        served.query.start()
    served.query.wait_ready()


@pytest.fixture(autouse=True)
def _no_callback_fails(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What a callback of these tests asserts holds: a view logs it where it does not."""
    yield
    assert [record.exc_text for record in caplog.get_records("call") if record.exc_info] == []


class Follower:
    """What one knows of a view from its callbacks alone."""

    def __init__(self) -> None:
        self.records: dict[str, Any] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.callbacks: dict[str, Any] = {
            "on_insert": self._insert,
            "on_update": self._update,
            "on_remove": self._remove,
        }

    def _insert(self, key: str, record: Any) -> None:
        assert key not in self.records
        self.records[key] = record
        self.calls.append(("insert", record.get("id", record)))

    def _update(self, key: str, record: Any, before: Any) -> None:
        assert self.records[key] == before != record
        self.records[key] = record
        self.calls.append(("update", before, record))

    def _remove(self, key: str, record: Any, reason: str) -> None:
        assert self.records.pop(key) == record
        self.calls.append(("remove", record, reason))


def ids(records: Mapping[str, Any]) -> list[Any]:
    """The records of a view or a query by their field /id, in their order; groups as they are."""
    return [record.get("id", record) for record in records.values()]


def found(client: Client, topic: str, reading: dict[str, Any]) -> dict[str, Any]:
    """What a query finds of what a view shows."""
    asked = {name: value for name, value in reading.items() if name != "delta"}
    if "conflation" in asked.get("options", ""):
        del asked["options"]
    return {m.sow_key or "": m.data for m in client.sow(topic, **asked) if m.command == "sow"}


def test_a_view_follows_what_is_published(served: Served) -> None:
    """Publishes, deltas and deletes; callbacks are told of each, and the filter and the order hold."""
    topic, follower = served.names["followed"], Follower()
    with Client(served.url) as client:
        client.publish(topic, {"id": 1, "qty": 10})
        client.publish(topic, {"id": 2, "qty": 99})
        client.flush()
        served.settle(topic)
        with client.local_view(topic, filter="/qty < 50", order_by="/qty DESC", **follower.callbacks) as view:
            assert (ids(view), view.error) == ([1], None)
            client.delta_publish(topic, {"id": 1, "text": "é", "n": 12345678901234567890})
            client.publish(topic, {"id": 3, "qty": 20.50})
            client.delta_publish(topic, {"id": 2, "qty": 30})
            client.flush()
            view.wait_for(
                lambda view: len(view) == 3 and "text" in next(reversed(list(view.values()))), SECONDS_MAX
            )
            assert ids(view) == [2, 3, 1]
            client.delta_publish(topic, {"id": 3, "qty": 50})
            client.sow_delete(topic, data={"id": 1})
            client.flush()
            view.wait_for(lambda view: ids(view) == [2], SECONDS_MAX)
            assert follower.records == view
            assert view.saved().bookmark.startswith(f"{topic}:0@")
        assert follower.calls[:1] == [("insert", 1)]
        changed = {"id": 1, "qty": 10, "text": "é", "n": 12345678901234567890}
        assert ("update", {"id": 1, "qty": 10}, changed) in follower.calls
        assert follower.calls.count(("remove", changed, "deleted")) == 1
        assert ("remove", {"id": 3, "qty": 20.5}, "match") in follower.calls
        assert ids(view) == [2]
        with pytest.raises(SowlineError, match="closed"):
            view.wait_for(lambda view: not view)


def test_the_example_of_the_page(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """Who copies it sees the record."""
    found = re.search(
        r"^## A local view$.*?^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    assert found is not None
    text = found[1].replace("http://127.0.0.1:8080", served.url).replace("orders", served.names["page"])
    exec(compile(text, PAGE, "exec"), {})
    assert capsys.readouterr().out.endswith(" {'id': 1, 'status': 'open', 'qty': 250}\n")


def test_refusals_are_raised_by_entering(served: Served) -> None:
    """And the client goes on."""
    with Client(served.url) as client:
        for wrong, reason in (
            ({"filter": "/a >"}, "bad filter"),
            ({"top_n": 1, "sow_keys": ["1"]}, "not supported"),
        ):
            with (
                pytest.raises(SowlineError) as error,
                client.local_view(served.names["followed"], **wrong),
            ):
                pass
            assert error.value.reason == reason
        with client.local_view(served.names["followed"], filter="FALSE") as view:
            assert view == {}


def test_views_outlive_their_service(served: Served, running: Service) -> None:
    """Killed during changes and started again, twice: every kind of view ends as what a query finds, in its order."""
    topic, seed = served.names["killed"], new_seed()
    with Client(served.url) as client:
        followers = [Follower() for _ in READINGS]
        views = [
            client.local_view(topic, **reading, **follower.callbacks)
            for reading, follower in zip(READINGS, followers, strict=True)
        ]
        for view in views:
            view.__enter__()
        dice = random.Random(seed)
        with Publishers(served.system, topic, seed, 2) as publishers:
            for _ in range(2):
                publishers.wait_written(dice.randrange(100, 600))
                running.kill()
                let_pass(dice.uniform(0.0, 0.3))
                running.start()
                running.wait_ready()
            publishers.wait_written(dice.randrange(100, 400))
        served.settle(topic)
        for view, follower, reading in zip(views, followers, READINGS, strict=True):
            expected = found(client, topic, reading)
            # Partitions catch up one after another. With a filter, the view may equal the query for a moment, and
            # then take another partition's records, which end later: after that moment, the callbacks have them.
            wait_until_equal(view, expected, follower)
            if "order_by" in reading:
                order = parse_order(reading["order_by"])
                assert list(view) == sorted(view, key=lambda key, v=view: order.key(v[key], key.encode()))  # type: ignore[misc]
            view.close()


def wait_until_equal(view: LocalView, expected: dict[str, Any], follower: Follower | None = None) -> None:
    """Wait until a view, and its callbacks, have shown these records after one step, or fail saying what differs."""
    called = expected if follower is None else follower.records
    try:
        view.wait_for(lambda view: dict(view) == expected == called, SECONDS_MAX)
    except TimeoutError:
        assert (dict(view), called) == (expected, expected), view.error


def test_a_saved_copy_is_gone_on_from(served: Served) -> None:
    """Only what has changed since is told."""
    topic = served.names["saved"]
    with Client(served.url) as client:
        served.system.write(topic, *({"id": number, "n": 0} for number in range(10)))
        served.settle(topic)
        with client.local_view(topic, order_by="/id") as view:
            saved = view.saved()
            assert view.bookmark == saved.bookmark
        client.delta_publish(topic, {"id": 3, "n": 1})
        client.sow_delete(topic, data={"id": 4})
        client.publish(topic, {"id": 10, "n": 0})
        client.flush()
        served.settle(topic)
        follower = Follower()
        follower.records = dict(view)
        with client.local_view(topic, order_by="/id", **saved._asdict(), **follower.callbacks) as again:
            again.wait_for(lambda again: ids(again) == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10], SECONDS_MAX)
            again.wait_for(lambda again: again.saved().bookmark != saved.bookmark, SECONDS_MAX)
            wait_until_equal(again, found(client, topic, {}))
            assert sorted(call[0] for call in follower.calls) == ["insert", "remove", "update"]


def test_views_of_one_client_share_messages(served: Served) -> None:
    """Each has exactly the fields that it selects, also of records that leave and come back."""
    topic, seed = served.names["shared"], new_seed()
    lists = ["[-/,+/id,+/qty]", "[-/more/text]", "[-/,+/more]", "[-/,+/id,+/region,+/more/level]"]
    readings: list[dict[str, Any]] = [{"options": f"select={text}", "filter": "/qty < 80"} for text in lists]
    with Client(served.url) as client:
        views = [client.local_view(topic, delta=bool(n % 3), **reading) for n, reading in enumerate(readings)]
        for view in views:
            view.__enter__()
        with Publishers(served.system, topic, seed, 1) as publishers:
            publishers.wait_written(300)
        served.settle(topic)
        for view, reading in zip(views, readings, strict=True):
            wait_until_equal(view, found(client, topic, reading))


def test_a_view_is_replaced(served: Served) -> None:
    """It shows the new records once `replace` returns; what is refused changes nothing."""
    topic, follower = served.names["replaced"], Follower()
    served.system.write(topic, *({"id": number, "b": number % 3} for number in range(9)))
    served.settle(topic)
    with (
        Client(served.url) as client,
        client.local_view(topic, filter="/b = 0", order_by="/id", **follower.callbacks) as view,
    ):
        assert ids(view) == [0, 3, 6]
        view.replace(filter="/b = 1 OR /id = 3")
        assert ids(view) == [1, 3, 4, 7]
        assert sorted(call[0] for call in follower.calls) == ["insert"] * 6 + ["remove"] * 2
        with pytest.raises(SowlineError) as error:
            view.replace(filter="/b =")
        assert error.value.reason == "bad filter"
        view.replace(order_by="/b DESC, /id DESC")
        assert ids(view) == [7, 4, 1, 3]
        assert follower.records == view
        with pytest.raises(SowlineError) as error:
            view.replace(top_n=2)
        assert (error.value.reason, view.error) == ("not supported", None)
        client.publish(topic, {"id": 9, "b": 1})
        client.delta_publish(topic, {"id": 4, "b": 2})
        client.flush()
        view.wait_for(lambda view: ids(view) == [9, 7, 1, 3], SECONDS_MAX)
        view.replace(options="select=[-/b]", order_by="/id")
        assert list(view.values()) == [{"id": number} for number in (1, 3, 7, 9)]
    with Client(served.url) as client, client.local_view(topic, order_by="/id", top_n=3) as page:
        assert ids(page) == [0, 1, 2]
        page.replace(skip_n=2)
        assert ids(page) == [2, 3, 4]
        page.replace(top_n=1, filter="/id > 3")
        assert ids(page) == [6]


def test_views_are_replaced_during_changes_and_lost_connections(served: Served, running: Service) -> None:
    """However often, and wherever the service is killed: in the end each shows what was asked for last."""
    topic, seed = served.names["replaced-under-load"], new_seed()
    dice = random.Random(seed)
    filters = ["/qty > 50", "/region = 'north'", "/qty < 30 OR /more/level = 2", ""]
    with (
        Client(served.url) as client,
        client.local_view(topic, filter="/qty > 10") as view,
        Publishers(served.system, topic, seed, 1),
    ):
        for number in range(8):
            last = {"filter": dice.choice(filters)}
            replacing = threading.Thread(target=view.replace, kwargs=last)
            replacing.start()
            if number % 4 == 3:
                let_pass(dice.choice((0, 0, 0.001, 0.005, 0.02)))
                running.kill()
                running.start()
                running.wait_ready()
            replacing.join(SECONDS_MAX)
            assert not replacing.is_alive()
    with Client(served.url) as client, client.local_view(topic, filter="/qty > 10") as view:
        view.replace(filter="/qty > 50")
        replacing = threading.Thread(target=view.replace, kwargs={"filter": "/qty < 70"})
        replacing.start()
        running.kill()
        running.start()
        replacing.join(SECONDS_MAX)
        # The replacement may have been shown before the kill.
        running.wait_ready()
        served.settle(topic)
        wait_until_equal(view, found(client, topic, {"filter": "/qty < 70"}))


async def test_an_asynchronous_view(served: Served) -> None:
    """The same for asyncio: several at a time, waiting, replacing, pages and groups."""
    topic, follower = served.names["async"], Follower()
    groups = "grouping=[/g],projection=[/g,SUM(/n) AS /sum]"
    async with (
        AsyncClient(served.url) as client,
        client.local_view(topic, order_by="/id", **follower.callbacks) as view,
        client.local_view(topic, order_by="/n DESC", top_n=2) as page,
        client.local_view(topic, order_by="/g", options=groups) as sums,
        asyncio.timeout(SECONDS_MAX),
    ):
        assert (view, page, sums) == ({}, {}, {})
        for number in range(5):
            await client.publish(topic, {"id": number, "g": "ab"[number % 2], "n": number})
        await client.flush()
        await view.wait_for(lambda view: len(view) == 5)
        await page.wait_for(lambda page: ids(page) == [4, 3])
        expected = [{"g": "a", "sum": 6}, {"g": "b", "sum": 4}]
        await sums.wait_for(lambda sums: list(sums.values()) == expected)
        await client.delta_publish(topic, {"id": 0, "n": 9})
        await client.sow_delete(topic, data={"id": 3})
        await client.flush()
        await page.wait_for(lambda page: ids(page) == [0, 4])
        await sums.wait_for(lambda sums: [one["sum"] for one in sums.values()] == [15, 1])
        await view.wait_for(lambda view: ids(view) == [0, 1, 2, 4] and next(iter(view.values()))["n"] == 9)
        await view.replace(filter="/g = 'b'")
        assert (ids(view), follower.records) == ([1], view)
        await page.replace(top_n=3, order_by="/id")
        assert ids(page) == [0, 1, 2]


def test_callbacks_may_use_the_client(served: Served) -> None:
    """They publish and query; they can't wait for their own view; they may close it."""
    topic = served.names["callbacks"]
    seen: list[Any] = []
    with Client(served.url) as client:

        def react(key: str, record: Any) -> None:
            with pytest.raises(RuntimeError, match="callback"):
                view.wait_for(lambda view: True)
            with pytest.raises(RuntimeError, match="callback"):
                view.replace(filter="")
            if record["id"] < 3:
                client.publish(topic, {"id": record["id"] + 1})
                client.flush()
            else:
                seen.extend(m.sow_key for m in client.sow(topic, filter="/id = 1") if m.command == "sow")
                view.close()

        with client.local_view(topic, on_insert=react) as view:
            client.publish(topic, {"id": 0})
            client.flush()
            with pytest.raises(SowlineError, match="closed"):
                view.wait_for(lambda view: len(view) == 9, SECONDS_MAX)
        assert (sorted(ids(view)), len(seen)) == ([0, 1, 2, 3], 1)


def test_closing_the_client_ends_its_views(served: Served) -> None:
    """Also one that is in the middle of a callback, and those who wait for one."""
    entered, go_on = threading.Event(), threading.Event()
    failed: list[BaseException | None] = []

    def hold(*_: object) -> None:
        entered.set()
        go_on.wait(SECONDS_MAX)

    topic, client = served.names["closed"], Client(served.url)
    view = client.local_view(topic)
    held = client.local_view(topic, filter="/id = 77", on_insert=hold)
    view.__enter__()
    held.__enter__()

    def wait() -> None:
        try:
            view.wait_for(lambda view: False)
        except SowlineError as error:
            failed.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    served.system.write(topic, {"id": 77})
    assert entered.wait(SECONDS_MAX)
    client.close()
    waiting.join(SECONDS_MAX)
    go_on.set()
    for one in (held, view):
        one.close()
        assert one.error is not None
        assert one.error.reason == "disconnected"
    assert failed == [view.error]
    with pytest.raises(SowlineError, match="closed"):
        client.local_view(topic).__enter__()


def test_a_callback_that_ends_the_program_ends_its_view(served: Served) -> None:
    """As far as that can be done from its thread; anyone who waits is told."""
    topic = served.names["left"]

    def leave(*_: object) -> None:
        raise SystemExit(3)

    with Client(served.url) as client, client.local_view(topic, filter="/id = 99", on_insert=leave) as view:
        served.system.write(topic, {"id": 99})
        for _ in range(2):
            with pytest.raises(SowlineError) as error:
                view.wait_for(lambda view: False, SECONDS_MAX)
            assert (error.value.reason, ids(view)) == ("internal", [99])
