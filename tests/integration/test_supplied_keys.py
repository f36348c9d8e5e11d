"""Topics whose keys publishers or key generators give, over a real Kafka: every key comes back as it was given."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from sowline import Client, SowlineError
from sowline.model.key import partition_of
from tests.integration.services import System, headers_of, http_text, post_commands, system
from tests.integration.wire import wire
from tests.property.keys import HOSTILE
from tests.unit.generators import install
from tests.waiting import wait_for

KINDS: dict[str, dict[str, Any]] = {
    "hostile": {"key": {"from": "kafka_key"}},
    "kafka": {"key": {"from": "kafka_key"}, "expiration": "enabled"},
    "header": {"key": {"from": "header"}, "expiration": "enabled"},
    "apis": {"key": {"from": "kafka_key"}},
    "documents": {"key": {"from": "kafka_key"}, "documents": True},
    "enriched": {
        "key": {"from": "kafka_key"},
        "preprocessing": ["CONCAT(/a, '!') AS /b"],
        "enrichment": ["SOW_KEY() AS /key"],
    },
    "fields": {"key": "/id"},
    "generated": {"key": {"generator": "desk", "options": {"separator": "/"}}},
    "placed": {"key": {"generator": "placed"}},
    "backup": {"key": {"from": "kafka_key"}},
}
NDJSON = "application/x-ndjson"


class Served:
    """A system with a topic of each kind."""

    def __init__(self, made: System, names: dict[str, str], url: str) -> None:
        self.system = made
        self.names = names
        self.url = url

    def settle(self, kind: str) -> str:
        """Wait until the query service has all of a topic; returns its name."""
        self.system.wait_settled(self.url, self.names[kind])
        return self.names[kind]

    def records(self, kind: str) -> dict[str, Any]:
        """Return the records of a topic by their SOW keys."""
        lines = http_text(f"{self.url}/v1/topics/{self.settle(kind)}/sow", b"").split("\n")[:-1]
        return {record["sow_key"]: record["data"] for record in map(json.loads, lines)}

    def dead(self, kind: str) -> list[str]:
        """Return the reasons of a topic's dead letters."""
        self.settle(kind)
        return [headers_of(m)["sow.reason"].decode() for m in self.system.read(f"{self.names[kind]}.dead")]


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """All services, with the generators of the tests installed."""
    prefix = f"t{uuid.uuid4().hex[:12]}"
    names = {kind: f"{prefix}-{kind}" for kind in KINDS}
    topics = [{"name": names[kind], "partitions": 3, **given} for kind, given in KINDS.items()]
    fanouts = [{"name": names["hostile"], "topic": names["hostile"]}]
    packages = tmp_path_factory.mktemp("packages")
    install(packages)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(packages))
        patch.setenv("PYTHONPATH", str(packages), prepend=":")
        with system(kafka, tmp_path_factory.mktemp("keys"), topics, fanouts) as made:
            services = [made.service(name).start() for name in ("materializer", "query_service", "fanout")]
            for service in services:
                service.wait_ready()
            yield Served(made, names, services[1].url)


