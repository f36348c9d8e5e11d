"""Kafka Streams' tables as entrants: a class of this directory, compiled for the run, that reads one topic."""

import os
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.merging import Entrant
from bench.peers.kafka_streams import JARS, Stores
from sowline.runtime.jars import retrieve
from sowline.runtime.java import find_java

HERE = Path(__file__).parent


@contextmanager
def table_application(
    name: str, bootstrap: str, topics: Sequence[str], stores: Stores = Stores.PLAIN
) -> Iterator[Entrant]:
    """One process of two threads, at least once, with empty stores; it writes to the last of the topics."""
    java = find_java()
    with tempfile.TemporaryDirectory() as directory:
        jars = os.pathsep.join(map(str, retrieve(JARS)))
        classes = Path(directory, "classes")
        subprocess.run(
            [java.with_name("javac"), "-cp", jars, "-d", classes, HERE / f"{name}.java"], check=True
        )
        run = [str(java), "-Xmx2g", stores.option, "-cp", os.pathsep.join((str(classes), jars)), name]
        command = [*run, bootstrap, *topics, str(Path(directory, "state")), f"table-{uuid.uuid4().hex}"]
        yield Entrant([(command, {})], topics[-1])
