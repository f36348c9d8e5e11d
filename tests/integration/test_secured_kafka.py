"""A Kafka with TLS and passwords: every service and client comes in with its options, and no secret comes out."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation
from structlog.testing import capture_logs

from sowline import Client
from sowline.client.publisher import Publisher
from sowline.config.kafka_names import LAST_ERAS
from sowline.config.kafka_options import kafka_config
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.kafka.admin import Cluster
from sowline.kafka.clients import read_range
from sowline.kafka.last_eras import note_begun_era
from sowline.kafka.native_reader import read_natively
from tests.integration.secured import PASSWORD, Secured, secured_broker
from tests.integration.services import ROOT, Service, http_refusal, http_text
from tests.waiting import wait_for

pytestmark = pytest.mark.needs("openssl")


class Served:
    """A materializer and a query service over a secured Kafka."""

    def __init__(self, kafka: Secured, directory: Path) -> None:
        self.kafka = kafka
        self.topic = f"t{uuid.uuid4().hex[:12]}-secured"
        self.config = config = directory / "topics.yaml"
        self.define()
        self.common = {
            "kafka": kafka.bootstrap,
            "kafka_options": json.dumps(kafka.options),
            "config": config,
            "data_dir": directory / "state",
            "group": self.topic,
        }
        self.worker = Service("materializer", directory, **self.common)
        self.query = Service("query_service", directory, **self.common)

    def define(self, *more: str) -> None:
        """Define the topic, and more."""
        self.config.write_text(
            f"topics: [{', '.join(f'{{name: {one}, key: /id}}' for one in (self.topic, *more))}]"
        )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The services, ready."""
    with secured_broker() as kafka:
        made = Served(kafka, tmp_path_factory.mktemp("secured"))
        with closing(made.worker.start()), closing(made.query.start()):
            made.query.wait_ready()
            yield made


def test_services_and_clients_come_in(served: Served) -> None:
    """With the same options, and each with its own."""
    with Client(served.query.url, kafka_options=served.kafka.options) as client:
        client.publish(served.topic, {"id": 1, "qty": 2})
        client.flush()
        wait_for(lambda: any(m.command == "sow" for m in client.sow(served.topic)), "the record to be there")


def test_the_native_reader_comes_in(served: Served) -> None:
    """With the options of Python's client, and reads the same."""
    native = pytest.importorskip("sowline_native")
    with Client(served.query.url, kafka_options=served.kafka.options) as client:
        client.publish(served.topic, {"id": 4})
        client.flush()
    kafka = kafka_config(served.kafka.bootstrap, served.kafka.options)
    changes = f"{served.topic}.changes"
    end = wait_for(lambda: Cluster(kafka).ends(changes, [0])[0], "changes")
    with capture_logs() as logs:
        found = [message for batch in read_natively(native, kafka, changes, 0, 0, end) for message in batch]
    expected = [message for batch in read_range(kafka, changes, 0, 0, end) for message in batch]
    assert [(message.offset(), message.key(), message.value(), message.headers()) for message in found] == [
        (message.offset(), message.key(), message.value(), message.headers()) for message in expected
    ]
    assert (bool(found), logs) == (True, [])


def test_the_command_line_comes_in(served: Served) -> None:
    """With the options of the environment, as a service has them."""
    done = subprocess.run(
        [sys.executable, "-m", "sowline", "publish", served.topic, '{"id":2}', "--url", served.query.url],
        env=os.environ | {"SOWLINE_KAFKA_OPTIONS": json.dumps(served.kafka.options)},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_doctor_comes_in(served: Served) -> None:
    """It needs to describe topics and groups, and says what it could not check without a right on the cluster."""
    done = subprocess.run(
        [sys.executable, "-m", "sowline", "doctor", "--url", served.query.url],
        env=os.environ
        | {
            "SOWLINE_KAFKA": served.kafka.bootstrap,
            "SOWLINE_KAFKA_OPTIONS": json.dumps(served.kafka.options),
            "SOWLINE_CONFIG": str(served.common["config"]),
            "SOWLINE_GROUP": served.topic,
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all applied" in done.stdout
    assert "found the settings of 1: Cluster authorization failed" in done.stdout


def test_every_connection_needs_credentials(served: Served) -> None:
    """And is told so, without the password that was tried."""
    wrong = served.kafka.options | {"sasl.password": "another secret"}
    topics = parse_topics(f"topics: [{{name: {served.topic}, key: /id}}]")
    publisher = Publisher(kafka_config(served.kafka.bootstrap, wrong), topics)
    publisher.publish(served.topic, {"id": 3})
    with pytest.raises(SowlineError) as error:
        publisher.flush(3)
    assert error.value.reason == "not written"
    assert "another secret" not in error.value.message


@pytest.mark.parametrize("right", [AclOperation.DESCRIBE, AclOperation.READ])
def test_eras_need_the_right_to_read_them(served: Served, right: AclOperation) -> None:
    """Without it, a dropped topic does not begin in an era that it has had: its partition says what to allow."""
    topic, plain = f"{served.topic}-{right.name.lower()}", kafka_config(served.kafka.plain)
    note_begun_era(plain, Cluster(plain), topic, 3)
    with served.kafka.denying(LAST_ERAS, right):
        served.define(topic)
        wait_for(
            lambda: "Allow Describe and Read on it" in http_refusal(f"{served.worker.url}/readyz"),
            "the refusal",
        )
    served.worker.stop()
    served.worker.start().wait_ready()
    with Client(served.query.url, kafka_options=served.kafka.options) as client:
        assert client.publish(topic, {"id": 1}, wait=True) == f"{topic}:0@4/0"
    served.define()


def test_no_secret_comes_out(served: Served) -> None:
    """Neither in a log, nor in an answer, a metric or a command's complaint."""
    pages = [http_text(f"{served.query.url}{path}") for path in ("/metrics", "/v1/topics", "/readyz")]
    texts = [served.worker.log, served.query.log, *pages]
    for broken in ('{"sasl.password": "%s"', "sasl.password=%s,no option"):
        done = subprocess.run(
            [sys.executable, "-m", "sowline_materializer"],
            env=os.environ | {"SOWLINE_KAFKA_OPTIONS": broken % PASSWORD},
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 1
        assert "SOWLINE_KAFKA_OPTIONS" in done.stdout + done.stderr
        texts.append(done.stdout + done.stderr)
    assert not any(PASSWORD in text for text in texts)
