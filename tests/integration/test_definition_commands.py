"""`sowline plan`, `apply`, `status` and `drop` beside a running `sowline up`, as a person uses them."""

import json
import subprocess
import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from sowline import Client
from sowline.config.kafka_options import kafka_config
from sowline.errors import SowlineError
from sowline.kafka.admin import Cluster
from sowline.kafka.clients import read_range
from sowline.kafka.messages import headers_of
from tests.integration.command_line import SOWLINE, Up
from tests.integration.services import http_refusal
from tests.waiting import SECONDS_MAX, wait_for


class Desk:
    """A directory with a running `sowline up`, and a shell in it."""

    def __init__(self, kafka: str, directory: Path) -> None:
        self.kafka = kafka
        self.directory = directory
        self.name = f"t{uuid.uuid4().hex[:12]}"
        self.up = Up(directory, self.name, "--kafka", kafka, topics=self.text())
        self.addresses = self.up.wait_ready()

    def text(self, more: str = "", orders: str = "key: /id") -> str:
        """Return a file with the topic of orders and more topics, in one list."""
        return f"topics:\n- {{name: {self.name}-orders, {orders}}}\n{more}"

    def topic(self, name: str) -> str:
        """Return the line of a further topic."""
        return f"- {{name: {self.name}-{name}, key: /id}}\n"

    def write(self, text: str) -> str:
        """Write a new file beside the one in use, and return its name."""
        (self.directory / "new.yaml").write_text(text)
        return "new.yaml"

    def written(self) -> bytes:
        """Return the file in use."""
        return (self.directory / "topics.yaml").read_bytes()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the directory."""
        return subprocess.run(
            [str(SOWLINE), *arguments],
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )

    def lines(self, code: int, *arguments: str) -> list[dict[str, Any]]:
        """Run a command that prints JSON and exits with this code."""
        ended = self.run(*arguments)
        assert ended.returncode == code, ended
        return [json.loads(line) for line in ended.stdout.splitlines()]

    def publish(self, name: str, record: str) -> None:
        """Publish a record, and wait until it is applied."""
        ended = self.run("publish", f"{self.name}-{name}", "--wait", record)
        assert ended.returncode == 0, ended

    def ids(self, name: str) -> list[int]:
        """Return the records of a topic."""
        ended = self.run("sow", f"{self.name}-{name}", "--order-by", "/id")
        assert ended.returncode == 0, ended
        return [json.loads(line)["id"] for line in ended.stdout.splitlines()]


@pytest.fixture(scope="module")
def desk(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """One desk with an order for all tests: each leaves the file and the order as they were."""
    made = Desk(kafka, tmp_path_factory.mktemp("desk"))
    try:
        made.publish("orders", '{"id":1,"no":2}')
        yield made
    finally:
        made.up.close()


@pytest.fixture(autouse=True)
def _same(desk: Desk) -> Iterator[None]:
    yield
    assert desk.run("apply", desk.write(desk.text())).returncode == 0


def test_a_file_without_changes(desk: Desk) -> None:
    """There is nothing to do, and all services have it."""
    assert desk.run("plan").stdout.startswith("no changes: ")
    assert desk.lines(0, "plan", "--json") == []
    states = desk.lines(0, "status", "--json")
    assert len(states) == len(desk.addresses) - 4 + 1, "the query service and the others"
    assert len({one["digest"] for one in states}) == 1
    assert all(one["ready"] == "yes" for one in states)


def test_a_new_topic_is_planned_and_applied(desk: Desk) -> None:
    """Nothing happens before `apply`; after it, every service has the topic."""
    file = desk.write(desk.text(desk.topic("trades"), "key: /id, expiration: 1h"))
    plan = {one["name"]: (one["effect"], one["fields"]) for one in desk.lines(0, "plan", file, "--json")}
    assert plan == {f"{desk.name}-trades": ("new", []), f"{desk.name}-orders": ("live", ["expiration"])}
    assert "trades" not in (desk.directory / "topics.yaml").read_text()
    ended = desk.run("apply", file)
    assert (ended.returncode, ended.stdout.splitlines()[-1][:9]) == (0, "applied: ")
    desk.publish("trades", '{"id":7}')
    assert desk.ids("trades") == [7]
    assert desk.run("plan", file).stdout.startswith("no changes")


def test_what_can_not_take_effect_stops_apply(desk: Desk) -> None:
    """Unless the rest is asked for; then `status` names what is left."""
    file = desk.write(desk.text(desk.topic("deals"), "key: /no"))
    plan = {one["name"]: one for one in desk.lines(3, "plan", file, "--json")}
    orders = plan[f"{desk.name}-orders"]
    assert (orders["effect"], orders["fields"]) == ("needs a rebuild", ["key"])
    assert orders["log_records"] >= 1
    ended = desk.run("apply", file)
    assert ended.returncode == 3
    assert "nothing was applied" in ended.stderr
    assert "deals" not in (desk.directory / "topics.yaml").read_text()
    assert desk.run("apply", file, "--partly").returncode == 3
    desk.publish("deals", '{"id":8}')
    assert desk.ids("deals") == [8]
    status = desk.run("status")
    assert status.returncode == 1
    assert f"not in effect: {desk.name}-orders (key) needs a rebuild" in status.stdout
    assert desk.ids("orders") == [1]


def test_a_file_that_is_wrong_is_not_applied(desk: Desk) -> None:
    """Its errors name their lines."""
    ended = desk.run("apply", desk.write("topics:\n- {name: orders}\n"))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "line 2: topics.0.key (orders): expected this field, got nothing" in ended.stderr


def test_a_removed_topic_is_dropped(desk: Desk) -> None:
    """First it lists what it deletes, and it asks; what is defined is safe."""
    topic = f"{desk.name}-shortlived"
    assert desk.run("apply", desk.write(desk.text(desk.topic("shortlived")))).returncode == 0
    desk.publish("shortlived", '{"id":1}')
    ended = desk.run("drop", topic, "--yes")
    assert (ended.returncode, "topic in use: " in ended.stderr) == (1, True)
    assert desk.run("apply", desk.write(desk.text())).returncode == 0
    ended = desk.run("drop", topic)
    listed = ended.stdout.splitlines()
    assert (ended.returncode, "expected --yes without a terminal" in ended.stderr) == (1, True)
    assert listed[:3] == [
        f"Kafka topic {topic}.changes",
        f"Kafka topic {topic}.dead",
        f"Kafka topic {topic}, which has all commands that clients published",
    ]
    assert listed[3].endswith(f"/sow/{topic}")
    names = Cluster(kafka_config(desk.kafka)).topic_names
    assert {topic, f"{topic}.changes"} <= set(names())
    assert desk.run("drop", topic, "--yes").stdout.splitlines() == [*listed, f"deleted: {topic}"]
    wait_for(lambda: not [name for name in names() if name.startswith(topic)], "its Kafka topics to go")
    assert not (desk.directory / "state" / "sow" / topic).exists()
    assert desk.run("drop", topic, "--yes").stdout == f"nothing is left of {topic}\n"
    assert desk.ids("orders") == [1]


def test_a_dropped_topic_goes_on_in_a_later_era(desk: Desk) -> None:
    """What goes by its earlier positions misses no new record: views, fanouts, and clients with bookmarks.

    At first the new log is shorter than the earlier ones, then longer.
    """
    name = f"{desk.name}-again"
    defined = desk.text(
        f"- {{name: {name}, key: /id, partitions: 1}}\n"
        "views:\n"
        f"- {{name: {name}-plain, from: {name}, filter: '/q >= 0'}}\n"
        f"- {{name: {name}-groups, from: {name}, grouping: [/q], projection: [COUNT(1) AS /n]}}\n"
        f"- {{name: {name}-joined, from: {desk.name}-orders, join: [{{topic: {name}, on: /no = /id, as: x}}]}}\n"
        "conflated:\n"
        f"- {{name: {name}-slow, from: {name}, interval: 100ms}}\n"
        "fanouts:\n"
        f"- {{name: {name}, topic: {name}}}\n"
    )
    bookmarks: list[str] = []
    with Client(desk.addresses["url"]) as client:
        for era, count in enumerate((4, 2, 7)):
            assert desk.run("apply", desk.write(defined)).returncode == 0
            records = [{"id": number, "q": era} for number in range(count)]
            written = [client.publish(name, record, wait=True) for record in records]
            joined = {"x": records[2]} if count > 2 else {}
            expected: dict[str, list[dict[str, Any]]] = {
                name: records,
                f"{name}-plain": records,
                f"{name}-slow": records,
                f"{name}-groups": [{"q": era, "n": count}],
                f"{name}-joined": [{"id": 1, "no": 2, **joined}],
            }
            for topic, bodies in expected.items():
                _wait_for_records(client, topic, bodies)
            wait_for(lambda: _fanned_out(desk.kafka, f"fanout.{name}") == records, "the fanout")  # noqa: B023 - it is called at once
            assert written[-1] == f"{name}:0@{f'{era}/' if era else ''}{count - 1}"
            for bookmark in bookmarks:
                with pytest.raises(SowlineError) as expired:
                    next(iter(client.subscribe(name, bookmark=bookmark)))
                assert expired.value.reason == "bookmark_expired"
            whole = islice(client.subscribe(name, bookmark="epoch"), count)
            assert [json.loads(one.body or b"") for one in whole] == records
            bookmarks += [one for one in written if one is not None]
            assert desk.run("apply", desk.write(desk.text())).returncode == 0
            assert desk.run("drop", name, "--yes").returncode == 0


def test_a_source_that_comes_back_with_fewer_partitions(desk: Desk) -> None:
    """What a view and a fanout have of the others would never go: both stop, and say what to drop."""
    name = f"{desk.name}-fewer"

    def defined(partitions: int) -> str:
        return desk.text(
            f"- {{name: {name}, key: /id, partitions: {partitions}}}\n"
            "views:\n"
            f"- {{name: {name}-all, from: {name}, partitions: 1, grouping: [/q], projection: [COUNT(1) AS /n]}}\n"
            "fanouts:\n"
            f"- {{name: {name}, topic: {name}}}\n"
        )

    with Client(desk.addresses["url"]) as client:
        assert desk.run("apply", desk.write(defined(4))).returncode == 0
        for number in range(9):
            client.publish(name, {"id": number, "q": 1})
        _wait_for_records(client, f"{name}-all", [{"q": 1, "n": 9}])
        assert desk.run("apply", desk.write(desk.text())).returncode == 0
        assert desk.run("drop", name, "--yes").returncode == 0
        desk.run("apply", desk.write(defined(2)), "--wait", "0")
        refusals = [f"{desk.addresses[service]}/readyz" for service in ("materializer", "fanout")]
        for url in refusals:
            wait_for(lambda: "it had more before it was dropped" in http_refusal(url), "the refusal")  # noqa: B023 - it is called at once
        assert desk.run("apply", desk.write(desk.text())).returncode == 0
        for dropped in ((f"{name}-all",), (name, "--fanout"), (name,)):
            assert desk.run("drop", *dropped, "--yes").returncode == 0


def _wait_for_records(client: Client, topic: str, bodies: list[dict[str, Any]]) -> None:
    def found() -> list[dict[str, Any]]:
        return [json.loads(one.body) for one in client.sow(topic) if one.command == "sow"]

    wait_for(lambda: sorted(found(), key=str) == sorted(bodies, key=str), f"the records of {topic}")


def _fanned_out(kafka: str, topic: str) -> list[dict[str, Any]]:
    """Return the records that a reader of a fanout's topic holds."""
    held: dict[str, dict[str, Any]] = {}
    config = kafka_config(kafka)
    for messages in read_range(config, topic, 0, 0, Cluster(config).ends(topic, [0])[0]):
        for message in messages:
            about = json.loads(dict(headers_of(message) or ())["sow"] or b"")
            held.pop(about["sow_key"], None)
            if about["command"] != "oof":
                held[about["sow_key"]] = json.loads(message.value() or b"")
    return sorted(held.values(), key=lambda one: one["id"])