def test_every_key_comes_back_as_it_was_given(served: Served) -> None:
    """From every output: queries, subscriptions, single records, changes, fanouts, dumps; then each is deleted."""
    topic = served.names["hostile"]
    bodies = {key: {"n": number} for number, key in enumerate(HOSTILE)}
    with wire(served.url) as live, Client(served.url, kafka=served.system.kafka) as client:
        live.send("subscribe", topic=topic, options="oof", ack_type="processed")
        assert live.receive()["status"] == "success"
        for key, body in bodies.items():
            client.publish(topic, body, key=key)
        client.flush()
        assert served.records("hostile") == bodies
        received = [message for _ in bodies for message in [live.receive()]]
        assert {message["sow_key"]: message["data"] for message in received} == bodies
        group = list(client.sow(topic, sow_keys=list(HOSTILE), order_by="/n"))
        assert [m.sow_key for m in group if m.command == "sow"] == list(HOSTILE)
        assert [client.record(topic, key) for key in HOSTILE] == list(bodies.values())
        with client.local_view(topic) as view:
            assert dict(view) == bodies
            assert view.verify(timeout=60)
        asked = quote(json.dumps(list(HOSTILE)), safe="")
        lines = http_text(f"{served.url}/v1/topics/{topic}/sow?sow_keys={asked}", b"").split("\n")[:-1]
        assert {json.loads(line)["sow_key"] for line in lines} == set(HOSTILE)
        written = wait_for(
            lambda: found if len(found := served.system.read(f"fanout.{topic}")) >= len(HOSTILE) else None,
            "the fanout to write them",
        )
        for message in written:
            key = (message.key() or b"").decode()
            assert json.loads(headers_of(message)["sow"])["sow_key"] == key
            assert json.loads(message.value() or b"") == bodies[key]
        changes = [m for m in served.system.read(f"{topic}.changes") if not m.key().startswith(b"\0")]  # type: ignore[union-attr]
        assert {m.key().decode() for m in changes} == set(HOSTILE)  # type: ignore[union-attr]
        owners = {m.key().decode(): m.partition() for m in changes}  # type: ignore[union-attr]
        assert owners == {key: partition_of(key, 3) for key in HOSTILE}
        assert client.sow_delete(topic, keys=HOSTILE[:10]) == 10
        assert [client.sow_delete(topic, key=key) for key in HOSTILE[10:]] == [1] * len(HOSTILE[10:])
        gone = [message for _ in HOSTILE for message in [live.receive()]]
        assert {m["sow_key"] for m in gone if m["command"] == "oof"} == set(HOSTILE)
    assert served.records("hostile") == {}


def check_state(served: Served, kind: str) -> None:
    """Applied again, the log makes the same keys; the local store, the changes and the log are equal."""
    topic, system = served.settle(kind), served.system
    where = [
        "--config",
        str(system.config),
        "--data-dir",
        str(system.directory / "sow"),
        "--kafka",
        system.kafka,
    ]
    command = [sys.executable, "-m", "sowline", "verify", topic, "--json", *where]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    verdicts = [json.loads(line) for line in run.stdout.splitlines()]
    assert (run.returncode, [verdict["equal"] for verdict in verdicts]) == (0, [True] * 3), run.stderr
    command = [sys.executable, "-m", "sowline", "dump", topic, "--from", "changes", *where]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    records = [line for line in map(json.loads, run.stdout.split("\n")[:-1]) if "data" in line]
    assert {line["sow_key"]: line["data"] for line in records} == served.records(kind)
    assert all(line["key"] == line["sow_key"] for line in records)


def test_plain_kafka_records_need_a_key(served: Served) -> None:
    """A record without one, or with no text, is a dead letter; a null deletes, wherever it was written."""
    topic = served.names["kafka"]
    for partition in range(3):
        served.system.produce(topic, b'{"n":%d}' % partition, b"p%d" % partition, 0)
    served.system.produce(topic, b'{"n":9}')
    served.system.produce(topic, b'{"n":9}', b"\xff")
    served.system.produce(topic, b'{"n":9}', b"a\n")
    served.system.produce(topic, b'{"n":9}', b"p0", headers=[("sow.key", b"p0")])
    assert served.records("kafka") == {"p0": {"n": 0}, "p1": {"n": 1}, "p2": {"n": 2}}
    assert sorted(served.dead("kafka")) == ["bad header", "bad key", "bad key", "key missing"]
    delta = [("sow.command", b"delta_publish")]
    served.system.produce(topic, b'{"m":1}', b"p1", partition_of("p1", 3), delta)
    served.system.produce(topic, None, b"p2", 0)
    served.system.produce(topic, b'{"any":1}', b"p0", 0, [("sow.command", b"sow_delete")])
    assert served.records("kafka") == {"p1": {"n": 1, "m": 1}}
    check_state(served, "kafka")


