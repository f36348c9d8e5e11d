"""Centrifugo as a server of many clients: built once per user, with a channel for each key.

It reads Kafka itself; a header of each record names its channel. It has its default settings, except that all may
connect, and that no ping is due in a measurement.
"""

import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.rates import Log, Server
from bench.service import Running, until
from sowline.config.kafka_options import kafka_config
from sowline.config.topic_definition import define_topic
from sowline.kafka.admin import Cluster
from sowline.runtime.jars import cache_directory
from sowline.runtime.ports import HOST, free_port

VERSION = "6.9.1"
MODULE = f"github.com/centrifugal/centrifugo/v6@v{VERSION}"
NAME = f"Centrifugo {VERSION}"
CHANNEL_HEADER = "channel"


@contextmanager
def centrifugo(kafka: str, partitions: int) -> Iterator[Server]:
    """Run it over its own topic."""
    topic, port = f"centrifugo-{uuid.uuid4().hex[:8]}", free_port()
    Cluster(kafka_config(kafka)).ensure_topic(
        define_topic(name=topic, key=("/order",), partitions=partitions)
    )
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "config.json"
        config.write_text(json.dumps(_config(kafka, topic, port)))
        command = [_program(), "--config", str(config)]
        process = Running(lambda: subprocess.Popen(command), f"http://{HOST}:{port}")
        try:
            until(process.has_started)
            yield Server(
                port,
                _subscribe,
                (b'"connect":{', b'"subscribe":{'),
                partial(Log, kafka, topic, CHANNEL_HEADER),
                lambda: process.usage().cpu_seconds,
            )
        finally:
            process.end()


def _subscribe(key: int) -> bytes:
    return b'{"id":1,"connect":{}}\n{"id":2,"subscribe":{"channel":"%d"}}' % key


def _config(kafka: str, topic: str, port: int) -> dict[str, object]:
    reading = {
        "brokers": kafka.split(","),
        "topics": [topic],
        "consumer_group": topic,
        "publication_data_mode": {"enabled": True, "channels_header": CHANNEL_HEADER},
    }
    return {
        "http_server": {"address": HOST, "port": port},
        "websocket": {"handler_prefix": "/v1"},
        "health": {"enabled": True, "handler_prefix": "/startupz"},
        "usage_stats": {"disabled": True},
        "log": {"level": "error"},
        "client": {"insecure": True, "ping_interval": "1h"},
        "consumers": [{"enabled": True, "name": "kafka", "type": "kafka", "kafka": reading}],
    }


def _program() -> str:
    """Return the program; it is built first if this user has none yet, which takes some minutes."""
    directory = cache_directory() / "bench" / f"centrifugo-{VERSION}"
    program = directory / "centrifugo"
    if not program.exists():
        print(f"sowline: building {NAME}, once per user", file=sys.stderr, flush=True)
        subprocess.run(["go", "install", MODULE], env={**os.environ, "GOBIN": str(directory)}, check=True)
    return str(program)