def test_services_that_do_not_answer_are_named(desk: Desk) -> None:
    """The others are asked; without any answer it is an error."""
    url = desk.addresses["materializer"]
    ended = desk.run("plan", "-u", url, "-u", "http://127.0.0.1:1")
    assert (ended.returncode, ended.stdout) == (0, "no changes: 1 services run by this file\n")
    assert "not asked: http://127.0.0.1:1: nothing listens" in ended.stderr
    assert desk.run("plan", "-u", "http://127.0.0.1:1").returncode == 1
    states = desk.lines(1, "status", "--json", "-u", url, "-u", "http://127.0.0.1:1")
    assert [one["ready"] for one in states] == ["yes", "no answer"]


def test_a_check_adds_its_topics_and_removes_them(desk: Desk) -> None:
    """The file is the same after it, and nothing is left in Kafka or in the services."""
    prefix, before = f"{desk.name}-check", desk.written()
    ended = desk.run("check", "--seconds", "3", "--prefix", prefix)
    assert ended.returncode == 0, ended
    added = ("records", "expiring", "documents", "totals", "records-open", "expiring-all")
    assert f"adding {', '.join(f'{prefix}-{name}' for name in added)} to " in ended.stderr
    assert "not checked" not in ended.stdout
    assert desk.written() == before
    assert [name for name in Cluster(kafka_config(desk.kafka)).topic_names() if prefix in name] == []
    assert list((desk.directory / "state" / "sow").glob(f"{prefix}*")) == []
    assert desk.run("status").returncode == 0


def test_a_check_leaves_topics_of_others_alone(desk: Desk) -> None:
    """A Kafka topic with a name of its own may have records that others need."""
    prefix, before = f"{desk.name}-others", desk.written()
    name = f"{prefix}-records"
    admin = AdminClient({**kafka_config(desk.kafka)})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(SECONDS_MAX)
    ended = desk.run("check", "--seconds", "3", "--prefix", prefix)
    assert ended.returncode == 1
    assert f"found {prefix}-records: choose another --prefix" in ended.stderr
    assert desk.written() == before