def test_keys_in_the_header(served: Served) -> None:
    """The record belongs where the header's key says, whatever the Kafka key; its owner forwards it."""
    topic, produce = served.names["header"], served.system.produce
    for partition in range(3):
        produce(topic, b'{"n":1}', b"other", partition, [("sow.key", b"a+/=-_%d" % partition)])
    produce(topic, b'{"n":1}', b"a", 0)
    produce(topic, b'{"n":1}', None, 0, [("sow.key", b"a b")])
    assert served.records("header") == {f"a+/=-_{n}": {"n": 1} for n in range(3)}
    assert sorted(served.dead("header")) == ["bad header", "key missing"]
    with Client(served.url, kafka=served.system.kafka) as client:
        client.publish(topic, {"n": 2}, key="a+/=-_0")
        client.delta_publish(topic, {"m": 3}, key="a+/=-_0")
        client.publish(topic, {"n": 4}, key="brief", expiration=0.001)
        client.flush()
        changes = f"{topic}.changes"
        wait_for(
            lambda: any(m.key() == b"brief" and m.value() is None for m in served.system.read(changes)),
            "the record to expire",
        )
        with pytest.raises(SowlineError, match="letters, digits") as error:
            client.publish(topic, {}, key="ü")
        assert error.value.reason == "bad key"
    produce(topic, None, b"other", 0, [("sow.key", b"a+/=-_1")])
    produce(topic, None, b"a+/=-_2", 0)
    assert served.records("header") == {"a+/=-_0": {"n": 2, "m": 3}}
    check_state(served, "header")


