"""Kafka Streams as an entrant: `Merge.java`, compiled for the run, over jars that are fetched once per user."""

import os
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from bench.merging import Entrant, Load
from bench.service import until
from sowline.runtime.jars import JarSet, retrieve
from sowline.runtime.java import find_java

VERSION = "4.4.0"
JARS = JarSet(
    f"kafka-streams-{VERSION}",
    (("org.apache.kafka", "kafka-streams", VERSION), ("org.slf4j", "slf4j-nop", "1.7.36")),
)
SOURCE = Path(__file__).parent / "Merge.java"


class Stores(StrEnum):
    """How Kafka Streams writes its stores; the value is the name of the entrant.

    Transactional stores hold writes back until the changelog has them, so that a crash leaves none beyond it.
    """

    PLAIN = f"Kafka Streams {VERSION}"
    TRANSACTIONAL = f"Kafka Streams {VERSION}, transactional stores"

    @property
    def option(self) -> str:
        """Java's option for it, which the compiled classes give to Kafka Streams."""
        return f"-Denable.transactional.statestores={str(self is Stores.TRANSACTIONAL).lower()}"


@contextmanager
def kafka_streams(load: Load, output: str, stores: Stores) -> Iterator[Entrant]:
    """One process of two threads, at least once, with an empty store."""
    with compiled() as java, tempfile.TemporaryDirectory() as state:
        log = load.definition.log
        application = Application(java, load.bootstrap, log, output, Path(state), stores)
        yield Entrant([(application.command, {})], output)


@contextmanager
def compiled() -> Iterator[list[str]]:
    """Lend the command that runs a class of the compiled source."""
    java = find_java()
    with tempfile.TemporaryDirectory() as classes:
        jars = os.pathsep.join(map(str, retrieve(JARS)))
        subprocess.run([java.with_name("javac"), "-cp", jars, "-d", classes, SOURCE], check=True)
        yield [str(java), "-Xmx2g", "-cp", os.pathsep.join((classes, jars))]


class Application:
    """A Kafka Streams application that does the job between two topics, with its state in a directory."""

    def __init__(
        self, java: Sequence[str], bootstrap: str, log: str, output: str, state: Path, stores: Stores
    ) -> None:
        self.state = state
        name = f"streams-{uuid.uuid4().hex}"
        self.command = [*java, stores.option, "Merge", bootstrap, log, output, str(state), name]

    def start(self, is_done: Callable[[], bool] = lambda: True) -> tuple[float, int]:
        """Run it until it has its state and then until it is done, and stop it in order: it commits.

        Return the seconds until it had its state, and how many records of that came from the changelog.
        """
        began, restored = time.monotonic(), 0
        with subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                word, *number = line.split()
                restored += int(number[0]) if word == "RESTORED" else 0
                if word == "RUNNING":
                    break
            seconds = time.monotonic() - began
            if process.poll() is None:
                until(is_done)
            process.terminate()
            process.communicate()
        return seconds, restored
