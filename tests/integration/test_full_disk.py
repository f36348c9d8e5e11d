"""A disk that fills up under a worker: it says so, stops there, and goes on by itself once there is room."""

import asyncio
import random
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer

from sowline.config.kafka_options import kafka_config
from sowline.runtime.local_kafka import LocalKafka
from tests.integration.changes import check_chain, read_changes
from tests.integration.load import check_sow, model_of
from tests.integration.services import http_refusal, system
from tests.waiting import wait_for

BODY_BYTES = 20_000
RECORDS = 400
"""Of so many bytes: more than fits."""


@contextmanager
def small_disk(path: Path, mib: int) -> Iterator[None]:
    """Mount a disk in memory."""
    path.mkdir()
    subprocess.run(mount("-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", path), check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def mount(*options: object) -> list[str]:
    """Return the command that mounts."""
    return ["mount", *map(str, options)]


@pytest.mark.needs("mount")
def test_a_disk_that_fills_up(kafka: str, tmp_path: Path) -> None:
    """The worker stops before it loses anything, its health names the disk, and room is all it takes to go on."""
    name = f"t{uuid.uuid4().hex[:12]}-full"
    topics = [{"name": name, "key": ["/id"], "partitions": 2}]
    disk = tmp_path / "disk"
    with small_disk(disk, 4), system(kafka, tmp_path, topics) as made:
        worker = made.service("materializer", data_dir=disk / "sow").start().wait_ready()
        query = made.service("query_service").start()
        dice = random.Random(7)
        bodies = [
            {"id": number % 300, "qty": number, "text": dice.randbytes(BODY_BYTES // 2).hex()}
            for number in range(RECORDS)
        ]
        made.write(name, *bodies)
        refusal = wait_for(lambda: http_refusal(f"{worker.url}/readyz"), "the disk to be full")
        assert f"the disk of {disk}/sow is full" in refusal
        assert "No space left on device" in refusal
        assert worker.metric("sowline_disk_full") == 1
        assert '"event": "disk full"' in worker.log
        made.write(name, {"id": 1, "qty": -1})
        subprocess.run(mount("-o", "remount,size=200m", disk), check=True)
        worker.wait_ready()
        assert worker.metric("sowline_disk_full") == 0
        query.wait_ready()
        made.wait_settled(query.url, name)
        model = model_of(made, name)
        asyncio.run(check_sow(model, query.url, name))
        changes, _ = read_changes(made, name)
        check_chain(changes, model)
        assert "damaged" not in worker.log
        assert "loaded from the changes" not in worker.log
        assert worker.stop() == 0


def fill(kafka: LocalKafka, name: str, dice: random.Random) -> int:
    """Write records until the broker, whose disk is full, is gone; returns how many Kafka has acknowledged."""
    acknowledged: list[int] = []
    config = {**kafka_config(kafka.bootstrap), "enable.idempotence": True, "acks": "all", "linger.ms": 1}
    producer = Producer({**config, "message.timeout.ms": 3000, "partitioner": "murmur2_random"})
    for number in range(100_000):
        if kafka.pid is None:
            break
        body = {"id": number % 300, "qty": number, "text": dice.randbytes(BODY_BYTES // 2).hex()}
        producer.produce(
            name,
            orjson.dumps(body),
            str(body["id"]),
            on_delivery=partial(_note, acknowledged, number),
        )
        if number % 10 == 0:
            producer.flush(1.0)
    producer.flush(5.0)
    return len(acknowledged)


def _note(acknowledged: list[int], number: int, error: object, _: object) -> None:
    if error is None:
        acknowledged.append(number)


@pytest.mark.long
@pytest.mark.needs("mount")
def test_a_disk_that_broker_and_store_fill_up_together(tmp_path: Path) -> None:
    """The broker ends; with room and the broker back, all that Kafka has acknowledged is applied."""
    name, disk = f"t{uuid.uuid4().hex[:12]}-both", tmp_path / "disk"
    topics = [{"name": name, "key": ["/id"], "partitions": 2}]
    with (
        small_disk(disk, 64),
        LocalKafka(disk / "kafka") as kafka,
        system(kafka.bootstrap, tmp_path, topics) as made,
    ):
        worker = made.service("materializer", data_dir=disk / "sow").start().wait_ready()
        query = made.service("query_service").start().wait_ready()
        acknowledged = fill(kafka, name, random.Random(7))
        assert kafka.pid is None, "the broker has ended: its disk is full"
        wait_for(lambda: http_refusal(f"{worker.url}/readyz"), "the worker to say that it can't go on")
        subprocess.run(mount("-o", "remount,size=1g", disk), check=True)
        kafka.start()
        worker.wait_ready()
        query.wait_ready()
        made.write(name, {"id": 1, "qty": -1})
        ends = made.wait_settled(query.url, name)
        assert sum(ends.values()) > acknowledged
        model = model_of(made, name)
        asyncio.run(check_sow(model, query.url, name))
        changes, _ = read_changes(made, name)
        check_chain(changes, model)
        assert "damaged" not in worker.log
        assert worker.stop() == 0
