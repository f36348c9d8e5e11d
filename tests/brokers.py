"""Where the tests' Kafka comes from: a running cluster, a container, or a broker of our own."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from sowline.runtime.local_kafka import SERVER_PROPERTIES, LocalKafka
from sowline.runtime.ports import free_port

IMAGE = "apache/kafka:4.3.1"
CONTAINER_SECONDS_MAX = 90.0


@contextmanager
def kafka_broker() -> Iterator[str]:
    """Yield the bootstrap address of `SOWLINE_KAFKA`, else of a container where Docker answers, else of our own."""
    running = os.environ.get("SOWLINE_KAFKA")
    if running:
        yield running
    elif docker_answers():
        with _container() as bootstrap:
            yield bootstrap
    else:
        with _local() as bootstrap:
            yield bootstrap


def docker_answers() -> bool:
    """Return whether a Docker engine is there, not only its client."""
    client = shutil.which("docker")
    asked = ["docker", "version", "--format", "{{.Server.Version}}"]
    return client is not None and subprocess.run(asked, capture_output=True, timeout=30).returncode == 0


@contextmanager
def _local() -> Iterator[str]:
    directory = Path(tempfile.mkdtemp(prefix="sowline-kafka-"))
    try:
        with LocalKafka(directory) as kafka:
            yield kafka.bootstrap
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _container() -> Iterator[str]:
    """Run the official image. Testcontainers' own KafkaContainer knows how to start Confluent's only."""
    from testcontainers.core.container import DockerContainer

    port = free_port()
    container = DockerContainer(IMAGE).with_bind_ports(9092, port)
    host = container.get_docker_client().host()
    for name, value in container_settings(f"{host}:{port}").items():
        container.with_env(name, value)
    with container:
        _wait_until_it_answers(f"{host}:{port}")
        yield f"{host}:{port}"


def container_settings(advertised: str) -> dict[str, str]:
    """Return the image's environment: `server.properties` but for what a container must have otherwise."""
    text = SERVER_PROPERTIES.read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    ours = dict(line.split("=", 1) for line in lines)
    del ours["controller.quorum.bootstrap.servers"]  # the image formats its storage with fixed voters
    settings = ours | {
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "advertised.listeners": f"PLAINTEXT://{advertised},CONTROLLER://localhost:9093",
        "controller.quorum.voters": "1@localhost:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": "/tmp/kafka-data",
    }
    return {"KAFKA_" + name.replace(".", "_").upper(): value for name, value in settings.items()}


def _wait_until_it_answers(bootstrap: str) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:
        client.list_topics(timeout=CONTAINER_SECONDS_MAX)
    except KafkaException as error:
        raise RuntimeError(f"expected {IMAGE} to answer at {bootstrap}, but: {error}") from error