def post(served: Served, kind: str, command: str, body: Any, type: str = "", **given: str) -> dict[str, Any]:
    """POST a command and wait until it is applied."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return post_commands(served.url, served.names[kind], command, data, type, ack="processed", **given)


def test_the_apis_take_a_key(served: Served) -> None:
    """HTTP as a parameter, or one in each line; WebSocket as a field; without one nothing is written."""
    topic = served.names["apis"]
    assert post(served, "apis", "publish", {"n": 1}, sow_key="a/b")["outcomes"] == {"applied": 1}
    lines = b'{"sow_key":"x,y","data":{"n":2}}\n{"sow_key":"[","updated_at":"t:0@1","data":{"n":3}}\n'
    assert post(served, "apis", "publish", lines, NDJSON)["outcomes"] == {"applied": 2}
    assert post(served, "apis", "delta_publish", {"m": 1}, sow_key="a/b")["status"] == 200
    for answer in (
        post(served, "apis", "publish", {"n": 1}),
        post(served, "apis", "publish", b'{"n":1}\n', NDJSON),
        post(served, "apis", "sow_delete", {"n": 1}),
    ):
        assert (answer["status"], answer["reason"]) == (400, "key missing")
    for answer in (
        post(served, "fields", "publish", {"id": 1}, sow_key="1"),
        post(served, "apis", "publish", lines, NDJSON, sow_key="a"),
        post(served, "apis", "sow_delete", b"", sow_key="a", filter="1=1"),
        post(served, "apis", "sow_delete", b"", keys="[1"),
    ):
        assert (answer["status"], answer["reason"]) == (400, "bad request")
    with wire(served.url) as client:
        client.send("publish", topic=topic, sow_key='"', data={"n": 4}, ack_type="processed")
        assert client.receive()["status"] == "success"
        client.send("delta_publish", topic=topic, sow_key='"', data={"m": 4}, ack_type="processed")
        assert client.receive()["status"] == "success"
        assert client.fail("publish", topic=topic, data={"n": 4})["reason"] == "key missing"
        assert client.fail("delta", topic=topic, sow_key='"', data="{}")["reason"] == "no documents"
        assert served.records("apis") == {
            "a/b": {"n": 1, "m": 1},
            "x,y": {"n": 2},
            "[": {"n": 3},
            '"': {"n": 4, "m": 4},
        }
        client.send("sow_delete", topic=topic, sow_key='"', ack_type="stats")
        assert client.receive()["records_deleted"] == 1
        client.send("sow_delete", topic=topic, sow_keys='["x,y"]', ack_type="stats")
        assert client.receive()["records_deleted"] == 1
    assert post(served, "apis", "sow_delete", b"", keys='["[","none"]')["records_deleted"] == 1
    assert post(served, "apis", "sow_delete", {"any": 1}, sow_key="a/b")["records_deleted"] == 1
    assert served.dead("apis") == []


def test_deltas_have_no_key_fields(served: Served) -> None:
    """What has changed, and the SOW key beside it."""
    topic = served.names["apis"]
    with wire(served.url) as live, Client(served.url, kafka=served.system.kafka) as client:
        client.publish(topic, {"id": 1, "n": 1, "m": 1}, key="d")
        client.flush()
        served.settle("apis")
        live.send("sow_and_delta_subscribe", topic=topic, sow_keys=["d"])
        live.group()
        client.delta_publish(topic, {"n": 2}, key="d")
        client.publish(topic, {"id": 1, "n": 2}, key="d")
        client.delta_publish(topic, {"n": 2}, key="d")
        client.flush()
        received = [live.receive() for _ in range(3)]
        assert [(m["sow_key"], m["delta"], m["data"], m.get("removed")) for m in received] == [
            ("d", True, {"n": 2}, None),
            ("d", True, {}, ["/m"]),
            ("d", True, {}, None),
        ]
        written = client.publish_all(topic, [{"n": 3}, {"m": 4}], delta=True, key="d")
        assert (written.commands, written.outcomes) == (2, {"applied": 2})
        assert client.record(topic, "d", at_least=written.effect) == {"id": 1, "n": 3, "m": 4}
        assert client.sow_delete(topic, key="d") == 1


def test_documents(served: Served) -> None:
    """The key names the document, its content says nothing of it; `~id` is the key."""
    topic, key = served.names["documents"], 'a"/%,['
    with Client(served.url, kafka=served.system.kafka) as client:
        assert client.delta(topic, key, '{..,"n":1}', wait=True) == "applied"
        client.publish(topic, {"n": 2, "id": 7}, key=key)
        assert client.deltas(topic, key, '[{..,"n":3},{..,"n":3}]', wait=True) == ["applied", "noop"]
        assert client.record(topic, key) | {"~id": key, "n": 3, "id": 7} == client.record(topic, key)
        writes = client.timeline(topic, key)
        assert (writes["sow_key"], writes["key"], len(writes["writes"])) == (key, key, 4)
        assert client.sow_delete(topic, key=key) == 1
        assert client.record(topic, key)["~deleted"] is True
    answer = post(served, "documents", "delta", b'{"n":1}', sow_key="b")
    assert answer["each"] == ["applied"]
    assert served.records("documents") == {"b": {"n": 1}}


def test_enrichment_sees_the_key(served: Served) -> None:
    """Preprocessing and enrichment work as with key fields."""
    with Client(served.url, kafka=served.system.kafka) as client:
        client.publish(served.names["enriched"], {"a": 1}, key='k"')
        client.flush()
    assert served.records("enriched") == {'k"': {"a": 1, "b": "1!", "key": 'k"'}}


def test_a_generator_makes_keys(served: Served) -> None:
    """An installed entry point; where it makes none there is a dead letter, and the partition goes on."""
    topic = served.names["generated"]
    for partition in range(3):
        served.system.produce(topic, b'{"desk":"NY","id":%d}' % partition, None, 0)
    served.system.produce(topic, b'{"id":1}')
    served.system.produce(topic, b'{"desk":"\\n","id":1}')
    with Client(served.url, kafka=served.system.kafka) as client:
        client.publish(topic, {"desk": "LN", "id": 5, "n": 1})
        client.delta_publish(topic, {"desk": "LN", "id": 5, "m": 2})
        client.flush()
        with pytest.raises(SowlineError, match="makes the topic's keys"):
            client.publish(topic, {"desk": "LN", "id": 5}, key="LN/5")
        assert post(served, "generated", "publish", {"desk": "TK", "id": 1})["outcomes"] == {"applied": 1}
        assert post(served, "generated", "publish", {"id": 1})["reason"] == "key generator failed"
        served.settle("generated")
        assert client.record(topic, "LN/5") == {"desk": "LN", "id": 5, "n": 1, "m": 2}
        assert client.sow_delete(topic, data={"desk": "NY", "id": 0}) == 1
        assert client.sow_delete(topic, keys=["NY/1"]) == 1
    served.system.produce(topic, None, b"NY/2")
    assert set(served.records("generated")) == {"LN/5", "TK/1"}
    assert sorted(served.dead("generated")) == ["bad key", "key generator failed"]
    check_state(served, "generated")


def test_a_generator_that_asks_where_a_message_was_appended(served: Served) -> None:
    """Publishers can't know the key; the owner that gets the message does, and forwards it under that."""
    topic = served.names["placed"]
    assert post(served, "placed", "publish", {"n": 0})["outcomes"] == {"applied": 1}
    with Client(served.url, kafka=served.system.kafka) as client:
        for number in range(1, 10):
            client.publish(topic, {"n": number})
        client.flush()
    records = served.records("placed")
    assert sorted(record["n"] for record in records.values()) == list(range(10))
    assert (
        len({key.rpartition("/")[0].rpartition("/")[2] for key in records}) <= 2
    )  # the service's, and the client's
    assert served.dead("placed") == []
    check_state(served, "placed")


