"""`sowline doctor` and `sowline top` over a real Kafka: next to services that run, and where much is wrong."""

import uuid
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
import yaml
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from sowline.cli import http, main
from sowline.cli.doctor import kafka as doctor_kafka
from tests.integration.services import SESSION_MS, System, http_text, system
from tests.waiting import SECONDS_MAX, wait_for


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is away in here, however busy the machine is."""
    monkeypatch.setattr(http, "ANSWER_SECONDS_MAX", SECONDS_MAX)
    for limit in ("ANSWER_SECONDS_MAX", "READ_SECONDS_MAX"):
        monkeypatch.setattr(doctor_kafka, limit, SECONDS_MAX)


def examine(made: System, urls: Sequence[str] = ()) -> tuple[int, dict[tuple[str, str], str]]:
    """Return the exit code of the doctor, and what it found that is not in order, by code and location."""
    where = ["--kafka", made.kafka, "--config", str(made.config), "--data-dir", str(made.directory / "sow")]
    done = CliRunner().invoke(
        main,
        ["doctor", "--json", *where, *(word for url in urls for word in ("--url", url))],
        env={"SOWLINE_GROUP": made.group, "SOWLINE_SESSION_TIMEOUT_MS": str(SESSION_MS)},
    )
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    lines = [orjson.loads(line) for line in done.output.splitlines()]
    return done.exit_code, {
        (line["code"], line["where"]): line["found"] for line in lines if line["severity"] != "ok"
    }


def test_a_sound_system_and_a_materializer_that_dies(kafka: str, tmp_path: Path) -> None:
    """Nothing is wrong while all runs, and the table shows the records; then the owner is missed, and what waits."""
    name = f"t{uuid.uuid4().hex[:12]}"
    typed = {"name": f"{name}-fix", "key": "/11", "message_type": "fix"}
    with system(kafka, tmp_path, [{"name": name, "key": "/id", "partitions": 2}, typed]) as made:
        materializer, query = made.service("materializer").start(), made.service("query_service").start()
        made.write(name, *({"id": n} for n in range(20)))
        query.wait_ready()
        made.wait_settled(query.url, name)
        assert examine(made, [query.url, materializer.url]) == (0, {})

        urls = ["--url", query.url, "--url", materializer.url]
        topics = f"{query.url}/v1/topics"
        wait_for(lambda: orjson.loads(http_text(topics))["topics"][0]["lag"] == 0, "the lag to be known")
        done = CliRunner().invoke(main, ["top", "--every", "0.2", *urls])
        (topic,) = [
            line.split()
            for line in done.output.splitlines()
            if line.startswith(f"{name} ") and "[" not in line
        ]
        assert (topic[:5], topic[6:]) == ([name, "20", "0", "0", "0"], ["0"])
        (service,) = [line.split() for line in done.output.splitlines() if line.startswith(materializer.url)]
        assert (service[1], service[-1]) == ("materializer", "ready")
        done = CliRunner().invoke(main, ["top", "--every", "0.2", "--once", "--json", *urls])
        assert {one["owner"] for one in orjson.loads(done.output)["partitions"]} == {materializer.url}

        materializer.kill()
        made.write(name, *({"id": n} for n in range(7)))
        wait_for(lambda: made.cluster.is_empty_group(f"{made.group}-materializer"), "the group to be empty")
        code, found = examine(made, [materializer.url])
        assert (code, found.pop(("service_away", materializer.url)) != "") == (1, True)
        assert found == {
            ("materializer_none", "materializers"): "none",
            ("behind", name): "7 records that wait",
        }


def test_what_is_wrong_is_found(kafka: str, tmp_path: Path) -> None:
    """A log without its time, dead letters, a topic that nobody made, and a setting that does not serve."""
    name = f"t{uuid.uuid4().hex[:12]}"
    topic = {"name": name, "key": "/id"}
    with system(kafka, tmp_path, [topic]) as made:
        made.create_topics()
        change(kafka, name, "message.timestamp.type", "CreateTime")
        change(kafka, f"{name}.changes", "min.compaction.lag.ms", "0")
        for reason in (b"not json", b"bad key", b"not json"):
            made.produce(f"{name}.dead", b"{", b"0@1", headers=[("sow.reason", reason)])
        made.config.write_text(yaml.safe_dump({"topics": [topic, {"name": f"{name}-new", "key": "/id"}]}))
        code, found = examine(made)
    assert code == 1
    assert found.pop(("dead_letters", f"{name}.dead")).startswith(
        "3 (2 not json, 1 bad key), the newest from 2"
    )
    assert found == {
        ("materializer_none", "materializers"): "none",
        ("log_time", name): "CreateTime",
        ("compaction_lag", f"{name}.changes"): "0",
        **{("topic_missing", f"{name}-new{end}"): "none" for end in ("", ".changes", ".dead")},
        ("state_none", str(tmp_path / "sow")): "no such directory",
    }


def change(kafka: str, topic: str, key: str, value: str) -> None:
    """Set a setting of a Kafka topic."""
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.incremental_alter_configs([resource])[resource].result(SECONDS_MAX)