def sowline(served: Served, *arguments: str, text: str = "") -> list[Any]:
    """Run a command; returns the lines of JSON that it prints."""
    command = [str(Path(sys.executable).with_name("sowline")), *arguments, "--url", served.url]
    run = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.split("\n")[:-1]]


def test_the_command_takes_keys(served: Served) -> None:
    """One record with a key, many as lines that have theirs: what `sow --full` prints can be published again."""
    topic, kafka = served.names["apis"], ("--kafka", served.system.kafka)
    sowline(served, "publish", topic, '{"n":1}', "--key", "[a,b", *kafka)
    sowline(served, "publish", topic, "--keyed", *kafka, text='{"sow_key":"c\\"d","data":{"n":2}}\n')
    served.settle("apis")
    printed = sowline(served, "sow", topic, "--full", "--key", "[a,b", "--key", 'c"d', "--order-by", "/n")
    assert [line["sow_key"] for line in printed[1:-1]] == ["[a,b", 'c"d']
    lines = "".join(f"{json.dumps(line)}\n" for line in printed)
    sowline(served, "delta-publish", topic, "--keyed", *kafka, text=lines)
    assert sowline(served, "delete", topic, "--key", "[a,b", "--key", 'c"d') == [{"deleted": 2}]


def test_a_backup_keeps_the_keys(served: Served, tmp_path: Path) -> None:
    """Whatever they hold."""
    system, topic = served.system, served.names["backup"]
    with Client(served.url, kafka=system.kafka) as client:
        for key in HOSTILE:
            client.publish(topic, {"n": 1}, key=key)
        client.flush()
    served.settle("backup")
    where = ["--config", str(system.config), "--kafka", system.kafka]
    command = [sys.executable, "-m", "sowline", "backup", topic, str(tmp_path / "kept"), *where]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert json.loads(run.stdout)["records"] == len(HOSTILE), run.stderr


def test_topics_say_where_keys_come_from(served: Served) -> None:
    """Clients read it there."""
    about = json.loads(http_text(f"{served.url}/v1/topics"))["topics"]
    keys = {topic["name"]: topic["key"] for topic in about}
    assert keys[served.names["kafka"]] == {"from": "kafka_key"}
    assert keys[served.names["header"]] == {"from": "header"}
    assert keys[served.names["generated"]] == {
        "generator": "desk",
        "options": {"separator": "/"},
        "version": "1",
    }


def test_no_such_record(served: Served) -> None:
    """A key that no record has is an answer, whatever it is."""
    for key in ("none", "%00", "%FF"):
        with (
            pytest.raises(urllib.error.HTTPError) as error,
            urllib.request.urlopen(f"{served.url}/v1/topics/{served.names['kafka']}/records/{key}"),
        ):
            pass
        with error.value as answer:
            assert answer.code in (400, 404)
